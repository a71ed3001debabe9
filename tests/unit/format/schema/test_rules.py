"""What may become a table. Cases without a remark were put to SchemaManager.createTable of the released 1.4.2, which agreed."""

from __future__ import annotations

from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import new_schema

COLUMNS = [
    {"name": "k", "type": "INT"},
    {"name": "k2", "type": "STRING"},
    {"name": "p", "type": "INT"},
    {"name": "v", "type": "BIGINT"},
    {"name": "s", "type": "STRING"},
    {"name": "arr", "type": {"type": "ARRAY", "element": "INT"}},
    {"name": "d", "type": "DOUBLE"},
]


def spec(pk: str = "k", part: str = "", **rest: Any) -> dict[str, Any]:
    return {
        "fields": rest.pop("fields", COLUMNS),
        "primaryKeys": pk.split(",") if pk else [],
        "partitionKeys": part.split(",") if part else [],
        "options": {k.replace("_", "-").replace("/", "."): v for k, v in rest.items()},
    }


def columns(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"name": n, "type": t} for n, t in pairs]


ACCEPTED = [
    spec(), spec(""), spec("k,p", "p"), spec("k", "p"), spec("k", "p", bucket="2"), spec("d"), spec("k,d", "d"),
    spec(bucket="1"), spec(bucket="-1"), spec(bucket="-2"), spec("", bucket="2", bucket_key="k"), spec(bucket="2", bucket_key="k"),
    spec("k,k2", bucket="2", bucket_key="k2"), spec(**{"bucket-function/type": "mod", "bucket": "2"}),
    spec("k2", **{"bucket-function/type": "hive", "bucket": "2"}),
    spec(merge_engine="partial-update"), spec(merge_engine="aggregation"),
    spec(merge_engine="first-row"), spec(merge_engine="first-row", changelog_producer="lookup"),
    spec(merge_engine="Partial-Update", ignore_delete="true"),
    spec(changelog_producer="input"), spec(changelog_producer="full-compaction"), spec(changelog_producer="lookup"),
    spec(bucket="1", **{"deletion-vectors/enabled": "true", "changelog-producer": "lookup"}),
    spec(**{"sequence/field": "v,d"}), spec(**{"sequence/field": "k"}), spec(**{"rowkind/field": "s"}),
    spec(**{"metadata/stats-mode": "TRUNCATE(3)"}), spec(**{"fields/v/stats-mode": "none"}),
    spec(**{"file/format": "orc"}), spec(**{"file/format": "avro"}), spec(**{"manifest/compression": "null"}),
    spec("k,p", "p", **{"partition/expiration-time": "1 d"}), spec(owner="x"),
    spec(merge_engine="partial-update", **{"fields/v/sequence-group": "s,d"}),
    spec(merge_engine="partial-update", **{"fields/v,d/sequence-group": "s"}),
    spec(
        merge_engine="partial-update",
        **{"fields/v/sequence-group": "s", "partial-update/remove-record-on-sequence-group": "v"},
    ),
    spec(merge_engine="aggregation", **{"fields/v/aggregate-function": "sum"}),
    spec(merge_engine="aggregation", **{"fields/default-aggregate-function": "sum"}),
    spec(fields=columns(("k", "INT"), ("K", "INT"))), spec(fields=columns(("k", "INT"), ("_INDEX", "INT"))),
    *(
        spec("k", fields=columns(("k", t), ("v", "INT")))
        for t in ("FLOAT", "DOUBLE", "BYTES", "BINARY(3)", "TIMESTAMP(9)", "DECIMAL(10, 2)", "BOOLEAN", "DATE", "TIME(3)")
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_a_schema_that_paimon_accepts_keeps_its_columns_and_keys(case: dict[str, Any]) -> None:
    schema = new_schema(case)
    assert schema.field_names == tuple(f["name"] for f in case["fields"])
    assert list(schema.primary_keys) == case.get("primaryKeys", [])
    assert list(schema.partition_keys) == case.get("partitionKeys", [])


REFUSED = [
    (spec("zz"), "primary key column 'zz' does not exist"),
    (spec("k", "zz"), "partition column 'zz' does not exist"),
    (spec("k,k"), "the primary key names a column twice"),
    (spec("k,p,s", "p,p"), "the partition names a column twice"),
    (spec("k", "k"), "at least one column that is not a partition column"),
    (spec("arr"), "primary key column 'arr' cannot be of type ARRAY"),
    (spec("k", "arr"), "partition column 'arr' cannot be of type ARRAY"),
    (spec(bucket="0"), "option 'bucket'"),
    (spec(bucket="-3"), "option 'bucket'"),
    (spec(bucket="x"), "option 'bucket'"),
    (spec("", bucket="2"), "needs option 'bucket-key'"),
    (spec("", bucket="-2"), "needs a primary key"),
    (spec("", bucket_key="k"), "needs a fixed number of buckets"),
    (spec(bucket="-1", bucket_key="k"), "needs a fixed number of buckets"),
    (spec("k,k2", bucket="2", bucket_key="v"), "'v' is not in the primary key"),
    (spec("k,p", "p", bucket="2", bucket_key="p"), "'p' is a partition column"),
    (spec(bucket="2", bucket_key="zz"), "column 'zz' does not exist"),
    (spec("", bucket="2", bucket_key="arr"), "'arr' cannot be of type"),
    (spec("", bucket="2", bucket_key="k,k"), "names a column twice"),
    (spec(merge_engine="newest"), "option 'merge-engine'"),
    (spec(changelog_producer="all"), "option 'changelog-producer'"),
    (spec("", changelog_producer="input"), "needs a primary key"),
    (spec(merge_engine="first-row", changelog_producer="input"), "first-row"),
    (spec(merge_engine="first-row", **{"sequence/field": "v"}), "first-row"),
    (spec(bucket="1", merge_engine="first-row", **{"deletion-vectors/enabled": "true"}), "first-row"),
    (spec(bucket="1", changelog_producer="full-compaction", **{"deletion-vectors/enabled": "true"}), "deletion-vectors"),
    (spec(**{"sequence/field": "zz"}), "column 'zz' does not exist"),
    (spec(**{"sequence/field": ""}), "option 'sequence.field'"),
    (spec(**{"sequence/field": "v,v"}), "names a column twice"),
    (spec("k", "p", **{"sequence/field": "v"}), "leaves out partition columns"),
    (spec(merge_engine="aggregation", **{"sequence/field": "v", "fields/v/aggregate-function": "sum"}), "aggregate function"),
    (spec(**{"rowkind/field": "zz"}), "column 'zz' does not exist"),
    (spec(**{"file/format": "feather"}), "unknown format 'feather'"),
    (spec(**{"snapshot/num-retained/min": "0"}), "option 'snapshot.num-retained.min'"),
    (spec(**{"snapshot/num-retained/min": "5", "snapshot/num-retained/max": "3"}), "larger than"),
    (spec(**{"partition/expiration-time": "1 d"}), "needs partition columns"),
    (spec(**{"record-level/expire-time": "1 d", "record-level/time-field": "zz"}), "time-field"),
    (spec(**{"fields/zz/stats-mode": "none"}), "column 'zz' does not exist"),
    (spec(**{"fields/zz/distinct": "x"}), "column 'zz' does not exist"),
    (spec(merge_engine="aggregation", **{"fields/v/aggregate-function": "zz"}), "unknown aggregate function 'zz'"),
    (spec(merge_engine="partial-update", **{"fields/v/sequence-group": "zz"}), "column 'zz' does not exist"),
    (spec(merge_engine="partial-update", **{"fields/zz/sequence-group": "v"}), "column 'zz' does not exist"),
    (
        spec(merge_engine="partial-update", **{"fields/v/sequence-group": "s", "fields/d/sequence-group": "s"}),
        "two sequence groups",
    ),
    (
        spec(merge_engine="partial-update", ignore_delete="true", **{"partial-update/remove-record-on-delete": "true"}),
        "allows only one of",
    ),
    (
        spec(merge_engine="partial-update", **{"partial-update/remove-record-on-delete": "true", "fields/v/sequence-group": "s"}),
        "cannot be combined with sequence groups",
    ),
    (
        spec(
            merge_engine="partial-update",
            **{"fields/v/sequence-group": "s", "partial-update/remove-record-on-sequence-group": "d"},
        ),
        "leads no sequence group",
    ),
    (spec(**{"row-tracking/enabled": "true"}), "row-tracking"),
    (spec(**{"data-evolution/enabled": "true"}), "data-evolution"),
    (spec(fields=columns(("k", "INT"), ("k", "INT"))), "column 'k' is there twice"),
    *(
        (spec(fields=columns(("k", "INT"), (n, "INT"))), "reserved")
        for n in ("_KEY_x", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "message"), REFUSED, ids=str)
def test_schemas_that_contradict_themselves_are_refused(case: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        new_schema(case)


# Java takes these and fails later, or does what nobody wants.
STRICTER = [
    (spec(**{"my/own": "x"}), "unknown option 'my.own'"),
    (spec(**{"merg-engine": "x"}), "unknown option 'merg-engine'; did you mean 'merge-engine'"),
    (spec("", fields=[]), "'fields'"),
    (spec("", "k", fields=columns(("k", "INT"))), "at least one column must not be a partition column"),
    (spec(fields=columns(("k", "VARIANT"), ("v", "INT"))), "cannot be of type VARIANT"),
    (spec("", "b", fields=columns(("b", "BYTES"), ("v", "INT"))), "legacy-name"),
    (spec("k2", **{"bucket-function/type": "mod", "bucket": "2"}), "INT or BIGINT"),
    (spec("k,k2", **{"bucket-function/type": "mod", "bucket": "2"}), "exactly one bucket key"),
    (spec(**{"bucket-function/type": "murmur"}), "option 'bucket-function.type'"),
    (spec(**{"sequence/field": "arr"}), "cannot be of type ARRAY"),
    (spec(fields=columns(("k", "INT"), ("v", "VARIANT")), **{"sequence/field": "v"}), "cannot be of type VARIANT"),
    (spec("", **{"sequence/field": "v"}), "needs a primary key"),
    (spec(**{"rowkind/field": "v"}), "must be STRING"),
    (spec(**{"metadata/stats-mode": "most"}), "none, counts"),
    (spec(**{"fields/v/stats-mode": "most"}), "none, counts"),
    (spec(**{"metadata/stats-mode/per/level": "0:most"}), "none, counts"),
    (spec(**{"file/format/per/level": "0:feather"}), "unknown format"),
    (spec(**{"file/format/per/level": "x:avro"}), "a level must be a number"),
    (spec(**{"manifest/format": "orc"}), "must be avro"),
    (spec(**{"manifest/compression": "none"}), "manifest.compression"),
    (spec(**{"manifest/compression": "snappy"}), "manifest.compression"),
    (spec(**{"record-level/expire-time": "1 d"}), "time-field"),
    (spec(type="format-table"), "type table"),
    (spec(write_only="perhaps"), "option 'write-only'"),
]


@pytest.mark.parametrize(("case", "message"), STRICTER, ids=str)
def test_refused_though_java_does_not(case: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        new_schema(case)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "must be an object"),
        (None, "must be an object"),
        ({}, "'fields' must be an array"),
        ({"fields": "k"}, "'fields' must be an array"),
        ({"fields": [{"type": "INT"}]}, r"fields\[0\]"),
        ({"fields": ["k"]}, r"fields\[0\]"),
        ({"fields": [{"name": " ", "type": "INT"}]}, r"fields\[0\]"),
        ({"fields": [{"name": "k"}]}, "needs a 'type'"),
        ({"fields": [{"name": "k", "type": "INTT"}]}, "column 'k': unknown type 'INTT'; did you mean 'INT'"),
        ({"fields": [{"name": "k", "type": {"type": "ROW", "fields": [{"name": "a"}]}}]}, "column 'k'"),
        ({"fields": [{"name": "k", "type": None}]}, "column 'k'"),
        ({"fields": [{"name": "k", "type": "INT", "description": 1}]}, "description"),
        ({"fields": [{"name": "k", "type": "INT"}], "primaryKeys": "k"}, "'primaryKeys' must be an array"),
        ({"fields": [{"name": "k", "type": "INT"}], "primaryKeys": [1]}, "'primaryKeys' must be an array"),
        ({"fields": [{"name": "k", "type": "INT"}], "primary_keys": ["k"]}, "unknown key 'primary_keys'"),
        ({"fields": [{"name": "k", "type": "INT", "descripton": "a"}]}, "in column 'k'; did you mean 'description'"),
        ({"fields": [{"name": "k", "typ": "INT"}]}, "unknown key 'typ' in column 'k'; did you mean 'type'"),
        ({"fields": [{"name": "k", "type": "INT", "zzz": 1}]}, "unknown key 'zzz' in column 'k'; known are comment"),
        ({"fields": [{"name": "k", "type": "INT"}], "options": ["x"]}, "options must be an object"),
        ({"fields": [{"name": "k", "type": "INT"}], "options": {"a": None}}, "option 'a' must be text"),
        ({"fields": [{"name": "k", "type": "INT"}], "options": {"primary-key": "k,,"}}, "option 'primary-key'"),
        ({"fields": [{"name": "k", "type": "INT"}], "comment": 7}, "comment must be text"),
    ],
)
def test_specs_that_are_none(value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        new_schema(value)
