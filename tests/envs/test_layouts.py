"""Layouts in which chat models write answers, each tried in every environment: the right answer is paid, and replies
without exactly one final answer are not."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from veritas_rl.envs.base import Reply, Score
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.envs.task import Task

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "openspiel": ("openspiel", {"cases": "hex(board_size=5)", "reward_mode": "legal"}),
    "operation": ("lgc-v2", {"cases": "operation_level_2"}),
    "boolean_expressions": ("lgc-v2", {"cases": "boolean_expressions_level_2"}),
    "game_of_24": ("lgc-v2", {"cases": "game_of_24_level_4"}),
    "sudoku": ("lgc-v2", {"cases": "sudoku_level_2"}),
    "cryptarithm": ("lgc-v2", {"cases": "cryptarithm_level_1"}),
    "dyck_language2": ("lgc-v2", {"cases": "dyck_language2_level_5"}),
    "trace": ("trace", {"cases": "level_2"}),
}


class Asked:
    """A real task with a right and a wrong answer, without markup.

    Attributes:
        right: The right answer.
        wrong: An answer that can be read and is wrong; in a game another legal move.
        program: What the prompt shows in a code block; "" for other environments.
    """

    def __init__(self, name: str) -> None:
        environment, config = SETTINGS[name]
        settings = {"env": environment, "adapter_config": {**config, "num_tasks_per_case": 1}}
        self.task: Task = open_catalogue(settings, "train")[0]
        (turn,) = get_environment(environment).start(self.task).turns()
        self.seat = turn.seat
        self.program = ""
        if name == "openspiel":
            self.right, self.wrong = (answer[len("\\boxed{") : -1] for answer in turn.answers[:2])
        elif name == "trace":
            self.right, self.program = turn.view.truth.rstrip("\n"), turn.view.source.rstrip("\n")
            self.wrong = f"{self.right}\n0"
        else:
            puzzle = turn.view.puzzle
            self.right = puzzle.answer
            self.wrong = next(
                text
                for _, text in puzzle.near_misses()
                if (said := puzzle.read(text)) is not None and not puzzle.is_right(said)
            )

    def score(self, template: str) -> Score:
        """The score of a reply; RIGHT, WRONG and PROGRAM stand for the texts of the task."""
        text = template.replace("RIGHT", self.right).replace("WRONG", self.wrong).replace("PROGRAM", self.program)
        session = get_environment(self.task.env).start(self.task)
        session.step({0: Reply(text)})
        return session.scores()[self.seat]


BLOCKS = ("operation", "boolean_expressions", "game_of_24", "sudoku", "dyck_language2", "trace")
"""The environments that read code blocks."""
LINES = ("operation", "boolean_expressions", "game_of_24", "cryptarithm")
"""The environments that read a statement on one line."""

RIGHT: tuple[tuple[tuple[str, ...], str], ...] = (
    # Fences.
    *((BLOCKS, f"```\nRIGHT\n```{end}") for end in ("", "\n", "<|im_end|>", "</s>", "\n<|eot_id|>", " <end_of_turn>")),
    (BLOCKS, "```\nRIGHT```"),
    (BLOCKS, "Output: ```\nRIGHT\n```"),
    (BLOCKS, "So ```text\nRIGHT```\nas said."),
    (BLOCKS, "RIGHT\n```"),
    (BLOCKS, "~~~\nRIGHT\n~~~"),
    (BLOCKS, "~~~~ text\nRIGHT\n~~~~\n\nThat is all."),
    (BLOCKS, "```\nRIGHT\n``` is what I get."),
    (("operation", "game_of_24"), "> ```\n> RIGHT\n> ```"),
    (("operation", "game_of_24"), "> The answer:\n>\n> ```text\n> RIGHT\n> ```\n\nDone."),
    (("operation", "game_of_24"), "1. I follow it.\n2. It gives:\n   ```\n   RIGHT\n   ```"),
    (("operation", "game_of_24"), "* It gives\n\n  ~~~\n  RIGHT\n  ~~~\n"),
    (("operation", "game_of_24"), "- Answer: ```\n  RIGHT\n  ```"),
    # Answer marks.
    *(
        (tuple(SETTINGS), f"<{tag}>RIGHT</{tag}>")
        for tag in ("answer", "response", "final_answer", "ANSWER", "solution")
    ),
    (tuple(SETTINGS), "I work it out.\n<answer>\nRIGHT\n</answer>"),
    (tuple(SETTINGS), "<answer>RIGHT"),
    (tuple(SETTINGS), "<think>WRONG</think>\n<answer>\nRIGHT\n</answer><|im_end|>"),
    (tuple(SETTINGS), "It is <|begin_of_box|>RIGHT<|end_of_box|>."),
    (tuple(SETTINGS), "<|START_THINKING|>WRONG<|END_THINKING|><|START_RESPONSE|>RIGHT<|END_RESPONSE|>"),
    (BLOCKS, "<answer>\n```\nRIGHT\n```\n</answer>"),
    (("openspiel", "operation", "trace"), "<answer>It is \\boxed{RIGHT}.</answer>"),
    # Drafts in thinking.
    *(
        (
            ("openspiel", "operation", "boolean_expressions", "trace"),
            f"{opening}\\boxed{{WRONG}}{closing}\\boxed{{RIGHT}}",
        )
        for opening, closing in (
            *(("<THINK>", "</THINK>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>")),
            *(("<thought>", "</thought>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]")),
            *(("\u25c1think\u25b7", "\u25c1/think\u25b7"), ("analysisI see ", "assistantfinal"), ("", "</think>")),
            ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
            ("Here is my thought process: ", " Here is my response: "),
        )
    ),
    (("openspiel", "operation", "trace"), "<think>WRONG</think>\\boxed{RIGHT}</think>"),
    (("openspiel", "operation", "trace"), "WRONG</think>\\boxed{RIGHT}</think>\n"),
    (tuple(SETTINGS)[1:], "<think>\nI get WRONG.\n</think>\n\nRIGHT"),
    # Ends of turns.
    *(
        (LINES, f"The answer is RIGHT{end}")
        for end in ("<|im_end|>", "</s>", ".<|return|>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
    ),
    *((LINES, f"I work it out.\nRIGHT{end}") for end in ("<|endoftext|>", "<eos>", "[EOS]", "\n<|eot_id|>\n")),
    (("openspiel", "operation", "trace"), "\\boxed{RIGHT}<|im_end|>\n<|im_start|>user\n\\boxed{WRONG}"),
    # Work before the answer.
    (BLOCKS, "The first step:\n```\n5 - 3 = 2\n```\nAnswer:\n```\nRIGHT\n```"),
    (BLOCKS, "**Step 1**\n\n```\nWRONG\n```\n\n**Final answer**\n\n```\nRIGHT\n```\n"),
    (BLOCKS, "I try this:\n```\nWRONG\n```\nIt fails. The answer is\n```\nRIGHT\n```"),
    (BLOCKS, "步骤:\n```\nWRONG\n```\n答案:\n```\nRIGHT\n```"),
    (BLOCKS, "Answer:\n```\nRIGHT\n```\nThe check of one line:\n```\nWRONG\n```"),
    (("trace",), "```python\nPROGRAM\n```\nIt prints:\n```\nRIGHT\n```"),
    (("trace",), "The program\n```\nPROGRAM\n```\nprints\n```\nRIGHT\n```"),
    (("trace",), "After the loop:\n```\nx = 1\n```\nSo \\boxed{RIGHT}"),
    (("trace",), "### Trace\n\n1. Start:\n   ```\n   x = 0\n   ```\n\n### Output\n\n```\nRIGHT\n```"),
    (("game_of_24",), "```\n5 - 3 = 2\n```\n```\nRIGHT\n```"),
    # Headings and lines of their own.
    (LINES, "### Final Answer\n\nRIGHT\n\nI hope this helps!"),
    (LINES, "**Final Answer:** RIGHT"),
    (LINES, "The answer is:\n\n**RIGHT**\n\nThat was fun."),
)
WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (BLOCKS, "```\nWRONG\n```\nor\n```\nRIGHT\n```"),
    (BLOCKS, "```\nRIGHT\n```\nor\n```\nWRONG\n```"),
    (BLOCKS, "```\nWRONG\n```\n```\nRIGHT\n```"),
    (BLOCKS, "Option 1:\n```\nWRONG\n```\nOption 2:\n```\nRIGHT\n```"),
    (BLOCKS, "Draft:\n```\nWRONG\n```\nAnswer:\n```\nRIGHT\n```"),
    (BLOCKS, "Answer:\n```\nWRONG\n```\nAnswer:\n```\nRIGHT\n```"),
    (BLOCKS, "Output:\n```\nWRONG\n```\nWait, that is wrong. Output:\n```\nRIGHT\n```"),
    (BLOCKS, "Perhaps:\n```\nRIGHT\n```\nPerhaps:\n```\nWRONG\n```"),
    (BLOCKS, "```\nWRONG\n```\nSo <answer>RIGHT</answer><answer>WRONG</answer>"),
    (("openspiel", "operation", "boolean_expressions", "trace"), "\\boxed{WRONG} or \\boxed{RIGHT}"),
    (("openspiel", "operation", "boolean_expressions", "trace"), "\\boxed{WRONG}? No: \\boxed{RIGHT}"),
    (("openspiel", "operation", "boolean_expressions", "trace"), "\\boxed{RIGHT or WRONG}"),
    (("openspiel", "operation", "boolean_expressions", "trace"), "<answer>RIGHT</answer> \\boxed{WRONG}"),
    (("openspiel", "operation", "boolean_expressions", "trace"), "<think>\\boxed{RIGHT}</think>"),
    (tuple(SETTINGS), "<answer>RIGHT</answer> <answer>WRONG</answer>"),
    (tuple(SETTINGS), "<answer>RIGHT or WRONG</answer>"),
    (tuple(SETTINGS), "<think>RIGHT"),
    (tuple(SETTINGS), "analysisI play RIGHT"),
    (LINES, "The answer is WRONG. The answer is RIGHT."),
    (LINES, "The answer is RIGHT or WRONG."),
    (LINES, "<|im_start|>assistant\nI give up.<|im_end|>\nRIGHT"),
)


@pytest.fixture(scope="module")
def asked() -> Callable[[str], Asked]:
    return cache(Asked)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_right_answer_is_paid_in_every_layout(asked: Callable[[str], Asked], name: str) -> None:
    tried = [template for names, template in RIGHT if name in names]
    refused = [(template, asked(name).score(template).reason) for template in tried]
    assert len(tried) >= 15
    assert not [(template, reason) for template, reason in refused if reason.is_mistake or reason == "wrong"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_reply_without_one_final_answer_is_not_paid(asked: Callable[[str], Asked], name: str) -> None:
    for template in (template for names, template in WRONG if name in names):
        score = asked(name).score(template)
        assert not score.value, template
        assert not score.success, template
