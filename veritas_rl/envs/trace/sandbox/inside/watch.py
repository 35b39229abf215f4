"""The interpreter's audit hook, which reports a forbidden operation and ends the process.

The kernel's layers are effective without the hook, but they can only kill or refuse. The hook reports the attempted
operation, and the program cannot catch an exception and continue.
Events are listed in https://docs.python.org/3/library/audit_events.html
"""

import builtins
import os
import sys
from collections.abc import Callable
from typing import Any

__builtins__ = vars(builtins).copy()  # the functions of this module use this copy; a program may empty the original

_FORBIDDEN = frozenset(
    [
        "os.fork",
        "os.forkpty",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "os.kill",
        "os.killpg",
        "pty.spawn",
        "subprocess.Popen",
        "_thread.start_new_thread",
        "_thread.start_joinable_thread",
        "signal.pthread_kill",
        "os.remove",
        "os.rename",
        "os.link",
        "os.symlink",
        "os.mkdir",
        "os.rmdir",
        "os.chmod",
        "os.chown",
        "os.lchmod",
        "os.chflags",
        "os.lockf",
        "os.truncate",
        "os.utime",
        "os.setxattr",
        "os.removexattr",
        "os.getxattr",
        "os.listxattr",
        "os.chroot",
        "shutil.copyfile",
        "shutil.move",
        "shutil.rmtree",
        "shutil.copytree",
        "shutil.make_archive",
        "shutil.unpack_archive",
        "tempfile.mkstemp",
        "tempfile.mkdtemp",
        "fcntl.flock",
        "fcntl.lockf",
        "resource.setrlimit",
        "resource.prlimit",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.dlsym/handle",
        "ctypes.call_function",
        "ctypes.cdata",
        "ctypes.string_at",
        "ctypes.wstring_at",
        "webbrowser.open",
        "syslog.openlog",
        "syslog.syslog",
    ]
)
_FORBIDDEN_FAMILIES = frozenset(("socket", "urllib", "ftplib", "smtplib", "imaplib", "poplib", "telnetlib", "nntplib"))
_READS_FOLDERS = frozenset(("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.chdir", "glob.glob"))
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STANDARD_STREAMS = (0, 1, 2)


def forbid(folders: list[str], end: Callable[[str], None]) -> Callable[[], None]:
    """Install the hook as inactive, because the process that forks programs performs some of these operations itself.

    Args:
        folders: The folders that may be read.
        end: Called with the attempted operation; must not return.

    Returns:
        A function that makes the hook active for the rest of the process's life.
    """
    active = False
    inside = tuple(folder + os.sep for folder in folders)

    def may_read(path: Any) -> bool:
        name = os.fsdecode(path) if isinstance(path, bytes) else path
        if not isinstance(name, str):
            return False
        # After a syntax error the interpreter looks for a file with the name of the source, such as "<string>".
        no_file = name.startswith("<") and name.endswith(">") and os.sep not in name
        return no_file or name in folders or (name.startswith(inside) and ".." not in name)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not active:
            return
        if event == "open":
            path, _, flags = arguments
            if path in _STANDARD_STREAMS and isinstance(path, int):
                return
            if not may_read(path) or (isinstance(flags, int) and flags & _WRITING):
                end(f"open({path!r})")
        elif event in _FORBIDDEN or event.partition(".")[0] in _FORBIDDEN_FAMILIES:
            end(event)
        elif event in _READS_FOLDERS and not may_read(arguments[0]):
            end(f"{event}({arguments[0]!r})")

    def activate() -> None:
        nonlocal active
        active = True

    sys.addaudithook(hook)
    return activate
