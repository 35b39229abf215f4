"""Publish a merged model with its model card on the Hugging Face hub.

`train/tools/push_to_hub.py` calls this module. A model is compared with its base before it is sent. The card contains
no folder of this machine.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import CommitOperationAdd, HfApi, ModelCardData
from huggingface_hub.utils import validate_repo_id
from jinja2 import Environment, StrictUndefined

from veritas_rl.checkpoints import compare
from veritas_rl.checkpoints.adapter import SETTINGS, headers, weights_fingerprint
from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.checkpoints.layout import INFO, MERGE_REPORT
from veritas_rl.checkpoints.models import Base
from veritas_rl.checkpoints.origin import Origin
from veritas_rl.errors import UserError

CARD, TEMPLATE = "README.md", Path(__file__).with_name("model_card.md.jinja")

_FOLDERS = re.compile(r"(?<![\w.:/])~?/(?:[^\s/:,;|]+/)*([^\s/:,;|]+)")
"""A path of this machine, of which only the last part is published."""


@dataclass(frozen=True)
class Results:
    """The table of an evaluation.

    Attributes:
        columns: The headings.
        rows: The rows, with a cell for each column.
        notes: The evaluation's notes.
    """

    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


@dataclass(frozen=True)
class Publication:
    """A model that is ready to be sent.

    Attributes:
        folder: The model's folder.
        repo_id: The hub repository, user/name.
        files: The files to send beside the card, in order.
        card: The text of README.md.
        own_card: Whether the user wrote README.md, which is then sent unchanged.
    """

    folder: Path
    repo_id: str
    files: tuple[Path, ...]
    card: str
    own_card: bool

    def naming_folders(self) -> list[str]:
        """The JSON files that contain a folder of this machine, and would publish it."""
        return [
            path.relative_to(self.folder).as_posix()
            for path in self.files
            if path.suffix == ".json"
            and path.name in (MERGE_REPORT, SETTINGS, "base_model.json")
            and re.search(r'": "(/|~)', path.read_text(encoding="utf-8"))
        ]


def prepare(folder: Path, repo_id: str, report: Path | None = None, base_name: str | None = None) -> Publication:
    """Check a model, compare it with its base and render its card. Nothing changes on disk or on the hub.

    Args:
        folder: A merged model.
        repo_id: user/name.
        report: The report.json of an evaluation or of a run.
        base_name: The base, if merge.json names none or its folder is missing.

    Raises:
        UserError: The folder is not a merged model, equals its base, or cannot be read.
    """
    check_repo_id(repo_id)
    _check_model(folder)
    merge = _merge_report(folder)
    origin = _origin_of(folder, merge)
    named = base_name or merge.get("base")
    if not named:
        raise UserError(f"{folder} does not record its base, with which it must be compared: set --base_model")
    try:
        base = Base.find(str(named))
    except UserError as error:
        raise UserError(f"{error}; set --base_model to its current folder or hub id") from error
    if merge.get("base_fingerprint") not in (None, weights_fingerprint(base.folder)):
        raise UserError(
            f"the weights in {base.folder} differ from those of {merge.get('base')}, the base of {folder}: set "
            "--base_model to the right base"
        )
    weights = compare.compare_weights(folder, base.folder)
    if not weights.differing:
        raise UserError(f"{folder} equals its base: all {weights.compared} tensors are those of {base.name}")
    results = read_results(report) if report is not None else None
    # A base under another name with the same weights is the base of the merge.
    name, on_hub = (str(merge["base"]), origin.on_hub) if merge.get("base") else (base.name, base.on_hub)
    card = card_of(folder, repo_id, name, on_hub, origin, merge, weights, results)
    written = folder / CARD
    own = written.is_file() and written.read_text(encoding="utf-8") != card
    if own and report is not None:
        raise UserError(f"{written} already exists without this report: delete it to get a new card")
    files = tuple(
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path != written
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    return Publication(folder, repo_id, files, written.read_text(encoding="utf-8") if own else card, own)


def push(publication: Publication, token: str, private: bool) -> str:
    """Write the card into the folder, and send everything in one commit.

    Args:
        publication: The model to send.
        token: A hub token with write access. No message contains it.
        private: Whether the repository must be private. An existing public repository is then refused.

    Returns:
        The repository's address.

    Raises:
        UserError: The hub refuses, or cannot be reached.
    """
    if not publication.own_card:
        write_whole(publication.folder / CARD, publication.card)
    api = HfApi(token=token)
    paths = [*publication.files, publication.folder / CARD]
    try:
        where = api.create_repo(publication.repo_id, private=private or None, exist_ok=True)
        if private and not api.model_info(publication.repo_id).private:
            raise UserError(
                f"{publication.repo_id} already exists and is public: choose another --repo_id, or leave --private out"
            )
        api.create_commit(
            publication.repo_id,
            [CommitOperationAdd(path.relative_to(publication.folder).as_posix(), path) for path in paths],
            commit_message="Upload the model",
        )
    except UserError:
        raise
    except (OSError, ValueError, LookupError, RuntimeError, httpx.HTTPError) as error:
        # The hub's answer may have many lines and quote the request.
        said = " ".join(str(error).split()).replace(token, "***")[:300]
        raise UserError(f"{publication.repo_id} was not published ({type(error).__name__}: {said})") from None
    return str(where)


def check_repo_id(repo_id: str) -> None:
    """Check a repository id as the hub would.

    Raises:
        UserError: The id is not user/name.
    """
    try:
        validate_repo_id(repo_id)
    except ValueError as error:
        raise UserError(f"--repo_id {repo_id!r} is not a repository id: use user/name ({error})") from error
    if repo_id.count("/") != 1:
        raise UserError(f"--repo_id {repo_id!r} has no user or organisation: use user/name")


def card_of(
    folder: Path,
    repo_id: str,
    base: str,
    on_hub: bool,
    origin: Origin,
    merge: Mapping[str, Any],
    weights: compare.WeightDifference,
    results: Results | None,
) -> str:
    """The model card: metadata for the hub, and the text.

    Args:
        folder: The model's folder.
        repo_id: The hub repository.
        base: The base's name.
        on_hub: Whether the base's name is a hub id.
        origin: The model's training.
        merge: The contents of merge.json; empty if it is missing.
        weights: The comparison with the base.
        results: The model's evaluation.
    """
    metadata = ModelCardData(
        base_model=base if on_hub else None,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["veritas-rl", "verl", "reinforcement-learning", "games"],
        license=origin.licence.get("license"),
        license_name=origin.licence.get("license_name"),
        license_link=origin.licence.get("license_link"),
    )
    method = origin.recipe.get("veritas_rl.algorithm") or origin.recipe.get("algorithm.adv_estimator")
    if method is None and "optim.lr" in origin.recipe:
        method = "supervised fine-tuning"
    lora = origin.lora
    source = Path(str(merge.get("source", "")))
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["cell"] = cell
    body = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=repo_id.partition("/")[2],
        repo_id=repo_id,
        method=method,
        base=f"[{base}](https://huggingface.co/{base})" if on_hub else f"{cell(base)}, which is not on the hub",
        trained=f"LoRA, rank {lora.rank}, alpha {lora.alpha}, on {cell(lora.target_modules)}" if lora else "all",
        experiment=cell(source.parent.name) if source.name.startswith("global_step_") else "",
        origin=origin,
        dtype=merge.get("dtype") or next(iter(headers(folder).values())).dtype,
        code=", trust_remote_code=True" if any(folder.glob("*.py")) else "",
        results=results,
        weights=weights,
        logits=merge.get("logits"),
    )
    return f"---\n{metadata.to_yaml()}\n---\n{body}"


def read_results(report: Path) -> Results:
    """The table of a report: a row for each player and game, or for each model that a run judged.

    Raises:
        UserError: The report cannot be read, or has no mean with an interval.
    """
    try:
        values = json.loads(report.read_text(encoding="utf-8"))
        if isinstance(values.get("rows"), list):
            rows = [row for row in values["rows"] if row.get("seat", "all") == "all"]
            notes = [_without_folders(str(note)) for note in values.get("notes", [])]
        else:
            rows = [{"model": name, **_measures(found)} for name, found in values.items() if isinstance(found, dict)]
            notes = []
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UserError(f"the report {report} cannot be read ({error})") from error
    rows = [row for row in rows if any(map(_is_estimate, row.values()))]
    if not rows:
        raise UserError(f"{report} has no mean with an interval: choose the report.json of an evaluation or of a run")
    words = [key for key in rows[0] if key != "seat" and isinstance(rows[0][key], str)]
    measures = list(dict.fromkeys(key for row in rows for key, value in row.items() if _is_estimate(value)))
    cells = [
        [*(cell(row.get(key, "")) for key in words), *(_interval(row.get(key)) for key in measures)] for row in rows
    ]
    return Results([*map(cell, words), *map(cell, measures)], cells, notes)


def cell(value: Any) -> str:
    """A value as text for a Markdown table cell, without folders of this machine."""
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return " ".join(_without_folders(text).split()).replace("|", "\\|").replace("<", "&lt;")


def _check_model(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"the folder {folder} does not exist")
    if (folder / INFO).is_file() or folder.name.startswith("global_step_") or any(folder.glob("global_step_*")):
        raise UserError(
            f"{folder} is a raw checkpoint: merge it with CHECKPOINT_BASE=<experiment> GLOBAL_STEP=<N> bash "
            "train/scripts/merge-ppo.sh"
        )
    if not (folder / "config.json").is_file():
        if (folder / SETTINGS).is_file():
            raise UserError(
                f"{folder} contains only an adapter: merge it with python train/tools/merge_adapter_into_base.py "
                f"--base_model <base> --adapter_model {folder} --output_dir <folder>"
            )
        raise UserError(f"{folder} is not a model: it has no config.json")
    headers(folder)


def _merge_report(folder: Path) -> dict[str, Any]:
    file = folder / MERGE_REPORT
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        return values
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is damaged ({error}): merge again") from error


def _origin_of(folder: Path, merge: Mapping[str, Any]) -> Origin:
    try:
        return Origin.from_values(merge.get("origin", {}))
    except (TypeError, AttributeError) as error:
        raise UserError(f"{folder / MERGE_REPORT} is damaged ({error}): merge again") from error


def _measures(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"gain": found} if _is_estimate(found) else found


def _is_estimate(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), (int, float)) for key in ("mean", "low", "high"))


def _interval(value: Any) -> str:
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]" if _is_estimate(value) else ""


def _without_folders(text: str) -> str:
    return _FOLDERS.sub(r"\1", text)
