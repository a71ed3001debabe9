"""Blocks of rows as bytes, for runners whose tasks are processes: compressed Arrow streams with the target of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakeidx.tasks.routed_rows import GroupBlock, TargetGroups

#: Arrow bytes of one block before compression; keeps a block far below Spark's 2 GiB limit for one value.
BLOCK_BYTES = 64 << 20

# Keys of a block's Arrow schema: which targets its rows go to, and how many go to each.
_TARGETS, _LENGTHS = b"lakeidx.targets", b"lakeidx.lengths"


def encode_block(block: GroupBlock, groups: TargetGroups, *, compression: str | None = "zstd") -> Iterator[pa.Buffer]:
    """Encode a block, in pieces of at most `BLOCK_BYTES`; each can be decoded alone.

    compression   "zstd", "lz4" or None, as the way goes that it takes
    """
    rows = block.rows
    alone = groups.sizes[block.group] == 1
    # A group of many targets is small by its making; only a target that is alone comes in pieces.
    pieces = max(1, -(-rows.nbytes // BLOCK_BYTES)) if alone else 1
    length = max(1, -(-rows.num_rows // pieces))
    codec = pa.Codec("zstd", compression_level=1) if compression == "zstd" else compression
    options = pa.ipc.IpcWriteOptions(compression=codec)
    for start in range(0, max(rows.num_rows, 1), length):
        cut = rows.slice(start, length)
        lengths = np.array([cut.num_rows], np.int64) if alone else block.lengths
        schema = rows.schema.with_metadata(
            {
                **(rows.schema.metadata or {}),
                _TARGETS: block.targets.astype("<i4").tobytes(),
                _LENGTHS: lengths.astype("<i8").tobytes(),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=options) as writer:
            writer.write_table(cut)
        yield sink.getvalue()


def decode_block(group: int, order: int, payload: pa.Buffer) -> GroupBlock:
    """Decode a piece that `encode_block` made."""
    rows = pa.ipc.open_stream(payload).read_all()
    metadata = dict(rows.schema.metadata)
    targets = np.frombuffer(metadata.pop(_TARGETS), "<i4")
    lengths = np.frombuffer(metadata.pop(_LENGTHS), "<i8")
    return GroupBlock(group, order, rows.replace_schema_metadata(metadata or None), targets, lengths)
