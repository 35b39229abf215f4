"""Stages of rising difficulty: the current stage of a run, and when it is passed.

Only fresh games count towards passing a stage. Replayed failures and games of earlier stages would bias the success
rate.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from veritas_rl import announcements
from veritas_rl.curriculum.checks import inside, probability, whole
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import named_settings
from veritas_rl.errors import UserError

DEFAULT_THRESHOLDS = (0.60, 0.50, 0.40)
"""The default thresholds of the first, the second and every later stage."""

STAGE_KEYS = ("name", "threshold")
"""Keys of a stage besides the settings of the environment."""


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        name: The stage's name in metrics and messages.
        settings: Changes of the environment's settings, as plain values; None unsets a setting.
        threshold: The success rate in (0, 1) that passes the stage; None if it is never passed.
    """

    name: str
    settings: Mapping[str, Any]
    threshold: float | None = None


EVERYTHING = Stage("all", {})
"""The only stage of a run without a curriculum."""


@dataclass(frozen=True)
class CurriculumConfig:
    """The keys of `curriculum`.

    Attributes:
        stages: The stages in order. Each is a mapping with a `name`, a `threshold`, and changes of the environment's
            settings: {name: easy, games: [hex], opponent: random, threshold: 0.6}. A stage that selects no games has
            all games of the run. Default: the environment's stages; for OpenSpiel easy (small games, opponent=random),
            medium (opponent=random), hard (opponent=mcts).
        threshold: The success rate that passes a stage without its own threshold. Default: 0.60 for the first, 0.50 for
            the second, 0.40 for the rest.
        window: The number of last fresh games of the stage over which the success rate is averaged.
        min_games: The minimum number of fresh games of a stage. Default: `window`.
        past_share: The share of games from earlier stages.

    Raises:
        UserError: A value is invalid. The message names the key and what is valid.
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
            raise UserError(f"curriculum.stages must be a list of stages, not {self.stages!r}")

    def stages_of(self, environment: Environment) -> tuple[Stage, ...]:
        """The stages for an environment.

        Raises:
            UserError: A stage is invalid, or there is none.
        """
        given = environment.stages if self.stages is None else self.stages
        stages = tuple(_stage(number, values, self.threshold, environment) for number, values in enumerate(given))
        if not stages:
            raise UserError("curriculum.stages is empty: add a stage, or set curriculum=null")
        names = [stage.name for stage in stages]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UserError(f"two stages of the curriculum are named {twice[0]}: give each its own name")
        return stages


def _stage(number: int, values: Any, threshold: float | None, environment: Environment) -> Stage:
    if not isinstance(values, Mapping):
        raise UserError(f"curriculum.stages must contain mappings such as {{name: easy}}, not {values!r}")
    name = values.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise UserError(f"stage {number + 1} of the curriculum needs a name of letters, digits, - and _, not {name!r}")
    own = values.get("threshold")
    if own is None:
        own = DEFAULT_THRESHOLDS[min(number, len(DEFAULT_THRESHOLDS) - 1)] if threshold is None else threshold
    try:
        settings = named_settings(environment, {key: values[key] for key in values if key not in STAGE_KEYS})
    except UserError as error:
        raise UserError(f"stage {name}: {error}") from error
    selecting = environment.config_type.selecting_keys
    named = [key for key in selecting if key in settings]
    if any(_is_empty(settings[key]) for key in named):
        raise UserError(
            f"stage {name} has no task: set {' or '.join(selecting)}, or leave them out to use all tasks of the run"
        )
    if named:
        settings = {**dict.fromkeys(selecting), **settings}
    # JSON values, so that a stage can be compared with a stage in a checkpoint.
    settings = json.loads(json.dumps(settings, default=list))
    return Stage(name, settings, inside(f"the threshold of stage {name}", own))


def _is_empty(value: Any) -> bool:
    return not value.strip(" ,") if isinstance(value, str) else not value


class Curriculum:
    """The current stage of a run.

    Args:
        stages: The stages in order.
        window: The number of last fresh games over which a stage's success rate is averaged.
        min_games: The minimum number of fresh games of a stage.
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
        """The current stage's number, from 1."""
        return min(self.passed + 1, len(self.stages))

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self.stages[self.number - 1]

    @property
    def past(self) -> tuple[Stage, ...]:
        """The stages before the current one."""
        return self.stages[: self.number - 1]

    def record_fresh(self, stage: str, success: float) -> str | None:
        """Count a fresh game.

        Args:
            stage: The stage from which the game was drawn. Games of an earlier stage do not count.
            success: 1 or 0, or the share of a group's games.

        Returns:
            A line if the game passes the stage, else None.
        """
        if stage != self.stage.name:
            return None
        self.games += 1
        self._recent.append(success)
        threshold, rate = self.stage.threshold, fmean(self._recent)
        if threshold is None or self.passed == len(self.stages) or self.games < self.min_games or rate < threshold:
            return None
        said = f"{announcements.STAGE}{stage} passed with {rate:.0%} of the last {len(self._recent)} games"
        self.passed += 1
        if self.passed == len(self.stages):
            return f"{said}; it was the last stage"
        self._past[stage] = deque(maxlen=self.window)
        self._recent.clear()
        self.games = 0
        return f"{said}; now {self.stage.name} ({self.number} of {len(self.stages)})"

    def record_past(self, stage: str, success: float) -> None:
        """Count a game from an earlier stage; `success` as in `record_fresh`."""
        self._past[stage].append(success)

    def metrics(self) -> dict[str, float]:
        """The stage's number, its games and success rate, and the success rates of earlier stages, if known."""
        if self.stages == (EVERYTHING,):
            return {}
        made: dict[str, float] = {"curriculum/stage": self.number, f"curriculum/games/{self.stage.name}": self.games}
        rates = {f"curriculum/success/{self.stage.name}": self._recent}
        rates |= {f"curriculum/past/{name}": games for name, games in self._past.items()}
        return made | {name: fmean(games) for name, games in rates.items() if games}

    def state_dict(self) -> dict[str, Any]:
        """The state as plain values, including the stages."""
        return {
            "stages": [{"name": stage.name, "settings": dict(stage.settings)} for stage in self.stages],
            "passed": self.passed,
            "games": self.games,
            "recent": list(self._recent),
            "past": {name: list(games) for name, games in self._past.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state that `state_dict` returned. Thresholds and windows may have changed, stages may not.

        Raises:
            UserError: The state has other stages. The message names the difference.
        """
        self._check_stages(state["stages"])
        self.passed, self.games = state["passed"], state["games"]
        self._recent = deque(state["recent"], maxlen=self.window)
        self._past = {name: deque(games, maxlen=self.window) for name, games in state["past"].items()}

    def _check_stages(self, before: Sequence[Mapping[str, Any]]) -> None:
        names, now = ([stage["name"] for stage in before], [stage.name for stage in self.stages])
        what_to_do = "keep the curriculum to resume, or start a new run"
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
    if list(names) == [EVERYTHING.name]:
        return "no curriculum"
    return f"a curriculum of {', '.join(names)}"
