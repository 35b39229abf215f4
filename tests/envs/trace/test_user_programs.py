"""Users' files of programs: valid rows are used; invalid rows are skipped and reported by line number."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from veritas_rl.envs.trace.programs import Program
from veritas_rl.envs.trace.user_programs import BadRow, UserPrograms
from veritas_rl.errors import UserError

LINES = [
    '{"program": "print(1)"}',
    "",
    '{"program": "print(input())", "inputs": "3\\n", "other": [1]}',
    '{"program": "print(input(), input())", "inputs": ["a", "b"]}',
    "not JSON",
    '{"program": "this is no Python"}',
    '{"inputs": "3"}',
    '{"program": 5}',
    '{"program": "  "}',
    '["print(1)"]',
    '{"program": "print(2)", "inputs": 5}',
    '{"program": "x = \'\\u0000\'"}',
    '{"program": "x = \'\\ud800\'"}',
    '{"program": "print(3)", "inputs": null}',
]
GOOD = [
    Program("print(1)"),
    Program("print(input())", stdin="3\n"),
    Program("print(input(), input())", stdin="a\nb\n"),
    Program("print(3)"),
]
BAD = {
    5: "it is not JSON",
    6: "its program is not Python (invalid syntax, line 1)",
    7: "it has no program",
    8: "its program is not a text (it is int)",
    9: "its program is empty",
    10: "it is not an object with a program",
    11: "its inputs are neither a text nor a list of lines",
    12: "its program is not Python",
    13: "it has a lone surrogate",
}


def test_bad_lines_are_named_and_the_rest_is_used(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(LINES))
    programs = UserPrograms(path)
    assert list(programs) == GOOD
    assert programs[-1] == GOOD[-1]
    assert programs[1:3] == GOOD[1:3]
    assert [row.line for row in programs.bad] == list(BAD)
    for row in programs.bad:
        assert row.why.startswith(BAD[row.line])
    assert [programs.line(index) for index in range(len(programs))] == [1, 3, 4, 14]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(b'{"program": "\xff\xfe"}\n{"program": "print(1)"}\n')
    programs = UserPrograms(path)
    assert list(programs) == [Program("print(1)")]
    assert programs.bad == [BadRow(1, "it is not UTF-8 text")]


def test_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    rows = {"program": ["print(1)", None, "print(", "print(input())"], "inputs": [None, ["1"], None, ["4", "5"]]}
    parquet.write_table(pyarrow.table(rows), path, row_group_size=2)
    programs = UserPrograms(path)
    assert list(programs) == [Program("print(1)"), Program("print(input())", stdin="4\n5\n")]
    assert [row.line for row in programs.bad] == [2, 3]
    texts = tmp_path / "texts.parquet"
    parquet.write_table(pyarrow.table({"inputs": ["7\n"], "program": ["print(input())"]}), texts)
    assert list(UserPrograms(texts)) == [Program("print(input())", stdin="7\n")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.jsonl", None, "does not exist"),
        ("own.csv", b"program\nprint(1)\n", "neither a .jsonl nor a .parquet file"),
        ("own.jsonl", b"", "has no usable program; give rows like"),
        ("own.jsonl", b"1\n2\n", "has no usable program: line 1: it is not an object with a program; line 2"),
        ("own.parquet", b"nothing", "is not a parquet file"),
    ],
)
def test_a_file_without_a_program_is_an_error_of_one_line(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as error:
        UserPrograms(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_parquet_without_the_column_names_those_it_has(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    parquet.write_table(pyarrow.table({"code": ["print(1)"]}), path)
    with pytest.raises(UserError, match="no column program, only code"):
        UserPrograms(path)


def test_many_rows_are_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    row = json.dumps({"program": "print(1)  # " + "x" * 2000})
    path.write_text(f"{row}\n" * 5000)
    programs = UserPrograms(path)
    assert len(programs) == 5000
    assert not any(isinstance(value, list) and len(value) > 10 for value in vars(programs).values())
    assert len(programs[4999].source) == len("print(1)  # ") + 2000
