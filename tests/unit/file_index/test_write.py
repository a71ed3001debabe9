"""The writer beside a data file: columns, map entries, thresholds, and what cannot be indexed."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.file_index.container import FileIndexContainer, decode_index_container
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import Verdict
from lakeidx.file_index.write import FileIndexParts, index_builder
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate import col
from lakeidx.types import to_arrow_schema


def schema_of(types: dict[str, Any], options: dict[str, str]) -> TableSchema:
    return new_schema({"fields": [{"name": n, "type": t} for n, t in types.items()], "options": options})


def write(schema: TableSchema, *tables: pa.Table) -> FileIndexParts:
    builder = index_builder(schema)
    assert builder is not None
    writer = builder()
    for table in tables:
        writer.add(table)
    return writer.finish()


MAP = {"type": "MAP", "key": "STRING", "value": "INT"}


def test_no_options_no_writer() -> None:
    assert index_builder(schema_of({"a": "INT"}, {})) is None


def test_threshold_decides_where_the_container_goes() -> None:
    table = pa.table({"a": pa.array([1, 2, None], pa.int32())})
    options = {"file-index.bitmap.columns": "a"}
    embedded = write(schema_of({"a": "INT"}, options), table).embedded
    assert embedded is not None
    at_limit = schema_of({"a": "INT"}, {**options, "file-index.in-manifest-threshold": f"{len(embedded)} b"})
    assert write(at_limit, table) == (embedded, [])
    above = schema_of({"a": "INT"}, {**options, "file-index.in-manifest-threshold": f"{len(embedded) - 1} b"})
    assert write(above, table) == (None, [(".index", embedded)])


def test_default_bloom_filter_goes_beside_the_file() -> None:
    parts = write(
        schema_of({"a": "INT"}, {"file-index.bloom-filter.columns": "a"}), pa.table({"a": pa.array([1], pa.int32())})
    )
    assert parts.embedded is None
    ((suffix, data),) = parts.side_files
    assert suffix == ".index"
    payload = decode_index_container(data)["a"]["bloom-filter"]
    assert payload is not None
    assert len(payload) == 599_067 + 4


def test_entries_of_map_columns() -> None:
    schema = schema_of({"m": MAP}, {"file-index.bitmap.columns": "m[k],m[gone]"})
    rows: list[Any] = [[("k", 1)], [("j", 1)], None, [("k", None)], [], [("k", 2), ("j", 5)]]
    arrow = to_arrow_schema(schema.fields)
    container = write(schema, pa.table({"m": rows[:2]}, schema=arrow), pa.table({"m": rows[2:]}, schema=arrow)).embedded
    assert container is not None

    def ask(pred: Any) -> Any:
        got = evaluate_container(container, pred, schema.fields, rows=6)
        return got if isinstance(got, Verdict) else list(got)

    entry, gone = col("m")["k"], col("m")["gone"]
    assert ask(entry == 1) == [0]
    assert ask(entry == 2) == [5]
    assert ask(entry.is_null()) == [1, 2, 3, 4]
    assert ask(entry.is_not_null()) == [0, 5]
    assert ask(gone == 1) is Verdict.SKIP
    assert ask(gone.is_null()) is Verdict.REMAIN
    assert ask(col("m")["other"] == 1) is Verdict.REMAIN


def test_file_without_rows() -> None:
    schema = schema_of({"a": "INT", "m": MAP}, {"file-index.bitmap.columns": "a,m[k]"})
    container = write(schema).embedded
    assert container is not None
    entries = {e.column: e.is_empty for e in FileIndexContainer.from_bytes(container).entries}
    assert entries == {"a": False, "m[k]": True}
    entry = col("m")["k"]
    skipped = (entry == 1, entry.is_in([1]), entry < 1, entry.is_not_null())
    assert all(evaluate_container(container, p, schema.fields) is Verdict.SKIP for p in skipped)
    kept = (entry != 1, entry.not_in([1]), entry.is_null())
    assert all(evaluate_container(container, p, schema.fields) is Verdict.REMAIN for p in kept)


def test_values_that_cannot_be_kept_leave_the_index_out(caplog: pytest.LogCaptureFixture) -> None:
    schema = schema_of(
        {"a": "BIGINT", "s": "STRING"},
        {
            "file-index.bsi.columns": "a",
            "file-index.bitmap.columns": "a,s",
            "file-index.bitmap.s.index-block-size": "40 b",
        },
    )
    table = pa.table({"a": pa.array([-(2**63), 1], pa.int64()), "s": ["short", "x" * 100]})
    with caplog.at_level(logging.WARNING):
        container = write(schema, table).embedded
    assert container is not None
    assert {c: list(by) for c, by in decode_index_container(container).items()} == {"a": ["bitmap"]}
    assert sorted(r.getMessage().split(":")[0] for r in caplog.records) == ["column a", "column s"]
    alone = schema_of({"a": "BIGINT"}, {"file-index.bsi.columns": "a"})
    assert write(alone, table) == (None, [])


def test_columns_it_needs() -> None:
    schema = schema_of({"a": "INT", "b": "INT", "m": MAP}, {"file-index.bitmap.columns": "m[x],a,m[y]"})
    builder = index_builder(schema)
    assert builder is not None
    writer = builder()
    assert writer.columns == ("m", "a")
    with pytest.raises(InvalidInputError, match="needs columns m"):
        writer.add(pa.table({"a": pa.array([1], pa.int32())}))


def test_bad_configuration_of_an_existing_table() -> None:
    builder = index_builder(
        schema_of({"a": "INT"}, {}).__class__(
            id=0,
            fields=schema_of({"a": "INT"}, {}).fields,
            highest_field_id=0,
            options={"file-index.bitmap.columns": "gone"},
        )
    )
    assert builder is not None
    with pytest.raises(InvalidInputError, match="unknown column 'gone'"):
        builder()
