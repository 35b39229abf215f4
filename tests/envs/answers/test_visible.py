"""Thinking, channels, answer marks and ends of turns of all model families, and the repair of fences."""

import re
import time
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from veritas_rl.envs.answers.parts import code_blocks
from veritas_rl.envs.answers.visible import FAMILIES, Regions, Visible, visible, with_fences_alone
from veritas_rl.seeding import generator

REPLIES = {
    "<think>...</think>; the prompt may open it": [
        "<think>\nDRAFT\n</think>\n\nANSWER<|im_end|>",
        "DRAFT\n</think>\n\nANSWER<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<think>DRAFT</think>ANSWER</think>",
        "DRAFT</think>ANSWER</think>\n",
        "<think>\n\n</think>\n\nANSWER<|endoftext|>",
        "<think>I close it with <think> later. DRAFT</think>ANSWER",
        "<think>a<think>DRAFT</think>DRAFT</think>ANSWER",
        "<think>```python\nDRAFT\n</think>ANSWER",
        "<think>DRAFT</thinking>ANSWER",
        "```python\nDRAFT\n</think>\n\n```\nANSWER\n```",
        "<THINK>DRAFT</THINK> ANSWER",
        "<thinking>DRAFT</thinking>ANSWER",
        '<think effort="high">DRAFT</think>ANSWER[EOS]',
    ],
    "<think>...</think><answer>...</answer>": [
        "<think>\nDRAFT\n</think>\n<answer>\nANSWER\n</answer><|eos|>",
        "DRAFT</think><answer>ANSWER",
        "<think>I write <answer>DRAFT</answer>.</think>I write <answer> around it: <answer>ANSWER</answer>",
    ],
    "<think>...</think><response>...</response>": ["DRAFT\n</think>\n\n<response>\nANSWER\n</response>\n</s>"],
    "<seed:think>...</seed:think>": [
        "<seed:think>DRAFT<seed:cot_budget_reflect>9 left</seed:cot_budget_reflect></seed:think>ANSWER<seed:eos>"
    ],
    "<mm:think>...</mm:think>": ["<mm:think>DRAFT</mm:think>ANSWER", "DRAFT</mm:think>ANSWER"],
    "<longcat_think>...</longcat_think>": ["<longcat_think>DRAFT</longcat_think>ANSWER"],
    "<thought>...</thought>": ["<thought>\nDRAFT\n</thought>\n\nANSWER[|endofturn|]"],
    "<reasoning>...</reasoning>": ["<reasoning>DRAFT</reasoning>ANSWER", "DRAFT</reasoning>ANSWER"],
    "\u25c1think\u25b7...\u25c1/think\u25b7": ["\u25c1think\u25b7DRAFT\u25c1/think\u25b7ANSWER<|im_end|>"],
    "[THINK]...[/THINK]": ["[THINK]DRAFT[/THINK]ANSWER</s>", "DRAFT[/THINK]ANSWER"],
    "<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>": [
        "<|channel|>analysis<|message|>DRAFT<|end|><|start|>assistant<|channel|>final<|message|>ANSWER<|return|>",
        "<|start|>assistant<|channel|>analysis<|message|>DRAFT<|end|><|start|>assistant<|channel|>commentary<|message|>"
        "DRAFT<|end|><|start|>assistant<|channel|>final <|constrain|>text<|message|>ANSWER",
        "<|channel|>final<|message|>ANSWER<|return|>",
        "DRAFT<|end|><|start|>assistant<|channel|>final<|message|>ANSWER<|end|>",
        "analysisWe see DRAFTassistantfinalANSWER",
        "analysis\nwe see DRAFT\nassistantfinal\nANSWER",
        'analysis"DRAFT"assistantcommentaryDRAFTassistantfinalANSWER',
    ],
    "<|channel>thought...<channel|>": ["<|channel>thought\nDRAFT<channel|>ANSWER<turn|>", "<|channel><channel|>ANSWER"],
    "<unused94>thought...<unused95>": ["<unused94>thought\nDRAFT<unused95>ANSWER<end_of_turn>"],
    "<|START_THINKING|>...<|END_THINKING|><|START_RESPONSE|>...<|END_RESPONSE|>": [
        "<|START_THINKING|>DRAFT<|END_THINKING|><|START_RESPONSE|>ANSWER<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        "DRAFT<|END_THINKING|><|START_TEXT|>ANSWER<|END_TEXT|>",
    ],
    "<|inner_prefix|>...<|inner_suffix|>": ["<|inner_prefix|>DRAFT<|inner_suffix|>ANSWER<|assistant_end|>"],
    "<|begin_of_thought|>...<|end_of_thought|><|begin_of_solution|>...<|end_of_solution|>": [
        "<|begin_of_thought|>\nDRAFT\n<|end_of_thought|>\n\n<|begin_of_solution|>\nANSWER\n<|end_of_solution|>"
    ],
    "<think>...</think>...<|begin_of_box|>...<|end_of_box|>": [
        "<think>DRAFT</think>It is <|begin_of_box|>ANSWER<|end_of_box|>.<|user|>"
    ],
    "Here is my thought process: ... Here is my response: ...": [
        "Here is my thought process:\n\nDRAFT\n\nHere is my response:\n\nANSWER",
        "Here's my thought process: DRAFT Here's my response: ANSWER<|end_of_text|>",
    ],
}
"""For each entry of `FAMILIES` replies of this format. DRAFT stands for thinking, ANSWER for the answer."""


def test_the_page_lists_every_family() -> None:
    page = (Path(__file__).parents[3] / "docs" / "replies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| `(.+)` \|$", page.partition("## Which")[0], re.MULTILINE)
    assert [(models, marks.replace("\\|", "|")) for models, marks in rows] == list(FAMILIES.items())


@pytest.mark.parametrize("marks", FAMILIES.values())
def test_the_answer_of_each_family_is_visible_and_its_thinking_is_not(marks: str) -> None:
    for reply in REPLIES[marks]:
        found = visible(reply)
        inside = found if isinstance(found, str) else "".join(found.inside)
        assert "ANSWER" in inside, reply
        assert "DRAFT" not in inside if isinstance(found, str) else f"{inside}{found.outside}", reply


@pytest.mark.parametrize("marks", FAMILIES.values())
def test_thinking_without_an_answer_is_empty(marks: str) -> None:
    for reply in REPLIES[marks]:
        opened = reply.partition("DRAFT")[0]
        if opened and "ANSWER" not in opened and "```" not in opened:
            found = visible(f"{opened}DRAFT")
            assert isinstance(found, str), opened
            assert not found.strip(), opened


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", "a"),
        ("a < b [c] `d`", "a < b [c] `d`"),
        ("5<think>x</think>6", "5\n6"),
        ("<think>x</think>\n\n  6", "  6"),
        ("<think>x</THINK>6</think>", "6"),
        ("a<think>b", "a"),
        ("b</think>", ""),
        ("a <b>c</b>", "a <b>c</b>"),
        ("a<|im_end|>b", "a"),
        ("<s> a</s>b", "a"),
        ("<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nb", "a"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\na<|eot_id|>", "a"),
        ("I use `<think>` and `</s>`.", "I use `<think>` and `</s>`."),
        ("```\n<think>\n</s>\n```", "```\n<think>\n</s>\n```\n"),
        ("```\n<answer>1</answer>\n```", "```\n<answer>1</answer>\n```\n"),
        ("~~~\n</think>\n~~~", "~~~\n</think>\n~~~\n"),
        ("x <answer>1</answer> y", Regions(("1",), "x \n y")),
        ("<answer>1<answer>2</answer>", Regions(("2",), "\n")),
        ("1</answer>", "1"),
        ("<answer></answer>1", "\n1"),
        ("<analysis>a</analysis><final_answer>1</final_answer>", Regions(("1",), "\n")),
        ("<output>\n1\n</output>", Regions(("1\n",), "\n")),
        ("analysis of the game: a1", "analysis of the game: a1"),
        ("analysisWe play", ""),
        ("Here is my thought process: a", ""),
        ("The file says <|message|>.", "The file says <|message|>."),
        ("<|channel|>analysis<|message|>a", ""),
        ("<th\u200bink>a", "<th\u200bink>a"),
        ("<think\n>a", "<think\n>a"),
        ("\u202e<think>a</think>b", "\u202e\nb"),
        ("\ud800<think>\udc00</think>b\ud83d", "\ud800\nb\ud83d"),
        ("<think>" * 3 + "a" + "</think>" * 3 + "b", "b"),
    ],
)
def test_the_visible_part(text: str, found: Visible) -> None:
    assert visible(text) == found


def test_blocks_that_follow_commonmark_are_read_as_by_its_reference_rules() -> None:
    """Compared with markdown-it-py's own reading of the unchanged text."""
    markdown = MarkdownIt("commonmark")
    random = generator("documents of blocks")
    compared = 0
    for _ in range(3_000):
        lines: list[str] = []
        for _ in range(random.randrange(1, 4)):
            prefix = random.choice(("", "", "> ", "   ", "> > "))
            lines += [random.choice(("Some text.", "Output:", "")), ""] if random.random() < 0.6 else []
            fence = random.choice(("`", "~")) * random.randrange(3, 6)
            inside = [random.choice(("a", "  b", "", "x = 1", "`c`", "- d", "<think>", "#")) for _ in range(3)]
            block = [f"{fence}{random.choice(('', 'text', ' python'))}", *inside[: random.randrange(4)], fence]
            lines += [f"{prefix}{line}".rstrip() for line in block]
            lines.append("")
        text = "\n".join(lines)
        wanted = [(token.info.strip(), token.content) for token in markdown.parse(text) if token.type == "fence"]
        assert [(block.info, block.text) for block in code_blocks(with_fences_alone(text))] == wanted, text
        compared += len(wanted)
    assert compared > 5_000


UNITS = (
    *("```\n", "```", "`", "``", "````", "``` a", "` ", "`a", "`a`", "a```\n", "~~~", "~~~\n", "> ```\n", "- ```\n"),
    *("<think>", "</think>", "<think></think>", "<think>\n```\n", "```\n</think>\n", "</think>\n```\n", "<think ", "<"),
    *(
        "<answer>",
        "</answer>",
        "<answer></answer>",
        "```a\n</answer>\n",
        "```a<answer>",
        "~~~ ",
        "a~~~b",
        " ```a`b",
        " ``` ~~~",
        "<analysis>",
        "<a:think>",
    ),
    *("[THINK]", "[/THINK]", "\u25c1think\u25b7", "<|im_end|>", "<|channel|>", "<|channel|>final<|message|>", "</s>"),
    *(
        "<|start|>assistant",
        "<|start|>assistant<|channel|>final<|message|>",
        "assistantfinal",
        "analysisA",
        "\n\n",
        "> ",
    ),
    *("Here is my thought process:", "Here is my response:", "\ud800", "\u200b", "\u202e", "\x00", "1. ", "[", "\r\n"),
)
"""Parts of hostile replies."""


@pytest.mark.parametrize("before", ["", "```\n", "<think>", "<answer>", "a<think>b</think>", "analysisA"])
def test_hostile_replies_cost_linear_time(before: str) -> None:
    """A scan in quadratic time would take minutes for one of them."""
    texts = [before + unit * (99_900 // len(unit)) for unit in UNITS]
    texts += [before + "word " * 10_000 + "\n" + "```\n1\n```\n" * 3_700]
    texts.append(before + "".join("`" * length + "a\n<answer>" for length in range(420, 3, -1)))
    started = time.perf_counter()
    for text in texts:
        found = visible(text)
        for part in (found,) if isinstance(found, str) else found.inside:
            code_blocks(with_fences_alone(part))
    assert time.perf_counter() - started < 2 * len(texts)
