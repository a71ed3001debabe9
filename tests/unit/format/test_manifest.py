"""Manifests, manifest lists and index manifests: round trips, older and newer writers, damaged bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError
from lakeidx.format.data_file import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from lakeidx.format.index_manifest import (
    DeletionVectorMeta,
    IndexEntry,
    decode_index_manifest,
    encode_index_manifest,
)
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, decode_manifest_list, encode_manifest_list
from tests.unit.format.strategies import index_entries, manifest_entries, manifest_files

FILE = DataFileMeta(
    file_name="data-1.parquet", file_size=1000, row_count=10, min_key=b"min", max_key=b"max",
    key_stats=SimpleStats(b"a", b"b", (0,)), value_stats=SimpleStats(b"a", b"b", (1, None)), min_sequence_number=0,
    max_sequence_number=9, schema_id=0, level=0, extra_files=("x.index",), creation_time_ms=123, delete_row_count=1,
    file_source=FileSource.APPEND, value_stats_cols=("k", "v"),
)  # fmt: skip
ENTRY = ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=2, file=FILE)
META = ManifestFileMeta(
    file_name="manifest-1", file_size=100, num_added_files=3, num_deleted_files=1, partition_stats=EMPTY_STATS, schema_id=0,
    min_bucket=0, max_bucket=4, min_level=0, max_level=5,
)  # fmt: skip
INDEX = IndexEntry(
    kind=FileKind.ADD, partition=EMPTY_ROW, bucket=1, index_type="HASH", file_name="index-1", file_size=8, row_count=2
)
CODECS: list[Any] = [
    pytest.param(encode_manifest, decode_manifest, ENTRY, id="manifest"),
    pytest.param(encode_manifest_list, decode_manifest_list, META, id="manifest list"),
    pytest.param(encode_index_manifest, decode_index_manifest, INDEX, id="index manifest"),
]


VALUES = {ManifestEntry: manifest_entries, ManifestFileMeta: manifest_files, IndexEntry: index_entries}


@pytest.mark.parametrize(("encode", "decode", "value"), CODECS)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), codec=st.sampled_from(["zstd", "null", "deflate", "snappy"]))
def test_round_trip(encode: Any, decode: Any, value: Any, data: st.DataObject, codec: str) -> None:
    values: list[Any] = data.draw(st.lists(VALUES[type(value)], max_size=6))
    assert decode(encode(values, codec)) == values


@pytest.mark.slow
@pytest.mark.parametrize(("encode", "decode", "value"), CODECS)
def test_empty_and_many(encode: Any, decode: Any, value: Any) -> None:
    assert decode(encode([])) == []
    many = [replace(value, **({"bucket": i} if hasattr(value, "bucket") else {"file_size": i})) for i in range(3000)]
    assert decode(encode(many)) == many


def test_the_identifier_holds_what_makes_a_file_another() -> None:
    for change in (
        replace(ENTRY, partition=b"p"), replace(ENTRY, bucket=9), replace(ENTRY, file=replace(FILE, level=5)),
        replace(ENTRY, file=replace(FILE, file_name="other")), replace(ENTRY, file=replace(FILE, extra_files=())),
        replace(ENTRY, file=replace(FILE, embedded_index=b"")), replace(ENTRY, file=replace(FILE, external_path="s3://x")),
    ):  # fmt: skip
        assert change.identifier != ENTRY.identifier
    same = replace(ENTRY, kind=FileKind.DELETE, total_buckets=7, file=replace(FILE, row_count=99, schema_id=3))
    assert same.identifier == ENTRY.identifier
    assert len({ENTRY.identifier, same.identifier}) == 1


def rewritten(data: bytes, change: Callable[[dict[str, Any]], None], fix: Callable[[dict[str, Any]], None]) -> bytes:
    """The file as a writer with another schema would have made it."""
    reader = fastavro.reader(io.BytesIO(data))
    schema = json.loads(reader.metadata["avro.schema"])
    records = [r for r in reader if isinstance(r, dict)]
    change(schema)
    for r in records:
        fix(r)
    out = io.BytesIO()
    fastavro.writer(out, schema, records)
    return out.getvalue()


def test_an_older_writer_lacks_fields() -> None:
    late = {"_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID",
            "_WRITE_COLS", "_CREATION_TIME"}  # fmt: skip

    def change(schema: dict[str, Any]) -> None:
        file = schema["fields"][5]["type"]
        file["fields"] = [f for f in file["fields"] if f["name"] not in late]

    old = rewritten(encode_manifest([ENTRY], "null"), change, lambda r: None)
    expected = replace(
        FILE, delete_row_count=None, file_source=None, value_stats_cols=None, creation_time_ms=None
    )  # fmt: skip
    assert decode_manifest(old) == [replace(ENTRY, file=expected)]

    def no_bounds(schema: dict[str, Any]) -> None:
        schema["fields"] = [f for f in schema["fields"] if not f["name"].startswith(("_MIN_", "_MAX_"))]

    old_list = rewritten(encode_manifest_list([META], "null"), no_bounds, lambda r: None)
    assert decode_manifest_list(old_list) == [
        replace(META, min_bucket=None, max_bucket=None, min_level=None, max_level=None)
    ]


def test_a_newer_writer_has_more_fields_in_another_order() -> None:
    def change(schema: dict[str, Any]) -> None:
        file = schema["fields"][5]["type"]
        file["fields"].append(
            {"name": "_WRITE_COLS_SEQUENCES", "type": ["null", {"type": "array", "items": "long"}], "default": None}
        )
        file["fields"].reverse()
        schema["fields"].insert(0, {"name": "_NEW", "type": "string"})

    def fix(record: dict[str, Any]) -> None:
        record["_NEW"] = "x"
        record["_FILE"]["_WRITE_COLS_SEQUENCES"] = [1, 2]

    decoded = decode_manifest(rewritten(encode_manifest([ENTRY], "null"), change, fix))
    assert [(u.name, u.value) for u in decoded[0].unknown] == [("_NEW", "x")]
    assert [(u.name, u.value) for u in decoded[0].file.unknown] == [("_WRITE_COLS_SEQUENCES", [1, 2])]
    assert [replace(e, unknown=(), file=replace(e.file, unknown=())) for e in decoded] == [ENTRY]


def test_vectors_without_the_element_union_are_read() -> None:
    entry = replace(INDEX, dv_ranges=(DeletionVectorMeta(data_file_name="d", offset=1, length=22, cardinality=3),))

    def change(schema: dict[str, Any]) -> None:
        ranges = schema["fields"][8]["type"][1]
        ranges["items"] = ranges["items"][1]

    assert decode_index_manifest(rewritten(encode_index_manifest([entry], "null"), change, lambda r: None)) == [entry]


def set_field(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def fix(record: dict[str, Any]) -> None:
        record[name] = value

    return fix


@pytest.mark.parametrize(("encode", "decode", "value"), CODECS)
def test_other_versions_and_kinds_are_refused(encode: Any, decode: Any, value: Any) -> None:
    data = encode([value], "null")
    for name, wrong in (("_VERSION", 7), ("_VERSION", -1), ("_KIND", 2), ("_KIND", -1)):
        if name == "_KIND" and isinstance(value, ManifestFileMeta):
            continue
        with pytest.raises(CorruptFileError, match=name) as caught:
            decode(rewritten(data, lambda s: None, set_field(name, wrong)), "f")
        assert caught.value.path == "f"


@pytest.mark.parametrize(("encode", "decode", "value"), CODECS)
def test_one_kind_is_not_another(encode: Any, decode: Any, value: Any) -> None:
    for other in CODECS:
        if other.values[0] is not encode:
            with pytest.raises(CorruptFileError):
                other.values[1](encode([value]), "f")
