"""Read and check the parquet files of supervised fine-tuning before a run starts."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
from omegaconf import DictConfig, ListConfig, OmegaConf
from rich.console import Console

from veritas_rl.chat_template import prompt_ids, reply_ids
from veritas_rl.datasets.chats import (
    SYSTEM,
    check_chats,
    column_of,
    enable_thinking_of,
    plain_chats,
    replies_of,
    with_system,
)
from veritas_rl.envs.places import as_typed
from veritas_rl.envs.registry import get_environment
from veritas_rl.errors import UserError
from veritas_rl.launch.model_checks import tokenizer_of
from veritas_rl.paths import ROOT

if TYPE_CHECKING:
    from veritas_rl.demonstrations.generate import Settings
    from veritas_rl.demonstrations.questions import Demonstration
    from veritas_rl.verl_plugin.sft_dataset import FineTuningRows

MADE_BY = "make it with python train/tools/generate_demonstrations.py{env} --output {folder}"

VAL_RATIO = 0.1
"""The validation share of the demonstrations that the launcher makes."""

LONG = 0.01
"""The share of generated demonstrations that may be left out because they are too long."""

NAMED = 3
"""The maximum number of rows that an error names."""

TRUNCATIONS = ("error", "left", "right")


@dataclass(frozen=True)
class Data:
    """The files of a run; empty in a dry run if the files are missing.

    Attributes:
        train: The training files.
        val: The validation files, which may be empty.
        train_rows: The number of training sequences: one for each row, or several for a conversation whose earlier
            turns the chat template shows in another way at later turns.
        val_rows: The number of validation sequences.
    """

    train: tuple[Path, ...] = ()
    val: tuple[Path, ...] = ()
    train_rows: int = 0
    val_rows: int = 0

    def steps_per_epoch(self, configuration: DictConfig) -> int:
        """Updates in one epoch. A partial last batch is dropped."""
        ranks = configuration.trainer.n_gpus_per_node
        return self.train_rows // ranks // (configuration.data.train_batch_size // ranks)

    def column(self, name: str) -> list[Any]:
        """A column of the training rows; empty if it does not exist."""
        values: list[Any] = []
        for path in self.train:
            if name in pyarrow.parquet.read_schema(path).names:
                values += pyarrow.parquet.read_table(path, columns=[name]).column(name).to_pylist()
        return values


def read_data(configuration: DictConfig) -> Data:
    """The files that `data.train_files` and `data.val_files` name.

    Raises:
        UserError: A file is missing, is not a parquet file, or has no column of conversations; a message is no text,
            or its chat template does not accept it.
    """
    data = configuration.data
    train, val = _paths(data.train_files), _paths(data.val_files)
    if not train:
        raise UserError("data.train_files is empty: set it to a parquet file")
    env = configuration.veritas_rl.demonstrations.env
    limits = data.train_max_samples, data.val_max_samples
    rows = [sequences(configuration, paths, limit) for paths, limit in zip((train, val), limits, strict=True)]
    found = Data(train, val, *rows)
    if env is not None and (sources := set(found.column("data_source"))) and env not in sources:
        print(f"note: {train[0]} has rows of {', '.join(sorted(sources))}, but none of {env}", file=sys.stderr)
    return found


def make_missing(configuration: DictConfig) -> None:
    """Generate the configured demonstrations if none of their files exists.

    Files with other names are never generated.

    Raises:
        UserError: The environment or case does not exist, or the folder is not writable.
    """
    asked, data = configuration.veritas_rl.demonstrations, configuration.data
    train, val = _paths(data.train_files), _paths(data.val_files)
    if asked.env is None or any(path.exists() for path in (*train, *val)):
        return
    # This imports pandas and the players, which a run with existing files does not need.
    from veritas_rl.demonstrations import dataset
    from veritas_rl.demonstrations.generate import generate
    from veritas_rl.demonstrations.questions import PARTIAL
    from veritas_rl.parallel import Workers
    from veritas_rl.progress import progress

    if not train or [*train, *val] != [train[0].parent / name for name in dataset.FILES]:
        return
    folder = train[0].parent
    print(f"generating {asked.number} demonstrations of {asked.env} in {folder}", file=sys.stderr)
    settings = demonstration_settings(configuration)
    with Workers(None) as workers, progress(Console(stderr=True), settings.number, 0, "demonstration") as advance:
        made, counts = generate(settings, advance, workers, folder)
    dataset.write(folder, settings, _fitting(configuration, made), counts, VAL_RATIO)
    (folder / PARTIAL).unlink()


def _fitting(configuration: DictConfig, made: "Sequence[Demonstration]") -> "Sequence[Demonstration]":
    """Demonstrations without the few that are too long for a named model. Many are an error of `check_rows`."""
    data, model = configuration.data, configuration.model.path
    if model is None or data.truncation != "error" or own_dataset(configuration):
        return made
    tokenizer, thinks = tokenizer_of(model), enable_thinking_of(data)
    fitting = [
        each
        for each in made
        if len(prompt_ids(tokenizer, each.messages, enable_thinking=thinks))
        + len(reply_ids(tokenizer, each.response, enable_thinking=thinks))
        <= data.max_length
    ]
    left_out = len(made) - len(fitting)
    if not 0 < left_out <= LONG * len(made):
        return made
    print(
        f"note: {left_out} of them have more tokens than data.max_length={data.max_length}, and are left out",
        file=sys.stderr,
    )
    return fitting


def demonstration_settings(configuration: DictConfig) -> "Settings":
    """The settings of the demonstrations that a fine-tuning generates; its environment is named."""
    # This imports the players, which a run with existing files does not need.
    from veritas_rl.demonstrations.generate import Settings

    asked = configuration.veritas_rl.demonstrations
    environment = get_environment(asked.env)
    return Settings(
        games=asked.cases or environment.config_type.demonstrated,
        expert=asked.expert or environment.expert,
        number=asked.number,
        seed=configuration.veritas_rl.seed,
        env=asked.env,
        mode=asked.mode,
        prompt=asked.prompt,
        opponent=asked.opponent,
        config=_settings(asked.config),
    )


def _settings(given: Any) -> tuple[tuple[str, Any], ...]:
    if given is not None and not isinstance(given, DictConfig):
        raise UserError(
            f"veritas_rl.demonstrations.config={given} must be settings by name, such as {{debug_prints: 0}}"
        )
    plain: Any = {} if given is None else OmegaConf.to_container(given, resolve=True)
    return tuple(plain.items())


def _paths(given: Any) -> tuple[Path, ...]:
    if given is None:
        return ()
    names: Sequence[str] = [*given] if isinstance(given, ListConfig | list) else [given]
    return tuple(ROOT / Path(str(name)).expanduser() for name in names)


def sequences(configuration: DictConfig, paths: Sequence[Path], limit: int) -> int:
    """The number of sequences in files; see `Data`.

    Args:
        configuration: The resolved configuration.
        paths: The files.
        limit: The maximum number of rows; without limit if it is not positive.

    Raises:
        UserError: As `read_data`.
    """
    replies = [_replies(path, configuration) for path in paths]
    total = sum(map(len, replies))
    if any((numbers > 1).any() for numbers in replies) and not own_dataset(configuration):
        return len(opened(configuration, paths, tokenizer_of(configuration.model.path, conversation=True), limit))
    return min(total, limit) if limit > 0 else total


def own_dataset(configuration: DictConfig) -> bool:
    """Whether the user names a dataset class, which decides itself what is learned."""
    return configuration.data.custom_cls.path is not None


def opened(configuration: DictConfig, paths: Sequence[Path], tokenizer: Any, limit: int = -1) -> "FineTuningRows":
    """The sequences of files as the trainer reads them."""
    from veritas_rl.verl_plugin.sft_dataset import FineTuningRows

    return FineTuningRows(paths, tokenizer, configuration.data, max_samples=limit)


def _replies(path: Path, configuration: DictConfig) -> Any:
    """The number of replies in each row of a file."""
    data, env = configuration.data, configuration.veritas_rl.demonstrations.env
    made = MADE_BY.format(env="" if env is None else f" --env {shlex.quote(as_typed(env))}", folder=path.parent)
    try:
        names = pyarrow.parquet.read_schema(path).names
        chats = column_of(names, data.messages_key)
        kept = [name for name in (chats, SYSTEM, data.tools_key, "images", "videos") if name in names]
        columns = pyarrow.parquet.read_table(path, columns=kept)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {made}, or set data.train_files and data.val_files") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path} is not a readable parquet file ({' '.join(str(error).split())[:100]})") from error
    if chats not in names:
        raise UserError(
            f"{path} has no column {data.messages_key}, only {', '.join(names)}: {made}, or from JSONL with "
            "train/tools/convert_to_parquet.py --format sft"
        )
    for name in kept:
        if name not in (chats, SYSTEM) and columns.column(name).null_count < len(columns):
            raise UserError(f"{path} has a column {name}, which RL and evaluation never show: leave it out")
    name = f"the column {chats} of {path}"
    plain = plain_chats(columns.column(chats), name)
    check_chats(plain, name)
    return replies_of(with_system(plain, columns.column(SYSTEM), name) if SYSTEM in kept else plain)


def check_rendering(configuration: DictConfig) -> None:
    """Check the settings of the rows' tokens.

    Raises:
        UserError: A setting of verl's own dataset is given that has no effect, or truncation has an unknown value.
    """
    data = configuration.data
    if data.truncation not in TRUNCATIONS:
        raise UserError(f"data.truncation={data.truncation} is not supported: set it to {', '.join(TRUNCATIONS)}")
    if data.pad_mode != "no_padding":
        raise UserError(f"data.pad_mode={data.pad_mode} is not supported by verl's engine: leave it out")
    if own_dataset(configuration):
        return
    if data.ignore_input_ids_mismatch:
        raise UserError(
            "data.ignore_input_ids_mismatch has no effect, because each reply is learned in the prompt that asks for "
            "it: leave it out"
        )
    if data.enable_thinking_default not in (None, "none"):
        raise UserError(
            "data.enable_thinking_default has no effect: set data.apply_chat_template_kwargs.enable_thinking, which "
            "evaluation takes too"
        )


def check_batch(configuration: DictConfig, data: Data) -> None:
    """Check that a batch is divisible into ranks and micro-batches, and that the files fill at least one batch.

    Raises:
        UserError: A number is invalid, or there are too few rows.
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
            raise UserError(f"{name}={number} must be a positive integer")
    if batch % ranks:
        raise UserError(
            f"data.train_batch_size={batch} must be a multiple of the {ranks} ranks (trainer.n_gpus_per_node)"
        )
    micro = settings.micro_batch_size_per_gpu
    if not settings.use_dynamic_bsz and batch // ranks % micro:
        raise UserError(
            f"a rank has {batch // ranks} rows of a batch, which is not divisible into micro-batches of {micro}: set "
            f"data.micro_batch_size_per_gpu to a divisor of {batch // ranks}"
        )
    for name, files, rows in (
        ("data.train_files", data.train, data.train_rows),
        ("data.val_files", data.val, data.val_rows),
    ):
        if files and rows // ranks < batch // ranks:
            # verl drops partial batches: nothing would be trained, and the validation loss would be nan.
            raise UserError(
                f"{name} has {rows} rows, less than a batch of {batch}: make more demonstrations, or set "
                "data.train_batch_size lower" + ("" if name == "data.train_files" else ", or data.val_files=null")
            )


def check_rows(configuration: DictConfig, data: Data, tokenizer: Any) -> None:
    """Check that the model's chat template accepts the rows, and that they fit.

    verl would end with an error at the first row that does not, or train nothing of it.

    Args:
        configuration: The resolved configuration.
        data: The files.
        tokenizer: The model's tokenizer, with a chat template.

    Raises:
        UserError: The template does not accept a row, or a row is too long.
    """
    settings = configuration.data
    wrong: dict[str, int] = {}
    for rows in (opened(configuration, paths, tokenizer) for paths in (data.train, data.val) if paths):
        for index in rows.kinds():
            rows.learned(index)
        for index in rows.may_exceed(settings.max_length):
            row = rows.learned(index)
            if len(row.ids) > settings.max_length and (
                settings.truncation == "error" or not any(rows.truncated(row).mask)
            ):
                wrong[rows.name_of(index)] = len(row.ids)
    if not wrong:
        return
    longest, more = max(wrong.values()), f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
    named = f"{', '.join([*wrong][:NAMED])}{more}"
    if settings.truncation == "error":
        raise UserError(
            f"a demonstration has {longest} tokens, more than data.max_length={settings.max_length} ({named}): raise "
            f"data.max_length to {longest} or more, or set data.truncation=left"
        )
    raise UserError(
        f"data.truncation={settings.truncation} cuts off the whole reply of a demonstration with {longest} tokens "
        f"({named}): raise data.max_length to {longest}, or set data.truncation=left"
    )
