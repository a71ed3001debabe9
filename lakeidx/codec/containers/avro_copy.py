"""Writes Avro files of records or blocks that are encoded already: for files that are rolled at a size, or changed in part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate, islice, takewhile

from lakeidx.codec.containers.avro import BLOCK_BYTES
from lakeidx.codec.containers.avro_codecs import compressor
from lakeidx.codec.containers.avro_head import SYNC_SIZE, file_head, framed, head_size


class RecordCopier:
    """One Avro object container file, in memory.

    schema   JSON text of the schema the records were written with
    codec    as `lakeidx.codec.containers.avro.encode_container` takes it
    errors   InvalidInputError for another codec
    """

    def __init__(self, schema: str, *, codec: str, level: int) -> None:
        self._compress = compressor(codec, level)
        self._sync = os.urandom(SYNC_SIZE)
        self._schema, self._codec = schema, codec
        self._blocks: list[bytes | memoryview] = []
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.size = head_size(schema, codec)

    @property
    def pending(self) -> bool:
        """True when records wait for their block to be closed, so that they are not part of `size`."""
        return bool(self._pending)

    def add(self, records: Sequence[bytes], first: int = 0) -> int:
        """Add records from position `first` on, up to the one that closes a block; return the position after the last one added."""
        sizes = accumulate(map(len, islice(records, first, None)), initial=self._pending_bytes)
        below = [*takewhile(BLOCK_BYTES.__gt__, sizes)]
        last = first + len(below)
        self._pending += records[first:last]
        self._pending_bytes = below[-1]
        if last > len(records):
            return len(records)
        self._close_block()
        return last

    def add_all(self, records: Sequence[bytes]) -> None:
        """Add records."""
        at = 0
        while at < len(records):
            at = self.add(records, at)

    def add_block(self, count: int, body: bytes | memoryview) -> None:
        """Add a block of the same codec as it is, of so many records; records that wait for their own block follow it."""
        parts = framed(count, body, self._sync)
        self._blocks += parts
        self.size += sum(map(len, parts))

    def finish(self) -> bytes:
        """Return the file."""
        if self._pending:
            self._close_block()
        return b"".join((file_head(self._schema, self._codec, self._sync, self._blocks), *self._blocks))

    def _close_block(self) -> None:
        self.add_block(len(self._pending), self._compress(b"".join(self._pending)))
        self._pending, self._pending_bytes = [], 0
