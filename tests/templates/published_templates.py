"""Published chat templates with small tokenizers, for tests that must hold for every model.

The files beside this module render the same text as the templates of the models that `PUBLISHED` names, for messages
without tools. A tokenizer has the special tokens, the end of sequence and the begin of sequence of the model's own, and
a token for each byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import processors
from transformers import GenerationConfig

from veritas_rl.launch.tiny_model import byte_tokenizer

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Published:
    """A model's chat format.

    Attributes:
        model: A model that has it.
        eos: The tokenizer's end of sequence.
        ends: The texts of the generation config's end tokens.
        end_of_turn: The token that ends a reply in the template.
        special: Special tokens.
        pad: The tokenizer's padding; None if it has none.
        bos: The tokenizer's begin of sequence, which `encode` puts before a text; None if it has none.
        marks: Added tokens that are not special, such as the marks of thinking.
        opening: What the template writes for a model that thinks, between the prompt and a reply without thinking.
        system: Whether a system message is accepted.
        alternating: Whether roles must alternate.
        appends: Whether the prompt of a later turn begins with the prompt and the reply of the turn before.
    """

    model: str
    eos: str
    ends: Sequence[str]
    end_of_turn: str
    special: Sequence[str]
    pad: str | None = None
    bos: str | None = None
    marks: Sequence[str] = ()
    opening: Mapping[bool, str] = field(default_factory=lambda: {True: "", False: ""})
    system: bool = True
    alternating: bool = False
    appends: bool = True


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_GEMMA = ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")
_PHI = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
_LLAMA = tuple(
    f"<|{name}|>"
    for name in (
        *("begin_of_text", "end_of_text", "finetune_right_pad_id", "start_header_id", "end_header_id", "eom_id"),
        *("eot_id", "python_tag"),
    )
)
_HARMONY = tuple(
    f"<|{name}|>"
    for name in ("startoftext", "endoftext", "return", "constrain", "channel", "start", "end", "message", "call")
)
_EMPTY_THINKING = "<think>\n\n</think>\n\n"
_FINAL = "<|channel|>final<|message|>"

PUBLISHED: Mapping[str, Published] = {
    # The base model's tokenizer: its end of sequence is not the template's end of turn.
    "chatml": Published("Qwen/Qwen2.5-1.5B", _CHATML[0], _CHATML[:1], "<|im_end|>", _CHATML, pad=_CHATML[0]),
    "qwen3": Published(
        "Qwen/Qwen3-4B",
        "<|im_end|>",
        ("<|im_end|>", "<|endoftext|>"),
        "<|im_end|>",
        _CHATML,
        pad="<|endoftext|>",
        marks=("<think>", "</think>"),
        opening={True: _EMPTY_THINKING, False: ""},
        appends=False,
    ),
    "qwen3_instruct_2507": Published(
        "Qwen/Qwen3-4B-Instruct-2507",
        "<|im_end|>",
        ("<|im_end|>", "<|endoftext|>"),
        "<|im_end|>",
        _CHATML,
        pad="<|endoftext|>",
        marks=("<think>", "</think>"),
    ),
    "llama3": Published(
        "meta-llama/Llama-3.2-1B-Instruct",
        "<|eot_id|>",
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        "<|eot_id|>",
        _LLAMA,
        bos="<|begin_of_text|>",
    ),
    "gemma2": Published(
        "google/gemma-2-2b-it",
        "<eos>",
        ("<eos>", "<end_of_turn>"),
        "<end_of_turn>",
        _GEMMA,
        pad="<pad>",
        bos="<bos>",
        system=False,
        alternating=True,
    ),
    "gemma3": Published(
        "google/gemma-3-1b-it",
        "<eos>",
        ("<eos>", "<end_of_turn>"),
        "<end_of_turn>",
        _GEMMA,
        pad="<pad>",
        bos="<bos>",
        alternating=True,
    ),
    "phi3_5": Published(
        "microsoft/Phi-3.5-mini-instruct",
        "<|endoftext|>",
        ("<|end|>", "<|assistant|>", "<|endoftext|>"),
        "<|end|>",
        _PHI,
        pad="<|endoftext|>",
    ),
    "phi4_mini": Published(
        "microsoft/Phi-4-mini-instruct",
        "<|endoftext|>",
        ("<|end|>", "<|endoftext|>"),
        "<|end|>",
        _PHI,
        pad="<|endoftext|>",
    ),
    "mistral_v0_3": Published(
        "mistralai/Mistral-7B-Instruct-v0.3",
        "</s>",
        ("</s>",),
        "</s>",
        ("<s>", "</s>", "[INST]", "[/INST]"),
        bos="<s>",
        opening={True: " ", False: " "},
        alternating=True,
    ),
    "deepseek_r1": Published(
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "<｜end▁of▁sentence｜>",
        ("<｜end▁of▁sentence｜>",),
        "<｜end▁of▁sentence｜>",
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        pad="<｜end▁of▁sentence｜>",
        bos="<｜begin▁of▁sentence｜>",
        marks=("<think>", "</think>"),
        appends=False,
    ),
    "gpt_oss": Published(
        "openai/gpt-oss-20b",
        "<|return|>",
        ("<|return|>", "<|endoftext|>", "<|call|>"),
        "<|return|>",
        _HARMONY,
        pad="<|endoftext|>",
        opening={True: _FINAL, False: _FINAL},
        appends=False,
    ),
    "smollm2": Published(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "<|im_end|>",
        ("<|im_end|>",),
        "<|im_end|>",
        _CHATML,
        pad="<|im_end|>",
    ),
}


@cache
def tokenizer_of(name: str) -> Any:
    """The small tokenizer of a published format. Tests that change it copy it."""
    published = PUBLISHED[name]
    # Two line ends are one token, as in large vocabularies: a reply that begins with one would merge with the prompt.
    tokenizer: Any = byte_tokenizer(("\n\n", *published.marks))
    names = {"eos_token": published.eos, "pad_token": published.pad, "bos_token": published.bos}
    tokenizer.add_special_tokens({key: token for key, token in names.items() if token is not None})
    tokenizer.add_special_tokens({"additional_special_tokens": list(published.special)})
    tokenizer.pad_token = published.pad
    if published.bos is not None:
        first = (published.bos, tokenizer.convert_tokens_to_ids(published.bos))
        whole = processors.TemplateProcessing(single=f"{published.bos} $A", special_tokens=[first])
        tokenizer.backend_tokenizer.post_processor = whole
    tokenizer.chat_template = (HERE / f"{name}.jinja").read_text().removesuffix("\n")
    return tokenizer


def generation_config_of(name: str) -> GenerationConfig:
    """The generation config of a published format."""
    ids = tokenizer_of(name).convert_tokens_to_ids(list(PUBLISHED[name].ends))
    return GenerationConfig(eos_token_id=ids if len(ids) > 1 else ids[0])
