"""A batch is shown token by token as text that nothing can execute, and what is wrong in it is named."""

import io
import math
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veritas_rl.launch.tiny_model import byte_tokenizer
from veritas_rl.viewing.batch.checks import identical, warnings
from veritas_rl.viewing.batch.page import render
from veritas_rl.viewing.batch.rows import COLUMNS, Batch, Row, pieces, visible
from veritas_rl.viewing.batch.terminal import print_batch

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = (
    "</pre></script><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    "{{ 7 * 7 }} [red]no[/red] \x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u2066 é\u00a0中\n"
)
TOKENIZER: Any = byte_tokenizer()
END = TOKENIZER.convert_tokens_to_ids("<|im_end|>")


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def decode(tokens: Sequence[int]) -> str:
    return TOKENIZER.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def row(number: int, said: str, reward: float, advantage: float, chance: float = 0.5, **changes: Any) -> Row:
    """A row of group 1 with a reply that ends, whose tokens have together this probability."""
    reply = [*ids(said), END]
    each = math.log(chance) / len(reply)
    columns = {
        "rollout_log_probs": [each] * len(reply),
        "rm_scores": [0.0] * (len(reply) - 1) + [reward],
        "advantages": [advantage] * len(reply),
    }
    made = Row(
        number=number,
        rank=0,
        group=1,
        copy=number,
        reply=0,
        turn=0,
        padding=False,
        info={"seat": 0, "task_id": "quiz#1", "reason": "legal"},
        prompt=ids("<|im_start|>user\n2+2?<|im_end|>\n"),
        response=reply,
        learned=[True] * len(reply),
        columns=columns,
    )
    return replace(made, **changes)


def batch_of(*rows: Row, **settings: Any) -> Batch:
    said = {
        "experiment": "quiz",
        "model": "tiny",
        "algorithm": "grpo",
        "compares": True,
        "temperature": 1.0,
        "response_length": 99,
    }
    return Batch(
        step=3,
        settings=said | settings,
        total=len(rows),
        padding=sum(one.padding for one in rows),
        rows=rows,
        ends=frozenset({END}),
        start=None,
        bound=0.02,
        decode=decode,
    )


def good() -> list[Row]:
    return [row(0, "4", 1.0, 0.5), row(1, "5", 0.0, -0.5)]


def printed(batch: Batch, *, tokens: bool = False, width: int = 400) -> str:
    out = io.StringIO()
    print_batch(batch, batch.rows, Console(file=out, force_terminal=True, width=width), tokens=tokens)
    return out.getvalue()


class Tags(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_healthy_batch_has_no_warning() -> None:
    assert warnings(batch_of(*good())) == []


def faulty(name: str) -> list[Row]:
    one, other = good()
    reply = one.response
    n = len(reply)
    changed: dict[str, dict[str, Any]] = {
        "end of a turn is doubled": {"response": [*reply[:-1], END, END], "learned": [True] * n + [False]},
        "has no end token": {"response": [*reply[:-1], *ids("x")]},
        "not at the last learned token": {"learned": [True] * (n - 1) + [False]},
        "no token is learned": {"learned": [False] * n, "columns": {**one.columns, "rm_scores": [0.0] * n}},
        "prompt is too long": {"learned": [False] * n, "info": {**one.info, "overlong": 1.0}},
        "padding has a learned token": {"padding": True, "group": 0},
        "not finite": {"columns": {**one.columns, "advantages": [math.nan] * n}},
        "do not sum to 0": {"columns": {**one.columns, "advantages": [0.9] * n}},
        "rewards of every group are equal": {
            "columns": {**one.columns, "rm_scores": [0.0] * n, "advantages": [0.5] * n}
        },
        "all replies of a group are identical": {
            "response": other.response,
            "columns": {**one.columns, "rollout_log_probs": [-9.0] * n},
        },
        "rollout and trainer disagree": {
            "columns": {**one.columns, "old_log_probs": [value - 3 for value in one.columns["rollout_log_probs"]]}
        },
    }
    changes = changed[name]
    extra = len(changes.get("response", reply)) - n
    if extra:
        changes["columns"] = {key: [values[0], *values] for key, values in one.columns.items()}
        changes["columns"]["rm_scores"] = [0.0] * (n - 1) + [1.0] + [0.0] * extra
    return [replace(one, **changes), other]


@pytest.mark.parametrize(
    "name",
    [
        "end of a turn is doubled",
        "has no end token",
        "not at the last learned token",
        "no token is learned",
        "prompt is too long",
        "padding has a learned token",
        "not finite",
        "do not sum to 0",
        "rewards of every group are equal",
        "all replies of a group are identical",
        "rollout and trainer disagree",
    ],
)
def test_what_is_wrong_is_named(name: str) -> None:
    batch = batch_of(*faulty(name))
    assert any(name in line for line in warnings(batch)), warnings(batch)
    assert name in printed(batch)
    assert name in Tags(render(batch, batch.rows, tokens=False)).text


def test_a_cut_reply_needs_no_end_and_advantages_of_longer_games_are_weighted() -> None:
    one, other = good()
    cut = replace(one, response=[*one.response[:-1], *ids("x")], info={**one.info, "truncated": 1.0})
    assert warnings(batch_of(cut, other)) == []
    full = replace(cut, info=one.info)
    assert warnings(batch_of(full, other, response_length=len(full.response))) == []
    # Copy 1 has two replies, each of half the weight; its second reply has no partner.
    second = row(2, "6", 0.0, 0.0, copy=1, reply=1, turn=1)
    half = row(1, "5", 0.0, -0.25)
    assert warnings(batch_of(one, half, second)) == []
    assert any("sum to 0" in line for line in warnings(batch_of(one, other, second)))


def test_identical_samples_are_suspicious_if_their_probabilities_do_not_explain_them() -> None:
    def of(chance: float) -> Batch:
        return batch_of(*(row(number, f"{number // 2}", number % 2, number % 2 - 0.5, chance) for number in range(24)))

    same, expected = identical(of(0.001))
    assert same == 12
    assert expected == pytest.approx(24 * 23 / 2 * 0.001)
    assert any("share their random numbers" in line for line in warnings(of(0.001)))
    assert not any("share their random numbers" in line for line in warnings(of(0.2)))
    likely = [replace(one, response=good()[0].response) for one in good()]
    assert warnings(batch_of(*likely)) == []


def test_the_text_of_the_tokens_makes_the_text_of_the_reply() -> None:
    for text in (HOSTILE, "é", "a 中\U0001f600 b", "<|im_end|>", ""):
        found = pieces(decode, ids(text))
        assert "".join(found) == decode(ids(text)) == text
        assert len(found) == len(ids(text))
    # The bytes of a character without their last.
    broken = ids("a中")[:-1]
    assert "".join(pieces(decode, broken)) == decode(broken)


def test_text_of_a_model_controls_neither_a_terminal_nor_a_page(tmp_path: Path) -> None:
    assert visible("a\tb\n\x1b\u202e") == "a\\u{9}b↵\n\\u{1b}\\u{202e}"
    rows = [replace(one, prompt=ids(HOSTILE), response=[*ids(HOSTILE), END]) for one in good()]
    rows = [
        replace(
            one,
            info={**one.info, "task_id": HOSTILE, "reason": HOSTILE},
            learned=[True] * len(one.response),
            columns={name: [values[-1]] * len(one.response) for name, values in one.columns.items()},
        )
        for one in rows
    ]
    batch = batch_of(*rows, experiment=HOSTILE, model=HOSTILE)
    shown = printed(batch, tokens=True, width=4000)
    for sign in ("\x1b[2J", "\x1b]0", "\x07", "\u202e", "\u2066"):
        assert sign not in shown
    assert "[red]no[/red]" in shown
    html = render(batch, batch.rows, tokens=True)
    assert not {"script", "img", "red"} & set(Tags(html).found)
    assert "</script><script>document.title" in Tags(html).text.replace("\n", "")
    assert not any(sign in html for sign in "\x1b\x07\u202e\u2066")
    assert "{{ 7 * 7 }}" in html
    if BROWSER is not None:
        page = tmp_path / "page.html"
        page.write_text(html, encoding="utf-8")
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        done = subprocess.run(
            [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60, check=True
        )
        assert "<title>owned" not in done.stdout
        assert "<img" not in done.stdout
        assert "&lt;img src=x" in done.stdout


def test_a_column_that_a_run_lacks_is_absent() -> None:
    batch = batch_of(*good())
    assert "rollout" in printed(batch, tokens=True)
    for name in ("value", "reference", "trainer", "log-prob difference", "entropy"):
        assert name not in printed(batch, tokens=True)
        assert f"<th>{name}" not in render(batch, batch.rows, tokens=True)


def test_a_narrow_terminal_gets_every_column() -> None:
    names = ("values", "returns", "entropy", "ref_log_prob", "old_log_probs", "difference", "rollout_is_weights")
    full = [
        replace(one, columns={**one.columns, **{name: [-0.12345, -0.000012345] for name in names}}) for one in good()
    ]
    lines = printed(batch_of(*full), tokens=True, width=60).splitlines()
    assert any(all(COLUMNS[name] in line for name in names) for line in lines)
    assert any(line.count("-1.23e-05") == len(names) for line in lines)


def test_groups_of_one_row_have_no_equal_rewards() -> None:
    alone = [replace(one, group=number) for number, one in enumerate(good(), 1)]
    assert "2 of one row each" in printed(batch_of(*alone))
    assert "1; 0 with equal rewards" in printed(batch_of(*good()))


def test_padding_is_marked_and_no_group() -> None:
    padding = row(2, "", 0.0, 0.0, padding=True, group=0, learned=[False])
    batch = batch_of(*good(), padding)
    assert "[padding]" in printed(batch)
    assert "[no learned token]" in printed(batch)
    assert "<mark>padding</mark>" in render(batch, batch.rows, tokens=False)
    assert list(batch.groups) == [1]
    assert warnings(batch) == []
