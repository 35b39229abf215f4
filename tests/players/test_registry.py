"""One registry of players: a kind of player that an environment adds works everywhere, without other changes."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from veritas_rl.demonstrations import generate as demonstrations
from veritas_rl.envs import registry as environments
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn
from veritas_rl.envs.environment import Environment, PlayerKind
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.task import Manner, Task
from veritas_rl.errors import UserError
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.registry import check_bot, describe, make_bot, stand_in
from veritas_rl.rating import tournament
from veritas_rl.seeding import generator


class Keeper:
    """A player that leaves a multiple of a number if possible."""

    def __init__(self, number: int) -> None:
        self.number = number

    def act(self, turns: Sequence[Turn]) -> list[Reply]:
        wanted = (str(turn.view % self.number) for turn in turns)
        return [Reply(text if text in turn.answers else "1") for text, turn in zip(wanted, turns, strict=True)]


def check(name: str, case: str) -> None:
    if name == "keep:9":
        raise UserError(f"keep:9 cannot play {case}: nobody takes 9")


KEEP = PlayerKind(
    forms=("keep", "keep:N"),
    pattern="keep(:[1-9])?",
    description="leaves a multiple of N, by default of 4",
    make=lambda name, seed: Keeper(int(name.partition(":")[2] or 4)),
    check=check,
    stand_in="random",
    canonical=lambda name: "keep:4" if name == "keep" else name,
    level=lambda name: "medium",
    note=lambda name, case: f"{case}: {name} reads the pile.",
)


class PileConfig(SingleAnswerConfig):
    """A configuration with one pile, for whole games or single moves."""

    single: ClassVar[Mapping[str, Any]] = {"mode": "move"}

    mode: str = "move"

    def known_cases(self) -> tuple[str, ...]:
        return ("pile",)


class Pile(Environment):
    """Two players alternately take 1 to 3 from a pile; the player who takes the last one wins."""

    name = "pile"
    config_type = PileConfig
    players: ClassVar[tuple[PlayerKind, ...]] = (KEEP,)

    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        def make(case: str, k: int) -> Task:
            manner = Manner(prompt=config.prompt, seat=k % 2 if config.mode == "episode" else -1)
            return Task("pile", case, k, mode=config.mode, seed=config.seed, split=split, manner=manner)

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        return PileSession(task)

    def players_of(self, task: Task) -> int:
        return 2


class PileSession(Session):
    """A whole game, or only its first move."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.left = generator(task.chance_seed).randrange(6, 60)
        self.seat, self.ends = 0, dict[int, Score]()

    def turns(self) -> list[Turn]:
        if self.ends:
            return []
        shown = ({"role": "user", "content": f"{self.left} are left: take 1, 2 or 3"},)
        answers = tuple(map(str, range(1, min(3, self.left) + 1)))
        return [Turn(self.seat, shown, answers, dice=(self.task.chance_seed, self.left, self.seat), view=self.left)]

    def step(self, replies: Mapping[int, Reply]) -> None:
        (turn,) = self.turns()
        if replies[self.seat].text not in turn.answers:
            self.ends = {
                seat: Score(0.0, False, (Reason.ILLEGAL, Reason.FORFEITED)[seat != self.seat]) for seat in (0, 1)
            }
            return
        self.left -= int(replies[self.seat].text)
        if self.task.mode == "move":
            right = self.left % 4 == 0
            self.ends = {self.seat: Score(float(right), right, Reason.CORRECT if right else Reason.WRONG)}
        elif not self.left:
            self.ends = {self.seat: Score(1.0, True, Reason.WON), 1 - self.seat: Score(0.0, False, Reason.LOST)}
        self.seat = 1 - self.seat

    def scores(self) -> dict[int, Score]:
        return self.ends


@pytest.fixture(autouse=True)
def pile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the environment in this process."""
    monkeypatch.setitem(sys.modules, "pile_of_the_tests", sys.modules[__name__])
    monkeypatch.setitem(environments.ENVIRONMENTS, "pile", "pile_of_the_tests:Pile")
    environments.get_environment.cache_clear()
    yield
    environments.get_environment.cache_clear()


QUIET = Console(quiet=True)


def test_a_player_of_an_environment_is_evaluated_and_is_an_opponent(tmp_path: Path) -> None:
    found = evaluate(Settings("keep", env="pile", opponents=("keep:2", "random"), games=60), tmp_path, QUIET)
    by_opponent = {row.opponent: row.success.mean for row in found.rows if row.seat == "all"}
    # A player that leaves a multiple of 4 can always win.
    assert by_opponent["random"] > 0.9
    assert by_opponent["keep:2"] > 0.5
    assert {(milestone.level, milestone.opponents) for milestone in found.milestones} == {
        ("medium", ("keep:2",)),
        ("easy", ("random",)),
    }
    assert "pile: keep:2 reads the pile." in found.notes


def test_a_player_enters_a_tournament_once_under_any_name(tmp_path: Path) -> None:
    found = tournament.hold(tournament.Settings(("random", "keep:2", "keep"), env="pile", games=40), tmp_path, QUIET)
    best, *others = (standing.player for standing in found.tables[0].standings)
    assert (best, set(others)) == ("keep", {"keep:2", "random"})
    assert "pile: keep reads the pile." in found.notes
    with pytest.raises(UserError, match="are the same player"):
        tournament.hold(tournament.Settings(("keep:4", "keep"), env="pile"), tmp_path / "other", QUIET)


@pytest.mark.parametrize("mode", ["move", "episode"])
def test_a_player_of_an_environment_demonstrates(mode: str) -> None:
    settings = demonstrations.Settings("", "keep", 20, env="pile", mode=mode, min_value=1.0)
    made, counts = demonstrations.generate(settings)
    assert counts.kept == len(made) == 20
    for demonstration in made:
        left = int(demonstration.messages[0]["content"].split()[0])
        assert (left - int(demonstration.response)) % 4 == 0 or mode == "episode"


def test_training_checks_a_player_and_replaces_it_where_it_cannot_play() -> None:
    check_bot("keep:4", "pile", ["pile"])
    with pytest.raises(UserError, match="nobody takes 9"):
        check_bot("keep:9", "pile", ["pile"])
    assert stand_in("keep:9", "pile", "pile") == "random"
    with pytest.raises(UserError, match="unknown player 'keep:x': pile has random, solution, empty, keep, keep:N"):
        make_bot("keep:x", "pile")
    assert "keep, keep:N  leaves a multiple of N, by default of 4\n" in describe("pile")
    with pytest.raises(UserError, match="unknown player 'keep'"):
        make_bot("keep", "openspiel")


@pytest.mark.parametrize(
    ("env", "names"), [("openspiel", ("mcts", "mcts:50", "mcts:050")), ("pile", ("keep", "keep:4"))]
)
def test_players_that_play_alike_have_one_identity(env: str, names: tuple[str, ...]) -> None:
    opened = {open_player(name, env, ReplySettings(), Path("unused")).identity for name in names}
    assert len(opened) == 1
    assert open_player("random", env, ReplySettings(), Path("unused")).identity not in opened


@pytest.mark.parametrize(("env", "name"), [("openspiel", "solution"), ("pile", "solution")])
def test_a_player_that_a_task_has_nothing_for_is_a_mistake_of_one_line(env: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the player solution cannot play here"):
        evaluate(Settings(name, env=env, games=2, cases="pile" if env == "pile" else "tic_tac_toe"), tmp_path, QUIET)
