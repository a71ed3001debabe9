"""What tasks get: functions that do not grow with items, targets and tables; and the settings of sessions that lakeidx makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeidx.api.table import Table
from lakeidx.batch.artifacts import BucketAssignmentReport, StagedPart, Target
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.index_write import WriteContext
from lakeidx.errors import InternalError, UnavailableError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import run_file_index_rebuild, spec_to_build
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.spark.runner import SparkRunner, _collect, default_settings, get_session, result_row
from tests.kit.small_tables import make_table, rows
from tests.kit.upserts import upsert_table
from tests.unit.batch.assignment.test_in_tasks import MeteredRunner

MOST_BYTES = 1_000_000


class Frames:
    """A session, and frames that do nothing: it knows how large the functions are that go to tasks."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.conf = {"spark.master": "spark://m:7077"}

    def mapInArrow(self, function: Callable[..., Any], _: str) -> Frames:
        self.sent.append(len(cloudpickle.dumps(function)))  # type: ignore[no-untyped-call]
        return self

    def __getattr__(self, name: str) -> Callable[..., Frames]:
        return lambda *_, **__: self


# ---- stages ------------------------------------------------------------------------------------------------------------


def targets(count: int) -> tuple[Target, ...]:
    partition = bytes.fromhex("00000001" + "00" * 16)
    return tuple(
        Target(partition=partition.hex(), bucket=b, rows=10**6, first_sequence=10**9, index_file=f"index-{b:040d}-0",
               index_rows=10**6, new_hashes=10)
        for b in range(count)
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("moves", [None, "somewhere"])
@pytest.mark.parametrize("count", [1_000, 20_000])
def test_the_functions_of_index_write_do_not_hold_buckets_or_parts(
    tmp_path: Any, moves: str | None, count: int
) -> None:
    """What is left for each bucket is where its rows go: numbers."""
    table = make_table(tmp_path)
    made = targets(count)
    assign = BucketAssignmentReport(
        batch_id="b", attempt=1, base_snapshot_id=None, targets=made, targets_paths=(), assigned_on=None, rows=0,
        inserts=0, updates=0, deletes=0, new_buckets=0, index_type="state", seconds=0.0, moves_path=moves,
    )  # fmt: skip
    tasks = WriteContext.of(make_context(table.metadata, "b"), table.schema, assign, 1)
    session: Any = Frames()
    parts = [(n, StagedPart(path="p" * 100, rows=1, bytes=1, source=0)) for n in range(count)]
    SparkRunner(session, parallelism=2).shuffle_frame(tasks, parts, targets=made, weights=[t.rows for t in made])  # type: ignore[misc]
    assert max(session.sent) < 20_000 + 20 * count < MOST_BYTES


def weights_of_all_stages(folder: Any, partitions: int) -> dict[str, int]:
    weighing = MeteredRunner(2)
    table = make_table(folder)
    for value in ("a", "b"):
        batch = rows([(p, k, value) for p in range(partitions) for k in range(3)])
        context = make_context(table.metadata, f"batch-{value}", runner=weighing)
        upsert_table(replace(context, driver_bytes=0), batch)
    table = Table.open(table.uri)
    run_compaction(table.metadata, weighing, full=True)
    run_lookup_store(table.metadata, weighing)
    run_file_index_rebuild(table.metadata, weighing, spec_to_build(table.schema, "bloom-filter", ["v"]))
    return weighing.sent


@pytest.mark.slow
def test_no_function_of_a_stage_grows_with_the_buckets(tmp_path: Any) -> None:
    few, many = weights_of_all_stages(tmp_path / "few", 2), weights_of_all_stages(tmp_path / "many", 40)
    assert set(few) == {"bucket_assignment", "index_write", "compaction", "lookup_store", "index_rebuild"}
    assert {stage: many[stage] - few[stage] for stage in few if many[stage] - few[stage] > 100} == {}


# ---- settings of sessions that lakeidx makes: those of one process only where there is one process -------------------


ADDRESS = {"spark.driver.host", "spark.driver.bindAddress"}


@pytest.mark.parametrize(
    ("master", "submitted", "local"),
    [
        (None, False, True),
        ("local", False, True),
        ("local[*]", False, True),
        (None, True, False),
        ("spark://m:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://api", False, False),
    ],
)
def test_the_address_of_the_driver_is_set_only_where_all_is_one_process(
    master: str | None, submitted: bool, local: bool
) -> None:
    settings = default_settings(master, submitted=submitted)
    assert (set(settings) & ADDRESS) == (ADDRESS if local else set())
    assert settings["spark.sql.adaptive.enabled"] == "false"


DAEMON = "spark.python.daemon.module"


def test_workers_are_forked_with_lakeidx_only_where_they_run_this_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert default_settings("local[2]", submitted=False)[DAEMON] == "lakeidx.spark.workers.daemon"
    assert DAEMON not in default_settings("spark://m:7077", submitted=False)
    assert DAEMON not in default_settings(None, submitted=True)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert DAEMON not in default_settings("local[2]", submitted=False)
    (tmp_path / "python").symlink_to(sys.executable)
    assert DAEMON not in default_settings("local[2]", submitted=False)


def test_a_session_that_spark_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAUTHENTICATED
\tdetails = "Invalid authentication token"
>"""

    def refuse(builder: Any) -> None:
        raise PySparkException(said)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    with pytest.raises(
        UnavailableError, match=r"Invalid authentication token; set SPARK_CONNECT_AUTHENTICATE_TOKEN"
    ) as found:
        get_session(remote="sc://nowhere:1")
    assert "\n" not in str(found.value)
    said = "[APPLICATION_NAME_NOT_SET] An application name\nmust be set."
    with pytest.raises(UnavailableError, match=r"no Spark session: \[APPLICATION_NAME_NOT_SET\] An application name"):
        get_session(master="local[1]")


def test_a_task_whose_result_comes_twice_is_no_other_task() -> None:
    class Frame:
        def toArrow(self) -> pa.Table:
            return pa.Table.from_batches([result_row(0, True, "a"), result_row(0, True, "b")])

    with pytest.raises(InternalError, match="1 tasks should have returned a result, 2 did"):
        _collect(Frame(), 1)  # type: ignore[arg-type]
