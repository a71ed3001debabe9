"""Stores of the key state: RocksDB on a local disk, and plain memory.

RocksDB is used through `rocksdict` in raw mode. Its write-ahead log is off: a state says itself whether it is complete
(`KeyState.begin`, `commit`), and `sync` flushes what must be on disk when it says so.
"""

from __future__ import annotations

import bisect
import fcntl
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lakeidx.errors import CorruptFileError, UnavailableError, UnsupportedError

try:
    import rocksdict
except ImportError:  # the extra `state` is not installed
    rocksdict = None  # type: ignore[assignment]

_WRITE_BUFFER_BYTES = 64 << 20
_BLOCK_BYTES = 64 << 10
_POLL_SECONDS = 0.02
_IN_USE = "another process has the key state open; give each writer its own index.state.dir"


class MemoryStore:
    """A store in this process; gone with it."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._order: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        """Read the value of a key."""
        return self._values.get(key)

    def keys(self, start: bytes, stop: bytes) -> Iterator[bytes]:
        """Return the keys from start up to stop."""
        low = bisect.bisect_left(self._order, start)
        yield from self._order[low : bisect.bisect_left(self._order, stop, low)]

    def items(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries with start <= key < stop."""
        for key in self.keys(start, stop):
            yield key, self._values[key]

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        """Write and delete entries."""
        for key in deletes:
            if self._values.pop(key, None) is not None:
                del self._order[bisect.bisect_left(self._order, key)]
        new = [k for k, _ in puts if k not in self._values]
        self._values.update(puts)
        if len(new) > 1:
            self._order = sorted({*self._order, *new})
        elif new:
            bisect.insort(self._order, new[0])


class RocksStore:
    """A RocksDB database in a directory, which one process at a time may have open.

    cache_bytes   memory for blocks that were read
    errors        CorruptFileError when the directory holds no database that can be opened; UnavailableError when another
                  program has it open; UnsupportedError without the library
    """

    def __init__(self, directory: Path, *, cache_bytes: int) -> None:
        if rocksdict is None:
            raise UnsupportedError("index type state needs the package rocksdict: pip install 'lakeidx[state]'")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_max_open_files(512)
        options.increase_parallelism(2)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(cache_bytes))
        table.set_block_size(_BLOCK_BYTES)
        options.set_block_based_table_factory(table)
        try:
            self._db: Any = rocksdict.Rdict(str(directory), options)
        except Exception as error:  # rocksdict raises bare Exception for whatever RocksDB says
            if any(words in str(error).lower() for words in ("lock file", "lock hold")):
                raise UnavailableError(_IN_USE, path=str(directory)) from error
            raise CorruptFileError(
                f"the key state's database cannot be opened: {error}", path=str(directory)
            ) from error
        writing: Any = rocksdict.WriteOptions()  # its stub calls the attribute a method
        writing.disable_wal = True
        self._db.set_write_options(writing)

    def get(self, key: bytes) -> bytes | None:
        """Read the value of a key."""
        found: bytes | None = self._db.get(key)
        return found

    def keys(self, start: bytes, stop: bytes) -> Iterator[bytes]:
        """Return the keys from start up to stop."""
        yield from self._db.keys(from_key=start, read_opt=_until(stop))

    def items(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries with start <= key < stop."""
        yield from self._db.items(from_key=start, read_opt=_until(stop))

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        """Write and delete entries in one batch."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in puts:
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        self._db.write(batch)

    def sync(self) -> None:
        """Flush everything to disk."""
        self._db.flush()

    def checkpoint(self, directory: Path) -> None:
        """Make a consistent copy (hard links where possible) in a directory that must not exist."""
        self._db.flush()
        rocksdict.Checkpoint(self._db).create_checkpoint(str(directory))

    def close(self) -> None:
        """Release the directory."""
        self._db.close()


class DirectoryLock:
    """Holds a database's directory for one user, from before it is examined until after it is closed.

    RocksDB's own lock is inside the directory and goes when the directory is cleared, so this one is beside it. It is
    the operating system's: a process that dies lets go.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory.with_name(f"{directory.name}.lock")
        self._file: IO[bytes] | None = None

    def acquire(self, wait: float) -> None:
        """Acquire the lock, unless it is held already; waits so many seconds.

        errors   UnavailableError when another writer holds it all the time
        """
        if self._file is not None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._path.open("ab")
        give_up = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    file.close()
                    raise UnavailableError(_IN_USE, path=str(self._path)) from None
            time.sleep(_POLL_SECONDS)
        self._file = file

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None:
            self._file.close()
            self._file = None


def clear_directory(directory: Path) -> None:
    """Delete a database that is not open."""
    shutil.rmtree(directory, ignore_errors=True)


def _until(stop: bytes) -> Any:
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(stop)
    return options
