"""An environment behind an address: this package's server, and faulty servers."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.affinetes import calls
from veritas_rl.envs.base import Reason, Reply, Session, Turn, play
from veritas_rl.envs.registry import get_environment, open_catalogue, task_from_dict, task_from_id
from veritas_rl.errors import UserError
from veritas_rl.launch import rl
from veritas_rl.launch.hardware import Hardware
from veritas_rl.serving.episodes import Episode
from veritas_rl.serving.offer import Offer, Start

ROOT = Path(__file__).resolve().parents[2]


class FirstListed:
    """A player that takes the first legal action listed in the prompt."""

    def act(self, turns: Any) -> list[Reply]:
        numbers = [re.findall(r"^(\d+): ", turn.messages[-1]["content"], re.MULTILINE) for turn in turns]
        return [Reply(f"\\boxed{{{found[0]}}}" if found else "no idea") for found in numbers]


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any]) -> str:
    return serve([Offer("openspiel", opponents=["random"]), Offer("lgc-v2")]).url


def catalogue(url: str, split: str = "train", **settings: Any) -> Any:
    return open_catalogue({"env": f"affinetes:{url}", "adapter_config": settings}, split)


def test_a_game_on_a_server_goes_and_pays_like_the_same_game_here(url: str) -> None:
    first = 600000000
    tasks = [catalogue(url, first_task_id=first, seed=seed)[k] for seed in (0, 1) for k in range(4)]
    sessions = [get_environment(task.env).start(task) for task in tasks]
    away = [scores[0] for scores in play(sessions, FirstListed())]
    offer = Offer("openspiel", opponents=["random"])
    for task, score in zip(tasks, away, strict=True):
        episode = Episode(offer.task(Start(task_id=first + 2 * task.k, seed=task.seed))[0])
        while episode.shown.turn is not None:
            episode.answer(FirstListed().act([episode.shown.turn])[0])
        assert score.value == episode.shown.reward
        assert score.success == (score.value > 0.5)
    assert {score.value for score in away} == {0.0, 1.0}


def test_training_and_validation_ask_for_other_numbers(url: str) -> None:
    numbers = [{task.task_id for task in catalogue(url, split, num_tasks_per_case=50)} for split in ("train", "val")]
    assert not numbers[0] & numbers[1]
    assert numbers[0] | numbers[1] == set(range(100))


def test_a_task_is_rebuilt_from_its_values_and_its_id(url: str) -> None:
    task = catalogue(url, rival="random", seed=7)[3]
    assert task_from_dict(task.to_dict()) == task
    assert task_from_id(task.id).to_dict() == {**task.to_dict(), "seat": -1}
    assert get_environment("affinetes").task_type is type(task)


def session(url: str, **settings: Any) -> Session:
    task = catalogue(url, **settings)[0]
    return get_environment(task.env).start(task)


def turn_of(session: Session) -> Turn:
    (turn,) = session.turns()
    return turn


def test_a_chat_grows_and_a_mistake_may_be_made_good(url: str) -> None:
    played = session(url, first_task_id=600000000)
    first = turn_of(played)
    assert [message["role"] for message in first.messages] == ["user"]
    played.step({0: Reply("I do not know")})
    assert played.rejected == {0: Reason.UNPARSEABLE}
    second = turn_of(played)
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert first.opening == second.opening == 1
    played.step(dict(enumerate(FirstListed().act([first]))))
    assert played.rejected == {}


def test_a_cut_reply_is_never_sent(url: str) -> None:
    played = session(url, first_task_id=600000000)
    played.step({0: Reply("\\boxed{1}", truncated=True)})
    assert played.scores()[0].reason is Reason.TRUNCATED
    assert not played.turns()


def test_a_session_without_an_end_ends(url: str) -> None:
    played = session(url, first_task_id=600000000, most_steps=2)
    for _ in range(2):
        played.step({0: FirstListed().act([turn_of(played)])[0]})
    assert played.scores()[0].reason is Reason.UNFINISHED


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("affinetes", "the address of the server is missing"),
        ("affinetes:", "the address of the server is missing"),
        ("affinetes:localhost:8000", "no address of a server"),
        ("affinetes:http://[", "no address of a server"),
        ("affinetes:http://me:secret@host:8000", "must not contain a password"),
    ],
)
def test_a_wrong_address_is_one_line(name: str, says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)) as wrong:
        open_catalogue({"env": name}, "train")
    assert "secret" not in str(wrong.value)


def test_a_server_that_does_not_answer_is_named(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WAIT", 0.01)
    with pytest.raises(UserError, match=rf"http://127.0.0.1:{free_port} failed 4 times"):
        session(f"http://127.0.0.1:{free_port}")


@pytest.fixture
def answering() -> Iterator[Callable[[list[tuple[int, str]]], tuple[str, list[str]]]]:
    """Starts a server that gives prepared answers in order and repeats the last; returns its address and requests."""
    running: list[ThreadingHTTPServer] = []

    def start(answers: list[tuple[int, str]]) -> tuple[str, list[str]]:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                code, text = answers[min(len(asked), len(answers)) - 1]
                if code == 0:
                    return  # as if the server had crashed
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        running.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=running[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_address[1]}", asked

    yield start
    for http in running:
        http.shutdown()
        http.server_close()


BEGUN = (200, '{"status": "success", "result": {"observation": "go", "done": false, "episode_id": "e"}}')


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, "x" * 1000), "refused a reset (HTTP 500): x"),
        ((404, '{"detail": "no"}'), "refused a reset (HTTP 404)"),
        ((200, "<html>"), "is no environment of affinetes"),
        ((200, "[]"), "is no environment of affinetes"),
        ((200, "[" * 100_000), "is no environment of affinetes"),
        ((200, '{"status": "success", "result": 3}'), "is no environment of affinetes"),
        ((200, '{"status": "failed", "result": {"error": "no"}}'), "failed in a reset"),
        ((200, '{"status": "success", "result": {"observation": "x"}}'), "started no session"),
        ((200, '{"status": "success", "result": {"done": true, "reward": NaN}}'), "a reward that is no number"),
        ((200, '{"status": "success", "result": {"done": true, "reward": "1"}}'), "a reward that is no number"),
    ],
)
def test_a_server_that_answers_wrongly_is_one_line(answering: Any, answer: tuple[int, str], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)) as wrong:
        session(answering([answer])[0])
    assert len(str(wrong.value)) < 500


def test_a_reset_is_tried_again_and_a_step_only_where_nothing_was_done(
    answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "WAIT", 0.01)
    url, asked = answering([(503, "busy"), (0, ""), (502, ""), BEGUN, (503, "busy"), BEGUN, (0, ""), (502, "")])
    played = session(url)
    assert len(asked) == 4
    played.step({0: Reply("a")})
    assert len(asked) == 6
    with pytest.raises(UserError, match="was lost during a step"):
        played.step({0: Reply("b")})
    with pytest.raises(UserError, match=re.escape("refused a step (HTTP 502)")):
        played.step({0: Reply("c")})
    assert len(asked) == 8


def test_rewards_are_cut_to_the_range_of_scores(answering: Any) -> None:
    for reward, value in ((7, 1.0), (-3, 0.0), (0.25, 0.25)):
        answer = f'{{"status": "success", "result": {{"observation": "x", "done": true, "reward": {reward}}}}}'
        assert session(answering([(200, answer)])[0]).scores()[0].value == value


def test_a_run_on_a_server_names_a_next_step(url: str, tmp_path: Path) -> None:
    typed = [f"data.custom_cls.config.env=affinetes:{url}", f"trainer.default_local_dir={tmp_path}"]
    typed += ["data.custom_cls.config.adapter_config.first_task_id=200000000", "veritas_rl.evaluation=null"]
    run = rl.plan(typed, {"AGENT_MODEL_REPO_ID": str(tmp_path)}, Hardware(2, 0, 0), datetime(2026, 1, 2))
    assert run.next_steps(None)


@pytest.mark.long
def test_the_command_line_evaluates_on_a_server(url: str, tiny_model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "train/tools/evaluate.py", "--env", f"affinetes:{url}/lgc-v2", "--checkpoint"]
    command += [str(tiny_model), "--num_episodes", "6", "--max_tokens", "8", "--config", "first_task_id=300000000"]
    done = subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.json").is_file()


@pytest.mark.long
@pytest.mark.training
def test_a_served_game_is_trained_on_and_a_server_that_is_gone_ends_the_run(
    tiny_model: Path, tmp_path: Path, free_port: int
) -> None:
    def train(address: str, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "veritas_rl.launch.main", f"trainer.default_local_dir={folder}"]
        command += ["data.custom_cls.config.adapter_config.first_task_id=200000000"]
        command += [f"data.custom_cls.config.env=affinetes:{address}", "trainer.total_training_steps=2"]
        command += ["data.train_batch_size=4", "veritas_rl.evaluation=null", "veritas_rl.critic_warmup=0"]
        command += ["data.max_prompt_length=256", "data.max_response_length=256"]
        environment = {**os.environ, "AGENT_MODEL_REPO_ID": str(tiny_model)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    served = [sys.executable, "train/tools/serve.py", "--games", "leduc_poker", "--config", "prompt=brief"]
    process = subprocess.Popen(
        [*served, "--opponents", "random", "--port", str(free_port)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        done = train(address, tmp_path / "run")
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    folder = Path(json.loads((tmp_path / "run/run.json").read_text())["folder"])
    steps = [json.loads(line)["data"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len([step for step in steps if "critic/score/mean" in step]) == 2
    gone = train(address, tmp_path / "gone")
    assert gone.returncode != 0
    assert f"the environment at {address} failed 4 times in a row" in gone.stderr
