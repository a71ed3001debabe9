"""Partitions: their figures, which expire, what is left of them, and marks."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.maintenance.partitions.done import mark_partitions_done
from lakeidx.maintenance.partitions.drop import expire_partitions
from lakeidx.maintenance.partitions.times import TimeReader


def make(place: Path, days: list[str], *, bucket: str = "-1", **options: str) -> lakeidx.Table:
    table = lakeidx.Table.create(
        place / "w" / "d.db" / "t",
        {
            "fields": [{"name": "day", "type": "STRING"}, {"name": "k", "type": "INT"}, {"name": "v", "type": "INT"}],
            "primaryKeys": ["day", "k"],
            "partitionKeys": ["day"],
            "options": {"bucket": bucket, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}},
        },
    )
    table.upsert([{"day": d, "k": k, "v": k} for d in days for k in range(3)])
    return table


def days_of(table: lakeidx.Table) -> list[str]:
    return sorted(set(table.scan().to_arrow()["day"].to_pylist()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-28", datetime(2026, 11, 28)),
        ("2026-1-2 3:4:5", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02 03:04:05.25", datetime(2026, 1, 2, 3, 4, 5, 250_000)),
        ("2026-13-45", datetime(2027, 2, 14)),
        ("2026-01-01 25:00:00", datetime(2026, 1, 2, 1)),
        ("20000-01-01", datetime.max),
        ("-1-01-01", datetime.min),
        ("2026-01-02T03:04:05", None),
        (" 2026-01-02", None),
        ("20260102", None),
        ("x", None),
    ],
)
def test_times_as_java_reads_them(text: str, expected: datetime | None) -> None:
    assert TimeReader(None, None).read({"day": text}) == expected


@pytest.mark.parametrize(
    ("formatter", "text", "expected"),
    [
        ("yyyyMMdd", "20260228", datetime(2026, 2, 28)),
        ("yyyyMMdd", "20260231", datetime(2026, 2, 28)),
        ("yyyyMMdd", "20240231", datetime(2024, 2, 29)),
        ("yyyyMMdd", "20261301", None),
        ("yyyyMMdd", "2026-02-28", None),
        ("yyyy/MM/dd HH", "2026/02/28 23", datetime(2026, 2, 28, 23)),
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS]", "2026-02-28T01:02:03", datetime(2026, 2, 28, 1, 2, 3)),
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS]", "2026-02-28T01:02:03.500", datetime(2026, 2, 28, 1, 2, 3, 500_000)),
        ("d.M.yyyy", "7.3.2026", datetime(2026, 3, 7)),
    ],
)
def test_times_by_a_formatter(formatter: str, text: str, expected: datetime | None) -> None:
    assert TimeReader(None, formatter).read({"day": text}) == expected


@pytest.mark.parametrize("formatter", ["yyyyMM", "yyyy-MM-dd a", "EEE yyyyMMdd", "yyyyMMddMM"])
def test_a_formatter_that_is_not_understood_is_refused(formatter: str) -> None:
    with pytest.raises(InvalidInputError, match=r"partition\.timestamp-formatter"):
        TimeReader(None, formatter)


def test_a_pattern_takes_several_columns() -> None:
    reader = TimeReader("$day $hour:00:00", None)
    assert reader.read({"day": "2026-11-28", "hour": "7"}) == datetime(2026, 11, 28, 7)


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_dropped_partitions_take_their_keys_along(tmp_path: Path, bucket: str) -> None:
    table = make(tmp_path, ["a", "b", "c"], bucket=bucket)
    plan = table.drop_partitions(["day=a"], dry_run=True)
    assert (plan.partitions, plan.rows, days_of(table)) == (("day=a",), 3, ["a", "b", "c"])
    assert table.drop_partitions(where="day < 'c'").partitions == ("day=a", "day=b")
    assert days_of(table) == ["c"]
    assert [(r["day"], r["rows"], r["files"]) for r in table.partitions()] == [("c", 3, 2 if bucket == "2" else 1)]
    result = table.upsert([{"day": "a", "k": 1, "v": 9}])
    assert (result.updates, days_of(table)) == (0, ["a", "c"])
    assert table.verify().passed
    with pytest.raises(NotFoundError, match="does not exist"):
        table.drop_partitions(["day=z"])
    with pytest.raises(InvalidInputError, match="k is not a partition column; the table has day"):
        table.drop_partitions(where="k = 1")
    with pytest.raises(InvalidInputError, match="give the partitions to drop, or a condition"):
        table.drop_partitions()


def test_partitions_expire_by_their_values_oldest_first(tmp_path: Path) -> None:
    days = ["2026-01-03", "2026-01-01", "2026-01-02", "2026-11-20", "odd"]
    table = make(tmp_path, days, partition__expiration_time="10 d", partition__expiration_max_num="2")
    now = datetime(2026, 11, 28)
    plan = expire_partitions(table, now=now, dry_run=True)
    assert (plan.partitions, plan.unread) == (("day=2026-01-01", "day=2026-01-02"), 1)
    assert len(days_of(table)) == 5
    expire_partitions(table, now=now)
    assert days_of(table) == ["2026-01-03", "2026-11-20", "odd"]
    assert expire_partitions(table, now=now + timedelta(days=5)).partitions == ("day=2026-01-03", "day=2026-11-20")
    assert expire_partitions(table, now=now).partitions == ()


def test_partitions_expire_by_their_last_write(tmp_path: Path) -> None:
    table = make(tmp_path, ["a", "b"], partition__expiration_strategy="update-time")
    with pytest.raises(InvalidInputError, match="say how old"):
        table.expire_partitions()
    assert table.expire_partitions(older_than="1 h").partitions == ()
    later = datetime.now() + timedelta(hours=2)
    assert expire_partitions(table, older_than_ms=3_600_000, now=later).partitions == ("day=a", "day=b")


def test_expiry_takes_partitions_along(tmp_path: Path) -> None:
    table = make(tmp_path, ["2020-01-01", "2999-01-01"], partition__expiration_time="10 d")
    assert table.expire(dry_run=True).as_dict()["partitions_expired"] == ["day=2020-01-01"]
    assert table.expire().as_dict()["partitions_expired"] == ["day=2020-01-01"]
    assert days_of(table) == ["2999-01-01"]


def marks(table: lakeidx.Table) -> dict[str, dict[str, int]]:
    root = Path(table.uri)
    return {str(f.parent.relative_to(root)): json.loads(f.read_text()) for f in root.rglob("_SUCCESS")}


def test_idle_partitions_are_marked_once_and_again_after_a_write(tmp_path: Path) -> None:
    table = make(
        tmp_path, ["2026-01-01", "2999-01-01"], partition__idle_time_to_done="1 h", partition__time_interval="1 d"
    )
    assert mark_partitions_done(table).partitions == ()
    later = datetime.now() + timedelta(hours=2)
    assert mark_partitions_done(table, now=later, dry_run=True).partitions == ("day=2026-01-01",)
    assert marks(table) == {}
    assert mark_partitions_done(table, now=later).partitions == ("day=2026-01-01",)
    (first,) = marks(table).items()
    assert first[0] == "day=2026-01-01"
    assert mark_partitions_done(table, now=later).partitions == ()
    table.upsert([{"day": "2026-01-01", "k": 7, "v": 7}])
    assert mark_partitions_done(table, now=later).partitions == ("day=2026-01-01",)
    (again,) = marks(table).values()
    assert again["creationTime"] == first[1]["creationTime"]
    assert again["modificationTime"] > first[1]["modificationTime"]
    # A compaction brings no row: Java's listener passes over it, too.
    table.compact(full=True)
    assert mark_partitions_done(table, now=later).partitions == ()
    table.expire(retain_min=1, retain_max=1)
    assert mark_partitions_done(table, now=later).partitions == ()
    table.upsert([{"day": "2026-01-01", "k": 8, "v": 8}])
    table.compact(full=True)
    assert mark_partitions_done(table, now=later).partitions == ("day=2026-01-01",)
    assert not table.orphans(older_than="0 s").files
    assert table.verify().passed


def test_a_batch_marks_its_partitions_at_its_end(tmp_path: Path) -> None:
    table = make(tmp_path, ["a"], partition__end_input_to_done="true")
    assert set(marks(table)) == {"day=a"}
    table.upsert([{"day": "b", "k": 1, "v": 1}])
    assert set(marks(table)) == {"day=a", "day=b"}


@contextmanager
def reports(answer: bytes) -> Iterator[tuple[str, list[Any]]]:
    """A server that takes reports."""
    taken: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/done", taken
        server.shutdown()


def test_marks_are_reported(tmp_path: Path) -> None:
    with reports(b'{"result": "SUCCESS"}') as (url, taken):
        table = make(
            tmp_path, ["a"], partition__mark_done_action="http-report", partition__mark_done_action__http__url=url,
            partition__mark_done_action__http__params="x=1",
        )  # fmt: skip
        table.mark_done(["day=a"])
        assert taken == [{"table": "d.t", "path": table.uri, "partition": "day=a/", "params": "x=1"}]
    with reports(b'{"result": "NO"}') as (url, _):
        table.alter(set={"partition.mark-done-action.http.url": url})
        with pytest.raises(UnavailableError, match="was not taken by"):
            table.mark_done(["day=a"])
    with pytest.raises(UnavailableError, match="was not reported to"):
        table.mark_done(["day=a"])


def test_actions_that_need_javas_catalog_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, ["a"], partition__mark_done_action="done-partition")
    with pytest.raises(UnsupportedError, match="done-partition needs Java's catalog"):
        table.mark_done(["day=a"])
    with pytest.raises(InvalidInputError, match="idle-time-to-done"):
        make(tmp_path / "other", ["a"]).mark_done()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition__idle_time_to_done": "1 ms", "partition__mark_done_action": "done-partition"}, "Java's catalog"),
        ({"partition__idle_time_to_done": "1 ms", "partition__mark_done_action": "tell-nobody"}, "none of"),
        ({"partition__expiration_time": "1 d", "partition__timestamp_formatter": "EEE yyyyMMdd"}, "not understood"),
    ],
)
def test_snapshots_expire_where_partitions_are_left_to_others(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    table = make(tmp_path, ["2020-01-01"], **options)
    table.upsert([{"day": "2020-01-01", "k": 9, "v": 9}])
    result = table.expire(retain_min=1, retain_max=1).as_dict()
    assert result["snapshots"] == [1]
    assert any(told in note for note in result["notes"])
    assert days_of(table) == ["2020-01-01"]


def test_a_batch_is_committed_where_its_partitions_are_marked_by_others(tmp_path: Path, caplog: Any) -> None:
    table = make(tmp_path, ["a"], partition__end_input_to_done="true", partition__mark_done_action="done-partition")
    assert (days_of(table), marks(table)) == (["a"], {})
    assert "no partition is marked done" in caplog.text
