"""The comparison of logits, with examples calculated by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from veritas_rl.checkpoints.compare import LogitDifference, Proof, compare_logits, print_proof, table_of
from veritas_rl.checkpoints.origin import Origin

BASE = [torch.zeros(2, 3), torch.zeros(1, 3)]
ADAPTED = [torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), torch.tensor([[0.0, 0.0, 3.0]])]


def proof_of(logits: LogitDifference) -> Proof:
    return Proof("source", "base", None, "float32", None, 1, logits, None, Origin())


def test_equal_models_agree_everywhere() -> None:
    found = compare_logits(ADAPTED, ADAPTED, BASE, torch.float32)
    assert (found.places, found.agreeing, found.agreement, found.disagreeing) == (3, 3, 1.0, ())
    assert (found.largest, found.lost, found.adapter) == (0.0, 0.0, 3.0)


def test_a_prompt_with_another_likeliest_token_is_named() -> None:
    merged = [ADAPTED[0], torch.tensor([[0.0, 3.5, 3.0]])]
    found = compare_logits(merged, ADAPTED, BASE, torch.float32)
    assert (found.places, found.agreeing, found.disagreeing) == (3, 2, (1,))
    assert found.largest == 3.5
    console = Console(width=120)
    with console.capture() as printed:
        console.print(table_of(proof_of(found)))
    assert "2 of 3 (66.67%)" in printed.get()
    assert "1: Name a prime number" in printed.get()


def test_people_are_warned_below_the_wanted_share(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "largest": 0.0,
        "tolerance": 1.0,
        "adapter": 1.0,
        "lost": 0.0,
        "prompts": 3,
        "places": 2000,
    }
    print_proof(proof_of(LogitDifference(**values, agreeing=1998, disagreeing=())), tmp_path)
    assert "most likely token at" not in capsys.readouterr().out
    print_proof(proof_of(LogitDifference(**values, agreeing=1997, disagreeing=(0,))), tmp_path)
    assert "less than 99.9%" in " ".join(capsys.readouterr().out.split())
