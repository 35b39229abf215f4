"""New text does not contain the project's retired words.

`retired_words.txt` has the number of occurrences of each retired word in each file. The test fails if a file has more
occurrences, and also if it has fewer, until the number is lowered. To update the file after a change:

    python tests/test_words.py

This command refuses if any word has become more frequent in the project.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BASELINE = Path(__file__).with_name("retired_words.txt")
KINDS = (".py", ".md", ".sh", ".yaml", ".jinja", ".toml", ".js", ".css")

RETIRED: Mapping[str, tuple[str, str]] = {
    "shortage": ("shortages?", "Ray resource watchdog"),
    "kv_slots": ("kv slots?", "slot KV cache"),
    "luck": ("luck", "chance seed"),
    "travel": ("travel(s|led|ling)?", "pipeline; for values: are sent, are copied"),
    "journey": ("journeys?", "pipeline"),
    "guise": ("guises?", "perturbation"),
    "course": ("courses?", "trajectory hash"),
    "parting": ("partings?", "divergence"),
    "told": ("told", "message, rendered, given"),
    "tell": ("tells?|telling", "message, render, distinguish"),
    "exact_values": ("exactvalues", "policy values"),
    "anew": ("anew", "again"),
    "whoever": ("whoever", "the player that, any user who"),
    "thereof": ("thereof", "of it"),
}
"""Each retired word with a regular expression of its forms, and its replacement."""

USERS_NAMES = re.compile(r"\bjourney\.sh\b|\bJOURNEY_[A-Z_]+")
"""Names that users type, which are allowed."""

_FORMS = {word: re.compile(rf"\b({forms})\b") for word, (forms, _) in RETIRED.items()}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
Counts = Mapping[tuple[str, str], int]
"""The number of occurrences, by the file's path and the word."""


def words_in(line: str) -> list[str]:
    """The retired words in a line, also as parts of identifiers: "tellBack" and "journey_games" contain one each."""
    # The words "exact values" are allowed; only the identifiers are retired.
    plain = re.sub(r"(?i)exact_values", "exactvalues", USERS_NAMES.sub("", line)).replace("ExactValues", "exactvalues")
    plain = _HUMP.sub(" ", plain).replace("_", " ").lower()
    return [word for word, pattern in _FORMS.items() for _ in pattern.findall(plain)]


def found_in(root: Path) -> Iterator[tuple[str, int, str]]:
    """The occurrences in the files that git does not ignore: path, line and word; line 0 is the path itself."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in sorted(set(listed)):
        path = root / name
        if path.suffix not in KINDS or path.name == Path(__file__).name or not path.is_file():
            continue
        for number, line in enumerate([name, *path.read_text(encoding="utf-8").splitlines()]):
            yield from ((name, number, word) for word in words_in(line))


def count(root: Path) -> Counts:
    """The number of occurrences of each word in each file."""
    return Counter((name, word) for name, _, word in found_in(root))


def read_baseline(text: str) -> Counts:
    """Parse the text of `write_baseline`."""
    rows = (line.rsplit(" ", 2) for line in text.splitlines())
    return {(name, word): int(number) for name, word, number in rows}


def write_baseline(counts: Counts) -> str:
    """The text of the baseline: one line for each file and word with path, word and count."""
    return "".join(f"{name} {word} {number}\n" for (name, word), number in sorted(counts.items()))


def grown(now: Counts, before: Counts) -> dict[str, int]:
    """The increase of each word's number of occurrences in the project, where there is one."""
    more: Counter[str] = Counter()
    for counts, sign in ((now, 1), (before, -1)):
        for (_, word), number in counts.items():
            more[word] += sign * number
    return {word: by for word, by in more.items() if by > 0}


def complaints(root: Path, baseline: Counts) -> list[str]:
    """One message per problem: a word with too many occurrences, or a number that can be lowered."""
    found = list(found_in(root))
    counts: Counts = Counter((name, word) for name, _, word in found)
    said = []
    for name, word in sorted({*counts, *baseline}):
        now, allowed = counts.get((name, word), 0), baseline.get((name, word), 0)
        if now > allowed:
            lines = ", ".join(str(line) if line else "its path" for n, line, w in found if (n, w) == (name, word))
            said.append(f"{name}: {word!r} {now} times, {allowed} allowed (lines {lines}): {RETIRED[word][1]}")
        elif now < allowed:
            said.append(
                f"{name}: {word!r} {now} times instead of {allowed}: lower the baseline: python tests/test_words.py"
            )
    return said


def test_no_new_text_has_a_retired_word() -> None:
    wrong = complaints(ROOT, read_baseline(BASELINE.read_text(encoding="utf-8")))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("The Journey of a thousand steps", ["journey"]),
        ("def journey_games(tellBack, kv_slots):", ["journey", "kv_slots", "tell"]),
        ("KVSlots = retell(fortunetold, of_course)", ["course", "kv_slots"]),
        ("self._told = values.told_twice  # told", ["told", "told", "told"]),
        ("exact_values.py, ExactValues, exact values", ["exact_values", "exact_values"]),
        ("train/scripts/journey.sh reads JOURNEY_STEPS and JOURNEY", ["journey"]),
        (
            "It travels anew, whoever tells the course thereof",
            ["anew", "course", "tell", "thereof", "travel", "whoever"],
        ),
        ("departing, intelligent, lucky, courseware", []),
    ],
)
def test_words_are_found_whole_and_in_identifiers(line: str, words: list[str]) -> None:
    assert sorted(words_in(line)) == words


def test_more_fails_with_its_lines_and_fewer_asks_for_a_lower_number(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "luck.py").write_text("x = 1\nluck = told = 2\n")
    (tmp_path / "notes.txt").write_text("luck")
    baseline = read_baseline("luck.py luck 1\ngone.py anew 2\n")
    more, told, fewer = sorted(complaints(tmp_path, baseline), key=lambda line: "gone.py" in line)
    assert more == "luck.py: 'luck' 2 times, 1 allowed (lines its path, 2): chance seed"
    assert told.startswith("luck.py: 'told' 1 times, 0 allowed (lines 2)")
    assert fewer.startswith("gone.py: 'anew' 0 times instead of 2: lower the baseline")
    now = count(tmp_path)
    assert complaints(tmp_path, read_baseline(write_baseline(now))) == []
    assert grown(now, baseline) == {"luck": 1, "told": 1}
    assert grown(now, {("old_name.py", "luck"): 2, ("old_name.py", "told"): 1}) == {}


def main() -> int:
    """Write the baseline, unless a word has become more frequent."""
    now = count(ROOT)
    more = grown(now, read_baseline(BASELINE.read_text(encoding="utf-8"))) if BASELINE.is_file() else {}
    if more:
        print(*complaints(ROOT, read_baseline(BASELINE.read_text(encoding="utf-8"))), sep="\n", file=sys.stderr)
        print("not written: more in all of " + ", ".join(f"{w!r} (+{by})" for w, by in more.items()), file=sys.stderr)
        return 1
    BASELINE.write_text(write_baseline(now), encoding="utf-8")
    print(f"{sum(now.values())} retired words are left, in {len({name for name, _ in now})} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
