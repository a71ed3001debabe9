"""Rejected rows are written where they are found: what the driver gets of them does not grow with them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.batch.context import make_context
from lakeidx.batch.stages.rejected_rows import RejectWriter, join_rejected, read_rejected
from lakeidx.landing.cast_rows import REJECT_SCHEMA
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.storage import open_store
from tests.kit.small_tables import content, make_table
from tests.kit.upserts import upsert_files
from tests.unit.batch.assignment.test_in_tasks import MeteredRunner


def rejects(source: str, lines: range, reason: str) -> pa.Table:
    rows = [{"source": source, "line": n, "reason": reason, "row": f"row {n}"} for n in lines]
    return pa.Table.from_pylist(rows, REJECT_SCHEMA)


def test_files_of_rejected_rows_are_read_in_order(tmp_path: Path) -> None:
    store, found = open_store(str(tmp_path)), []
    for source, counts in enumerate([(3, 25_000), (), (4,)]):
        with RejectWriter(store, str(tmp_path), f"{source:05d}") as writer:
            for start, count in enumerate(counts):
                writer.add(
                    rejects(f"f{source}", range(start * 100, start * 100 + count), f"bad {start}: value {source}")
                )
            found.append(writer.finish())
    assert [f.rows for f in found] == [25_003, 0, 4]
    assert [f.path is None for f in found] == [False, True, False]
    whole = join_rejected(found)
    assert (whole.rows, whole.path, len(whole.first)) == (25_007, f"{tmp_path}/rejected", 10)
    assert whole.reasons == {"bad 1": 25_000, "bad 0": 7}
    rows = read_rejected(store, str(whole.path))
    assert rows.column("source").to_pylist() == ["f0"] * 25_003 + ["f2"] * 4
    assert rows.column("line").to_pylist() == [*range(3), *range(100, 25_100), *range(4)]
    assert read_rejected(store, str(whole.path), most=5).to_pylist() == rows.slice(0, 5).to_pylist()
    assert join_rejected(found[1:]).path == found[2].path
    assert join_rejected([]).path is None


def test_a_task_that_dies_leaves_no_file(tmp_path: Path) -> None:
    def dies() -> None:
        with RejectWriter(open_store(str(tmp_path)), str(tmp_path), "00000") as writer:
            writer.add(rejects("f", range(20_000), "bad"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dies()
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_reaches_the_driver_does_not_grow_with_rejected_rows(tmp_path: Path) -> None:
    received = []
    for size in (100, 5000):
        table, runner = make_table(tmp_path / str(size)), MeteredRunner()
        files = []
        for name in ("a", "b"):
            files.append(tmp_path / f"{name}-{size}.csv")
            bad = "".join(f"1,x{n},{name}\n" for n in range(size))
            files[-1].write_text(f"p,k,v\n1,{len(files)},{name}\n{bad}", encoding="utf-8")
        context = make_context(table.metadata, "b", runner=runner)
        result = upsert_files(
            context, [str(f) for f in files], LandingOptions(), max_rejected=RejectLimit(count=2 * size)
        )
        assert content(table) == {(1, 1): "a", (1, 2): "b"}
        assert result.ingest.rows_rejected == 2 * size
        assert sum(result.ingest.reject_reasons.values()) == 2 * size
        path = result.ingest.rejected_path
        assert path is not None
        assert read_rejected(table.store, path).column("line").to_pylist() == [*range(3, size + 3)] * 2
        received.append(runner.received["ingest"])
    assert received[1] - received[0] < 500
