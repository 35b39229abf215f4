"""`evaluate.py --exact`: its output, files and errors, for bots, a model and a server."""

import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.errors import exit_on_user_error

TOOL = Path(__file__).resolve().parents[2] / "train/tools/evaluate.py"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `evaluate.py` in this process; returns the exit code, standard output and standard error."""
    spec: Any = importlib.util.spec_from_file_location("evaluate_tool", TOOL)
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "90")
        with pytest.raises(SystemExit) as ended:
            exit_on_user_error(tool.main)
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def run(evaluate: Run) -> Run:
    """Runs `evaluate.py --exact`."""
    return partial(evaluate, "--exact")


def timeless(folder: Path) -> dict[str, Any]:
    values = json.loads((folder / "exact.json").read_text())
    del values["times"]
    return values


def test_bots_are_judged_without_a_model(run: Run, tmp_path: Path) -> None:
    words = ["--checkpoint", "mcts:4", "--compare", "random", "--games", "kuhn_poker,hex(board_size=2)", "--samples", 5]
    code, out, _ = run(*words, "--output", tmp_path / "first")
    assert code == 0
    values = timeless(tmp_path / "first")
    assert list(values["cases"]) == ["kuhn_poker", "hex(board_size=2)"]
    for case, states in (("kuhn_poker", 12), ("hex(board_size=2)", 23)):
        found = values["cases"][case]
        assert list(found) == ["mcts:4", "random", "exact"]
        assert len(found["mcts:4"]["states"]) == found["mcts:4"]["metrics"]["states"] == states
        assert f"{found['mcts:4']['metrics']['nash_conv']:.4f}" in out
    assert values["cases"]["kuhn_poker"]["random"]["metrics"]["nash_conv"] == pytest.approx(0.9167, abs=5e-5)
    notes = " ".join(values["notes"])
    assert "12 states" in notes
    assert "5 answers in each state" in notes
    assert "the optimum itself" in notes
    pictures = {path.name for path in (tmp_path / "first").glob("*.png")}
    cases = ("kuhn_poker", "hex-board_size-2")
    assert pictures == {f"exact-{case}{which}.png" for case in cases for which in ("", "-compared")}


def test_the_same_command_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    words = ["--checkpoint", "mcts:4", "--games", "hex(board_size=2)", "--samples", 5]
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(*words, "--output", first)[0] == run(*words, "--output", second)[0] == 0
    assert timeless(first) == timeless(second)
    (picture,) = (path.name for path in first.glob("*.png"))
    assert (first / picture).read_bytes() == (second / picture).read_bytes()


def test_a_model_gives_its_probabilities_and_a_server_is_asked(
    run: Run, chat_server: Callable[..., Any], tiny_model: Path, tmp_path: Path
) -> None:
    words = ["--games", "kuhn_poker", "--prompt", "brief", "--max_tokens", 4]
    code, out, _ = run("--checkpoint", tiny_model, *words, "--output", tmp_path / "given")
    assert code == 0
    assert "the policy is the probability of each legal action" in out
    assert "most replies of the player are no legal answers" in out
    (report, *_) = timeless(tmp_path / "given")["cases"]["kuhn_poker"].values()
    assert (report["way"], report["samples"]) == ("probabilities", 0)
    assert 0 < report["states"][0]["probabilities"][0] < 0.01
    assert run("--checkpoint", chat_server().url, *words, "--samples", 2, "--output", tmp_path / "there")[0] == 0
    assert run("--checkpoint", tiny_model, *words, "--samples", 2, "--output", tmp_path / "here")[0] == 0
    (there, *_), (here, *_) = (timeless(tmp_path / name)["cases"]["kuhn_poker"].values() for name in ("there", "here"))
    assert (here["way"], here["samples"]) == (there["way"], there["samples"]) == ("samples", 2)
    assert sum(here["mistakes"].values()) == sum(there["mistakes"].values()) == 24
    assert here["metrics"]["states_without_legal_answer"] == 12
    # All replies are mistakes, so the judged policy is the uniform one.
    assert here["metrics"]["nash_conv"] == pytest.approx(0.9167, abs=5e-5)


def test_a_model_without_temperature_is_asked_once(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    words = ["--checkpoint", tiny_model, "--games", "kuhn_poker", "--prompt", "brief", "--max_tokens", 4]
    assert run(*words, "--temperature", 0, "--output", tmp_path)[0] == 0
    (report, *_) = timeless(tmp_path)["cases"]["kuhn_poker"].values()
    assert (report["way"], report["samples"]) == ("samples", 1)


def test_every_checkpoint_of_an_experiment_is_judged(
    run: Run, tiny_model: Path, save_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    words = ["--games", "kuhn_poker", "--prompt", "brief", "--max_tokens", 4, "--output", tmp_path / "out"]
    experiment = tmp_path / "experiment"
    checkpoints = [save_checkpoint(experiment, tiny_model, step, scale) for step, scale in ((2, 3.0), (10, -1.0))]
    (experiment / "global_step_12").mkdir()  # incomplete
    code, out, _ = run("--checkpoint", experiment, "--every_step", "--compare", tiny_model, *words)
    assert code == 0
    found = timeless(tmp_path / "out")["cases"]["kuhn_poker"]
    assert list(found) == [*map(str, checkpoints), str(tiny_model), "random", "exact"]
    differ = [found[str(name)]["states"][0]["probabilities"] for name in (*checkpoints, tiny_model)]
    assert len({str(probabilities) for probabilities in differ}) == 3
    rows = [line.split()[:3] for line in out.splitlines() if line.lstrip().startswith("step")]
    assert rows == [
        ["step", step, f"{found[str(name)]['metrics']['nash_conv']:.4f}"]
        for name, step in zip(checkpoints, ("2", "10"), strict=True)
    ]
    notes = "".join(timeless(tmp_path / "out")["notes"])
    assert str(checkpoints[1]) in notes
    assert str(checkpoints[0]) not in notes  # the newest is reported in full
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert pictures == {f"exact-kuhn_poker{which}.png" for which in ("", "-compared", "-steps")}
    assert not list((tmp_path / "out").rglob("*.safetensors"))  # no merged model is left
    code, _, err = run("--checkpoint", experiment, "--every_step", "--compare", checkpoints[0], *words)
    assert (code, "is judged by --checkpoint already" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--games", "hex(board_size=5)"], "too large to be judged exactly: it has more than 1e9 lines of play"),
        (["--games", "pig"], "pig cannot be judged exactly"),
        (["--games", "nonsense"], "nonsense"),
        (["--games", "kuhn_poker", "--opponent", "mcts"], "--opponent has no effect with --exact"),
        (["--games", "kuhn_poker", "--relabelled"], "--relabelled has no effect with --exact"),
        (["--games", "kuhn_poker", "--samples", "0"], "--samples must be at least 1"),
        (["--games", "kuhn_poker", "--compare", "random"], "--compare random is judged by --checkpoint already"),
        (
            ["--games", "kuhn_poker", "--every_step"],
            "random holds no complete checkpoint; --every_step needs the folder of an experiment",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no description of its own")
def test_a_mistake_is_one_line(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    code, _, err = run("--checkpoint", "random", *words, "--output", tmp_path)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("option", [["--samples", "3"], ["--every_step"]])
def test_without_exact_its_options_say_nothing(option: list[str], evaluate: Run) -> None:
    code, _, err = evaluate("--checkpoint", "random", *option)
    assert code == 2
    assert f"{option[0]} needs --exact" in err
