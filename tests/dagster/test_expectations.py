"""Expectations of users: landed rows and the table's, by row and of whole columns, in pieces; mistakes in them."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.batch.artifacts import BatchFiles, IngestReport
from lakeidx.dagster.expectations.of_rows import failing_rows, judge_rows
from lakeidx.dagster.preload import preload_imports
from lakeidx.errors import InvalidInputError
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


def test_rows_that_fail_are_set_aside_and_the_others_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("lakeidx.dagster.preload.start_import", asked.append)
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
    preload_imports(d.config, ["d__t__ingest", "d__t__bucket_assignment"])
    assert asked == ["lakeidx.dagster.expectations.of_rows"], "steps that judge nothing import nothing"
    asked.clear()
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
    assert asked == ["lakeidx.dagster.expectations.of_rows"]
    assert red_checks(result) == {"expect_column_values_to_not_be_in_set__v", "stale_hashes"}
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


def test_figures_of_the_last_batches_are_judged_and_rules_have_a_page(tmp_path: Path) -> None:
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
    assert red_checks(second) == {"expect_column_max_to_be_between__rejected_share", "large_enough"}
    checks = {c.check_name: c.metadata for c in second.get_asset_check_evaluations()}
    assert checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/observed"].value == "0.5"
    assert checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/rows"].value == 2
    # A batch that comes again is the same row.
    again = d.run("b.parquet", raise_on_error=False)
    again_checks = {c.check_name: c.metadata for c in again.get_asset_check_evaluations()}
    assert again_checks["expect_column_max_to_be_between__rejected_share"]["lakeidx/rows"].value == 2
    pages = {Path(str(m["lakeidx/data_docs"].value)) for m in checks.values()}
    assert [p.name.split("-")[0] for p in sorted(pages)] == ["assignment", "batches", "commit"]
    assert {p.parent for p in pages} == {docs}
    verified = d.run_asset("verification")
    pages = {Path(str(c.metadata["lakeidx/data_docs"].value)) for c in verified.get_asset_check_evaluations()}
    assert [p.name for p in pages] == ["verification-snapshot-2.html"]
    text = re.sub(r"<[^>]*>", "", (docs / "verification-snapshot-2.html").read_text(encoding="utf-8"))
    assert "partition, hash" in text.replace("$", "")


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
