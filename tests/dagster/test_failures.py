"""Stages killed, full disks, stores that say 503: run again, the table holds each row once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakeidx.dagster.failures import ERROR_KIND
from lakeidx.dagster.sensors.failed_runs import diagnose
from lakeidx.errors import UnavailableError
from lakeidx.storage.files import translate
from lakeidx.storage.local import LocalStore
from lakeidx.testing.limits import HANGS_SECONDS
from tests.dagster.pipelines import Deployment, red_checks

pytestmark = pytest.mark.dagster

ROWS: list[tuple[int, int, str | None]] = [(k % 2, k, f"a{k}") for k in range(30)]
EXPECTED = {(p, k): v for p, k, v in ROWS}

#: What is being written, and whether the process dies before or after that.
MOMENTS = [
    (name, when)
    for name in ("ingest.json", "bucket_assignment.json", "index_write.json", "snapshot-1", "commit.json")
    for when in ("before", "after")
] + [("changes.bin", "before")]


def told_kind(event: dg.DagsterEvent) -> Any:
    """The kind of error that a failed step has noted."""
    assert event.step_failure_data.user_failure_data is not None
    return event.step_failure_data.user_failure_data.metadata[ERROR_KIND].value


def run_and_die(folder: str, name: str, when: str) -> None:
    """A run whose process is killed when a file is put (in a process of its own)."""

    def at(path: str, moment: str) -> None:
        if path.endswith(f"/{name}") and when == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    for verb in ("put_if_absent", "put"):

        def put(self: LocalStore, path: str, data: bytes, plain: Any = getattr(LocalStore, verb), **how: bool) -> Any:
            at(path, "before")
            result = plain(self, path, data, **how)
            at(path, "after")
            return result

        setattr(LocalStore, verb, put)

    Deployment(Path(folder)).run("a.parquet")


@pytest.fixture(scope="module")
def forks() -> Any:
    """Processes made by a server that has imported everything once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.dagster.test_failures", "lakeidx.dagster.expectations.of_rows"])
    return context


@pytest.mark.share(0.3)
@pytest.mark.parametrize(("name", "when"), MOMENTS)
def test_a_stage_killed_at_any_boundary_is_run_again(tmp_path: Path, forks: Any, name: str, when: str) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", ROWS)
    process = forks.Process(target=run_and_die, args=(str(tmp_path), name, when))
    process.start()
    process.join(HANGS_SECONDS)
    assert process.exitcode == -signal.SIGKILL
    result = d.run("a.parquet")
    assert result.success
    assert red_checks(result) == set()
    assert d.content() == EXPECTED
    assert d.table.metadata.snapshot_ids() == [1]


class Trouble:
    """Makes the first puts of matching files fail."""

    def __init__(self, matches: str, error: Exception, times: int) -> None:
        self.matches, self.error, self.left = matches, error, times

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for verb in ("put", "put_many", "put_if_absent", "open_output"):
            plain = getattr(LocalStore, verb)

            def call(store: LocalStore, path: Any, *rest: Any, plain: Any = plain, **how: Any) -> Any:
                files = how.get("files", ()) if isinstance(path, str) else path
                paths = [*([path] if isinstance(path, str) else []), *(name for name, _ in files)]
                if any(self.matches in p for p in paths) and self.left:
                    self.left -= 1
                    raise self.error
                return plain(store, path, *rest, **how)

            monkeypatch.setattr(LocalStore, verb, call)


def disk_full() -> Exception:
    cause = OSError(errno.ENOSPC, "No space left on device")
    error = translate(cause, "/lake")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "matches", ["/ingest", "/bucket_assignment", "/bucket-", "/index/", "/manifest/", "/commit.json"]
)
@pytest.mark.parametrize("error", [UnavailableError("503 Slow Down"), disk_full()], ids=["503", "disk full"])
def test_trouble_that_passes_is_retried_within_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matches: str, error: Exception
) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", ROWS)
    trouble = Trouble(matches, error, 1)
    trouble.install(monkeypatch)
    result = d.run("a.parquet")
    assert result.success
    assert trouble.left == 0
    assert d.content() == EXPECTED


def test_trouble_that_stays_fails_the_run_with_its_kind_and_a_later_run_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", ROWS)
    trouble = Trouble("/manifest/", disk_full(), 1000)
    trouble.install(monkeypatch)
    failed = d.run("a.parquet", raise_on_error=False)
    assert not failed.success
    events = [e for e in failed.all_events if e.is_step_failure]
    said = told_kind(events[0])
    assert diagnose({str(e.step_key): said for e in events}) == "disk_full"
    assert len([e for e in failed.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]) == 1
    trouble.left = 0
    assert d.run("a.parquet").success
    assert d.content() == EXPECTED


def test_a_landing_file_that_is_none_is_not_retried(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    (d.landing / "a.parquet").write_bytes(b"no parquet")
    failed = d.run("a.parquet", raise_on_error=False)
    assert not failed.success
    assert not [e for e in failed.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert d.table.snapshot is None


def test_two_runs_started_together_end_well(tmp_path: Path, forks: Any) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", ROWS)
    d.land("b.parquet", [(p, k + 15, f"b{k}") for p, k, _ in ROWS])
    processes = [forks.Process(target=run_one, args=(str(tmp_path), key)) for key in ("a.parquet", "b.parquet")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANGS_SECONDS)
    assert [p.exitcode for p in processes] == [0, 0]
    assert set(d.content()) == {(p, k) for p, k, _ in ROWS} | {(p, k + 15) for p, k, _ in ROWS}
    assert red_checks(d.run_asset("verification")) == set()


def run_one(folder: str, key: str) -> None:
    """One run, in a process of its own."""
    assert Deployment(Path(folder)).run(key).success


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    folder = tmp_path / "wh"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(tmp_path: Path, small_disk: Path) -> None:
    """With a little more room each time, runs fail at later and later stages, until one has enough."""
    d = Deployment(tmp_path, {"retries": {"max_retries": 0}})
    d.land("a.parquet", ROWS, ["+I"] * len(ROWS))
    filler = small_disk / "filler"
    failed: list[str] = []
    for room in range(0, 400, 20):
        filler.unlink(missing_ok=True)
        free = shutil.disk_usage(small_disk).free
        filler.write_bytes(bytes(max(0, free - (room << 10))))
        result = d.run("a.parquet", raise_on_error=False)
        if result.success:
            break
        step = next(e for e in result.all_events if e.is_step_failure)
        assert told_kind(step) == "disk_full"
        failed.append(str(step.step_key).rpartition("__")[2])
    assert result.success
    assert len(set(failed)) >= 3, failed
    assert red_checks(result) == set()
    assert d.content() == EXPECTED
    assert d.table.metadata.snapshot_ids() == [1]


def test_a_run_without_a_partition_is_told_what_it_lacks_and_not_run_again(tmp_path: Path) -> None:
    """A job that is launched by its name alone was retried as an unknown error, of Dagster's code."""
    d = Deployment(tmp_path, {"retries": {"max_retries": 2, "delay_seconds": 0}})
    d.land("a.parquet", ROWS)
    result = d.run(raise_on_error=False)
    failed = [e for e in result.all_events if e.is_step_failure]
    assert [told_kind(e) for e in failed] == ["invalid_input"]
    assert "the run has no partition" in str(failed[0].step_failure_data.user_failure_data.description)  # type: ignore[union-attr]
    assert not any(e.is_step_up_for_retry for e in result.all_events)
    assert not (tmp_path / "wh").exists()
