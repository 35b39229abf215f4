"""How the launcher lets a model answer when it judges it: the settings, and the player."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veritas_rl.players.language_model import LanguageModelPlayer


@dataclass(frozen=True)
class Answering:
    """The settings with which the model generates answers when the run judges it.

    Attributes:
        tokens: The longest answer, in tokens.
        context: The longest prompt and answer together, in tokens.
        at_once: The number of answers that are generated together.
        temperature: The sampling temperature.
        draws: The number of answers for each task.
        seed: The sampling seed.
        enable_thinking: Whether a hybrid model thinks before it answers.
        say_limit: Whether each prompt states the token limit of the answer.
        dtype: The dtype of the weights, as verl names it; None for the saved one.
    """

    tokens: int
    context: int
    at_once: int
    temperature: float
    draws: int
    seed: int
    enable_thinking: bool = False
    say_limit: bool = False
    dtype: str | None = None


@contextmanager
def player_of(model: Any, tokenizer: Any, asked: Answering) -> Iterator["LanguageModelPlayer"]:
    """A model as a player, whose engine ends with the block.

    Args:
        model: The model.
        tokenizer: Its tokenizer, with a chat template.
        asked: The settings.
    """
    # Imported late, because planning a run needs no torch.
    from veritas_rl.players.generation import GenerationEngine
    from veritas_rl.players.language_model import LanguageModelPlayer
    from veritas_rl.players.sampling import SamplingParams

    engine = GenerationEngine.of(
        model, tokenizer, max_batch_size=asked.at_once, max_model_len=asked.context, seed=asked.seed
    )
    try:
        params = SamplingParams(asked.tokens, temperature=asked.temperature)
        shown = {"enable_thinking": asked.enable_thinking, "say_limit": asked.say_limit}
        yield LanguageModelPlayer(engine, tokenizer, params, **shown)
    finally:
        engine.close()
