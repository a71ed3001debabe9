from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.changes import (
    add_column,
    change_description,
    change_nullability,
    change_type,
    drop_column,
    evolve,
    move_column,
    rename_column,
    set_comment,
)
from lakeidx.format.schema.option_changes import IMMUTABLE_OPTIONS, SchemaChange, remove_options, set_options
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.types import parse_type
from lakeidx.types.widening import is_widening


def base(**options: str) -> TableSchema:
    return new_schema(
        {
            "fields": [
                {"name": "k", "type": "INT"},
                {"name": "p", "type": "STRING"},
                {"name": "a", "type": "INT"},
                {"name": "r", "type": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]}},
                {"name": "v", "type": "DECIMAL(8, 2)"},
            ],
            "primaryKeys": ["p", "k"],
            "partitionKeys": ["p"],
            "options": options,
        },
        time_millis=5,
    )


def apply(schema: TableSchema, *changes: SchemaChange) -> TableSchema:
    return evolve(schema, changes, time_millis=99)


def ids(schema: TableSchema) -> list[tuple[str, int]]:
    return [(f.name, f.id) for f in schema.fields]


def test_the_new_schema() -> None:
    old = base()
    new = apply(old, set_comment("hello"))
    assert (new.id, new.time_millis, new.comment, new.version) == (1, 99, "hello", 3)
    assert (old.id, old.comment) == (0, None)


def test_an_added_column_gets_new_field_ids() -> None:
    old = base()
    assert old.highest_field_id == 5  # k p a r v and r.x
    nested = parse_type({"type": "ROW", "fields": [{"name": "y", "type": "INT"}]})
    new = apply(old, add_column("n", nested), add_column("last", parse_type("INT")))
    assert ids(new) == [("k", 0), ("p", 1), ("a", 2), ("r", 3), ("v", 5), ("n", 6), ("last", 8)]
    assert new.field("n").type.fields[0].id == 7
    assert new.highest_field_id == 8


def test_ids_are_not_given_twice() -> None:
    new = apply(apply(base(), drop_column("v")), add_column("v", parse_type("INT")))
    assert dict(ids(new))["v"] == 6
    assert apply(base(), drop_column("v")).highest_field_id == 5


def test_rename_keeps_the_id_and_follows_options() -> None:
    old = base(
        **{
            "bucket": "2",
            "bucket-key": "k",
            "sequence.field": "a,v",
            "fields.a.stats-mode": "none",
            "file-index.bloom-filter.columns": "a,v,m[a]",
            "file-index.bloom-filter.a.items": "30",
            "comment": "a",
        }
    )
    new = apply(old, rename_column("a", "b"), rename_column("k", "key"))
    assert ids(new)[2] == ("b", 2)
    assert new.primary_keys == ("p", "key")
    assert new.bucket_keys == ("key",)
    assert dict(new.options) == {
        "bucket": "2",
        "bucket-key": "key",
        "sequence.field": "b,v",
        "fields.b.stats-mode": "none",
        "file-index.bloom-filter.columns": "b,v,m[a]",
        "file-index.bloom-filter.b.items": "30",
        "comment": "a",
    }


def test_rename_follows_sequence_groups() -> None:
    old = base(**{"merge-engine": "partial-update", "fields.a.sequence-group": "v,r"})
    assert (
        dict(apply(old, rename_column("a", "g"), rename_column("v", "w")).options)["fields.g.sequence-group"] == "w,r"
    )


def test_move_and_describe() -> None:
    assert [n for n, _ in ids(apply(base(), move_column("v", first=True)))] == ["v", "k", "p", "a", "r"]
    assert [n for n, _ in ids(apply(base(), move_column("k", after="r")))] == ["p", "a", "r", "k", "v"]
    assert apply(base(), change_description("a", "x")).field("a").description == "x"


def test_a_widened_column_keeps_its_field_id() -> None:
    new = apply(base(), change_type("a", parse_type("BIGINT")), change_type("v", parse_type("DECIMAL(20, 4)")))
    assert (str(new.field("a").type), new.field("a").id) == ("BIGINT", 2)
    assert str(new.field("v").type) == "DECIMAL(20, 4)"
    # The nullability stays what it was.
    strict = base(**{"alter-column-null-to-not-null.disabled": "false"})
    strict = apply(strict, change_nullability("a", False))
    assert str(apply(strict, change_type("a", parse_type("BIGINT"))).field("a").type) == "BIGINT NOT NULL"
    assert str(apply(strict, change_nullability("a", True)).field("a").type) == "INT"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TINYINT", "SMALLINT"), ("TINYINT", "INT"), ("SMALLINT", "BIGINT"), ("INT", "BIGINT"), ("INT", "DOUBLE"),
        ("INT", "DECIMAL(10, 0)"), ("BIGINT", "DECIMAL(21, 2)"), ("SMALLINT", "FLOAT"), ("FLOAT", "DOUBLE"),
        ("DECIMAL(8, 2)", "DECIMAL(10, 4)"), ("CHAR(3)", "VARCHAR(3)"), ("CHAR(3)", "STRING"), ("VARCHAR(3)", "VARCHAR(9)"),
        ("BINARY(3)", "BYTES"), ("VARBINARY(3)", "VARBINARY(4)"), ("TIMESTAMP(3)", "TIMESTAMP(6)"), ("TIME(0)", "TIME(3)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE"), ("INT", "INT NOT NULL"), ("DATE", "DATE"),
    ],
)  # fmt: skip
def test_wider_types_are_a_widening(old: str, new: str) -> None:
    assert is_widening(parse_type(old), parse_type(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"), ("INT", "FLOAT"), ("BIGINT", "FLOAT"), ("INT", "DECIMAL(9, 0)"), ("BIGINT", "DECIMAL(20, 2)"),
        ("DOUBLE", "FLOAT"), ("DECIMAL(8, 2)", "DECIMAL(9, 4)"), ("DECIMAL(8, 2)", "DECIMAL(8, 1)"), ("VARCHAR(9)", "VARCHAR(3)"),
        ("STRING", "INT"), ("VARCHAR(3)", "CHAR(3)"), ("TIMESTAMP(6)", "TIMESTAMP(3)"), ("DATE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"), ("BYTES", "STRING"), ("BOOLEAN", "INT"),
    ],
)  # fmt: skip
def test_other_types_are_no_widening(old: str, new: str) -> None:
    assert not is_widening(parse_type(old), parse_type(new))
    schema = new_schema({"fields": [{"name": "k", "type": "INT"}, {"name": "c", "type": old}], "primaryKeys": ["k"]})
    with pytest.raises(InvalidInputError, match="cannot be widened"):
        apply(schema, change_type("c", parse_type(new)))


INT = parse_type("INT")
REFUSED: list[tuple[dict[str, str], Sequence[SchemaChange], str]] = [
    ({}, [add_column("a", INT)], "exists"),
    ({}, [add_column("n", parse_type("INT NOT NULL"))], "must be nullable"),
    ({}, [add_column("_KEY_n", INT)], "reserved"),
    ({}, [drop_column("zz")], "no column 'zz'"),
    ({}, [drop_column("p")], "partition column 'p' cannot be dropped"),
    ({}, [drop_column("k")], "primary key column 'k' cannot be dropped"),
    ({"sequence.field": "a"}, [drop_column("a")], "option 'sequence.field' names it"),
    ({"fields.a.stats-mode": "none"}, [drop_column("a")], "names it"),
    ({"merge-engine": "partial-update", "fields.a.sequence-group": "v"}, [drop_column("v")], "names it"),
    ({}, [rename_column("p", "q")], "partition column 'p' cannot be renamed"),
    ({}, [rename_column("a", "v")], "column 'v' exists"),
    ({}, [change_type("k", parse_type("BIGINT"))], "primary key column 'k'"),
    ({}, [change_type("p", parse_type("STRING"))], "partition column 'p'"),
    ({}, [change_nullability("a", False)], "cannot become NOT NULL"),
    ({}, [change_nullability("k", True)], "primary key column 'k'"),
    ({}, [move_column("a")], "either first or after"),
    ({}, [move_column("a", first=True, after="k")], "either first or after"),
    ({}, [move_column("a", after="a")], "either first or after"),
    ({}, [move_column("a", after="zz")], "no column 'zz'"),
    ({}, [set_options({"merge-engine": "aggregation"})], "cannot change once the table has a snapshot"),
    ({"merge-engine": "aggregation"}, [remove_options(["merge-engine"])], "cannot change"),
    ({}, [set_options({"bucket": "4"})], "to or from -1"),
    ({"bucket": "4"}, [set_options({"bucket": "-1"})], "to or from -1"),
    ({"bucket": "4"}, [remove_options(["bucket"])], "to or from -1"),
    ({"bucket": "4"}, [set_options({"bucket": "-2"})], "to or from -2"),
    ({}, [set_options({"deletion-vectors.enabled": "true"})], "deletion-vectors.modifiable"),
    ({"ignore-delete": "true"}, [set_options({"ignore-delete": "false"})], "from true to false"),
    ({"ignore-delete": "true"}, [remove_options(["ignore-delete"])], "from true to false"),
    ({}, [set_options({"primary-key": "k"}, has_snapshot=False)], "when the table is created"),
    ({}, [set_options({"my.own": "x"})], "unknown option 'my.own'"),
    ({}, [set_options({"write-onyl": "true"})], "unknown option 'write-onyl'; did you mean 'write-only'"),
    ({}, [set_options({"write-only": "x"})], "option 'write-only'"),
    ({}, [set_options({"write-only": "x"}, has_snapshot=False)], "option 'write-only'"),
]


@pytest.mark.parametrize(("options", "changes", "message"), REFUSED)
def test_changes_that_break_the_table_are_refused(
    options: dict[str, str], changes: Sequence[SchemaChange], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        apply(base(**options), *changes)


def test_the_last_column_stays() -> None:
    schema = new_schema({"fields": [{"name": "a", "type": "INT"}]})
    with pytest.raises(InvalidInputError, match="only one left"):
        apply(schema, drop_column("a"))


@pytest.mark.parametrize(
    ("options", "changes", "after"),
    [
        ({"bucket": "4"}, [set_options({"bucket": "8"})], {"bucket": "8"}),
        (
            {"bucket": "-1"},
            [set_options({"bucket": "-1", "write-only": "true"})],
            {"bucket": "-1", "write-only": "true"},
        ),
        ({"write-only": "true"}, [remove_options(["write-only", "never"])], {}),
        (
            {"merge-engine": "aggregation"},
            [set_options({"merge-engine": "aggregation"})],
            {"merge-engine": "aggregation"},
        ),
        ({}, [set_options({"merge-engine": "aggregation"}, has_snapshot=False)], {"merge-engine": "aggregation"}),
        ({}, [set_options({"owner": "y"})], {"owner": "y"}),
        ({}, [set_options({"ignore-delete": "true"})], {"ignore-delete": "true"}),
        (
            {"bucket": "1", "deletion-vectors.modifiable": "true"},
            [set_options({"deletion-vectors.enabled": "true"})],
            {"bucket": "1", "deletion-vectors.modifiable": "true", "deletion-vectors.enabled": "true"},
        ),
    ],
)
def test_options_follow_the_columns_they_name(
    options: dict[str, str], changes: Sequence[SchemaChange], after: dict[str, str]
) -> None:
    assert dict(apply(base(**options), *changes).options) == after


def test_every_immutable_option_is_refused() -> None:
    values: dict[str, Any] = {"merge-engine": "aggregation", "bucket-function.type": "hive", "bucket-key": "k"}
    for key in IMMUTABLE_OPTIONS:
        with pytest.raises(InvalidInputError, match=f"option '{key}'"):
            apply(base(), set_options({key: values.get(key, "true")}))
