"""Chess moves in standard algebraic, long algebraic and UCI notation.

As in standard notation, a lowercase b is a pawn's file and a capital B is a bishop. The marks for check and mate and
the x of a piece's capture are optional, but everything that the text states must be true of the move.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from veritas_rl.envs.openspiel.notation.base import Notation

_CASTLING = re.compile(r"[O0o]-?[O0o](-?[O0o])?")
_MARKS = re.compile(r"( ?e\.? ?p\.?)?(\+{1,2}|#)?[!?]{0,2}$")
_MOVE_NUMBER = re.compile(r"[1-9][0-9]{0,2}\.(?:\.\.)? ?")
_CAPITALS = re.compile(r"[KQRN]?[A-H]?[1-8]?[xX*]?[A-H][1-8]")
_MOVE = re.compile(
    r"([KQRBNPkqrnp]?)([a-h]?)([1-8]?)( ?[x*:] ?| ?(?:->?|=>|[→⇒]) ?| ?to |)([a-h][1-8])(?:=?\(?([QRBNqrbn])\)?)?"
)
_FIGURES = str.maketrans("♔♕♖♗♘♙♚♛♜♝♞♟", "KQRBNP" * 2)
_PIECE = re.compile(r"(king|queen|rook|bishop|knight|pawn) (?:(?:on|from) )?", re.IGNORECASE)
_LETTERS = {"king": "K", "queen": "Q", "rook": "R", "bishop": "B", "knight": "N", "pawn": "P"}
_TAKES = re.compile(r" (?:takes|captures)(?: on)? ")


@dataclass(frozen=True)
class Move:
    """A legal move.

    Attributes:
        name: In standard algebraic notation.
        long: The start and destination squares, and the lowercase letter of a promotion: "e7e8q".
    """

    name: str
    long: str

    @cached_property
    def castling(self) -> str:
        """O-O or O-O-O; "" for other moves."""
        return self.name.rstrip("+#") if self.name.startswith("O") else ""

    @cached_property
    def piece(self) -> str:
        """The capital letter of the piece that moves."""
        return "K" if self.castling else self.name[0] if self.name[0] in "KQRBN" else "P"


class ChessMoves(Notation):
    """The legal moves of one position.

    Args:
        moves: Returns each legal move, by number.
    """

    def __init__(self, moves: Callable[[], Mapping[int, Move]]) -> None:
        self._find = moves

    @cached_property
    def _moves(self) -> Mapping[int, Move]:
        return self._find()

    def fitting(self, said: str, names: Mapping[int, str]) -> list[int]:
        numbered = _MOVE_NUMBER.match(said)
        text = (said[numbered.end() :] if numbered else said).translate(_FIGURES)
        text = _PIECE.sub(lambda piece: _LETTERS[piece[1].lower()], _TAKES.sub(" x", text, count=1), count=1)
        marks = _MARKS.search(text)
        if not marks:
            return []
        text, mark = text[: marks.start()], marks[2] or ""
        known = {number: move for number, move in self._moves.items() if not mark or _has(move, mark)}
        if castling := _CASTLING.fullmatch(text):
            wanted = "O-O-O" if castling[1] else "O-O"
            return [number for number, move in known.items() if move.castling == wanted]
        if _CAPITALS.fullmatch(text):
            piece = text[0] if text[0] in "KQRN" else ""
            text = piece + text[len(piece) :].lower()
        match = _MOVE.fullmatch(text)
        return [number for number, move in known.items() if _fits(match, move)] if match else []

    def others(self, name: str) -> tuple[str, ...]:
        bare = name.rstrip("+#")
        return (bare,) if bare != name else ()


def _has(move: Move, mark: str) -> bool:
    """Whether a move gives mate, for the mark #, or at least check, for another mark."""
    return move.name.endswith("#" if mark == "#" else ("+", "#"))


def _fits(said: re.Match[str], move: Move) -> bool:
    """Whether a match of `_MOVE` describes a move and states nothing false about it."""
    letter, file, rank, between, goal, promotion = said.groups()
    start, end, becomes = move.long[:2], move.long[2:4], move.long[4:]
    squares = bool(file and rank)
    if goal != end or (file and file != start[0]) or (rank and rank != start[1]):
        return False
    if (promotion or "").lower() != becomes and (promotion or not becomes):
        return False
    takes = between.strip() in ("x", "*", ":") and bool(between)
    if takes and "x" not in move.name:
        return False
    if not letter:
        if squares:
            return not takes or move.piece == "P" or "x" in move.name
        # A pawn's capture has its file and an x; every other pawn move has neither.
        if rank or between.strip(" x*:"):
            return False
        return move.piece == "P" and bool(file) == ("x" in move.name) == takes
    return letter.upper() == move.piece and not move.castling
