"""A game at the terminal: the board as text, and typed moves."""

from collections.abc import Callable

from veritas_rl.errors import UserError
from veritas_rl.viewing.play.table import Table

HELP = (
    "Type a move by its name or number. Other words: moves, hint, undo, said (what was shown and replied at the last "
    "move of the other side), rules, new, quit."
)

MOST_MOVES = 40
"""The maximum number of legal moves that are listed without a command."""


def play_in_terminal(table: Table, read: Callable[[str], str] = input, write: Callable[[str], object] = print) -> None:
    """Play until the person quits.

    Args:
        table: The game.
        read: Asks for a line; raises `EOFError` at the end of the input.
        write: Prints a line.
    """
    write(HELP)
    shown = ended = ""
    printed = 0
    while True:
        table.wait_for_person()
        values = table.values()
        for move in values["moves"][printed:]:
            write(f"{move['role']}: {move['action']}" + ("" if move["ok"] else " (a mistake)"))
        printed = len(values["moves"])
        if values["board"] != shown:
            shown = values["board"]
            write(f"\n{shown}\n")
        if values["error"]:
            write(f"error: {values['error']}")
        if values["over"] and ended != values["place"]:
            ended = values["place"]
            for end in values["over"]:
                write(f"{end['role']} ({end['player']}): {end['reason']}, {end['value']:.2f}")
            if values["kept"]:
                write(f"saved: {values['kept']}")
        if values["asked"] and len(values["choices"]) <= MOST_MOVES:
            write(_listed(table))
        prompt = "new, undo or quit> " if values["over"] else "again or quit> " if values["error"] else "move> "
        try:
            typed = " ".join(read(prompt).split())
        except EOFError:
            return
        if typed in ("quit", "exit", "q"):
            return
        try:
            if typed in ("new", "undo"):
                table.new_game((table.you + 1) % table.seats) if typed == "new" else table.undo()
                shown, ended, printed = "", "", 0
            else:
                _do(table, typed, values["place"], write)
        except UserError as error:
            write(str(error))


def _do(table: Table, typed: str, place: str, write: Callable[[str], object]) -> None:
    match typed:
        case "":
            return
        case "help" | "?":
            write(HELP)
        case "again":
            table.ask_again()
        case "moves":
            write(_listed(table))
        case "rules":
            write(table.values()["rules"])
        case "hint":
            found = table.hints()
            write(f"by {found['source']}:" if found["choices"] else "there is no hint here")
            for hint in found["choices"][:10]:
                write(f"  {hint['name']}: {hint['value']:.2f}" + (" good" if hint["good"] else ""))
        case "said":
            others = [move["number"] for move in table.values()["moves"] if move["seat"] != table.you]
            if not others:
                write("no other player has moved, or the moves are hidden until the game is over")
                return
            said = table.said(others[-1])
            for message in said.messages:
                write(f"[{message['role']}]\n{message['content']}")
            write(f"[{said.player}]\n{said.reply}")
        case _:
            table.type(typed, place)


def _listed(table: Table) -> str:
    return f"Your moves as {table.values()['seats'][table.you]['role']}: " + ", ".join(
        choice.name for choice in table.choices()
    )
