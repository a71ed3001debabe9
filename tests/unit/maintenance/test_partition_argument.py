"""Partitions as texts: no part of one is passed over, since fewer words would mean more partitions, or others."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.maintenance.partition_argument import find_partitions, parse_partitions
from lakeidx.types import to_arrow
from tests.kit.small_tables import filled_table, make_table, upsert


def _schema(*partition_keys: str) -> TableSchema:
    fields = [{"name": n, "type": t} for n, t in (("p", "INT"), ("city", "STRING"), ("k", "BIGINT"))]
    return new_schema({"fields": fields, "primaryKeys": ["p", "city", "k"], "partitionKeys": [*partition_keys]})


def _values(text: str, schema: TableSchema) -> list[object]:
    (partition,) = parse_partitions([text], schema).values()
    return list(decode_row(split_arity(partition)[1], schema.partition_types))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("p=1,city=Bonn", [1, "Bonn"]), ("city=Bonn,p=1", [1, "Bonn"]), ("p=1,city=", [1, ""]), ("p=1,city=a=b", [1, "a=b"]),
        ("p=1,city=Paris, Texas", [1, "Paris, Texas"]), ("city=Paris, Texas,p=1", [1, "Paris, Texas"]),
        ("p=__DEFAULT_PARTITION__,city=Bonn", [None, "Bonn"]), ("p=1,city=__DEFAULT_PARTITION__", [1, None]),
    ],
)  # fmt: skip
def test_partitions_are_parsed(text: str, values: list[object]) -> None:
    assert _values(text, _schema("p", "city")) == values


@pytest.mark.parametrize(
    "text", ["", "p=1", "1", "p=1,city", "p=1,city=a,p=2", "p=1,town=a", "p=1,city=a,k=3,p=1", "P=1,city=a"]
)
def test_what_is_no_partition_of_the_table(text: str) -> None:
    """Words without ``=`` were passed over, and of a column that came twice the last value was taken."""
    with pytest.raises(InvalidInputError, match=r"give p=\.\.\., city=\.\.\., each once"):
        parse_partitions([text], _schema("p", "city"))


@pytest.mark.parametrize("text", ["p=1", "anything"])
def test_a_table_without_partitions(text: str) -> None:
    """A word meant the whole table."""
    with pytest.raises(InvalidInputError, match="the table has no partitions"):
        parse_partitions([text], _schema())


def test_a_value_of_another_type() -> None:
    with pytest.raises(InvalidInputError, match="'x' is not INT"):
        parse_partitions(["p=x"], _schema("p"))


def test_one_without_data_is_an_error_or_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    # None means all.
    assert find_partitions(table, None) is find_partitions(table, []) is None
    with pytest.raises(NotFoundError, match="'p=2' does not exist; the table is empty"):
        find_partitions(table, ["p=2"])
    upsert(table, [(1, 1, "a"), (20, 1, "a")])
    with pytest.raises(NotFoundError, match="'p=2' does not exist; did you mean 'p=20' or 'p=1'"):
        find_partitions(table, ["p=1", "p=2"])
    assert not caplog.records
    assert find_partitions(table, ["p=1", "p=2"], missing_ok=True) == {
        *parse_partitions(["p=1", "p=2"], table.schema).values()
    }
    assert [r.message for r in caplog.records] == [f"{table.uri}: partition 'p=2' does not exist, skipping it"]


def test_an_expired_one_does_not_exist(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    upsert(table, [(2, 1, "a")], overwrite="table")
    with pytest.raises(NotFoundError, match="did you mean 'p=2'"):
        find_partitions(table, ["p=1"])


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("DATE", date(2024, 1, 2), "2024-01-02"), ("TIMESTAMP(3)", datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05.000"),
        ("BOOLEAN", True, "true"), ("DECIMAL(5, 2)", Decimal("1.5"), "1.50"), ("STRING", "a=b,c", "a=b,c"),
        ("STRING", None, "__DEFAULT_PARTITION__"), ("INT", None, "__DEFAULT_PARTITION__"),
    ],
)  # fmt: skip
def test_what_is_offered_can_be_given(tmp_path: Path, type_: str, value: object, text: str) -> None:
    fields = [{"name": "d", "type": type_}, {"name": "k", "type": "BIGINT NOT NULL"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "partitionKeys": ["d"], "options": {"bucket": "-1"}}
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    table.upsert(pa.table({"d": pa.array([value], to_arrow(table.schema.field("d").type)), "k": [1]}))
    absent = {"DATE": "1999-01-01", "TIMESTAMP(3)": "1999-01-01 00:00:00", "BOOLEAN": "false"}.get(type_, "9")
    with pytest.raises(NotFoundError) as error:
        find_partitions(table, [f"d={absent}"])
    assert f"d={text}" in str(error.value)
    found = find_partitions(table, [f"d={text}"])
    assert len(found or ()) == 1
