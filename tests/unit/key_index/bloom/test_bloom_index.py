"""simple, bloom and their global forms over real files: every answer equals what the records themselves say."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError
from lakeidx.key_index.bloom.bloom_index import BloomKeyIndex, decode_cache
from lakeidx.key_index.locations import KeyLocations
from lakeidx.key_index.port import Locator
from lakeidx.key_index.simple import SimpleKeyIndex
from tests.unit.key_index.fake_table import FakeTable

KEY_INDEXES: dict[str, Locator] = {
    "simple": SimpleKeyIndex(),
    "bloom": BloomKeyIndex(),
    "global-simple": SimpleKeyIndex(is_global=True),
    "global-bloom": BloomKeyIndex(is_global=True),
}
BLOOM_OPTIONS = {
    "index.type": "bloom",
    "hoodie.index.bloom.num_entries": "20",
    "hoodie.index.bloom.fpp": "0.05",
    "hoodie.bloom.index.filter.dynamic.max.entries": "40",
}
VARIANTS: dict[str, dict[str, str]] = {
    "defaults": {},
    "no ranges": {"hoodie.bloom.index.prune.by.ranges": "false"},
    "threads": {"hoodie.bloom.index.parallelism": "4"},
    "metadata cache": {"hoodie.bloom.index.use.metadata": "true"},
}


def check(
    table: FakeTable, rows: list[tuple[str, tuple[Any, ...]]], key_index: Locator, options: dict[str, str]
) -> KeyLocations:
    """Tag, and compare every row with the records."""
    found = key_index.tag(table.batch(rows), table.context({**BLOOM_OPTIONS, **options}))
    expected = table.expected(rows, anywhere=key_index.is_global)
    names = [table.name_of(p) for p in found.partitions]
    for i, (row, want) in enumerate(zip(rows, expected, strict=True)):
        if want is None:
            assert found.bucket[i] == -1, row
            assert found.file[i] == -1
            assert found.partition[i] == table.batch(rows).partition[i]
            continue
        assert (names[found.partition[i]], int(found.bucket[i])) == want, row
        file = found.files[found.file[i]]
        assert (table.name_of(file.partition), file.bucket) == want
        # The file given is the newest of the bucket that has the key.
        holders = [
            (record.sequence, other.meta.file_name)
            for other in table.live
            if (table.name_of(other.partition), other.bucket) == want
            for record in table.records[other.meta.file_name]
            if record.key == row[1]
        ]
        assert max(holders)[1] == file.meta.file_name
    assert found.metrics.keys == len(rows)
    assert found.metrics.found == sum(w is not None for w in expected)
    assert found.metrics.split_keys == 0
    return found


KEY = st.integers(0, 25)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Steps: ("write", partition, [(key, kind)]) | ("compact", partition, bucket); a key keeps its bucket (key % 3)."""
    step = st.one_of(
        st.tuples(
            st.just("write"),
            st.sampled_from("ab"),
            st.lists(st.tuples(KEY, st.sampled_from([0, 0, 0, 3])), min_size=1, max_size=12, unique_by=lambda r: r[0]),
        ),
        st.tuples(st.just("compact"), st.sampled_from("ab"), st.integers(0, 2)),
    )
    return draw(st.lists(step, max_size=8))


def build(table: FakeTable, steps: list[Any], make_key: Any, *, moving: bool) -> None:
    """Play a history; with `moving` a key that is written in one partition is deleted in the other first."""
    for kind, partition, what in steps:
        if kind == "compact":
            table.compact(partition, what, options=BLOOM_OPTIONS)
        else:
            for bucket in range(3):
                rows = [(make_key(k), op) for k, op in what if k % 3 == bucket]
                if not rows:
                    continue
                if moving:
                    other = "b" if partition == "a" else "a"
                    living = {k for (p, _, k), r in table.newest().items() if p == other and r.kind == 0}
                    gone = [(k, 3) for k, op in rows if op == 0 and k in living]
                    if gone:
                        table.write(other, bucket, gone, options=BLOOM_OPTIONS)
                table.write(partition, bucket, rows, options=BLOOM_OPTIONS if bucket else None, thin=bucket == 2)
        table.commit()


MAKERS = {
    "BIGINT": (("BIGINT",), lambda k: (k - 5,)),
    "STRING": (("STRING",), lambda k: (f"key-{k:03d}-{'é😀' if k % 5 == 0 else ''}",)),
    "two columns": (("INT", "STRING"), lambda k: (k % 4, f"a,{k}\\")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEY_INDEXES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=histories(),
    rows=st.lists(st.tuples(st.sampled_from("abc"), KEY), max_size=25),
    kind=st.sampled_from(["BIGINT", "STRING", "two columns"]),
    variant=st.sampled_from(sorted(VARIANTS)),
)
def test_answers_equal_the_records(name: str, steps: Any, rows: Any, kind: str, variant: str) -> None:
    types, make_key = MAKERS[kind]
    key_index = KEY_INDEXES[name]
    with tempfile.TemporaryDirectory() as folder:
        table = FakeTable(Path(folder) / "t", types)
        build(table, steps, make_key, moving=key_index.is_global)
        check(table, [(p, make_key(k)) for p, k in rows], key_index, VARIANTS[variant])  # type: ignore[no-untyped-call]


@pytest.fixture
def table(tmp_path: Path) -> FakeTable:
    return FakeTable(tmp_path / "t")


def _keys(*keys: int) -> list[tuple[tuple[int], int]]:
    return [((k,), 0) for k in keys]


@pytest.mark.parametrize("name", ["bloom", "global-bloom"])
def test_files_of_other_writers_have_their_keys_read(table: FakeTable, name: str) -> None:
    table.write("a", 0, _keys(1, 2, 3))
    options = {"hoodie.bloom.index.prune.by.ranges": "false", "index.bad-filter": "fail"}
    found = check(table, [("a", (2,)), ("a", (9,))], KEY_INDEXES[name], options)
    assert (found.metrics.files_without_filter, found.metrics.files_read, found.metrics.files_probed) == (1, 1, 0)
    assert found.metrics.false_positives == 0


def test_ranges_and_filters_spare_reads(table: FakeTable) -> None:
    for i in range(5):
        table.write("a", i, _keys(*range(10 * i, 10 * i + 10)), options=BLOOM_OPTIONS)
    found = check(table, [("a", (12,)), ("a", (13,))], BloomKeyIndex(), {"hoodie.index.bloom.fpp": "0.05"})
    assert (found.metrics.files, found.metrics.files_pruned) == (5, 4)
    assert (found.metrics.files_probed, found.metrics.files_read, found.metrics.pairs) == (1, 1, 2)
    # A key inside the range that the filter knows nothing of: no file is read.
    table.drop([f.meta.file_name for f in table.live])
    table.write("a", 0, _keys(0, 1000), options={**BLOOM_OPTIONS, "hoodie.index.bloom.fpp": "0.000000001"})
    found = check(table, [("a", (500,))], BloomKeyIndex(), {})
    assert (found.metrics.files_probed, found.metrics.files_read) == (1, 0)


def test_row_groups_are_pruned(table: FakeTable) -> None:
    table.write("a", 0, _keys(*range(100)), options=BLOOM_OPTIONS, row_group_size=10)
    found = check(table, [("a", (55,)), ("a", (51,)), ("a", (7,))], BloomKeyIndex(), {})
    assert (found.metrics.row_groups_read, found.metrics.row_groups) == (2, 10)
    everything = check(table, [("a", (55,))], SimpleKeyIndex(), {})
    assert everything.metrics.row_groups_read == 10


def test_false_positives_are_counted(table: FakeTable) -> None:
    # 40 keys in a dynamic filter bound to one row of 5: nearly all bits are set.
    small = {
        **BLOOM_OPTIONS,
        "hoodie.index.bloom.num_entries": "5",
        "hoodie.bloom.index.filter.dynamic.max.entries": "5",
    }
    table.write("a", 0, _keys(*range(0, 80, 2)), options=small)
    rows = [("a", (k,)) for k in range(80)]
    found = check(table, rows, BloomKeyIndex(), {})
    assert found.metrics.filter_hits == 40 + found.metrics.false_positives
    assert found.metrics.false_positives > 20


@pytest.mark.parametrize("is_global", [False, True])
def test_few_of_many_keys_are_in_a_file(table: FakeTable, is_global: bool) -> None:
    """They are looked up in a table of their own; the file's other keys, asked for or not, do not get in."""
    table.write("a", 0, _keys(*range(60)), options=BLOOM_OPTIONS)
    table.write("a", 1, _keys(1000, 70, 71, 2000), options=BLOOM_OPTIONS)
    table.write("b", 2, _keys(1000, 72), options=BLOOM_OPTIONS)
    rows = [("a", (k,)) for k in (*range(50), 70, 71, 70, 73)] + [("b", (k,)) for k in (71, 72, 0)]
    found = check(table, rows, BloomKeyIndex(is_global=is_global), {})
    assert found.bucket.tolist()[50:53] == [1, 1, 1]


def test_a_damaged_filter_is_an_error(table: FakeTable) -> None:
    table.write("a", 0, _keys(1), options=BLOOM_OPTIONS)
    file = table.write("a", 1, _keys(2), options=BLOOM_OPTIONS)
    read = pq.read_table(file.path)
    damaged = {**read.schema.metadata, b"org.apache.hudi.bloomfilter": b"AAAA"}
    pq.write_table(read.replace_schema_metadata(damaged), file.path)
    object.__setattr__(file.meta, "file_size", Path(file.path).stat().st_size)
    found = check(table, [("a", (1,)), ("a", (2,))], BloomKeyIndex(), {})
    assert found.metrics.bad_filters == 1
    with pytest.raises(CorruptFileError) as caught:
        check(table, [("a", (1,)), ("a", (2,))], BloomKeyIndex(), {"index.bad-filter": "fail"})
    assert caught.value.path == file.path


def test_a_key_in_two_buckets_is_counted(table: FakeTable) -> None:
    table.write("a", 0, _keys(1), options=BLOOM_OPTIONS)
    table.write("a", 1, _keys(1), options=BLOOM_OPTIONS)
    table.write("b", 1, _keys(1), options=BLOOM_OPTIONS)
    for name, expected in (("simple", 1), ("bloom", 1), ("global-simple", 1), ("global-bloom", 1)):
        found = KEY_INDEXES[name].tag(table.batch([("a", (1,))]), table.context(BLOOM_OPTIONS))
        assert found.metrics.split_keys == expected


def test_moved_and_deleted_keys(table: FakeTable) -> None:
    table.write("a", 0, _keys(1, 2, 3))
    table.write("a", 0, [((1,), 3), ((2,), 3)])
    table.write("b", 4, _keys(1))
    rows = [("a", (1,)), ("b", (1,)), ("c", (1,)), ("a", (2,)), ("b", (2,)), ("b", (3,))]
    for name in ("global-simple", "global-bloom"):
        found = check(table, rows, KEY_INDEXES[name], {})
        assert found.bucket.tolist() == [4, 4, 4, 0, -1, 0]
        # Where deletes are ignored by the merge engine, a deleted key still lives.
        kept = KEY_INDEXES[name].tag(table.batch([("b", (2,))]), table.context(BLOOM_OPTIONS, deletes_hide=False))
        assert (table.name_of(kept.partitions[kept.partition[0]]), kept.bucket[0]) == ("a", 0)


def test_metadata_cache_is_made_kept_and_mended(table: FakeTable) -> None:
    options = {**BLOOM_OPTIONS, "hoodie.bloom.index.use.metadata": "true"}
    key_index = BloomKeyIndex()
    rows = [("a", (1,)), ("a", (2,)), ("a", (3,))]
    table.write("a", 0, _keys(1), options=BLOOM_OPTIONS)
    for number in range(4):
        table.write("a", number + 1, _keys(10 + number), options=BLOOM_OPTIONS)
        table.commit()
        check(table, rows, key_index, options)
    folder = table.root.parent / "_index" / "bloom-filters"
    assert [f.name for f in sorted(folder.iterdir())] == [f"snapshot-{n:020d}.arrow" for n in (3, 4)]
    # With the cache no footer is asked: files that are gone cannot be missed.
    for file in table.live:
        Path(file.path).rename(file.path + ".away")
    found = key_index.tag(table.batch([("a", (5,))]), table.context(options))
    assert found.bucket.tolist() == [-1]
    for file in table.live:
        Path(file.path + ".away").rename(file.path)
    # Damage and a stale state cost time, never answers.
    for cache in folder.iterdir():
        cache.write_bytes(cache.read_bytes()[:-20])
    table.write("a", 0, _keys(2), options=BLOOM_OPTIONS)
    table.commit()
    check(table, rows, key_index, options)


@pytest.mark.parametrize("column", ["file_name", "type_code", "filter", "min_key", "max_key"])
def test_another_value_in_the_metadata_cache_is_found(table: FakeTable, column: str) -> None:
    options = {**BLOOM_OPTIONS, "hoodie.bloom.index.use.metadata": "true"}
    table.write("a", 0, _keys(1), options=BLOOM_OPTIONS)
    table.commit()
    check(table, [("a", (1,))], BloomKeyIndex(), options)
    (path,) = (table.root.parent / "_index" / "bloom-filters").iterdir()
    assert decode_cache(path.read_bytes())
    with pa.ipc.open_file(path) as reader:
        cache = reader.read_all()
    for wrong in ("", "wrong", None)[: 3 if cache.schema.field(column).nullable else 2]:
        changed = pa.array([wrong], cache.schema.field(column).type)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, cache.schema) as writer:
            writer.write_table(
                cache.set_column(cache.schema.get_field_index(column), cache.schema.field(column), changed)
            )
        with pytest.raises(CorruptFileError, match="checksum"):
            decode_cache(sink.getvalue().to_pybytes())


def test_empty_string_keys_live_too(tmp_path: Path) -> None:
    table = FakeTable(tmp_path / "t", ("STRING",))
    table.write("a", 0, [(("",), 0), (("x",), 0)], options=BLOOM_OPTIONS)
    check(table, [("a", ("",)), ("a", ("x",)), ("a", ("y",))], BloomKeyIndex(), {})
    check(table, [("a", ("",))], SimpleKeyIndex(), {})


def test_composite_keys_that_read_alike_are_distinguished(tmp_path: Path) -> None:
    table = FakeTable(tmp_path / "t", ("STRING", "STRING"))
    table.write("a", 0, [(("1,k1:2", "3"), 0)], options=BLOOM_OPTIONS)
    check(table, [("a", ("1", "2,k1:3")), ("a", ("1,k1:2", "3"))], BloomKeyIndex(), {})


def test_a_key_column_renamed_since(table: FakeTable) -> None:
    """Columns are found by field id: the file says k0, the table something else now."""
    table.write("a", 0, _keys(1, 2), thin=True)
    table.write("a", 1, _keys(3))
    context = table.context({})
    renamed = tuple(type(f)(f.id, "other", f.type) for f in table.key_fields)
    reader = type(context.reader)(context.reader.store, renamed, context.reader.read_other)
    found = SimpleKeyIndex().tag(
        table.batch([("a", (2,)), ("a", (3,)), ("a", (4,))]), dataclasses.replace(context, reader=reader)
    )
    assert found.bucket.tolist() == [0, 1, -1]
