"""The small trained models that the folder `models` keeps, each with a card.

The card is the model's README.md. Its head has what a program checks: the digest of the weights, the command that made
the model, how it was judged, and the figures.
"""

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from jinja2 import Environment, StrictUndefined

from veritas_rl.checkpoints.folder import whole_folder, write_whole
from veritas_rl.checkpoints.layout import MERGE_REPORT
from veritas_rl.checkpoints.origin import Origin
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

MODELS = ROOT / "models"
CARD, WEIGHTS, TEMPLATE = "README.md", "model.safetensors", Path(__file__).with_name("kept_card.md.jinja")

NODE = "veritas_rl"
"""The key of the card's values, beside those of the hub."""


@dataclass(frozen=True)
class Card:
    """The card of a kept model.

    Attributes:
        command: The command that trained the model.
        date: The day of the judgement, as YYYY-MM-DD.
        judge: The options of train/tools/evaluate.py of the judgement.
        short: Further options that make it short.
        sha256: The SHA-256 of the weights' file.
        figures: The judged figures: "mean", and "low" and "high" of a 95% interval if there is one.
    """

    command: str
    date: str
    judge: tuple[str, ...]
    short: tuple[str, ...]
    sha256: str
    figures: Mapping[str, Mapping[str, float]]

    def check_digest(self, folder: Path) -> None:
        """Check that the weights in a folder are those of the card.

        Raises:
            UserError: They are others, or missing.
        """
        found = digest_of(folder)
        if found != self.sha256:
            raise UserError(
                f"{folder / WEIGHTS} is not the file of its card ({found[:12]} instead of {self.sha256[:12]}): get it "
                f"again, or remove {CARD}"
            )

    def failures(self, found: Mapping[str, Mapping[str, float]]) -> list[str]:
        """The figures of the card that a repeated judgement contradicts, one line each.

        Intervals must overlap. A figure without interval is exact, and may differ by 0.001.
        """
        lines = []
        for name, figure in self.figures.items():
            other = found.get(name)
            exact = {"low": figure["mean"] - 1e-3, "high": figure["mean"] + 1e-3, **figure}
            if other is None:
                lines.append(f"{name} was not judged")
            elif other.get("low", other["mean"]) > exact["high"] or other.get("high", other["mean"]) < exact["low"]:
                lines.append(f"{name} is {other['mean']:.4g}, and the card says {figure['mean']:.4g}")
        return lines


def digest_of(folder: Path) -> str:
    """The SHA-256 of a model's weights.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{folder} has no weights that can be read ({error})") from error


def read_card(folder: Path) -> Card | None:
    """The card of a kept model; None if the folder has none, such as a model of the hub.

    Raises:
        UserError: The card is damaged.
    """
    try:
        head = (folder / CARD).read_text(encoding="utf-8").partition("---\n")[2].partition("---\n")[0]
    except (OSError, UnicodeDecodeError):
        return None
    if f"\n{NODE}:" not in head:
        return None
    try:
        values = yaml.safe_load(head)[NODE]
        return Card(**{**values, "judge": tuple(values["judge"]), "short": tuple(values["short"])})
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise UserError(f"{folder / CARD} is damaged ({' '.join(str(error).split())}): get it again") from error


def keep_weights(source: Path, target: Path, origin: Origin) -> None:
    """Write a model with its weights in bfloat16, half as large. They are loaded as float32, as config.json says.

    Args:
        source: A merged model.
        target: The new folder, which must be missing or empty.
        origin: Its training.
    """
    # Late, because reading a card needs no torch.
    import torch
    from safetensors.torch import load_file, save_file

    from veritas_rl.checkpoints.mean import SOURCES
    from veritas_rl.checkpoints.models import copy_own_files

    with whole_folder(target) as beside:
        copy_own_files(source, beside, torch.float32)
        (beside / SOURCES).unlink(missing_ok=True)
        state: dict[str, torch.Tensor] = {}
        for file in sorted(source.glob("*.safetensors")):
            state |= {name: tensor.to(torch.bfloat16) for name, tensor in load_file(file).items()}
        save_file(state, beside / WEIGHTS, metadata={"format": "pt"})
        known = {"origin": dataclasses.asdict(origin)}
        (beside / MERGE_REPORT).write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def write_card(folder: Path, card: Card, about: str, vllm: bool) -> None:
    """Write the card of a kept model.

    Args:
        folder: The model's folder, in `MODELS`.
        card: The card's values.
        about: A sentence on what the model plays and from what it learned.
        vllm: Whether vLLM's attention for CPUs has heads of the model's size.
    """
    size = (folder / WEIGHTS).stat().st_size
    head = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["veritas-rl", "made"],
        NODE: dataclasses.asdict(card) | {"judge": [*card.judge], "short": [*card.short]},
    }
    template = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True)
    template.filters["shell"] = shlex.quote
    body = template.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=folder.name, card=card, about=about, vllm=vllm, megabytes=size / 1e6, weights=size / 2e6
    )
    write_whole(folder / CARD, f"---\n{yaml.safe_dump(head, sort_keys=False, width=110)}---\n{body}")
