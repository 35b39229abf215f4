"""A reward function of the user's own: what verl calls a custom reward function.

    bash train/scripts/openspiel-ppo-trainer.sh reward.custom_reward_function.path=my_reward.py

It is called with each reply after `shape`, in training, validation and judging, and what it returns is the reward. It
changes no score: value, success and reason stay those of the environment. The file is the user's own code, which is
imported in the launcher and in every process that plays.
"""

import asyncio
import hashlib
import importlib.util
import inspect
import json
import math
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.envs.base import Score
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.paths import ROOT

NODE = "reward.custom_reward_function"
"""verl's node that names the file, the function and further arguments."""

OF_ENVIRONMENTS = ROOT / "train/tools/reward-manager.py"
"""The default file, whose functions return the reward of the environment itself."""

NAMES = ("compute_score", "compute_lgc_v2_score")
"""The functions of that file."""

OF_VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
"""The arguments that verl gives."""

OF_THIS = ("score", "tokens", "result", "task", "move")
"""The arguments that only this package gives."""

SHOWN_REPLY = 80
"""How many characters of a reply an error shows."""


@dataclass(frozen=True)
class CustomReward:
    """A reward function that can be called.

    Attributes:
        file: Its file.
        name: Its name in the file.
        kwargs: Further arguments, which take precedence.
        function: The function.
    """

    file: Path
    name: str
    kwargs: Mapping[str, Any]
    function: Callable[..., Any]

    @classmethod
    def read(cls, configuration: DictConfig) -> "CustomReward | None":
        """The function that a configuration names; None if rewards are those of the environments.

        Raises:
            UserError: The file cannot be imported, has no such function, or the function takes other arguments; or
                arguments are given without a function.
        """
        node: Any = OmegaConf.select(configuration, NODE)
        if node is None or node.get("path") is None:
            return None
        if "://" in node.path:
            raise UserError(f"{NODE}.path={node.path} is no file: set it to a Python file with your reward function")
        file, name = ROOT / Path(node.path).expanduser(), str(node.get("name"))
        if file.resolve() == OF_ENVIRONMENTS:
            if name not in NAMES:
                raise unknown(f"{NODE}.name of {node.path}", name, NAMES)
            if node.get("reward_kwargs"):
                raise UserError(
                    f"{NODE}.reward_kwargs has no effect, because rewards are those of the environments: name a "
                    f"function of your own by {NODE}.path"
                )
            return None
        kwargs: Any = OmegaConf.to_container(OmegaConf.create(node.get("reward_kwargs") or {}), resolve=True)
        made = cls(file, name, kwargs, _function(file, name))
        made._check_arguments()
        return made

    def __str__(self) -> str:
        return f"{self.name} of {self.file.name}"

    @cached_property
    def identity(self) -> str:
        """Its name, and a digest of its file and its further arguments, by which a change is noticed."""
        content = self.file.read_bytes() + json.dumps(self.kwargs, sort_keys=True, default=str).encode()
        return f"{self} ({hashlib.sha256(content).hexdigest()[:16]})"

    def __call__(
        self, task: Task, result: Score, score: float, text: str, tokens: Sequence[int], move: int = 1
    ) -> tuple[float, dict[str, float | str]]:
        """The reward of a reply, and further values to log.

        Args:
            task: The task.
            result: The score of the reply's seat at the end of its session.
            score: The reward of `shape`.
            text: The reply.
            tokens: Its token ids, with the end token if it has one.
            move: The number of the reply among those of its seat, from 1.

        Raises:
            UserError: The function fails, or returns neither a finite number nor a dict with the finite number "score"
                and numbers and text to log.
        """
        given = {
            "data_source": task.env,
            "solution_str": text,
            "ground_truth": task.id,
            "extra_info": {**task.to_dict(), "task_id": task.id},
            **{"score": score, "tokens": list(tokens), "result": result, "task": task, "move": move},
            **self.kwargs,
        }
        taken = given if self._takes_all else {name: value for name, value in given.items() if name in self._parameters}
        try:
            said = self.function(**taken)
            returned = asyncio.run(said) if inspect.iscoroutine(said) else said
        except Exception as error:
            lines = [
                frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == self.file
            ]
            where = f" in line {lines[-1]}" if lines else ""
            raise self._fault(task, text, f"failed{where} with {type(error).__name__}: {error}") from error
        values = dict(returned) if isinstance(returned, Mapping) else {"score": returned}
        logged: dict[str, float | str] = {}
        for key, value in values.items():
            number = _number(value)
            if key == "score" and (number is None or not math.isfinite(number)):
                raise self._fault(task, text, f"returned the reward {value!r}, which is no finite number")
            if number is None and not isinstance(value, str) and value is not None:
                raise self._fault(task, text, f"returned {key}={value!r}, which is neither a number nor text")
            if value is not None:
                logged[str(key)] = number if number is not None else str(value)
        if "score" not in logged:
            raise self._fault(task, text, 'returned a dict without "score"')
        return float(logged.pop("score")), logged

    def _fault(self, task: Task, text: str, what: str) -> UserError:
        shown = text if len(text) <= SHOWN_REPLY else f"{text[:SHOWN_REPLY]}..."
        said = " ".join(f"{what}; the task is {task.id}, the reply {shown!r}".split())
        return UserError(f"the reward function {self} {said}")

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function).parameters

    @cached_property
    def _takes_all(self) -> bool:
        return any(one.kind is one.VAR_KEYWORD for one in self._parameters.values())

    def _check_arguments(self) -> None:
        known = (*OF_VERL, *OF_THIS, *self.kwargs)
        for one in self._parameters.values():
            if one.kind is one.POSITIONAL_ONLY:
                raise UserError(f"{self} takes {one.name} only by position: take it by name, as verl gives it")
            if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or one.default is not one.empty:
                continue
            if one.name not in known:
                raise UserError(
                    f"{self} takes {one.name}, which nothing gives: it may take {', '.join(known)}, and others by "
                    f"+{NODE}.reward_kwargs.{one.name}=..."
                )
        for name in self.kwargs:
            if not self._takes_all and name not in self._parameters:
                raise UserError(f"{self} does not take {name} of {NODE}.reward_kwargs: leave it out")


def _function(file: Path, name: str) -> Callable[..., Any]:
    if not file.is_file():
        raise UserError(f"{NODE}.path={file} does not exist: set it to a Python file with your reward function")
    module = f"custom_reward_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{NODE}.path={file} is no Python file: its name must end with .py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    try:
        spec.loader.exec_module(loaded)
    except (Exception, SystemExit) as error:
        raise UserError(f"{file} cannot be imported ({type(error).__name__}: {error}): mend it") from error
    found = {key for key, value in vars(loaded).items() if callable(value) and not key.startswith("_")}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise UserError(f"{file} has no function {name}: set {NODE}.name to one of its functions, which are: {known}")
    return vars(loaded)[name]


def _number(value: Any) -> float | None:
    """The number that a scalar of Python, NumPy or torch is; None if it is none."""
    if isinstance(value, Real):
        return float(value)
    try:
        return float(value.item())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
