"""The rows of supervised fine-tuning as verl's trainer reads them, for each published chat template."""

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from published_templates import PUBLISHED, tokenizer_of
from verl.trainer.sft_trainer import create_sft_dataset
from verl.utils.dataset.dataset_utils import SFTTensorCollator

from veritas_rl.chat_template import prompt_ids
from veritas_rl.datasets.rows import write_parquet
from veritas_rl.errors import UserError
from veritas_rl.launch.sft import DATASET

QUESTION = {"role": "user", "content": "Your move."}
CHAT = [
    QUESTION,
    {"role": "assistant", "content": "b2"},
    {"role": "user", "content": "And now?"},
    {"role": "assistant", "content": "c3"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two questions with one reply and a conversation with two between them."""
    rows = [{"messages": CHAT[:2]}, {"messages": CHAT}, {"messages": CHAT[:2]}]
    write_parquet(tmp_path / "rows.parquet", rows)
    return tmp_path / "rows.parquet"


def opened(file: Path | list[Path], name: str, max_samples: int = -1, **data: Any) -> Any:
    """The dataset as verl's trainer makes it from the launcher's overrides."""
    path, chosen = (item.partition("=")[2] for item in DATASET)
    config = OmegaConf.create({"custom_cls": {"path": path, "name": chosen}, **data})
    files = [str(path) for path in (file if isinstance(file, list) else [file])]
    return create_sft_dataset(files, config, tokenizer_of(name), None, max_samples=max_samples)


def learned(row: dict[str, torch.Tensor], tokenizer: Any) -> str:
    return tokenizer.decode(row["input_ids"][row["loss_mask"] == 1])


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("enable_thinking", [False, True])
def test_the_reply_and_its_end_are_learned_in_the_prompt_of_rl(file: Path, name: str, enable_thinking: bool) -> None:
    tokenizer, published = tokenizer_of(name), PUBLISHED[name]
    rows = opened(file, name, apply_chat_template_kwargs={"enable_thinking": enable_thinking})
    first, last = rows[0], rows[len(rows) - 1]
    prompt = prompt_ids(tokenizer, [QUESTION], enable_thinking=enable_thinking)
    assert first["input_ids"][: len(prompt)].tolist() == prompt
    assert first["loss_mask"][: len(prompt)].sum() == 0
    assert first["loss_mask"][len(prompt) :].all()
    assert learned(first, tokenizer) == published.opening[enable_thinking] + "b2" + published.end_of_turn
    assert first["position_ids"].tolist() == list(range(len(first["input_ids"])))
    assert torch.equal(first["input_ids"], last["input_ids"])
    said = [published.opening[enable_thinking] + text + published.end_of_turn for text in ("b2", "c3")]
    between = [learned(rows[index], tokenizer) for index in range(1, len(rows) - 1)]
    assert between == (["".join(said)] if published.appends else said)


def test_each_row_may_say_whether_it_thinks(tmp_path: Path) -> None:
    rows = [{"messages": CHAT[:2], "enable_thinking": value} for value in (True, False, None)]
    write_parquet(tmp_path / "rows.parquet", rows)
    tokenizer = tokenizer_of("qwen3")
    found = [learned(row, tokenizer) for row in opened(tmp_path / "rows.parquet", "qwen3")]
    assert found == ["<think>\n\n</think>\n\nb2<|im_end|>", "b2<|im_end|>", "b2<|im_end|>"]


def test_sequences_are_cut_on_the_named_side(file: Path) -> None:
    tokenizer = tokenizer_of("chatml")
    whole = opened(file, "chatml")[0]
    length = len(whole["input_ids"])
    with pytest.raises(UserError, match=rf"has {length} tokens, more than data.max_length={length - 1}"):
        opened(file, "chatml", max_length=length - 1)[0]
    right = opened(file, "chatml", max_length=length - 1, truncation="right")[0]
    assert torch.equal(right["input_ids"], whole["input_ids"][:-1])
    assert learned(right, tokenizer) == "b2"
    left = opened(file, "chatml", max_length=4, truncation="left")[0]
    assert torch.equal(left["input_ids"], whole["input_ids"][-4:])
    assert learned(left, tokenizer) == "b2<|im_end|>"
    # verl aligns a token's probability with the token before it, so the first one has none.
    assert learned(opened(file, "chatml", max_length=2, truncation="left")[0], tokenizer) == "<|im_end|>"


def test_a_number_of_rows_can_be_chosen(file: Path) -> None:
    assert [len(opened(file, "qwen3", number)) for number in (-1, 1, 2, 3)] == [4, 1, 3, 4]
    assert [len(opened(file, "chatml", number)) for number in (-1, 1, 2, 3)] == [3, 1, 2, 3]
    drawn = opened(file, "chatml", 2, shuffle=True, seed=3)
    assert len(drawn) == 2
    assert torch.equal(drawn[0]["input_ids"], opened(file, "chatml", 2, shuffle=True, seed=3)[0]["input_ids"])


def test_a_batch_of_verl_holds_the_sequences_without_padding(file: Path) -> None:
    rows = opened(file, "qwen3")
    batch = SFTTensorCollator("no_padding")([rows[index] for index in range(4)])  # pyright: ignore[reportArgumentType]
    assert batch["input_ids"].offsets().diff().tolist() == [len(rows[index]["input_ids"]) for index in range(4)]
    assert batch["loss_mask"].values().sum() == sum(rows[index]["loss_mask"].sum() for index in range(4))


def test_files_whose_messages_have_other_fields_are_read_together(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    write_parquet(other, [{"messages": [{**message, "name": None} for message in CHAT[:2]]}])
    rows = opened([file, other], "chatml")
    assert len(rows) == 4
    assert torch.equal(rows[3]["input_ids"], rows[0]["input_ids"])
