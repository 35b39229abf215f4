"""A check for memorized answers: the same single answers, unchanged and perturbed.

An environment names its perturbations (`Perturbs`). A perturbation shows a task differently and leaves the problem
unchanged. The tasks come from the training split, because only answers to training tasks can be memorized.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from veritas_rl.envs.abilities import Perturbs
from veritas_rl.envs.environment import Environment
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.judging.held_out import Judgement, distinct, judge
from veritas_rl.players.loading import NamedPlayer
from veritas_rl.progress import progress


@dataclass(frozen=True)
class PerturbedCheck:
    """Single answers of one case, unchanged and in one perturbation.

    Attributes:
        player: The judged player.
        case: The case of the tasks.
        perturbation: The perturbation's name, see `Perturbs`.
        description: What the perturbation changes, as part of a sentence.
        plain: The results on the unchanged tasks.
        other: The results on the same tasks, perturbed.
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
    """Judge each model on the same tasks, unchanged and in every perturbation of the environment.

    Args:
        examples: One task of each case. The judged tasks have its case and its prompt.
        models: The judged models.
        count: The maximum number of tasks of each case.
        seed: The seed of the perturbations.
        console: Where to print.
    """
    for example in examples:
        environment = get_environment(example.env)
        if not isinstance(environment, Perturbs) or not models or not (found := environment.perturbations(example)):
            continue
        tasks = distinct(_single_answers(environment, example, count), count)
        for player in models:
            console.print(f"{player.name}: {len(tasks)} tasks of {example.case}, then perturbed: {', '.join(found)}")
            with progress(console, len(tasks), 0, "answer", doing="unchanged", of_replies=True):
                plain = judge(player.player, tasks)
            for name, description in found.items():
                session_of = partial(environment.start_perturbed, name=name, seed=seed)
                with progress(console, len(tasks), 0, "answer", doing=name, of_replies=True):
                    other = judge(player.player, tasks, session_of=session_of)
                yield PerturbedCheck(player.name, example.case, name, description, plain, other)


def _single_answers(environment: Environment, example: Task, count: int) -> Sequence[Task]:
    settings = {
        **environment.config_type.single,
        "cases": example.case,
        "prompt": example.manner.prompt,
        "num_tasks_per_case": count,
    }
    try:
        config = environment.read_config(settings)
    except UserError:
        # If single answers of a case have no value, only their legality is judged.
        config = environment.read_config({**settings, "reward": "legal"})
    return environment.catalogue(config, "train")
