"""Manifests as columns say what the objects say: entries, folding, merging, copying; with one call for pruning at decode."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import fastavro
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.containers.avro import decode_container, header_schema
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import DataFileMeta, SimpleStats
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.storage.memory import MemoryStore
from lakeidx.table.commit.manifest_write import ManifestWriter, cancel_pairs
from lakeidx.table.entries import Entries, joined, live_files, of_partitions
from lakeidx.table.entry_decoder import decode_entries, entries_of
from lakeidx.table.manifest_files import ManifestFiles
from lakeidx.types import parse_type
from tests.kit.avro_checksum import as_others_write
from tests.kit.scalar_twins import fold_entries
from tests.kit.small_tables import table_spec

INT = parse_type("INT")
PARTITIONS = [with_arity(encode_row([n], [INT]), 1) for n in (None, 0, 1, 7)]
SCHEMA = new_schema(
    table_spec("p INT, k INT", ["p", "k"], partitions=["p"], options={"manifest.target-file-size": "2 kb"})
)
longs = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
some_bytes = st.binary(max_size=40)
stats = st.builds(SimpleStats, some_bytes, some_bytes, st.none() | st.lists(st.none() | longs, max_size=20).map(tuple))
names = st.sampled_from([f"data-{i}.parquet" for i in range(6)] + ["é", "x" * 200])
texts = st.lists(st.sampled_from(["a", "b.index", "c" * 70]), max_size=3).map(tuple)
files = st.builds(
    DataFileMeta,
    file_name=names,
    file_size=longs,
    row_count=longs,
    min_key=some_bytes,
    max_key=some_bytes,
    key_stats=stats,
    value_stats=stats,
    min_sequence_number=longs,
    max_sequence_number=longs,
    schema_id=st.integers(0, 1 << 40),
    level=st.integers(0, 5),
    extra_files=texts,
    creation_time_ms=st.none() | longs,
    delete_row_count=st.none() | st.integers(0, 1 << 40),
    embedded_index=st.none() | some_bytes,
    file_source=st.none() | st.integers(0, 1),
    value_stats_cols=st.none() | texts,
    external_path=st.none() | st.sampled_from(["/t/x", "s3://b/y"]),
    first_row_id=st.none() | longs,
    write_cols=st.none() | texts,
)
entries = st.builds(
    ManifestEntry,
    kind=st.sampled_from(FileKind),
    partition=st.sampled_from(PARTITIONS),
    bucket=st.integers(-2, 300),
    total_buckets=st.integers(-2, 300),
    file=files,
)
COLUMNS: dict[str, Callable[[ManifestEntry], object]] = {
    "kind": lambda e: int(e.kind),
    "bucket": lambda e: e.bucket,
    "total_buckets": lambda e: e.total_buckets,
    "level": lambda e: e.file.level,
    "schema_id": lambda e: e.file.schema_id,
    "file_size": lambda e: e.file.file_size,
    "row_count": lambda e: e.file.row_count,
    "delete_row_count": lambda e: -1 if e.file.delete_row_count is None else e.file.delete_row_count,
    "min_sequence": lambda e: e.file.min_sequence_number,
    "max_sequence": lambda e: e.file.max_sequence_number,
}


def same(found: Entries, objects: list[ManifestEntry]) -> None:
    assert list(found) == objects
    for name, value in COLUMNS.items():
        assert found.column(name).tolist() == [value(e) for e in objects], name
    assert [found.known[code] for code in found.column("partition").tolist()] == [e.partition for e in objects]


@settings(deadline=None, max_examples=60)
@given(st.lists(entries, max_size=30), st.sampled_from(["zstandard", "null", "deflate", "snappy"]), st.data())
def test_columns_are_those_of_the_objects(objects: list[ManifestEntry], codec: str, data: st.DataObject) -> None:
    encoded = encode_manifest(objects, codec=codec)
    found = decode_entries(encoded)
    same(found, decode_manifest(encoded))
    ids = list(zip(found.column("high").tolist(), found.column("low").tolist(), strict=True))
    for i, a in enumerate(objects):
        for j, b in enumerate(objects):
            assert (ids[i] == ids[j]) == (a.identifier == b.identifier)
    wanted = data.draw(st.sets(st.sampled_from(PARTITIONS)))
    mine = [e for e in objects if e.partition in wanted]
    same(decode_entries(encoded, keep=of_partitions(wanted)), mine)
    same(found.of_partitions(of_partitions(wanted)), mine)
    columns = decode_entries(encoded, hold=False)
    assert columns.column("file_size").tolist() == found.column("file_size").tolist()
    # What is left out is counted, ADD less DELETE; sizes here are any longs, and their sum may wrap around.
    others = [(1 if e.kind is FileKind.ADD else -1, e.file.file_size) for e in objects if e.partition not in wanted]
    for pruned in (decode_entries(encoded, keep=of_partitions(wanted)), found.of_partitions(of_partitions(wanted))):
        assert pruned.left_out[0] == sum(sign for sign, _ in others)
        assert (pruned.left_out[1] - sum(sign * size for sign, size in others)) % (1 << 64) == 0
    rows = data.draw(st.lists(st.integers(0, max(0, len(objects) - 1)), max_size=5)) if objects else []
    same(found.select(np.array(rows, np.int64)).compact(), [objects[i] for i in rows])
    places = {(e.partition, e.bucket) for e in objects[::3]}
    same(found.of_places(places), [e for e in objects if (e.partition, e.bucket) in places])
    assert found.total_buckets() == {e.partition: e.total_buckets for e in objects}
    numbers, there = found.places()
    assert [there[n] for n in numbers.tolist()] == [(e.partition, e.bucket) for e in objects]


few = st.builds(
    lambda kind, name, level: (kind, name, level),
    st.sampled_from(FileKind), st.sampled_from(["a", "b"]), st.integers(0, 1),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(few, max_size=8), max_size=4))
def test_folding_is_that_of_the_objects(manifests: list[list[tuple[FileKind, str, int]]]) -> None:
    parts = [[entry_of(*e) for e in m] for m in manifests]
    whole = joined([decode_entries(encode_manifest(p)) for p in parts])
    objects = [e for p in parts for e in p]
    outcomes = [outcome(lambda: fold_entries(objects, where="m")), outcome(lambda: live_files(whole, where="m"))]
    assert outcomes[0] == outcomes[1]
    left = list(cancel_pairs(whole))
    assert sorted(map(hash, left)) == sorted(map(hash, cancelled(objects)))


def outcome(fold: Callable[[], Iterable[ManifestEntry]]) -> object:
    """The live entries in any order, or what the error says."""
    try:
        return sorted(map(hash, fold()))
    except CorruptFileError as error:
        # Which of two files that are added twice is named first may differ.
        return "is added twice" in str(error)


def entry_of(kind: FileKind, name: str, level: int) -> ManifestEntry:
    none = SimpleStats(b"", b"", ())
    file = DataFileMeta(
        file_name=name, file_size=1, row_count=1, min_key=b"", max_key=b"", key_stats=none, value_stats=none,
        min_sequence_number=0, max_sequence_number=0, schema_id=0, level=level,
    )  # fmt: skip
    return ManifestEntry(kind=kind, partition=PARTITIONS[1], bucket=0, total_buckets=-1, file=file)


def cancelled(objects: list[ManifestEntry]) -> list[ManifestEntry]:
    kept: dict[Any, ManifestEntry] = {}
    for e in objects:
        before = kept.get(e.identifier)
        if e.kind is FileKind.DELETE and before is not None and before.kind is FileKind.ADD:
            del kept[e.identifier]
        else:
            kept[e.identifier] = e
    return list(kept.values())


def later(data: bytes) -> bytes:
    """The file as a later release would write it: with a field of its own."""
    schema = header_schema(data)
    schema["fields"].append({"name": "_LATER", "type": ["null", "int", "string"], "default": None})
    records = decode_container(data)
    for i, record in enumerate(records):
        record["_LATER"] = (None, i, f"text {i}")[i % 3]
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="null")
    return out.getvalue()


@settings(deadline=None, max_examples=60)
@given(st.lists(entries, min_size=1, max_size=12), st.lists(entries, max_size=12))
def test_manifests_roll_and_copy_what_later_releases_wrote(
    mine: list[ManifestEntry], theirs: list[ManifestEntry]
) -> None:
    parts = [decode_entries(encode_manifest(mine)), decode_entries(later(encode_manifest(theirs)))]
    expected = [*mine, *decode_manifest(later(encode_manifest(theirs)))]
    store = MemoryPuts()
    files = ManifestFiles(store, TablePaths("/t"))  # type: ignore[arg-type]
    writer = ManifestWriter(files, SCHEMA, NewFileNames())
    metas = writer.write_manifests(joined(parts))
    writer.finish()
    written = [decode_manifest(store.files[f"/t/manifest/{m.file_name}"]) for m in metas]
    assert [e for part in written for e in part] == expected
    # What a process holds of the manifests it writes is what another one reads.
    assert [list(files.load_manifest(m.file_name, m.file_size)) for m in metas] == [list(part) for part in written]
    for meta, part in zip(metas, written, strict=True):
        assert meta.file_size == len(store.files[f"/t/manifest/{meta.file_name}"])
        assert (meta.num_added_files, meta.num_deleted_files) == (
            sum(e.kind is FileKind.ADD for e in part), sum(e.kind is FileKind.DELETE for e in part),
        )  # fmt: skip
        assert (meta.min_bucket, meta.max_bucket) == (min(e.bucket for e in part), max(e.bucket for e in part))
        assert (meta.min_level, meta.max_level) == (min(e.file.level for e in part), max(e.file.level for e in part))
        assert meta.schema_id == max(e.file.schema_id for e in part)
        assert meta.partition_stats.null_counts == (sum(e.partition == PARTITIONS[0] for e in part),)


class MemoryPuts:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.files.update(files)


def test_a_full_merge_writes_each_entry_once_and_leaves_manifests_that_need_no_change() -> None:
    adds = [entry_of(FileKind.ADD, f"data-{i}.parquet", 0) for i in range(40)]
    content = {
        "untouched": entries_of(adds[:20]),
        "touched": entries_of(adds[20:30]),
        "small": entries_of(adds[30:]),
        "deletes": entries_of([replace(adds[i], kind=FileKind.DELETE) for i in (21, 35)]),
    }
    sizes = {"untouched": 900, "touched": 900, "small": 5, "deletes": 5}
    metas = [
        ManifestFileMeta(
            file_name=n, file_size=sizes[n], num_added_files=0 if n == "deletes" else len(e),
            num_deleted_files=len(e) if n == "deletes" else 0, partition_stats=SimpleStats(b"", b"", ()), schema_id=0,
        )
        for n, e in content.items()
    ]  # fmt: skip
    written: list[list[ManifestEntry]] = []

    def read(metas: Sequence[ManifestFileMeta], *, hold: bool = True) -> Entries:
        return joined([content[m.file_name] for m in metas])

    def write(rewritten: Entries) -> list[ManifestFileMeta]:
        written.append(list(rewritten))
        return []

    options = {"manifest.target-file-size": "100 b", "manifest.full-compaction-threshold-size": "1 b"}
    schema = replace(SCHEMA, options={**SCHEMA.options, **options})
    writer = ManifestWriter(ManifestFiles(MemoryStore(), TablePaths("/t")), schema, NewFileNames())
    with mock.patch.object(writer, "write_manifests", write), mock.patch.object(writer.files, "load_manifests", read):
        kept = writer.merge_manifests(metas)
    assert [m.file_name for m in kept] == ["untouched"]
    assert written == [[e for i, e in enumerate(adds) if i >= 20 and i not in (21, 35)]]


def test_entries_of_some_partitions_come_out_of_an_index_manifest() -> None:
    found = [
        IndexEntry(
            kind=FileKind.ADD, partition=PARTITIONS[i % 4], bucket=i, index_type="HASH", file_name=f"index-{i}",
            file_size=4 * i, row_count=i,
        )
        for i in range(3000)
    ]  # fmt: skip
    data = encode_index_manifest(found)
    for wanted in (set(), {PARTITIONS[0]}, set(PARTITIONS[1:3]), {b"none"}):
        assert decode_index_manifest(data, partitions=wanted) == [e for e in found if e.partition in wanted]


def test_damaged_manifests_are_refused_as_the_decoder_of_objects_refuses_them() -> None:
    written = encode_manifest([entry_of(FileKind.ADD, f"data-{i}.parquet", 0) for i in range(300)], codec="null")
    # With the checksum of lakeidx nothing behind the header would be looked at.
    data, refused = as_others_write(written), 0
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        try:
            expected: Any = decode_manifest(bytes(damaged), "m")
        except CorruptFileError as error:
            expected, refused = place_free(error), refused + 1
        try:
            found: Any = list(decode_entries(bytes(damaged), "m"))
        except CorruptFileError as error:
            found = place_free(error)
        assert found == expected, at
    assert refused > 100


def place_free(error: CorruptFileError) -> str:
    """A text that is no text is found when its object is made: where it stood in the file is not known any more."""
    return re.sub(r" at byte \d+", "", str(error))
