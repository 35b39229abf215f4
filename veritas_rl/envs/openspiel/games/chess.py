"""Chess. Rules checked against OpenSpiel's `games/chess/chess.cc` and `chess_board.cc`.

Oddities of OpenSpiel: white is player 1; draws by repetition, by the fifty-move rule and for lack of material end the
game without a claim; a pawn that may be captured en passant makes a position different even if the capture would leave
the king attacked. Chess960 is not described here.
"""

from functools import partial
from typing import ClassVar

import pyspiel

from veritas_rl.envs.openspiel.games.base import Game, State, letters
from veritas_rl.envs.openspiel.games.boards import drawn
from veritas_rl.envs.openspiel.notation import ChessMoves, Notation
from veritas_rl.envs.openspiel.notation.chess import Move
from veritas_rl.seeding import digest

_WORTHS = (("Q", 9), ("R", 5), ("B", 3), ("N", 3), ("P", 1))
_CASTLING = {"K": "O-O", "Q": "O-O-O", "k": "O-O", "q": "O-O-O"}


class Chess(Game):
    """Moves are named in standard algebraic notation, as OpenSpiel writes them."""

    default_cases: ClassVar = ("chess",)
    screening_moves: ClassVar = 450
    budget: ClassVar = (200, 20)
    playout_moves: ClassVar = 8
    margin_unit: ClassVar = 2.0
    most_moves: ClassVar = 700

    def rules(self) -> str:
        return (
            "You are playing chess on a board of 8 files (a to h from left to right) and 8 ranks (8 at the top down to "
            "1 at the bottom). White's pieces are capital letters, black's are small: K king, Q queen, R rook, B "
            "bishop, N knight, P pawn; an empty square is shown as a dot. White moves first; then the players "
            "alternate, each moving one piece to a square that is empty or holds an opponent's piece, which is "
            "captured. The king moves one square in any direction; the rook any distance along a rank or file; the "
            "bishop any distance along a diagonal; the queen like a rook or a bishop; none of them over another piece. "
            "The knight jumps two squares along a rank or file and one across. A pawn moves one square forward (white "
            "up, black down) onto an empty square, or two from where it stood at the start (white's on rank 2, black's "
            "on rank 7) if both are empty; it captures only on the two squares diagonally in front of it. En passant: "
            "if a pawn has just moved two squares, a pawn that attacks the square it passed over may, as the very next "
            "move, capture it by moving to that square. A pawn that reaches the last rank becomes a queen, rook, "
            "bishop or knight of its colour. Castling: the king moves two squares towards a rook and the rook goes to "
            "the square next to it on the other side, if neither has moved before, all squares between them are empty, "
            "and the king is not attacked where it stands, on the square it crosses or on the one it reaches. No move "
            "may leave the own king attacked. A player whose king is attacked (check) and who has no legal move is "
            "checkmated and loses. The game ends as a draw, without a claim, when the player to move is not in check "
            "and has no legal move (stalemate); when a position occurs for the third time with the same player to "
            "move, the same rights to castle and the same pawn attacked en passant; after 100 moves in a row, both "
            "players together, without a capture or a pawn's move, unless the last one mates; and when neither side "
            "can mate any more: with the kings alone, with one knight besides, or with nothing besides but bishops all "
            "on squares of one colour. Moves are written in standard algebraic notation: the piece's letter, none for "
            "a pawn, then x for a capture and the square it goes to, as in e4, Nf3 or Bxe5; where several pieces could "
            "go there, the file or rank it comes from stands after the letter, as in Nbd2; a capturing pawn is named "
            "by its file, as in exd5; =Q is a promotion, O-O castling on the king's side (towards h), O-O-O on the "
            "queen's side (towards a), + check, # checkmate."
        )

    def role(self, player: int) -> str:
        return ("black (small letters)", "white (capital letters)")[player]

    def position(self, state: State, player: int) -> str:
        placement, _, castling, passant, clock, _ = self._fen(state)
        lines = [
            drawn(_ranks(placement), letters(8), upwards=True),
            f"Castling rights: white {_rights(castling, 'KQ')}; black {_rights(castling, 'kq')}",
        ]
        if passant != "-":
            lines.append(
                f"The pawn that has just moved two squares passed over {passant}, where a pawn attacks it en passant"
            )
        lines.append(f"Moves by both players since the last capture or pawn's move: {clock} (100 are a draw)")
        if (times := state.num_repetitions(state)) > 1:
            lines.append(f"This position occurs for the {_ordinal(times)} time")
        for times, actions in self._repeats(state).items():
            moves = ", ".join(state.action_to_string(player, action) for action in actions)
            draw = ", which is a draw" if times == 3 else ""
            lines.append(f"Moves to a position that then occurs for the {_ordinal(times)} time{draw}: {moves}")
        return "\n".join(lines)

    def brief(self, state: State, player: int) -> str:
        placement, turn, *rest, _ = self._fen(state)
        draws = self._repeats(state).get(3, [])
        return "\n".join(
            [f"{turn} {placement} {' '.join(rest)}", *(["draw " + " ".join(map(str, draws))] if draws else [])]
        )

    def notation(self, state: State, player: int) -> Notation:
        return ChessMoves(partial(self._moves, state, player))

    def _moves(self, state: State, player: int) -> dict[int, Move]:
        board, legal = state.board(), state.legal_actions(player)
        return {
            action: Move(state.action_to_string(player, action), pyspiel.chess.action_to_move(action, board).to_lan())
            for action in legal
        }

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """The king's or piece's start and destination, for castling too."""
        long = pyspiel.chess.action_to_move(action, state.board()).to_lan()
        return long[:2], long[2:4]

    def margin(self, state: State, player: int) -> float:
        """Material, in pawns."""
        placement = self._fen(state)[0]
        ahead = sum(worth * (placement.count(piece) - placement.count(piece.lower())) for piece, worth in _WORTHS)
        return ahead if player else -ahead

    def information_key(self, state: State, player: int) -> str:
        """The position, the moves since the last capture or pawn move, and the positions since then, because each may
        be repeated."""
        *position, clock, _ = self._fen(state)
        history = state.history()
        first, earlier = len(history) - int(clock), []
        if int(clock):
            replayed = self.spiel.new_initial_state()
            for number, action in enumerate(history):
                if number >= first:
                    earlier.append(" ".join(self._fen(replayed)[:4]))
                replayed.apply_action(action)
        return " ".join([*position, clock, str(digest(*sorted(earlier)))])

    def symmetry_key(self, state: State, player: int) -> str:
        """The position without its history, so that equal positions belong to one class. Without castling rights, the
        mirror image (file a for file h) belongs to it too."""
        placement, turn, castling, passant, *_ = self._fen(state)
        keys = [f"{placement} {turn} {castling} {passant}"]
        if castling == "-":
            mirrored = "/".join(rank[::-1] for rank in placement.split("/"))
            file = passant.translate(str.maketrans("abcdefgh", "hgfedcba"))
            keys.append(f"{mirrored} {turn} {castling} {file}")
        return min(keys)

    @staticmethod
    def _fen(state: State) -> list[str]:
        """The six fields of the Forsyth-Edwards notation."""
        return state.observation_string(0).split()

    def _repeats(self, state: State) -> dict[int, list[int]]:
        """The legal moves that repeat a position for the second time, and for the third time."""
        found: dict[int, list[int]] = {}
        if int(self._fen(state)[4]) >= 3:  # the nearest repetition is four moves from the position
            for action in state.legal_actions():
                child = state.child(action)
                if (times := child.num_repetitions(child)) > 1:
                    found.setdefault(times, []).append(action)
        return dict(sorted(found.items()))


def _ranks(placement: str) -> list[str]:
    """The ranks from the top, with a dot for each empty square."""
    return ["".join("." * int(char) if char.isdigit() else char for char in rank) for rank in placement.split("/")]


def _rights(castling: str, sides: str) -> str:
    return " and ".join(_CASTLING[side] for side in sides if side in castling) or "none"


def _ordinal(times: int) -> str:
    return {2: "second", 3: "third"}[times]
