"""Changes of one table as batches of another, with a program that dies anywhere: nothing is lost, nothing comes twice.

The second table sums up what it is given, so a change that came twice, or never, shows in its sums.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.format.paths import TablePaths
from lakeidx.storage import open_store
from lakeidx.table.metadata import TableMetadata
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.small_tables import table_spec

LONG = "BIGINT"
ORDERS = table_spec([{"name": n, "type": LONG} for n in ("id", "customer", "amount")], ["id"], options={"bucket": "2"})
SUMS = table_spec(
    [{"name": n, "type": LONG} for n in ("customer", "amount")],
    ["customer"],
    options={
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.amount.aggregate-function": "sum",
        "snapshot.num-retained.min": "1000",
    },
)


class Killed(BaseException):
    """The process ends here."""


def tables(folder: Path) -> tuple[Table, Table]:
    return Table.create(f"{folder}/d.db/orders", ORDERS), Table.create(f"{folder}/d.db/sums", SUMS)


def order(table: Table, r: random.Random) -> None:
    """A batch of new, changed and deleted orders."""
    ids = r.sample(range(40), 10)
    table.upsert(
        pa.table({
            "id": ids,
            "customer": [i % 5 for i in ids],
            "amount": [r.randrange(1000) for _ in ids],
            "_kind": r.choices(["+I", "-D"], [4, 1], k=len(ids)),
        })
    )  # fmt: skip


def sums(table: Table) -> dict[int, int]:
    out: Counter[int] = Counter()
    for row in table.scan().to_arrow().to_pylist():
        out[row["customer"]] += row["amount"]
    return {customer: amount for customer, amount in out.items() if amount}


def faulty(table: Table) -> tuple[Table, FaultStore]:
    store = FaultStore(open_store(table.uri))
    opened = Table(store, TablePaths.of(table.uri, table.schema))
    opened.metadata = TableMetadata(store, opened.paths)
    return opened, store


@pytest.mark.slow
def test_a_pipeline_that_dies_at_every_write(tmp_path: Path) -> None:
    source, target = tables(tmp_path)
    r = random.Random(15)
    order(source, r)
    order(source, r)
    deaths, ended = 0, False
    while not ended:
        reading, at_source = faulty(source)
        writing, at_target = faulty(target)
        # Each run gets one write further than the one before it; what was done stays done, so runs get shorter, too.
        for store in (at_source, at_target):
            verbs = ("put", "put_if_absent", "close_output", "delete")
            store.fail(verbs, when=("before", "after")[deaths % 2], error=Killed, skip=deaths % 7, times=99)
        try:
            for step in reading.follow("earliest", consumer="p", mode="derived", columns=["customer", "amount"]):
                writing.upsert_changes(step)
            ended = True
        except Killed:
            deaths += 1
            if deaths in (5, 11, 17):
                order(source, r)
        assert deaths < 400
    assert deaths > 20
    assert sums(target) == sums(source)
    assert len(target.snapshots()) == len(source.snapshots())


def test_a_column_more_stops_a_pipeline_until_its_target_has_it(tmp_path: Path) -> None:
    source, _ = tables(tmp_path)
    copy = Table.create(f"{tmp_path}/d.db/copy", ORDERS)

    def run() -> list[int]:
        done = []
        for step in source.follow("earliest", consumer="p"):
            result = copy.upsert_changes(step)
            assert result is not None
            assert not result.already
            done.append(step.snapshot.id)
        return done

    order(source, random.Random(3))
    assert run() == [1]
    source.alter(add={"note": "STRING"})
    source.upsert(pa.table({"id": [100], "customer": [1], "amount": [2], "note": ["new"]}))
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="columns the table does not have: note; add them"):
            run()
    copy.alter(add={"note": "STRING"})
    assert run() == [2]
    assert copy.scan().to_arrow().sort_by("id") == source.scan().to_arrow().sort_by("id")


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program with arguments, in a process that does not outlive the block."""
    command = [sys.executable, "-m", "lakeidx.cli.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_pipeline_that_is_killed(tmp_path: Path) -> None:
    source, target = tables(tmp_path)
    r = random.Random(15)
    arguments = ["tail", source.uri, "--from", "earliest", "--follow", "--every", "0.01", "--consumer", "p"]
    arguments += ["--mode", "derived", "--columns", "customer,amount", "--into", target.uri]
    progress = Path(source.uri) / "consumer/consumer-p"

    def wait_for(snapshot: int, process: subprocess.Popen[str]) -> None:
        while not progress.exists() or f'"snapshot" : {snapshot},' not in progress.read_text():
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)

    def one_more(process: subprocess.Popen[str]) -> None:
        """Give the process something to do, and wait until it has done all there is."""
        order(source, r)
        wait_for(source.snapshots()[-1]["id"], process)

    for _ in range(4):
        with running(*arguments) as process:
            one_more(process)
            for _ in range(2):
                order(source, r)
            # Anywhere in the batches that these two become.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(r.random() * 0.3)
    with running(*arguments) as process:
        one_more(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANGS_SECONDS)
        assert (process.returncode, errors) == (0, "")
    assert sums(target) == sums(source)
    assert len(target.snapshots()) == len(source.snapshots()) == 13


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_tail(tmp_path: Path) -> None:
    source, _ = tables(tmp_path)
    order(source, random.Random(1))
    with running("tail", source.uri, "--follow", "--every", "0.01") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith('"_rowkind": "+I"}\n')
        process.stdout.close()
        order(source, random.Random(2))
        assert process.wait(HANGS_SECONDS) == 0
        assert process.stderr.read() == ""
    assert list((Path(source.uri) / "consumer").iterdir()) == []
