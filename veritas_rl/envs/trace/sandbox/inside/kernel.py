"""The kernel's layers of the sandbox: namespaces, an empty file system, Landlock, no capabilities.

Each function sets up one layer and returns whether the kernel accepted it. The numbers are from the kernel's headers
(`linux/sched.h`, `linux/prctl.h`, `linux/landlock.h`, `linux/capability.h`, `linux/mount.h`).
"""

import contextlib
import ctypes
import os
import struct
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION_3 = 0x20080522

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2

_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_READ_FILE, _LANDLOCK_READ_DIR = 1 << 2, 1 << 3
_LANDLOCK_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""The number of file rights of each version of Landlock; later versions are used like version 5."""


def machine() -> str:
    """The kernel's name of the processor, such as `x86_64`."""
    return os.uname().machine


def prctl(option: int, argument: int) -> bool:
    return _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) == 0


def die_with_parent() -> bool:
    return prctl(_PR_SET_PDEATHSIG, 9)


def enter_namespaces() -> set[str]:
    """Move this process into new namespaces. The `pid` namespace applies to its next child.

    Returns:
        The granted ones of `user`, `net`, `mount`, `pid`, `ipc` and `uts`.
    """
    kinds = {"net": CLONE_NEWNET, "mount": CLONE_NEWNS, "pid": CLONE_NEWPID, "ipc": CLONE_NEWIPC, "uts": CLONE_NEWUTS}
    user, group = os.geteuid(), os.getegid()
    given: set[str] = set()
    if _libc.unshare(CLONE_NEWUSER) == 0:
        given.add("user")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError):
                _write(f"/proc/self/{name}", text)
    given.update(name for name, flag in kinds.items() if _libc.unshare(flag) == 0)
    if "uts" in given:
        _libc.sethostname(b"sandbox", 7)
    return given


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def readable_folders() -> list[str]:
    """The folders that imports of the standard library read: its own, and that of the C library."""
    library = Path(os.__file__).parent
    folders = {str(library), str(library.resolve())}
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text().splitlines()
        names = [line.split(maxsplit=5)[5] for line in lines if "/libc.so" in line or "/libc-" in line]
        folders.update(str(Path(name).parent) for name in names)
    return sorted(folders)


def leave_file_system(folders: list[str]) -> bool:
    """Replace the root folder by a read-only one with only `folders`. This needs a mount namespace.

    Returns:
        Whether the root is replaced. If not, the process sees the same files as before.
    """
    if not _mount(None, "/", None, _MS_REC | _MS_PRIVATE):
        return False
    if not _mount("tmpfs", _ROOT, "tmpfs", _MS_NOSUID | _MS_NODEV):
        return False
    try:
        left = _fill_root(folders) and _enter_root()
    except OSError:  # without a user mapping, a user namespace may not write to the new root
        left = False
    if not left:
        os.chdir("/")
        _libc.umount2(_ROOT.encode(), _MNT_DETACH)
    return left


_ROOT = "/tmp"
"""The mount point for building the new root; any existing folder works."""


def _fill_root(folders: list[str]) -> bool:
    for folder in folders:
        inner = _ROOT + folder
        Path(inner).mkdir(parents=True, exist_ok=True)
        if not _mount(folder, inner, None, _MS_BIND | _MS_REC):
            return False
        # A user namespace may not clear mount flags that the host set, so sets of flags are tried in turn.
        for flags in (_MS_NOSUID | _MS_NODEV, _MS_NOSUID, 0):
            if _mount(None, inner, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags):
                break
        else:
            return False
    # Libraries are found through /lib and /lib64, which on most systems are links to folders of /usr.
    for link in (Path("/lib"), Path("/lib64")):
        if link.is_symlink() and not Path(f"{_ROOT}{link}").exists():
            Path(f"{_ROOT}{link}").symlink_to(link.readlink())
    return _mount(None, _ROOT, None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _enter_root() -> bool:
    os.chdir(_ROOT)
    # pivot_root(".", ".") stacks the old root on the new root, so the old root needs no mount point.
    if _libc.syscall(_SYS_PIVOT_ROOT.get(machine(), -1), b".", b".") != 0:
        return False
    _libc.umount2(b".", _MNT_DETACH)
    os.chdir("/")
    return True


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> bool:
    encoded = [None if word is None else word.encode() for word in (source, target, kind)]
    return _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), None) == 0


def restrict_files(folders: list[str]) -> int:
    """Let Landlock refuse all access to files except reading in `folders`, and from version 4 on all TCP.

    Returns:
        The version of the active Landlock; 0 if it is not active.
    """
    version = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return 0
    rights = (1 << _LANDLOCK_FILE_RIGHTS[min(version, 5)]) - 1
    # struct landlock_ruleset_attr: file rights, network rights (version 4), scopes (version 6).
    words = [rights] + [0b11] * (version >= 4) + [0b11] * (version >= 6)
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = _libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return 0
    try:
        for folder in folders:
            handle = os.open(folder, os.O_PATH)
            rule = struct.pack("=Qi", _LANDLOCK_READ_FILE | _LANDLOCK_READ_DIR, handle)
            added = _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
            os.close(handle)
            if added != 0:
                return 0
        if not prctl(_PR_SET_NO_NEW_PRIVS, 1) or _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) != 0:
            return 0
    finally:
        os.close(ruleset)
    return version


def drop_privileges() -> bool:
    """Drop all capabilities permanently, and stop other processes of the same user from inspecting this process.

    Returns:
        Whether the capabilities are dropped.
    """
    no_new = prctl(_PR_SET_NO_NEW_PRIVS, 1)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    dropped = _libc.syscall(_SYS_CAPSET.get(machine(), -1), header, bytes(24)) == 0
    prctl(_PR_SET_DUMPABLE, 0)
    return no_new and dropped
