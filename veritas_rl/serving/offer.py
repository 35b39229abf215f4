"""The offer of a server: the tasks of one environment, and their opponents.

A client names a task and a few settings. Settings that could reach files or programs of the machine, such as an engine,
are chosen at the start of the server.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from veritas_rl.envs.abilities import AnsweredByIds, NumbersTasks
from veritas_rl.envs.base import Session
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment, named_settings
from veritas_rl.envs.task import SPLITS, Task, check_choice
from veritas_rl.errors import UserError, unknown
from veritas_rl.players.registry import check_bot, is_bot, make_bot, stand_in
from veritas_rl.seeding import digest

TASKS_PER_CASE = 10**8
"""The number of tasks of each case, for environments without their own numbering."""

OPPONENTS = ("mcts", "random", "none")
"""The default opponents that clients may choose in games."""

ATTEMPTS = 3
"""The default number of replies for one move of a game, including mistakes."""

GREATEST_SEED = 2**63 - 1


class Start(BaseModel):
    """A client's choice of a session. Missing fields are derived from the other fields.

    Attributes:
        task_id: The number of a task, in the environment's numbering.
        case: A case instead of a number, such as "hex(board_size=5)".
        k: The number of the task within the case; by default drawn from the seed.
        seed: The seed of deals and dice in games, and of missing fields; by default drawn at random.
        split: "train" or "val".
        mode: "move" or "episode", in environments with games.
        opponent: The player of the other seats; "none" leaves them to the client.
        seat: The client's seat; by default the seed modulo 2.
        protocol: "boxed" as in training, or "ids" as in affinetes' environment.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: int | None = Field(default=None, ge=0, le=GREATEST_SEED)
    case: str | None = Field(default=None, max_length=200)
    k: int | None = Field(default=None, ge=0, lt=TASKS_PER_CASE)
    seed: int | None = Field(default=None, ge=0, le=GREATEST_SEED)
    split: str | None = Field(default=None, max_length=20)
    mode: str | None = Field(default=None, max_length=20)
    opponent: str | None = Field(default=None, max_length=100)
    seat: int | None = Field(default=None, ge=0, le=100)
    protocol: Literal["boxed", "ids"] | None = None


class Offer:
    """A served environment.

    Args:
        env: The name of the environment.
        cases: The served cases, as users name them; empty for all cases of the environment.
        settings: Further settings of the environment.
        opponents: The opponents that clients may choose; the first is the default.
        split: The default split.
        by_ids: Whether games are by default answered by ids, see `Start.protocol`.

    Raises:
        UserError: The environment, a setting or an opponent does not exist.
    """

    def __init__(
        self,
        env: str,
        cases: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        opponents: Sequence[str] = (),
        split: str = "val",
        by_ids: bool = False,
    ) -> None:
        self.environment: Environment = get_environment(env)
        self.name = env
        self.split = split
        self.by_ids = by_ids
        check_choice("split", split, SPLITS)
        given = named_settings(self.environment, settings)
        defaults: dict[str, Any] = {}
        if self.has_games:
            defaults = {"mode": "episode"}
            if "retries" in self.environment.config_type.model_fields:
                defaults["retries"] = ATTEMPTS - 1
        self._settings = defaults | given
        if cases:
            self._settings[self.environment.config_type.cases_key] = list(cases)
        if "opponent" in self._settings:
            raise UserError("opponent is no setting of a server; name the opponents with --opponents")
        self._restricted = bool(cases)
        known = tuple(name for name in OPPONENTS if name == "none" or is_bot(name, env))
        usual = known if self.has_games else ("none",)
        self.opponents = tuple(dict.fromkeys(opponents)) or usual
        for name in self.opponents:
            if name != "none":
                make_bot(name, env)
        self._kept: dict[tuple[str, str], Sequence[Task]] = {}
        if not self.cases:  # reads every setting
            raise UserError(f"{env} has no case to serve with these settings")

    @property
    def has_games(self) -> bool:
        """Whether the environment has whole games."""
        return "mode" in self.environment.config_type.model_fields

    @property
    def mode(self) -> str:
        """The default mode."""
        return str(self._settings.get("mode", "move"))

    @cached_property
    def cases(self) -> tuple[str, ...]:
        """The served cases."""
        tasks = self._tasks(self.mode, self.split)
        return tuple(tasks[index].case for index in range(0, len(tasks), TASKS_PER_CASE))

    @property
    def description(self) -> str:
        """The offer in one line."""
        what = "games" if self.has_games else "tasks of one answer"
        return f"{what} of {self.name}: {', '.join(self.cases[:8])}{', ...' if len(self.cases) > 8 else ''}"

    def task(self, start: Start) -> tuple[Task, list[str]]:
        """The task of a client's choice, and notes on deviations from the choice.

        Raises:
            UserError: The task does not exist, or a value is invalid.
        """
        notes: list[str] = []
        mode, split = start.mode or self.mode, start.split or self.split
        seed = secrets.randbits(31) if start.seed is None else start.seed
        if mode != self.mode:
            if not self.has_games:
                raise UserError(f"{self.name} has no modes; leave mode out")
            check_choice("mode", mode, self.environment.config_type.modes)
        check_choice("split", split, SPLITS)
        if start.task_id is not None and (start.case is not None or start.k is not None):
            raise UserError("task_id and case or k both name a task; give either task_id, or case and k")
        if start.task_id is not None:
            task = self._numbered(start.task_id, mode, split)
        else:
            which = digest("served case", seed) % len(self.cases) if start.case is None else self._place_of(start.case)
            k = digest("served task", seed) % TASKS_PER_CASE if start.k is None else start.k
            task = self._tasks(mode, split)[which * TASKS_PER_CASE + k]
        changes: dict[str, Any] = {"seed": seed} if self.has_games else {}
        if mode == "episode":
            changes |= self._seating(task, start, seed, notes)
        elif start.opponent not in (None, "none") or start.seat is not None:
            notes.append("opponent and seat are ignored, because a single answer has neither")
        return task.replace(**changes) if changes else task, notes

    def session(self, task: Task, start: Start) -> Session:
        """The session of a task, in the protocol of a client's choice.

        Raises:
            UserError: The environment does not support the protocol.
        """
        by_ids = self.by_ids and task.mode == "episode" if start.protocol is None else start.protocol == "ids"
        if not by_ids:
            return self.environment.start(task)
        if not isinstance(self.environment, AnsweredByIds):
            raise UserError(f"{self.name} has no sessions that are answered by ids; use the protocol boxed")
        return self.environment.start_by_ids(task)

    def _seating(self, task: Task, start: Start, seed: int, notes: list[str]) -> dict[str, Any]:
        players = self.environment.players_of(task)
        seat = seed % 2 % players if start.seat is None else start.seat
        if seat >= players:
            raise UserError(f"{task.case} has the seats 0 to {players - 1}, got seat {seat}")
        opponent = start.opponent or self.opponents[0]
        if opponent not in self.opponents:
            raise unknown("opponent", opponent, self.opponents)
        if players == 1:
            opponent = "none"
        elif opponent != "none":
            playing = stand_in(opponent, self.name, task.case)
            if playing != opponent:
                notes.append(f"{opponent} cannot play {task.case}, so {playing} plays instead")
            check_bot(playing, self.name, [task.case])
            opponent = playing
        return {"opponent": opponent, "seat": seat}

    def _place_of(self, case: str) -> int:
        """The index of a case, by its full name, or by the name of its game if the game has only one case."""
        spelled = "".join(case.split())
        found = [place for place, known in enumerate(self.cases) if known == spelled]
        found = found or [place for place, known in enumerate(self.cases) if known.partition("(")[0] == spelled]
        if not found:
            raise unknown("case", case, self.cases)
        if len(found) > 1:
            raise UserError(f"{case} has several cases; name one of {', '.join(self.cases[place] for place in found)}")
        return found[0]

    def _tasks(self, mode: str, split: str) -> Sequence[Task]:
        if (mode, split) not in self._kept:
            changes: dict[str, Any] = {"num_tasks_per_case": TASKS_PER_CASE}
            if self.has_games:
                changes["mode"] = mode
            config = self.environment.read_config(self._settings | changes)
            self._kept[mode, split] = self.environment.catalogue(config, split)
        return self._kept[mode, split]

    def _numbered(self, task_id: int, mode: str, split: str) -> Task:
        if not isinstance(self.environment, NumbersTasks):
            tasks = self._tasks(mode, split)
            if task_id >= len(tasks):
                raise UserError(f"task_id of {self.name} must be at most {len(tasks) - 1}, got {task_id}")
            return tasks[task_id]
        chosen = self.environment.settings_from(task_id, 1)
        kind = self.environment.config_type
        dropped = {*kind.selecting_keys, kind.cases_key} - set(chosen)
        settings = {key: value for key, value in self._settings.items() if key not in dropped}
        settings |= {**chosen, "num_tasks_per_case": 1} | ({"mode": mode} if self.has_games else {})
        task = self.environment.catalogue(self.environment.read_config(settings), split)[0]
        if self._restricted and task.case not in self.cases:
            raise UserError(
                f"task {task_id} is a task of {task.case}, which is not served; served are {', '.join(self.cases[:20])}"
            )
        return task
