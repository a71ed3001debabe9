"""Commands and calls as people write them first: each works, or says in one line how it is written."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.api.reports import VerifyResult
from lakeidx.errors import InvalidInputError
from lakeidx.quality.result import RuleResult, Severity
from tests.kit.command_line import answer, call
from tests.kit.small_tables import table_spec

SPEC: dict[str, Any] = table_spec("id BIGINT, name STRING", ["id"], options={"bucket": "-1"})


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", SPEC)
    for name in ("Ada", "Bob", "Cy"):
        made.upsert([{"id": 1, "name": name}])
    return made


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (lambda t: t.delete("id in (1,2)"), "where="),
        (lambda t: t.lookup("id = 1"), "where="),
        (lambda t: t.upsert("rows.csv"), "upsert_files"),
        (lambda t: t.upsert(Path("rows.csv")), "upsert_files"),
        (lambda t: t.upsert({"id": 1, "name": "x"}), r"put it into a list, \[\{...\}\]"),
        (lambda t: t.upsert({"id": [1], "name": ["x"]}), r"pyarrow.table"),
        (lambda t: t.delete([1, 2]), r"write \{'id': 1\} for it"),
        (lambda t: t.lookup(1), r"\[\{'id': 1\}\]"),
        (lambda t: t.rollback(1, tag="a"), "name one state"),
        (
            lambda t: t.alter(set={"snapshot.num-retained.max": 5}),
            r"'snapshot.num-retained.min' = 10 \(not set: the default\) is larger than 'snapshot.num-retained.max' = 5: set",
        ),
        (lambda t: t.expire(retain_max=5), "to at most 5, too"),
    ],
)
def test_a_mistake_in_one_argument_says_the_right_form(
    table: lakeidx.Table, wrong: Callable[[lakeidx.Table], object], right: str
) -> None:
    with pytest.raises(InvalidInputError, match=right):
        wrong(table)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "Cy"}]


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["scan", "T", "id=1"], "Example: lakeidx scan lake/shop.db/orders --where"),
        (["scan", "T", "--filter", "id=1"], "Example: lakeidx scan lake/shop.db/orders --where"),
        (["delete", "T", "id in (1,2)"], "Example: lakeidx delete lake/shop.db/orders --where"),
        (["lookup", "T", "5"], "--keys"),
        (["lookup", "T", "--keys", "5"], "keys are rows of a file; of single ones write <(echo"),
        (["changes", "T"], "Example: lakeidx changes lake/shop.db/orders 0.."),
        (["diff", "T", "1..2"], "Example: lakeidx diff lake/shop.db/orders 1 2"),
        (["tag", "create", "T"], "Example: lakeidx tag create lake/shop.db/orders yesterday"),
        (["rollback", "T"], "name either a snapshot or a tag"),
        (["rollback", "T", "2", "--tag", "x"], "name one state"),
        (["load", "T", "in/a.csv", "in/b.csv"], "Example: lakeidx load lake/shop.db/orders landing --pattern"),
    ],
)
def test_a_command_that_is_written_wrong_shows_one_that_is_right(
    table: lakeidx.Table, words: list[str], right: str
) -> None:
    assert right in call(*[table.uri if w == "T" else w for w in words], code=2).stderr


def test_what_a_result_prints_it_has(table: lakeidx.Table) -> None:
    result = table.upsert([{"id": 1, "name": "D"}, {"id": 2, "name": "E"}])
    shown = {
        n: getattr(result, n) for n in ("rows", "inserts", "updates", "upserts", "deletes", "rejected", "snapshots")
    }
    assert shown == {n: tuple(v) if isinstance(v, list) else v for n, v in result.as_dict().items() if n in shown}
    assert result.rows == 2


def test_scans_and_changes_become_pandas(table: lakeidx.Table) -> None:
    assert table.scan("id = 1").to_pandas().to_dict("records") == [{"id": 1, "name": "Cy"}]
    assert list(table.changes(0).to_pandas().columns) == ["id", "name", "_rowkind"]


@pytest.mark.parametrize(("to", "newest"), [("2", 2), (1, 1), ("mark", 1)])
def test_a_rollback_takes_a_snapshot_or_a_tag(table: lakeidx.Table, to: str | int, newest: int) -> None:
    table.create_tag("mark", snapshot=1)
    if isinstance(to, int):
        table.rollback(to)
    else:
        assert answer("rollback", table.uri, to)["snapshot"] == newest
    assert table.snapshot is not None
    assert table.snapshot.id == newest


@pytest.mark.parametrize(
    ("arguments", "text", "told"),
    [
        (["lookup", "--keys"], b'{"id": 1}\n', ("name", "Cy")),
        (["keys", "--rows"], b'{"id": 1}\n', ("bucket", 0)),
        (["delete", "--dry-run", "--keys"], b'{"id": 1}\n', ("rows", 1)),
        (["upsert", "--format", "csv"], b"id,name\n1,Z\n", ("updates", 1)),
    ],
)
def test_a_pipe_is_a_file_that_is_read_once(
    table: lakeidx.Table, tmp_path: Path, arguments: list[str], text: bytes, told: tuple[str, object]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    command, *options = arguments
    given = answer(command, table.uri, *options, pipe)
    writer.join()
    assert told in given.items()


def test_changes_are_a_story_on_a_terminal_and_what_was_recorded_elsewhere(
    table: lakeidx.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = [json.loads(line)["_rowkind"] for line in call("changes", table.uri, "0..").stdout.splitlines()]
    assert recorded == ["+I", "+I", "+I"]
    monkeypatch.setattr("lakeidx.cli.output.for_programs", lambda as_json: as_json)
    told = call("changes", table.uri, "0..").stdout
    assert [word for word in told.split() if word in ("+I", "-U", "+U")] == ["+I", "-U", "+U", "-U", "+U"]
    plain = call("changes", table.uri, "0..", "--mode", "auto").stdout
    assert [word for word in plain.split() if word in ("+I", "-U", "+U")] == ["+I", "+I", "+I"]


def _rule(severity: Severity, *, passed: bool = False) -> RuleResult:
    return RuleResult(name="r", passed=passed, severity=severity, metrics={}, description="")


@pytest.mark.parametrize(
    ("rules", "code", "strict"),
    [
        ([_rule(Severity.ERROR, passed=True)], 0, 0),
        ([_rule(Severity.WARN)], 0, 1),
        ([_rule(Severity.WARN), _rule(Severity.ERROR)], 1, 1),
    ],
)
def test_a_verification_fails_from_a_severity_on(
    table: lakeidx.Table, monkeypatch: pytest.MonkeyPatch, rules: list[RuleResult], code: int, strict: int
) -> None:
    monkeypatch.setattr(lakeidx.Table, "verify", lambda *_, **__: VerifyResult(table="t", results=tuple(rules)))
    call("verify", table.uri, code=code)
    call("verify", table.uri, "--fail-on", "error", code=code)
    call("verify", table.uri, "--fail-on", "warning", code=strict)


def test_a_table_with_javas_iceberg_option_passes_the_nightly_verification(tmp_path: Path) -> None:
    options = {"bucket": "-1", "metadata.iceberg.storage": "hive-catalog"}
    made = lakeidx.Table.create(f"{tmp_path}/wh/d.db/i", {**SPEC, "options": options})
    made.upsert(pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}))
    done = call("verify", made.uri)
    assert "options_followed (warning)" in done.stderr
    call("verify", made.uri, "--fail-on", "warning", code=1)
    made.alter(set={"metadata.iceberg.storage": "table-location"})
    made.upsert(pa.table({"id": pa.array([1], pa.int64()), "name": ["y"]}))
    call("verify", made.uri, "--fail-on", "warning")
