"""The one protocol through which every environment is played, whatever plays it and whatever trains it.

A `Task` names what is to be solved, in plain values. An `Environment` turns it into a `Session`. The session shows
`Turn`s, takes `Reply`s and ends with a `Score` for each seat. A `Player` answers turns, a batch at a time, and `play`
is the driver that brings sessions and players together. `shape` makes the training reward from a score, and is the
only place that does.

A single move is a session of one step, a whole game a session of many; self-play is one player bound to every seat.
"""

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

from veritas_rl.errors import UserError, unknown

Message = dict[str, str]
"""One chat message: {"role": ..., "content": ...}."""

SPLITS = ("train", "val")
MODES = ("move", "episode")
REWARD_MODES = ("legal", "outcome", "optimal")
PROMPTS = ("full", "unlisted", "brief")
SCALES = ("result", "utility")
CONTEXTS = ("turn", "conversation")
_CHOICES = (
    ("mode", MODES),
    ("reward", REWARD_MODES),
    ("split", SPLITS),
    ("prompt", PROMPTS),
    ("scale", SCALES),
    ("context", CONTEXTS),
)


class Reason(StrEnum):
    """Why a session ended as it did. The mistakes are a model's; each pays nothing."""

    WON = "won"
    LOST = "lost"
    DRAWN = "drawn"
    LEGAL = "legal"
    """A single move that may be played; how good it is stands in the score's value."""
    EMPTY = "empty"
    """Nothing was answered, or nothing but thinking."""
    UNPARSEABLE = "unparseable"
    """Something was answered, but not in the documented format."""
    AMBIGUOUS = "ambiguous"
    """Several answers were given."""
    ILLEGAL = "illegal"
    """One answer was given, and it is not among the legal ones."""
    TRUNCATED = "truncated"
    """The reply was cut at the token limit before it ended."""
    OVERLONG = "overlong"
    """The prompt did not fit, or the reply was larger than any answer can be."""
    FORFEITED = "forfeited"
    """Another seat's mistake ended the game."""
    UNFINISHED = "unfinished"
    """The game was not over after the most moves that it may have. It pays nothing: nobody gains by delay."""

    @property
    def is_mistake(self) -> bool:
        return self in _MISTAKES

    @property
    def is_cut(self) -> bool:
        """Whether the mistake is one of length."""
        return self in _CUT


_CUT = frozenset({Reason.TRUNCATED, Reason.OVERLONG})
_MISTAKES = _CUT | {Reason.EMPTY, Reason.UNPARSEABLE, Reason.AMBIGUOUS, Reason.ILLEGAL}


@dataclass(frozen=True)
class Task:
    """One thing to solve, frozen and self-contained: any process rebuilds the same session from these plain values.

    Attributes:
        env: The environment's name in the registry.
        case: One configuration of the environment, such as the OpenSpiel load string "hex(board_size=5)".
        k: Which task of the case, counted from 0 within its split.
        mode: "move" for one decision, "episode" for a whole game.
        reward: What the value of a finished session measures, one of `REWARD_MODES`.
        opponent: The player bound to every other seat of a whole game; "none" in a single move.
        seat: The seat to be trained or judged; -1 where the session decides, as in a single move.
        seed: The seed of the set of tasks.
        split: "train" or "val"; the two never share a task where the environment can tell tasks apart.
        depth: The most random moves before a single move's position; -1 for any position of a random game.
        prompt: "full" explains the rules and lists the legal answers; "unlisted" lists none; "brief" shows the position
            alone, for a model too small to read.
        scale: How a finished game's returns become a value: "result" pays for winning, "utility" in proportion.
        playouts: How many random playouts value a single move where its value is not computed.
        context: In a whole game, "turn" shows each position anew; "conversation" is one chat that grows.
        retries: How often a seat may answer again after a mistake, in the whole game.
        max_moves: The most moves of a whole game, all seats together.
        gamma: The discount of a reward for each later move of the same seat, in (0, 1].
        legal_share: The share of a reward that is paid for a legal answer as such, in [0, 1).
    """

    env: str
    case: str
    k: int
    mode: str = "move"
    reward: str = "outcome"
    opponent: str = "none"
    seat: int = -1
    seed: int = 42
    split: str = "train"
    depth: int = -1
    prompt: str = "full"
    scale: str = "result"
    playouts: int = 64
    context: str = "turn"
    retries: int = 0
    max_moves: int = 200
    gamma: float = 0.99
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        for name, known in _CHOICES:
            if getattr(self, name) not in known:
                raise unknown(f"task {name}", getattr(self, name), known)
        for name, least in (("k", 0), ("playouts", 1), ("retries", 0), ("max_moves", 1)):
            if getattr(self, name) < least:
                raise UserError(f"a task's {name} is at least {least}, {getattr(self, name)} was given")
        if "&" in self.opponent or "#" in self.opponent:
            raise UserError(f"an opponent's name has no & and no #, as a task's id is cut there: {self.opponent!r}")
        if not 0 < self.gamma <= 1:
            raise UserError(f"a task's gamma lies in (0, 1], {self.gamma} was given")
        if not 0 <= self.legal_share < 1:
            raise UserError(f"a task's legal_share lies in [0, 1), {self.legal_share} was given")

    @property
    def id(self) -> str:
        """The task's identity: `env/case/mode#k`, then every value that is not the default, `?name=value&...`."""
        rest = [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)[4:]]
        extra = "&".join(f"{name}={value}" for name, value in rest if value != Task.__dataclass_fields__[name].default)
        return f"{self.env}/{self.case}/{self.mode}#{self.k}" + (f"?{extra}" if extra else "")

    @property
    def luck(self) -> str:
        """What deals and dice depend on: equal for tasks that differ only in who sits where and what is shown or paid,
        so that two players can be compared on the same luck."""
        return f"{self.env}/{self.case}/{self.mode}#{self.k}?seed={self.seed}&split={self.split}"

    @classmethod
    def from_id(cls, text: str) -> Self:
        """The task with this id.

        Raises:
            UserError: `text` is no task id.
        """
        match = re.fullmatch(r"([^/]+)/(.+)/([^/#]+)#(\d+)(?:\?(.*))?", text)
        if match is None:
            raise UserError(f"no task id: {text!r}; one looks like openspiel/hex(board_size=5)/move#17")
        env, case, mode, k, extra = match.groups()
        values: dict[str, Any] = {"env": env, "case": case, "mode": mode, "k": k}
        values |= dict(pair.split("=", 1) for pair in (extra or "").split("&") if "=" in pair)
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, str | int | float]:
        """The task as a flat dict of strings and numbers, as it travels through parquet, Ray and a replay buffer."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The task that `to_dict` wrote. Keys that are no field of a task raise a `UserError`."""
        types = {
            f.name: type(f.default) if f.default is not dataclasses.MISSING else str for f in dataclasses.fields(cls)
        }
        types["k"] = int
        for key in values:
            if key not in types:
                raise unknown("task field", key, types)
        plain: dict[str, Any] = {key: types[key](value) for key, value in values.items()}
        return cls(**plain)


@dataclass(frozen=True)
class Turn:
    """What one seat must answer now.

    Attributes:
        seat: Who is asked.
        messages: What a model is shown: all that this seat may know, and nothing else.
        answers: A whole reply for each legal answer, in the order in which `view` lists them; empty where the
            answers cannot be listed.
        update: What a model is shown instead of `messages` where these stand before it already, in a chat that grows.
        dice: What a player that draws lots seeds them with, beside its own seed: the task's luck, the ply and the
            seat, so that a task that is played again meets the same opponent's dice.
        view: The game for bots and solvers. A model never sees it.
    """

    seat: int
    messages: tuple[Message, ...]
    answers: tuple[str, ...]
    update: str = ""
    dice: tuple[str | int, ...] = ()
    view: Any = field(repr=False, compare=False, default=None)


@dataclass(frozen=True)
class Reply:
    """What a player says to one turn.

    Attributes:
        text: The reply, as it was written.
        truncated: Whether it was cut at a token limit.
        overlong: Whether the prompt did not fit, so that nothing was asked.
        prompt_tokens: How many tokens its player read; 0 for a player that reads none.
        tokens: How many tokens its player wrote; 0 for a player that writes none.
    """

    text: str
    truncated: bool = False
    overlong: bool = False
    prompt_tokens: int = field(default=0, compare=False)
    tokens: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Score:
    """How a session ended for one seat.

    Attributes:
        value: In [0, 1]; 0 for every mistake.
        success: Whether the task counts as solved.
        reason: Why.
        details: Plain values for logs, such as the action that was read.
    """

    value: float
    success: bool
    reason: Reason
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ValueError(f"a score's value lies in [0, 1], got {self.value}")
        if (self.value or self.success) and self.reason.is_mistake:
            raise ValueError(f"a mistake ({self.reason}) pays nothing, got {self.value}")

    @property
    def legal(self) -> bool:
        """Whether every answer of this seat was a legal one."""
        return not self.reason.is_mistake


class Session(ABC):
    """One task being played. It is thrown away after one play, and has no reset."""

    task: Task

    rejected: Mapping[int, Reason] = MappingProxyType({})
    """The replies of the last step that were mistakes, by seat, whether they ended the session or may be made anew."""

    actions: Mapping[int, str] = MappingProxyType({})
    """The actions of the last step, by seat, by the names that a person reads; no mistake is one."""

    @abstractmethod
    def turns(self) -> Sequence[Turn]:
        """The turns that wait for an answer now: one, or several where moves are simultaneous; none at the end."""

    @abstractmethod
    def step(self, replies: Mapping[int, Reply]) -> None:
        """Answer every waiting turn, by seat. A bad reply is never an error: it ends in a score with a reason."""

    @abstractmethod
    def scores(self) -> dict[int, Score]:
        """The score of each seat that was asked. Only after the end: a `RuntimeError` before."""

    def board(self, seat: int) -> str:
        """What a seat sees now, drawn for a person who looks on, after the end too; "" where there is no board."""
        return ""

    def role(self, seat: int) -> str:
        """What a seat is called in its prompt, such as "x"."""
        return f"seat {seat}"


@dataclass(frozen=True)
class LegalAnswer:
    """One legal answer to a turn, as an environment knows it.

    Attributes:
        replies: Every documented way to give it, each a whole reply, such as by number and by name.
        line: The line by which a full prompt lists it.
    """

    replies: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class TurnFacts:
    """What is true of a turn, whatever it shows.

    Attributes:
        to_act: The seats that have to act now; empty where nobody has.
        legal: The legal answers of the turn's seat, in the order of `Turn.answers`.
        hidden: Whether there is something that this seat must not see.
    """

    to_act: tuple[int, ...]
    legal: tuple[LegalAnswer, ...]
    hidden: bool


class Audit:
    """What an environment can tell about itself beside what it shows, so that a linter can hold one against the other.

    Every method may answer None: the environment does not tell. This base tells nothing.
    """

    selection: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    """A key of `adapter_config` that selects by name, and names that it must all select when they are given at once."""

    def facts(self, turn: Turn) -> TurnFacts | None:
        """The truth about a turn, from its view."""
        return None

    def redealt(self, task: Task, count: int) -> Sequence[Turn] | None:
        """The same seat's turn in up to `count` other states that it cannot tell from the task's, as it is shown there.

        Empty where no other such state was found.
        """
        return None

    def seats_alike(self, case: str) -> bool | None:
        """Whether a case is the same game from every seat: seats passed round give results passed round."""
        return None

    def question_count(self, task: Task) -> int | None:
        """How many different questions the tasks beside this one can ask; None if more than can be counted."""
        return None


class Environment(ABC):
    """What is played. One instance serves a whole process; it holds no state of any session."""

    name: ClassVar[str]
    config_type: ClassVar[type]
    """A frozen dataclass that validates itself; its fields are the keys of `adapter_config`."""

    @abstractmethod
    def catalogue(self, config: Any, split: str) -> Sequence[Task]:
        """The tasks that a configuration describes, lazily: opening costs nothing, whatever the length.

        Args:
            config: An instance of `config_type`.
            split: "train" or "val".
        """

    @abstractmethod
    def start(self, task: Task) -> Session:
        """A fresh session of a task. Raises `UserError` where the task names what does not exist."""

    def equivalence_class(self, task: Task) -> str:
        """Equal for tasks that ask the same up to a symmetry. Statistics resample such tasks together.

        By default every task stands alone.
        """
        return task.id

    def audit(self) -> Audit:
        """What a linter may ask; see `Audit`."""
        return Audit()

    def turn_class(self, task: Task, turn: Turn) -> str:
        """`equivalence_class` of the single-move task that would ask what a turn of `task` asks.

        By default that of the task itself.
        """
        return self.equivalence_class(task)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether validation asks, whatever its seed, what a turn of `task` asks, up to a symmetry.

        By default whether the task belongs to validation.
        """
        return task.split == "val"


def make_config(config_type: type, values: Mapping[str, Any], what: str = "adapter_config") -> Any:
    """Make a configuration from a mapping, such as an environment's from `adapter_config`.

    Args:
        config_type: A dataclass that validates itself.
        values: Some of its fields.
        what: What the mapping is called where a person sets it.

    Raises:
        UserError: A key is unknown (the known ones are listed), or a value is refused by the configuration itself.
    """
    known = {f.name for f in dataclasses.fields(config_type)}
    for key in values:
        if key not in known:
            raise unknown(f"{what} key", key, known)
    return config_type(**values)


class Player(Protocol):
    """Who plays. Models read a turn's messages; bots and solvers read its view."""

    def act(self, turns: Sequence[Turn]) -> Sequence[Reply]:
        """One reply for each turn, in order."""
        ...


def play(
    sessions: Sequence[Session], players: Mapping[int, Player] | Player | Sequence[Mapping[int, Player]]
) -> list[dict[int, Score]]:
    """Play sessions to their ends, asking each player for all its waiting turns in one batch.

    Args:
        sessions: Fresh sessions.
        players: Who sits where; one player alone takes every seat. A sequence says it for each session.

    Returns:
        The scores of each session, by seat.
    """
    each = players if isinstance(players, Sequence) else [players] * len(sessions)
    live = list(zip(sessions, each, strict=True))
    while live:
        asked_now = [(session, seating, list(session.turns())) for session, seating in live]
        live = [(session, seating) for session, seating, turns in asked_now if turns]
        waiting = [(session, turns) for session, _, turns in asked_now]
        batches: dict[int, tuple[Player, list[tuple[int, Turn]]]] = {}
        for index, (_, seating, turns) in enumerate(asked_now):
            for turn in turns:
                player = seating[turn.seat] if isinstance(seating, Mapping) else seating
                batches.setdefault(id(player), (player, []))[1].append((index, turn))
        replies: list[dict[int, Reply]] = [{} for _ in waiting]
        for player, asked in batches.values():
            for (index, turn), reply in zip(asked, player.act([turn for _, turn in asked]), strict=True):
                replies[index][turn.seat] = reply
        for (session, turns), said in zip(waiting, replies, strict=True):
            if turns:
                session.step(said)
    return [session.scores() for session in sessions]


def shape(score: Score, task: Task, moves_left: int = 0, accepted: bool | None = None) -> float:
    """The training reward of one reply: the only place where one is made.

    Args:
        score: How the session ended for the seat.
        task: Its `reward` says what is paid: "legal" pays 1 for staying legal; "outcome" and "optimal" pay the value
            that the session has found. `gamma` discounts, and `legal_share` is paid for the reply's own legality.
        moves_left: How many accepted moves of this seat followed the rewarded one; 0 for a single move.
        accepted: Whether the reply was a legal answer; unless told, whether all of the seat's were. A mistake that was
            made good later pays nothing all the same.

    Returns:
        A reward in [0, 1]; 0 for every mistake.
    """
    if not (score.legal if accepted is None else accepted):
        return 0.0
    value = float(score.legal) if task.reward == "legal" else score.value * task.gamma**moves_left
    return task.legal_share + (1 - task.legal_share) * value
