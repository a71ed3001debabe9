"""Writes Avro files of records that are encoded already, as long as they may get: for files that are rolled at a size."""

from __future__ import annotations

import secrets

from lakeidx.codec.containers.avro import BLOCK_BYTES, SYNC_SIZE, compressor, encode_long, file_head


class RecordCopier:
    """One Avro object container file, in memory.

    schema   JSON text of the schema the records were written with
    codec    as `lakeidx.codec.containers.avro.encode_container` takes it
    errors   InvalidInputError for another codec
    """

    def __init__(self, schema: str, *, codec: str, level: int) -> None:
        self._compress = compressor(codec, level)
        self._sync = secrets.token_bytes(SYNC_SIZE)
        self._out = [file_head(schema, codec, self._sync)]
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.size = len(self._out[0])

    def add(self, record: bytes) -> bool:
        """Add a record; True when it closed a block, so that `size` has changed."""
        self._pending.append(record)
        self._pending_bytes += len(record)
        if self._pending_bytes < BLOCK_BYTES:
            return False
        self._close_block()
        return True

    def finish(self) -> bytes:
        """Return the file."""
        if self._pending:
            self._close_block()
        return b"".join(self._out)

    def _close_block(self) -> None:
        body = self._compress(b"".join(self._pending))
        parts = (encode_long(len(self._pending)), encode_long(len(body)), body, self._sync)
        self._out += parts
        self.size += sum(map(len, parts))
        self._pending, self._pending_bytes = [], 0
