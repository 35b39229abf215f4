"""The environment of TextArena: whole games of one seat and of several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from veritas_rl.envs.audit import Audit
from veritas_rl.envs.base import Reply, Session
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.libraries.textarena import games
from veritas_rl.envs.libraries.textarena.session import TextArenaSession
from veritas_rl.envs.libraries.words import shared_words
from veritas_rl.envs.opponents import opponent_of
from veritas_rl.envs.settings import Number, at_least
from veritas_rl.envs.single import SingleAnswerConfig
from veritas_rl.envs.task import Manner, Parameters, Pay, Task, check_choice, check_least, check_share
from veritas_rl.errors import UserError

LOOKED_AT = 8
"""The games of a case that are looked at for its words, and the answers in each."""


@dataclass(frozen=True)
class TextArenaParameters(Parameters):
    """The environment's own part of the identity.

    Attributes:
        seats: The number of seats; 0 for the fewest of the game.
    """

    seats: int = 0

    def __post_init__(self) -> None:
        check_least("seats", self.seats, 0)


@dataclass(frozen=True)
class TextArenaManner(Manner):
    """How a game is played and shown.

    Attributes:
        prompt: "full" shows all that was said; "brief" shows the rules, the game's messages and the last board.
        max_moves: The most answers of a game, over all seats; a longer game ends as unfinished.
    """

    prompts: ClassVar[tuple[str, ...]] = ("full", "brief")

    max_moves: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("context", self.context, ("turn",))
        check_least("max_moves", self.max_moves, 1)


@dataclass(frozen=True)
class TextArenaPay(Pay):
    """The pay of a game, which the library decides."""

    rewards: ClassVar[tuple[str, ...]] = ("outcome",)


@dataclass(frozen=True)
class TextArenaTask(Task):
    """One game."""

    mode: str = "episode"
    parameters: TextArenaParameters = TextArenaParameters()
    manner: TextArenaManner = TextArenaManner()
    pay: TextArenaPay = TextArenaPay()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mode", self.mode, ("episode",))


class TextArenaConfig(SingleAnswerConfig):
    """The settings of games.

    Attributes:
        cases: Ids of games, such as Nim-v0 or Nim-v0-large. A list, or a text with commas; empty for all games.
        mode: Only "episode", because a single move has no value.
        seats: The number of seats; 0 for the fewest of each game.
        opponent: The player of the other seats. "none": the session's player also plays these seats. "self": the
            trained model plays them in training, and "random" in validation.
        past_opponent_share: With opponent=self, the share of games against an earlier checkpoint of the same run.
        prompt: "full" shows all that was said; "brief" shows the rules, the game's messages and the last board.
        max_moves: The most answers of a game, over all seats. A longer game is stopped and pays nothing.
        reward: Only "outcome": what a seat gets at the end, from 0 to 1.
        gamma: The discount of the reward for each later answer of the same seat.

    Raises:
        UserError: A value is invalid; the message names a valid one.
    """

    modes: ClassVar[tuple[str, ...]] = ("episode",)
    part_types = (TextArenaParameters, TextArenaManner, TextArenaPay)

    mode: str = "episode"
    seats: Annotated[int, at_least(0)] = 0
    opponent: str = "random"
    past_opponent_share: Number = 0.0
    max_moves: Annotated[int, at_least(1)] = 200
    gamma: Number = 0.99

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_choice("mode", self.mode, self.modes)
        check_share("past_opponent_share", self.past_opponent_share, "[0, 1]")
        return self

    def known_cases(self) -> tuple[str, ...]:
        """The games that can be used, and be shown briefly if that is asked for."""
        hidden = games.NOT_BRIEF if self.prompt == "brief" else ()
        return tuple(case for case in games.names() if games.game_of(case) not in hidden)

    def accepts(self, case: str) -> bool:
        """Whether a game exists.

        Raises:
            UserError: It does not exist, or cannot be used; the message says why.
        """
        games.check(case)
        return True


class TextArenaAudit(Audit):
    """What the linter cannot know."""

    def question_count(self, task: Task) -> int:
        """Only the first question of a game is counted, and the library says not how many it deals."""
        return 1


class TextArenaEnvironment(Environment):
    """The games of TextArena."""

    name: ClassVar[str] = games.NAME
    config_type = TextArenaConfig
    task_type: ClassVar[type[Task]] = TextArenaTask
    teacher: ClassVar[str] = "random"
    expert: ClassVar[str] = "random"
    stages: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"name": "random", "opponent": "random"},
        {"name": "self-play", "opponent": "self"},
    )
    answers, solved = "answers that the game accepts", "won games"

    def catalogue(self, config: TextArenaConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each game, game by game."""
        parameters, pay = config.part(TextArenaParameters), config.part(TextArenaPay)

        def make(case: str, k: int) -> Task:
            seats = config.seats or games.least_seats(case)
            opponent = opponent_of(config.opponent, config.past_opponent_share, split, config.seed, case, k)
            manner = config.part(TextArenaManner, opponent=opponent if seats > 1 else "none", seat=k % seats)
            parts: dict[str, Any] = {"parameters": parameters, "manner": manner, "pay": pay}
            return TextArenaTask(self.name, case, k, seed=config.seed, split=split, **parts)

        return config.tasks(split, make)

    def start(self, task: Task) -> Session:
        """A new game.

        Raises:
            UserError: The game or the seat does not exist, or the game cannot be started.
        """
        if not isinstance(task, TextArenaTask):
            raise UserError(f"{task.id} is no task of {self.name}")
        games.check(task.case)
        seats = self.players_of(task)
        if not -1 <= task.manner.seat < seats:
            raise UserError(f"{task.case} has the seats 0 to {seats - 1}, {task.manner.seat} was given")
        brief = task.manner.prompt == "brief"
        return TextArenaSession(
            task, games.Game(task.case, seats, task.library_seed, brief=brief), task.manner.max_moves
        )

    def group(self, task: Task) -> str:
        """The game without its variant."""
        return games.game_of(task.case)

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """The words that most questions of a game share, in some games of random players."""
        return sorted(set().union(*(shared_words(self._questions(case)) for case in cases)))

    def _questions(self, case: str) -> list[str]:
        """The questions of some games with random answers."""
        prompt = "full" if games.game_of(case) in games.NOT_BRIEF else "brief"
        found, manner = [], TextArenaManner(prompt=prompt, max_moves=LOOKED_AT)
        for k in range(LOOKED_AT):
            session, drawing = self.start(TextArenaTask(self.name, case, k, manner=manner)), Random(k)
            while turns := session.turns():
                (turn,) = turns
                found.append(turn.messages[0]["content"])
                session.step({turn.seat: Reply(turn.view.draw(drawing))})
        return found

    def refused(self) -> Mapping[str, str]:
        """The games that cannot be played, and why."""
        return games.refused()

    def audit(self) -> Audit:
        return TextArenaAudit()

    def players_of(self, task: Task) -> int:
        """The number of seats."""
        assert isinstance(task, TextArenaTask)
        return task.parameters.seats or games.least_seats(task.case)
