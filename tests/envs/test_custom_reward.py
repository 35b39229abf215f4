"""A reward function of the user's own: how it is found, checked and called."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from veritas_rl.envs.base import Reason, Score
from veritas_rl.envs.custom_reward import NODE, OF_ENVIRONMENTS, CustomReward
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError
from veritas_rl.paths import ROOT

TASK = make_task("openspiel", "tic_tac_toe", 5)
WON = Score(0.5, True, Reason.LEGAL)

OF_VERL = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == "openspiel" and extra_info["case"] == "tic_tac_toe" and ground_truth == extra_info["task_id"]
    return {"score": len(solution_str), "acc": True, "said": solution_str, "nothing": None}
"""


def read(folder: Path, source: str, **settings: Any) -> CustomReward:
    """The function of a file with this source."""
    file = folder / "my_reward.py"
    file.write_text(source)
    found = CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": {"path": str(file), **settings}}}))
    assert found is not None
    return found


def called(custom: CustomReward, text: str = "\\boxed{4}", tokens: tuple[int, ...] = (1, 2, 3)) -> Any:
    return custom(TASK, WON, 0.5, text, tokens, 2)


def test_a_function_of_verl_works_as_it_is(tmp_path: Path) -> None:
    custom = read(tmp_path, OF_VERL, name="compute_score")
    assert called(custom, "abc") == (3.0, {"acc": 1.0, "said": "abc"})


def test_a_function_gets_what_it_asks_for(tmp_path: Path) -> None:
    source = "def mine(score, tokens, result, task, move): return [score, *tokens, result.value, move][task.k]\n"
    assert [called(read(tmp_path, source, name="mine"), tokens=(7,) * n)[0] for n in (3, 4)] == [2, 0.5]
    every = read(tmp_path, "def compute_score(**given): return len(given)\n", name="compute_score")
    assert called(every)[0] == 9
    wait = "import asyncio\nasync def compute_score(score):\n    await asyncio.sleep(0)\n    return score + 1\n"
    assert called(read(tmp_path, wait, name="compute_score"))[0] == 1.5


def test_the_function_of_the_page_pays_short_answers(tmp_path: Path) -> None:
    page = (ROOT / "docs/rewards.md").read_text(encoding="utf-8")
    source = page.partition("```python\n")[2].partition("```")[0]
    assert len(source.splitlines()) <= 10
    custom = read(tmp_path, source, name="compute_score")
    assert [called(custom, tokens=(1,) * count)[0] for count in (12, 13)] == [0.6, 0.5]
    mistake = Score(0.0, False, Reason.EMPTY)
    assert custom(TASK, mistake, 0.0, "", (1,)) == (0.0, {})


def test_further_arguments_are_given(tmp_path: Path) -> None:
    source = "def compute_score(score, bonus): return score + bonus\n"
    custom = read(tmp_path, source, name="compute_score", reward_kwargs={"bonus": 2})
    assert called(custom)[0] == 2.5
    other = read(tmp_path, source, name="compute_score", reward_kwargs={"bonus": 3})
    assert custom.identity != other.identity
    assert read(tmp_path, f"{source}#", name="compute_score", reward_kwargs={"bonus": 2}).identity != custom.identity


def test_a_package_is_refused() -> None:
    node = {"path": "pkg://my.rewards", "name": "compute_score"}
    with pytest.raises(UserError, match=r"path=pkg://my\.rewards is no file: set it to a Python file"):
        CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": node}}))


def test_the_files_of_the_package_stand_for_the_environments_themselves() -> None:
    path = "train/tools/reward-manager.py"
    for name in ("compute_score", "compute_lgc_v2_score"):
        node = {"path": path, "name": name}
        assert CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": node}})) is None
    assert CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": {"path": None}}})) is None
    assert CustomReward.read(OmegaConf.create({"trainer": {}})) is None
    assert (ROOT / path).is_file()
    with pytest.raises(UserError, match=r"unknown .*name of train/tools/reward-manager\.py 'mine'"):
        CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": {"path": path, "name": "mine"}}}))


@pytest.mark.parametrize(
    ("source", "settings", "said"),
    [
        ("def compute_score(: pass", {}, r"cannot be imported \(SyntaxError"),
        ("import no_such_module", {}, r"cannot be imported \(ModuleNotFoundError: No module named 'no_such_module'\)"),
        ("raise SystemExit(3)", {}, r"cannot be imported \(SystemExit: 3\)"),
        ("def other(score): return score", {}, "has no function compute_score: set .* which are: other"),
        ("compute_score = 3", {}, "has no function compute_score"),
        ("def compute_score(answer): return 1", {}, "takes answer, which nothing gives: it may take data_source"),
        ("def compute_score(score, /): return 1", {}, "takes score only by position"),
        ("def compute_score(score): return 1", {"reward_kwargs": {"bonus": 1}}, "does not take bonus of"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_in_one_line(
    tmp_path: Path, source: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said) as error:
        read(tmp_path, source, **{"name": "compute_score", **settings})
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    node = {"path": str(tmp_path / "mine.py"), "name": "compute_score"}
    with pytest.raises(UserError, match=rf"{NODE}\.path=.*mine\.py does not exist"):
        CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": node}}))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "returned the reward None, which is no finite number"),
        ("return float('nan')", "returned the reward nan"),
        ("return 'much'", "returned the reward 'much'"),
        ("return {'acc': 1}", 'without "score"'),
        ("return {'score': 1, 'parts': [1]}", r"returned parts=\[1\]"),
        ("return 1 / 0", "failed in line 2 with ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_fails_is_named_with_the_reply(tmp_path: Path, body: str, said: str) -> None:
    custom = read(tmp_path, f"def compute_score(solution_str):\n    {body}\n", name="compute_score")
    with pytest.raises(UserError, match=said) as error:
        called(custom, "x" * 200)
    assert "the reward function compute_score of my_reward.py" in str(error.value)
    assert f"the task is {TASK.id}, the reply '{'x' * 80}...'" in str(error.value)
    assert "\n" not in str(error.value)


def test_arguments_without_a_function_of_ones_own_are_refused() -> None:
    node = {"path": str(OF_ENVIRONMENTS), "name": "compute_score", "reward_kwargs": {"bonus": 1}}
    with pytest.raises(UserError, match=r"reward_kwargs has no effect, because rewards are those of the environments"):
        CustomReward.read(OmegaConf.create({"reward": {"custom_reward_function": node}}))
