"""Expectations of users: landed rows and the table's, by row and of whole columns, in pieces; mistakes in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.batch.artifacts import BatchFiles, IngestReport
from lakeidx.dagster.expectations.of_rows import failing_rows, judge_rows
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.expectations import EXPECTATION_TYPES, check_type
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.pipeline_file.problems import PipelineFileError
from lakeidx.pipeline_file.sections import ExpectationConfig
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import Deployment, metrics, red_checks

pytestmark = pytest.mark.dagster


def expect(type: str, **args: Any) -> ExpectationConfig:
    return ExpectationConfig(type=f"expect_{type}", args=args)


def test_counts_of_pieces_add_up() -> None:
    big = 2**53 + 1
    pieces = [pa.table({"a": pa.array([1, None, 300], pa.int64())}), pa.table({"a": pa.array([7, big], pa.int64())})]
    between, mostly, unique, exact, mean = judge_rows(
        [
            expect("column_values_to_be_between", column="a", min_value=0, max_value=10),
            expect("column_values_to_be_between", column="a", min_value=0, max_value=10, mostly=0.5),
            expect("column_values_to_be_unique", column="a"),
            expect("column_values_to_not_be_in_set", column="a", value_set=[big]),
            expect("column_max_to_be_between", column="a", max_value=big),
        ],
        pieces,
    )
    assert (between.passed, between.rows, between.judged, between.unexpected) == (False, 5, 4, 2)
    assert between.sample == ("300", str(big))
    assert mostly.passed
    assert (unique.passed, unique.rows, unique.complete) == (True, 5, True)
    assert (exact.passed, exact.unexpected) == (False, 1)
    assert (mean.passed, mean.observed) == (True, big)


def test_a_value_that_comes_again_in_another_piece_is_not_unique() -> None:
    pieces = [pa.table({"a": [1, 2]}), pa.table({"a": [2, 3]})]
    (unique,) = judge_rows([expect("column_values_to_be_unique", column="a")], pieces)
    assert (unique.passed, unique.unexpected) == (False, 2)
    (count,) = judge_rows([expect("table_row_count_to_equal", value=4)], pieces)
    assert (count.passed, count.observed) == (True, 4)
    none = pieces[0].slice(0, 0)
    count, mean = judge_rows(
        [expect("table_row_count_to_equal", value=1), expect("column_mean_to_be_between", column="a", min_value=1)],
        [none],
    )
    assert (count.passed, mean.passed) == (False, True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (expect("column_value_to_be_betwen", column="a"), "Great Expectations has no expect_column_value_to_be_betwen"),
        (expect("column_values_to_be_between", column="a", least=1), "least extra fields not permitted"),
        (expect("column_mean_to_be_between", column="a", max_value=1), "expect_column_mean_to_be_between: "),
    ],
)
def test_an_expectation_that_cannot_be_judged_is_an_error(wrong: ExpectationConfig, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        judge_rows([wrong], [pa.table({"a": ["x", "y"]})])


def test_landed_rows_are_judged_before_they_continue(tmp_path: Path) -> None:
    wanted = [
        {"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}},
        {"type": "expect_column_values_to_be_between", "args": {"column": "k", "max_value": 5}, "severity": "warn"},
        {"type": "expect_column_values_to_be_unique", "args": {"column": "v"}, "on": "table", "name": "v_once"},
    ]
    d = Deployment(tmp_path, {"expectations": wanted})
    d.land("a.parquet", [(1, k, f"v{k}") for k in range(9)])
    first = d.run("a.parquet")
    assert first.success
    assert red_checks(first) == {"expect_column_values_to_be_between__k"}
    d.land("b.parquet", [(1, 20, None), (1, 21, "v1")])
    blocked = d.run("b.parquet", raise_on_error=False)
    assert not blocked.success
    assert "expect_column_values_to_not_be_null__v" in red_checks(blocked)
    assert len(d.content()) == 9
    # A delete has no values to judge.
    d.land("c.parquet", [(1, 0, None), (1, 5, "v1")], ["-D", "+U"])
    deleted = d.run("c.parquet")
    assert deleted.success
    assert "expect_column_values_to_not_be_null__v" not in red_checks(deleted)
    verified = d.run_asset("verification")
    assert red_checks(verified) == {"v_once", "stale_hashes"}
    (check,) = [c for c in verified.get_asset_check_evaluations() if c.check_name == "v_once"]
    assert check.metadata["lakeidx/unexpected"].value == 2
    assert check.severity is dg.AssetCheckSeverity.ERROR


def test_rows_that_fail_are_set_aside_and_the_others_continue(tmp_path: Path) -> None:
    wanted = [
        {
            "type": "expect_column_values_to_be_between",
            "args": {"column": "k", "max_value": 5},
            "set_aside": True,
            "name": "small",
        },
        {"type": "expect_column_values_to_not_be_null", "args": {"column": "v"}, "set_aside": True},
        {
            "type": "expect_column_values_to_not_be_in_set",
            "args": {"column": "v", "value_set": ["v3"]},
            "severity": "warn",
        },
    ]
    d = Deployment(tmp_path, {"expectations": wanted, "data_docs": str(tmp_path / "docs")})
    d.land(
        "a.parquet",
        [(1, 9, "no"), (1, 1, "v1"), (1, 2, None), (1, 3, "v3"), (1, 8, None)],
        ["+I", "+I", "+U", "+I", "-D"],
    )
    ingested = d.run("a.parquet", selection=["ingest"])
    assert metrics(ingested, "ingest")["rows_rejected"] == 2
    report = BatchFiles(d.table.store, d.table.paths, str(metrics(ingested, "ingest")["batch_id"])).require(
        IngestReport
    )
    rejected = pq.read_table(report.rejected_path).to_pylist()
    assert [(r["line"], r["reason"]) for r in rejected] == [
        (1, "expectation small: '9'"), (3, "expectation expect_column_values_to_not_be_null__v: null"),
    ]  # fmt: skip
    result = d.run("a.parquet")
    assert d.content() == {(1, 1): "v1", (1, 3): "v3"}
    assert red_checks(result) == {"expect_column_values_to_not_be_in_set__v", "rows_rejected"}
    checks = {c.check_name: c.metadata for c in result.get_asset_check_evaluations()}
    assert checks["small"]["lakeidx/set_aside"].value == 1
    page = Path(str(checks["expect_column_values_to_not_be_in_set__v"]["lakeidx/data_docs"].value))
    assert page.parent == tmp_path / "docs" / "d.t"
    text = page.read_text(encoding="utf-8")
    assert "values must not belong to this set" in text
    # Nothing is loaded from elsewhere, and what the page does without it goes on to work.
    assert not re.search(r"https?://|<script|<link|<img|url\(", text)
    assert text.count("document.body.classList.toggle('failed-only'") == 2
    assert "1 unexpected values found. 50% of 2 total rows." in re.sub(r"<[^>]*>|\\*\\*", "", text).replace("≈", "")


def test_figures_of_the_last_batches_are_judged_and_have_a_page(tmp_path: Path) -> None:
    wanted = [
        {"type": "expect_column_max_to_be_between", "args": {"column": "rejected_share", "max_value": 0.3}, "on": "batches"},
        {
            "type": "expect_column_values_to_be_between",
            "args": {"column": "rows_in", "min_value": 4, "row_condition": "batches_ago == 0", "condition_parser": "pandas"},
            "on": "batches", "name": "large_enough", "severity": "warn",
        },
    ]  # fmt: skip
    docs = tmp_path / "docs" / "d.t"
    d = Deployment(tmp_path, {"expectations": wanted, "data_docs": str(docs.parent)})
    d.land("a.parquet", [(1, k, "v") for k in range(5)])
    d.land("b.parquet", [(1, 5, "v"), (1, None, "v")])  # type: ignore[list-item]
    assert not red_checks(d.run("a.parquet"))
    second = d.run("b.parquet", raise_on_error=False)
    assert red_checks(second) == {"expect_column_max_to_be_between__rejected_share", "large_enough", "rows_rejected"}
    checks = {c.check_name: c.metadata for c in second.get_asset_check_evaluations()}
    assert checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/observed"].value == "0.5"
    assert checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/rows"].value == 2
    # A batch that comes again is the same row.
    again = d.run("b.parquet", raise_on_error=False)
    again_checks = {c.check_name: c.metadata for c in again.get_asset_check_evaluations()}
    assert again_checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/rows"].value == 2
    assert "large_enough" in red_checks(again)
    pages = {Path(str(m["lakeidx/data_docs"].value)) for m in checks.values() if "lakeidx/data_docs" in m}
    assert [p.name.split("-")[0] for p in sorted(pages)] == ["batches"]
    assert {p.parent for p in pages} == {docs}


_FRAME = pa.table({
    "i": [1, 2], "s": ["a", "b"], "day": ["2026-01-01", "2026-01-02"], "json": ["1", "2"], "n": pa.array([None, None], pa.int64()),
    "k": [2, 1], "same": [1, 2],
})  # fmt: skip
#: Each type: arguments that the rows of `_FRAME` meet, and some that they do not.
EVERY_TYPE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "column_distinct_values_to_be_in_set": ({"column": "i", "value_set": [1, 2, 3]}, {"column": "i", "value_set": [1]}),
    "column_distinct_values_to_contain_set": ({"column": "i", "value_set": [1]}, {"column": "i", "value_set": [3]}),
    "column_distinct_values_to_equal_set": ({"column": "i", "value_set": [1, 2]}, {"column": "i", "value_set": [1]}),
    "column_kl_divergence_to_be_less_than": (
        {"column": "s", "partition_object": {"values": ["a", "b"], "weights": [0.5, 0.5]}, "threshold": 0.1},
        {"column": "s", "partition_object": {"values": ["a", "b"], "weights": [0.99, 0.01]}, "threshold": 0.1},
    ),
    "column_max_to_be_between": ({"column": "i", "max_value": 2}, {"column": "i", "max_value": 1}),
    "column_mean_to_be_between": ({"column": "i", "max_value": 2}, {"column": "i", "max_value": 1}),
    "column_median_to_be_between": ({"column": "i", "max_value": 2}, {"column": "i", "max_value": 1}),
    "column_min_to_be_between": ({"column": "i", "max_value": 2}, {"column": "i", "min_value": 2}),
    "column_most_common_value_to_be_in_set": (
        {"column": "i", "value_set": [1, 2], "ties_okay": True}, {"column": "i", "value_set": [7], "ties_okay": True}),
    "column_pair_values_a_to_be_greater_than_b": (
        {"column_A": "i", "column_B": "same", "or_equal": True}, {"column_A": "i", "column_B": "same"}),
    "column_pair_values_to_be_equal": ({"column_A": "i", "column_B": "same"}, {"column_A": "i", "column_B": "k"}),
    "column_pair_values_to_be_in_set": ({"column_A": "i", "column_B": "k", "value_pairs_set": [[1, 2], [2, 1]]},
                                        {"column_A": "i", "column_B": "k", "value_pairs_set": [[1, 2]]}),
    "column_proportion_of_non_null_values_to_be_between": ({"column": "i", "min_value": 1}, {"column": "n", "min_value": 1}),
    "column_proportion_of_unique_values_to_be_between": ({"column": "i", "min_value": 1}, {"column": "i", "max_value": 0.5}),
    "column_quantile_values_to_be_between": (
        {"column": "i", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, 2]]}},
        {"column": "i", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[7, 8]]}}),
    "column_stdev_to_be_between": ({"column": "i", "max_value": 1}, {"column": "i", "max_value": 0.1}),
    "column_sum_to_be_between": ({"column": "i", "min_value": 3}, {"column": "i", "min_value": 4}),
    "column_to_exist": ({"column": "i", "column_index": 0}, {"column": "i", "column_index": 3}),
    "column_type_to_be": ({"column": "i", "type_": "Int64"}, {"column": "i", "type_": "str"}),
    "column_unique_value_count_to_be_between": ({"column": "i", "min_value": 2}, {"column": "i", "min_value": 3}),
    "column_value_lengths_to_be_between": ({"column": "s", "max_value": 1}, {"column": "s", "min_value": 2}),
    "column_value_lengths_to_equal": ({"column": "s", "value": 1}, {"column": "s", "value": 2}),
    "column_value_z_scores_to_be_less_than": (
        {"column": "i", "threshold": 3, "double_sided": True}, {"column": "i", "threshold": 0.1, "double_sided": True}),
    "column_values_to_be_between": ({"column": "i", "max_value": 2}, {"column": "i", "max_value": 1}),
    "column_values_to_be_dateutil_parseable": ({"column": "day"}, {"column": "s"}),
    "column_values_to_be_decreasing": ({"column": "k"}, {"column": "i"}),
    "column_values_to_be_in_set": ({"column": "s", "value_set": ["a", "b"]}, {"column": "s", "value_set": ["a"]}),
    "column_values_to_be_in_type_list": ({"column": "s", "type_list": ["str"]}, {"column": "s", "type_list": ["int"]}),
    "column_values_to_be_increasing": ({"column": "i"}, {"column": "k"}),
    "column_values_to_be_json_parseable": ({"column": "json"}, {"column": "s"}),
    "column_values_to_be_null": ({"column": "n"}, {"column": "i"}),
    "column_values_to_be_of_type": ({"column": "i", "type_": "int64"}, {"column": "i", "type_": "float64"}),
    "column_values_to_be_unique": ({"column": "i"}, {"column": "twice"}),
    "column_values_to_match_json_schema": ({"column": "json", "json_schema": {"type": "number"}},
                                           {"column": "json", "json_schema": {"type": "string"}}),
    "column_values_to_match_regex": ({"column": "s", "regex": "."}, {"column": "s", "regex": "x"}),
    "column_values_to_match_regex_list": ({"column": "s", "regex_list": ["."]}, {"column": "s", "regex_list": ["x"]}),
    "column_values_to_match_strftime_format": (
        {"column": "day", "strftime_format": "%Y-%m-%d"}, {"column": "day", "strftime_format": "%H"}),
    "column_values_to_not_be_in_set": ({"column": "i", "value_set": [7]}, {"column": "i", "value_set": [2]}),
    "column_values_to_not_be_null": ({"column": "i"}, {"column": "n"}),
    "column_values_to_not_be_outliers": ({"column": "i", "method": "iqr", "multiplier": 1.5},
                                         {"column": "far", "method": "iqr", "multiplier": 0.1}),
    "column_values_to_not_match_regex": ({"column": "s", "regex": "x"}, {"column": "s", "regex": "."}),
    "column_values_to_not_match_regex_list": ({"column": "s", "regex_list": ["x"]}, {"column": "s", "regex_list": ["."]}),
    "compound_columns_to_be_unique": ({"column_list": ["i", "s"]}, {"column_list": ["twice", "n2"]}),
    "multicolumn_sum_to_equal": ({"column_list": ["i", "k"], "sum_total": 3}, {"column_list": ["i", "k"], "sum_total": 4}),
    "multicolumn_values_to_be_equal": ({"column_list": ["i", "same"]}, {"column_list": ["i", "k"]}),
    "select_column_values_to_be_unique_within_record": ({"column_list": ["i", "k"]}, {"column_list": ["i", "same"]}),
    "table_column_count_to_be_between": ({"min_value": 1}, {"min_value": 100}),
    "table_column_count_to_equal": ({"value": len(_FRAME.column_names) + 3}, {"value": 1}),
    "table_columns_to_match_ordered_list": (
        {"column_list": [*_FRAME.column_names, "twice", "n2", "far"]}, {"column_list": ["k"]}),
    "table_columns_to_match_set": ({"column_set": ["far", "n2", "twice", *_FRAME.column_names]}, {"column_set": ["k"]}),
    "table_row_count_to_be_between": ({"min_value": 2}, {"min_value": 3}),
    "table_row_count_to_equal": ({"value": 2}, {"value": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_every_type_tells_rows_that_meet_it_from_others(name: str) -> None:
    rows = _FRAME.append_column("twice", pa.array([1, 1])).append_column("n2", pa.array([5, 5]))
    rows = rows.append_column("far", pa.array([1, 900]))
    met, unmet = (judge_rows([expect(name, **args)], [rows])[0] for args in EVERY_TYPE[name])
    assert (met.passed, unmet.passed) == (True, False)


def test_types_of_the_library_are_known_or_refused() -> None:
    """A type that a new release brings is named here, or refused when a file is loaded."""
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    known = {n for n in list_registered_expectation_implementations() if n.startswith("expect_")}
    refused = known - EXPECTATION_TYPES
    for name in refused:
        with pytest.raises(InvalidInputError, match="is for databases"):
            check_type(ExpectationConfig(type=name))
    assert {f"expect_{n}" for n in EVERY_TYPE} == EXPECTATION_TYPES
    assert len(refused) == 6


#: Column type, values, a literal of the lower and of the upper one as YAML has them, one that is not there.
_TYPED: list[tuple[pa.DataType, list[Any], Any, Any, Any]] = [
    (pa.date32(), [date(2026, 9, 1), date(2026, 9, 2)], "2026-09-01", date(2026, 9, 2), "2026-09-03"),
    (pa.decimal128(5, 2), [Decimal("1.00"), Decimal("9.99")], 1, 9.99, 9.98),
    (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("9.99")], "1.00", 9.99, 9.98),
    (pa.time32("ms"), [time(8), time(9)], "08:00:00", "09:00", "10:00:00"),
    (pa.timestamp("us"), [datetime(2026, 1, 1), datetime(2026, 1, 2)], "2026-01-01", datetime(2026, 1, 2), "2026-01-01 01:00:00"),
    (pa.timestamp("ms", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)], "2026-01-01 00:00:00",
     "2026-01-02 02:00:00+02:00", "2026-01-03"),
    (pa.float32(), [0.1, 0.2], 0.1, 0.2, 0.3),
    (pa.int64(), [2**53, 2**53 + 1], 2**53, 2**53 + 1, 5),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "low", "high", "other"), _TYPED, ids=[str(t[0]) for t in _TYPED])
def test_arguments_are_values_of_their_column(
    kind: pa.DataType, values: list[Any], low: Any, high: Any, other: Any
) -> None:
    rows = pa.table({"v": pa.array([*values, None], kind)})
    both, one = [low, high], [low, other]
    wanted: list[tuple[ExpectationConfig, bool]] = [
        (expect(f"column_{name}", column="v", value_set=listed), passes)
        for name, listed, passes in (
            ("values_to_be_in_set", both, True), ("values_to_be_in_set", one, False), ("values_to_not_be_in_set", [other], True),
            ("values_to_not_be_in_set", both, False), ("distinct_values_to_equal_set", both, True),
            ("distinct_values_to_equal_set", one, False), ("distinct_values_to_be_in_set", both, True),
            ("distinct_values_to_be_in_set", one, False), ("distinct_values_to_contain_set", [low], True),
            ("distinct_values_to_contain_set", one, False),
        )
    ]  # fmt: skip
    if pa.types.is_integer(kind):
        # The library compares bounds as floats.
        low, high = 2**53, 2**53 + 2
    bounds = expect("column_values_to_be_between", column="v", min_value=low, max_value=high)
    wanted.append((bounds, True))
    wanted.append((expect("column_min_to_be_between", column="v", min_value=low, max_value=high), True))
    if not pa.types.is_integer(kind):
        wanted.append((expect("column_values_to_be_between", column="v", max_value=low), False))
        wanted.append((expect("column_max_to_be_between", column="v", max_value=low), False))
    outcomes = judge_rows([e for e, _ in wanted], [rows])
    assert [o.passed for o in outcomes] == [p for _, p in wanted]
    if "set" not in str(kind) and not pa.types.is_integer(kind):
        assert failing_rows(expect("column_values_to_be_between", column="v", max_value=low), rows) == [1]


@pytest.mark.parametrize(
    ("type_text", "name", "args", "said"),
    [
        (
            "STRING",
            "column_values_to_match_like_pattern",
            {"like_pattern": "a%"},
            "use expect_column_values_to_match_regex",
        ),
        ("STRING", "column_values_to_be_betwen", {}, "did you mean"),
        ("STRING", "query_results_to_match_comparison", {"base_query": "q"}, "is for databases"),
        ("DATE", "column_values_to_be_in_set", {"value_set": ["yesterday"]}, "write it as 'YYYY-MM-DD'"),
        ("DECIMAL(5, 2)", "column_values_to_be_in_set", {"value_set": [1.255]}, r"1.255 is no DECIMAL\(5, 2\)"),
        ("TIME(3)", "column_values_to_be_between", {"min_value": 28800}, "write times in quotes"),
        ("STRING", "column_values_to_be_between", {"min_value": "a"}, "min_value is for numbers, dates and times"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_file(
    tmp_path: Path, type_text: str, name: str, args: dict[str, Any], said: str
) -> None:
    text = f"""
table: d.t
warehouse: {tmp_path}
landing: {{path: {tmp_path}/landing}}
fields: [{{name: k, type: INT NOT NULL}}, {{name: v, type: "{type_text}"}}]
primaryKeys: [k]
expectations: [{{type: expect_{name}, args: {json.dumps({"column": "v", **args})}}}]
"""
    with pytest.raises(PipelineFileError, match=said):
        parse_pipeline(text, path=str(tmp_path / "p.yaml"))


_BATCH = """
import sys
from pathlib import Path
from tests.dagster.pipelines import Deployment
d = Deployment(Path(sys.argv[1]))
d.land("a.parquet", [(1, 1, "v")])
assert d.run("a.parquet").success
print(sorted({"great_expectations", "dagster"} & set(sys.modules)))
"""


def test_rules_alone_import_no_great_expectations(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BATCH, str(tmp_path)], capture_output=True, text=True, timeout=HANGS_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['dagster']\n"


def test_files_that_are_read_side_by_side_do_not_mix() -> None:
    wanted = ExpectationConfig(type="expect_column_values_to_be_between", args={"column": "a", "max_value": 9})
    tables = [pa.table({"a": pa.array([None] * n + [1.0] * n + [10.0 + n], pa.float64())}) for n in range(1, 30)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(partial(failing_rows, wanted), tables))
    assert found == [[2 * n] for n in range(1, 30)]


def test_only_single_rows_are_set_aside() -> None:
    wrong = ExpectationConfig(type="expect_column_values_to_be_unique", args={"column": "a"}, set_aside=True)
    with pytest.raises(InvalidInputError, match="set_aside is for expectations about single rows"):
        failing_rows(wrong, pa.table({"a": [1]}))
    for more in ({"on": "table"}, {"args": {"column": "a", "mostly": 0.5}}):
        with pytest.raises(ValueError, match="set_aside"):
            ExpectationConfig.model_validate({"type": wrong.type, "args": wrong.args, "set_aside": True, **more})


def test_mistakes_are_found_when_the_file_is_loaded() -> None:
    text = """table: d.t
warehouse: /lake
landing: {path: /landing}
fields: [{name: id, type: BIGINT}]
primaryKeys: [id]
options: {bucket: -1}
expectations:
  - {type: expect_column_values_to_be_unique, args: {column: ids}}
  - {type: expect_table_row_count_to_equal, args: {value: 1}}
  - {type: expect_table_row_count_to_equal, args: {value: 2}}
"""
    with pytest.raises(PipelineFileError) as wrong:
        parse_pipeline(text, path="t.yaml", environment={})
    first, second = wrong.value.problems
    assert first.startswith("line 8: expect_column_values_to_be_unique: there is no column 'ids'")
    assert second.startswith("line 10: two expectations on landed are named expect_table_row_count_to_equal")
