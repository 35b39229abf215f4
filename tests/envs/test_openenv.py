"""An environment behind a server of OpenEnv: this package's server, faulty servers, and the one of `openenv init`."""

import json
import os
import re
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from veritas_rl.envs.base import Reason, Reply, Score, Session, play
from veritas_rl.envs.openenv import connection, schema
from veritas_rl.envs.registry import get_environment, open_catalogue, task_from_dict, task_from_id
from veritas_rl.errors import UserError
from veritas_rl.serving.episodes import Episode
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer, Start

GAME: dict[str, Any] = {"reset": {"case": "tic_tac_toe", "opponent": "random"}}


class FirstListed:
    """A player that takes the first legal action listed in the prompt."""

    def act(self, turns: Any) -> list[Reply]:
        return [Reply(first_listed(turn.messages[-1]["content"])) for turn in turns]


def first_listed(question: str) -> str:
    found = re.findall(r"^(\d+): ", question, re.MULTILINE)
    return f"\\boxed{{{found[0]}}}"


@pytest.fixture(scope="module")
def url(serve: Callable[..., Any]) -> str:
    return serve([Offer("openspiel")]).url


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.01)


def catalogue(url: str, split: str = "train", **settings: Any) -> Any:
    return open_catalogue({"env": f"openenv:{url}", "adapter_config": settings}, split)


def started(url: str, k: int = 0, **settings: Any) -> Session:
    task = catalogue(url, **settings)[k]
    return get_environment(task.env).start(task)


def here(url: str, k: int) -> float:
    """What the same game pays here."""
    task = catalogue(url, **GAME)[k]
    asked = Start(seed=task.library_seed, case="tic_tac_toe", opponent="random")
    episode = Episode(Offer("openspiel").task(asked)[0])
    while episode.shown.turn is not None:
        episode.answer(FirstListed().act([episode.shown.turn])[0])
    assert episode.shown.reward is not None
    return episode.shown.reward


def test_a_game_on_a_server_goes_and_pays_like_the_same_game_here(url: str) -> None:
    games = 64  # each run has another port, whose games differ, and a first mover can win eight in a row
    scores = play([started(url, k, **GAME) for k in range(games)], FirstListed())
    assert [score[0].value for score in scores] == [here(url, k) for k in range(games)]
    assert len({score[0].value for score in scores}) > 1
    assert not connection._open_ones


def test_more_sessions_than_a_server_allows_give_way_to_each_other(serve: Callable[..., Any], url: str) -> None:
    """Each one is played again when its turn comes, and pays the same."""
    small = serve([Offer("openspiel")], Limits(sessions=2)).url
    sessions = [started(small, k, **GAME) for k in range(6)]
    assert len(connection._open_ones) <= 2
    scores = play(sessions, FirstListed())
    assert [score[0].value for score in scores] == [here(small, k) for k in range(6)]
    assert not connection._open_ones


def test_threads_wait_for_their_turn_on_a_server_of_one_session(serve: Callable[..., Any], url: str) -> None:
    small = serve([Offer("openspiel")], Limits(sessions=1)).url

    def played(k: int) -> float:
        return play([started(small, k, **GAME)], FirstListed())[0][0].value

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(played, range(8))) == [here(small, k) for k in range(8)]


def test_a_full_server_is_named(serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FULL_SECONDS", 0.3)
    small = serve([Offer("openspiel")], Limits(sessions=1)).url
    first = started(small, 0, ignores_seeds=True, **GAME)
    with pytest.raises(UserError, match=r"is full: it has allowed no further session .* play fewer at once"):
        started(small, 1, ignores_seeds=True, **GAME)
    play([first], FirstListed())


def test_a_lost_connection_is_replaced(url: str) -> None:
    session = started(url, 1, **GAME)
    while session.turns():
        for one in list(connection._open_ones.values()):
            assert one._socket is not None
            one._socket.close()
        session.step({0: FirstListed().act(session.turns())[0]})
    assert session.scores()[0].value == here(url, 1)


def test_training_and_validation_have_other_seeds_and_tasks_are_rebuilt(url: str) -> None:
    train, val = catalogue(url, **GAME), catalogue(url, "val", **GAME)
    assert not {task.library_seed for task in train[:200]} & {task.library_seed for task in val[:200]}
    assert task_from_dict(train[3].to_dict()) == train[3]
    assert task_from_id(train[3].id).to_dict() == {**train[3].to_dict(), "seat": -1}
    assert started(url, 0, **GAME).board(0) == started(url, 0, reset="case=tic_tac_toe, opponent=random").board(0)


def test_a_cut_reply_is_never_sent(url: str) -> None:
    cut = started(url, **GAME)
    cut.step({0: Reply("\\boxed{1}", truncated=True)})
    assert cut.scores()[0].reason is Reason.TRUNCATED
    assert not connection._open_ones


class Faulty:
    """A server whose question is a number that the seed gives, and whose rewards are those of `rewards`.

    Args:
        faults: What it does at the calls of these numbers instead.
        schema: What it says about its actions.
        rewards: The rewards of the steps of a session.
        seeded: Whether the number depends on the seed.
    """

    def __init__(
        self,
        faults: dict[int, Any] | None = None,
        action: dict[str, Any] | None = None,
        rewards: tuple[Any, ...] = (0.25, 1.0),
        seeded: bool = True,
    ) -> None:
        self.faults, self.rewards, self.seeded = faults or {}, rewards, seeded
        self.calls = 0
        self.got: list[Any] = []
        self.action = action or {"properties": {"message": {"type": "string"}}, "required": ["message"]}

    def play(self, socket: ServerConnection) -> None:
        seed, steps = 0, 0
        for text in socket:
            message = json.loads(text)
            self.calls += 1
            fault = self.faults.get(self.calls)
            if fault == "close":
                return
            if fault == "sleep":
                time.sleep(1.0)
            if fault is not None:
                socket.send(fault if isinstance(fault, str) else json.dumps(fault))
                continue
            if message["type"] == "reset":
                seed, steps = message["data"]["seed"] if self.seeded else self.calls, 0
            else:
                steps += 1
                self.got.append(message["data"])
            sent = {
                "observation": {"number": seed, "prompt": f"{seed}: {steps}", "metadata": {"call": self.calls}},
                "reward": self.rewards[steps - 1] if steps else None,
                "done": steps == len(self.rewards),
            }
            socket.send(json.dumps({"type": "observation", "data": sent}))


@pytest.fixture
def faulty() -> Iterator[Callable[..., tuple[str, Faulty]]]:
    """Starts a faulty server; returns its address. `/schema` has the same port, as the handshake is HTTP."""
    running: list[Server] = []

    def start(**settings: Any) -> tuple[str, Faulty]:
        made = Faulty(**settings)

        def schema_of(socket: ServerConnection, request: Any) -> Any:
            if request.path == "/schema":
                return socket.respond(200, json.dumps({"action": made.action}))
            return None

        def handle(socket: ServerConnection) -> None:
            try:
                made.play(socket)
            except ConnectionClosed:
                return

        server = serve(handle, "127.0.0.1", 0, process_request=schema_of)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.socket.getsockname()[1]}", made

    yield start
    for server in running:
        server.shutdown()


SEEDS = 5
"""The calls of the check of seeds, before the first session."""


def test_the_last_reward_or_the_sum_is_paid(faulty: Any) -> None:
    for paid, value in (("last", 0.4), ("sum", 0.65)):
        url, server = faulty(rewards=(0.25, 0.4))
        session = started(url, paid=paid)
        assert session.board(0).endswith(": 0")
        session.step({0: Reply("a")})
        session.step({0: Reply("b")})
        assert session.scores()[0].value == value
        assert server.got == [{"message": "a"}, {"message": "b"}]


def test_rewards_are_cut_to_the_range_of_scores(faulty: Any) -> None:
    for reward, value in ((7, 1.0), (-3, 0.0)):
        session = started(faulty(rewards=(reward,))[0])
        session.step({0: Reply("a")})
        assert session.scores()[0].value == value


def test_a_session_that_the_server_does_not_end_is_ended_here(faulty: Any) -> None:
    paid = started(faulty()[0], steps=1)
    paid.step({0: Reply("a")})
    assert (paid.scores()[0].value, paid.scores()[0].reason) == (0.25, Reason.WRONG)
    stopped = started(faulty()[0], most_steps=1)
    stopped.step({0: Reply("a")})
    assert (stopped.scores()[0].value, stopped.scores()[0].reason) == (0, Reason.UNFINISHED)


@pytest.mark.parametrize(("code", "calls"), [("VALIDATION_ERROR", (2,)), ("EXECUTION_ERROR", (2, 4))])
def test_a_reply_that_the_server_does_not_take_is_a_mistake(faulty: Any, code: str, calls: tuple[int, ...]) -> None:
    """So is one at which it fails again after the session was played again."""
    error = {"type": "error", "data": {"code": code, "message": "no"}}
    url, _ = faulty(faults={SEEDS + call: error for call in calls})
    refused = started(url)
    refused.step({0: Reply("x")})
    assert refused.scores()[0] == Score(0.0, False, Reason.UNPARSEABLE, {"steps": 1})
    assert not connection._open_ones


@pytest.mark.parametrize("fault", ["close", "sleep", {"type": "error", "data": {"code": "SESSION_ERROR"}}])
def test_a_fault_of_the_server_is_no_mistake(faulty: Any, fault: Any) -> None:
    """The session is played again: a reset and the first step, then the second step."""
    url, server = faulty(faults={SEEDS + 3: fault})
    session = started(url, seconds=0.5)
    for reply in ("a", "b"):
        session.step({0: Reply(reply)})
    assert session.scores()[0].value == 1.0
    assert server.got == [{"message": "a"}, {"message": "a"}, {"message": "b"}]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no JSON", "does not speak OpenEnv's protocol"),
        ([], "does not speak OpenEnv's protocol"),
        ({"type": "observation", "data": {"observation": 3}}, "does not speak OpenEnv's protocol"),
        ({"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "no such case"}}, "no such case"),
        ({"type": "observation", "data": {"observation": {}, "done": True}}, "a reward that is no number: None"),
    ],
)
def test_a_server_that_answers_wrongly_is_one_line(faulty: Any, fault: Any, says: str) -> None:
    url, _ = faulty(faults={SEEDS + 1: fault})
    with pytest.raises(UserError, match=re.escape(says)) as wrong:
        started(url)
    assert "\n" not in str(wrong.value)
    assert len(str(wrong.value)) < 500


def test_a_reward_that_is_no_number_is_no_score(faulty: Any) -> None:
    session = started(faulty(rewards=(float("nan"),))[0])
    with pytest.raises(UserError, match="returned a reward that is no number: nan"):
        session.step({0: Reply("a")})


def test_a_server_that_is_gone_is_named(faulty: Any, free_port: int) -> None:
    with pytest.raises(UserError, match=rf"http://127.0.0.1:{free_port}/schema does not describe"):
        started(f"http://127.0.0.1:{free_port}")
    url, _ = faulty(faults=dict.fromkeys(range(SEEDS + 2, 99), "close"))
    session = started(url)
    with pytest.raises(UserError, match=f"the environment at {url} failed 4 times in a row"):
        session.step({0: Reply("a")})


def test_a_server_that_ignores_seeds_is_used_only_if_that_is_allowed(faulty: Any) -> None:
    url, _ = faulty(seeded=False)
    with pytest.raises(UserError, match=r"shows another task for the same seed.*ignores_seeds=true"):
        started(url)
    url, _ = faulty(seeded=False, faults={2: "close"})
    session = started(url, ignores_seeds=True)
    with pytest.raises(UserError, match=r"was lost .*because this server ignores seeds"):
        session.step({0: Reply("a")})


def test_a_server_with_one_task_is_named(faulty: Any) -> None:
    same = {"type": "observation", "data": {"observation": {"prompt": "one"}, "reward": None, "done": False}}
    url, _ = faulty(faults=dict.fromkeys(range(1, 9), same))
    with pytest.warns(UserWarning, match="shows the same task for every seed"):
        started(url)


@pytest.mark.parametrize(
    ("action", "wanted", "found"),
    [
        ({"properties": {"code": {"type": "string"}, "metadata": {"type": "object"}}}, "", "code"),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}, "", "b"),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}, "a", "a"),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}, "", "set action_field"),
        ({"properties": {"a": {"type": "string"}}}, "c", "unknown action_field 'c'"),
        ({"properties": {"move": {"type": "integer"}}, "required": ["move"]}, "", "a reply can be one text alone"),
    ],
)
def test_the_reply_is_the_text_that_an_action_must_have(
    faulty: Any, action: dict[str, Any], wanted: str, found: str
) -> None:
    url, _ = faulty(action=action)
    if " " not in found:
        assert schema.action_field(url, wanted) == found
        return
    with pytest.raises(UserError, match=re.escape(found)):
        schema.action_field(url, wanted)


def test_the_question_is_the_usual_field_or_the_named_one_or_all() -> None:
    seen = {"echo": "hello", "length": 5, "reward": 0, "done": False, "metadata": {}}
    assert schema.question_of(seen, "") == "hello"
    assert schema.question_of({**seen, "prompt": "go"}, "") == "go"
    assert schema.question_of({**seen, "other": "x"}, "") == '{"echo": "hello", "length": 5, "other": "x"}'
    assert schema.question_of(seen, "length") == "5"
    with pytest.raises(UserError, match="unknown question_field 'board'"):
        schema.question_of(seen, "board")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"reset": "seed=3"}, "fields of a reset other than seed"),
        ({"reset": [1, 2]}, "fields of a reset other than seed"),
        ({"paid": "mean"}, "unknown paid 'mean'"),
        ({"cases": "localhost:8000"}, "localhost:8000 is no address of a server; type one such as openenv:http://"),
    ],
)
def test_wrong_settings_are_one_line(url: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        catalogue(url, **settings)


@pytest.mark.long
def test_the_server_that_openenv_makes_pays_the_same_through_its_own_client(
    client_python: Callable[..., Path], tmp_path: Path, free_port: int
) -> None:
    python = client_python("openenv")
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    made = subprocess.run([str(python.with_name("openenv")), "init", "echo"], cwd=tmp_path, env=plain, check=False)
    assert made.returncode == 0
    command = [str(python), "-m", "uvicorn", "server.app:app", "--port", str(free_port)]
    url = f"http://127.0.0.1:{free_port}"
    client = f"""
from openenv.core.generic_client import GenericEnvClient
with GenericEnvClient(base_url={url!r}).sync() as env:
    for text in ("a", "hello", "x" * 40):
        env.reset(seed=1)
        print(env.step({{"message": text}}).reward)
"""
    with subprocess.Popen(
        command, cwd=tmp_path / "echo", env={**plain, "PYTHONPATH": str(tmp_path / "echo")}
    ) as server:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    httpx.get(f"{url}/health").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            done = subprocess.run([str(python), "-c", client], capture_output=True, text=True, env=plain, check=False)
            theirs = [float(line) for line in done.stdout.split()]
            ours = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it has one task
                for k, text in enumerate(("a", "hello", "x" * 40)):
                    session = started(url, k, steps=1)
                    session.step({0: Reply(text)})
                    ours.append(session.scores()[0].value)
        finally:
            server.kill()
    assert ours == theirs == [0.1, 0.5, 1.0], done.stderr
