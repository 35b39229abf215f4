"""Stores truths in a file that all processes of a machine share, so that programs are not run again.

The file is an SQLite database. A truth can always be computed again, so speed is more important than durability: a
damaged file is replaced, and an unusable file is ignored.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import weakref
import zlib
from pathlib import Path

MOST_ROWS = 100_000
_TRIM_EVERY = 500
_LOCKED_SECONDS = 5.0
_SCHEMA = """
create table if not exists truths (
    number integer primary key autoincrement, key blob not null unique, reason text not null, text blob not null
)
"""
_log = logging.getLogger(__name__)


class TruthCache:
    """Truths by key, in one file. The oldest rows are deleted from time to time if there are more than `most`."""

    def __init__(self, path: Path, most: int = MOST_ROWS) -> None:
        self.path = path
        self.most = most
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._usable = True
        self._written = 0
        _caches.add(self)

    def get(self, key: bytes) -> tuple[str, str] | None:
        """The reason and the text that are stored under a key; None if there are none."""
        row = self._do("select reason, text from truths where key = ?", (key,))
        if not row:
            return None
        try:
            return row[0], zlib.decompress(row[1]).decode()
        except (zlib.error, UnicodeDecodeError, TypeError):
            return None

    def put(self, key: bytes, reason: str, text: str) -> None:
        """Store a reason and a text. An existing row of the key is not replaced."""
        row = (key, reason, zlib.compress(text.encode(), 1))
        self._do("insert or ignore into truths (key, reason, text) values (?, ?, ?)", row)
        self._written += 1
        if self._written % _TRIM_EVERY == 0:
            self._do("delete from truths where number <= (select max(number) from truths) - ?", (self.most,))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _do(self, statement: str, values: tuple[object, ...]) -> tuple[str, bytes] | None:
        """Run a statement, and return its first row. Without a usable file, do nothing."""
        with self._lock:
            for _ in range(2):
                if not self._usable:
                    return None
                try:
                    if self._connection is None:
                        self._connection = self._open()
                    return self._connection.execute(statement, values).fetchone()
                except sqlite3.OperationalError as error:
                    # The file is locked for a long time, the disk is full, or the folder is not writable.
                    if "locked" not in str(error):
                        self._give_up(error)
                    return None
                except sqlite3.DatabaseError as error:
                    self._replace(error)
                except OSError as error:
                    self._give_up(error)
        return None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # With isolation level None (autocommit), each statement is its own transaction.
        connection = sqlite3.connect(
            self.path, timeout=_LOCKED_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=8
        )
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = off")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _replace(self, error: Exception) -> None:
        """Remove a damaged file. Processes that have it open continue to use it until they end."""
        _log.warning("the cache of truths %s is damaged (%s) and is replaced", self.path, error)
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        try:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as refused:
            self._give_up(refused)

    def _give_up(self, error: Exception) -> None:
        _log.warning("the cache of truths %s is not used: %s", self.path, error)
        self._usable = False

    def _forget(self) -> None:
        """In a forked child, release the connection: SQLite connections must be neither used nor closed there."""
        self._lock = threading.Lock()
        if self._connection is not None:
            _inherited.append(self._connection)
        self._connection = None


_caches: weakref.WeakSet[TruthCache] = weakref.WeakSet()
_inherited: list[sqlite3.Connection] = []


def _forget_all() -> None:
    for cache in list(_caches):
        cache._forget()


os.register_at_fork(after_in_child=_forget_all)
