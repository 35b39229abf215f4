"""A check for memorized answers: the same single answers, unchanged and perturbed.

An environment names its perturbations (`Environment.perturbations`): ways to show a task differently while it stays the
same problem. The tasks are of the training split: that is where answers can be learned by heart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, distinct, judge
from veritas_rl.players.loading import NamedPlayer


@dataclass(frozen=True)
class PerturbedCheck:
    """Single answers of one case, as they are and in one perturbation.

    Attributes:
        player: Who was judged.
        case: What was asked.
        perturbation: Its name, see `Environment.perturbations`.
        description: What it changes, as it stands in a sentence.
        plain: The tasks as they are.
        other: The same tasks, perturbed.
    """

    player: str
    case: str
    perturbation: str
    description: str
    plain: Judgement
    other: Judgement


def check_perturbed(
    examples: Iterable[Task], models: Sequence[NamedPlayer], count: int, seed: int, console: Console
) -> Iterator[PerturbedCheck]:
    """Judge each model on the same tasks, as they are and in every perturbation that there is.

    Args:
        examples: A task of each case; the tasks that are asked have its case and its prompt.
        models: Who is judged.
        count: The most tasks of each case.
        seed: Seeds the perturbations.
        console: Where to print.
    """
    for example in examples:
        environment = get_environment(example.env)
        found = environment.perturbations(example)
        if not found or not models:
            continue
        tasks = distinct(_single_answers(environment, example, count), count)
        for player in models:
            console.print(f"{len(tasks)} positions of {example.case}, also perturbed: {', '.join(found)}")
            plain = judge(player.player, tasks)
            for name, description in found.items():
                session_of = partial(environment.start_perturbed, name=name, seed=seed)
                other = judge(player.player, tasks, session_of=session_of)
                yield PerturbedCheck(player.name, example.case, name, description, plain, other)


def _single_answers(environment: Environment, example: Task, count: int) -> Sequence[Task]:
    settings = {
        **environment.single,
        "cases": example.case,
        "prompt": example.manner.prompt,
        "num_tasks_per_case": count,
    }
    try:
        config = environment.read_config(settings)
    except UserError:
        # Where no single answer of a case has a value, being legal is what is left to count.
        config = environment.read_config({**settings, "reward": "legal"})
    return environment.catalogue(config, "train")
