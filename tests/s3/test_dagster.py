"""Dagster on a real S3 server: the landing sensor, and runs while the store answers 503, loses answers or says nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.pipeline_file.partitions import files_of_partitions
from lakeidx.storage import open_store
from tests.dagster.pipelines import Deployment, red_checks
from tests.dagster.test_sensors import tick
from tests.kit.s3_proxy import Act, FaultyProxy, faulty_proxy
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import content
from tests.kit.sqs_server import SqsServer, sqs_server

__all__ = ["s3_server"]
pytestmark = pytest.mark.s3
SENSOR = "d__t__landing_sensor"


def put_rows(server: S3Server, path: str, low: int, high: int, text: str) -> None:
    """A landing file of 20 keys of each partition."""
    sink = pa.BufferOutputStream()
    numbers = list(range(low, high))
    rows = {"p": pa.array([k % 2 for k in numbers], pa.int32()), "k": numbers, "v": [f"{text}{k}" for k in numbers]}
    pq.write_table(pa.table(rows), sink)
    open_store(path, server.storage_options).put(path, sink.getvalue().to_pybytes())


@pytest.fixture
def lake(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh place on the server; the environment is an operator's."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.fresh_uri("lake")


def deployment(folder: Path, lake: str, **landing: object) -> Deployment:
    # A report is put once per try of its step: whether a conditional put that failed was done after all, the step finds out.
    changes = {"warehouse": f"{lake}/wh", "retries": {"max_retries": 7}}
    return Deployment(folder, {**changes, "landing": {"path": f"{lake}/landing", **landing}})


def stored(lake: str, server: S3Server) -> dict[tuple[int, int], str | None]:
    return content(Table.open(f"{lake}/wh/d.db/t", server.storage_options))


def test_the_landing_sensor_sees_files_on_s3_and_their_run_takes_them(
    lake: str, s3_server: S3Server, tmp_path: Path
) -> None:
    d = deployment(tmp_path, lake)
    assert "0 landing files" in str(tick(d, SENSOR).skip_reason)
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 40, "a")
    put_rows(s3_server, f"{lake}/landing/b.parquet", 30, 60, "b")
    put_rows(s3_server, f"{lake}/landing/deeper/c.parquet", 0, 5, "not mine")
    first = tick(d, SENSOR)
    requests = first.run_requests or []
    assert [r.partition_key for r in requests] == ["a.parquet", "b.parquet"]
    for request in requests:
        result = d.run(str(request.partition_key))
        assert result.success
        assert red_checks(result) == set()
    assert stored(lake, s3_server) == {(k % 2, k): f"b{k}" if k >= 30 else f"a{k}" for k in range(60)}
    assert tick(d, SENSOR, first.cursor).run_requests == []
    # The same name with other content is a new file.
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 10, "again")
    later = tick(d, SENSOR, first.cursor).run_requests or []
    assert [r.partition_key for r in later] == ["a.parquet"]
    assert later[0].run_key != requests[0].run_key
    assert d.run("a.parquet").success
    assert stored(lake, s3_server)[0, 0] == "again0"


def test_files_on_s3_wait_until_they_have_settled_or_their_marker_is_there(
    lake: str, s3_server: S3Server, tmp_path: Path
) -> None:
    d = deployment(tmp_path / "settle", lake, settle_seconds=3600)
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 4, "a")
    waiting = tick(d, SENSOR)
    assert waiting.run_requests == []
    assert "1 of them not settled" in str(waiting.skip_reason)
    marked = deployment(tmp_path / "marker", lake, success_marker=".done")
    assert "0 landing files" in str(tick(marked, SENSOR).skip_reason)
    open_store(lake, s3_server.storage_options).put(f"{lake}/landing/a.parquet.done", b"")
    assert [r.partition_key for r in tick(marked, SENSOR).run_requests or ()] == ["a.parquet"]


def event(lake: str, *names: str) -> str:
    """What S3 says when objects of the landing folder were created."""
    bucket, _, folder = lake.removeprefix("s3://").partition("/")
    keys = [quote_plus(f"{folder}/landing/{name}") for name in names]
    s3 = [{"bucket": {"name": bucket}, "object": {"key": key}} for key in keys]
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": one} for one in s3]})


@pytest.fixture
def queue(lake: str) -> Iterator[SqsServer]:
    with sqs_server() as server:
        yield server


def test_messages_of_an_event_queue_become_runs_once(
    lake: str, s3_server: S3Server, queue: SqsServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    d = deployment(tmp_path / "queue", lake, events={"url": queue.queue})
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 4, "a")
    first = tick(d, SENSOR)
    assert [r.partition_key for r in first.run_requests or ()] == ["a.parquet"], "what is there is listed"
    for name in ("b +é.parquet", "c.parquet", "d.txt", "deeper/e.parquet"):
        put_rows(s3_server, f"{lake}/landing/{name}", 0, 20, "b")
    wrapped = json.dumps({"Type": "Notification", "Message": event(lake, "a.parquet", "c.parquet")})
    wrong = ["no JSON", event(f"{lake}-other", "b.parquet")]
    mine = [event(lake, "b +é.parquet"), wrapped, event(lake, "d.txt", "deeper/e.parquet", "gone.parquet")]
    queue.send(*mine, *wrong)
    second = tick(d, SENSOR, first.cursor)
    requests = second.run_requests or []
    # `a` was listed: its message makes no second run.
    assert [r.partition_key for r in requests] == ["b +é.parquet", "c.parquet"]
    said = capfd.readouterr().err
    assert "stays in the queue: no event notification of S3: it is not JSON" in said
    assert f"{lake}-other/landing/b.parquet is not in {lake}/landing: configure the bucket to send" in said
    assert len(queue.bodies()) == 5, "none is deleted before its run request is recorded"
    # The daemon dies before it has recorded anything: the messages come again, and the runs are the same.
    queue.show_again()
    again = tick(d, SENSOR, first.cursor)
    assert [r.run_key for r in again.run_requests or ()] == [r.run_key for r in requests]
    third = tick(d, SENSOR, again.cursor)
    assert (third.run_requests, sorted(queue.bodies())) == ([], sorted(wrong))
    # One that comes again all the same is no second run; the wrong ones stay, and the tick counts them.
    queue.send(event(lake, "c.parquet"))
    queue.show_again()
    fourth = tick(d, SENSOR, third.cursor)
    assert "3 messages, 2 of them stay in the queue; 0 files wait for their batch" in str(fourth.skip_reason)
    assert tick(d, SENSOR, fourth.cursor).run_requests == []
    assert sorted(queue.bodies()) == sorted(wrong)
    (source,) = files_of_partitions(open_store(lake, s3_server.storage_options), d.config, ["b +é.parquet"])
    assert source.path == f"{lake}/landing/b +é.parquet", "what the run takes"
    # A listing finds the same files, and would ask for the same runs.
    listing = tick(deployment(tmp_path / "list", lake), SENSOR)
    keys = {r.partition_key: r.run_key for r in (*(first.run_requests or ()), *requests)}
    assert {r.partition_key: r.run_key for r in listing.run_requests or ()} == keys


@pytest.fixture
def proxy(lake: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3_server.endpoint_url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        monkeypatch.setenv("LAKEIDX_S3_READ_TIMEOUT", "1.5")
        yield proxy


def test_a_store_that_says_503_loses_answers_and_falls_silent(
    lake: str, proxy: FaultyProxy, s3_server: S3Server, tmp_path: Path
) -> None:
    """Throughout two runs every few requests go wrong, whatever they are; nothing is lost and nothing comes twice."""
    d = deployment(tmp_path, lake)
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 40, "a")
    put_rows(s3_server, f"{lake}/landing/b.parquet", 30, 60, "b")

    def often(number: int, method: str, path: str) -> Act:
        if number % 60 == 31:
            return "silent"
        return "busy" if number % 5 == 0 else "lost" if number % 9 == 0 else "pass"

    proxy.act = often
    for name in ("a.parquet", "b.parquet"):
        result = d.run(name)
        assert result.success
        assert red_checks(result) == set()
    assert min(proxy.acts[act] for act in ("busy", "lost", "silent")) >= 2
    expected = {(k % 2, k): f"b{k}" if k >= 30 else f"a{k}" for k in range(60)}
    assert stored(lake, s3_server) == expected
    table = Table.open(f"{lake}/wh/d.db/t", s3_server.storage_options)
    assert table.metadata.snapshot_ids() == [1, 2]


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("part", "act"), [("/ingest.json", "busy"), ("/index/", "busy"), ("/snapshot/snapshot-1", "lost")]
)
def test_an_outage_that_outlasts_the_stores_own_retries_is_a_retried_step(
    lake: str, proxy: FaultyProxy, s3_server: S3Server, tmp_path: Path, part: str, act: Act
) -> None:
    d = deployment(tmp_path, lake)
    put_rows(s3_server, f"{lake}/landing/a.parquet", 0, 40, "a")
    # As many tries as a request has: the report is one, the files of the index are four, written side by side.
    left = [24 if part == "/index/" else 6]

    def outage(number: int, method: str, path: str) -> Act:
        # What is asked about the same object in between goes wrong, too: the store cannot find out what became of it.
        if method in ("PUT", "POST") and part in path and left[0]:
            left[0] -= 1
            return act
        return "pass"

    proxy.act = outage
    result = d.run("a.parquet", raise_on_error=False)
    assert result.success, [e.step_failure_data.error for e in result.all_events if e.is_step_failure]
    assert left == [0] or act == "lost"
    assert stored(lake, s3_server) == {(k % 2, k): f"a{k}" for k in range(40)}
    table = Table.open(f"{lake}/wh/d.db/t", s3_server.storage_options)
    assert table.metadata.snapshot_ids() == [1]
    if act == "busy":
        assert [e for e in result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
