"""What the command line of both trainers does before a run is planned."""

from pathlib import Path

import pytest

from veritas_rl.launch.command import with_reward_file


@pytest.mark.parametrize("key", ["reward.custom_reward_function.path", "+custom_reward_function.path"])
@pytest.mark.parametrize("written", ["my reward.py", "'my reward.py'"])
def test_the_file_of_a_reward_function_is_relative_to_the_folder_of_the_command(key: str, written: str) -> None:
    assert with_reward_file([f"{key}={written}"], Path("/home/me")) == [f"{key}='/home/me/my reward.py'"]


@pytest.mark.parametrize(
    "typed",
    [
        "custom_reward_function.path=tools/reward-manager.py",  # as other recipes name it
        "reward.custom_reward_function.path=train/tools/reward-manager.py",
        "reward.custom_reward_function.path=null",
        "reward.custom_reward_function.path=pkg://my.rewards",
        "reward.custom_reward_function.name=mine",
        "trainer.default_local_dir=mine",
    ],
)
def test_other_settings_stay(typed: str) -> None:
    assert with_reward_file([typed], Path("/home/me")) == [typed]
