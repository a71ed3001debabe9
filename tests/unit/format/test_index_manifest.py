"""Index manifests that follow one another: what a commit does not change stays as the bytes it was."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from lakeidx.codec.containers.avro import packed_blocks
from lakeidx.codec.containers.avro_unknown import UnknownField
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import (
    DeletionVectorMeta,
    IndexEntry,
    decode_index_manifest,
    encode_index_manifest,
    update_index_manifest,
)
from lakeidx.format.manifest import FileKind

Place = tuple[bytes, int]


def _entry(partition: int, bucket: int, name: str, vectors: int = 0) -> IndexEntry:
    ranges = tuple(
        DeletionVectorMeta(data_file_name=f"data-{i}.parquet", offset=1 + 40 * i, length=36, cardinality=3)
        for i in range(vectors)
    )
    return IndexEntry(
        kind=FileKind.ADD, partition=partition.to_bytes(24, "big"), bucket=bucket,
        index_type="DELETION_VECTORS" if vectors else "HASH", file_name=name, file_size=400, row_count=vectors or 100,
        dv_ranges=ranges or None,
    )  # fmt: skip


def _table(partitions: int, buckets: int) -> list[IndexEntry]:
    """Entries in no order: a HASH file per bucket, and vectors of every third one."""
    found = []
    for p in range(partitions):
        for b in range(buckets):
            found.append(_entry(p, b, f"index-{p}-{b}"))
            if b % 3 == 0:
                found.append(_entry(p, b, f"vectors-{p}-{b}", vectors=b % 5 + 1))
    random.Random(7).shuffle(found)
    return found


def _place(entry: IndexEntry) -> Place:
    return entry.partition, entry.bucket


def _packed(data: bytes) -> list[bytes]:
    return [bytes(b.packed) for b in packed_blocks(data)[2]]


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["zstd", "null", "deflate", "snappy"])
def test_changed_places_and_nothing_else(codec: str) -> None:
    _change_places(_table(20, 60), codec)


def test_few_records_are_looked_at_one_by_one() -> None:
    _change_places(_table(5, 10), "zstd")


def _change_places(old: list[IndexEntry], codec: str) -> None:
    before = encode_index_manifest(old, codec=codec)
    # A bucket that has files, one whose files go, one that is new; a partition with the bucket numbers of another.
    places = [_place(_entry(3, 7, "")), _place(_entry(4, 9, "")), _place(_entry(99, 7, ""))]
    new = [_entry(3, 7, "index-new"), _entry(99, 7, "index-of-a-new-partition")]
    seen: list[IndexEntry] = []

    def combine(there: Sequence[IndexEntry]) -> list[IndexEntry]:
        seen.extend(there)
        return new

    after = update_index_manifest(before, places, combine, codec=codec)
    assert after is not None
    assert sorted(e.file_name for e in seen) == ["index-3-7", "index-4-9", "vectors-4-9"]
    wanted = [e for e in old if _place(e) not in places] + new
    assert sorted(decode_index_manifest(after), key=lambda e: e.file_name) == sorted(wanted, key=lambda e: e.file_name)


def test_blocks_without_a_change_are_the_same_bytes() -> None:
    # In order of partitions, so that the change is in one block.
    old = sorted(_table(80, 60), key=_place)
    before = encode_index_manifest(old)
    after = update_index_manifest(before, [_place(_entry(9, 7, ""))], lambda there: [_entry(9, 7, "index-new")])
    assert after is not None
    first, second = _packed(before), _packed(after)
    assert len(first) > 6
    # One with the change, and the last one if it is small.
    assert len(set(first) - set(second)) <= 2
    assert len(second) <= len(first) + 1


@pytest.mark.slow
def test_many_small_commits_do_not_leave_a_block_each() -> None:
    data = encode_index_manifest(_table(20, 60))
    blocks = len(_packed(data))
    for i in range(100):
        made = _entry(1000 + i, 0, f"index-new-{i}")
        found = update_index_manifest(data, [_place(made)], lambda there, made=made: [*there, made])  # type: ignore[misc]
        assert found is not None
        data = found
    assert len(_packed(data)) <= blocks + 2
    assert len(decode_index_manifest(data)) == len(_table(20, 60)) + 100


@pytest.mark.parametrize("later_file", [False, True], ids=["in the entries that come", "in the file"])
def test_fields_of_a_later_release_are_left_to_the_whole_encoder(later_file: bool) -> None:
    later = UnknownField("_LATER", '{"name":"_LATER","type":["null","string"],"default":null}', "x")
    old = _table(2, 5)
    marked = replace(old[0], unknown=(later,))
    before = encode_index_manifest([marked, *old[1:]] if later_file else old)
    assert update_index_manifest(before, [_place(old[0])], lambda there: old[:1] if later_file else [marked]) is None


def test_files_of_another_codec_and_damaged_ones_are_not_copied_from() -> None:
    old = _table(2, 5)
    assert (
        update_index_manifest(encode_index_manifest(old, codec="null"), [_place(old[0])], lambda there: there) is None
    )
    raw = encode_index_manifest(old, codec="null")
    # The last number of the last record has no end.
    (body,) = _packed(raw)
    damaged = raw.replace(body, body[:-1] + b"\x80")
    with pytest.raises(CorruptFileError, match="checksum"):
        update_index_manifest(damaged, [_place(old[0])], lambda there: there, codec="null")
    # As other programs write it, without a checksum.
    unsealed = damaged.replace(b"lakeidx.crc32", b"another.entry")
    assert update_index_manifest(unsealed, [_place(old[0])], lambda there: there, codec="null") is None
