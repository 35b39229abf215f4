"""Generate a model that trains on two CPU cores in minutes. Nothing is downloaded.

The result is a Hugging Face folder with a Qwen3 of four layers, 0.3 to 0.9 million random weights, and a tokenizer of
the 256 bytes with Qwen's chat format. Every tool that accepts Qwen3-4B accepts this model, so a run on a CPU exercises
the same code. Frequent words ("user", "assistant", "\\boxed{") are one token each, because the cost grows with the
number of tokens.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from veritas_rl.checkpoints.folder import save_model_folder
from veritas_rl.launch.start import MARK

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTEXT = 2048
"""The minimum context in tokens."""
HEADS_SIZE = 128
"""The sum of the widths of a layer's attention heads."""

WORDS = ("user", "assistant", "system", "\\boxed{")
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def build_tiny_model(
    folder: Path,
    seed: int,
    context: int = CONTEXT,
    words: Sequence[str] = (),
    weights: float = 0.02,
    embeddings: float = 0.02,
    hidden_size: int = 128,
    heads: int = 4,
) -> Path:
    """Make the small model and its tokenizer.

    Args:
        folder: The new folder. It must be missing or empty, and is written atomically.
        seed: Fixes every weight. The global random state is not used.
        context: The context in tokens. At least `CONTEXT` is used.
        words: Further words that are one token each.
        weights: The standard deviation of the weights.
        embeddings: The standard deviation of the token embeddings.
        hidden_size: The width of the layers.
        heads: The number of attention heads. The sum of their widths is `HEADS_SIZE`.

    Returns:
        `folder`.

    Raises:
        UserError: `folder` is not empty.
    """
    tokenizer: Any = byte_tokenizer(words)
    tokenizer.model_max_length = max(context, CONTEXT)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=4,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=HEADS_SIZE // heads,
        max_position_embeddings=max(context, CONTEXT),
        # With tied embeddings, the same warm-up ends several points lower.
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
        dtype="float32",
        initializer_range=weights,
    )
    setattr(config, MARK, True)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the accelerators too.
        torch.default_generator.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        read: Any = model.get_input_embeddings()
        read.weight.mul_(embeddings / weights)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    return save_model_folder(model, tokenizer, folder)


def byte_tokenizer(words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """A lossless tokenizer with a token for each of the 256 bytes, three special tokens, `WORDS` and `words`."""
    alphabet = sorted(ByteLevel.alphabet())
    core = Tokenizer(BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = ByteLevelDecoder()
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in (PAD, START, END)])
    core.add_tokens([AddedToken(text, special=False, normalized=False) for text in dict.fromkeys((*WORDS, *words))])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
