"""What the parquet files of a run hold, and whether they can be trained on: checked before anything is started."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from omegaconf import DictConfig, ListConfig

from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

MADE_BY = "python train/tools/generate_demonstrations.py{env} --output {folder} makes it"

VAL_RATIO = 0.1
"""The share of the demonstrations made here on which the loss is measured alone."""

LONGEST = 64
"""Of how many rows, the longest by letters, the tokens are counted."""


@dataclass(frozen=True)
class Data:
    """The files of a run; none in a dry run on a machine that has not got them.

    Attributes:
        train: Those that are learned from.
        val: Those on which the loss is measured; none for no measurement.
        messages_key: The column with the conversations.
        train_rows: How many rows `train` has.
        val_rows: How many rows `val` has.
    """

    train: tuple[Path, ...] = ()
    val: tuple[Path, ...] = ()
    messages_key: str = "messages"
    train_rows: int = 0
    val_rows: int = 0

    def steps_per_epoch(self, configuration: DictConfig) -> int:
        """Updates in one pass: what is left of the last batch is dropped."""
        ranks = configuration.trainer.n_gpus_per_node
        return self.train_rows // ranks // (configuration.data.train_batch_size // ranks)

    def column(self, name: str) -> list[Any]:
        """A column of the training rows; empty where there is none."""
        values: list[Any] = []
        for path in self.train:
            if name in pyarrow.parquet.read_schema(path).names:
                values += pyarrow.parquet.read_table(path, columns=[name]).column(name).to_pylist()
        return values


def read_data(configuration: DictConfig) -> Data:
    """The files that `data.train_files` and `data.val_files` name.

    Raises:
        UserError: One is not there, is no parquet, or has no column of conversations.
    """
    data = configuration.data
    train, val = _paths(data.train_files), _paths(data.val_files)
    if not train:
        raise UserError("data.train_files names no file")
    env = configuration.veritas_rl.demonstrations.env
    rows = [sum(_rows(path, data.messages_key, env) for path in paths) for paths in (train, val)]
    found = Data(train, val, data.messages_key, *rows)
    if env is not None and (sources := set(found.column("data_source"))) and env not in sources:
        print(f"note: {train[0]} has rows of {', '.join(sorted(sources))}, and none of {env}", file=sys.stderr)
    return found


def make_missing(configuration: DictConfig) -> None:
    """Make the demonstrations that the configuration describes, where none of its files is there.

    Files with names of their own are not made: they come from elsewhere.

    Raises:
        UserError: There is no such environment or case, or the folder cannot be written.
    """
    asked, data = configuration.veritas_rl.demonstrations, configuration.data
    train, val = _paths(data.train_files), _paths(data.val_files)
    if asked.env is None or any(path.exists() for path in (*train, *val)):
        return
    # They import pandas and the players, which a run on files that are there does not pay for.
    from veritas_rl.demonstrations import dataset
    from veritas_rl.demonstrations.generate import Settings, generate

    if not train or [*train, *val] != [train[0].parent / name for name in dataset.FILES]:
        return
    environment = get_environment(asked.env)
    folder = train[0].parent
    print(f"making {asked.number} demonstrations of {asked.env}: {folder}", file=sys.stderr)
    settings = Settings(
        games=asked.cases or environment.demonstrated,
        expert=environment.expert,
        number=asked.number,
        seed=configuration.veritas_rl.seed,
        env=asked.env,
        prompt=asked.prompt,
    )
    made, counts = generate(settings)
    dataset.write(folder, settings, made, counts, VAL_RATIO)


def _paths(given: Any) -> tuple[Path, ...]:
    if given is None:
        return ()
    names: Sequence[str] = [*given] if isinstance(given, ListConfig | list) else [given]
    return tuple(ROOT / Path(str(name)).expanduser() for name in names)


def _rows(path: Path, messages_key: str, env: str | None) -> int:
    made = MADE_BY.format(env="" if env is None else f" --env {env}", folder=path.parent)
    try:
        file = pyarrow.parquet.read_metadata(path)
        names = pyarrow.parquet.read_schema(path).names
    except FileNotFoundError:
        raise UserError(f"there is no {path}: {made}, or set data.train_files and data.val_files") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path} is no parquet file that can be read ({' '.join(str(error).split())[:100]})") from error
    if messages_key not in names:
        raise UserError(
            f"{path} has no column {messages_key}, but {', '.join(names)}: {made}, as "
            "does train/tools/convert_to_parquet.py --format sft of JSONL"
        )
    return file.num_rows


def check_batch(configuration: DictConfig, data: Data) -> None:
    """A batch divides into ranks and micro-batches, and each kind of file fills one.

    Raises:
        UserError: They do not.
    """
    settings, ranks = configuration.data, configuration.trainer.n_gpus_per_node
    batch, steps = settings.train_batch_size, configuration.trainer.total_training_steps
    numbers = {
        "data.train_batch_size": batch,
        "data.micro_batch_size_per_gpu": settings.micro_batch_size_per_gpu,
        "data.max_length": settings.max_length,
        "trainer.n_gpus_per_node": ranks,
        "trainer.total_epochs": configuration.trainer.total_epochs,
        "trainer.total_training_steps": 1 if steps is None else steps,
    }
    for name, number in numbers.items():
        if not isinstance(number, int) or number < 1:
            raise UserError(f"{name}={number} is no whole number above 0")
    if batch % ranks:
        raise UserError(f"data.train_batch_size={batch} does not divide into {ranks} ranks: choose a multiple")
    micro = settings.micro_batch_size_per_gpu
    if not settings.use_dynamic_bsz and batch // ranks % micro:
        raise UserError(
            f"a rank has {batch // ranks} rows of a batch, which do not divide into micro-batches of {micro}: set "
            "data.micro_batch_size_per_gpu to a divisor"
        )
    for name, files, rows in (
        ("data.train_files", data.train, data.train_rows),
        ("data.val_files", data.val, data.val_rows),
    ):
        if files and rows // ranks < batch // ranks:
            # verl drops what does not fill a batch: nothing would be trained, and the loss of no row is no number.
            raise UserError(
                f"{name} has {rows} rows, less than a batch of {batch}: make more demonstrations, or set "
                "data.train_batch_size lower" + ("" if name == "data.train_files" else ", or data.val_files=null")
            )


def check_lengths(data: Data, tokenizer: Any, max_length: int) -> None:
    """The longest rows fit: verl would end with an error when it meets one that does not.

    Args:
        data: The files.
        tokenizer: The model's, with a chat template.
        max_length: The most tokens of a conversation, its answer included.

    Raises:
        UserError: One does not fit.
    """
    rows = data.column(data.messages_key)
    rows.sort(key=lambda messages: -sum(len(message["content"]) for message in messages))
    for messages in rows[:LONGEST]:
        length = len(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False))
        if length > max_length:
            raise UserError(
                f"a demonstration has {length} tokens, and data.max_length is {max_length}: raise it, or set "
                "data.truncation=right to cut what is longer"
            )
