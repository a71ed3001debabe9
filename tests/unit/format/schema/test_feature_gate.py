"""The feature gate: what is refused, what is left out with a warning, and what says nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from lakeidx.errors import UnsupportedError
from lakeidx.format.data_file import EMPTY_ROW
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.feature_gate import check_index_types, gate_report, warn_once
from lakeidx.format.schema.table_schema import TableSchema, check_use
from lakeidx.options.features import ALL_USES, REFUSED, Use
from lakeidx.quality.result import Severity
from lakeidx.quality.verify import check_options_followed
from lakeidx.types import Field, parse_type

#: A value that turns each feature on.
ON = {
    "type": "format-table", "bucket": "-2", "fields.*.map.storage-layout": "shared-shredding", "branch": "b",
    "scan.primary-branch": "b", "scan.fallback-snapshot-branch": "b",
    "scan.fallback-delta-branch": "b", "upsert-key": "a", "blob-field": "a", "blob-descriptor-field": "a",
    "blob-view-field": "a", "video-frame-field": "a", "blob-external-storage-field": "a", "blob-external-storage-path": "/b",
    "vector-field": "a",
    "variant.shreddingSchema": "{}",
}  # fmt: skip


def schema(options: Mapping[str, str]) -> TableSchema:
    fields = (Field(0, "a", parse_type("INT NOT NULL")),)
    return TableSchema(id=0, fields=fields, highest_field_id=0, primary_keys=("a",), options=options)


@pytest.mark.parametrize("rule", REFUSED, ids=lambda r: r.key)
def test_refused_uses_raise_and_name_option_value_and_reason(rule: object) -> None:
    key = rule.key.replace("*", "m")  # type: ignore[attr-defined]
    value = ON.get(rule.key, "a" if key.endswith(".columns") else "true")  # type: ignore[attr-defined]
    table = schema({key: value})
    for use in ALL_USES:
        if use in rule.uses:  # type: ignore[attr-defined]
            with pytest.raises(UnsupportedError) as error:
                check_use(table, use, "/lake/t")
            for part in ("/lake/t", use.value, f"{key}={value}", rule.reason):  # type: ignore[attr-defined]
                assert part in str(error.value)
        else:
            check_use(table, use)
    assert gate_report(table).to_json()["refused"][key]["for"] == [u.value for u in rule.uses]  # type: ignore[attr-defined]


def test_features_that_are_off_refuse_nothing() -> None:
    off = {"type": "table", "branch": "main", "bucket": "4", "data-evolution.enabled": "False",
           "row-tracking.enabled": "false", "pk-clustering-override": "false", "chain-table.enabled": "false",
           "pk-btree.index.columns": "", "sequence.snapshot-ordering": "false"}  # fmt: skip
    for use in Use:
        check_use(schema(off), use)
    assert gate_report(schema(off)).to_json() == {}


def test_an_unknown_option_about_an_index_makes_a_table_read_only(caplog: pytest.LogCaptureFixture) -> None:
    table = schema({"pk-fm.index.columns": "a"})
    check_use(table, Use.READ)
    for use in (Use.WRITE, Use.COMPACT):
        with pytest.raises(UnsupportedError, match=r"refused: pk-fm.index.columns=a: lakeidx does not know the option"):
            check_use(table, use, "/lake/t")
        check_use(schema({**table.options, "lakeidx.accepted-options": "pk-fm.index.columns"}), use)
    warn_once(table, "/lake/unknown")
    (said,) = caplog.records
    assert said.getMessage().count("pk-fm.index.columns") == 2  # the name, and how to go on


def entry(kind: str) -> IndexEntry:
    return IndexEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, index_type=kind, file_name="index-7", file_size=1,
                      row_count=1)  # fmt: skip


def test_index_types_that_a_compaction_would_leave_behind() -> None:
    check_index_types([entry("HASH"), entry("DELETION_VECTORS")])
    with pytest.raises(UnsupportedError, match="index file index-7 is of type btree"):
        check_index_types([entry("HASH"), entry("btree")])


def test_what_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    table = schema({"tag.callbacks": "a.B", "bukcet": "1", "sink.parallelism": "4", "row-tracking.enabled": "true"})
    with caplog.at_level(logging.WARNING):
        warn_once(table, "/lake/once")
        warn_once(table, "/lake/once")
    assert [r.getMessage() for r in caplog.records] == [
        "/lake/once: option 'row-tracking.enabled' refuses writing, compaction: a commit must assign every row an id, which "
        "lakeidx does not; option 'tag.callbacks' is not acted on: tags that lakeidx makes do not call them; "
        "unknown option 'bukcet'; did you mean 'bucket'?"
    ]
    found = gate_report(table).to_json()
    assert found.pop("refused").keys() == {"row-tracking.enabled"}
    assert found == {
        "leftOut": {"tag.callbacks": "tags that lakeidx makes do not call them"},
        "unknownOptions": {"bukcet": "bucket"},
        "otherPrograms": {"sink.parallelism": "flink"},
    }


def test_the_check_says_what_is_left_out() -> None:
    result = check_options_followed(schema({"tag.callbacks": "a.B", "bukcet": "1", "sink.parallelism": "4"}))
    assert not result.passed
    assert result.severity is Severity.WARN
    assert result.metrics == {"options": 3, "options_left_out": 1, "options_unknown": 1}
    assert [dict(s) for s in result.sample] == [
        {"option": "tag.callbacks", "value": "a.B", "finding": "tags that lakeidx makes do not call them"},
        {"option": "bukcet", "value": "1", "finding": "unknown option 'bukcet'; did you mean 'bucket'?"},
    ]
    assert check_options_followed(schema({"bucket": "1", "sink.parallelism": "4"})).passed
