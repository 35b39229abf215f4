"""The questions of the wizard, each with a default from the machine and from earlier answers."""

import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.prompt import Prompt

from veritas_rl.checkpoints.packaged import PACKAGED
from veritas_rl.envs.registry import environment_names
from veritas_rl.errors import UserError, unknown
from veritas_rl.launch import rl
from veritas_rl.launch.configuration import CONFIG_DIR, GROUPS, compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.start import VARIABLE
from veritas_rl.launch.variables import ALGORITHMS, SWITCH, choice
from veritas_rl.players.registry import SELF, forms_of
from veritas_rl.wizard.answers import DEFAULT, NONE, NUMBERS, OPENSPIEL, Answers

NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
LOGGERS = (NONE, "wandb", "tensorboard")
PROJECT = "WANDB_PROJECT"


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        field: The field of `Answers`, and the flag.
        text: The printed question.
        default: The proposed answer.
        check: Raises `UserError` for an invalid answer.
        known: The allowed answers; empty if any answer is allowed.
        applies: Whether the question applies after the earlier answers.
        whole: Whether all settings are checked together after this question.
        composed: The value in the configuration of the earlier answers. It is the proposal, unless `default` has one,
            and an answer that equals it is not written.
    """

    field: str
    text: str
    default: Callable[["Asking"], str]
    known: Callable[["Asking"], tuple[str, ...]] = lambda asking: ()
    check: Callable[[str], None] = lambda answer: None
    applies: Callable[[Answers], bool] = lambda answers: True
    whole: bool = False
    composed: Callable[[DictConfig], str] | None = None

    def proposal(self, asking: "Asking") -> str:
        """The proposed answer."""
        given = self.default(asking)
        return self.composed(asking.try_out().configuration) if not given and self.composed else given


class Asking:
    """The answers so far, on this machine.

    Args:
        environment: The process environment, with `.env`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.answers = Answers()
        self._tried: tuple[Answers, rl.RlRun] | None = None
        """The last answers that were planned, and their run."""

    @cached_property
    def machine(self) -> Hardware:
        """The machine's hardware."""
        return this_machine()

    @property
    def hardware(self) -> str:
        """The hardware group for the machine."""
        return self.machine.group

    @property
    def model(self) -> str:
        """The model named in the environment, or the group's default."""
        chosen = overrides_for([f"hardware={self.answers.hardware}"], self.environment, self.machine)
        return compose_configuration(chosen).actor_rollout_ref.model.path or NONE

    def answer(self, question: Question, given: str, *, tried: bool = False) -> None:
        """Store an answer.

        Args:
            question: The question.
            given: The answer.
            tried: Whether to check all answers together, if the question requires it.

        Raises:
            UserError: The answer is invalid. The stored answers do not change.
        """
        given = given.strip()
        names = [part.strip() for part in given.split(",")] if question.field in LISTS else [given]
        for name in names:
            if (known := question.known(self)) and name not in known:
                raise unknown(question.field.replace("_", " "), name, known)
        question.check(given)
        given = _as_written(question.field, given)
        if question.composed and given == question.composed(self.try_out().configuration):
            given = ""
        before = self.answers
        self.answers = dataclasses.replace(before, **{question.field: given})
        try:
            if tried and question.whole:
                self.try_out()
        except UserError:
            self.answers = before
            raise

    def try_out(self) -> rl.RlRun:
        """Plan the run of the answers with a temporary recipe.

        Raises:
            UserError: The launcher would refuse the run.
        """
        if self._tried is not None and self._tried[0] == self.answers:
            return self._tried[1]
        if self.answers.model == NONE:
            os.environ.pop(VARIABLE, None)
        else:
            # The configuration reads the environment variable.
            os.environ[VARIABLE] = self.answers.model
        variables = {name: value for name, value in self.environment.items() if name not in self.answers.variables()}
        hardware = dataclasses.replace(self.machine, gpus=0 if self.answers.hardware == "cpu" else 1)
        with TemporaryDirectory() as folder:
            recipe = Path(folder) / (self.answers.name or "recipe")
            self.answers.write_recipe(recipe)
            run = rl.plan([f"recipe={recipe}"], variables, hardware, datetime.now(), dry=True)
        self._tried = (self.answers, run)
        return run


LISTS = ("environments", "logging")
"""Fields with several names, separated by commas."""


def _as_written(field: str, given: str) -> str:
    folder = Path(given).expanduser()
    if field == "learning_rate":
        return f"{float(given):g}"
    return str(folder.resolve()) if field == "model" and folder.is_dir() else given


def _check_name(given: str) -> None:
    if not NAME.fullmatch(given) or given in GROUPS:
        raise UserError(
            f"the recipe name {given!r} is not allowed: use letters, digits, _ and -, and none of {', '.join(GROUPS)}"
        )


def _check_model(given: str) -> None:
    named = given == NONE or given in PACKAGED or Path(given).expanduser().is_dir()
    if not named and not re.fullmatch(r"[\w.-]+/[\w.-]+", given):
        raise UserError(f"{given!r} is neither a folder nor a hub id: type one such as Qwen/Qwen2.5-1.5B-Instruct")


def _check_opponent(given: str) -> None:
    if not given:
        raise UserError(f"the opponent is missing: type {', '.join(forms_of(OPENSPIEL))} or {SELF}")


def _plays(answers: Answers) -> bool:
    return OPENSPIEL in answers.envs


def _whole_games(answers: Answers) -> bool:
    return _plays(answers) and answers.play == "episode"


def _logs(answers: Answers) -> bool:
    return "wandb" in answers.loggers


def _algorithm(asking: Asking) -> str:
    answers, named = asking.answers, asking.environment.get("ALGORITHM", "")
    if _whole_games(answers) and answers.opponent == SELF:
        return "rae"
    if named or answers.envs == [OPENSPIEL]:
        return named.lower()
    return "grpo"


def _lora(asking: Asking) -> str:
    named = asking.environment.get("ENABLE_LORA", "")
    return choice("ENABLE_LORA", named, SWITCH) if named else ""


def _number(answer: str) -> None:
    try:
        fits = 0 < float(answer) < math.inf
    except ValueError:
        fits = False
    if not fits:
        raise UserError(f"{answer!r} is no number above 0")


def _integer(answer: str) -> None:
    if not answer.isdecimal() or int(answer) < 1:
        raise UserError(f"{answer!r} is no integer of 1 or more")


def _composed(field: str) -> Callable[[DictConfig], str]:
    def read(configuration: DictConfig) -> str:
        value = OmegaConf.select(configuration, NUMBERS[field])
        return f"{value:g}" if isinstance(value, float) else str(value)

    return read


QUESTIONS = (
    Question("name", "Name of the recipe", lambda asking: "mine", check=_check_name),
    Question(
        "hardware",
        "Hardware group",
        lambda asking: asking.hardware,
        lambda asking: tuple(sorted(path.stem for path in (CONFIG_DIR / "hardware").glob("*.yaml"))),
    ),
    Question(
        "model",
        "Model: a folder or a hub id, or none for the hardware's default",
        lambda asking: asking.model,
        check=_check_model,
    ),
    Question(
        "environments",
        "Environments, separated by commas",
        lambda asking: OPENSPIEL,
        lambda asking: environment_names(),
        whole=True,
    ),
    Question(
        "games",
        "Games, such as hex,go or hex(board_size=5), or all",
        lambda asking: asking.environment.get("GAME_TYPES") or "all",
        applies=_plays,
        whole=True,
    ),
    Question(
        "play",
        "Single moves (move) or whole games (episode)",
        lambda asking: "move",
        lambda asking: ("move", "episode"),
        applies=_plays,
        whole=True,
    ),
    Question(
        "opponent",
        f"Opponent: {', '.join(forms_of(OPENSPIEL))} or {SELF}",
        lambda asking: "random",
        check=_check_opponent,
        applies=_whole_games,
        whole=True,
    ),
    Question(
        "curriculum",
        "Curriculum: stages of rising difficulty (default) or none",
        # Self-play is already a curriculum. OpenSpiel's default stages are whole games.
        lambda asking: DEFAULT if _whole_games(asking.answers) and asking.answers.opponent != SELF else NONE,
        lambda asking: (DEFAULT, NONE),
        whole=True,
    ),
    Question(
        "algorithm",
        "Algorithm of the training",
        _algorithm,
        lambda asking: tuple(ALGORITHMS),
        whole=True,
        composed=lambda made: str(made.algorithm.adv_estimator).replace("gae", "ppo"),
    ),
    Question(
        "lora",
        "LoRA: train adapters only (on), or every parameter (off)",
        _lora,
        lambda asking: ("on", "off"),
        whole=True,
        composed=lambda made: "on" if made.actor_rollout_ref.model.lora_rank else "off",
    ),
    Question(
        "learning_rate",
        "Learning rate of the policy",
        lambda asking: "",
        check=_number,
        whole=True,
        composed=_composed("learning_rate"),
    ),
    Question(
        "prompts", "Tasks of a step", lambda asking: "", check=_integer, whole=True, composed=_composed("prompts")
    ),
    Question("steps", "Training steps", lambda asking: "", check=_integer, whole=True, composed=_composed("steps")),
    Question(
        "logging",
        "Loggers in addition to the console and a file, separated by commas",
        lambda asking: "wandb" if asking.environment.get("WANDB_API_KEY") else NONE,
        lambda asking: LOGGERS,
        whole=True,
    ),
    Question(
        "wandb_mode",
        "Weights & Biases mode: online, or offline with a later `wandb sync`",
        lambda asking: "online" if asking.environment.get("WANDB_API_KEY") else "offline",
        lambda asking: ("online", "offline", "disabled"),
        applies=_logs,
    ),
    Question(
        "wandb_project",
        "Weights & Biases project",
        lambda asking: asking.environment.get(PROJECT) or Answers.wandb_project,
        applies=_logs,
    ),
)
"""Every question, in order."""


def ask_all(asking: Asking, given: Mapping[str, str], console: Console, *, terminal: bool) -> None:
    """Answer every question by a flag, by the user, or by the default.

    Args:
        asking: The answers so far.
        given: Answers from flags, by field.
        console: Where the questions are printed.
        terminal: Whether the user can be asked. Otherwise defaults are used.

    Raises:
        UserError: An answer from a flag, or a default, is invalid.
    """
    for question in QUESTIONS:
        field = question.field
        if not question.applies(asking.answers):
            if field in given:
                raise UserError(
                    f"--{field.replace('_', '-')}={given[field]} has no effect with the other answers: leave it out"
                )
            continue
        if field in given or not terminal:
            asking.answer(question, given[field] if field in given else question.proposal(asking))
            continue
        while True:
            known = question.known(asking)
            text = f"{question.text} [dim]({', '.join(known)})[/dim]" if known else question.text.replace("[", r"\[")
            try:
                asking.answer(
                    question, Prompt.ask(text, console=console, default=question.proposal(asking)), tried=True
                )
            except UserError as error:
                console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            else:
                break
