"""What a table of Spark's catalog remembers: options in the metadata of its first column."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakeidx.errors import InvalidInputError
from lakeidx.spark.catalog_tables import KEY, options_of_read, options_of_write, with_options

COLUMNS = StructType([StructField("id", LongType(), False), StructField("v", StringType(), True, {"comment": "c"})])
#: As Spark 4.3 gives them for CREATE TABLE ... OPTIONS (path ..., columns ...).
OF_CREATE = {
    "provider": "lakeidx", "owner": "me", "location": "file:/lake/t", "path": "file:/lake/t", "columns": "id",
    "option.columns": "id", "comment": "hello",
}  # fmt: skip


def test_a_frame_that_is_loaded_keeps_its_columns_as_they_are() -> None:
    assert with_options(COLUMNS, {"path": "/lake/t", "where": "id > 5"}) == COLUMNS


def test_the_options_of_a_created_table_come_back_from_its_columns() -> None:
    kept = with_options(COLUMNS, OF_CREATE)
    assert json.loads(kept["id"].metadata[KEY]) == {"path": "file:/lake/t", "columns": "id"}
    assert kept["v"] == COLUMNS["v"]
    assert [(f.name, f.dataType, f.nullable) for f in kept] == [(f.name, f.dataType, f.nullable) for f in COLUMNS]
    # The catalog keeps columns as JSON.
    again = StructType.fromJson(json.loads(kept.json()))
    assert options_of_read({}, again) == {"path": "file:/lake/t", "columns": "id"}
    assert options_of_read({"scan.snapshot-id": "3", "columns": "v"}, again) == {
        "path": "file:/lake/t", "columns": "v", "scan.snapshot-id": "3",
    }  # fmt: skip


def test_a_path_that_is_given_wins() -> None:
    kept = with_options(COLUMNS, OF_CREATE)
    assert options_of_read({"path": "/other"}, kept) == {"path": "/other"}
    assert options_of_read({"path": "/other"}, COLUMNS) == {"path": "/other"}


def test_a_secret_is_not_kept() -> None:
    with pytest.raises(InvalidInputError, match=r"storage\.secret_key: the catalog would show it"):
        with_options(COLUMNS, {**OF_CREATE, "storage.secret_key": "x"})


def test_without_a_path_the_way_to_create_the_table_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"CREATE TABLE name USING lakeidx LOCATION"):
        options_of_read({}, COLUMNS)


def test_a_write_names_its_table_itself() -> None:
    """Columns of a query say where it reads."""
    with pytest.raises(InvalidInputError, match=r"INSERT INTO name WITH \(path = '/lake/db\.db/table'\) SELECT"):
        options_of_write({"missing": "null"})
    assert options_of_write({"path": "/lake/t"}) == {"path": "/lake/t"}
