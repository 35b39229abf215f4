"""Stockfish for chess, through python-chess.

The value of a move is Stockfish's expected score, P(win) + P(draw) / 2, from its win-draw-loss model (option
UCI_ShowWDL). A search (MultiPV) with a number of nodes and one thread values all moves; further searches value moves
without a value. A new game before each search clears the hash, and the position is sent without its history, so equal
positions have equal values. A move that ends the game, also by repetition, has the value of the result.
"""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import pyspiel

from veritas_rl.envs.openspiel.engines import process
from veritas_rl.envs.openspiel.engines.process import EngineError, HangError, find_library, find_program
from veritas_rl.envs.openspiel.engines.spec import EngineSpec
from veritas_rl.envs.openspiel.games import Game, State

SLOWEST_NODES = 1_000
"""The fewest nodes per second: a hundredth of the rate on one core of 2020."""
OPTIONS = {"Threads": 1, "Hash": 16, "UCI_ShowWDL": True}

T = TypeVar("T")


class Stockfish:
    """A running Stockfish.

    Args:
        spec: The engine's name and its limit in nodes.

    Raises:
        UserError: Stockfish or python-chess is not installed.
        EngineError: The program does not start, or is not Stockfish 12 or later.
    """

    def __init__(self, spec: EngineSpec) -> None:
        chess_engine = find_library(spec, "chess.engine")
        program = find_program(spec)
        self._chess = find_library(spec, "chess")
        # python-chess raises its own errors and RuntimeErrors. If the engine ends, it cancels waiting calls.
        self._failures = (RuntimeError, OSError, TimeoutError, CancelledError)
        self._limit = chess_engine.Limit(nodes=spec.limit)
        self._seconds = process.PATIENCE + spec.limit / SLOWEST_NODES
        try:
            self._engine = _in_daemon(
                lambda: chess_engine.SimpleEngine.popen_uci(
                    program, timeout=process.PATIENCE, stderr=subprocess.DEVNULL, start_new_session=True
                )
            )
        except self._failures as error:
            raise EngineError(f"{program} does not start as a chess engine ({_why(error)})") from error
        try:
            missing = [name for name in OPTIONS if name not in self._engine.options]
            if missing:
                raise EngineError(f"{program} has no option {missing[0]}: Stockfish 12 or later is needed")
            self._engine.configure(OPTIONS)
        except EngineError:
            self.close()
            raise
        except self._failures as error:
            self.close()
            raise EngineError(f"{program} refuses its options ({_why(error)})") from error

    def values(self, game: Game, state: State, player: int, scale: str) -> dict[int, float]:
        actions = moves_of(state)
        values = {
            action: (1 + child.returns()[player]) / 2
            for action in actions.values()
            if (child := state.child(action)).is_terminal()
        }
        left = {move: action for move, action in actions.items() if action not in values}
        while left:
            found = self._search(state, list(left))
            if not found:
                raise EngineError("stockfish gave no value for a legal move")
            for move, value in found.items():
                values[left.pop(move)] = value
        return dict(sorted(values.items()))

    def move(self, game: Game, state: State, player: int) -> int:
        board = self._chess.Board(fen(state))
        played = self._run(self._engine.protocol.play(board, self._limit, game=object()))
        actions = moves_of(state)
        if played.move is None or played.move.uci() not in actions:
            raise EngineError(f"stockfish answers {played.move} in {fen(state)}, which is no legal move")
        return actions[played.move.uci()]

    def close(self) -> None:
        transport = self._engine.transport
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                transport.kill()
        self._engine.close()

    def abandon(self) -> None:
        for number in (0, 1):
            pipe = self._engine.transport.get_pipe_transport(number)
            if pipe is not None:
                pipe.get_extra_info("pipe").close()

    def _search(self, state: State, moves: list[str]) -> dict[str, float]:
        """The values of the moves that the search completes within its number of nodes, which may be only some."""
        board = self._chess.Board(fen(state))
        asked = [self._chess.Move.from_uci(move) for move in moves]
        infos = self._run(
            self._engine.protocol.analyse(board, self._limit, multipv=len(asked), game=object(), root_moves=asked)
        )
        found = {}
        for info in infos:
            if "pv" in info and "wdl" in info and (move := info["pv"][0].uci()) in moves:
                found[move] = info["wdl"].pov(board.turn).expectation()
        return found

    def _run(self, request: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(request, self._engine.protocol.loop)
        try:
            return future.result(self._seconds)
        except TimeoutError:
            future.cancel()
            raise HangError("stockfish hangs: it gave no answer and was killed") from None
        except self._failures as error:
            raise EngineError(f"stockfish failed ({_why(error)})") from error


def is_standard(game: Game) -> bool:
    """Whether a case is chess with the standard rules and starting position."""
    return game.short_name == "chess" and not game.parameters.get("chess960", False)


def fen(state: State) -> str:
    """A state in Forsyth-Edwards notation."""
    return state.observation_string(0)


def moves_of(state: State) -> dict[str, int]:
    """The legal actions, by their moves in UCI notation, such as "e7e8q"."""
    board = state.board()
    return {pyspiel.chess.action_to_move(action, board).to_lan(): action for action in state.legal_actions()}


def _in_daemon(start: Callable[[], T]) -> T:
    """Call a function in a daemon thread, so that the threads that it starts are daemons.

    Otherwise the thread of python-chess would prevent this process, and so the engine, from ending.
    """
    started: Future[T] = Future()

    def run() -> None:
        try:
            started.set_result(start())
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return started.result()


def _why(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
