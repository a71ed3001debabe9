"""`lakeidx changes`, `lakeidx diff` and `lakeidx tail`."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api import Table
from tests.kit.command_line import call, lines

FIELDS = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}, {"name": "n", "type": "INT"}]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.create(f"{tmp_path}/d.db/t", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    made.upsert(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"], "n": [1, 1, 1]}))
    made.upsert(pa.table({"k": [2, 3, 4], "v": ["B", "c", "d"], "n": [2, 2, 4], "_kind": ["+I", "-D", "+I"]}))
    return made


def test_a_diff_shows_rows_before_and_after(table: Table) -> None:
    assert lines("diff", table.uri, "1", "2") == [
        {"k": 2, "v": "b", "n": 1, "_rowkind": "-U"},
        {"k": 2, "v": "B", "n": 2, "_rowkind": "+U"},
        {"k": 3, "v": "c", "n": 1, "_rowkind": "-D"},
        {"k": 4, "v": "d", "n": 4, "_rowkind": "+I"},
    ]
    assert lines("diff", table.uri, "1", "2", "--keys", "--where", "k > 2") == [
        {"k": 3, "_rowkind": "-D"},
        {"k": 4, "_rowkind": "+I"},
    ]
    assert lines("diff", table.uri, "1", "2", "--stat") == [
        {"what": "new", "rows": 1},
        {"what": "changed", "rows": 1},
        {"what": "deleted", "rows": 1},
        {"what": "column v", "rows": 1},
        {"what": "column n", "rows": 1},
    ]


def test_the_name_of_the_file_decides_the_format(table: Table, tmp_path: Path) -> None:
    assert lines("diff", table.uri, "1", "2", "-o", str(tmp_path / "rows.parquet")) == []
    assert pq.read_table(tmp_path / "rows.parquet").column("_rowkind").to_pylist() == ["-U", "+U", "-D", "+I"]
    assert lines("diff", table.uri, "1", "2", "-o", str(tmp_path / "rows.arrow"), "--format", "jsonl") == []
    assert (tmp_path / "rows.arrow").read_text().count("\n") == 4
    shown = call("diff", table.uri, 1, 2, "--format", "table", "--limit", 1).stdout
    assert "b → B" in shown
    assert "and 2 more" in shown


def test_changes_of_a_range(table: Table) -> None:
    assert lines("changes", table.uri, "1..", "--columns", "k") == [
        {"k": 2, "_rowkind": "+I"},
        {"k": 3, "_rowkind": "-D"},
        {"k": 4, "_rowkind": "+I"},
    ]
    derived = lines("changes", table.uri, "..2", "--mode", "derived", "--columns", "k")
    assert [(r["k"], r["_rowkind"]) for r in derived] == [
        (1, "+I"), (2, "+I"), (3, "+I"), (2, "-U"), (2, "+U"), (3, "-D"), (4, "+I"),
    ]  # fmt: skip
    assert table.changes(1, mode="diff", columns=["k"]).to_arrow().column("_rowkind").to_pylist() == [
        "-U", "+U", "-D", "+I",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "1", "yesterday"], "'yesterday' is not a tag of the table, a snapshot id or an ISO time"),
        (["diff", "1", "9"], "snapshot 9"),
        (["diff", "2", "1"], "the first must not be greater"),
        (["diff", "1", "2", "--keys", "--columns", "v"], "give --keys or --columns, not both"),
        (["diff", "1", "branch:dev"], "branch 'dev' does not exist; branches: none"),
        (["diff", "1", "2", "--limit", "3"], "--limit applies to tables and pages, not to jsonl"),
        (["changes", "2"], "'2': write a range as A..B"),
        (["changes", "1..2", "--columns", "w"], "w"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(table: Table, arguments: list[str], message: str) -> None:
    result = call(arguments[0], table.uri, *arguments[1:], code=2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_tail_prints_each_snapshot_and_resumes_at_its_consumer(table: Table) -> None:
    assert lines("tail", table.uri, "--from", "1", "--columns", "k", "--where", "k > 2") == [
        {"k": 3, "_rowkind": "+I"},
        {"k": 3, "_rowkind": "-D"},
        {"k": 4, "_rowkind": "+I"},
    ]
    assert [r["k"] for r in lines("tail", table.uri, "--consumer", "c", "--columns", "k")] == [1, 2, 4]
    table.upsert(pa.table({"k": [4], "v": ["D"], "n": [5]}))
    assert lines("tail", table.uri, "--consumer", "c", "--mode", "derived", "--columns", "v") == [
        {"v": "d", "_rowkind": "-U"},
        {"v": "D", "_rowkind": "+U"},
    ]
    assert lines("tail", table.uri, "--consumer", "c", "--from", "1") == []
    again = lines("tail", table.uri, "--consumer", "c", "--from", "3", "--ignore-progress")
    assert again == [{"k": 4, "v": "D", "n": 5, "_rowkind": "+I"}]


def test_tail_into_another_table_commits_each_snapshot_once(table: Table, tmp_path: Path) -> None:
    other = Table.create(f"{tmp_path}/d.db/o", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    arguments = ["tail", table.uri, "--from", "1", "--consumer", "o", "--into", other.uri]
    assert [(r["snapshot"], r["snapshots"], r["already"]) for r in lines(*arguments)] == [
        (1, [1], False),
        (2, [2], False),
    ]
    assert lines(*arguments) == []
    again = [(r["snapshot"], r["snapshots"], r["already"]) for r in lines(*arguments, "--ignore-progress")]
    assert again == [(1, [1], True), (2, [2], True)]
    assert other.scan().to_arrow().equals(table.scan().to_arrow())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_tail_after_the_snapshot_it_is_at(table: Table, number: signal.Signals) -> None:
    progress = Path(table.uri) / "consumer/consumer-c"

    def interrupt() -> None:
        while not progress.exists() or '"snapshot" : 2' not in progress.read_text():
            threading.Event().wait(0.01)
        os.kill(os.getpid(), number)

    handler = signal.getsignal(number)
    sender = threading.Thread(target=interrupt, daemon=True)
    sender.start()
    printed = lines("tail", table.uri, "--from", "1", "--consumer", "c", "--follow", "--every", "60", "--columns", "k")
    sender.join()
    assert [r["k"] for r in printed] == [1, 2, 3, 2, 3, 4]
    assert signal.getsignal(number) is handler
    assert lines("tail", table.uri, "--consumer", "c") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--from", "soon"],
            "'soon': start with latest-full, latest, compacted-full, earliest, a snapshot id, a tag or",
        ),
        (["--mode", "diff"], "a stream follows commits: mode is auto, delta, changelog or derived, not diff"),
        (["--columns", "w"], "no column 'w'"),
        (["--into", "elsewhere"], "--into needs --consumer"),
        (["--consumer", "a/b"], "a consumer name must be text without '/'"),
        (["--consumer", "old"], "continue with snapshot 1, but snapshot 1 has expired; the oldest is 2. Start it anew"),
        (["--consumer", "gone"], "read up to snapshot 8, which was rolled back or replaced"),
        (["--consumer", "bad"], "nextSnapshot: expected a 64-bit integer"),
    ],
)
def test_what_cannot_be_followed_is_said_in_one_line(table: Table, arguments: list[str], message: str) -> None:
    consumers = Path(table.uri) / "consumer"
    consumers.mkdir()
    (consumers / "consumer-old").write_text('{"nextSnapshot" : 1}')
    (consumers / "consumer-gone").write_text('{"nextSnapshot" : 9}')
    (consumers / "consumer-bad").write_text("{ }")
    Path(table.paths.snapshot_path(1)).unlink()
    result = call("tail", table.uri, *arguments, code=2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert {f.name for f in consumers.iterdir()} <= {"consumer-old", "consumer-gone", "consumer-bad"}


@pytest.mark.slow
def test_a_terminal_shows_tables_of_the_first_rows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads sees a table; a program, and --json, the same lines as ever."""
    commands = (("scan", table.uri), ("changes", table.uri, "0..2"), ("tail", table.uri, "--from", "1"))
    for_programs = [call(*command).stdout for command in commands]
    # All commands ask this one place whether a program reads.
    for module in ("output", "change_commands"):
        monkeypatch.setattr(f"lakeidx.cli.{module}.for_programs", lambda as_json: as_json)

    for command in commands:
        shown = call(*command).stdout
        assert "│ B" in shown
        assert "{" not in shown
        assert "first" not in shown
    streamed = call(*commands[2]).stdout.splitlines()
    assert [line for line in streamed if "snapshot" in line] == ["snapshot 1:", "snapshot 2:"]
    assert [call(*command, "--json").stdout for command in commands] == for_programs
    assert call(*commands[0], "--format", "csv").stdout.splitlines()[0] == '"k","v","n"'
    monkeypatch.setattr("lakeidx.cli.output.SHOWN_ROWS", 2)
    monkeypatch.setattr("lakeidx.cli.read_commands.SHOWN_ROWS", 2)
    for command in commands[:2]:
        shown = call(*command).stdout
        assert "the first 2 rows; all of them come with --json" in shown
        assert shown.count("\n│ ") == 2
    # A number that is asked for is shown whole.
    assert call("scan", table.uri, "--limit", 3).stdout.count("\n│ ") == 3


def test_a_terminal_shows_in_words_what_was_copied(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeidx.cli.change_commands.for_programs", lambda as_json: as_json)
    copy = Table.create(f"{tmp_path}/d.db/copy", {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    shown = call("tail", table.uri, "--from", 1, "--consumer", "copy", "--into", copy.uri).stdout
    assert shown.splitlines() == ["snapshot 1: 3 changes applied", "snapshot 2: 3 changes applied"]
    assert sorted(copy.scan().to_arrow().column("k").to_pylist()) == [1, 2, 4]
