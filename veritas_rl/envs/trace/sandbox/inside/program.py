"""Runs one program in its own process, and stores its result in memory shared with the server.

The program may change any module of the interpreter, so all objects that are needed after it are bound to local names
before it runs.
"""

import builtins
import mmap
import opcode
import os
import sys
import types

__builtins__ = vars(builtins).copy()  # the functions of this module use this copy; a program may empty the original

REPORT_BYTES = 4096
_HASHES = REPORT_BYTES - 1  # the report's byte that is 1 if the program may use hashes
_HASH_NAMES = frozenset(("set", "frozenset", "hash", "id", "object", "keys", "items"))
_BUILD_SET = opcode.opmap["BUILD_SET"]
FINALIZERS = "__del__", "weakref", "atexit"
"""A program with one of these words may print while the interpreter shuts down. Other programs skip the shutdown,
which takes milliseconds."""


def clear_report(report: mmap.mmap) -> None:
    report[:2] = bytes(2)
    report[_HASHES] = 0


def write_report(report: mmap.mmap, status: str, detail: str = "") -> None:
    """Store the result of the program: the length of the text in two bytes, then status and detail in UTF-8."""
    text = f"{status}\n{detail}".encode("utf-8", "replace")[: _HASHES - 2]
    report[2 : 2 + len(text)] = text
    report[:2] = len(text).to_bytes(2, "big")


def read_report(report: mmap.mmap) -> tuple[str, str]:
    """The status and the detail that `write_report` stored; both are empty if the process stored none."""
    length = int.from_bytes(report[:2], "big")
    status, _, detail = bytes(report[2 : 2 + length]).decode("utf-8", "replace").partition("\n")
    return status, detail


def may_use_hashes(report: mmap.mmap) -> bool:
    """Whether the program may make sets or ask for hashes, according to its byte code before the run."""
    return bool(report[_HASHES])


def run(source: bytes, report: mmap.mmap) -> None:
    """Compile and run a program. The standard streams must be ready.

    This function ends the process. It returns only if the program succeeded and may print while the interpreter shuts
    down; the caller must then let the interpreter shut down.
    """
    exit_now, system, stdout = os._exit, sys, sys.stdout
    try:
        text = source.decode()
        code = compile(text, "<program>", "exec", dont_inherit=True)
    except MemoryError:
        write_report(report, "memory", "the program is too large to compile")
        exit_now(0)
    except BaseException as error:
        write_report(report, "syntax", _describe(error))
        exit_now(0)
    report[_HASHES] = mentions_hashes(code)
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    finish = any(word in text for word in FINALIZERS)
    del text, source
    status, detail = "ok", ""
    try:
        exec(code, module.__dict__)
    except MemoryError:
        status, detail = "memory", "MemoryError"
    except SystemExit as error:
        code = error.code
        if code is not None and not (type(code) in (int, bool) and code == 0):
            status, detail = "error", f"exit status {code % 256 if type(code) is int else 1}"
    except BaseException as error:
        status, detail = "error", _describe(error)
    try:
        # As at the interpreter's exit: flush the current sys.stdout, which the program may have replaced, then the
        # original one.
        if system.stdout is not None and not system.stdout.closed:
            system.stdout.flush()
        if not stdout.closed:
            stdout.flush()
    except BaseException as error:
        if status == "ok":
            status, detail = "error", f"{_describe(error)} while the output was flushed"
    write_report(report, status, detail)
    if status != "ok" or not finish:
        exit_now(0)


def mentions_hashes(code: types.CodeType) -> bool:
    """Whether byte code may make sets or ask for hashes. Faster than parsing the text, and true for more programs."""
    if not _HASH_NAMES.isdisjoint(code.co_names) or _BUILD_SET in code.co_code[::2]:
        return True
    return any(
        mentions_hashes(constant) if isinstance(constant, types.CodeType) else isinstance(constant, frozenset)
        for constant in code.co_consts
    )


def _describe(error: BaseException) -> str:
    """The type's name, which may be unreadable because of the program's metaclass."""
    try:
        return str(type(error).__name__)
    except BaseException:
        return "an exception without a name"
