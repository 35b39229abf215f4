"""Whole games in a real browser, played by clicks on boards and cards."""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from veritas_rl.envs.base import Reply, Turn
from veritas_rl.envs.registry import make_task
from veritas_rl.players.registry import make_bot
from veritas_rl.viewing.play.server import make_app
from veritas_rl.viewing.play.table import Table

Start = Callable[..., Table]

PLAYER = f"/a/folder/{'with_a_long_name_' * 5}/global_step_40"

READY = "return now !== null && (now.asked || now.over !== null)"


@pytest.fixture
def start(browser: Any, serve_page: Callable[[Any], str]) -> Start:
    """Opens the page of a new game; returns its table."""

    def begin(case: str, player: Any = "random", seat: int = 0, folder: Path | None = None) -> Table:
        made = make_bot(player, "openspiel", 1) if isinstance(player, str) else player
        table = Table(make_task("openspiel", case, 0, mode="episode", retries=1), seat, made, PLAYER, folder)
        browser.set_window_size(1000, 900)
        browser.get(f"{serve_page(make_app(table))}/")
        wait(browser, READY)
        return table

    return begin


def wait(browser: Any, script: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 15, 0.02).until(lambda driver: driver.execute_script(script))


def all_of(browser: Any, selector: str) -> list[Any]:
    return browser.find_elements("css selector", selector)


def play_by_clicks(browser: Any, table: Table, selector: str, draw: random.Random) -> int:
    """Click on random choices until the game is over; return the number of clicks."""
    for clicks in range(600):
        wait(browser, READY)
        if table.over:
            wait(browser, "return now.over !== null")
            return clicks
        options = all_of(browser, ".chooser button") or all_of(browser, selector)
        place = table.place
        draw.choice(options).click()
        if all_of(browser, ".chooser button") or all_of(browser, ".chosen"):
            continue  # the move needs more clicks
        wait(browser, f"return now.place !== {place!r} || now.over !== null")
    raise AssertionError("the game does not end")


@pytest.mark.parametrize(
    ("case", "selector", "seat"),
    [
        ("tic_tac_toe", ".can", 1),
        ("hex(board_size=3)", ".can", 0),
        ("connect_four(rows=4,columns=4,x_in_row=3)", ".can", 0),
        ("breakthrough(rows=6,columns=2)", ".can", 1),
        ("y(board_size=4)", ".can", 1),
        ("havannah(board_size=3)", ".can", 0),
        ("oware(num_houses_per_player=2,num_seeds_per_house=2)", ".can", 1),
        ("goofspiel(num_cards=5)", ".hold", 0),
        ("leduc_poker", "#moves button", 1),
        pytest.param("othello", ".can, #moves button", 0, marks=pytest.mark.long),
        pytest.param("checkers", ".can", 0, marks=pytest.mark.long),
        pytest.param("go(board_size=5,max_game_length=60)", ".can, #moves button", 0, marks=pytest.mark.long),
        pytest.param("backgammon", ".can, #moves button", 1, marks=pytest.mark.long),
        pytest.param("dots_and_boxes", ".can", 1, marks=pytest.mark.long),
        pytest.param("hearts", ".hold", 0, marks=pytest.mark.long),
        pytest.param("amazons(board_size=6)", ".can", 0, marks=pytest.mark.long),
        pytest.param("quoridor(board_size=3,wall_count=1)", ".can", 0, marks=pytest.mark.long),
        pytest.param("clobber(rows=4,columns=4)", ".can", 0, marks=pytest.mark.long),
    ],
)
def test_a_whole_game_is_played_by_clicks(
    browser: Any, start: Start, tmp_path: Path, case: str, selector: str, seat: int
) -> None:
    table = start(case, seat=seat, folder=tmp_path)
    assert play_by_clicks(browser, table, selector, random.Random(3)) > 0
    status = browser.find_element("id", "status").text
    mine = next(end for end in table.values()["over"] if end["seat"] == seat)
    expected = {"won": "You won.", "lost": "You lost.", "drawn": "A draw."}[mine["reason"]]
    assert status == expected
    assert len(all_of(browser, "#played button")) == len(table.values()["moves"])
    assert (tmp_path / "games.html").exists()
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_scholars_mate_is_played_by_clicks(browser: Any, start: Start) -> None:
    class Black:
        moves: ClassVar = ["e5", "Nc6", "Nf6"]

        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            return [Reply(f"\\boxed{{{self.moves.pop(0)}}}") for _ in turns]

    start("chess", Black(), seat=1)
    for move, (first, then) in enumerate([("6,4", "4,4"), ("7,5", "4,2"), ("7,3", "3,7"), ("3,7", "1,5")]):
        wait(browser, f"return now.moves.length === {2 * move} && now.asked")
        for at in (first, then):
            browser.find_element("css selector", f"[data-at='{at}']").click()
    wait(browser, "return now.over !== null")
    assert browser.find_element("id", "status").text == "You won."
    assert [chip.text for chip in all_of(browser, "#played button")][-1] == "7. Qxf7#"


def test_a_game_is_played_by_the_keyboard_alone(browser: Any, start: Start) -> None:
    from selenium.webdriver.common.keys import Keys

    table = start("tic_tac_toe", "exact")
    cell = browser.find_element("css selector", "#board [tabindex='0']")
    cell.send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("aria-label") == "b2, empty, can be chosen"
    focused.send_keys(Keys.ENTER)
    wait(browser, "return now.moves.length === 2 && now.asked")
    assert browser.execute_script("return document.activeElement.dataset.at") == "1,1"
    labels = [cell.get_attribute("aria-label") for cell in all_of(browser, ".cell")]
    assert labels[4] == "b2, x"
    browser.switch_to.active_element.send_keys("h")
    wait(browser, "return document.querySelectorAll('#hints .won').length > 0")
    browser.switch_to.active_element.send_keys("u")
    wait(browser, "return now.moves.length === 0")
    typed = browser.find_element("id", "typed")
    typed.send_keys("c3" + Keys.ENTER)
    wait(browser, "return now.moves.length >= 1 && now.moves[0].action === 'c3'")
    typed.send_keys(Keys.CONTROL + "a")
    wait(browser, READY)
    typed.send_keys("nonsense" + Keys.ENTER)
    wait(browser, "return !document.getElementById('error').hidden")
    assert "is no legal move" in browser.find_element("id", "error").text
    assert table.asked


def labels(browser: Any) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll('.picture .cell')].map((cell) => cell.getAttribute('aria-label'))"
    )


@pytest.mark.parametrize("seat", [0, 1])
def test_a_backgammon_board_shows_what_its_text_says(browser: Any, start: Start, seat: int) -> None:
    table = start("backgammon", seat=seat)
    draw = random.Random(2)
    for _ in range(25):
        table.wait_for_person()
        table.choose(draw.randrange(len(table.choices())), table.place)
    table.wait_for_person()
    wait(browser, f"return now.place === {table.place!r} && now.asked")
    lines = table.board().split("\n")
    expected = {}
    for numbers, cells in ((lines[0], lines[1]), (lines[4], lines[3])):
        for point, cell in zip(numbers.replace("|", "").split(), cells.replace("|", "").split(), strict=True):
            expected[f"point {point}"] = cell
    for line, place in ((lines[5], "bar of"), (lines[6], "borne off by")):
        for side, count in re.findall(r"([xo]) (\d+)", line):
            expected[f"{place} {'black' if side == 'x' else 'white'}"] = f"{side}{count}" if int(count) else "."
    shown = {}
    for label in labels(browser):
        place, what = label.removesuffix(", can be chosen").split(", ")
        count, colour = (what.split()[0], what.split()[1]) if what != "empty" else ("", "")
        shown[place] = f"{'x' if colour == 'black' else 'o'}{count}" if count else "."
    assert shown == expected
    assert sum(int(cell[1:]) for cell in shown.values() if cell != ".") == 30
    dice = lines[-1].removeprefix("Your dice: ").split(" (")[0].split(", ")
    assert len(all_of(browser, ".eye")) == sum(map(int, dice))


def test_checkers_move_from_point_to_point(browser: Any, start: Start) -> None:
    table = start("backgammon")
    choice = next(choice for choice in table.choices() if len(set(choice.cells)) == 4)
    place = table.place
    for point in choice.cells:
        browser.find_element("css selector", f".cell[aria-label^='point {point},']").click()
    wait(browser, f"return now.place !== {place!r}")
    assert browser.execute_script("return now.moves.find((move) => move.seat === 0).action") == choice.name


def test_seeds_are_counted_and_houses_chosen_by_the_keyboard(browser: Any, start: Start) -> None:
    from selenium.webdriver.common.keys import Keys

    table = start("oware")
    browser.find_element("css selector", "[tabindex='0']").send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("aria-label") == "house B, 4 seeds, can be chosen"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait(browser, "return now.moves.length === 2 && now.asked")
    upper, lower = table.board().split("\n")[1:3]
    said = [label.split(", ")[1].split()[0] for label in labels(browser)]
    assert said == upper.split() + lower.split()
    captured = sum(map(int, re.findall(r": (\d+)", table.board().split("\n")[4])))
    assert len(all_of(browser, ".seed")) == sum(map(int, said)) + captured == 48


def test_the_keyboard_reaches_every_cell_of_a_hexagon(browser: Any, start: Start) -> None:
    start("havannah(board_size=4)")
    assert len(all_of(browser, ".picture .cell")) == 37
    reached = browser.execute_script(
        """
        const reached = new Set();
        const go = (cell) => {
          if (reached.has(cell)) return;
          reached.add(cell);
          for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
            cell.focus();
            cell.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            go(document.activeElement);
          }
        };
        go(document.querySelector(".cell[tabindex='0']"));
        return reached.size;
        """
    )
    assert reached == 37


def test_a_reply_is_only_text(browser: Any, start: Start) -> None:
    class Hostile:
        def act(self, turns: Sequence[Turn]) -> list[Reply]:
            said = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
            return [Reply(f"{said} {turn.answers[0]}") for turn in turns]

    start("tic_tac_toe", Hostile())
    all_of(browser, ".can")[4].click()
    wait(browser, "return now.moves.length === 2")
    all_of(browser, "#played button")[1].click()
    wait(browser, "return document.querySelectorAll('#said pre').length > 0")
    assert "<img src=x onerror" in browser.find_element("id", "said").text
    assert not all_of(browser, "#said img, #said script")
    assert browser.title == "tic_tac_toe"


def test_a_phone_is_wide_enough(browser: Any, start: Start) -> None:
    for case in ("hex(board_size=11)", "chess", "hearts", "2048", "backgammon", "oware", "y(board_size=19)"):
        start(case)
        for move in all_of(browser, "#played button")[:1]:
            move.click()
            wait(browser, "return document.querySelectorAll('#said pre').length > 0")
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        )
        try:
            wide = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert wide[0] <= wide[1] == 360
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
