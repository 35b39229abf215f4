"""Cases: canonical spelling, selection by name, and errors with suggestions."""

import time
from types import MappingProxyType

import pytest

from veritas_rl.configs import split_list
from veritas_rl.envs.openspiel import cases
from veritas_rl.envs.openspiel.env import OpenSpielConfig, OpenSpielEnvironment
from veritas_rl.envs.registry import make_task
from veritas_rl.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no description of its own")


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("tic_tac_toe", "tic_tac_toe"),
        ("tic_tac_toe()", "tic_tac_toe"),
        ("hex", "hex(board_size=11)"),
        ("hex(board_size=11)", "hex(board_size=11)"),
        (" hex( board_size = 5 )", "hex(board_size=5)"),
        ("breakthrough(rows=6,columns=6)", "breakthrough(columns=6,rows=6)"),
        ("breakthrough(rows=6)", "breakthrough(columns=8,rows=6)"),
        ("clobber(rows=5)", "clobber(columns=6,rows=5)"),
        ("leduc_poker(players=2)", "leduc_poker"),
        ("go(go_board_size=9)", "go(board_size=9)"),
        ("go(komi=7)", "go(board_size=19,komi=7.0)"),
        ("go(board_size=9,max_game_length=162)", "go(board_size=9)"),
        ("go(board_size=9,max_game_length=722)", "go(board_size=9,max_game_length=722)"),
        ("quoridor(wall_count=10)", "quoridor(board_size=9)"),
        ("quoridor(board_size=7,wall_count=10)", "quoridor(board_size=7,wall_count=10)"),
        ("quoridor(board_size=7,wall_count=6)", "quoridor(board_size=7)"),
        ("latent_tic_tac_toe", "latent_ttt"),
    ],
)
def test_each_case_has_one_canonical_spelling(typed: str, canonical: str) -> None:
    assert cases.canonical(typed) == canonical
    assert cases.canonical(canonical) == canonical


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("hx", "did you mean hex"),
        ("hex5", r'type "hex\(board_size=5\)"'),
        ("clobber_6x6", r'type "clobber\(columns=6,rows=6\)"'),
        ("", "unknown game"),
        ("hex(size=5)", "board_size"),
        ("hex(board_size=big)", "type int"),
        ("hex(board_size=5", "parenthes"),
        ("hex(board_size=-1)", "between 2 and 26"),
        ("hex(board_size=3000)", "between 2 and 26"),
        ("mfg_garnet", "mean-field"),
        ("crossword", "does not load"),
        ("nfg_game", "does not load: .* filename"),
        ("universal_poker(betting=sometimes)", "does not load|unknown"),
    ],
)
def test_unknown_games_and_parameters_are_one_line(typed: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        cases.canonical(typed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [cases.DEFAULT_CASES, cases.FOCUS_CASES, cases.AVAILABLE_CASES])
def test_the_lists_are_canonical_and_load(names: tuple[str, ...]) -> None:
    assert tuple(map(cases.canonical, names)) == names
    assert len(set(names)) == len(names)


def test_the_board_sizes_are_available() -> None:
    assert set(cases.DEFAULT_CASES_BOARD_SIZES) <= set(cases.AVAILABLE_CASES)
    assert len(cases.FOCUS_CASES) == 17


def test_commas_in_parentheses_do_not_split() -> None:
    typed = "hex(board_size=5), clobber(rows=5,columns=5),,go"
    assert split_list(typed) == ("hex(board_size=5)", "clobber(rows=5,columns=5)", "go")
    assert split_list(["a,b", "c"]) == ("a", "b", "c")
    for bad in ("hex(", "hex)", 5, [3], {"a": 1}):
        with pytest.raises(UserError):
            split_list(bad)


def test_game_types_select_every_named_game() -> None:
    config = OpenSpielConfig(game_types="hex,go,chess", reward="legal")
    assert config.cases == (
        *(f"hex(board_size={n})" for n in (5, 7, 9, 11)),
        "go(board_size=9)",
        "go(board_size=13)",
        "chess",
    )


def test_game_types_filter_the_cases() -> None:
    given = "hex(board_size=5),hex(board_size=7),tic_tac_toe"
    assert OpenSpielConfig(cases=given, game_types="hex").cases == ("hex(board_size=5)", "hex(board_size=7)")
    assert OpenSpielConfig(cases=given, game_types=["hex(board_size=7)"]).cases == ("hex(board_size=7)",)
    assert OpenSpielConfig(cases=given, game_types="breakthrough(rows=6,columns=6),tic_tac_toe").cases == (
        "breakthrough(columns=6,rows=6)",
        "tic_tac_toe",
    )
    with pytest.raises(UserError, match="did you mean tic_tac_toe"):
        OpenSpielConfig(game_types="tictactoe")


@pytest.mark.parametrize(
    "configs", [{"hex": [{"board_size": 5}, {"board_size": 7}]}, [[{"board_size": 5}, {"board_size": 7}], []]]
)
def test_game_list_with_configs(configs: object) -> None:
    config = OpenSpielConfig(game_list=["hex", "tic_tac_toe"], game_configs=configs)
    assert config.cases == ("hex(board_size=5)", "hex(board_size=7)", "tic_tac_toe")


def test_a_config_can_be_replaced_and_hashed() -> None:
    config = OpenSpielConfig(
        game_list="hex", game_configs=MappingProxyType({"hex": {"board_size": 5}}), game_types="hex"
    )
    other = config.model_copy(update={"seed": 3})
    assert other.cases == config.cases == ("hex(board_size=5)",)
    assert hash(other) != hash(config)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_tasks_per_case": 0}, "at least 1"),
        ({"num_tasks_per_case": "many"}, "at least 1"),
        ({"num_tasks_per_case": True}, "at least 1"),
        ({"depth": -2}, "at least 0"),
        ({"mode": "moves"}, "did you mean move"),
        ({"coverage": "some"}, "known: all, split"),
        ({"reward": "win"}, "legal"),
        ({"prompt": "short"}, "brief"),
        ({"opponent": "random"}, "needs mode=episode"),
        ({"mode": "episode", "depth": 3}, "mode=move"),
        ({"game_list": ["hex"], "game_configs": {"go": []}}, "game_configs"),
        ({"game_list": ["hex"], "game_configs": [[], []]}, "2 entries"),
        ({"game_list": ["hex"], "game_configs": ["x"]}, "mappings"),
        ({"game_list": ["hex"], "game_configs": {"hex": [5]}}, "mappings"),
        ({"cases": "phantom_go"}, "reward_mode=legal"),
        ({"cases": {"hex": 5}}, "list"),
    ],
)
def test_bad_settings_are_one_line(values: dict, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        OpenSpielConfig(**values)
    assert "\n" not in str(caught.value)


def test_the_catalogue_is_lazy_and_ordered() -> None:
    start = time.perf_counter()
    tasks = OpenSpielEnvironment().catalogue(OpenSpielConfig(num_tasks_per_case=10**9), "train")
    assert len(tasks) == len(cases.DEFAULT_CASES) * 10**9
    assert (tasks[10**9 + 5].case, tasks[10**9 + 5].k) == (cases.DEFAULT_CASES[1], 5)
    assert tasks[-1] == tasks[len(tasks) - 1]
    assert [task.k for task in tasks[3:5]] == [3, 4]
    assert time.perf_counter() - start < 1
    with pytest.raises(IndexError):
        tasks[len(tasks)]
    with pytest.raises(UserError, match="split"):
        OpenSpielEnvironment().catalogue(OpenSpielConfig(), "test")


def test_training_and_validation_cover_every_position_if_asked_to() -> None:
    environment = OpenSpielEnvironment()
    config = OpenSpielConfig(cases="tic_tac_toe", coverage="all", num_tasks_per_case=4520)
    for split in ("train", "val"):
        tasks = environment.catalogue(config, split)
        assert (
            tasks[7].id == "openspiel/tic_tac_toe/move#7?" + ("split=val&" if split == "val" else "") + "coverage=all"
        )
        boards = {environment.start(task).turns()[0].messages[-1]["content"] for task in tasks}
        assert len(boards) == 4520
    # What validation shows has been trained on, so a generator of demonstrations leaves all of it out.
    assert all(environment.held_out(task, environment.start(task).turns()[0]) for task in tasks[:20])


def test_the_catalogue_carries_the_configuration() -> None:
    values = {"mode": "episode", "seed": "7", "prompt": "brief", "reward": "legal"}
    config = OpenSpielEnvironment().read_config({"cases": "kuhn_poker", **values})
    tasks = OpenSpielEnvironment().catalogue(config, "val")
    assert tasks[1].id == "openspiel/kuhn_poker/episode#1?seed=7&split=val"
    assert tasks[1] == make_task(
        "openspiel", "kuhn_poker", 1, mode="episode", seed=7, split="val", seat=1, prompt="brief", reward="legal"
    )
    assert tasks[2].manner.seat == 0
