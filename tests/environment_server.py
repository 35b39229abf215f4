"""The server of this package's environments, for tests."""

import threading
import time
from typing import Any

import uvicorn

from veritas_rl.serving.app import make_app
from veritas_rl.serving.limits import KEEP_ALIVE, LOOPBACK, Limits
from veritas_rl.serving.offer import Offer


class Server:
    """The server in a thread of this process, on a free port."""

    def __init__(self, offers: list[Offer], limits: Limits | None = None, token: str = "", **more: Any) -> None:
        app = make_app(offers, limits or Limits(), token, LOOPBACK, **more)
        largest = (limits or Limits()).body
        settings: dict[str, Any] = {"log_level": "error", "timeout_keep_alive": KEEP_ALIVE, "ws_max_size": largest}
        self.server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, **settings))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)
