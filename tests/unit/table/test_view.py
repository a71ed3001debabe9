"""Partition values of a snapshot's files."""

from __future__ import annotations

import pytest

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.table.view import decode_partition_dict


def _schema(kind: str) -> TableSchema:
    fields = [{"name": "p", "type": kind}, {"name": "k", "type": "BIGINT"}]
    return new_schema({"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"]})


def test_the_same_bytes_are_another_value_in_a_table_of_another_type() -> None:
    number, date = _schema("BIGINT"), _schema("TIMESTAMP(3)")
    partition = with_arity(encode_row([7], number.partition_types), 1)
    for _ in range(2):
        assert decode_partition_dict(partition, number) == {"p": 7}
        assert decode_partition_dict(partition, date) == {"p": (7, 0)}


def test_what_a_caller_does_to_its_values_is_its_own() -> None:
    schema = _schema("STRING")
    partition = with_arity(encode_row(["a long name of a partition"], schema.partition_types), 1)
    decode_partition_dict(partition, schema).clear()
    assert decode_partition_dict(partition, schema) == {"p": "a long name of a partition"}


def test_bytes_that_are_no_partition_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            decode_partition_dict(b"\0\0\0\1\0", _schema("INT"))
