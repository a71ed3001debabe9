"""Fields that Paimon 2.x added were dropped when lakeidx wrote a manifest or an index manifest anew (G6).

Java's primary-key index entries lost ``_GLOBAL_INDEX._SOURCE_META``, data-evolution files ``_WRITE_COLS_SEQUENCES``. Records are
compared as the writer's schema in the file says they are, whatever lakeidx knows of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakeidx.codec.containers.avro import decode_container, header_schema
from lakeidx.errors import UnsupportedError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import FileKind, decode_manifest, encode_manifest
from lakeidx.format.manifest_list import decode_manifest_list, encode_manifest_list
from lakeidx.format.schema.changes import evolve, set_options
from lakeidx.format.schema.schema_file import decode_schema, encode_schema, new_schema
from lakeidx.format.snapshot import decode_snapshot, encode_snapshot
from lakeidx.format.tag import Tag, decode_tag, encode_tag

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
