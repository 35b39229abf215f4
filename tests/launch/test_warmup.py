"""The warm-up teaches replies, and only replies; it keeps to its time and leaves the global random state alone."""

from pathlib import Path
from typing import Any

import pytest
import torch

from veritas_rl.chat_template import prompt_ids
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import IGNORED, _encode, _schedule, warm_up
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import load_language_model
from veritas_rl.players.sampling import SamplingParams

EXAMPLES = [([{"role": "user", "content": f"say {word}"}], f"\\boxed{{{word}}}") for word in ("a", "b", "c", "d")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


def run(folder: Path, output: Path, **changes: Any) -> dict[str, float]:
    arguments = {
        "steps": 60,
        "batch_size": 8,
        "learning_rate": 3e-3,
        "seed": 0,
        "seconds": 60.0,
        "on_step": lambda *_: None,
    }
    return warm_up(folder, output, EXAMPLES, **(arguments | changes))


def test_the_model_learns_to_say_the_replies(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, float]] = []
    state = torch.get_rng_state()
    metrics = run(folder, tmp_path / "warm", on_step=lambda *step: seen.append(step))
    assert torch.equal(torch.get_rng_state(), state)
    assert [step[:2] for step in seen] == [(number, 60) for number in range(1, 61)]
    assert metrics["steps"] == 60
    assert metrics["tokens"] == 60 * 8 * 4  # \boxed{, the letter, }, the end
    assert metrics["first_loss"] == seen[0][2] > 4
    assert metrics["loss"] < 0.1
    assert metrics["accuracy"] > 0.95
    model, tokenizer = load_language_model(tmp_path / "warm")
    engine = GenerationEngine(model, [tokenizer.eos_token_id], tokenizer.pad_token_id, max_model_len=64)
    asked = [(prompt_ids(tokenizer, messages), SamplingParams(8, temperature=0.0)) for messages, _ in EXAMPLES]
    said = engine.generate(asked)
    engine.close()
    assert [tokenizer.decode(completion.token_ids) for completion in said] == [
        reply + "<|im_end|>" for _, reply in EXAMPLES
    ]


def test_the_seed_decides_the_result(folder: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        run(folder, tmp_path / name, steps=3, seed=seed)
    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other"))
    assert one == same
    assert one != other


def test_time_is_a_hard_bound(folder: Path, tmp_path: Path) -> None:
    metrics = run(folder, tmp_path / "short", steps=10**6, seconds=2.0)
    assert 0 <= metrics["steps"] < 10**6
    assert metrics["seconds"] < 10
    load_language_model(tmp_path / "short")


def test_only_the_reply_and_its_end_are_learned(folder: Path) -> None:
    _, tokenizer = load_language_model(folder)
    ids, labels = _encode(tokenizer, *EXAMPLES[0], end=tokenizer.eos_token_id)
    assert tokenizer.decode(ids) == "<|im_start|>user\nsay a<|im_end|>\n<|im_start|>assistant\n\\boxed{a}<|im_end|>"
    assert tokenizer.decode([label for label in labels if label != IGNORED]) == "\\boxed{a}<|im_end|>"
    assert len(ids) == len(labels)
    assert labels[-4:] == ids[-4:]


def test_the_learning_rate_rises_then_falls() -> None:
    rates = [_schedule(step / 100) for step in range(101)]
    assert rates[:6] == sorted(rates[:6])
    assert 0 < rates[0] < 0.2
    assert set(rates[6:85]) == {1.0}
    assert rates[85:] == sorted(rates[85:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)


def test_what_cannot_work_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model at"):
        run(tmp_path / "nowhere", tmp_path / "out")
    long = ([{"role": "user", "content": "x" * 3000}], "y")
    with pytest.raises(UserError, match="no example of the warm-up fits: the model's context holds 2048 tokens"):
        warm_up(
            folder,
            tmp_path / "out",
            [long],
            steps=1,
            batch_size=1,
            learning_rate=1e-3,
            seed=0,
            seconds=60,
            on_step=lambda *_: None,
        )
    assert not (tmp_path / "out").exists()


def test_what_is_longer_than_the_context_is_left_out(folder: Path, tmp_path: Path) -> None:
    long = ([{"role": "user", "content": "x" * 3000}], "y")
    found = warm_up(
        folder,
        tmp_path / "out",
        [long, *EXAMPLES],
        steps=4,
        batch_size=4,
        learning_rate=1e-3,
        seed=0,
        seconds=60,
        on_step=lambda *_: None,
    )
    assert found["tokens"] == 4 * 4 * 4


def test_a_model_is_made_that_reads_what_the_run_asks(tmp_path: Path) -> None:
    long = ([{"role": "user", "content": "x" * 3000}], "y")
    folder = build_tiny_model(tmp_path / "model", seed=0, context=4000)
    settings = {"batch_size": 1, "learning_rate": 1e-3, "seed": 0, "seconds": 60, "on_step": lambda *_: None}
    assert warm_up(folder, tmp_path / "out", [long], steps=1, **settings)["steps"] == 1
