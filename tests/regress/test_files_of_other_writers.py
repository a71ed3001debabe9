"""Files that other writers made, or that lie elsewhere."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import lakeidx
from lakeidx.codec.containers.avro import decode_container, header_schema
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.file_index.registry import file_index_of
from lakeidx.format.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, SimpleStats
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import (
    DeletionVectorMeta,
    IndexEntry,
    decode_index_manifest,
    encode_index_manifest,
)
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, decode_manifest_list, encode_manifest_list
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.changes import evolve
from lakeidx.format.schema.option_changes import set_options
from lakeidx.format.schema.schema_file import decode_schema, encode_schema, new_schema
from lakeidx.format.snapshot import decode_snapshot, encode_snapshot
from lakeidx.format.tag import Tag, decode_tag, encode_tag
from lakeidx.predicate.tree import Compare, Op
from lakeidx.table.commit.manifest_write import ManifestWriter
from lakeidx.table.entries import of_partitions
from lakeidx.table.entry_decoder import decode_entries
from lakeidx.table.manifest_files import ManifestFiles
from lakeidx.types import parse_type
from tests.kit.avro_checksum import as_others_write
from tests.property.test_manifest_columns import MemoryPuts

# A manifest of paimon-rust, whose top type is a union of null and a record, counted as damaged.
#
# What Avro allows is read: the same entries in files of one writer after another, each of another shape. fastavro writes them,
# which
# lakeidx does not use to read a container; what it cannot write is put together here byte by byte.

Schema = dict[str, Any]
SCHEMA = new_schema({"fields": [{"name": "id", "type": "INT"}], "primaryKeys": ["id"]})
STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, (0, None, 1 << 40))


def entry(number: int) -> ManifestEntry:
    file = DataFileMeta(
        file_name=f"data-{number}.parquet", file_size=number, row_count=1, min_key=EMPTY_ROW, max_key=EMPTY_ROW, key_stats=STATS,
        value_stats=EMPTY_STATS, min_sequence_number=0, max_sequence_number=number, schema_id=0, level=number % 3,
        extra_files=("a.index", "b.index")[: number % 3], creation_time_ms=1785000000123,
        delete_row_count=None if number % 2 else 7, embedded_index=b"\x01" if number % 4 == 0 else None,
        value_stats_cols=() if number % 5 else None,
    )  # fmt: skip
    return ManifestEntry(kind=FileKind(number % 2), partition=EMPTY_ROW, bucket=number % 7, total_buckets=-1, file=file)


ENTRIES = [entry(n) for n in range(300)]
LISTED = [
    ManifestFileMeta(file_name=f"manifest-{n}", file_size=n, num_added_files=1, num_deleted_files=0, partition_stats=STATS,
                     schema_id=0, min_bucket=n or None)
    for n in range(3)
]  # fmt: skip
VECTOR = DeletionVectorMeta(data_file_name="data-1.parquet", offset=1, length=22)
INDEXED = [
    IndexEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=n, index_type="DELETION_VECTORS", file_name=f"index-{n}", file_size=8,
               row_count=2, dv_ranges=(replace(VECTOR, cardinality=n or None),))
    for n in range(3)
]  # fmt: skip
FILES: list[Any] = [
    pytest.param(encode_manifest, decode_manifest, ENTRIES, id="manifest"),
    pytest.param(encode_manifest_list, decode_manifest_list, LISTED, id="list"),
    pytest.param(encode_index_manifest, decode_index_manifest, INDEXED, id="index"),
]


def fields(node: Any) -> list[Any]:
    """The fields of all records in a schema."""
    if isinstance(node, list):
        return [f for n in node for f in fields(n)]
    if not isinstance(node, dict):
        return []
    mine = node.get("fields", ())
    return [
        *mine,
        *(f for key in ("type", "items") for f in fields(node.get(key))),
        *(g for f in mine for g in fields(f["type"])),
    ]


def optional_records(schema: Schema) -> Any:
    for field in fields(schema):
        if isinstance(field["type"], dict) and field["type"]["type"] == "record":
            field["type"] = ["null", field["type"]]
    return ["null", schema]


def null_last(schema: Schema) -> Any:
    for field in fields(schema):
        if isinstance(field["type"], list):
            field["type"].reverse()
            field.pop("default", None)
    return [schema, "null"]


def backwards(schema: Schema) -> Any:
    """The fields of each record in the opposite order."""
    for record in [schema, *(f["type"] for f in fields(schema) if isinstance(f["type"], dict))]:
        record.get("fields", []).reverse()
    return schema


def one_type_of_statistics(schema: Schema) -> Any:
    """Value statistics have the type of key statistics, by its name in another namespace; longs are a type with attributes."""
    for field in fields(schema):
        if field["name"] in ("_KEY_STATS", "_PARTITION_STATS"):
            field["type"] |= {"name": "Stats", "namespace": "a.b", "aliases": ["Old"], "doc": "statistics"}
        if field["name"] == "_VALUE_STATS":
            field["type"] = ["null", "a.b.Stats"]
        if field["type"] == "long":
            field |= {"type": {"type": "long", "doc": "n"}, "aliases": ["_X"], "default": 3}
    return schema


#: Fields of a writer's own, of every kind of type.
OWN: list[tuple[str, Any, Any]] = [
    ("_A", {"type": "fixed", "name": "md5", "size": 3}, b"abc"),
    ("_B", {"type": "enum", "name": "suit", "symbols": ["X", "Y"]}, "Y"),
    ("_C", {"type": "map", "values": ["md5", "null", "suit", "boolean", "float", "double"]}, {"k": b"xyz", "n": None}),
    ("_D", "null", None),
    ("_E", {"type": "record", "name": "record", "namespace": "mine", "fields": [{"name": "md5", "type": "md5"}]}, {"md5": b"123"}),
]  # fmt: skip


def more_fields(schema: Schema) -> Any:
    md5 = f"{schema['namespace']}.md5"
    text = json.dumps([{"name": name, "type": kind} for name, kind, _ in OWN]).replace(
        '"type": "md5"', f'"type": "{md5}"'
    )
    schema["fields"][:0] = json.loads(text)
    return schema


SHAPES: list[Callable[[Schema], Any]] = [
    optional_records, null_last, backwards, one_type_of_statistics, more_fields, lambda s: null_last(more_fields(backwards(s))),
]  # fmt: skip


def written(data: bytes, shape: Callable[[Schema], Any], codec: str = "null") -> bytes:
    """The records of a file as a writer with a schema of another shape writes them."""
    schema = shape(deepcopy(header_schema(data)))
    records = decode_container(data)
    for record in records:
        record |= {name: value for name, _, value in OWN}
    out = io.BytesIO()
    # Java's times are plain numbers here, too.
    plain = json.loads(json.dumps(schema).replace('"logicalType": "timestamp-millis"', '"doc": "t"'))
    fastavro.writer(out, plain, records, codec=codec, sync_interval=2000)
    return out.getvalue()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("encode", "decode", "objects"), FILES)
def test_every_shape_is_read_and_kept(
    encode: Callable[..., bytes], decode: Callable[..., Any], objects: Any, shape: Callable[[Schema], Any]
) -> None:
    theirs = written(encode(objects), shape)
    found = decode(theirs)
    assert [replace(o, unknown=()) for o in found] == objects
    own = {u.name: u.value for u in found[-1].unknown}
    assert own in ({}, {name: value for name, _, value in OWN if value is not None})
    # Written anew, a file is of our shape, and a writer's own fields are kept.
    again = encode(found)
    assert decode(again) == found
    names = [f["name"] for f in header_schema(again)["fields"]]
    assert names == [f["name"] for f in header_schema(encode(objects))["fields"]] + list(own)
    assert len(list(fastavro.reader(io.BytesIO(encode(found, codec="null"))))) == len(objects)


@pytest.mark.parametrize("shape", SHAPES)
def test_columns_of_a_manifest_of_any_shape(shape: Callable[[Schema], Any]) -> None:
    data = written(encode_manifest(ENTRIES), shape)
    expected = decode_manifest(data)
    columns = decode_entries(data)
    assert list(columns) == expected
    assert columns.column("level").tolist() == [e.file.level for e in ENTRIES]
    assert columns.column("delete_row_count").tolist() == [7 if n % 2 == 0 else -1 for n in range(300)]
    assert list(decode_entries(data, keep=of_partitions(set()))) == []
    # What a commit copies of it is of our shape, also when it is copied twice.
    for _ in range(2):
        files = ManifestFiles(MemoryPuts(), TablePaths("/t"))  # type: ignore[arg-type]
        writer = ManifestWriter(files, SCHEMA, NewFileNames())
        (meta,) = writer.write_manifests(columns)
        writer.finish()
        (copied,) = (d for p, d in files.store.files.items() if p.endswith(meta.file_name))  # type: ignore[attr-defined]
        assert header_schema(copied)["fields"][0]["name"] == "_VERSION"
        columns = decode_entries(copied)
        assert list(columns) == expected


def test_an_index_manifest_of_another_shape_is_read() -> None:
    for shape in (s for s in SHAPES if s is not one_type_of_statistics):
        data = written(encode_index_manifest(INDEXED), shape, codec="deflate")
        assert [e.bucket for e in decode_index_manifest(data, partitions={EMPTY_ROW})] == [0, 1, 2]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs(codec: str) -> None:
    data = written(encode_manifest(ENTRIES), optional_records, codec)
    assert list(decode_entries(data)) == ENTRIES
    assert list(decode_entries(encode_manifest(ENTRIES, codec=codec))) == ENTRIES


def test_blocks_of_items_that_say_their_bytes() -> None:
    """An array may come in blocks, each with a negative count and its length."""
    data = as_others_write(encode_manifest([entry(2)], codec="null"))
    sync = data[-16:]
    head, _, block = data[:-16].partition(sync)
    assert block[0] == 2
    body = block[3:] if block[1] & 0x80 else block[2:]
    old = b"\x04\x0ea.index\x0eb.index\x00"
    assert body.count(old) == 1
    new = body.replace(old, b"\x01\x10\x0ea.index\x01\x10\x0eb.index\x00")
    size = len(new) * 2
    data = head + sync + b"\x02" + bytes([size & 0x7F | 0x80, size >> 7]) + new + sync
    assert decode_manifest(data) == list(decode_entries(data)) == [entry(2)]


@pytest.mark.parametrize(
    "types",
    [
        {"_BUCKET": "string"}, {"_FILE_NAME": "long"}, {"_PARTITION": ["null", "int"]}, {"_LEVEL": "null"},
        {"_EXTRA_FILES": {"type": "array", "items": "null"}}, {"_LEVEL": {"type": "fixed", "name": "f", "size": 1 << 40}},
        {"_VALUE_STATS": "record"}, {"_FILE": "none"},
    ],
)  # fmt: skip
def test_types_that_no_manifest_has_are_damage(types: dict[str, Any]) -> None:
    data = as_others_write(encode_manifest(ENTRIES[:2], codec="null"))
    schema = header_schema(data)
    for field in fields(schema):
        field["type"] = types.get(field["name"], field["type"])
    text = json.dumps(schema).encode()
    sync = data[-16:]
    size = len(text) * 2
    head = (
        b"Obj\x01\x02\x16avro.schema"
        + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
        + text
        + b"\x00"
    )
    damaged = head + sync + data[:-16].partition(sync)[2] + sync
    for decode in (decode_manifest, decode_entries):
        with pytest.raises(CorruptFileError):
            decode(damaged, "f")


# Fields that Paimon 2.x added were dropped when lakeidx wrote a manifest or an index manifest anew (G6).
#
# Java's primary-key index entries lost ``_GLOBAL_INDEX._SOURCE_META``, data-evolution files ``_WRITE_COLS_SEQUENCES``. Records are
# compared as the writer's schema in the file says they are, whatever lakeidx knows of them.

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "paimon-2.1"


def avro(data: bytes) -> list[Any]:
    return decode_container(data)


def changed(data: bytes, change: Callable[[dict[str, Any]], None], fill: Callable[[Any], None]) -> bytes:
    """A file whose writer has another schema."""
    schema = header_schema(data)
    change(schema)
    records = avro(data)
    for record in records:
        fill(record)
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec="null")
    return out.getvalue()


def test_index_entries_of_java_keep_their_source_files() -> None:
    data = (GOLDEN / "index-manifest-primary-key-btree").read_bytes()
    before = avro(data)
    assert b"data-1eb60f6f" in before[0]["_GLOBAL_INDEX"]["_SOURCE_META"]
    hashes = IndexEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=1, index_type="HASH", file_name="index-h",
                        file_size=8, row_count=2)  # fmt: skip
    entries = [hashes, *decode_index_manifest(data)]
    again = encode_index_manifest(entries)
    assert avro(again)[1:] == before
    # Entries of lakeidx beside them have none, and a second rewrite changes nothing more.
    assert decode_index_manifest(again) == entries
    assert avro(encode_index_manifest(decode_index_manifest(again))) == avro(again)


def test_a_rewrite_without_such_fields_has_the_schema_of_before() -> None:
    for name, decode, encode in (
        ("manifest-data-evolution", decode_manifest, encode_manifest),
        ("manifest-list-row-ids", decode_manifest_list, encode_manifest_list),
    ):
        data = (GOLDEN / name).read_bytes()
        again = encode(decode(data))  # type: ignore[arg-type]
        assert "SEQUENCES" not in json.dumps(header_schema(again))
        strip = [{k: v for k, v in r.items() if k != "_FILE"} for r in avro(data)]
        assert [{k: v for k, v in r.items() if k != "_FILE"} for r in avro(again)] == strip


def test_data_files_keep_the_sequences_of_their_columns() -> None:
    def fill(record: Any) -> None:
        record["_FILE"]["_WRITE_COLS_SEQUENCES"] = [7, 9]

    plain = (GOLDEN / "manifest-data-evolution").read_bytes()
    with_sequences = changed(plain, lambda schema: None, fill)
    entries = decode_manifest(with_sequences) + decode_manifest(plain)
    # A DELETE of the entry, and one at another level, say the same.
    entries += [replace(entries[0], kind=FileKind.DELETE), replace(entries[0], file=replace(entries[0].file, level=5))]
    again = avro(encode_manifest(entries))
    assert [r["_FILE"]["_WRITE_COLS_SEQUENCES"] for r in again] == [[7, 9], None, [7, 9], [7, 9]]
    assert again[0] == avro(with_sequences)[0]
    assert decode_manifest(encode_manifest(entries)) == entries


def test_fields_at_every_depth_and_without_default_survive() -> None:
    def change(schema: dict[str, Any]) -> None:
        file = schema["fields"][5]["type"]
        stats = next(f for f in file["fields"] if f["name"] == "_KEY_STATS")["type"]
        stats["fields"].append({"name": "_SKETCH", "type": {"type": "record", "name": "record__FILE__SKETCH", "fields": [
            {"name": "a", "type": "int"}, {"name": "b", "type": ["null", {"type": "map", "values": "string"}]}]}})  # fmt: skip
        schema["fields"].append({"name": "_OWNER", "type": "string"})
        schema["fields"].append({"name": "_AT", "type": {"type": "long", "logicalType": "timestamp-millis"}})

    def fill(record: Any) -> None:
        record["_FILE"]["_KEY_STATS"]["_SKETCH"] = {"a": 4, "b": {"x": "y"}}
        record["_OWNER"], record["_AT"] = "java", 1_700_000_000_000

    plain = (GOLDEN / "manifest-data-evolution").read_bytes()
    later = changed(plain, change, fill)
    again = avro(encode_manifest(decode_manifest(later) + decode_manifest(plain)))
    first = avro(later)[0]
    del first["_FILE"]["_WRITE_COLS_SEQUENCES"]
    assert again[0] == first
    # An entry of a writer that did not know the fields has no value for them.
    assert again[1]["_OWNER"] is None
    assert again[1]["_FILE"]["_KEY_STATS"]["_SKETCH"] is None


def test_manifest_lists_keep_fields_beside_known_ones() -> None:
    def change(schema: dict[str, Any]) -> None:
        schema["fields"].append({"name": "_MIN_TIME", "type": ["null", "long"], "default": None})

    later = changed((GOLDEN / "manifest-list-row-ids").read_bytes(), change, lambda r: r.update(_MIN_TIME=5))
    assert avro(encode_manifest_list(decode_manifest_list(later))) == avro(later)


def test_one_name_of_two_kinds_is_refused() -> None:
    plain = (GOLDEN / "manifest-list-row-ids").read_bytes()
    metas = []
    for kind, value in (("int", 1), ("string", "x")):

        def change(schema: dict[str, Any], kind: str = kind) -> None:
            schema["fields"].append({"name": "_NEW", "type": kind})

        metas += decode_manifest_list(changed(plain, change, lambda r, value=value: r.update(_NEW=value)))  # type: ignore[misc]
    with pytest.raises(UnsupportedError, match="field _NEW is defined in two ways"):
        encode_manifest_list(metas)


def test_snapshots_and_tags_keep_keys_of_later_releases() -> None:
    data = (GOLDEN / "snapshot-primary-key-index").read_bytes()
    assert encode_snapshot(decode_snapshot(data)) == data
    later = data[:-2] + b',\n  "lineage" : {\n    "jobs" : [ 1, 2.50 ]\n  }\n}'
    snapshot = decode_snapshot(later)
    assert encode_snapshot(snapshot) == later
    tag = Tag(snapshot=snapshot, create_time_ns=1_700_000_000_000_000_000, time_retained_ns=10**9)
    kept = json.loads(encode_tag(tag))
    assert kept["lineage"] == {"jobs": [1, 2.5]}
    assert kept["writerVersion"].startswith("java-2.1")
    assert decode_tag(encode_tag(tag)) == tag
    # Read as a snapshot, a tag's own keys are no part of it.
    assert encode_snapshot(decode_snapshot(encode_tag(tag))) == later


def test_schemas_keep_keys_of_later_releases() -> None:
    row = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}]}
    spec = {"fields": [{"name": "id", "type": "BIGINT"}, {"name": "r", "type": row}], "primaryKeys": ["id"]}
    made = json.loads(encode_schema(new_schema(spec)))
    made["owner"] = {"name": "ops", "since": 2026}
    made["fields"][0]["masked"] = True
    made["fields"][1]["type"]["fields"][0]["unit"] = "ms"
    schema = decode_schema(json.dumps(made).encode())
    assert json.loads(encode_schema(schema)) == made
    later = json.loads(encode_schema(evolve(schema, [set_options({"write-only": "true"})])))
    assert later["owner"] == made["owner"]
    assert later["fields"] == made["fields"]


# A range bitmap over values of both signs, or more than 2^63 apart, was called damaged.


@pytest.mark.parametrize(
    ("type_text", "values"),
    [
        ("DOUBLE", [-6.5, -3.5, 11.375, 11.5]),
        ("DOUBLE", [float("-inf"), -1.0, 1.0, float("inf")]),
        ("FLOAT", [-6.5, -3.5, 11.375, 11.5]),
        ("BIGINT", [-(2**63), -1, 0, 2**63 - 1]),
        ("DECIMAL(18, 0)", [Decimal(-(10**17)), Decimal(-1), Decimal(5), Decimal(10**17)]),
    ],
)
def test_every_value_is_found(type_text: str, values: list[float | Decimal]) -> None:
    """Equality and order, for each value of a chunk's body and head."""
    t = parse_type(type_text)
    indexer = file_index_of("range-bitmap")
    writer = indexer.create_writer(t, {})
    arrow = {"DOUBLE": pa.float64(), "FLOAT": pa.float32(), "BIGINT": pa.int64()}.get(type_text, pa.decimal128(18, 0))
    writer.add(pa.array([None, *values], arrow))
    payload = writer.finish()
    assert payload is not None
    reader = indexer.create_reader(t, payload)
    for row, value in enumerate(values, 1):
        assert list(reader.select(Compare("c", Op.EQ, value))) == [row]  # type: ignore[arg-type]
        assert list(reader.select(Compare("c", Op.GE, value))) == list(range(row, len(values) + 1))  # type: ignore[arg-type]


# With ``parquet.page.size`` of a few bytes Arrow wrote files of one row whose nested columns could not be read.


@pytest.mark.parametrize("size", ["0", "1", "5 b", "63"])
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_they_are_read(tmp_path: Path, size: str, rows: int) -> None:
    fields = [{"name": "k", "type": "BIGINT"}, {"name": "m", "type": {"type": "ARRAY", "element": "INT"}}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", "parquet.page.size": size}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    given = pa.table({"k": pa.array(range(rows), pa.int64()), "m": pa.array([[1]] * rows, pa.list_(pa.int32()))})
    table.upsert(given)
    assert table.scan().to_arrow().to_pylist() == given.to_pylist()
