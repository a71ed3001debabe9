"""Copied records are compared with a model that looks at one record after the other."""

from __future__ import annotations

import random

import pytest

from lakeidx.codec.containers.avro import packed_blocks
from lakeidx.codec.containers.avro_write import BLOCK_BYTES, RecordCopier

SCHEMA = '{"type":"record","name":"record","fields":[{"name":"a","type":"bytes"}]}'


def blocks_of(records: list[bytes]) -> list[bytes]:
    """Blocks that end with the record that brings them to their size."""
    blocks, block = list[bytes](), b""
    for record in records:
        block += record
        if len(block) >= BLOCK_BYTES:
            blocks.append(block)
            block = b""
    return [*blocks, block] if block else blocks


@pytest.mark.parametrize("sizes", [[], [1], [BLOCK_BYTES], [BLOCK_BYTES - 1, 1, 1], [BLOCK_BYTES * 3, 5], "random"])
@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_block_ends_with_the_record_that_fills_it(sizes: list[int] | str, at_once: int) -> None:
    draw = random.Random(7)
    lengths = [draw.randrange(1, 30_000) for _ in range(60)] if isinstance(sizes, str) else sizes
    records = [bytes([i % 251]) * n for i, n in enumerate(lengths)]
    copier = RecordCopier(SCHEMA, codec="null", level=1)
    for first in range(0, len(records), at_once):
        part, at = records[first : first + at_once], 0
        while at < len(part):
            at = copier.add(part, at)
    _, _, blocks = packed_blocks(copier.finish())
    assert [bytes(b.packed) for b in blocks] == blocks_of(records)


def test_adding_stops_where_a_block_is_closed() -> None:
    copier = RecordCopier(SCHEMA, codec="null", level=1)
    records = [bytes(BLOCK_BYTES // 2)] * 5
    empty = copier.size
    assert copier.add(records) == 2
    assert not copier.pending
    assert copier.size > empty + BLOCK_BYTES - 1
    filled = copier.size
    assert copier.add(records, 2) == 4
    assert copier.add(records, 4) == 5
    assert copier.pending
    assert copier.size < 3 * filled - 2 * empty
