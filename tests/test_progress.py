"""Long work says how far it is, also in a log, and also inside one batch of replies."""

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from veritas_rl import progress as progress_module
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.judging.held_out import judge
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.progress import GENERATED, progress


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Console:
    """A console that is no terminal, and gets lines often."""
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.02)
    return Console(file=io.StringIO(), width=300)


def lines(console: Console) -> list[str]:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def wait_for(console: Console, pattern: str) -> str:
    """The first line of a pattern. It ends the test if there is none for a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := [line for line in lines(console) if re.fullmatch(pattern, line)]:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(lines(console))


def test_a_log_says_what_is_done_how_fast_and_what_is_left(log: Console) -> None:
    with progress(log, 12, 2, "lesson", doing="warm-up", said=lambda: "50% legal moves") as advance:
        wait_for(log, r"warm-up: lesson 2/12, 0 a second, \d+ s, the time left is not known yet \(50% legal moves\)")
        advance(5)
        wait_for(log, r"warm-up: lesson 7/12, [\d.e+-]+ a second, \d+ s, about \d+ s left \(50% legal moves\)")
    said = len(lines(log))
    time.sleep(0.2)
    assert len(lines(log)) == said


def test_judging_counts_replies_and_tokens_inside_its_only_batch(tiny_model: Path, log: Console) -> None:
    tasks = list(
        open_catalogue(
            {"env": "openspiel", "adapter_config": {"cases": "tic_tac_toe", "num_tasks_per_case": 12}}, "val"
        )
    )
    model, tokenizer = load_language_model(tiny_model)
    # No token ends a reply, and three run at once, so that the batch is long.
    engine = GenerationEngine(model, [], tokenizer.pad_token_id, max_batch_size=3, max_model_len=2048)
    player = LanguageModelPlayer(engine, tokenizer, SamplingParams(32, temperature=1.0))
    before = GENERATED.replies, GENERATED.tokens
    with progress(log, 2 * len(tasks), 0, "answer", doing="judging before", of_replies=True):
        judge(player, tasks, 2)
    engine.close()
    assert (GENERATED.replies - before[0], GENERATED.tokens - before[1]) == (24, 24 * 32)
    said = [
        re.match(r"judging before: answer (\d+)/24, .* a second, .*([\d,]+) replies, ([\d,]+) tokens", line)
        for line in lines(log)
    ]
    done = [int(found[1]) for found in said if found]
    assert len(done) >= 2
    assert done == sorted(done)
    assert any(0 < number < 24 for number in done)


def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb one gets no bar
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with progress(console, 3, 0, "game", doing="playing") as advance:
        advance(3)
    assert "playing games" in "".join(lines(console))
    assert not any(line.startswith("playing: game") for line in lines(console))
