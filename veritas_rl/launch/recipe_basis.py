"""What a recipe stands on: its settings as the launcher composes them on its hardware, and the tasks that they give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from veritas_rl.basis import Basis
from veritas_rl.composition import settings_digest, without_model
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.envs.tasks_digest import catalogues_of, tasks_digest
from veritas_rl.launch import configuration as conf
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipes import WORD
from veritas_rl.launch.trainer import Trainer
from veritas_rl.records.description import Description, read_description

DEMONSTRATED = 1000
"""The tasks of each case of demonstrations among which the digest chooses."""


def described(folder: Path, trainers: Mapping[str, Trainer]) -> Description | None:
    """The description of the recipe in a folder, with its basis; None if its config.yaml has no description.

    Args:
        folder: The recipe's folder.
        trainers: The trainers by kind.

    Raises:
        UserError: The recipe cannot be composed, or a task cannot be started.
    """
    with without_model():
        description = read_description(folder)
    return None if description is None else replace(description, basis=basis_of(folder, description, trainers))


def basis_of(folder: Path, description: Description, trainers: Mapping[str, Trainer]) -> Basis:
    """The basis of a recipe without departures, in its whole form and with its own seed.

    Raises:
        UserError: As for `described`.
    """
    trainer = trainers[description.trainer]
    fine_tuner = None if description.sft is None else trainers["sft"]
    fine_tunings = [one for one in (description.sft, description.continued_sft_of("whole")) if one is not None]
    return _basis(folder, description.hardware, trainer, fine_tuner, tuple(fine_tunings), _state(folder))


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """The sizes and times of the files from which a recipe is composed, also of those beside it."""
    files = [*conf.CONFIG_DIR.rglob("*.yaml"), *folder.parent.glob("*.yaml"), *folder.parent.glob("*/*.yaml")]
    found = [(str(file), file.stat()) for file in sorted(files)]
    return tuple((name, made.st_mtime_ns, made.st_size) for name, made in found)


@cache
def _basis(
    folder: Path,
    hardware: str,
    trainer: Trainer,
    fine_tuner: Trainer | None,
    fine_tunings: tuple[tuple[str, ...], ...],
    state: tuple[tuple[str, int, int], ...],
) -> Basis:
    training = composed_on(trainer, [f"{WORD}{folder}"], hardware)
    fine_tuned = [composed_on(fine_tuner, sft, hardware) for sft in fine_tunings] if fine_tuner is not None else []
    played = catalogues_of(conf.dataset_settings(training)) if trainer.kind == "rl" else _demonstrated(training)
    # A continued fine-tuning has the demonstrations of the first one.
    catalogues = [*played, *(task for one in fine_tuned[:1] for task in _demonstrated(one))]
    for one in fine_tuned:
        # It judges the fine-tuned model, and its figures are not among those of the recipe.
        one.veritas_rl.evaluation = None
    return Basis(settings_digest(training, *(fine_tuned or [None])), tasks_digest(catalogues))


def composed_on(trainer: Trainer, typed: Sequence[str], hardware: str) -> DictConfig:
    """The configuration with which a trainer starts on a kind of hardware, whatever this machine is."""
    machine = Hardware(cores=1, gpus=0 if hardware == "cpu" else 1, gpu_bytes=0)
    with without_model():
        wanted = trainer.overrides([*typed, f"hardware={hardware}"], {}, machine)
        configuration = conf.compose_configuration(wanted, trainer.config)
    if trainer.kind == "rl":
        # What the launcher adds to every start, as far as it does not depend on the machine.
        added = [*conf.mini_batch_overrides(configuration, wanted), *conf.step_overrides(configuration, wanted)]
        for key, _, value in (item.partition("=") for item in added):
            OmegaConf.update(configuration, key, int(value))
    return configuration


def _demonstrated(configuration: DictConfig) -> Iterator[Sequence[Task]]:
    """The tasks of the demonstrations of a fine-tuning; none if it has files of the user's."""
    if configuration.veritas_rl.demonstrations.env is None:
        return
    # This imports pyarrow and the players, which a training does not need here.
    from veritas_rl.launch.sft_data import demonstration_settings

    settings = demonstration_settings(configuration)
    yield from (settings.catalogue(split, DEMONSTRATED) for split in SPLITS)
