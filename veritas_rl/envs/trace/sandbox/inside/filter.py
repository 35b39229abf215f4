"""The system calls that a sandboxed program may make: a seccomp filter in classic BPF.

The filter lists the allowed calls. Any other call, including opening a file for writing, ends the process with SIGSYS,
except `ioctl` and `tgkill`, which fail with an error. The numbers are from the kernel's tables (`syscall_64.tbl`,
`asm-generic/unistd.h`, `linux/seccomp.h`).
"""

import ctypes
import os
import struct

from . import kernel

_SECCOMP_SET_MODE_FILTER = 1
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY = 1, 25
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}
_SECCOMP = (317, 277)

_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "close": (3, 57),
    "lseek": (8, 62),
    "stat": (4, None),
    "lstat": (6, None),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "getdents64": (217, 61),
    "ftruncate": (77, 46),
    "fcntl": (72, 25),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "sigaltstack": (131, 132),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getitimer": (36, 102),
    "pause": (34, None),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getgroups": (115, 158),
    "getpgrp": (111, None),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "umask": (95, 166),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "getpriority": (140, 141),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "time": (201, None),
    "gettimeofday": (96, 169),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "getrandom": (318, 278),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_OPEN, _OPENAT, _IOCTL, _PRLIMIT, _TGKILL = (2, None), (257, 56), (16, 29), (302, 261), (234, 131)

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """`struct sock_fprog`: the number of instructions and their address."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class Filter:
    """A filter that is ready to install. The constructor does all work that is possible before the fork."""

    def __init__(self, code: bytes) -> None:
        self._program = _Program(len(code) // 8, code)
        self._arguments = _SECCOMP[_COLUMN[kernel.machine()]], _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(self._program)
        self._call = _libc.syscall

    def install(self) -> bool:
        """Install the filter in this process permanently. This needs `no_new_privs`.

        Returns:
            Whether the kernel accepted the filter.
        """
        return self._call(*self._arguments) == 0


def compile_filter() -> Filter | None:
    """The filter for this processor, or None for a processor without numbers in the table."""
    name = kernel.machine()
    if name not in _COLUMN:
        return None
    column = _COLUMN[name]
    # struct seccomp_data: the call's number at offset 0, the architecture at 4, six arguments of 8 bytes from 16.
    code = [_step(_LOAD, 4), _step(_EQUAL, _ARCHITECTURE[name], 1, 0), _step(_RETURN, _KILL), _step(_LOAD, 0)]
    if name == "x86_64":  # numbers from 0x40000000 on belong to the x32 ABI, which Python does not use
        code += [_step(_AT_LEAST, 0x40000000, 0, 1), _step(_RETURN, _KILL)]
    for numbers in _ALLOWED.values():
        number = numbers[column]
        if number is not None:
            code += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ALLOW)]
    code += [_step(_EQUAL, _IOCTL[column], 0, 1), _step(_RETURN, _ERRNO | _ENOTTY)]
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)):
        number = numbers[column]
        if number is not None:
            code += _when(number, [_load(argument), _step(_ANY_BIT, _WRITING, 0, 1), _step(_RETURN, _KILL)])
    # prlimit64 may read the limits of any process: the pointer to a new limit, both its halves, must be null.
    none_given = [_load(2), _step(_EQUAL, 0, 1, 0), _step(_RETURN, _KILL)]
    none_given += [_step(_LOAD, 16 + 8 * 2 + 4), _step(_EQUAL, 0, 1, 0), _step(_RETURN, _KILL)]
    code += _when(_PRLIMIT[column], none_given)
    # abort() signals its own process by tgkill. If tgkill fails, abort() ends the process by an illegal instruction.
    code += [_step(_EQUAL, _TGKILL[column], 0, 1), _step(_RETURN, _ERRNO | _EPERM)]
    return Filter(b"".join([*code, _step(_RETURN, _KILL)]))


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction: `struct sock_filter`."""
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def _load(argument: int) -> bytes:
    """Load the low half of an argument."""
    return _step(_LOAD, 16 + 8 * argument)


def _when(number: int, steps: list[bytes]) -> list[bytes]:
    """For call `number`, run `steps`, and allow the call unless a step returns another verdict."""
    return [_step(_EQUAL, number, 0, len(steps) + 1), *steps, _step(_RETURN, _ALLOW)]
