"""Stages of rising difficulty: which one a run is in, and when it goes on to the next.

A stage is passed on fresh games alone: what is asked again, and what comes from the stages before, would flatter or
spoil the rate by which it is judged.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from veritas_rl.curriculum.checks import inside, probability, whole
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import named_settings
from veritas_rl.errors import UserError

DEFAULT_THRESHOLDS = (0.60, 0.50, 0.40)
"""What the first, the second and every later stage asks for where nothing is said."""

STAGE_KEYS = ("name", "threshold")
"""What a stage may say besides the settings of the environment."""


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        name: As it stands in metrics and messages.
        settings: What it changes of the environment's settings, as plain values; None unsets one.
        threshold: The success rate at which it is passed, in (0, 1); None: it never is.
    """

    name: str
    settings: Mapping[str, Any]
    threshold: float | None = None


ANNOUNCEMENT = "curriculum: stage "
"""How the line begins that says that a stage is passed."""

EVERYTHING = Stage("all", {})
"""The one stage of a run without a curriculum."""


@dataclass(frozen=True)
class CurriculumConfig:
    """The keys of `curriculum`.

    Attributes:
        stages: In their order, each a mapping with a `name`, a `threshold`, and what it changes of the environment's
            settings: {name: easy, games: [hex], opponent: random, threshold: 0.6}. A stage that does not say what is
            played has all of the run. Default: those of the environment; for OpenSpiel easy (small games,
            opponent=random), medium (opponent=random), hard (opponent=mcts).
        threshold: The success rate that passes a stage which says nothing else. Default: 0.60 for the first, 0.50 for
            the second, 0.40 for the rest.
        window: Over how many fresh games of the stage that rate is taken.
        min_games: How many fresh games a stage has at least. Default: those of the window.
        past_share: The share of games that come from the stages before.

    Raises:
        UserError: A value cannot work; the message says which, and what would.
    """

    stages: Any = None
    threshold: float | None = None
    window: int = 100
    min_games: int | None = None
    past_share: float = 0.1

    def __post_init__(self) -> None:
        whole("curriculum.window", self.window)
        if self.min_games is not None:
            whole("curriculum.min_games", self.min_games)
        probability("curriculum.past_share", self.past_share)
        if self.threshold is not None:
            inside("curriculum.threshold", self.threshold)
        if self.stages is not None and (
            isinstance(self.stages, str | Mapping) or not isinstance(self.stages, Iterable)
        ):
            raise UserError(f"curriculum.stages must be a list of stages, {self.stages!r} was given")

    def stages_of(self, environment: Environment) -> tuple[Stage, ...]:
        """The stages, of an environment.

        Raises:
            UserError: A stage cannot work, or there is none.
        """
        given = environment.stages if self.stages is None else self.stages
        stages = tuple(_stage(number, values, self.threshold, environment) for number, values in enumerate(given))
        if not stages:
            raise UserError("curriculum.stages is empty: name a stage, or set curriculum=null")
        names = [stage.name for stage in stages]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"two stages of the curriculum are named {twice[0]}: give each its own name")
        return stages


def _stage(number: int, values: Any, threshold: float | None, environment: Environment) -> Stage:
    """A stage as it was typed, with the threshold of all if there is one."""
    if not isinstance(values, Mapping):
        raise UserError(f"curriculum.stages must hold mappings such as {{name: easy}}, {values!r} was given")
    name = values.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise UserError(
            f"stage {number + 1} of the curriculum needs a name of letters, digits, - and _; {name!r} was given"
        )
    own = values.get("threshold")
    if own is None:
        own = DEFAULT_THRESHOLDS[min(number, len(DEFAULT_THRESHOLDS) - 1)] if threshold is None else threshold
    try:
        settings = named_settings(environment, {key: values[key] for key in values if key not in STAGE_KEYS})
    except UserError as error:
        raise UserError(f"stage {name}: {error}") from error
    selecting = environment.selecting_keys
    named = [key for key in selecting if key in settings]
    if any(_is_empty(settings[key]) for key in named):
        raise UserError(f"stage {name} has no task: set {' or '.join(selecting)}, or leave them out for all of the run")
    if named:
        settings = {**dict.fromkeys(selecting), **settings}
    # As JSON writes it, so that a stage can be compared with the one of a checkpoint.
    settings = json.loads(json.dumps(settings, default=list))
    return Stage(name, settings, inside(f"the threshold of stage {name}", own))


def _is_empty(value: Any) -> bool:
    return not value.strip(" ,") if isinstance(value, str) else not value


class Curriculum:
    """Which stage a run is in.

    Args:
        stages: In their order.
        window: Over how many fresh games a stage's success rate is taken.
        min_games: How many fresh games a stage has at least.
    """

    def __init__(self, stages: Sequence[Stage], window: int = 100, min_games: int | None = None) -> None:
        self.stages = tuple(stages)
        self.window = window
        self.min_games = window if min_games is None else min_games
        self.passed = 0
        self.games = 0
        self._recent: deque[float] = deque(maxlen=window)
        self._past: dict[str, deque[float]] = {}

    @property
    def number(self) -> int:
        """The present stage, counted from 1."""
        return min(self.passed + 1, len(self.stages))

    @property
    def stage(self) -> Stage:
        """The present stage."""
        return self.stages[self.number - 1]

    @property
    def past(self) -> tuple[Stage, ...]:
        """The stages before the present one."""
        return self.stages[: self.number - 1]

    def record_fresh(self, stage: str, success: float) -> str | None:
        """Count a fresh game.

        Args:
            stage: From which stage it was drawn. A game that was drawn before the run went on counts for nothing.
            success: 1 or 0, or the share of a group's games.

        Returns:
            If the stage is passed with it, a line that says so.
        """
        if stage != self.stage.name:
            return None
        self.games += 1
        self._recent.append(success)
        threshold, rate = self.stage.threshold, fmean(self._recent)
        if threshold is None or self.passed == len(self.stages) or self.games < self.min_games or rate < threshold:
            return None
        said = f"{ANNOUNCEMENT}{stage} passed with {rate:.0%} of the last {len(self._recent)} games"
        self.passed += 1
        if self.passed == len(self.stages):
            return f"{said}; it was the last"
        self._past[stage] = deque(maxlen=self.window)
        self._recent.clear()
        self.games = 0
        return f"{said}; now {self.stage.name} ({self.number} of {len(self.stages)})"

    def record_past(self, stage: str, success: float) -> None:
        """Count a game from a stage before the present one; `success` as in `record_fresh`."""
        self._past[stage].append(success)

    def metrics(self) -> dict[str, float]:
        """The stage's number, its success rate and games, and the success rates of those before; rates if known."""
        if self.stages == (EVERYTHING,):
            return {}
        made: dict[str, float] = {"curriculum/stage": self.number, f"curriculum/games/{self.stage.name}": self.games}
        rates = {f"curriculum/success/{self.stage.name}": self._recent}
        rates |= {f"curriculum/past/{name}": games for name, games in self._past.items()}
        return made | {name: fmean(games) for name, games in rates.items() if games}

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as plain values, with the stages of which that is said."""
        return {
            "stages": [{"name": stage.name, "settings": dict(stage.settings)} for stage in self.stages],
            "passed": self.passed,
            "games": self.games,
            "recent": list(self._recent),
            "past": {name: list(games) for name, games in self._past.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called. Thresholds and windows may have changed; the stages may not.

        Raises:
            UserError: The state is of other stages; the message says what differs.
        """
        self._check_stages(state["stages"])
        self.passed, self.games = state["passed"], state["games"]
        self._recent = deque(state["recent"], maxlen=self.window)
        self._past = {name: deque(games, maxlen=self.window) for name, games in state["past"].items()}

    def _check_stages(self, before: Sequence[Mapping[str, Any]]) -> None:
        names, now = ([stage["name"] for stage in before], [stage.name for stage in self.stages])
        what_to_do = "keep the curriculum to go on, or begin a new run"
        if names != now:
            raise UserError(f"the checkpoint has {_described(names)}, and this run has {_described(now)}: {what_to_do}")
        for old, stage in zip(before, self.stages, strict=True):
            for key in sorted({*old["settings"], *stage.settings}):
                was, given = old["settings"].get(key), stage.settings.get(key)
                if was != given:
                    raise UserError(
                        f"stage {stage.name} had {key}={was} in the checkpoint, and has {key}={given}: {what_to_do}"
                    )


def _described(names: Sequence[str]) -> str:
    """What a run has, by the names of its stages."""
    if list(names) == [EVERYTHING.name]:
        return "no curriculum"
    return f"a curriculum of {', '.join(names)}"
