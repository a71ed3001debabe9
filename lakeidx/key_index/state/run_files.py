"""Files of the key state on the object store: one for each run or more, each with segments of many shards.

A file has four areas, of all its segments one after another: heads, blocks, keys, columns (`lakeidx.key_index.state.segments`).
So a look-up over many shards reads one stretch of it. A file gets a name that no other ever has, and is never changed; what is in
it is said by the manifests that name it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.state.entries import Entries
from lakeidx.key_index.state.segments import COLUMN_BYTES, Segment, SegmentHead, decode_entries, decode_head
from lakeidx.storage.base import FileInfo, join
from lakeidx.tasks.in_parallel import REQUESTS, in_parallel

RUN_PREFIX, RUN_SUFFIX = "run-", ".keys"
# Two stretches with less between them are one request: as long as a request takes, so many bytes can come instead.
_GAP_BYTES = 64 << 10
# A request grows by joining up to here.
_JOINED_BYTES = 4 << 20
# Below so many bytes, of a store of this machine, threads take longer to start than their requests.
_FEW_BYTES = 4 << 20


class StateStore(Protocol):
    """What of `lakeidx.storage.base.ObjectStore` a key state needs."""

    @property
    def waits(self) -> bool:
        """True when a request waits for another machine."""
        ...

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""
        ...

    def list(self, dir: str) -> list[FileInfo]:
        """List the files directly below."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a file."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist."""
        ...

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files."""
        ...


class SegmentRef(NamedTuple):
    """Where a segment is.

    file      name of its file
    entries   how many it has
    *_at      offset of a part in the file; the columns have `COLUMN_BYTES` for each entry
    """

    file: str
    entries: int
    head_at: int
    head_bytes: int
    head_crc: int
    blocks_at: int
    blocks_bytes: int
    keys_at: int
    keys_bytes: int
    columns_at: int


class Stretch(NamedTuple):
    """Bytes of a file."""

    file: str
    offset: int
    length: int


class RunFiles:
    """The files of one state. Pickles; threads may share one.

    bytes_read, requests   since it was made
    written                names of the files that were put, and that no manifest names yet
    """

    def __init__(self, store: StateStore, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._heads: dict[SegmentRef, SegmentHead] = {}
        self.bytes_read = 0
        self.requests = 0
        self.written: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFiles, (self._store, self._folder)

    def again(self) -> RunFiles:
        """Return another for the same files, that knows of nothing read or written."""
        return RunFiles(self._store, self._folder)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return join(self._folder, name)

    def write(self, segments: Sequence[Segment]) -> list[SegmentRef]:
        """Put segments into a new file."""
        name = f"{RUN_PREFIX}{uuid.uuid4().hex}{RUN_SUFFIX}"
        parts = [part for area in zip(*(s.parts for s in segments), strict=True) for part in area]
        sizes = [sum(map(len, part)) for part in parts]
        starts = list(accumulate(sizes, initial=0))
        n = len(segments)
        refs = [
            SegmentRef(
                name, s.entries, starts[i], sizes[i], crc32(s.head), starts[n + i], sizes[n + i], starts[2 * n + i],
                sizes[2 * n + i], starts[3 * n + i],
            )
            for i, s in enumerate(segments)
        ]  # fmt: skip
        self._store.put(self.path(name), b"".join(chain.from_iterable(parts)))
        self.written.add(name)
        return refs

    def forget(self, names: Collection[str]) -> None:
        """Delete files."""
        self._store.delete_many([self.path(name) for name in names])
        self.written -= set(names)

    def heads(self, refs: Sequence[SegmentRef]) -> list[SegmentHead]:
        """Read the heads of segments, each once.

        errors   NotFoundError, CorruptFileError
        """
        missing = [ref for ref in dict.fromkeys(refs) if ref not in self._heads]
        read = self.fetch([Stretch(r.file, r.head_at, r.head_bytes) for r in missing])
        for ref, data in zip(missing, read, strict=True):
            if crc32(data) != ref.head_crc:
                raise CorruptFileError("a segment of key state differs from its checksum", path=self.path(ref.file))
            self._heads[ref] = decode_head(bytes(data), self.path(ref.file))
        return [self._heads[ref] for ref in refs]

    def entries(self, refs: Sequence[SegmentRef]) -> list[Entries]:
        """Read whole segments.

        errors   NotFoundError, CorruptFileError
        """
        heads = self.heads(refs)
        keys = [Stretch(r.file, r.keys_at, r.keys_bytes) for r in refs]
        columns = [Stretch(r.file, r.columns_at, COLUMN_BYTES * r.entries) for r in refs]
        read = self.fetch([*keys, *columns])
        return [
            decode_entries(h, k, c, self.path(r.file))
            for r, h, k, c in zip(refs, heads, read[: len(refs)], read[len(refs) :], strict=True)
        ]

    def fetch(self, wanted: Sequence[Stretch]) -> list[memoryview]:
        """Read stretches side by side; near ones with one request.

        errors   NotFoundError; CorruptFileError when a file ends before
        """
        order = sorted(range(len(wanted)), key=lambda i: wanted[i])
        joined: list[Stretch] = []
        of: dict[int, int] = {}
        for i in order:
            want = wanted[i]
            if joined and _joins(joined[-1], want):
                last = joined[-1]
                end = max(last.offset + last.length, want.offset + want.length)
                joined[-1] = Stretch(last.file, last.offset, end - last.offset)
            else:
                joined.append(want)
            of[i] = len(joined) - 1
        size = sum(s.length for s in joined)
        alone = len(joined) < 2 or (size < _FEW_BYTES and not self._store.waits)
        read = in_parallel(self._read, joined, threads=1 if alone else REQUESTS)
        self.requests += len(joined)
        self.bytes_read += size
        out = []
        for i, want in enumerate(wanted):
            start = want.offset - joined[of[i]].offset
            out.append(memoryview(read[of[i]])[start : start + want.length])
        return out

    def _read(self, stretch: Stretch) -> bytes:
        data = self._store.get_range(self.path(stretch.file), stretch.offset, stretch.length)
        if len(data) != stretch.length:
            raise CorruptFileError("a file of key state is shorter than it was written", path=self.path(stretch.file))
        return data


def _joins(first: Stretch, second: Stretch) -> bool:
    """Return True when two stretches in order of their offsets are better read as one."""
    end = first.offset + first.length
    return (
        first.file == second.file
        and second.offset - end <= _GAP_BYTES
        and max(end, second.offset + second.length) - first.offset <= max(_JOINED_BYTES, first.length, second.length)
    )
