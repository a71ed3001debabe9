"""Blocks of rows between the tasks of a shuffle: as bytes, and in local files that are deleted when the shuffle ends.

A block is an Arrow stream with the targets of its rows. Between the tasks of one machine, a map task writes its blocks one after
another into a file of its own, which no other attempt of that task writes; a reduce task gets where each block lies. The
process that shuffles makes the folder of these files and holds its lock as long as it runs: a folder whose process was killed has
none, and the next shuffle of the machine removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from lakeidx.errors import UnavailableError
from lakeidx.tasks.routed_rows import GroupBlock, TargetGroups

#: Columns of a small block are written together.
_BUFFER_BYTES = 256 << 10
_PREFIX = "lakeidx-shuffle-"
#: How often a folder is removed into which tasks write that have not heard yet that theirs is over.
_REMOVALS = 3


@contextmanager
def block_folder(place: str | None = None) -> Iterator[str]:
    """Make a folder for the blocks of one shuffle, deleted with its files at the end; remove what killed processes left.

    place    where to make it; None = the system's folder for temporary files
    errors   UnavailableError when it cannot be made
    """
    place = place or tempfile.gettempdir()
    _sweep(place)
    try:
        folder, lock = _locked_folder(place)
    except OSError as error:
        raise UnavailableError(f"cannot create a folder for shuffle files: {error.strerror}", path=place) from error
    try:
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


class BlockWriter(AbstractContextManager["BlockWriter"]):
    """Writes the blocks of one task, or of one item, into a new file of a folder; the first one makes it."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, f"{uuid.uuid4().hex}.blocks")
        self._file: BinaryIO | None = None

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return self._path.name

    def write(self, block: GroupBlock, groups: TargetGroups) -> Iterator[tuple[int, int]]:
        """Append a block in pieces, as `encode_block` cuts them; yield the first byte of each in the file, and how many it has.

        They are not compressed: they are read again within seconds, mostly before the disk has them. Columns go into the file as
        they lie in memory, for new memory for a copy may cost as much as sorting the rows.

        errors   UnavailableError for a full or failing disk
        """
        for piece in _pieces(block, groups):
            try:
                if self._file is None:
                    self._file = self._path.open("xb", buffering=_BUFFER_BYTES)
                start = self._file.tell()
                _write_stream(piece, self._file)
                # A full disk is to be said by the block that it has no place for.
                self._file.flush()
                size = self._file.tell() - start
            except OSError as error:
                raise UnavailableError(
                    f"cannot write the shuffle file: {error.strerror}", path=str(self._path)
                ) from error
            yield start, size

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            # Blocks are flushed one by one: all that may be left is of one that could not be written, which has been said.
            with suppress(OSError):
                self._file.close()


def take_block(folder: str, name: str, start: int, size: int) -> pa.Buffer:
    """Read a block.

    errors   UnavailableError when the file is gone or ends before the block does
    """
    path = Path(folder, name)
    payload = pa.allocate_buffer(size)
    try:
        # Opened for each block: there may be more files than a process may have open.
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            left = memoryview(payload)
            while len(left) and (count := file.readinto(left)):
                left = left[count:]
    except OSError as error:
        raise UnavailableError(f"cannot read the shuffle file: {error.strerror}", path=str(path)) from error
    if len(left):
        raise UnavailableError(
            f"the shuffle file is cut short: {len(left)} of {size} bytes are missing", path=str(path), offset=start
        )
    return payload


def _locked_folder(place: str) -> tuple[str, int | None]:
    while True:
        folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
        try:
            lock = _lock(folder)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.ENOENT):
                # A file system without locks: nobody else gets one there either, and what a killed process leaves stays.
                return folder, None
        else:
            # Another process may have taken it for one that was left: before there was a lock.
            if os.path.isdir(folder):
                return folder, lock
            os.close(lock)


def _lock(folder: str) -> int:
    """Lock a folder; the lock ends with the process at the latest.

    errors   OSError when someone else has it, or there is no such folder
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held


def _sweep(place: str) -> None:
    """Remove the folders of dead processes; other users' stay."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    lock = _lock(entry.path)
                    _remove(entry.path)
                    os.close(lock)


def _remove(folder: str) -> None:
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.isdir(folder):
            return


#: Arrow bytes of one block before compression; keeps a block far below Spark's 2 GiB limit for one value.
BLOCK_BYTES = 64 << 20

# Keys of a block's Arrow schema: which targets its rows go to, and how many go to each.
_TARGETS, _LENGTHS = b"lakeidx.targets", b"lakeidx.lengths"


def encode_block(block: GroupBlock, groups: TargetGroups) -> Iterator[pa.Buffer]:
    """Encode a block to be sent, in compressed pieces of at most `BLOCK_BYTES`; each can be decoded alone."""
    for piece in _pieces(block, groups):
        sink = pa.BufferOutputStream()
        _write_stream(piece, sink, pa.Codec("zstd", compression_level=1))
        yield sink.getvalue()


def _write_stream(piece: pa.Table, sink: BinaryIO | pa.NativeFile, codec: pa.Codec | None = None) -> None:
    with pa.ipc.new_stream(sink, piece.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(piece)


def _pieces(block: GroupBlock, groups: TargetGroups) -> Iterator[pa.Table]:
    rows = block.rows
    alone = groups.sizes[block.group] == 1
    # A group of many targets is small by its making; only a target that is alone comes in pieces.
    pieces = max(1, -(-rows.nbytes // BLOCK_BYTES)) if alone else 1
    length = max(1, -(-rows.num_rows // pieces))
    for start in range(0, max(rows.num_rows, 1), length):
        cut = rows.slice(start, length)
        lengths = np.array([cut.num_rows], np.int64) if alone else block.lengths
        yield cut.replace_schema_metadata(
            {
                **(rows.schema.metadata or {}),
                _TARGETS: block.targets.astype("<i4").tobytes(),
                _LENGTHS: lengths.astype("<i8").tobytes(),
            }
        )


def decode_block(group: int, order: int, payload: pa.Buffer) -> GroupBlock:
    """Decode a piece of a block."""
    rows = pa.ipc.open_stream(payload).read_all()
    metadata = dict(rows.schema.metadata)
    targets = np.frombuffer(metadata.pop(_TARGETS), "<i4")
    lengths = np.frombuffer(metadata.pop(_LENGTHS), "<i8")
    return GroupBlock(group, order, rows.replace_schema_metadata(metadata or None), targets, lengths)


def release_free_memory() -> None:
    """Return free memory of this process to the machine.

    Arrow's pool and the C library keep what they are given back: after a task that held much, the next one, with other sizes, takes
    its memory beside that.
    """
    pa.default_memory_pool().release_unused()
    # Of glibc alone.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
