"""A branch brought another schema under the id of an open stream's: columns of the branch were read under names of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.upsert import make_context, new_batch_id, upsert_table
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.stream.follow import ChangeFollower
from lakeidx.table.stream.position import Position
from tests.kit.shared_table.foreign import fast_forward, make_branch
from tests.kit.small_tables import branch_of, make_table, upsert


def brought(folder: Path, main: SchemaEdits, *branch: SchemaEdits) -> tuple[ChangeFollower, Position, Table]:
    """Begin a stream of the schema that `main` makes, then put a branch with a snapshot of its own schemas in its place."""
    table = make_table(folder)
    upsert(table, [(1, 1, "a")])
    create_tag(table.metadata, "one")
    make_branch(Path(table.uri), "x", "one")
    for edits in branch:
        alter_table(branch_of(table), edits)
    alter_table(table, main)
    there = Table.open(table.uri)
    stream = ChangeFollower(there.metadata, schema=there.schema)
    (first,) = stream.steps(Position(0))
    other = branch_of(table)
    values = {"INT": pa.array([7], pa.int32()), "BIGINT": pa.array([7], pa.int64()), "STRING": pa.array(["b"])}
    row = {f.name: values[str(f.type).removesuffix(" NOT NULL")] for f in other.schema.fields}
    upsert_table(make_context(other.metadata, new_batch_id()), pa.table(row))
    fast_forward(Path(table.uri), "x")
    return stream, first.position, table


def read(stream: ChangeFollower, position: Position) -> list[dict[str, Any]]:
    return [row for step in stream.steps(position) for row in step.changes.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("main", "branch", "reason"),
    [
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"z": "INT"})], "'w' has become 'z'"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"w": "STRING"})], "'w' is STRING instead of INT"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(comment="other")], "'w' is dropped"),
        (SchemaEdits(add={"w": "INT"}), [], "'w' is dropped"),
        (SchemaEdits(add={"w": "INT"}), [SchemaEdits(add={"z": "INT"}), SchemaEdits(comment="more")], "'w' has become 'z'"),
    ],
)  # fmt: skip
def test_columns_that_the_branch_does_not_have_stop_the_stream(
    tmp_path: Path, main: SchemaEdits, branch: list[SchemaEdits], reason: str
) -> None:
    stream, position, table = brought(tmp_path, main, *branch)
    with pytest.raises(InvalidInputError, match=reason + r".*load the stream again; it resumes at its position"):
        read(stream, position)
    again = Table.open(table.uri)
    assert [r["p"] for r in read(ChangeFollower(again.metadata, schema=again.schema), position)] == [7]


def test_columns_that_both_have_are_read_on(tmp_path: Path) -> None:
    edits = SchemaEdits(add={"w": "INT"}, comment="table")
    stream, position, _ = brought(tmp_path, edits, SchemaEdits(add={"w": "INT"}, comment="branch"))
    assert read(stream, position) == [{"p": 7, "k": 7, "v": "b", "w": 7, "_rowkind": "+I"}]


def test_columns_that_are_not_read_may_be_others(tmp_path: Path) -> None:
    stream, position, _ = brought(tmp_path, SchemaEdits(add={"w": "INT"}), SchemaEdits(add={"z": "INT"}))
    some = ChangeFollower(stream.metadata, ("k", "v"), schema=stream.schema)
    assert read(some, position) == [{"k": 7, "v": "b", "_rowkind": "+I"}]
