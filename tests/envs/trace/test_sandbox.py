"""The sandbox contains and classifies every kind of bad program, and the next program runs normally."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from veritas_rl.envs.trace.sandbox import Limits, Sandbox, Status, client, layers
from veritas_rl.errors import UserError

GOOD = "print(sum(range(5)))"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    with Sandbox(Limits(cpu=1, wall=4, memory=256 << 20, output=10_000)) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(shared: Sandbox) -> Iterator[Sandbox]:
    """A sandbox that must still work after the test."""
    yield shared
    assert shared.run(GOOD).stdout == "10\n"


def run(sandbox: Sandbox, text: str, stdin: str = "") -> tuple[Status, str, str]:
    outcome = sandbox.run(textwrap.dedent(text), stdin)
    return outcome.status, outcome.stdout, outcome.detail


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        ("while True: pass", Status.TIMEOUT, ""),
        ("import time; print(1, flush=True); time.sleep(60)", Status.TIMEOUT, "4 s of wall time"),
        ("print(1)\nwhile True:\n try:\n  while True: pass\n except BaseException: pass", Status.TIMEOUT, ""),
        ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", Status.TIMEOUT, ""),
        ("import os\nwhile True: os.fork()", Status.FORBIDDEN, "os.fork"),
        ("import os\nprint(1, flush=True)\nif os.fork() == 0:\n while True: pass", Status.FORBIDDEN, "os.fork"),
        ("import subprocess; subprocess.run(['true'])", Status.FORBIDDEN, "subprocess.Popen"),
        ("import os; os.system('true')", Status.FORBIDDEN, "os.system"),
        ("import os; os.execv('/bin/true', ['true'])", Status.FORBIDDEN, "os.exec"),
        ("import threading; threading.Thread(target=print).start()", Status.FORBIDDEN, ""),
        ("import multiprocessing; multiprocessing.Process(target=print).start()", Status.FORBIDDEN, ""),
        ("open('written', 'w')", Status.FORBIDDEN, "open('written')"),
        ("open('/etc/passwd').read()", Status.FORBIDDEN, "open('/etc/passwd')"),
        ("try:\n open('/etc/passwd')\nexcept BaseException: print('none')", Status.FORBIDDEN, "open('/etc/passwd')"),
        ("import os; os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)", Status.FORBIDDEN, "open('/tmp/x')"),
        ("import os; open(os.__file__, 'a')", Status.FORBIDDEN, "open("),
        ("import os; os.listdir('/')", Status.FORBIDDEN, "os.listdir('/')"),
        ("import os; os.remove('/etc/passwd')", Status.FORBIDDEN, "os.remove"),
        ("import tempfile; tempfile.mkdtemp()", Status.FORBIDDEN, "open("),
        ("import socket; socket.create_connection(('127.0.0.1', 80))", Status.FORBIDDEN, "socket."),
        ("import socket; socket.gethostbyname('localhost')", Status.FORBIDDEN, "socket.gethostbyname"),
        ("import urllib.request; urllib.request.urlopen('http://localhost')", Status.FORBIDDEN, "urllib.Request"),
        ("import ctypes; ctypes.CDLL(None).system(b'true')", Status.FORBIDDEN, "ctypes.dlopen"),
        ("import os; os.kill(os.getppid(), 9); print('alive')", Status.FORBIDDEN, "os.kill"),
        ("while True: print('x' * 1000)", Status.OUTPUT, "more than 10000 bytes"),
        ("import os\nfor i in range(1 << 20): os.write(1, b'x' * 1024)", Status.OUTPUT, "more than 10000 bytes"),
        (
            "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "try:\n while True: os.write(1, b'x' * 512)\nexcept OSError: pass",
            Status.OUTPUT,
            "",
        ),
        ("print('x' * 10_001, end='')", Status.OUTPUT, ""),
        ("x = [0] * (100 << 30)", Status.MEMORY, "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1_000_000))", Status.MEMORY, "MemoryError"),
        ("import veritas_rl", Status.ERROR, "ModuleNotFoundError"),
        ("import torch", Status.ERROR, "ModuleNotFoundError"),
        ("from inside import server", Status.ERROR, "ModuleNotFoundError"),
        ("print(1)\n1 / 0", Status.ERROR, "ZeroDivisionError"),
        ("class Odd(Exception): pass\nraise Odd", Status.ERROR, "Odd"),
        ("import sys; print(1); sys.exit(3)", Status.ERROR, "exit status 3"),
        ("print(1); exit(-1)", Status.ERROR, "exit status 255"),
        ("print(1); quit('no more')", Status.ERROR, "exit status 1"),
        ("print(1); exit(0.0)", Status.ERROR, "exit status 1"),
        ("import atexit\natexit.register(print, 'late')\nprint(1); exit(2)", Status.ERROR, "exit status 2"),
        ("this is no Python", Status.SYNTAX, "SyntaxError"),
        ("print(1)\n\tprint(2)", Status.SYNTAX, "IndentationError"),
        ("x = '\0'", Status.SYNTAX, ""),
        ("(" * 5000, Status.SYNTAX, ""),
        ("print('\\ud800')", Status.ERROR, "UnicodeEncodeError"),
        ("x = '\ud800'", Status.SYNTAX, "surrogate"),
        ("import os; os.write(1, bytes([255]))", Status.ENCODING, "not UTF-8"),
        ("import os; print(1, flush=True); os._exit(0)", Status.KILLED, "the process ended itself with code 0"),
        ("import os; print(1, flush=True); os.abort()", Status.KILLED, "SIG"),
        ("import os; print(1); os.close(1)", Status.ERROR, "OSError while the output was flushed"),
        ("import sys; sys.stdout.close(); print(1)", Status.ERROR, "ValueError"),
        ("def f(): f()\nf()", Status.ERROR, "RecursionError"),
        ("import sys; sys.setrecursionlimit(10**9)\nclass A:\n def __repr__(s): return repr(s)\nrepr(A())", None, ""),
        ("import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))", Status.FORBIDDEN, "resource.setrlimit"),
        ("input()", Status.ERROR, "EOFError"),
        ("import builtins\nbuiltins.__dict__.clear()\nraise x", Status.ERROR, "NameError"),
        ("raise KeyboardInterrupt", Status.ERROR, "KeyboardInterrupt"),
    ],
)
def test_a_bad_program_is_contained_and_named(sandbox: Sandbox, text: str, status: Status | None, detail: str) -> None:
    ended, stdout, said = run(sandbox, text)
    if status is None:  # unbounded recursion in C may end in a crash, an error or a lack of memory
        assert ended in (Status.KILLED, Status.ERROR, Status.MEMORY)
    else:
        assert ended is status, said
    assert stdout == ""
    assert detail in said


@pytest.mark.parametrize(
    ("text", "stdout"),
    [
        ("", ""),
        ("print('ä\\0€😀')", "ä\0€😀\n"),
        ("import os\nprint(1)\nos.write(1, b'2\\n')", "2\n1\n"),
        ("import sys, io\nsys.stdout = io.StringIO()\nprint(1)", ""),
        ("import sys\nprint(1)\nsys.stdout = sys.__stdout__ = None", "1\n"),
        ("import sys\nprint(1)\nsys.stdout.close()", "1\n"),
        ("import sys\nprint(1, file=sys.stderr)\nprint(2)", "2\n"),
        ("import sys; print(1); sys.exit()", "1\n"),
        ("import sys; print(1); sys.exit(None); print(2)", "1\n"),
        ("print(1); raise SystemExit(0)", "1\n"),
        ("print(1); raise SystemExit", "1\n"),
        ("print(1); exit(); print(2)", "1\n"),
        ("def f():\n print(1)\n exit(0)\nf()\nprint(2)", "1\n"),
        ("print(1)\ntry:\n quit()\nfinally: print(2)\nprint(3)", "1\n2\n"),
        ("import atexit\natexit.register(print, 'late')\nprint('early'); exit(False)", "early\nlate\n"),
        ("import builtins\nprint(7)\nbuiltins.__dict__.clear()", "7\n"),
        ("import os, sys\nprint(7)\nos._exit = sys.exit = None\ndel os, sys\n", "7\n"),
        ("import atexit\natexit.register(print, 'late')\nprint('early')", "early\nlate\n"),
        ("class A:\n def __del__(self): print('gone')\na = A()\nprint('here')", "here\ngone\n"),
        ("print(__name__)\nclass A: pass\nprint(A.__module__)", "__main__\n__main__\n"),
        ("import pickle\nclass A: x = 1\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)", "A\n"),
        ("import hashlib, zlib, unittest, csv, sqlite3\nprint(zlib.crc32(b'x'))", "2363233923\n"),
        ("try:\n compile('1 +', '<x>', 'exec')\nexcept SyntaxError: print('no')", "no\n"),
        ("try:\n exec('1 +')\nexcept SyntaxError: print('no')", "no\n"),
        ("def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(900))", "900\n"),
        ("print('x' * 9_999)", "x" * 9_999 + "\n"),
        ("import os; print(os.environ.get('HOME'), os.getcwd())", "None /\n"),
    ],
)
def test_a_good_program_prints_what_it_prints(sandbox: Sandbox, text: str, stdout: str) -> None:
    assert run(sandbox, text) == (Status.OK, stdout, "")


def test_standard_input_is_read_to_its_end(sandbox: Sandbox) -> None:
    text = "import sys\nprint(input())\nprint(sys.stdin.read().count('x'))"
    assert run(sandbox, text, "first\n" + "x" * 200_000)[1] == "first\n200000\n"
    assert run(sandbox, "print(input())", "ä")[1] == "ä\n"
    # The next program does not see this input.
    assert run(sandbox, "import sys; print(repr(sys.stdin.read()))")[1] == "''\n"


def test_nothing_of_one_program_is_left_for_the_next(sandbox: Sandbox) -> None:
    run(sandbox, "import builtins, math\nbuiltins.len = lambda x: 99\nmath.pi = 3\nx = 1")
    assert run(sandbox, "import math\nprint(len([]), math.pi > 3, 'x' in globals())")[1] == "0 True False\n"


def test_output_is_what_the_plain_interpreter_prints(sandbox: Sandbox) -> None:
    text = textwrap.dedent(
        """
        from dataclasses import dataclass
        import random, re, json, datetime, decimal
        @dataclass(order=True)
        class Point:
            x: int
            y: float = 0.5
        random.seed(3)
        print(sorted([Point(2), Point(1)]), random.random(), re.sub('a', 'b', 'aba'))
        print(json.dumps({'a': [1, None]}), datetime.date(2024, 2, 28) + datetime.timedelta(days=2))
        print(decimal.Decimal(1) / 7, 0.1 + 0.2, f"{3.14159:.2f}", *map(str.upper, "abc"))
        print(hash("a") != 0, globals().keys() >= {"Point"}, [c.__name__ for c in Point.__mro__])
        """
    )
    plain = subprocess.run([sys.executable, "-S", "-"], input=text, capture_output=True, text=True, check=True).stdout
    for variant in (0, 1):
        with Sandbox(variant=variant) as other:
            assert other.run(text).stdout == plain
    assert run(sandbox, text)[1] == plain


def test_variants_differ_in_what_output_must_not_depend_on() -> None:
    programs = {
        "hash": "print(hash('a'))",
        "address": "print(id(object()))",
        "address in the interpreter": "print(id('x') % 1000003)",
        "set": "print({str(i) for i in range(20)})",
        "day": "import datetime; print(datetime.date.today())",
        "now": "import datetime; print(datetime.datetime.now().year, datetime.datetime.now().month)",
        "clock": "import time; print(time.strftime('%Y-%m'), time.localtime().tm_year)",
        "process": "import os; print(os.getpid())",
        "random": "import random; print(random.random())",
    }
    with Sandbox() as first, Sandbox(variant=1) as second:
        for name, text in programs.items():
            one, two = first.run(text), second.run(text)
            assert one.status is two.status is Status.OK, name
            assert one.stdout != two.stdout, name
        assert first.run("print(hash('a'))") == first.run("print(hash('a'))")


def test_the_kernel_stops_what_the_audit_hook_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    without_hook = "from inside import watch; watch.forbid = lambda *given: lambda: None; server.main"
    monkeypatch.setattr(client, "_BOOT", client._BOOT.replace("server.main", without_hook))
    with Sandbox(Limits(cpu=1, wall=1.5)) as sandbox:
        if not {"seccomp", "landlock"} <= set(sandbox.held_layers()):
            pytest.skip("this kernel has neither seccomp nor Landlock")
        for action, status in {
            "import socket; socket.socket()": Status.FORBIDDEN,
            "import os; os.fork()": Status.FORBIDDEN,
            "open('/tmp/x', 'w')": Status.FORBIDDEN,
            "import os; os.kill(1, 9)": Status.FORBIDDEN,
            "import os; os.system('true')": Status.FORBIDDEN,
            "import threading; threading.Thread(target=print).start()": Status.FORBIDDEN,
            "import ctypes; ctypes.CDLL(None).ptrace(16, 1, 0, 0)": Status.FORBIDDEN,
            "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))": Status.FORBIDDEN,
            "open('/etc/passwd')": Status.ERROR,
            "import os; os.listdir('/')": Status.ERROR,
            "print(open(__import__('os').__file__).readline()[:3])": Status.OK,
        }.items():
            outcome = sandbox.run(action)
            assert outcome.status is status, (action, outcome)
            assert "system call" in outcome.detail or status is not Status.FORBIDDEN, action


def test_layers_are_named_and_tried() -> None:
    said = layers()
    assert said["limits"][0]
    assert said["limits"][1].startswith("The kernel limits")
    assert all(sentence.endswith(".") for _, sentence in said.values())


def test_the_client_survives_the_death_of_its_server(sandbox: Sandbox) -> None:
    process = sandbox._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert sandbox.run(GOOD).stdout == "10\n"


def test_a_server_ends_with_its_client(tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(
        "import os, sys\nfrom veritas_rl.envs.trace.sandbox import Sandbox\n"
        "s = Sandbox(); s.run('1'); print(s._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    guard = int(done.stdout)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{guard}").exists() and _state(guard) != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{guard}").exists() or _state(guard) == "Z"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_forked_process_gets_a_server_of_its_own(sandbox: Sandbox) -> None:
    assert sandbox.run(GOOD).stdout == "10\n"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_run_again, [3, 4]) == ["3\n", "4\n"]
    assert sandbox.run("print(5)").stdout == "5\n"


_inherited = Sandbox()


def _run_again(number: int) -> str:
    return _inherited.run(f"print({number})").stdout


def test_limits_name_what_is_wrong() -> None:
    with pytest.raises(UserError, match="cpu=0 "):
        Limits(cpu=0)
    with pytest.raises(UserError, match=r"wall=-1"):
        Limits(wall=-1)
    with pytest.raises(UserError, match="memory=1 "):
        Limits(memory=1)
