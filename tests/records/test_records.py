"""The expected results of recipes, the results of their runs, and the pages generated from both."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from veritas_rl.basis import EARLIER_SETTINGS, OTHER_TASKS, Basis
from veritas_rl.errors import UserError
from veritas_rl.exact import report as exact_report
from veritas_rl.exact.evaluation import ExactSettings, evaluate_exactly
from veritas_rl.judging import evaluation_report
from veritas_rl.judging.evaluation import Settings, evaluate
from veritas_rl.launch.recipes import FOLDER
from veritas_rl.paths import ROOT
from veritas_rl.records import pages
from veritas_rl.records.description import Description, read_description
from veritas_rl.records.figures import curves_of, figures_of_games, figures_of_policies, figures_of_run, shares_of
from veritas_rl.records.result import RESULT, Result, check_bands, keep, read_result, results_in
from veritas_rl.records.verdict import judge

NODE: dict[str, Any] = {"expected": {"gain": [0.1, 0.3]}, "short": {"overrides": ["trainer.total_training_steps=2"]}}
NOW = Basis("present settings", "present tasks")
"""The basis of a recipe, where it does not matter which."""

EARLIER, OTHER = Basis("earlier settings", NOW.tasks), Basis(NOW.settings, "other tasks")
BOTH = Basis(EARLIER.settings, OTHER.tasks)


def tool() -> Any:
    """train/tools/recipes.py as a module."""
    spec = importlib.util.spec_from_file_location("recipes_tool", ROOT / "train/tools/recipes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recipe_in(folder: Path, node: Any = NODE, **settings: Any) -> tuple[Path, Description]:
    made = folder / "mine"
    made.mkdir(parents=True, exist_ok=True)
    tree = {"veritas_rl": {"recipe": node}, **settings}
    (made / "config.yaml").write_text(f"# Train it.\n# Well.\n\n# Another paragraph.\n{yaml.safe_dump(tree)}")
    description = read_description(made)
    assert description is not None
    return made, dataclasses.replace(description, basis=NOW)


def result_of(description: Description, gain: float = 0.2, seed: int = 1, **changes: Any) -> Result:
    assert description.basis is not None
    made = Result(
        recipe="mine",
        basis=description.basis,
        form="whole",
        seed=seed,
        date="2026-01-02",
        machine="2 cores, no GPU",
        minutes={"RL": 3.5},
        memory=2.5,
        departures=(),
        figures={"gain": {"mean": gain, "low": gain - 0.1, "high": gain + 0.1}},
        curves={"reward": [(step, step / 100 + seed) for step in range(1, 21)]},
    )
    return dataclasses.replace(made, **changes)


def test_the_pages_of_the_repository_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool().write(only_check=True) == 0, capsys.readouterr().out


def test_the_readme_shows_figures_of_kept_runs() -> None:
    row = r"^\| \[[^]]+\]\(train/recipes/([\w-]+)/README\.md\) \|[^|]+\|([^|]*)\|([^|]*)\|$"
    rows = re.findall(row, (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 5
    for name, *cells in rows:
        kept = [run.figures for run in results_in(FOLDER / name) if run.form == "whole" and not run.departures]
        for cell in cells:
            thousands = re.search(r"\d,\d{3}", cell)
            form = "{:.1f}" if "%" in cell else "{:,.0f}" if thousands else "{:.2f}"
            scale = 100 if "%" in cell else 1
            numbers = set(re.findall(r"\d[\d.]*(?:,\d{3})*", cell))
            found = [{form.format(scale * run[key]["mean"]) for run in kept if key in run} for key in kept[0]]
            assert any(numbers <= values for values in found), (name, cell)


def test_every_recipe_says_what_it_is_and_which_runs_it_rests_on() -> None:
    recipes = pages.read_all(FOLDER, read_description)
    assert {folder.name for folder in recipes} == {path.parent.name for path in FOLDER.glob("*/config.yaml")}
    for folder, (description, results) in recipes.items():
        assert description.meaning.endswith("."), folder.name
        pages.check_first_line((folder / "README.md").read_text(), folder.name, results)
        for result in results:
            assert result.recipe == folder.name
            curve = folder / pages.CURVE
            drawn = any(run.curves and run.form == "whole" and not run.departures for run in results)
            assert curve.exists() == drawn


def test_a_description_is_read(tmp_path: Path) -> None:
    _, first = recipe_in(tmp_path / "a")
    assert first.meaning == "Train it. Well."
    assert first.expected == {"gain": (0.1, 0.3)}
    assert first.overrides_of("short") == ("trainer.total_training_steps=2",)
    without = {"sft": [], "continued_sft": None, "curve": None, "judge": {"games": {"games": "hex"}, "exact": None}}
    _, second = recipe_in(tmp_path / "b", without)
    assert (second.sft, second.continued_sft, second.curve) == ((), None, first.curve)
    assert second.judge == {"games": {"games": "hex"}}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"expectd": {}}, "unknown key in .*veritas_rl.recipe 'expectd': did you mean expected"),
        ({"expectd": None}, "unknown key in .*veritas_rl.recipe 'expectd': did you mean expected"),
        ({"judge": [{"games": "hex"}]}, "judge must map names to options"),
        ({"expected": {"gain": [0.3]}}, "gain needs a lowest and a highest value"),
        ({"expected": {"gain": [0.3, 0.1]}}, "gain needs a lowest and a highest value"),
        ({"sft": "a=b"}, "must be a list of strings"),
        ({"trainer": "dpo"}, "unknown trainer of a recipe 'dpo'"),
        ({"judge": {"../x": {}}}, "the name of a judgement has letters"),
        ({"judge": {"exact": {}}, "short": {"judge": {"exakt": {}}}}, "did you mean exact"),
        (
            {"judge": {"exact": {"checkpoint": "continued"}}},
            "unknown checkpoint .*'continued': did you mean continued_sft",
        ),
        ({"judge": {"more": {"compare": "continued_sft"}}}, "judge.more needs a continued fine-tuning: set .*"),
        ({"continued_sft": []}, "continues a fine-tuning, but there is none: set .*sft"),
        (["sft"], "must be a mapping"),
    ],
)
def test_a_description_that_is_wrong_is_one_line(node: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as refused:
        recipe_in(tmp_path, node)
    assert "\n" not in str(refused.value)


def test_a_band_without_a_seed_is_refused_and_so_is_one_that_a_kept_run_contradicts(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    with pytest.raises(UserError, match="no kept run has this figure"):
        check_bands("mine", description, results_in(folder))
    keep(result_of(description, departures=("lr is 1 in the recipe and 2 here",)), folder)
    keep(result_of(description, form="short"), folder)
    with pytest.raises(UserError, match="no kept run has this figure"):
        check_bands("mine", description, results_in(folder))
    keep(result_of(description), folder)
    check_bands("mine", description, results_in(folder))
    keep(result_of(description, 0.31, seed=3), folder)
    with pytest.raises(UserError, match=r"the kept run of seed 3 has 0\.31; widen the band"):
        check_bands("mine", description, results_in(folder))


@pytest.mark.parametrize("basis", [EARLIER, OTHER, BOTH])
def test_a_kept_run_of_another_basis_bears_a_band_and_cannot_contradict_it(basis: Basis, tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    keep(result_of(description, 0.9, seed=2, basis=basis), folder)
    check_bands("mine", description, results_in(folder))
    keep(result_of(description, 0.31, seed=3), folder)
    with pytest.raises(UserError, match="the kept run of seed 3"):
        check_bands("mine", description, results_in(folder))


def test_a_remark_names_what_has_changed() -> None:
    assert [basis.remark(NOW) for basis in (NOW, EARLIER, OTHER)] == ["", EARLIER_SETTINGS, OTHER_TASKS]
    assert BOTH.remark(NOW) == "earlier settings and other tasks"


def test_a_kept_result_is_read_back_unchanged(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    result = result_of(description)
    file = keep(result, folder)
    assert file.name == "seed-1.json"
    read = read_result(file)
    assert (read.figures, read.seed, read.departures, read.basis) == (result.figures, 1, (), NOW)
    assert [tuple(point) for point in read.curves["reward"]] == result.curves["reward"]
    with pytest.raises(UserError, match="of the recipe other, not of mine"):
        keep(dataclasses.replace(result, recipe="other"), folder)
    (tmp_path / RESULT).write_text("{}")
    with pytest.raises(UserError, match="is no result of a recipe"):
        read_result(tmp_path)


@pytest.mark.parametrize(
    ("changes", "confirmed", "last"),
    [
        ({}, True, "recipe mine, seed 1: all 1 figures as expected"),
        ({"gain": 0.05}, False, "1 of 1 figures NOT as expected"),
        ({"gain": 0.5}, False, "1 of 1 figures NOT as expected"),
        ({"figures": {}}, False, "1 of 1 figures NOT as expected"),
        ({"departures": ("lr is 1 in the recipe and 2 here",)}, False, "contradicts it .lr is 1 in the recipe and 2"),
        ({"basis": EARLIER}, False, "its settings were changed since this run"),
        ({"basis": OTHER}, False, r"its tasks \(prompts, answers or split\) were changed since this run"),
        ({"basis": BOTH}, False, "its settings and its tasks were changed since this run"),
        ({"form": "short"}, False, "it has no expected ranges yet for its short form"),
    ],
)
def test_a_verdict_confirms_figures_inside_their_bands_only(
    changes: dict[str, Any], confirmed: bool, last: str, tmp_path: Path
) -> None:
    folder, description = recipe_in(tmp_path)
    keep(result_of(description, seed=7), folder)
    found = judge(result_of(description, **changes), description, results_in(folder))
    assert found.confirmed == confirmed
    assert re.search(last, found.lines[-1])
    if changes.get("form") != "short":
        assert "(1 seed: 7)" in found.lines[0]


@pytest.mark.parametrize(("basis", "words"), [(EARLIER, EARLIER_SETTINGS), (OTHER, OTHER_TASKS)])
def test_bands_from_runs_of_another_basis_confirm_nothing(basis: Basis, words: str, tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    keep(result_of(description, seed=7, basis=basis), folder)
    first = judge(result_of(description), description, results_in(folder))
    assert not first.confirmed
    assert first.lines == (
        f"gain: 0.2 [0.1, 0.3], in the band [0.1, 0.3] (from {words})",
        f"no verdict on recipe mine: its expected ranges are from runs with {words}",
    )
    keep(result_of(description), folder)
    assert judge(result_of(description), description, results_in(folder)).confirmed


def test_the_tool_judges_a_finished_run_and_refuses_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = recipe_in(tmp_path / "recipes")
    module = tool()
    description = module.describe(folder)
    keep(result_of(description), folder)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "recipes")
    (tmp_path / RESULT).write_text(result_of(description, 0.05, seed=9).to_json())
    assert module.check(module.parse(["check", "mine", "--result", str(tmp_path)])) == 1
    assert "gain: 0.05 [-0.05, 0.15], below the band [0.1, 0.3] (1 seed: 1)" in capsys.readouterr().out
    with pytest.raises(UserError, match="unknown recipe 'min': did you mean mine"):
        module.check(module.parse(["check", "min"]))
    with pytest.raises(UserError, match="leave out --seed"):
        module.check(module.parse(["check", "mine", "--result", str(tmp_path), "a=b"]))


def test_a_readme_shows_seeds_steps_and_what_was_tried(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    runs = [result_of(description, 0.15), result_of(description, 0.25, seed=2)]
    tried = result_of(description, 0.02, departures=("a<b is 1 in the recipe and 2 here",), note="It forgot.")
    for run in (*runs, tried):
        keep(run, folder)
    part = pages.readme_part(description, results_in(folder))
    assert "| figure | seed 1 | seed 2 | expected |" in part
    assert "| gain | 0.15 [0.05, 0.25] | 0.25 [0.15, 0.35] | [0.1, 0.3] |" in part
    assert "| 20 | 1.7 [1.2, 2.2] |" in part
    assert "a&lt;b is 1 in the recipe and 2 here: gain 0.02 [-0.08, 0.12]. It forgot." in part
    assert pages.draw_curve(tmp_path / "curve.png", results_in(folder), description)
    text = pages.with_part(f"# mine\n\n{pages.BEGIN}\nold\n{pages.END}\nrest\n", part, "mine")
    assert "old" not in text
    assert text.endswith("\nrest\n")
    assert pages.with_part(text, part, "mine") == text
    with pytest.raises(UserError, match="has no place for its results"):
        pages.with_part("# mine\n", part, "mine")
    with pytest.raises(UserError, match="its first line must no longer say"):
        pages.check_first_line(f"# mine: {pages.NOT_RUN}\n", "mine", runs)
    with pytest.raises(UserError, match="its first line must first say"):
        pages.check_first_line("# mine\n", "mine", [tried])
    page = pages.results_page({folder: (description, results_in(folder)), tmp_path / "new": (description, [])})
    row = "| gain | 0.15 [0.05, 0.25] (seed 1); 0.25 [0.15, 0.35] (seed 2) | [0.1, 0.3] |"
    assert f"| [mine](../train/recipes/mine/README.md) {row}" in page
    assert page.endswith("\n\nNot run yet: [new](../train/recipes/new/README.md).\n")


def test_exploitability_stands_beside_reported_values(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    for seed, value in ((1, 1.25), (2, 0.8)):
        figures = {
            "exact/leduc_poker/nash_conv": {"mean": value},
            "exact/leduc_poker/nash_conv of the last 10": {"mean": 9},
        }
        keep(result_of(description, seed=seed, figures=figures), folder)
    page = pages.results_page({folder: (description, results_in(folder))})
    rows = [line.split(" | ")[1:] for line in page.splitlines() if line.startswith("| leduc_poker | ")]
    link = "[mine](../train/recipes/mine/README.md)"
    assert rows[:4] == [
        [f"{link}, seed 2", "0.400", "0.800 |"],
        ["QPG", "0.602", "1.204 |"],
        [f"{link}, seed 1", "0.625", "1.250 |"],
        ["NFSP", "0.638", "1.275 |"],
    ]
    assert "## Exploitability" not in pages.results_page({folder: (description, [])})


def test_pages_say_which_runs_are_of_another_basis(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path)
    old = result_of(description, 0.15, basis=OTHER)
    tried = result_of(description, 0.02, departures=("a is 1 in the recipe and 2 here",), basis=BOTH)
    for run in (old, result_of(description, 0.25, seed=2, basis=EARLIER), tried):
        keep(run, folder)
    part = pages.readme_part(description, results_in(folder))
    assert "| figure | seed 1, other tasks | seed 2, earlier settings | expected |" in part
    # The run with the present settings is nearer to the recipe than the one with other settings.
    assert "| [0.1, 0.3], other tasks |" in part
    assert "- seed 1, 2026-01-02, earlier settings and other tasks: a is 1 in the recipe and 2 here: gain" in part
    page = pages.results_page({folder: (description, results_in(folder))})
    values = "0.15 [0.05, 0.25] (seed 1, other tasks); 0.25 [0.15, 0.35] (seed 2, earlier settings)"
    assert f"| gain | {values} | [0.1, 0.3], other tasks |" in page
    (folder / "README.md").write_text("# mine\n")
    row = pages.recipes_table({folder: (description, results_in(folder))}, {}).splitlines()[-1]
    assert "| 3.5, other tasks | 2.5 GiB | gain [0.1, 0.3], other tasks |" in row
    keep(result_of(description, seed=3), folder)
    assert "| [0.1, 0.3] |" in pages.readme_part(description, results_in(folder))


def test_the_table_of_recipes_has_what_runs_cost_or_a_forecast(tmp_path: Path) -> None:
    folder, description = recipe_in(tmp_path / "a")
    gpu, on_gpu = recipe_in(tmp_path / "b", {"hardware": "h200x1"})
    new, fine_tuned = recipe_in(tmp_path / "c", {"trainer": "sft"})
    for made in (folder, gpu, new):
        (made / "README.md").write_text(f"# mine\n\n## {pages.FAILURE if made == folder else 'Other'}\n")
    runs = [
        result_of(description),
        result_of(description, seed=2, minutes={"SFT": 1.0, "RL": 5.04}),
        result_of(description, seed=3, minutes={}, memory=None),
        result_of(description, seed=4, minutes={"RL": 99.0}, departures=("lr is 1 in the recipe and 2 here",)),
        result_of(description, seed=5, minutes={"RL": 99.0}, basis=EARLIER),
    ]
    recipes = {folder: (description, runs), gpu: (on_gpu, []), new: (fine_tuned, [])}
    _, _, *rows = pages.recipes_table(recipes, {gpu: (249.4, 87.21)}).splitlines()
    page = "../train/recipes/mine/README.md"
    rl, sft = (f"| [mine]({page}) | `openspiel-{name}-trainer.sh` |" for name in ("ppo", "SFT"))
    failure = f"[its page]({page}#what-failure-looks-like)"
    assert rows == [
        f"{rl} `cpu`: 2 cores, no GPU | 3.5 to 6.0 | 2.5 GiB | gain [0.1, 0.3] | {failure} |",
        f"{rl} `h200x1` | 249, forecast | 87.2 GiB, forecast | not measured | [metrics](#metrics) |",
        f"{sft} `cpu` | not run | not run | not measured | [metrics](#metrics) |",
    ]
    assert "| not measured | not measured |" in pages.recipes_table({folder: (description, runs[2:4])}, {})
    assert "| 99.0, earlier settings | 2.5 GiB |" in pages.recipes_table({folder: (description, runs[3:])}, {})


def test_the_shares_of_a_step_are_kept_and_shown(tmp_path: Path) -> None:
    steps = [{"timing_s/gen": 3.0, "timing_s/update_actor": 20.0, "timing_s/update_critic": 10.0}, {"val/legal": 1.0}]
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate([*steps, steps[0]])]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    shares = shares_of(tmp_path / "metrics.jsonl", 2.0)
    assert shares == {"rollout": 0.05, "update": 0.5}
    assert shares_of(tmp_path / "metrics.jsonl", None) == {}
    folder, description = recipe_in(tmp_path)
    keep(result_of(description, shares=shares), folder)
    line = "2 cores, no GPU, 2.5 GiB of memory, RL 3.5 minutes; of RL's minutes 5% rollout, 50% update\n"
    assert line in pages.readme_part(description, results_in(folder))


def test_figures_are_those_of_the_reports(tmp_path: Path) -> None:
    quiet = Console(quiet=True)
    found = evaluate(Settings("mcts:2", compare="random", games=4, cases="tic_tac_toe"), tmp_path, quiet)
    evaluation_report.write(found, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    figures = figures_of_games(report, "games")
    mine = next(row for row in report["rows"] if row["player"] == "mcts:2" and row["seat"] == "all")
    assert figures["games/tic_tac_toe/random/score"]["mean"] == mine["score"]["mean"]
    other = next(row for row in report["rows"] if row["player"] == "random" and row["seat"] == "all")
    assert figures["games/tic_tac_toe/random/start/losses"]["high"] == other["losses"]["high"]
    (pair,) = report["comparisons"]
    gain = mine["score"]["mean"] - other["score"]["mean"]
    assert figures["games/tic_tac_toe/random/gain"]["mean"] == pytest.approx(gain)
    assert figures["games/tic_tac_toe/random/gain"]["low"] == pair["score"]["difference"]["low"]
    assert figures["games/tic_tac_toe/random/differing"]["mean"] == len(pair["differing"]) / 4

    settings = Settings("exact", compare="random", games=40, cases="tic_tac_toe", mode="move")
    evaluation_report.write(evaluate(settings, tmp_path / "answers", quiet), tmp_path / "answers")
    report = json.loads((tmp_path / "answers/report.json").read_text())
    figures = figures_of_games(report, "answers", "random")
    before = figures["answers/tic_tac_toe/random/optimal"]["mean"]
    assert figures["answers/tic_tac_toe/optimal"]["mean"] == 1
    assert figures["answers/tic_tac_toe/gain"]["mean"] == pytest.approx(1 - before)
    assert figures["answers/tic_tac_toe/legal"]["mean"] == figures["answers/tic_tac_toe/random/legal"]["mean"] == 1
    assert figures["answers/tic_tac_toe/value"]["mean"] > figures["answers/tic_tac_toe/random/value"]["mean"]

    settings = ExactSettings("mcts:2", cases="kuhn_poker", samples=1)
    exact_report.write(evaluate_exactly(settings, tmp_path, quiet), tmp_path)
    report = json.loads((tmp_path / "exact.json").read_text())
    figures, curves = figures_of_policies(report, "exact")
    assert (
        figures["exact/kuhn_poker/nash_conv"]["mean"] == report["cases"]["kuhn_poker"]["mcts:2"]["metrics"]["nash_conv"]
    )
    assert curves == {}


def test_figures_by_step_are_those_of_every_checkpoint() -> None:
    cases = {f"run/global_step_{step}": {"metrics": metrics(1 / step), "states": []} for step in range(1, 13)}
    report = {"settings": {"compare": None, "every_step": True}, "cases": {"kuhn_poker": cases}}
    figures, curves = figures_of_policies(report, "exact")
    assert figures["exact/kuhn_poker/nash_conv"]["mean"] == 1 / 12
    assert curves["exact/kuhn_poker/nash_conv"][2] == (3, 1 / 3)
    assert figures["exact/kuhn_poker/nash_conv of the last 10"]["mean"] == pytest.approx(
        sum(1 / step for step in range(3, 13)) / 10
    )


def metrics(nash_conv: float) -> dict[str, float]:
    names = ("optimal_rate", "illegal_mean", "value_seat_0/worst_case", "value_seat_1/worst_case")
    return {"nash_conv": nash_conv, **dict.fromkeys(names, 0.5)}


def test_figures_of_a_training_and_its_curves(tmp_path: Path) -> None:
    estimate = {"mean": 0.5, "low": 0.4, "high": 0.6, "count": 9, "classes": 3}
    report = {"after RL": {"legal": estimate}, "gain": estimate, "losses": {"val/loss": 1.5}}
    figures = figures_of_run(report)
    assert figures["after RL/legal"] == figures["gain"] == {"mean": 0.5, "low": 0.4, "high": 0.6}
    assert figures["losses/val/loss"] == {"mean": 1.5}
    lines = [{"step": step, "data": {"task/legal": 0.9 + step / 100, "other": 1}} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert curves_of(tmp_path / "metrics.jsonl", ("task/legal", "none")) == {"task/legal": [(1, 0.91), (2, 0.92)]}
