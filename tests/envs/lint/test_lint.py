"""The linter finds nothing in the real environments, and catches every defect of `broken.py` by its check."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from veritas_rl.envs.audit import NotApplicable
from veritas_rl.envs.base import Turn
from veritas_rl.envs.lint import Row, Verdict, lint
from veritas_rl.envs.lint.answers import FEWEST_ESTIMATES, values_of_many_playouts
from veritas_rl.envs.lint.case import Case
from veritas_rl.envs.lint.findings import Log
from veritas_rl.envs.lint.hostile import hostile
from veritas_rl.envs.lint.processes import open_environment
from veritas_rl.envs.lint.readings import other_answers_refused
from veritas_rl.envs.lint.run import CHECKS, SAME, SETTINGS
from veritas_rl.envs.openspiel.cases import DEFAULT_CASES
from veritas_rl.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")

HERE = Path(__file__).parent
TOOL = HERE.parents[2] / "train/tools/lint_env.py"
CLEAN = (
    *DEFAULT_CASES,
    *("goofspiel(imp_info=True,num_cards=4)", "goofspiel(num_cards=4)", "liars_dice", "2048", "blackjack"),
    *("battleship", "kuhn_poker(players=3)", "euchre", "go(board_size=5)", "dark_hex"),
)


@pytest.fixture(autouse=True)
def _broken_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))


def findings(rows: list[Row]) -> dict[str, list[str]]:
    return {row.check: [f"{one.task} {one.text}" for one in row.findings] for row in rows if row.findings}


@pytest.fixture(scope="module")
def clean() -> list[Row]:
    return lint("openspiel", CLEAN, 2)


def test_the_real_environment_is_clean(clean: list[Row]) -> None:
    assert not [(row.case, row.check, row.findings) for row in clean if row.verdict is Verdict.FINDING]
    assert {row.case for row in clean} == {*CLEAN, "all"}
    own = open_environment("openspiel").audit().checks
    for case in CLEAN:
        assert [row.check for row in clean if row.case == case] == [*CHECKS, *own, SAME]


@pytest.mark.parametrize("scale", ["auto", "result"])
def test_bridge_is_not_taken_for_single_playouts(scale: str) -> None:
    """Many contracts of bridge are nearly certain to be won or lost, so many means are legitimately 0 or 1."""
    log, found = Log(), case_of("openspiel", "bridge(use_double_dummy_result=False)", FEWEST_ESTIMATES, scale=scale)
    assert values_of_many_playouts(found, log).startswith(f"{FEWEST_ESTIMATES} estimates")
    assert not log.findings


def case_of(environment: str, name: str, count: int, **settings: str) -> Case:
    """Make the `Case` that a single check needs."""
    opened = open_environment(environment)
    config = opened.read_config({"cases": name, "num_tasks_per_case": count, **settings})
    return Case(opened, name, list(opened.catalogue(config, "train")), ())


def test_a_capital_that_names_another_piece_is_caught() -> None:
    log = Log()
    other_answers_refused(case_of("broken:BishopsAndPawns", "chess", 2), log)
    assert [finding.text for finding in log.findings] == [
        "'Bxa5' is not legal here and was taken as bxa5",
        "'bxa5' is not legal here and was taken as Bxa5",
    ]


def test_checks_apply_where_they_should(clean: list[Row]) -> None:
    rows = {(row.case, row.check): row for row in clean}
    applied = {(row.case, row.check) for row in clean if row.verdict is Verdict.OK}
    always = set(CHECKS) - {"nothing hidden shown", "seats alike", "wins above losses", "value of many playouts"}
    always -= {"seeds differ", "splits apart", "nonsense pays nothing", "answers stand alone"}
    always = (always | {"games end"}) - {"asked phase shown"}
    shown = {case.partition("(")[0] for case, check in applied if check == "asked phase shown"}
    assert shown == {"amazons", "battleship", "bridge", "cribbage", "euchre", "gin_rummy", "hearts"}
    assert applied >= {(case, check) for case in CLEAN for check in (*always, SAME)}
    hidden = {case for case, check in applied if check == "nothing hidden shown"}
    assert hidden >= {"leduc_poker", "kuhn_poker(players=3)", "goofspiel(imp_info=True,num_cards=4)", "blackjack"}
    assert "dark_hex" in hidden  # without resampling: found by changed histories
    assert rows["tic_tac_toe", "nothing hidden shown"].remark == "nothing is hidden"
    assert rows["2048", "seats alike"].remark == "a game for one"
    assert "games passed round" in rows["goofspiel(num_cards=4)", "seats alike"].remark
    assert "not symmetric" in rows["hex(board_size=5)", "seats alike"].remark
    assert rows["tic_tac_toe", "value of many playouts"].remark == "values are exact"
    assert "cannot resample" in rows["dark_hex", "value of many playouts"].remark
    assert re.search(r"12 exist$", rows["kuhn_poker", "tasks distinct"].remark)


@pytest.mark.parametrize(
    ("environment", "case", "check", "text"),
    [
        ("EmptyIsTheFirst", "connect_four", "mistakes pay nothing", "an empty answer was paid"),  # defect 1
        ("Substring", "hex(board_size=5)", "mistakes pay nothing", "a near miss was paid"),
        ("EmptyPays", "tic_tac_toe", "mistakes pay nothing", "an empty answer was paid 0.5"),  # defect 2
        ("HashedPay", "tic_tac_toe", SAME, "PYTHONHASHSEED=1: seat"),
        ("LotteryPay", "tic_tac_toe", SAME, "differs"),
        ("AssumesOne", "leduc_poker", "values in [0, 1]", "value -"),  # defect 3
        ("ChanceShown", "leduc_poker", "asked seat has to act", "nobody has to act"),  # defect 4
        ("JointShown", "goofspiel(num_cards=4)", "asked seat has to act", "answers for"),
        ("OnePosition", "hex(board_size=5)", "tasks distinct", "2 tasks ask 1 different questions"),  # defect 5
        ("NumberAddedToTheSeed", "hex(board_size=5)", "seeds differ", "2 of 3 questions of the next seed are those"),
        ("RepeatsPay", "hex(board_size=5)", "repeats pay no more", "an answer pays 0.1, 2 times 0.2"),
        ("AnySolution", "operation", "repeats pay no more", "every task takes the solution of another, of 3"),
        ("FirstFifty", "hex(board_size=9)", "legal answers listed", "are not listed"),  # defect 6
        ("DeafToTheCount", "tic_tac_toe", SETTINGS, "num_tasks_per_case is read by nobody"),  # defect 7
        ("FirstGameAlone", "tic_tac_toe", SETTINGS, "gives hex alone, without go, chess"),  # defect 8
        ("Linear", "backgammon", "wins above losses", "wins are worth"),  # defect 9
        ("DrawnLinear", "tic_tac_toe", "wins above losses", "wins are worth"),
        ("Fails", "tic_tac_toe", "values in [0, 1]", "a game failed: 'KeyError: 7'"),
        ("OnePlayout", "goofspiel", "value of many playouts", "one single playout"),  # defect 10
        ("ErrorUntold", "goofspiel", "value of many playouts", "without its error"),
        ("ShowsTheState", "kuhn_poker", "nothing hidden shown", "shows what is hidden"),
        ("ShowsTheState", "dark_hex", "nothing hidden shown", "shows what is hidden"),
        ("SecondSeatPaysLess", "goofspiel(num_cards=4)", "seats alike", "the same play is worth"),
        ("SecondSeatPaysLess", "tic_tac_toe", "seats alike", "in seat 1"),
        ("SeatInTheChanceSeed", "tic_tac_toe", "seats alike", "120, 0 times"),
        ("FormatUnstated", "tic_tac_toe", "answer format stated", "does not name"),
        ("NumbersAlone", "tic_tac_toe", "legal answers taken", "a legal answer is unparseable"),
        ("NumbersFromZero", "goofspiel(num_cards=8)", "numbers in names", "plays card"),
        ("AnyCase", "oware", "other answers refused", "is not legal here and was taken as"),
        ("Raises", "tic_tac_toe", "mistakes pay nothing", "raised ValueError"),
        ("GlobalDraws", "tic_tac_toe", "own generator", "the task draws from the global generator"),
        ("OneSplit", "hex(board_size=5)", "splits apart", "the question is that of openspiel/hex(board_size=5)/move#"),
        ("nan_pays", "all", "nonsense pays nothing", "'nan' pays 1; the right answer is"),
        ("inside_pays", "all", "answers stand alone", "or so it seems' pays as much as"),
        ("AnotherPhase", "euchre(allow_lone_defender=True)", "asked phase shown", "the line 'This trick:'"),
    ],
)
def test_a_planted_defect_is_caught(environment: str, case: str, check: str, text: str) -> None:
    count = {"OnePlayout": FEWEST_ESTIMATES, "NumberAddedToTheSeed": 3, "AnySolution": 3}.get(environment, 2)
    found = findings(lint(f"broken:{environment}", [case], count))
    assert any(text in finding for finding in found[check]), found


@pytest.mark.parametrize(
    ("environment", "case", "check", "text"),
    [
        ("PassPaysNothing", "kuhn_poker", "best moves paid best", "is paid nothing, as an illegal answer is"),
        ("PassPaysNothing", "kuhn_poker", "best moves paid best", "the best-paid move is a mistake"),
        ("WorstPaysMost", "tic_tac_toe", "best moves paid best", "the best-paid move is a mistake"),
        ("CutPaysNothing", "tic_tac_toe", "games end", "pay nothing to anybody"),
        ("GamesCutShort", "connect_four", "games end", "20 of 20 random games are not over after 5 moves"),
        ("PaysAlike", "kuhn_poker", "moves differ", "in 8 of 8 tasks all moves are worth the same"),
        ("ForcedMoves", "tic_tac_toe", "moves differ", "in 8 of 8 tasks all moves are worth the same"),
        ("FirstMoves", "clobber(columns=7,rows=7)", "values above noise", "the noise exceeds the spread of the values"),
        ("FrozenDice", "goofspiel", "visits add playouts", "100% of the errors of the first visit are left"),
        ("SuccessOfThePosition", "tic_tac_toe", "success is the move's", "all moves succeed, or none"),
    ],
)
def test_a_defect_of_what_tasks_teach_is_caught(environment: str, case: str, check: str, text: str) -> None:
    """Runs each check by itself, because these checks need more tasks than the others."""
    broken = open_environment(f"broken:{environment}")
    tasks = broken.catalogue(broken.read_config({"cases": case, "num_tasks_per_case": 8}), "train")
    found: list[str] = []
    broken.audit().checks[check](list(tasks), lambda task, text: found.append(text))
    assert any(text in finding for finding in found), found


@pytest.mark.long
@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_what_the_tasks_of_the_real_environment_teach_has_no_finding(case: str) -> None:
    """Each finding has a significance of 5%, so a finding is repeated with more tasks: a real fault is found again."""
    real = open_environment("openspiel")
    tasks = list(real.catalogue(real.read_config({"cases": case, "num_tasks_per_case": 32}), "train"))
    found: list[str] = []
    for check in real.audit().checks.values():
        with suppress(NotApplicable):
            check(tasks[:8], lambda task, text: found.append(text))
            if found:
                found.clear()
                check(tasks, lambda task, text: found.append(text))
        assert not found


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_random_games_end_within_the_most_moves(case: str) -> None:
    real = open_environment("openspiel")
    tasks = real.catalogue(real.read_config({"cases": case, "num_tasks_per_case": 1}), "train")
    found: list[str] = []
    real.audit().checks["games end"](list(tasks), lambda task, text: found.append(text))
    assert not found


def test_a_finding_names_its_task_and_quotes() -> None:
    found = findings(lint("broken:EmptyPays", ["tic_tac_toe"], 1))
    assert list(found) == ["mistakes pay nothing"]
    assert found["mistakes pay nothing"][0] == (
        "openspiel/tic_tac_toe/move#0 an empty answer was paid 0.5 as drawn: ''"
    )


def test_hostile_replies_hold_no_legal_answer() -> None:
    """No near miss of a number or name is another legal answer, even with similar answers such as 1 and 12."""
    numbers = ("\\boxed{1}", "\\boxed{12}", "\\boxed{10}")
    turn = Turn(0, ({"role": "user", "content": "Choose."},), numbers)
    replies = list(hostile(turn, [*numbers, "\\boxed{a1}", "\\boxed{A12}"]))
    assert {"an empty answer", "the prompt", "all legal answers", "a near miss"} <= {kind for kind, _ in replies}
    said = [reply.text.casefold() for _, reply in replies if not reply.truncated]
    assert not {*numbers, "\\boxed{a1}", "\\boxed{a12}"} & set(said)
    assert replies == list(hostile(turn, [*numbers, "\\boxed{a1}", "\\boxed{A12}"]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "openspeil"}, "did you mean openspiel"),
        ({"name": "broken:Nothing"}, "broken has no environment 'Nothing'"),
        ({"name": "broken:Unchecked"}, "no environment"),
        ({"name": "openspiel", "cases": ["hxe"]}, "did you mean hex"),
        ({"name": "openspiel", "prompt": "short"}, "brief"),
        ({"name": "openspiel", "count": 0}, "--tasks must be at least 1"),
    ],
)
def test_a_persons_mistakes(values: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        lint(**values)


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(
        [sys.executable, str(TOOL), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_command_line(tmp_path: Path) -> None:
    done = run_tool("--cases", "tic_tac_toe,hex(board_size=5)", "--tasks", "2", "--prompt", "brief")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no findings in 2 cases" in done.stdout
    assert "prompt=brief lists no answers" in done.stdout
    page = tmp_path / "page.md"
    done = run_tool("--env", "broken:EmptyPays", "--cases", "tic_tac_toe", "--tasks", "1", "--page", str(page))
    assert done.returncode == 1
    assert re.search(r"^1 of 1 cases have findings \([0-9-]{10}\)\.$", page.read_text(), re.M)
    assert re.search(r"^\| mistakes pay nothing \| all 1 \| `openspiel/.*paid 0\.5 as drawn", page.read_text(), re.M)
    assert re.search(r"openspiel/tic_tac_toe/move#0: .*paid 0\.5 as drawn", done.stdout)
    done = run_tool("--env", "openspiel", "--cases", "hxe")
    assert done.returncode == 2
    assert re.fullmatch(r"error: unknown game 'hxe': did you mean hex\b.*\n", done.stderr)
