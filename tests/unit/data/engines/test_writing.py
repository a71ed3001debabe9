"""Row kinds from a column, and rows dropped before they are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeidx.data.engines import apply_write_options, kinds_by_column
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.types import Field, parse_type


def schema_of(options: dict[str, str]) -> TableSchema:
    fields = (Field(0, "id", parse_type("INT NOT NULL")), Field(1, "op", parse_type("STRING")))
    return TableSchema(id=0, fields=fields, highest_field_id=1, primary_keys=("id",), options=options)


def kv_of(kinds: list[int], ops: list[str | None]) -> pa.Table:
    n = len(kinds)
    columns = [
        pa.array(range(n), pa.int64()),
        pa.array(kinds, pa.int8()),
        pa.array(range(n), pa.int32()),
        pa.array(ops, pa.string()),
    ]
    return pa.table(columns, schema=schema_of({}).kv_arrow_schema)


def kept(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table.column("id").to_pylist(), table.column("_VALUE_KIND").to_pylist(), strict=True))


ALL = kv_of([0, 1, 2, 3], ["-D", "+U", "-U", "+I"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ({"ignore-delete": "true"}, [(0, 0), (2, 2)]),
        ({"deduplicate.ignore-delete": "true"}, [(0, 0), (2, 2)]),
        ({"ignore-update-before": "true"}, [(0, 0), (2, 2), (3, 3)]),
    ],
)
def test_rows_as_a_writer_takes_them(options: dict[str, str], expected: list[tuple[int, int]]) -> None:
    chunked = pa.concat_tables([ALL.slice(0, 1), ALL.slice(1, 0), ALL.slice(1)])
    for table in (ALL, chunked):
        out = apply_write_options(table, schema_of(options))
        assert kept(out) == expected
        assert out.schema == table.schema


def test_kinds_by_a_column() -> None:
    values = pa.chunked_array([["-D", "+u"], pa.array(["-U", "+I"]).dictionary_encode().cast(pa.string())])
    assert kinds_by_column(values, None, "op").to_pylist() == [3, 2, 1, 0]
    own = pa.chunked_array([[0, 3, 3, 1]], pa.int8())
    assert kinds_by_column(pa.chunked_array([["-D", "+I", None, None]]), own, "op").to_pylist() == [3, 0, 3, 1]


@pytest.mark.parametrize(("value", "found"), [(None, "null"), ("+ I", r"'\+ I'"), ("", "''"), ("DELETE", "'DELETE'")])
def test_unknown_row_kinds_name_column_and_row(value: str | None, found: str) -> None:
    expected = rf"column 'op' must hold one of \+I, -U, \+U, -D, not {found} \(row 2\)"
    for own in (None, pa.chunked_array([[3, 3, 2]], pa.int8())):
        with pytest.raises(InvalidInputError, match=expected):
            kinds_by_column(pa.chunked_array([["+I"], ["-D", value]], pa.string()), own, "op")
