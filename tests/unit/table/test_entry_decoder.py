"""What reading a manifest touches and holds: of other partitions nothing, of a whole file the file itself."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.format.data_file import EMPTY_ROW, DataFileMeta, SimpleStats
from lakeidx.format.manifest import FileKind, ManifestEntry, encode_manifest
from lakeidx.table import entry_decoder, entry_kernels
from lakeidx.table.entries import of_partitions
from lakeidx.table.entry_decoder import decode_entries
from lakeidx.types import parse_type

_INT = parse_type("INT")
PARTITIONS = [with_arity(encode_row([n], [_INT]), 1) for n in range(50)]
_NONE = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


def _entry(number: int) -> ManifestEntry:
    file = DataFileMeta(
        file_name=f"data-{number:032x}.parquet", file_size=number, row_count=1, min_key=EMPTY_ROW, max_key=EMPTY_ROW,
        key_stats=_NONE, value_stats=SimpleStats(EMPTY_ROW, EMPTY_ROW, (0, None, 1 << 40) * 5), min_sequence_number=0,
        max_sequence_number=number, schema_id=0, level=0, creation_time_ms=None, delete_row_count=None, file_source=None,
    )  # fmt: skip
    return ManifestEntry(
        kind=FileKind.ADD, partition=PARTITIONS[number % 50], bucket=number % 7, total_buckets=-1, file=file
    )


ENTRIES = [_entry(i) for i in range(4000)]


def test_records_of_other_partitions_are_neither_hashed_nor_held(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    hash_identities = entry_kernels.hash_identities

    def counting(data: bytes, slots: Any, *rest: Any) -> Any:
        hashed.append(slots.shape[1])
        return hash_identities(data, slots, *rest)

    monkeypatch.setattr(entry_decoder, "hash_identities", counting)
    data = encode_manifest(ENTRIES)
    found = decode_entries(data, keep=of_partitions({PARTITIONS[3]}))
    assert list(found) == [e for e in ENTRIES if e.partition == PARTITIONS[3]]
    assert sum(hashed) == len(found) == 80
    assert found.left_out == (3920, sum(e.file.file_size for e in ENTRIES if e.partition != PARTITIONS[3]))
    # Nothing of the file is held but the records themselves.
    assert all(isinstance(b.data, bytes) for b in found.alone()._blocks)
    assert sum(len(b.data) for b in found._blocks) < len(data)


def test_a_whole_file_is_held_once_and_parts_of_it_without_it() -> None:
    data = encode_manifest(ENTRIES)
    found = decode_entries(data)
    assert all(isinstance(b.data, memoryview) and b.data.obj is data for b in found._blocks)
    assert list(pickle.loads(pickle.dumps(found._blocks[0])).records()) == list(found._blocks[0].records())
    few = found.select(np.arange(5)).compact()
    assert all(isinstance(b.data, bytes) for b in few._blocks)
    assert list(few) == ENTRIES[:5]


def test_columns_hold_themselves_and_not_all_that_was_found_in_the_records() -> None:
    data = encode_manifest(ENTRIES)
    decode_entries(data, hold=False)
    tracemalloc.start()
    try:
        found = decode_entries(data, hold=False)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Positions of all fields of a record would be twice as much again.
    assert held < 1.5 * found.rows.nbytes


@pytest.mark.parametrize("mine", [0, 1, 4, 5, 300])
@pytest.mark.parametrize("others", [0, 1, 4, 5, 300])
def test_identities_are_found_among_others_however_many_there_are(mine: int, others: int) -> None:
    rng = np.random.default_rng(mine * 1000 + others)
    # Halves that agree alone are no match.
    high, low, other_high, other_low = (rng.integers(0, 9, n).astype(np.uint64) for n in (mine, mine, others, others))
    there = set(zip(other_high.tolist(), other_low.tolist(), strict=True))
    found = entry_kernels.found_in(high, low, other_high, other_low)
    assert found.dtype == np.bool_
    assert found.tolist() == [pair in there for pair in zip(high.tolist(), low.tolist(), strict=True)]
