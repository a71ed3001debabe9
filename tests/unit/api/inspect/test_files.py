from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from lakeidx.api.inspect.files import describe_lookup_file, inspect_file
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CorruptFileError, NotFoundError, UnsupportedError
from lakeidx.format.consumer import encode_consumer
from lakeidx.format.data_file import SimpleStats
from lakeidx.format.deletion_vector import encode_deletion_vectors
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.hash_index import encode_hash_index
from lakeidx.format.index_manifest import DeletionVectorMeta, encode_index_manifest
from lakeidx.format.manifest import encode_manifest
from lakeidx.format.manifest_list import encode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import encode_schema, new_schema
from lakeidx.format.tag import Tag, encode_tag
from lakeidx.key_index.bucket.consistent_hashing import encode_metadata, initial_metadata
from lakeidx.lookup.store import StoreType
from lakeidx.pipeline_file.partitions import CurrentBatch
from lakeidx.storage import LocalStore
from lakeidx.types import parse_type
from tests.kit.scalar_twins import encode_statistics
from tests.unit.format import test_manifest, test_snapshot, test_statistics, test_tag
from tests.unit.lookup.stores import build, factory

STORE = LocalStore(sync=False)
SCHEMA = new_schema(
    {
        "fields": [{"name": "id", "type": "INT"}, {"name": "dt", "type": "DATE"}, {"name": "x", "type": "DOUBLE"}],
        "primaryKeys": ["dt", "id"],
        "partitionKeys": ["dt"],
    },
    time_millis=1,
)


def row(*values: Any, types: str) -> bytes:
    return with_arity(encode_row(values, [parse_type(t) for t in types.split()]), len(values))


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    p = TablePaths.of(str(tmp_path / "lake" / "db.db" / "t ü"), SCHEMA)
    STORE.put(p.schema_path(0), encode_schema(SCHEMA))
    return p


def inspected(path: str, data: bytes, **options: Any) -> dict[str, Any]:
    STORE.put(path, data)
    found = inspect_file(path, store=STORE, **options)
    assert found["path"] == path
    assert found["size"] == len(data)
    json.dumps(found, allow_nan=False)
    return found


def test_json_files_are_described(paths: TablePaths) -> None:
    schema = inspect_file(paths.schema_path(0), store=STORE)
    assert (schema["kind"], schema["primaryKeys"], schema["fields"][1]["type"]) == (
        "schema",
        ["dt", "id"],
        "DATE NOT NULL",
    )
    snapshot = inspected(paths.snapshot_path(2), test_snapshot.TEXT.encode())
    assert (snapshot["kind"], snapshot["commitKind"], snapshot["totalRecordCount"]) == ("snapshot", "COMPACT", 21)
    assert inspected(paths.changelog_path(2), test_snapshot.TEXT.encode())["kind"] == "changelog"
    tag = inspected(paths.tag_path("v1"), encode_tag(Tag(snapshot=test_tag.SNAPSHOT)))
    assert (tag["kind"], tag["id"]) == ("tag", 7)
    retained = Tag(snapshot=test_tag.SNAPSHOT, create_time_ns=0, time_retained_ns=10**9)
    assert inspected(paths.tag_path("v2"), encode_tag(retained))["tagTimeRetained"] == "1.000000000"
    assert inspected(paths.consumer_path("c"), encode_consumer(4)) | {"path": "", "size": 0} == {
        "path": "", "size": 0, "kind": "consumer", "nextSnapshot": 4,
    }  # fmt: skip
    stats = inspected(paths.statistics_path("stat-0"), encode_statistics(test_statistics.STATS))
    assert (stats["kind"], stats["mergedRecordCount"]) == ("statistics", 10)
    assert inspected(paths.latest, b"12\n")["id"] == 12


def test_manifest_shows_values_of_the_table(paths: TablePaths) -> None:
    file = replace(
        test_manifest.FILE,
        min_key=row(1, types="INT"),
        max_key=row(9, types="INT"),
        key_stats=SimpleStats(row(1, types="INT"), row(9, types="INT"), (0,)),
        value_stats=SimpleStats(
            row(1, 0, None, types="INT DATE DOUBLE"), row(9, 19723, 1.5, types="INT DATE DOUBLE"), (0, 0, 2)
        ),
        value_stats_cols=None,
        embedded_index=b"\x01\x02",
    )
    entry = replace(test_manifest.ENTRY, partition=row(19723, types="DATE"), file=file)
    data = encode_manifest([entry, entry, entry])
    found = inspected(paths.manifest_path(NewFileNames().manifest_name()), data, limit=2)
    assert (found["kind"], found["count"], len(found["entries"]), found["not shown"]) == ("manifest", 3, 2, 1)
    shown = found["entries"][0]
    assert shown["partition"] == {"dt": "2024-01-01"}
    assert shown["file"]["minKey"] == {"id": 1}
    assert shown["file"]["valueStats"]["max"] == {"id": 9, "dt": "2024-01-01", "x": 1.5}
    assert shown["file"]["valueStats"]["min"] == {"id": 1, "dt": "1970-01-01", "x": None}
    assert shown["file"]["embeddedIndex"] == "0102"
    assert shown["file"]["fileSource"] == "APPEND"


def test_without_a_table_rows_are_hex(tmp_path: Path) -> None:
    entry = replace(test_manifest.ENTRY, partition=row(19723, types="DATE"))
    found = inspected(str(tmp_path / "m"), encode_manifest([entry]))
    assert found["entries"][0]["partition"] == entry.partition.hex()
    assert found["entries"][0]["file"]["minKey"] == b"min".hex()


def test_other_avro_kinds(paths: TablePaths) -> None:
    meta = replace(test_manifest.META, partition_stats=SimpleStats(row(0, types="DATE"), row(None, types="DATE"), (1,)))
    found = inspected(paths.manifest_path(NewFileNames().manifest_list_name()), encode_manifest_list([meta]))
    assert (found["kind"], found["entries"][0]["partitionStats"]["max"]) == ("manifest list", {"dt": None})
    ranges = (DeletionVectorMeta(data_file_name="d", offset=1, length=2, cardinality=3),)
    entry = replace(test_manifest.INDEX, partition=row(0, types="DATE"), dv_ranges=ranges)
    found = inspected(paths.manifest_path(NewFileNames().index_manifest_name()), encode_index_manifest([entry]))
    assert (found["kind"], found["entries"][0]["partition"]) == ("index manifest", {"dt": "1970-01-01"})
    assert found["entries"][0]["deletionVectors"] == [{"dataFile": "d", "offset": 1, "length": 2, "cardinality": 3}]


def test_index_files_are_described(paths: TablePaths) -> None:
    names = NewFileNames()
    hashes = np.array([5, -7, 5], np.int32)
    found = inspected(paths.index_path(names.index_name()), encode_hash_index(hashes))
    assert (found["kind"], found["count"], found["distinct"], found["hashes"]) == ("hash index", 3, 2, [5, -7, 5])
    # A HASH index may begin like any other file.
    for start in (b"{}  ", b"PAR1", b"Obj\x01", b"\x01\x00\x00\x00"):
        assert inspected(paths.index_path(names.index_name()), start * 5)["kind"] == "hash index"
    assert inspected(paths.index_path(names.index_name()), b"")["count"] == 0
    for bitmap64 in (False, True):
        data, _ = encode_deletion_vectors({"a": [1, 2, 9], "b": range(50)}, bitmap64=bitmap64)
        found = inspected(paths.index_path(names.index_name()), data, limit=4)
        assert found["kind"] == "deletion vectors"
        assert [v["cardinality"] for v in found["vectors"]] == [3, 50]
        assert found["vectors"][1]["positions"] == [0, 1, 2, 3]
        assert found["vectors"][0]["form"] == ("64-bit" if bitmap64 else "32-bit")
    assert inspected(paths.index_path(names.index_name()), b"\x01")["count"] == 0
    with pytest.raises(CorruptFileError):
        inspected(paths.index_path(names.index_name()), b"abcdef")


def test_data_files_are_described(paths: TablePaths) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "x": [float("nan"), float("inf")],
            "b": [b"\x00", b"\xff"],
            "s": ["a", "b"],
        }
    )
    path = paths.data_file({"dt": 0}, 0, NewFileNames().data_file())
    with STORE.open_output(path) as out:
        pq.write_table(table.replace_schema_metadata({"k": "v"}), out, compression="zstd")
    found = inspect_file(path, store=STORE)
    json.dumps(found, allow_nan=False)
    assert (found["kind"], found["rows"], found["keyValueMetadata"]) == ("parquet data file", 2, {"k": "v"})
    assert [f["name"] for f in found["fields"]] == ["id", "x", "b", "s"]
    assert found["rowGroups"][0]["columns"][0]["compression"] == "ZSTD"
    assert (found["rowGroups"][0]["columns"][0]["min"], found["rowGroups"][0]["columns"][0]["max"]) == (1, 2)
    path = paths.data_file({"dt": 0}, 0, NewFileNames().data_file("orc"))
    with STORE.open_output(path) as out:
        orc.write_table(table, out)
    assert inspect_file(path, store=STORE)["kind"] == "orc data file"


def test_damaged_files_are_errors(paths: TablePaths) -> None:
    names = NewFileNames()
    for path, data in (
        (paths.snapshot_path(3), b"not json"),
        (paths.snapshot_path(4), b"{}"),
        (paths.schema_path(9), b""),
        (paths.latest, b"x"),
        (paths.manifest_path(names.manifest_name()), b"Obj\x01"),
        (paths.manifest_path(names.manifest_name()), b"garbage"),
        (paths.data_file({"dt": 0}, 0, names.data_file()), b"PAR1 but no more"),
        (paths.data_file({"dt": 0}, 0, names.data_file("orc")), b"ORC but no more"),
        (paths.data_file({"dt": 0}, 0, names.data_file()), b"other"),
    ):
        with pytest.raises(CorruptFileError) as caught:
            inspected(path, data)
        assert caught.value.path == path


def test_files_of_nobody(paths: TablePaths) -> None:
    with pytest.raises(NotFoundError):
        inspect_file(f"{paths.root}/none", store=STORE)
    for data in (b"hello", b'{"a":1}'):
        with pytest.raises(UnsupportedError):
            inspected(f"{paths.root}/readme", data)


# ---- lookup files ----------------------------------------------------------------------------------------------------


ENTRIES = [(bytes.fromhex("000001000000"), b"\x11"), (bytes.fromhex("000002000000"), b"\x12")]


def test_a_sort_store_is_described(tmp_path: Path) -> None:
    build(factory(StoreType.SORT, compression="none", bloom_fpp=None), tmp_path / "x", ENTRIES)
    # Numbers of the worked file in the format sheet.
    assert json.loads(json.dumps(describe_lookup_file(LocalStore(), str(tmp_path / "x")))) == {
        "kind": "lookup store, sort",
        "size": 84,
        "entries": 2,
        "footer": {
            "bloom_offset": 0, "bloom_size": 0, "bloom_entries": 0, "index_offset": 28, "index_size": 15,
            "magic": 1481571681,
        },
        "blocks": [
            {"offset": 0, "size": 23, "compression": "none", "body_size": 23, "aligned": True, "entries": 2,
             "last_key": "000002000000"}
        ],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["x", "x.context"])
def test_a_hash_store_is_described(tmp_path: Path, name: str) -> None:
    build(factory(StoreType.HASH, compression="none"), tmp_path / "x", [*ENTRIES, (b"a", b"bcd")])
    described = json.loads(json.dumps(describe_lookup_file(LocalStore(), str(tmp_path / name))))
    assert (described["kind"], described["entries"], described["pages"]) == ("lookup store, hash", 3, 1)
    assert [(s["key_length"], s["count"], s["slots"]) for s in described["key_lengths"]] == [(1, 1, 1), (6, 2, 3)]


def test_what_is_neither(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"something else entirely, longer than a footer")
    with pytest.raises(CorruptFileError, match="magic"):
        describe_lookup_file(LocalStore(), str(tmp_path / "x"))
    with pytest.raises(NotFoundError):
        describe_lookup_file(LocalStore(), str(tmp_path / "y"))


# ---- files beside a table that only some histories leave there -------------------------------------------------------


def beside(folder: Path, name: str) -> str:
    return str(folder / "wh/_lakeidx/d/t" / name)


def test_each_kind_by_where_it_lies(tmp_path: Path) -> None:
    turn = {"kind": "turn", "batch_id": "b", "partitions": ["00"], "lost": 2, "seconds_per_try": 10.5}
    ring = encode_metadata(initial_metadata("p=1", 2))
    pointer = json.dumps(asdict(CurrentBatch("b7", "table"))).encode()
    kinds = {
        "_commit_priority.json": (json.dumps(turn).encode(), "commit priority", ("lost", 2)),
        "_index/consistent-hashing/p=1/00000000000000.hashing_meta": (ring, "consistent hashing ring", ("num_buckets", 2)),
        "_index/consistent-hashing/p=1/20260101.commit": (b"", "commit marker of a ring", ("instant", "20260101")),
        "_index/commits/user-1": (b"12", "commit marker", ("snapshotId", 12)),
        "_partitions/2013-01-0a": (pointer, "current batch of a partition", ("batch_id", "b7")),
        "_committed/0f": (b"b7", "committed landing file", ("batch_id", "b7")),
    }  # fmt: skip
    for name, (data, kind, (key, value)) in kinds.items():
        found = inspected(beside(tmp_path, name), data)
        assert (found["kind"], found[key]) == (kind, value), name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("_commit_priority.json", b'{"kind": "turn"}'),
        ("b/ingest.json", b'{"stage": "ingest", "rows": 1}'),
        ("_partitions/x", b'{"batch": 1}'),
        ("_index/commits/user-1", b"twelve"),
        ("_index/r/1.hashing_meta", b"{}"),
        ("b/x.arrow", b"ARROW1\0\0 and no more"),
        ("b/changes", b'LXCHG1\n[["new"'),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(CorruptFileError) as error:
        inspected(beside(tmp_path, name), data)
    assert error.value.path == beside(tmp_path, name)
