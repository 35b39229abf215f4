"""A real browser, servers of pages, and played games.

The browser is Chromium, driven by Selenium. Tests that need them are skipped if either is missing.
"""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from veritas_rl.envs.base import play
from veritas_rl.envs.registry import get_environment, make_task
from veritas_rl.players.random import RandomPlayer
from veritas_rl.viewing.recording import PlayedGame, RecordedSession

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs Selenium, which the dev packages have")
    if not BROWSER or not DRIVER:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield made
    made.quit()


@pytest.fixture
def serve_page(browser: Any) -> Iterator[Callable[[Any], str]]:
    """Serves applications on free ports of this machine; returns their addresses."""
    servers = []
    browser.get_log("browser")  # clears the log of earlier pages

    def start(app: Any) -> str:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    browser.get("about:blank")
    for server, thread in servers:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def play_games() -> Callable[[str, int], list[PlayedGame]]:
    """Plays games of a two-player case between random players."""

    def make(case: str, count: int) -> list[PlayedGame]:
        sessions = []
        for k in range(count):
            task = make_task("openspiel", case, k, mode="episode", seat=k % 2)
            sessions.append(RecordedSession(get_environment("openspiel").start(task), lambda seat: f"bot {seat}"))
        play(sessions, RandomPlayer(1))
        return [session.game() for session in sessions]

    return make
