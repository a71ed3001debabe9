"""Partitions as texts: no part of one is passed over, since fewer words would mean more partitions, or others."""

from __future__ import annotations

import pytest

from lakeidx.codec.rows.binary_row import decode_row, split_arity
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.maintenance.partition_argument import parse_partitions


def _schema(*partition_keys: str) -> TableSchema:
    fields = [{"name": n, "type": t} for n, t in (("p", "INT"), ("city", "STRING"), ("k", "BIGINT"))]
    return new_schema({"fields": fields, "primaryKeys": ["p", "city", "k"], "partitionKeys": [*partition_keys]})


def _values(text: str, schema: TableSchema) -> list[object]:
    found = parse_partitions([text], schema)
    assert found is not None
    (partition,) = found
    return list(decode_row(split_arity(partition)[1], schema.partition_types))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("p=1,city=Bonn", [1, "Bonn"]), ("city=Bonn,p=1", [1, "Bonn"]), ("p=1,city=", [1, ""]), ("p=1,city=a=b", [1, "a=b"]),
        ("p=1,city=Paris, Texas", [1, "Paris, Texas"]), ("city=Paris, Texas,p=1", [1, "Paris, Texas"]),
    ],
)  # fmt: skip
def test_partitions(text: str, values: list[object]) -> None:
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


def test_none_means_all() -> None:
    assert parse_partitions(None, _schema("p")) is None
    assert parse_partitions([], _schema("p")) is None
