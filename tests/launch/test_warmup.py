"""The warm-up trains only on replies, obeys its limits, and does not change the global random state."""

from pathlib import Path
from typing import Any

import pytest
import torch

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.base import Turn
from veritas_rl.errors import UserError
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import EVERY, Lesson, Progress, _schedule, warm_up
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams

LESSONS = [Lesson(({"role": "user", "content": f"say {word}"},), (f"\\boxed{{{word}}}",)) for word in "abcd"]
LONG = Lesson(({"role": "user", "content": "x" * 3000},), ("y",))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


def run(folder: Path, output: Path, **changes: Any) -> dict[str, float]:
    arguments = {
        "steps": 60,
        "batch_size": 8,
        "learning_rate": 3e-3,
        "seed": 0,
        "on_step": lambda now: None,
    }
    return warm_up(folder, output, changes.pop("lessons", LESSONS), **(arguments | changes))


def length(folder: Path) -> int:
    """The number of tokens of a lesson's prompt and reply."""
    _, tokenizer = load_language_model(folder)
    return len(prompt_ids(tokenizer, list(LESSONS[0].messages))) + 4  # \boxed{, the letter, }, the end


def test_the_model_learns_to_say_the_replies(folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    state = torch.get_rng_state()
    metrics = run(folder, tmp_path / "warm", on_step=seen.append)
    assert torch.equal(torch.get_rng_state(), state)
    assert [now.step for now in seen] == list(range(1, 61))
    assert metrics["steps"] == 60
    assert metrics["tokens"] == 60 * 8 * length(folder)
    assert metrics["first_loss"] == seen[0].loss > 4
    assert metrics["loss"] < 0.1
    assert metrics["accuracy"] > 0.95
    model, tokenizer = load_language_model(tmp_path / "warm")
    engine = GenerationEngine(model, [tokenizer.eos_token_id], tokenizer.pad_token_id, max_model_len=64)
    asked = [
        (prompt_ids(tokenizer, list(messages)), SamplingParams(8, temperature=0.0))
        for messages in [lesson.messages for lesson in LESSONS]
    ]
    said = engine.generate(asked)
    engine.close()
    assert [tokenizer.decode(completion.token_ids) for completion in said] == [
        lesson.replies[0] + "<|im_end|>" for lesson in LESSONS
    ]


def test_the_seed_decides_the_result(folder: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        run(folder, tmp_path / name, steps=3, seed=seed)
    one, same, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other"))
    assert one == same
    assert one != other


def test_tokens_are_a_hard_bound(folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    metrics = run(folder, tmp_path / "short", steps=10**6, tokens=2_000, on_step=seen.append)
    of_an_update = metrics["tokens"] / metrics["steps"]
    assert 2_000 - of_an_update < metrics["tokens"] < 2_000 + of_an_update
    assert [now.share for now in seen] == pytest.approx([min(1.0, now.step * of_an_update / 2_000) for now in seen])
    load_language_model(tmp_path / "short")


def test_all_replies_of_a_question_become_equally_likely(folder: Path, tmp_path: Path) -> None:
    replies = tuple(f"\\boxed{{{number}}}" for number in ("1", "2", "12", "7"))
    asked = ({"role": "user", "content": "say a number"},)
    run(folder, tmp_path / "warm", lessons=[Lesson(asked, replies)], steps=150, batch_size=2)
    model, tokenizer = load_language_model(tmp_path / "warm")
    engine = GenerationEngine(model, [tokenizer.eos_token_id], tokenizer.pad_token_id, max_model_len=64, seed=0)
    player = LanguageModelPlayer(engine, tokenizer, SamplingParams(8, temperature=1.0))
    (found,) = player.answer_probabilities([Turn(0, asked, replies)])
    engine.close()
    assert found == pytest.approx([0.25] * 4, abs=0.04)


def test_a_warm_up_ends_when_the_measured_share_is_enough(folder: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    def measure(model: Any, tokenizer: Any) -> float:
        assert not model.training
        asked.append(len(asked))
        return 0.5 if len(asked) < 3 else 1.0

    found = run(folder, tmp_path / "enough", steps=1000, batch_size=1, enough=0.9, measure=measure)
    assert found["steps"] == 3 * EVERY * 1.2  # the steps until enough, plus the learning rate's decay
    assert len(asked) == 4
    assert found["measured"] == 1.0
    shares = iter([0.9, 0.5, 0.95, 0.95])  # enough before the decay but not after it, then enough both times
    again = run(
        folder, tmp_path / "again", steps=1000, batch_size=1, enough=0.9, measure=lambda model, tokenizer: next(shares)
    )
    assert again["steps"] == 2 * EVERY * 1.2
    assert again["measured"] == 0.95
    never = run(folder, tmp_path / "never", steps=60, enough=0.9, measure=lambda model, tokenizer: 0.1)
    assert never["steps"] == 60
    assert never["measured"] == 0.1


def test_the_learning_rate_rises_then_falls() -> None:
    rates = [_schedule(step, 100, 120) for step in range(120)]
    assert rates[:10] == sorted(rates[:10])
    assert 0 < rates[0] < 0.2
    assert set(rates[10:100]) == {1.0}
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)
    assert set(_schedule(step, 0, 120) for step in range(10, 120)) == {1.0}


def test_a_missing_model_and_examples_that_are_too_long_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model at"):
        run(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UserError, match="no example of the warm-up fits into the model's context of 2048 tokens"):
        warm_up(
            folder,
            tmp_path / "out",
            [LONG],
            steps=1,
            batch_size=1,
            learning_rate=1e-3,
            seed=0,
            on_step=lambda now: None,
        )
    assert not (tmp_path / "out").exists()


def test_examples_longer_than_the_context_are_left_out(folder: Path, tmp_path: Path) -> None:
    found = warm_up(
        folder,
        tmp_path / "out",
        [LONG, *LESSONS],
        steps=4,
        batch_size=4,
        learning_rate=1e-3,
        seed=0,
        on_step=lambda now: None,
    )
    assert found["tokens"] == 4 * 4 * length(folder)


def test_a_model_is_made_that_reads_what_the_run_asks(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0, context=4000)
    settings = {"batch_size": 1, "learning_rate": 1e-3, "seed": 0, "on_step": lambda now: None}
    assert warm_up(folder, tmp_path / "out", [LONG], steps=1, **settings)["steps"] == 1
