"""The Go Text Protocol (Lefkovitz, "GTP version 2, draft 2"): a program answers one command at a time."""

from collections.abc import Sequence

from veritas_rl.envs.openspiel.engines.process import EngineError, LineProcess
from veritas_rl.envs.openspiel.games import Game, State

COLUMNS = "ABCDEFGHJKLMNOPQRST"
"""The columns of a board, without I."""
COLOURS = ("black", "white")


class RefusedError(EngineError):
    """The program refused a command."""


class GtpProcess:
    """A program that supports the protocol.

    Args:
        command: The program and its arguments.
        name: The engine's name, for messages.

    Raises:
        EngineError: The program cannot be started, or does not support the protocol.
    """

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self._process = LineProcess(command, name)
        try:
            if self.ask("protocol_version") != "2":
                raise EngineError(f"{command[0]} does not speak version 2 of the Go Text Protocol")
        except EngineError:
            self._process.close()
            raise

    def ask(self, command: str, work: float = 0.0) -> str:
        """The program's answer to a command, without the leading "=".

        Args:
            command: A command of one line.
            work: The seconds that the slowest machine may need.

        Raises:
            RefusedError: The program refuses the command.
            EngineError: The program failed.
        """
        answered = False

        def is_last(line: str) -> bool:
            nonlocal answered
            if not answered:
                answered = line.startswith(("=", "?"))
                return False
            return not line

        lines = self._process.ask(command, is_last, work)
        first = next(index for index, line in enumerate(lines) if line.startswith(("=", "?")))
        text = "\n".join([lines[first][1:].strip(), *lines[first + 1 : -1]]).strip()
        if lines[first].startswith("?"):
            raise RefusedError(f"{self.name} refuses {command!r}: {text}")
        return text

    def ask_rows(self, command: str) -> list[str]:
        """The rows of an answer that may lack the empty line at its end.

        For example, GNU Go's answer to `all_move_values` lacks this line if there are no rows. So a second command is
        sent together with the first, and its answer marks the end.

        Raises:
            RefusedError: The program refuses the command.
            EngineError: The program failed.
        """
        last = ""

        def is_last(line: str) -> bool:
            nonlocal last
            ended, last = not line and last == "= 2", line
            return ended

        lines = self._process.ask(f"{command}\nprotocol_version", is_last)[:-2]
        if refused := [line for line in lines if line.startswith("?")]:
            raise RefusedError(f"{self.name} refuses {command!r}: {refused[0][1:].strip()}")
        return [row for line in lines if (row := line.removeprefix("=").strip())]

    def set_up(self, game: Game, state: State) -> None:
        """Play the moves of a state on a new board.

        Raises:
            EngineError: The program failed, or refuses the size of the board or a move.
        """
        self.ask(f"boardsize {game.parameters['board_size']}")
        self.ask("clear_board")
        self.ask(f"komi {game.parameters['komi']:g}")
        for line in plays_of(game, state):
            self.ask(line)

    def close(self) -> None:
        """Kill the program."""
        self._process.close()

    def abandon(self) -> None:
        """Release the program in a forked child, because it belongs to the parent."""
        self._process.abandon()


def is_go(game: Game) -> bool:
    """Whether a case is Go without handicap."""
    return game.short_name == "go" and not game.parameters.get("handicap", 0)


def vertex(game: Game, action: int) -> str:
    """The protocol's name of an action: "A1" for the point at the bottom left, "pass" for a pass."""
    size = game.parameters["board_size"]
    return "pass" if action == size * size else f"{COLUMNS[action % size]}{action // size + 1}"


def action_of(game: Game, text: str) -> int:
    """The action of a vertex, in uppercase or lowercase letters; the inverse of `vertex`.

    Raises:
        EngineError: The vertex is not a point of the board.
    """
    size = game.parameters["board_size"]
    text = text.strip().upper()
    if text == "PASS":
        return size * size
    column, row = COLUMNS[:size].find(text[:1]), text[1:]
    if not text or column < 0 or not (row.isascii() and row.isdigit() and 1 <= int(row) <= size):
        raise EngineError(f"{text!r} is no point of a board of size {size}")
    return size * (int(row) - 1) + column


def plays_of(game: Game, state: State) -> list[str]:
    """The commands that play the moves of a state."""
    return [f"play {COLOURS[step.player]} {vertex(game, step.action)}" for step in state.full_history()]
