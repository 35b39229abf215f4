"""The runs of a folder, read from their files: growing files, resumed runs, and files with any content."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from veritas_rl.viewing.games_page import write_games
from veritas_rl.viewing.watch.runs import MOST_POINTS, Metrics, Runs
from veritas_rl.viewing.watch.server import make_app

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


def line(step: int, **more: float) -> str:
    data = {"critic/score/mean": step / 1000, "task/success": 0.25, "task/illegal": 0.125, "timing_s/step": 2.0, **more}
    return (
        json.dumps({"step": step, "data": {**data, **{f"other/metric_{number}": 0.5 for number in range(100)}}}) + "\n"
    )


def make_run(folder: Path, steps: int, game: str = "hex") -> Path:
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/overrides.yaml").write_text(
        f"- ++data.custom_cls.config.adapter_config.game_types='{game}'\n- ray_kwargs.x=hidden\n"
    )
    (folder / ".hydra/config.yaml").write_text(
        "a:\n  total_training_steps: 3\ntrainer:\n  total_training_steps: ${veritas_rl.steps.${veritas_rl.play}}\n"
        "veritas_rl:\n  play: move\n  steps:\n    move: 1000\n"
    )
    (folder / "verl.log").write_text(
        f"noise\ncurriculum: stage easy passed {HOSTILE}\nthe disk is nearly full: 1 GiB\n"
    )
    (folder / "metrics.jsonl").write_text("".join(line(step + 1) for step in range(steps)))
    return folder


def test_metrics_grow_and_shrink_with_their_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.read()
    assert metrics.steps == []
    path.write_text(line(1) + line(2)[:50])
    metrics.read()
    assert metrics.steps == [1]
    with path.open("a") as file:
        file.write(line(2)[50:] + line(3, extra=7) + "no json\n[1]\n" + '{"step": 4, "data": {"nan": NaN, "s": "x"}}\n')
    metrics.read()
    assert metrics.steps == [1, 2, 3, 4]
    assert metrics.columns["extra"] == [None, None, 7, None]
    assert metrics.curve("extra") == [(3, 7)]
    assert not metrics.columns.keys() & {"nan", "s"}
    # A resumed run trains step 3 again, and appends to the same file or rewrites the file.
    with path.open("a") as file:
        file.write(line(3, extra=8))
    metrics.read()
    assert (metrics.steps, metrics.last("extra")) == ([1, 2, 3], 8)
    path.write_text(line(1))
    metrics.read()
    assert metrics.steps == [1]


def test_long_curves_are_drawn_by_their_means(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step, "data": {"a": step}}) + "\n" for step in range(1, 1201)))
    metrics = Metrics(path)
    metrics.read()
    curve = metrics.curve("a")
    assert len(curve) == 400 <= MOST_POINTS
    assert curve[0] == (3, 2.0)
    assert curve[-1] == (1200, 1199.0)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    run = make_run(tmp_path / "2026-11-22/10-00-00-000", 12)
    write_games(run / "games", "step_10", [], "Games")
    write_games(run / "games", "step_5", [], "Games")
    make_run(tmp_path / "2026-11-22/11-00-00-000", 3, game="othello")
    evaluation = tmp_path / "evaluations/some-model"
    evaluation.mkdir(parents=True)
    cost = {"model": HOSTILE, "requests": 3, "prompt_tokens": 5, "tokens": 7, "money": 0.5, "currency": "USD"}
    (evaluation / "report.json").write_text(json.dumps({"cost": [cost]}))
    with TestClient(make_app(tmp_path, price_hour=3.0), "http://127.0.0.1") as made:
        yield made


def test_runs_are_listed_with_what_they_do(client: TestClient) -> None:
    listed = {run["name"]: run for run in client.get("/runs").json()}
    assert set(listed) == {"2026-11-22/10-00-00-000", "2026-11-22/11-00-00-000", "evaluations/some-model"}
    run = listed["2026-11-22/10-00-00-000"]
    assert (run["title"], run["step"], run["success"]) == ("hex", 12, 0.25)
    assert (run["kind"], run["state"]) == ("training", "running")
    assert listed["evaluations/some-model"]["kind"] == "evaluation"
    found = client.get("/run", params={"name": run["name"]}).json()
    assert found["steps"] == 1000
    assert found["pages"] == ["games/step_10.html", "games/step_5.html"]
    assert found["said"] == [f"curriculum: stage easy passed {HOSTILE}", "the disk is nearly full: 1 GiB"]
    assert found["mistakes"] == {"illegal": 0.125}
    assert (found["seconds"], found["money"]) == (24.0, 24 / 3600 * 3)
    assert all("hidden" not in word for word in found["typed"])
    spent = client.get("/run", params={"name": "evaluations/some-model"}).json()["spent"]
    assert (spent[0]["tokens"], spent[0]["money"]) == (7, 0.5)


@pytest.mark.parametrize(
    ("overrides", "title"),
    [
        ([], "run"),
        (["+reasoning-gym@_global_=config", "trainer.total_training_steps=3"], "reasoning-gym"),
        (["+lgc-v2@_global_=config", "data.custom_cls.config.adapter_config.cases='sudoku'"], "lgc-v2, sudoku"),
        (["environment=trace"], "trace"),
        (
            ["environment=other", "data.custom_cls.config.env='openenv:http://127.0.0.1:8000'"],
            "openenv:http://127.0.0.1:8000",
        ),
    ],
)
def test_a_run_has_the_name_of_what_it_trains(overrides: list[str], title: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1)
    (run / ".hydra/overrides.yaml").write_text(json.dumps(overrides))
    (found,) = Runs(tmp_path).all()
    assert found.title() == title


def test_curves_of_several_runs(client: TestClient) -> None:
    names = [run["name"] for run in client.get("/runs").json() if run["kind"] == "training"]
    params = {"run": names, "metric": ["critic/score/mean", "not there"]}
    drawn = client.get("/curves", params=params).json()
    points = {name: len(found) for name, found in drawn["critic/score/mean"].items()}
    assert points == {"2026-11-22/10-00-00-000": 12, "2026-11-22/11-00-00-000": 3}
    assert drawn["not there"] == {}


def test_nothing_else_is_opened(client: TestClient) -> None:
    name = "2026-11-22/10-00-00-000"
    page = client.get("/page", params={"name": name, "page": "games/step_5.html"})
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == "sandbox allow-scripts"
    for other in ("verl.log", "../11-00-00-000/verl.log", "games/../verl.log", "/etc/passwd", ".hydra/config.yaml"):
        assert client.get("/page", params={"name": name, "page": other}).status_code == 409
    for run in ("..", "/", "2026-11-22", "nobody"):
        assert client.get("/run", params={"name": run}).status_code == 409
    assert client.get("/curves").status_code == 422
    assert client.get("/curves", params={"run": [name] * 99, "metric": "a"}).status_code == 409
    assert client.get("/runs", headers={"Host": "attacker.example"}).status_code == 403


def test_one_run_and_an_empty_folder(tmp_path: Path) -> None:
    assert Runs(tmp_path).all() == []
    run = make_run(tmp_path / "copied", 2)
    (only,) = Runs(run).all()
    assert only.name == "copied"
    assert Runs(run).get("copied") is not None


def test_nothing_is_changed(client: TestClient, tmp_path: Path) -> None:
    def state() -> dict[str, Any]:
        return {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    before = state()
    for run in client.get("/runs").json():
        client.get("/run", params={"name": run["name"]})
    assert state() == before


def test_a_run_of_a_thousand_steps_opens_in_under_a_second(browser: Any, tmp_path: Path, serve_page: Any) -> None:
    run = make_run(tmp_path / "long", 1000)
    make_run(tmp_path / "other", 5, game=HOSTILE.replace("'", ""))
    url = serve_page(make_app(tmp_path))
    taken = []
    for _ in range(3):  # the machine may be busy
        browser.get("about:blank")
        browser.get(f"{url}/#long")
        deadline = time.monotonic() + 10
        while not browser.execute_script("return document.querySelectorAll('#curves polyline').length >= 4"):
            assert time.monotonic() < deadline
        # The page's own measurement from navigation to the curves, without the time of the driver.
        taken.append(browser.execute_script("return Number(document.body.dataset.after)"))
    assert min(taken) < 1000
    assert "step 1000 of 1000" in browser.find_element("id", "facts").text
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line(1001))
    browser.execute_script("look()")
    deadline = time.monotonic() + 10
    while "step 1001" not in browser.find_element("id", "facts").text:
        assert time.monotonic() < deadline
    assert HOSTILE in browser.find_element("id", "said").text
    assert browser.title == "Runs"
    browser.find_elements("css selector", "#list input:not(:disabled)")[0].click()
    deadline = time.monotonic() + 10
    while not browser.find_elements("css selector", ".legend .c1"):
        assert time.monotonic() < deadline
    assert not browser.find_elements("css selector", "main img")
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([3.9988, 4.0021], ["3.999", "4.000", "4.001", "4.002"]),
        ([0.25, 0.75], ["0.3", "0.4", "0.5", "0.6", "0.7"]),
        ([0, 0.6], ["0.0", "0.2", "0.4", "0.6"]),
        ([12, 12], ["10", "15"]),
        ([0, 0], ["-0.4", "-0.2", "0.0", "0.2", "0.4"]),
        ([90, 2210], ["500", "1,000", "1,500", "2,000"]),
        ([0, 4.2e-6], ["0", "1e-6", "2e-6", "3e-6", "4e-6"]),
        ([1_000_040, 1_000_060], ["1.000040e+6", "1.000045e+6", "1.000050e+6", "1.000055e+6", "1.000060e+6"]),
        ([-3e7, 3e7], ["-2e+7", "0", "2e+7"]),
    ],
)
def test_the_values_of_an_axis_are_round_and_differ(
    values: list[float], texts: list[str], browser: Any, tmp_path: Path, serve_page: Any
) -> None:
    run = make_run(tmp_path / "run", 0)
    (run / "metrics.jsonl").write_text(
        "".join(line(step + 1, **{"response_length/mean": value}) for step, value in enumerate(values))
    )
    browser.get(f"{serve_page(make_app(tmp_path))}/#run")
    read = (
        "return [...document.querySelectorAll('#curves figure')]"
        ".filter((one) => one.querySelector('figcaption span').textContent === 'Tokens of a reply')"
        ".flatMap((one) => [...one.querySelectorAll('text[text-anchor=end]')].slice(0, -1))"
        ".map((text) => text.textContent)"
    )
    deadline = time.monotonic() + 10
    while not (shown := browser.execute_script(read)):
        assert time.monotonic() < deadline
    assert shown == texts
    edges = "return [...document.querySelectorAll('#curves text')].map((text) => text.getBBox().x)"
    assert min(browser.execute_script(edges)) >= 0


def test_recorded_games_are_stepped_through_from_there(
    browser: Any, tmp_path: Path, serve_page: Any, play_games: Any
) -> None:
    run = make_run(tmp_path / "run", 2)
    write_games(run / "games", "step_2", play_games("hex(board_size=3)", 2), "Games")
    url = serve_page(make_app(tmp_path))
    browser.get(f"{url}/page?name=run&page=games/step_2.html")
    assert browser.find_elements("css selector", ".picture.hex polygon")
    first = browser.find_element("id", "where").text
    browser.find_element("id", "next").click()
    assert browser.find_element("id", "where").text != first
