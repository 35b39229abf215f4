"""Generate the files of a data set. An interrupted run resumes.

    FOLDER/train.jsonl  FOLDER/val.jsonl  FOLDER/train.parquet  FOLDER/val.parquet  FOLDER/dataset.json

Drawn rows are appended to partial.jsonl, whose first line has the settings. The files are written atomically at the
end, dataset.json last, and then partial.jsonl is deleted.
"""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.datasets.draw import STALE_DRAWS, Drawn, Settings, Stream, cases_of, draw
from veritas_rl.datasets.rows import write_jsonl, write_parquet
from veritas_rl.errors import UserError
from veritas_rl.judging.survey import survey
from veritas_rl.parallel import Workers
from veritas_rl.progress import progress

PARTS = ("train", "val")
REPORT = "dataset.json"
PARTIAL = "partial.jsonl"
WRITERS: Mapping[str, Callable[[Path, Sequence[Mapping[str, Any]]], str]] = {
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}
BATCH = 32
"""Draws that one worker makes before it sends their rows."""

LEAST_DRAWS = 64
"""The minimum number of draws per round after the first. The last new questions of a small set are rare."""


def generate(folder: Path, settings: Settings, workers: Workers, console: Console) -> tuple[dict[str, Any], int]:
    """Draw the missing rows, and write the files.

    Args:
        folder: The target folder, which is created.
        settings: The settings of the data set.
        workers: The workers that draw. The files do not depend on their number.
        console: The console on which progress is shown.

    Returns:
        The contents of dataset.json, and the number of rows drawn by this call.

    Raises:
        UserError: The folder contains something else or is not writable, a setting is invalid, or no row was found.
    """
    try:
        catalogues = [settings.catalogue(stream.split) for stream in settings.streams()]
        report = _finished(folder, settings)
        if report is not None:
            return report, 0
        survey(catalogues, console)
        # Refuse unusable cases before anything is written.
        draw(settings, "train", range(min(settings.number, cases_of(catalogues[-1]))))
        folder.mkdir(parents=True, exist_ok=True)
        with _partial(folder / PARTIAL, settings) as (file, rows):
            before = len(rows)
            with progress(console, settings.number, before, "row") as advance:
                for stream in settings.streams():
                    _draw_all(settings, stream, rows, file, workers, advance)
            report = _write(folder, settings, rows)
            (folder / PARTIAL).unlink()
        return report, len(rows) - before
    except OSError as error:
        raise UserError(f"{folder} is not writable ({error.strerror or error}): choose another --out-dir") from error


def _draw_all(
    settings: Settings,
    stream: Stream,
    rows: list[tuple[str, Drawn]],
    file: IO[bytes],
    workers: Workers,
    advance: Callable[[int], None],
) -> None:
    """Draw until a stream is complete or has no new questions. New rows go to `rows` and to the file."""
    own = [drawn for split, drawn in rows if split == stream.split]
    asked = {drawn.question for drawn in own}
    following = after_last = own[-1].draw + 1 if own else 0
    missing = stream.wanted - len(own)

    def sift(batch: Sequence[Drawn]) -> None:
        nonlocal missing, after_last
        for drawn in batch:
            # The kept rows must not depend on the batch size or on interruptions.
            if not missing or drawn.draw - after_last >= STALE_DRAWS:
                return
            # Consecutive ids are all kept, even if they repeat a question.
            if drawn.question in asked and settings.start_task_id is None:
                continue
            asked.add(drawn.question)
            rows.append((stream.split, drawn))
            file.write(json.dumps([stream.split, *drawn], ensure_ascii=False).encode() + b"\n")
            missing -= 1
            after_last = drawn.draw + 1
            file.flush()
            advance(1)

    least = 1
    while missing and following - after_last < STALE_DRAWS:
        count = max(missing, least)
        numbers = range(following, following + count)
        batches = [numbers[start : start + BATCH] for start in range(0, count, BATCH)]
        made = 0
        for batch in workers.map(partial(draw, settings, stream.split), batches):
            sift(batch)
            made += len(batch)
        following, least = following + count, LEAST_DRAWS
        if made < count:
            return  # the tasks are used up


@contextmanager
def _partial(path: Path, settings: Settings) -> Iterator[tuple[IO[bytes], list[tuple[str, Drawn]]]]:
    """Open the partial file for appending, and yield it with its rows.

    Raises:
        UserError: The file has other settings, another process writes to it, or its rows can no longer be reproduced.
    """
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"another process writes to {path.parent}: wait for it, or choose another --out-dir"
            ) from None
        file.seek(0)
        lines = file.readlines()
        header = (json.dumps(settings.to_json(), ensure_ascii=False) + "\n").encode()
        if lines and lines[0].endswith(b"\n"):
            _check_same(path.parent, _object(lines[0]), settings)
        rows, size = [], len(header)
        for line in lines[1:]:
            row = _row(line)
            if row is None:
                break
            rows.append(row)
            size += len(line)
        file.truncate(size if lines and lines[0] == header else 0)
        file.seek(0, 2)
        if not lines or lines[0] != header:
            rows = []
            file.write(header)
            file.flush()
        if rows:
            split, last = rows[-1]
            if draw(settings, split, [last.draw]) != [last]:
                raise UserError(f"{path} was written by another version of this program: delete it to start again")
        yield file, rows


def _row(line: bytes) -> tuple[str, Drawn] | None:
    try:
        split, *values = json.loads(line.decode())
        return (split, Drawn(*values)) if line.endswith(b"\n") and split in PARTS else None
    except (ValueError, TypeError):
        return None


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _check_same(folder: Path, there: Mapping[str, Any], settings: Settings) -> None:
    here = json.loads(json.dumps(settings.to_json()))
    if differing := [name for name in here if there.get(name) != here[name]]:
        name = differing[0]
        raise UserError(
            f"{folder} contains a data set with other settings ({name} is {there.get(name)!r} there, {here[name]!r} "
            "here): choose another --out-dir"
        )


def _finished(folder: Path, settings: Settings) -> dict[str, Any] | None:
    """The report of a folder that contains exactly this data set; None if it is not complete.

    Raises:
        UserError: The folder contains something else.
    """
    if (folder / REPORT).exists():
        report = _object((folder / REPORT).read_bytes())
        _check_same(folder, report.get("settings", {}), settings)
        for name, file in report["files"].items():
            path = folder / name
            if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
                raise UserError(
                    f"{path} has changed since it was written: delete {folder / REPORT} and the files beside it"
                )
        return report
    files = [folder / f"{part}.{form}" for part in PARTS for form in WRITERS]
    if not (folder / PARTIAL).exists() and (other := [path for path in files if path.exists()]):
        raise UserError(f"{other[0]} already exists and belongs to something else: choose another --out-dir")
    return None


def _write(folder: Path, settings: Settings, rows: Sequence[tuple[str, Drawn]]) -> dict[str, Any]:
    parts = {part: [drawn for _, drawn in rows if drawn.part == part] for part in PARTS}
    if not rows:
        raise UserError(f"{settings.task_types or settings.env} has no task to draw: choose other --task-types")
    both = {drawn.group for drawn in parts["train"]} & {drawn.group for drawn in parts["val"]}
    if both:
        raise RuntimeError(f"{len(both)} classes of questions are in train and in val, such as {min(both)}")
    files: dict[str, dict[str, Any]] = {}
    for part, found in parts.items():
        made = [
            {**drawn.row, "extra_info": {**drawn.row["extra_info"], "index": index}}
            for index, drawn in enumerate(found)
        ]
        for form, write in WRITERS.items():
            path = folder / f"{part}.{form}"
            if made:
                files[path.name] = {"rows": len(made), "sha256": write(path, made)}
            else:
                path.unlink(missing_ok=True)
    classes = {part: len({drawn.group for drawn in found}) for part, found in parts.items()}
    report = {"settings": settings.to_json(), "files": files, "classes": classes}
    write_whole(folder / REPORT, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return report
