"""Streams against a plain dictionary: the changes of any stream, applied in order, give the table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.stream.follow import ChangeFollower
from lakeidx.table.stream.position import Position
from lakeidx.tasks.runner import LocalRunner

FIELDS = [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
VECTORS = {"deletion-vectors.enabled": "true"}
State = dict[int, str | None]


def make(folder: Path, options: dict[str, str] | None = None, name: str = "t") -> Table:
    spec = {"fields": FIELDS, "primaryKeys": ["k"], "options": {"bucket": "1", **(options or {})}}
    return Table.create(f"{folder}/d.db/{name}", spec)


def write(table: Table, rows: dict[int, str | None], deleted: list[int] | None = None) -> None:
    kinds = ["+I"] * len(rows) + ["-D"] * len(deleted or [])
    keys = [*rows, *(deleted or [])]
    values = [*rows.values(), *([None] * len(deleted or []))]
    table.upsert(pa.table({"k": keys, "v": pa.array(values, pa.string()), "_kind": kinds}))


def apply(state: State, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["_rowkind"] in ("-D", "-U"):
            state.pop(row["k"], None)
        else:
            state[row["k"]] = row["v"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "auto"),
        ({}, "derived"),
        (VECTORS, "auto"),
        (VECTORS, "derived"),
        ({"changelog-producer": "input"}, "auto"),
        ({"changelog-producer": "lookup"}, "auto"),
        ({"changelog-producer": "lookup", **VECTORS}, "auto"),
        ({"changelog-producer": "full-compaction"}, "auto"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value) or "none",
)
def test_every_stream_ends_with_the_table(tmp_path: Path, options: dict[str, str], mode: str) -> None:
    r = random.Random(f"{options}{mode}")
    table = make(tmp_path, options)
    model: State = {}
    streams: dict[str, State] = {}
    for number in range(5):
        rows = {k: r.choice((None, "a", "b")) for k in r.sample(range(20), 6)}
        deleted = r.sample(sorted(set(range(20)) - set(rows)), 3)
        write(table, rows, deleted)
        apply(model, [{"k": k, "v": v, "_rowkind": "+I"} for k, v in rows.items()])
        apply(model, [{"k": k, "v": None, "_rowkind": "-D"} for k in deleted])
        last = number == 4
        if last or r.random() < 0.4:
            run_compaction(table.metadata, LocalRunner(1), full=last or r.random() < 0.5)
        # What a consumer keeps is there for it alone: who begins with the oldest commit later on begins anywhere.
        start = r.choice(("latest-full", "compacted-full")) if number else "earliest"
        streams[f"{start} of {number}"] = {}
        for name, state in streams.items():
            if last or name.endswith(f" {number}") or r.random() < 0.5:
                for step in table.follow(name.split()[0], consumer=name, mode=mode):
                    apply(state, step.changes.to_arrow().to_pylist())
        # All that no stream needs goes.
        table.expire(retain_max=1, retain_min=1)
    assert streams == dict.fromkeys(streams, model)


def test_a_step_that_was_not_finished_comes_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    for k in range(3):
        write(table, {k: "a"})

    def keys(**options: Any) -> list[int]:
        return [k for s in table.follow(consumer="c", **options) for k in s.changes.to_arrow()["k"].to_pylist()]

    for step in table.follow("earliest", consumer="c"):
        if step.snapshot.id == 2:
            break
    first = step.batch_id
    comes_again = [s.batch_id for s in table.follow(consumer="c")]
    assert comes_again[0] == first
    assert keys() == []
    write(table, {7: "a"})
    assert keys(columns=["k"], where="k = 9") == []
    assert keys(start="2", ignore_progress=True, columns=["k"]) == [1, 2, 7]


def test_a_snapshot_that_a_stream_compares_with_is_named_once_it_has_expired(tmp_path: Path) -> None:
    table = make(tmp_path)
    for k in range(4):
        write(table, {k: "a"})
    states = ChangeFollower(table.metadata, mode=IncrementalMode.DERIVED)
    for number in (1, 2):
        Path(table.paths.snapshot_path(number)).unlink()
    Path(table.paths.earliest).unlink(missing_ok=True)
    with pytest.raises(NotFoundError, match=r"snapshot 2 \(mode derived compares with it\) has expired"):
        next(states.steps(Position(2)))


def test_changelogs_that_outlive_their_snapshots_are_read(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "changelog.num-retained.min": "5", "changelog.num-retained.max": "9"}
    table = make(tmp_path, {**options, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for k in range(4):
        write(table, {k: "a"})
    assert table.expire().snapshots == (1, 2, 3)
    found = {s.snapshot.id: s.changes.to_arrow()["k"].to_pylist() for s in table.follow("2")}
    assert found == {2: [1], 3: [2], 4: [3]}
    assert table.changes(0).to_arrow()["k"].to_pylist() == [0, 1, 2, 3]


def test_schemas_that_change_under_a_stream(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, {1: "a"})
    began = ChangeFollower(table.metadata, schema=table.schema)
    newest = ChangeFollower(table.metadata)
    table.alter(add={"n": "INT"}, rename={"v": "w"})
    table.upsert(pa.table({"k": [2], "w": ["b"], "n": pa.array([5], pa.int32())}))

    def rows(follower: ChangeFollower, position: Position) -> list[Any]:
        return [s.changes.to_arrow().to_pylist() for s in follower.steps(position)]

    assert rows(began, Position(1)) == [[{"k": 2, "v": "b", "_rowkind": "+I"}]]
    assert rows(newest, Position(1)) == [[{"k": 2, "w": "b", "n": 5, "_rowkind": "+I"}]]
    later = ChangeFollower(table.metadata, schema=table.schema)
    assert rows(later, Position(0))[0] == [{"k": 1, "w": "a", "n": None, "_rowkind": "+I"}]
    table.alter(drop=["w"])
    write_n = pa.table({"k": [3], "n": pa.array([6], pa.int32())})
    table.upsert(write_n)
    with pytest.raises(InvalidInputError, match="column 'v' is dropped since schema 2: load the stream again"):
        rows(began, Position(2))
    assert rows(ChangeFollower(table.metadata, ("k",), schema=began.schema), Position(2)) == [
        [{"k": 3, "_rowkind": "+I"}]
    ]
    assert rows(newest, Position(2)) == [[{"k": 3, "n": 6, "_rowkind": "+I"}]]


def test_the_state_a_stream_begins_with_has_no_deletes(tmp_path: Path) -> None:
    """Those of deleted rows are still stored; a reader that sums up would take away what it was never given."""
    table = make(tmp_path)
    write(table, {1: "a", 2: "b"})
    write(table, {2: "c"}, [1])
    steps = [s.changes.to_arrow().to_pylist() for s in table.follow()]
    assert steps == [[{"k": 2, "v": "c", "_rowkind": "+I"}]]


def test_commits_before_a_changelog_producer_are_said_to_be_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path)
    write(table, {1: "a"})
    write(table, {2: "a"})
    table.alter(set={"changelog-producer": "input"})
    write(table, {3: "a"})
    assert table.changes(0).to_arrow()["k"].to_pylist() == [3]
    said = [m for r in caplog.records if "came before the table had a changelog producer" in (m := r.getMessage())]
    assert said == [
        f"{table.uri}: snapshots from 1 to 2 came before the table had a changelog producer; only modes delta and derived return "
        "their rows"
    ]
    caplog.clear()
    assert table.changes(0, mode="delta").to_arrow()["k"].to_pylist() == [1, 2, 3]
    assert table.changes(2).to_arrow()["k"].to_pylist() == [3]
    assert not caplog.records


def test_an_overwrite_is_said_to_be_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path)
    write(table, {1: "a"})
    table.overwrite(pa.table({"k": [2], "v": ["b"]}), whole_table=True)
    assert [s.changes.to_arrow().num_rows for s in table.follow("1")] == [1, 0]
    said = [m for r in caplog.records if "overwrite, whose rows" in (m := r.getMessage())]
    assert said == [f"{table.uri}: snapshot 2 is an overwrite, whose rows only mode derived returns"]
    derived = list(table.follow("2", mode="derived"))
    assert [r["_rowkind"] for r in derived[0].changes.to_arrow().to_pylist()] == ["-D", "+I"]
    assert len(caplog.records) == len(said)
