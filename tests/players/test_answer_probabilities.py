"""Probabilities of whole replies equal those of plain forward passes and the frequencies of sampled replies."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from veritas_rl.exact.policies import Question, questions_of, score_policy
from veritas_rl.launch.warmup import Lesson, warm_up
from veritas_rl.players import answer_probabilities
from veritas_rl.players.answer_probabilities import Candidates, log_probabilities
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams
from veritas_rl.seeding import generator

Make = Callable[..., LanguageModelPlayer]


@pytest.fixture(scope="module")
def answering(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model after a few training steps on kuhn_poker's answers: some of its replies are legal."""
    lessons = [Lesson(question.turn.messages, question.turn.answers) for question in kuhn()]
    folder = tmp_path_factory.mktemp("models") / "answering"
    warm_up(
        tiny_model,
        folder,
        lessons,
        steps=28,
        batch_size=12,
        learning_rate=3e-3,
        seed=0,
        on_step=lambda progress: None,
    )
    return folder


@pytest.fixture
def player(answering: Path) -> Iterator[Make]:
    """Makes players of the model `answering`."""
    engines: list[GenerationEngine] = []

    def make(max_model_len: int = 200, max_new_tokens: int = 8, **sampling: float) -> LanguageModelPlayer:
        model, tokenizer = load_language_model(answering)
        pad = tokenizer.pad_token_id
        engines.append(GenerationEngine(model, [tokenizer.eos_token_id], pad, max_model_len=max_model_len))
        params = SamplingParams(max_new_tokens, **sampling)  # pyright: ignore[reportArgumentType]
        return LanguageModelPlayer(engines[-1], tokenizer, params, seed=3)

    yield make
    for engine in engines:
        engine.close()


def kuhn() -> tuple[Question, ...]:
    return questions_of("kuhn_poker", "brief")


@pytest.mark.parametrize(("temperature", "shared"), [(1.0, 0), (0.7, 20), (1.0, 20)])
@pytest.mark.parametrize("small_batches", [False, True])
def test_each_reply_has_what_a_forward_of_its_own_gives(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, temperature: float, shared: int, small_batches: bool
) -> None:
    if small_batches:
        monkeypatch.setattr(answer_probabilities, "BATCH_TOKENS", 90)
    model, _ = load_language_model(tiny_model)
    random = generator("candidates")

    def tokens(least: int, most: int) -> tuple[int, ...]:
        return tuple(random.randrange(250) for _ in range(random.randint(least, most)))

    beginning, ends = tokens(shared, shared), (250, 258)
    asked = [
        Candidates(beginning + tokens(1, 15), tuple(tokens(1, 4) for _ in range(random.randint(1, 4))))
        for _ in range(7)
    ]
    asked.append(asked[0])
    found = log_probabilities(model, asked, ends, temperature)
    for row, values in zip(asked, found, strict=True):
        expected = []
        for reply in row.replies:
            with torch.no_grad():
                logits = model(torch.tensor([row.prompt + reply])).logits[0]
            logprobs = torch.log_softmax(logits / temperature, dim=-1)[len(row.prompt) - 1 :]
            said = sum(float(logprobs[place, token]) for place, token in enumerate(reply))
            expected.append(said + float(logprobs[-1, list(ends)].logsumexp(0)))
        assert values == pytest.approx(expected, abs=1e-4)
    assert log_probabilities(model, [], ends) == []


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_probabilities_are_the_frequencies_with_which_the_model_answers(player: Make, temperature: float) -> None:
    samples = 300
    playing = player(temperature=temperature)
    given = playing.answer_probabilities([question.turn for question in kuhn()])
    drawn = score_policy(playing, "kuhn_poker", prompt="brief", samples=samples)
    probable = score_policy(playing, "kuhn_poker", prompt="brief")
    assert (probable.way, drawn.way) == ("probabilities", "samples")
    assert [state.probabilities for state in probable.states] == given
    assert 0.01 < probable.metrics["illegal_mean"] < 0.99
    for row, seen in zip(given, drawn.states, strict=True):
        assert sum(row) < 1
        for p, frequency in zip(row, seen.probabilities, strict=True):
            # With 24 comparisons, a correct model exceeds 4.5 standard errors once in 6,000 runs. The seeds are fixed.
            assert abs(p - frequency) < 4.5 * math.sqrt(p * (1 - p) / samples) + 1e-3


def test_an_answer_that_does_not_fit_is_never_given(player: Make) -> None:
    turns = [question.turn for question in kuhn()]
    (whole, *_) = player().answer_probabilities(turns)
    assert all(p > 0 for p in whole)
    # The reply is 4 tokens: \boxed{, a digit, } and the end token.
    assert player(max_new_tokens=4).answer_probabilities(turns)[0] == pytest.approx(whole)
    assert set(player(max_new_tokens=3).answer_probabilities(turns)) == {(0.0, 0.0)}
    assert set(player(max_model_len=8).answer_probabilities(turns)) == {(0.0, 0.0)}


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"top_p": 0.9}, {"top_k": 5}])
def test_a_player_that_cuts_its_choices_gives_no_probabilities(player: Make, sampling: dict[str, float]) -> None:
    playing = player(**sampling)
    assert not playing.gives_probabilities
    with pytest.raises(ValueError, match="temperature above 0"):
        playing.answer_probabilities([kuhn()[0].turn])
    assert score_policy(playing, "kuhn_poker", prompt="brief", samples=1).way == "samples"
