from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import (
    BucketMode,
    TableSchema,
    decode_schema,
    encode_schema,
    highest_field_id,
    new_schema,
)
from lakeidx.types import Root

SPEC: dict[str, Any] = {
    "fields": [
        {"name": "id", "type": "BIGINT"},
        {"name": "dt", "type": "DATE", "description": "day of the flight"},
        {"name": "name", "type": "STRING"},
        {
            "name": "r",
            "type": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING"}]},
        },
    ],
    "primaryKeys": ["dt", "id"],
    "partitionKeys": ["dt"],
    "options": {"bucket": "-1"},
}

# Written by Paimon 1.4.2 for a like table; layout checked byte by byte in the golden tests, too.
TEXT = """{
  "version" : 3,
  "id" : 0,
  "fields" : [ {
    "id" : 0,
    "name" : "id",
    "type" : "BIGINT NOT NULL"
  }, {
    "id" : 1,
    "name" : "dt",
    "type" : "DATE NOT NULL",
    "description" : "day of the flight"
  }, {
    "id" : 2,
    "name" : "name",
    "type" : "STRING"
  }, {
    "id" : 3,
    "name" : "r",
    "type" : {
      "type" : "ROW",
      "fields" : [ {
        "id" : 4,
        "name" : "x",
        "type" : "INT"
      }, {
        "id" : 5,
        "name" : "y",
        "type" : "STRING"
      } ]
    }
  } ],
  "highestFieldId" : 5,
  "partitionKeys" : [ "dt" ],
  "primaryKeys" : [ "dt", "id" ],
  "options" : {
    "bucket" : "-1"
  },
  "timeMillis" : 1700000000000
}"""


def make(**changes: Any) -> TableSchema:
    return new_schema({**SPEC, **changes}, time_millis=1_700_000_000_000)


def test_written_as_paimon_does() -> None:
    assert encode_schema(make()).decode() == TEXT
    assert decode_schema(TEXT.encode()) == make()


def test_comment_defaults_and_non_ascii() -> None:
    schema = make(
        comment='with "quotes" and ünïcödé',
        fields=[
            {"name": "k ä", "type": "INT", "defaultValue": "7"},
            {"name": "dt", "type": "INT"},
            {"name": "id", "type": "INT"},
        ],
    )
    data = encode_schema(schema)
    assert decode_schema(data) == schema
    assert '"comment" : "with \\"quotes\\" and ünïcödé",\n  "timeMillis"' in data.decode()
    assert '"defaultValue" : "7"' in data.decode()
    assert schema.field("k ä").default_value == "7"


def test_empty_collections_are_written_as_java_does() -> None:
    text = encode_schema(make(primaryKeys=[], partitionKeys=[], options={})).decode()
    assert '"partitionKeys" : [ ],\n  "primaryKeys" : [ ],\n  "options" : { },' in text


def test_any_layout_and_unknown_keys() -> None:
    value = json.loads(TEXT)
    value["futureKey"] = {"a": [1, None]}
    value["fields"][0]["futureKey"] = 1
    for text in (
        json.dumps(value),
        json.dumps(value, indent=7),
        json.dumps(value, indent="\t", separators=(" ,", " :\r\n")),
    ):
        schema = decode_schema(text.encode())
        assert replace(schema, unknown={}) == make()
        assert schema.unknown == {"futureKey": {"a": [1, None]}}
        assert schema.fields[0].unknown == {"futureKey": 1}


def test_schemas_of_old_versions_get_the_defaults_of_then() -> None:
    value = json.loads(TEXT)
    value["options"] = {}
    del value["version"], value["timeMillis"]
    old = decode_schema(json.dumps(value).encode())
    assert (old.version, old.time_millis, old.bucket, old.table_options.file_format) == (1, 0, 1, "orc")
    value["version"] = 2
    assert dict(decode_schema(json.dumps(value).encode()).options) == {"file.format": "orc"}
    value["version"], value["options"] = 1, {"bucket": "4", "file.format": "avro"}
    assert dict(decode_schema(json.dumps(value).encode()).options) == {"bucket": "4", "file.format": "avro"}
    value["version"] = 4
    with pytest.raises(UnsupportedError, match="version 4"):
        decode_schema(json.dumps(value).encode(), "f")


def test_keys_and_types_follow_from_the_schema() -> None:
    s = make()
    assert s.field_names == ("id", "dt", "name", "r")
    assert s.trimmed_primary_keys == ("id",)
    assert [t.root for t in s.key_types] == [Root.BIGINT]
    assert [t.root for t in s.partition_types] == [Root.DATE]
    assert s.bucket_keys == ("id",)
    assert (s.bucket, s.bucket_mode, s.is_cross_partition) == (-1, BucketMode.HASH_DYNAMIC, False)
    assert s.field("name").id == 2
    assert s.fields_by_id[3].name == "r"
    assert s.highest_field_id == highest_field_id(s.fields) == 5
    assert s.arrow_schema.field("r").type == pa.struct([("x", pa.int32()), ("y", pa.string())])
    assert s.kv_arrow_schema.names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "dt", "name", "r"]
    assert s.kv_arrow_schema.types[:2] == [pa.int64(), pa.int8()]
    with pytest.raises(InvalidInputError, match="no column 'zz'"):
        s.field("zz")


def test_derived_values_do_not_outlive_a_change() -> None:
    s = make()
    assert s.field_names
    assert s.bucket == -1
    assert s.table_options is s.table_options
    other = replace(s, options={"bucket": "4"}, fields=s.fields[:2])
    assert (other.bucket, other.field_names) == (4, ("id", "dt"))
    copy = pickle.loads(pickle.dumps(s))
    assert copy == s
    assert copy.bucket_mode is s.bucket_mode


@pytest.mark.parametrize(
    ("primary", "partition", "options", "mode"),
    [
        (["id"], [], {"bucket": "3"}, BucketMode.HASH_FIXED),
        (["id"], [], {}, BucketMode.HASH_DYNAMIC),
        (["dt", "id"], ["dt"], {}, BucketMode.HASH_DYNAMIC),
        (["id"], ["dt"], {}, BucketMode.KEY_DYNAMIC),
        (["id"], ["dt"], {"bucket": "2"}, BucketMode.HASH_FIXED),
        (["id"], [], {"bucket": "-2"}, BucketMode.POSTPONE),
        ([], [], {}, BucketMode.BUCKET_UNAWARE),
        ([], ["dt"], {"bucket": "2", "bucket-key": "id"}, BucketMode.HASH_FIXED),
    ],
)
def test_the_bucket_mode_follows_from_keys_and_options(
    primary: list[str], partition: list[str], options: dict[str, str], mode: BucketMode
) -> None:
    s = make(primaryKeys=primary, partitionKeys=partition, options=options)
    assert s.bucket_mode is mode
    assert s.is_cross_partition is (primary == ["id"] and partition == ["dt"])


def test_bucket_keys_are_the_option_or_the_primary_key() -> None:
    assert make(primaryKeys=["dt", "id", "name"], options={"bucket": "2", "bucket-key": "name , id"}).bucket_keys == (
        "name",
        "id",
    )
    # Java does not trim the names, so they are stored without blanks.
    assert (
        make(primaryKeys=["dt", "id", "name"], options={"bucket": "2", "bucket-key": "name , id"}).options["bucket-key"]
        == "name,id"
    )
    assert make(primaryKeys=[], options={}).bucket_keys == ()


def test_keys_from_options() -> None:
    s = make(primaryKeys=[], partitionKeys=[], options={"primary-key": "dt, id", "partition": "dt", "bucket": "1"})
    assert (s.primary_keys, s.partition_keys, dict(s.options)) == (("dt", "id"), ("dt",), {"bucket": "1"})
    with pytest.raises(InvalidInputError, match="named twice"):
        make(options={"primary-key": "dt,id"})


def test_nullability_of_keys() -> None:
    assert not make().field("id").type.nullable
    assert not make().field("dt").type.nullable
    assert make().field("name").type.nullable
    assert make(options={"primary-key.nullable": "true"}).field("id").type.nullable
    explicit = make(
        fields=[
            {"name": "id", "type": "INT NOT NULL"},
            {"name": "dt", "type": "INT"},
            {"name": "v", "type": "INT NOT NULL"},
        ]
    )
    assert not explicit.field("v").type.nullable


def test_numbers_as_option_values() -> None:
    s = make(options={"bucket": 4, "write-only": True, "lookup.cache.bloom.filter.fpp": 0.1})
    assert dict(s.options) == {"bucket": "4", "write-only": "true", "lookup.cache.bloom.filter.fpp": "0.1"}


@pytest.mark.parametrize("key", ["id", "fields", "name", "type", "highestFieldId"])
def test_missing_or_wrong_keys_are_named(key: str) -> None:
    value = json.loads(TEXT)
    target = value if key in value else value["fields"][1]
    target[key] = {"wrong": True} if key != "type" else 17
    with pytest.raises(CorruptFileError, match=key) as caught:
        decode_schema(json.dumps(value).encode(), "schema-0")
    assert caught.value.path == "schema-0"
    if key != "highestFieldId":
        del target[key]
        with pytest.raises(CorruptFileError, match=key):
            decode_schema(json.dumps(value).encode(), "schema-0")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda v: v["fields"].append(v["fields"][0]), CorruptFileError),
        (lambda v: v.update(partitionKeys=["zz"]), CorruptFileError),
        (lambda v: v.update(primaryKeys=["zz"]), CorruptFileError),
        (lambda v: v.update(primaryKeys="id"), CorruptFileError),
        (lambda v: v.update(primaryKeys=[1]), CorruptFileError),
        (lambda v: v.update(options=[]), CorruptFileError),
        (lambda v: v.update(options={"a": {}}), CorruptFileError),
        (lambda v: v.update(id=1 << 64), CorruptFileError),
        (lambda v: v.update(id=True), CorruptFileError),
        (lambda v: v.update(id="x"), CorruptFileError),
        (lambda v: v.update(id=1.5), CorruptFileError),
        (lambda v: v["fields"][0].update(type="INTEGRAL"), CorruptFileError),
        (lambda v: v["fields"][0].update(type={"type": "ROW", "fields": [{}]}), CorruptFileError),
        (lambda v: v["fields"][0].update(type={"type": "ROW", "fields": 3}), CorruptFileError),
        (lambda v: v["fields"][0].update(type="BLOB"), UnsupportedError),
        (lambda v: v["fields"][0].update(type={"type": "VECTOR", "element": "FLOAT", "length": 3}), UnsupportedError),
    ],
)
def test_what_a_schema_file_cannot_say(change: Any, error: type[Exception]) -> None:
    value = json.loads(TEXT)
    change(value)
    with pytest.raises(error) as caught:
        decode_schema(json.dumps(value).encode(), "schema-0")
    assert caught.value.path == "schema-0"  # type: ignore[attr-defined]
