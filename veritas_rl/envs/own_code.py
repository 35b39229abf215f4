"""Runs a user's environment: an error, a hang, a print or a change of global state is named with the user's line."""

import io
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, TypeVar

from veritas_rl.errors import UserError

SECONDS = 30
"""The most seconds of an import, and of the look at the questions of a case."""

T = TypeVar("T")
_TURN = threading.RLock()


class Late(BaseException):
    """The time of a user's function is over. A function that catches every `Exception` does not catch this one."""


def file_of(function: Callable[..., Any]) -> str:
    """The file of a function of Python; "" for others, such as `float`."""
    code = getattr(function, "__code__", None)
    return code.co_filename if code else ""


def first_line(function: Callable[..., Any]) -> str:
    """The file and the line where a function begins, as `quiz.py:12`."""
    file = file_of(function)
    return f"{Path(file).name}:{function.__code__.co_firstlineno}" if file else str(function)


def calls(near: Callable[..., Any], function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of a user's file.

    Args:
        near: A function of this file.
        function: The function, which may also be one of a library.
        arguments: Its arguments.

    Raises:
        UserError: The function fails; the message has the line of the file.
    """
    try:
        return function(*arguments)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(fault(error, file_of(near), first_line(near))) from error


def fault(error: BaseException, file: str, otherwise: str) -> str:
    """An error as one line with its last line in a file.

    Args:
        error: The error.
        file: The file.
        otherwise: The place if the error was raised elsewhere.
    """
    return f"{_where(error, file, otherwise)}: {type(error).__name__}: {error}".rstrip(": ")


def _where(error: BaseException, file: str, otherwise: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f"{Path(file).name}:{lines[-1]}" if lines else otherwise


def watched(near: Callable[..., Any], run: Callable[[], T]) -> T:
    """Run functions of a user's file under `guarded`, with the file of `near`."""
    return guarded(file_of(near), first_line(near), run)


def guarded(file: str, place: str, run: Callable[[], T]) -> T:
    """Run code of a user's file, which must end in time, print nothing, and leave global state alone.

    Args:
        file: The file, as its frames name it.
        place: The file and a line, for faults elsewhere.
        run: What to run. It runs again if it changes global state, to find the line.

    Raises:
        UserError: The code does one of these; the message has the line.
    """
    # Output and generators belong to the whole process, so that two threads take turns.
    with _TURN:
        return _guarded(file, place, run)


def _guarded(file: str, place: str, run: Callable[[], T]) -> T:
    said = _Printed(file, sys.stdout)
    before, made, wrong = _state(), list[T](), None
    try:
        with _limited(), redirect_stdout(said):
            made.append(run())
    except UserError as error:
        wrong = error  # global state may be the cause
    except Late as late:
        raise UserError(f"{_where(late, file, place)}: it runs longer than {SECONDS} s") from None
    if said.line:
        raise UserError(f"{Path(file).name}:{said.line}: it prints {said.text[:40]!r}; an environment prints nothing")
    after = _state()
    for name, value in before.items():
        if after[name] != value:
            line = _line_of_change(file, name, run)
            where = f"{Path(file).name}:{line}" if line else place
            raise UserError(f"{where}: it uses or changes {name}: draw only from the argument random")
    if wrong is not None:
        raise wrong
    (result,) = made
    return result


@contextmanager
def _limited() -> Iterator[None]:
    """Raise `Late` in the main thread after `SECONDS`. Other threads have no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Printed(io.StringIO):
    """An output that keeps what a file prints, and the line that printed first. Others print to `output`."""

    def __init__(self, file: str, output: TextIO) -> None:
        super().__init__()
        self._file, self._output = file, output
        self.line, self.text = 0, ""

    def write(self, text: str) -> int:
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        if frame is None:
            return self._output.write(text)
        if not self.line:
            self.line, self.text = frame.f_lineno, text
        return len(text)


def _state() -> dict[str, object]:
    """Global state that no environment may depend on, by name."""
    state: dict[str, object] = {
        "the global generator of random": random.getstate(),
        "the current folder": str(Path.cwd()),
    }
    if "numpy" in sys.modules:
        state["the global generator of numpy"] = str(sys.modules["numpy"].random.get_state(legacy=False))
    return state


def _line_of_change(file: str, name: str, run: Callable[[], object]) -> int:
    """The line of a file after which a part of the state was another; 0 if it was none."""
    before, last, found = _state()[name], 0, 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal last, found
        if frame.f_code.co_filename != file:
            return None
        if not found and _state()[name] != before:
            found = last
        last = frame.f_lineno
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        with _limited(), redirect_stdout(io.StringIO()), suppress(UserError, Late):
            run()
    finally:
        sys.settrace(former)
    return found or last
