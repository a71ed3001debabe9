"""Keys on their way to placing tasks: what arrives is what was sent, and a task holds no more of it than its rows need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.batch.assignment.row_keys import ReceivedKeys, RowKeys, rows_to_route
from lakeidx.tasks.blocks import decode_block, encode_block
from lakeidx.tasks.routed_rows import Block, RoutedRows, cut_rows, group_targets

ROWS = 100_000


def sent(keys: RowKeys, retract: np.ndarray | None = None) -> Block:
    """Take all rows of a part through the bytes that go to one task."""
    groups = group_targets([len(keys)], 1)
    (cut,) = cut_rows(RoutedRows(7, rows_to_route(keys, retract), np.zeros(len(keys), np.int32)), groups)
    (payload,) = encode_block(cut, groups)
    (block,) = decode_block(0, 7, payload).blocks()
    return block


@pytest.mark.parametrize("partitions", [1, 2, 128, 129, 40_000])
def test_what_arrives_is_what_was_sent(partitions: int) -> None:
    rng = np.random.default_rng(partitions)
    codes = rng.integers(0, partitions, ROWS).astype(np.int32)
    hashes = rng.integers(-(1 << 31), 1 << 31, ROWS).astype(np.int32)
    names = tuple(b"p%d" % i for i in range(partitions))
    retract = rng.random(ROWS) < 0.1
    received = ReceivedKeys()
    received.add(sent(RowKeys(names, codes, hashes), retract))
    (part,) = received.parts
    there = [part.keys.partitions[code] for code in part.keys.codes]
    assert there == [names[code] for code in codes]
    assert part.keys.hashes.tolist() == hashes.tolist()
    assert part.rows.number == 7
    assert part.rows.at is not None
    assert part.rows.at.tolist() == list(range(ROWS))
    assert part.retract is not None
    assert part.retract.tolist() == retract.tolist()
    assert part.ranks is not None
    assert [names[rank] for rank in part.ranks] == list(part.keys.partitions)


def test_a_task_holds_the_positions_and_hashes_of_its_rows_and_no_blocks() -> None:
    received, before = ReceivedKeys(), pa.total_allocated_bytes()
    for number in range(5):
        hashes = np.arange(ROWS, dtype=np.int32) * number
        received.add(sent(RowKeys((b"only",), np.zeros(ROWS, np.int32), hashes)))
    assert pa.total_allocated_bytes() - before < ROWS
    for part in received.parts:
        held = [part.rows.at, part.keys.hashes, part.keys.codes]
        assert sum(a.nbytes if a.base is None else a.base.nbytes for a in held if a is not None) <= 8 * ROWS + 64
