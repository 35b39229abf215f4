"""The questions, each with a default from what the machine has and from what was answered before."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.prompt import Prompt

from veritas_rl.envs.registry import environment_names
from veritas_rl.errors import UserError, unknown
from veritas_rl.launch import rl
from veritas_rl.launch.configuration import CONFIG_DIR, GROUPS, compose_configuration
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.variables import ALGORITHMS
from veritas_rl.players.registry import SELF, forms_of
from veritas_rl.wizard.answers import DEFAULT, MODEL, NONE, OPENSPIEL, Answers

NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
LOGGERS = (NONE, "wandb", "tensorboard")
PROJECT = "WANDB_PROJECT"


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        field: The field of `Answers`, and the flag.
        text: What is asked.
        default: What is proposed.
        check: Refuses an answer with a `UserError`.
        known: The answers that there are; empty where any is one.
        applies: Whether it is asked at all, after what was answered.
        whole: Whether all settings are tried together after it.
    """

    field: str
    text: str
    default: Callable[["Asking"], str]
    known: Callable[["Asking"], tuple[str, ...]] = lambda asking: ()
    check: Callable[[str], None] = lambda answer: None
    applies: Callable[[Answers], bool] = lambda answers: True
    whole: bool = False


class Asking:
    """What was answered so far, on this machine.

    Args:
        environment: The process environment, with `.env`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.answers = Answers()

    @cached_property
    def machine(self) -> Hardware:
        """What the machine has."""
        return this_machine()

    @property
    def hardware(self) -> str:
        """The group that suits it."""
        return self.machine.overrides()[0].partition("=")[2]

    @property
    def model(self) -> str:
        """The model that is named in the environment, or the group's own."""
        configuration = compose_configuration([f"hardware={self.answers.hardware}"])
        return configuration.actor_rollout_ref.model.path or NONE

    def answer(self, question: Question, given: str, *, tried: bool = False) -> None:
        """Take an answer.

        Args:
            question: What it answers.
            given: The answer.
            tried: Whether all that was answered so far is tried together, where the question asks for it.

        Raises:
            UserError: It cannot be; the answers stay as they were.
        """
        given = given.strip()
        names = [part.strip() for part in given.split(",")] if question.field in LISTS else [given]
        for name in names:
            if (known := question.known(self)) and name not in known:
                raise unknown(question.field.replace("_", " "), name, known)
        question.check(given)
        before = self.answers
        self.answers = dataclasses.replace(before, **{question.field: _as_written(question.field, given)})
        try:
            if tried and question.whole:
                self.try_out()
        except UserError:
            self.answers = before
            raise

    def try_out(self) -> rl.RlRun:
        """Make of the answers what the launcher would start, in a recipe that is thrown away.

        Raises:
            UserError: It would be refused.
        """
        if self.answers.model == NONE:
            os.environ.pop(MODEL, None)
        else:
            # The configuration reads it from there.
            os.environ[MODEL] = self.answers.model
        variables = {name: value for name, value in self.environment.items() if name not in self.answers.variables()}
        hardware = dataclasses.replace(self.machine, gpus=0 if self.answers.hardware == "cpu" else 1)
        with TemporaryDirectory() as folder:
            recipe = Path(folder) / (self.answers.name or "recipe")
            self.answers.write_recipe(recipe)
            return rl.plan([f"recipe={recipe}"], variables, hardware, datetime.now(), dry=True)


LISTS = ("environments", "logging")
"""Fields that hold several names with commas."""


def _as_written(field: str, given: str) -> str:
    folder = Path(given).expanduser()
    return str(folder.resolve()) if field == "model" and folder.is_dir() else given


def _check_name(given: str) -> None:
    if not NAME.fullmatch(given) or given in GROUPS:
        raise UserError(
            f"a recipe cannot be named {given!r}: use letters, digits, _ and -, and none of {', '.join(GROUPS)}"
        )


def _check_model(given: str) -> None:
    if given != NONE and not Path(given).expanduser().is_dir() and not re.fullmatch(r"[\w.-]+/[\w.-]+", given):
        raise UserError(f"{given!r} is neither a folder nor a hub id: type one such as Qwen/Qwen2.5-1.5B-Instruct")


def _check_opponent(given: str) -> None:
    if not given:
        raise UserError(f"an opponent is missing: {', '.join(forms_of(OPENSPIEL))} or {SELF}")


def _plays(answers: Answers) -> bool:
    return OPENSPIEL in answers.envs


def _whole_games(answers: Answers) -> bool:
    return _plays(answers) and answers.play == "episode"


def _logs(answers: Answers) -> bool:
    return "wandb" in answers.loggers


def _algorithm(asking: Asking) -> str:
    answers = asking.answers
    if _whole_games(answers) and answers.opponent == SELF:
        return "rae"
    return "ppo" if answers.envs == [OPENSPIEL] else "grpo"


QUESTIONS = (
    Question("name", "Name of the recipe", lambda asking: "mine", check=_check_name),
    Question(
        "hardware",
        "Hardware",
        lambda asking: asking.hardware,
        lambda asking: tuple(sorted(path.stem for path in (CONFIG_DIR / "hardware").glob("*.yaml"))),
    ),
    Question(
        "model",
        "Model: a folder or a hub id; none is the hardware's own",
        lambda asking: asking.model,
        check=_check_model,
    ),
    Question(
        "environments",
        "Environments, with commas",
        lambda asking: OPENSPIEL,
        lambda asking: environment_names(),
        whole=True,
    ),
    Question(
        "games", "Games, as in hex,go or hex(board_size=5); all", lambda asking: "all", applies=_plays, whole=True
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
        # Self-play is a curriculum of its own; the default stages of OpenSpiel are whole games.
        lambda asking: DEFAULT if _whole_games(asking.answers) and asking.answers.opponent != SELF else NONE,
        lambda asking: (DEFAULT, NONE),
        whole=True,
    ),
    Question("algorithm", "Algorithm", _algorithm, lambda asking: tuple(ALGORITHMS), whole=True),
    Question(
        "logging",
        "Logging beside the console and a file, with commas",
        lambda asking: "wandb" if asking.environment.get("WANDB_API_KEY") else NONE,
        lambda asking: LOGGERS,
        whole=True,
    ),
    Question(
        "wandb_mode",
        "Weights & Biases: online, or offline and `wandb sync` later",
        lambda asking: "online" if asking.environment.get("WANDB_API_KEY") else "offline",
        lambda asking: ("online", "offline", "disabled"),
        applies=_logs,
    ),
    Question(
        "wandb_project",
        "Weights & Biases: project",
        lambda asking: asking.environment.get(PROJECT) or Answers.wandb_project,
        applies=_logs,
    ),
)
"""Every question, in the order in which they are asked."""


def ask_all(asking: Asking, given: Mapping[str, str], console: Console, *, terminal: bool) -> None:
    """Answer every question: by a flag, by the person, or by the default.

    Args:
        asking: What is answered.
        given: Answers by flags, by field.
        console: Where it is asked.
        terminal: Whether a person can be asked; otherwise defaults are taken.

    Raises:
        UserError: An answer by a flag, or a default, cannot be.
    """
    for question in QUESTIONS:
        field = question.field
        if not question.applies(asking.answers):
            if field in given:
                raise UserError(f"--{field.replace('_', '-')}={given[field]} does not apply here: leave it out")
            continue
        if field in given or not terminal:
            asking.answer(question, given[field] if field in given else question.default(asking))
            continue
        while True:
            known = question.known(asking)
            text = f"{question.text} [dim]({', '.join(known)})[/dim]" if known else question.text.replace("[", r"\[")
            try:
                asking.answer(question, Prompt.ask(text, console=console, default=question.default(asking)), tried=True)
            except UserError as error:
                console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            else:
                break
