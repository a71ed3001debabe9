"""Lookup compactions that ask lookup files find what reading the key columns finds, and read nothing where they ask."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx import Table
from lakeidx.compaction.bucket import BucketCompaction, BucketReader
from lakeidx.compaction.levels import build_levels
from lakeidx.compaction.lookup.stored_keys import Need, StoredKeys, with_lookup_files
from lakeidx.compaction.plan_buckets import plan_buckets
from lakeidx.compaction.rewrite import KeysOfBucket, find_keys_above
from lakeidx.errors import CorruptFileError
from lakeidx.lookup import open_readers as readers
from lakeidx.lookup.listing import LookupPlaces, StoredLookup
from lakeidx.table.view import load_view

VECTORS = {"deletion-vectors.enabled": "true"}
MERGED = {
    "changelog-producer": "lookup", "merge-engine": "aggregation", "fields.v.aggregate-function": "max",
}  # fmt: skip
KINDS = {
    "position and value": VECTORS,
    "position": {**VECTORS, "lookup.store.values": "position"},
    "hash store": {**VECTORS, "lookup.store.type": "hash"},
    "first row, value": {"merge-engine": "first-row"},
    "first row, key": {"merge-engine": "first-row", "lookup.store.values": "key"},
    "merged with rows at positions": {**MERGED, "lookup.store.values": "position"},
    "merged with rows of values": MERGED,
    "merged, hash store": {**MERGED, "lookup.store.type": "hash"},
    "changelog of the newest row": {"changelog-producer": "lookup"},
}  # fmt: skip


GIVES_ROWS = ("merged with rows of values", "merged, hash store", "changelog of the newest row")


def make(folder: Path, options: dict[str, str], key_type: str = "BIGINT") -> Table:
    spec = {
        "fields": [{"name": "k", "type": f"{key_type} NOT NULL"}, {"name": "v", "type": "STRING"}],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "target-file-size": "16 kb", **options},
    }
    return Table.create(f"{folder}/wh/d.db/t", spec)


def put(table: Table, keys: list[int], value: str) -> None:
    column = pa.array(keys).cast(table.schema.arrow_schema.field("k").type)
    table.upsert(pa.table({"k": column, "v": [f"{value}-{k % 7}" for k in keys]}))


def lived(table: Table) -> None:
    """Two levels with lookup files, deleted rows in the upper one, and three small files in level 0."""
    r = random.Random(3)
    put(table, r.sample(range(6000), 3000), "a")
    table.compact(full=True)
    put(table, r.sample(range(6000), 40), "b")
    table.compact()
    table.build_lookup_store()
    for number in range(3):
        put(table, r.sample(range(6000), 9), f"c{number}")


def planned(table: Table) -> BucketCompaction:
    view = load_view(table.metadata, table.snapshot)
    (work,) = plan_buckets(table.metadata, table.schema, view, full=False, now_ms=0)
    (work,) = with_lookup_files(table.metadata, [work])
    return work


def need_of(table: Table) -> Need:
    options = table.schema.options
    if "deletion-vectors.enabled" in options:
        return Need.POSITIONS
    return Need.KEYS if options.get("merge-engine") == "first-row" else Need.ROWS


def find(work: BucketCompaction, table: Table, *, ask: bool) -> KeysOfBucket:
    files = [e.file for e in load_view(table.metadata, table.snapshot).entries]
    above = [run for run in build_levels(files, table.schema.key_types, num_levels=6).runs if run.level > 0]
    new = [f for f in files if f.level == 0]
    stored = StoredKeys(table.metadata, table.schema, work.lookups, need_of(table)) if ask else None
    return find_keys_above(BucketReader(work), table.schema, new, above, stored)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_type", ["BIGINT", "STRING"])
def test_asking_finds_what_reading_finds(kind: str, key_type: str, tmp_path: Path) -> None:
    table = make(tmp_path, KINDS[kind], key_type)
    lived(table)
    work = planned(table)
    assert work.lookups
    read = find(work, table, ask=False)
    large = max(work.kept, key=lambda f: f.row_count)
    # What is asked is not read: neither the data file of the answer nor any of its columns.
    path = Path(table.paths.data_file({}, 0, large.file_name))
    path.rename(path.with_suffix(".away"))
    asked = find(work, table, ask=True)
    assert {n: p.tolist() for n, p in asked.known.items()} == {n: p.tolist() for n, p in read.known.items()}
    assert read.known
    if "first row" in kind:
        return
    assert read.above
    assert set(asked.rows) == ({large.file_name} if kind in GIVES_ROWS else set())
    path.with_suffix(".away").rename(path)
    directory = path.parent
    for name, positions in read.above.items():
        rows = pq.read_table(directory / name).take(pa.array(positions))
        given = asked.rows.get(name)
        if given is None:
            assert asked.above[name].tolist() == positions.tolist()
        else:
            assert name not in asked.above
            assert given.to_pylist() == rows.select(given.column_names).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_compaction_that_asks_gives_the_rows_of_one_that_reads(kind: str, tmp_path: Path) -> None:
    tables = []
    for name in ("asks", "reads"):
        table = make(tmp_path / name, KINDS[kind])
        lived(table)
        if name == "reads":
            for file in Path(table.uri, "lookup").rglob("*.lookup*"):
                file.unlink()
        table.compact()
        tables.append(table)
    asks, reads = (sorted(t.scan().to_arrow().to_pylist(), key=lambda r: r["k"]) for t in tables)
    assert asks == reads
    assert len(asks) > 3000


@pytest.mark.slow
def test_large_batches_read(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS)
    lived(table)
    work = planned(table)
    stored = StoredKeys(table.metadata, table.schema, work.lookups, Need.POSITIONS)
    large = max(work.kept, key=lambda f: f.row_count)
    assert stored.is_cheaper(large, large.row_count // 16, some_deleted=True)
    assert not stored.is_cheaper(large, large.row_count // 16 + 1, some_deleted=True)
    assert not stored.is_cheaper(replace(large, file_name="other"), 1, some_deleted=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "need", "some_deleted", "asks"),
    [
        ("first row, key", Need.KEYS, False, True),
        ("first row, key", Need.ROWS, False, False),
        ("first row, key", Need.POSITIONS, False, False),
        ("first row, key", Need.KEYS, True, False),
        ("first row, value", Need.ROWS, False, True),
        ("first row, value", Need.ROWS, True, False),
        ("first row, value", Need.POSITIONS, False, False),
        ("position", Need.ROWS, False, True),
        ("position", Need.POSITIONS, True, True),
    ],
)
def test_values_are_asked_only_for_what_they_hold(
    kind: str, need: Need, some_deleted: bool, asks: bool, tmp_path: Path
) -> None:
    table = make(tmp_path, KINDS[kind])
    lived(table)
    work = planned(table)
    stored = StoredKeys(table.metadata, table.schema, work.lookups, need)
    large = max(work.kept, key=lambda f: f.row_count)
    assert stored.is_cheaper(large, 1, some_deleted=some_deleted) is asks


def test_a_file_is_not_copied_for_a_few_keys_when_it_is_as_large_as_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, VECTORS)
    lived(table)
    work = planned(table)
    large = max(work.kept, key=lambda f: f.row_count)
    monkeypatch.setattr(readers.LookupReaders, "is_at_hand", lambda *_: False)

    def asks(size: int) -> bool:
        found: StoredLookup = replace(work.lookups[large.file_name], size=size)
        stored = StoredKeys(table.metadata, table.schema, {large.file_name: found}, Need.POSITIONS)
        return stored.is_cheaper(large, 1, some_deleted=False)

    assert [asks(large.file_size // 4), asks(large.file_size // 4 + 1)] == [True, False]


def test_a_lookup_file_that_is_gone_is_passed_over_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    table = make(tmp_path, VECTORS)
    lived(table)
    work = planned(table)
    read = find(work, table, ask=False)
    large = max(work.kept, key=lambda f: f.row_count)
    path = Path(LookupPlaces(table.paths).full(work.lookups[large.file_name].path))
    whole = path.read_bytes()
    path.unlink()
    found = find(work, table, ask=True)
    assert {n: p.tolist() for n, p in found.above.items()} == {n: p.tolist() for n, p in read.above.items()}
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptFileError, match=r"\.lookup"):
        find(work, table, ask=True)


def test_nothing_is_listed_where_nothing_is_looked_up(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    put(table, [1, 2], "a")
    table.build_lookup_store()
    put(table, [1], "b")
    view = load_view(table.metadata, table.snapshot)
    work = plan_buckets(table.metadata, table.schema, view, full=True, now_ms=0)
    listed = with_lookup_files(table.metadata, work)
    assert [w.lookups for w in listed] == [{}]
