"""Every option name of Paimon has one handling; names that nobody knows are found, with the nearest known one."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.options.features import CHANGES, LEFT_OUT, REFUSED
from lakeidx.options.names import (
    FORMAT_PREFIXES,
    HARMLESS,
    HARMLESS_KEYS,
    KNOWN,
    OLD_NAMES,
    OTHER_PROGRAMS,
    check_given_options,
    doubtful_options,
    options_of_other_programs,
    unknown_options,
)
from lakeidx.options.table_options import OPTION_BY_KEY, OPTIONS
from tests.arch.sources import MODULES, ROOT, nodes

VERSIONS = ("1.4.2", "2.1")
#: Java's, and what pypaimon's CoreOptions has.
EVERY = (*VERSIONS, "pypaimon-2.1.0")
#: Read under another name than their attribute's: when a table is made, and to find its branch.
READ_AS_TEXT = {"type", "path", "bucket", "branch", "partition", "primary-key"}


def java_options(version: str) -> dict[str, tuple[str, str]]:
    """Key -> default and older keys, as Java's CoreOptions of that version says."""
    lines = (ROOT / "tests" / "golden" / "options" / f"{version}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {key: (default, old) for key, default, old in ((*line.split("\t"), "", "")[:3] for line in lines)}


@cache
def attributes_read() -> frozenset[str]:
    """Names read as an attribute anywhere in the product but in the declarations themselves."""
    found: set[str] = set()
    for name, file in MODULES.items():
        if not name.startswith("lakeidx.testing"):
            reads = (n for n in nodes(file) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))
            found.update(n.attr for n in reads)
    return frozenset(found)


def ruled() -> set[str]:
    return {r.key for r in REFUSED} | {r.key for r in LEFT_OUT}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_option_of_java_is_acted_on_or_classified(version: str) -> None:
    names = java_options(version)
    assert len(names) > 280
    assert [key for key in names if key not in KNOWN and not key.startswith(FORMAT_PREFIXES)] == []
    older = {old for _, olds in names.values() for old in olds.split()}
    assert older <= KNOWN | OLD_NAMES, OTHER_PROGRAMS


@pytest.mark.parametrize("version", EVERY)
def test_no_option_of_a_release_is_unknown(version: str) -> None:
    names = dict.fromkeys(java_options(version), "a")
    assert len(names) > 120
    assert unknown_options(names) == {}
    assert doubtful_options(names) == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.key)
def test_every_declared_option_is_read_or_classified(option: object) -> None:
    key, attribute = option.key, option.attribute  # type: ignore[attr-defined]
    acted_on = attribute in attributes_read() or key in READ_AS_TEXT
    assert acted_on or key in HARMLESS_KEYS or key in ruled(), f"{key} is declared, not read and not classified"


def test_no_harmless_option_is_acted_on() -> None:
    read = attributes_read()
    assert [k for k in HARMLESS_KEYS if k in OPTION_BY_KEY and OPTION_BY_KEY[k].attribute in read] == []


def test_classes_do_not_overlap() -> None:
    words = [key for keys in HARMLESS.values() for key in keys.split()]
    assert len(words) == len(set(words)) == len(HARMLESS_KEYS)
    assert not HARMLESS_KEYS.keys() & ruled()
    assert not {r.key for r in REFUSED} & {r.key for r in LEFT_OUT}


def test_classified_names_are_names_of_java() -> None:
    java = set().union(*(java_options(v) for v in EVERY))
    others = {"metadata.iceberg.storage", "metadata.iceberg.manifest-legacy-version", "fields.*.map.storage-layout"}
    assert (HARMLESS_KEYS.keys() | ruled()) - others <= java


@pytest.mark.parametrize("version", VERSIONS)
def test_defaults_of_options_with_a_rule_turn_nothing_on(version: str) -> None:
    for key, (default, _) in java_options(version).items():
        if default != "null":
            assert not [r for r in (*REFUSED, *LEFT_OUT) if r.key == key and r.when(default.replace("PT0S", "0 s"))], (  # type: ignore[attr-defined]
                key
            )


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("bukcet", "bucket"),
        ("merg-engine", "merge-engine"),
        ("MERGE-ENGINE", "merge-engine"),
        ("bucket_key", "bucket-key"),
        ("snapshot.time-retaind", "snapshot.time-retained"),
        ("scan.snaphot-id", "scan.snapshot-id"),
        ("fields.amt.agregate-function", "fields.amt.aggregate-function"),
        ("fields.a.b.sequence-grup", "fields.a.b.sequence-group"),
        ("zzzz", None),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_known(key: str, near: str | None) -> None:
    assert unknown_options({key: "1", "bucket": "1"}) == {key: near}
    with pytest.raises(InvalidInputError, match=re.escape(f"unknown option '{key}'")) as error:
        check_given_options({"bucket": "1", key: "1"})
    assert near is None or f"did you mean '{near}'" in str(error.value)


@pytest.mark.parametrize(
    ("key", "program"),
    [
        ("sink.parallelism", "flink"),
        ("lookup.async", "flink"),
        ("scan.infer-parallelism", "flink"),
        ("write.merge-schema", "spark"),
        ("owner", "spark"),
        ("hive.skip-update-stats", "hive"),
        ("metadata.iceberg.database", "iceberg"),
        ("warehouse", "catalog"),
        ("fs.oss.endpoint", "file system"),
    ],
)
def test_options_of_other_programs(key: str, program: str) -> None:
    assert unknown_options({key: "1"}) == {}
    assert options_of_other_programs({key: "1", "bucket": "1"}) == {key: program}


@pytest.mark.parametrize(
    "key",
    [
        "global-index.btree.index-columns", "pk-fm.index.columns", "sort.columns", "row-order", "clustering.by", "layout.kind",
        "data.z-order", "fields.a.some-index.options", "btree-index.columns", "sortColumns", "bucket_key", "lumina.fields",
    ],
)  # fmt: skip
def test_unknown_names_of_columns_indexes_layouts_and_orders_are_doubtful(key: str) -> None:
    ((found, rule),) = doubtful_options({key: "a,b", "bucket": "1"})
    assert (found, rule.uses) == (key, CHANGES)
    assert f"lakeidx.accepted-options={key}" in rule.reason
    assert (
        doubtful_options({key: " False "})
        == doubtful_options({key: "a", "lakeidx.accepted-options": f"x, {key}"})
        == []
    )


@pytest.mark.parametrize(
    "key",
    ["my.own", "bukcet", "file-index.bloom-filter.columns", "fields.a.aggregate-function", "parquet.column.index", "scan.sort",
     "btree-index.cache-size", "lumina.index.type", "read.shuffle-bucket-with-partition", "index.type", "recorder", "monkey"],
)  # fmt: skip
def test_other_names_are_not(key: str) -> None:
    assert doubtful_options({key: "a"}) == []


def test_families_of_paimon_and_lakeidx_are_known() -> None:
    keys = ("fields.a.aggregate-function", "file-index.bloom-filter.columns", "parquet.page.size", "index.type",
            "hoodie.index.bloom.fpp", "lakeidx.hash-index.shrink", "commit.callback.a.B.param")  # fmt: skip
    raw = dict.fromkeys(keys, "1")
    assert unknown_options(raw) == {}
    assert options_of_other_programs(raw) == {}


def test_the_page_names_every_rule_and_every_other_program() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for rule in REFUSED:
        assert f"`{rule.key.replace('*', '<column>')}`" in page
        assert rule.reason in page
    for left in LEFT_OUT:
        assert f"`{left.key}`" in page
        assert left.effect in page
    for beginnings in OTHER_PROGRAMS.values():
        assert all(f"`{b}" in page for b in beginnings)
