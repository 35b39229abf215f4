"""Prompts and replies that are not given are those of the models' training."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import UserError
from veritas_rl.judging.options import add_environment, add_reply_options, ask_as_trained


def trained(folder: Path, **recipe: Any) -> str:
    """A folder with the record of a merged model."""
    folder.mkdir()
    values = {"environments": ["openspiel"], **{name.replace("__", "."): value for name, value in recipe.items()}}
    (folder / "merge.json").write_text(json.dumps({"origin": {"recipe": values}}))
    return str(folder)


def options(players: list[str], *words: str) -> tuple[str, int, bool]:
    parser = argparse.ArgumentParser()
    add_environment(parser, "openspiel")
    add_reply_options(parser)
    given = parser.parse_args(words)
    ask_as_trained(given, players)
    return given.prompt, given.max_tokens, given.say_limit


@pytest.fixture
def small(tmp_path: Path) -> str:
    return trained(
        tmp_path / "small", openspiel__prompt="brief", data__max_response_length=8, veritas_rl__say_limit=False
    )


@pytest.fixture
def large(tmp_path: Path) -> str:
    return trained(tmp_path / "large", data__max_response_length=2048, veritas_rl__say_limit=True)


def test_a_model_is_asked_as_in_its_training(small: str, large: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options([small, "random"]) == ("brief", 8, False)
    said = capsys.readouterr().err
    assert said == "note: asked as in training: prompt=brief, max_tokens=8, say_limit=False\n"
    assert options([large]) == ("full", 2048, True)


def test_what_is_given_stays(small: str) -> None:
    given = ("--prompt", "full", "--max_tokens", "16", "--say_limit")
    assert options([small], *given) == ("full", 16, True)


@pytest.mark.parametrize("players", [["random"], ["mcts:50", "http://127.0.0.1:1/v1"], ["smollm2-135m"]])
def test_without_a_record_the_defaults_hold(players: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert options(players) == ("full", 1024, False)
    assert not capsys.readouterr().err


def test_beside_a_model_of_unknown_training_replies_keep_their_defaults(small: str) -> None:
    assert options([small, "http://127.0.0.1:1/v1"]) == ("brief", 1024, False)


def test_models_with_different_prompts_need_a_choice(small: str, large: str) -> None:
    with pytest.raises(UserError, match=r"different prompts: .*; choose one by --prompt"):
        options([small, large])
    with pytest.raises(UserError, match="choose one by --say_limit"):
        options([small, large], "--prompt", "brief")
    assert options([small, large], "--prompt", "brief", "--no-say_limit") == ("brief", 2048, False)


def test_the_record_is_that_of_the_environment(small: str, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned"
    recipe = {"veritas_rl.demonstrations.env": "openspiel", "veritas_rl.demonstrations.prompt": "brief"}
    tuned.mkdir()
    (tuned / "merge.json").write_text(json.dumps({"origin": {"recipe": recipe}}))
    assert options([str(tuned)]) == ("brief", 1024, False)
    assert options([small], "--env", "trace") == ("full", 1024, False)
