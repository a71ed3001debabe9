"""A -D or -U in a table whose merge engine does not take it was committed, and its key could not be read any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing.types import LandingOptions
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.spark.read_options import ReadOptions
from lakeidx.spark.table_writer import TableWriter
from tests.kit.untaken_cases import CASES, FIRST_ROW, PARTIAL, ROW, Case, folded, table_of

Row = dict[str, Any]
Door = Callable[[lakeidx.Table, Path, list[Row], str], Any]
OTHER: Row = {"id": 7, "a": "y", "n": 1, "p": 1}
TYPES = {"id": pa.int32(), "a": pa.string(), "n": pa.int32(), "p": pa.int32(), "_kind": pa.string()}


def make(folder: Path, case: Case) -> lakeidx.Table:
    table = lakeidx.Table.create(f"{folder}/d.db/t", table_of(case))
    table.upsert([{**ROW, **case.row}, OTHER])
    return table


def by_files(table: lakeidx.Table, folder: Path, rows: list[Row], on_delete: str) -> Any:
    file = folder / "f.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    result = table.upsert_files([str(file)], LandingOptions(on_delete=on_delete))
    if result.ingest.rows_rejected:
        raise InvalidInputError(read_rejected(table.store, str(result.ingest.rejected_path))["reason"][0].as_py())
    return result


def by_list(table: lakeidx.Table, folder: Path, rows: list[Row], on_delete: str) -> Any:
    return table.upsert(rows, on_delete=on_delete)


def by_spark(table: lakeidx.Table, folder: Path, rows: list[Row], on_delete: str) -> Any:
    frame = pa.table({n: pa.array([r[n] for r in rows], t) for n, t in TYPES.items()})
    writer = TableWriter(ReadOptions.parse({"path": table.uri, "on-delete": on_delete}), frame.schema, overwrite=False)
    from lakeidx.tasks.runner import LocalRunner

    return writer.finish([writer.write(iter(frame.to_batches()))], LocalRunner(1))


DOORS = {"files": by_files, "list": by_list, "spark": by_spark}


def rows_of(table: lakeidx.Table) -> list[Row]:
    """All rows, read and compacted, which fails for a key that cannot be merged."""
    fresh = lakeidx.Table.open(table.uri)
    fresh.scan().to_arrow()
    fresh.compact(full=True)
    assert fresh.verify().passed
    found: list[Row] = lakeidx.Table.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("door", ["files", "list"])
def test_what_the_engine_does_not_take_is_rejected_and_the_rest_is_written(
    tmp_path: Path, name: str, kind: str, door: str
) -> None:
    case = CASES[name]
    table = make(tmp_path, case)
    before = rows_of(table)
    rows = [{**OTHER, "id": 8, "_kind": "+I"}, {**ROW, **case.row, "_kind": kind}]
    if kind in case.refused:
        with pytest.raises(InvalidInputError, match=f"kind: {kind}: ") as refused:
            DOORS[door](table, tmp_path, rows, "apply")
        assert "\n" not in str(refused.value)
        assert rows_of(table) == before + ([{**OTHER, "id": 8}] if door == "files" else [])
        return
    DOORS[door](table, tmp_path, rows, "apply")
    assert [r["id"] for r in rows_of(table) if r["id"] > 1] == [7, 8]


@pytest.mark.parametrize("door", DOORS)
def test_words_for_deletes_are_the_same_at_every_door(tmp_path: Path, door: str) -> None:
    rows: list[Row] = [{**ROW, "_kind": "-U"}, {**ROW, "n": 5, "_kind": "+U"}, {**OTHER, "_kind": "-D"}]
    for options, action, left in (
        ({}, "apply", [{**ROW, "n": 5}]),
        ({}, "ignore", [{**ROW, "n": 5}, OTHER]),
        ({}, "remove", [{**ROW, "n": 5}]),
        ({}, "-D=ignore", [{**ROW, "n": 5}, OTHER]),
        (PARTIAL, "ignore", [{**ROW, "n": 5}, OTHER]),
        (FIRST_ROW, "-U=ignore,-D=ignore", [dict(ROW), OTHER]),
        ({**PARTIAL, "partial-update.remove-record-on-delete": "true"}, "remove", [{**ROW, "n": 5}]),
        (folded("max", **{"aggregation.remove-record-on-delete": "true"}), "-D=remove,-U=ignore", [{**ROW, "n": 5}]),
    ):
        table = make(tmp_path / f"{len(list(tmp_path.iterdir()))}", Case(options))
        result = DOORS[door](table, tmp_path, rows, action)
        assert rows_of(table) == left
        ignored = {"ignore": 2, "-D=ignore": 1, "-U=ignore,-D=ignore": 2, "-D=remove,-U=ignore": 1}.get(action, 0)
        assert (result.ingest.rows_ignored, result.as_dict()["ignored"]) == (ignored, ignored)
    with pytest.raises(InvalidInputError, match=r"kind: rows of kind -U are rejected \(on_delete\)"):
        DOORS[door](table, tmp_path, rows, "reject")
    for wrong in ("drop", "-U=remove", "+I=ignore", "-D"):
        with pytest.raises(InvalidInputError, match="on_delete is one of apply, reject, ignore, remove"):
            DOORS[door](table, tmp_path, rows, wrong)


def test_a_batch_of_ignored_rows_alone_does_nothing_and_comes_again(tmp_path: Path) -> None:
    table = make(tmp_path, Case(PARTIAL))
    deletes = [{**ROW, "_kind": "-D"}]
    for again in (False, True):
        result = table.upsert(deletes, on_delete="ignore", batch_id="b")
        assert (result.already, result.ingest.rows_ignored) == (again, 1)
    assert rows_of(table) == [dict(ROW), OTHER]
    with pytest.raises(InvalidInputError, match="kind: -D: merge engine partial-update does not accept rows"):
        table.upsert(deletes)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (PARTIAL, "with option 'partial-update.remove-record-on-delete' = true alone, to be set before the first rows"),
        (folded("sum"), "'aggregation.remove-record-on-delete' = true alone"),
        (FIRST_ROW, "first-row keeps the first row"),
        ({"ignore-delete": "true"}, "lets deletes change nothing"),
    ],
)
def test_a_table_that_does_not_remove_rows_says_so_at_once(tmp_path: Path, options: dict[str, str], why: str) -> None:
    table = make(tmp_path, Case(options))
    for door in DOORS.values():
        with pytest.raises(InvalidInputError, match=f"on_delete = remove: .*{why}"):
            door(table, tmp_path, [{**OTHER, "_kind": "+I"}], "remove")


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_kinds_in_a_column_of_the_table(tmp_path: Path, kind: str) -> None:
    """Also of a Parquet file that would be staged as it is."""
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", table_of(Case({**PARTIAL, "rowkind.field": "a"})))
    table.upsert([{**ROW, "a": "+I"}, {**OTHER, "a": "+I"}])
    file = tmp_path / "f.parquet"
    rows = [{**ROW, "a": kind}, {**ROW, "id": 5, "a": "+u"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema), file)
    result = table.upsert_files([str(file)])
    assert result.ingest.rows_rejected == 1
    assert [r["id"] for r in rows_of(table)] == [1, 5, 7]
    assert table.upsert_files([str(file)], LandingOptions(on_delete="ignore")).ingest.rows_ignored == 1


def test_messages_of_a_database(tmp_path: Path) -> None:
    """A delete into a table that does not take it; a change of key is rejected with its delete, or without it applied."""
    table = make(tmp_path, Case(PARTIAL))
    messages = [
        {"op": "u", "before": dict(ROW), "after": {**ROW, "id": 4}},
        {"op": "d", "before": dict(OTHER), "after": None},
        {"op": "c", "before": None, "after": {**OTHER, "id": 9}},
    ]
    file = tmp_path / "f.json"
    file.write_text("".join(json.dumps(m) + "\n" for m in messages))
    command = ["upsert", table.uri, str(file), "--format", "debezium"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "line 2: kind: -D: merge engine partial-update does not accept rows of kind -U or -D" in done.stderr
    assert [r["id"] for r in rows_of(table)] == [1, 7, 9]
    assert CliRunner().invoke(app, [*command, "--on-delete", "ignore"]).exit_code == 0
    assert [r["id"] for r in rows_of(table)] == [1, 4, 7, 9]
    refused = CliRunner().invoke(app, [*command, "--on-delete", "-D=reject", "--on-delete", "-U=ignore", "--strict"])
    assert refused.exit_code == 1
    assert "rows of kind -D are rejected (on_delete)" in refused.stderr


def test_a_copy_that_does_not_take_deletes(tmp_path: Path) -> None:
    source = make(tmp_path / "a", Case({}))
    source.delete(where="id = 7")
    copy = lakeidx.Table.create(f"{tmp_path}/b/d.db/t", table_of(Case(PARTIAL)))
    command = ["tail", source.uri, "--into", copy.uri, "--consumer", "c", "--from", "earliest"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "kind: -D: merge engine partial-update" in refused.output
    assert CliRunner().invoke(app, [*command, "--on-delete", "ignore"]).exit_code == 0
    assert [r["id"] for r in rows_of(copy)] == [1, 7]
    assert "--on-delete is for --into" in CliRunner().invoke(app, ["tail", source.uri, "--on-delete", "ignore"]).output


PIPELINE = """
table: shop.t
warehouse: {0}/lake
landing: {{ path: {0}/landing, on_delete: {1} }}
fields: [{{ name: id, type: INT }}, {{ name: n, type: INT }}]
primaryKeys: [id]
options: {{ bucket: 1, merge-engine: {2} }}
"""


def test_pipeline_files(tmp_path: Path) -> None:
    """With remove the table gets the option by which it removes rows."""
    config = parse_pipeline(PIPELINE.format(tmp_path, "{-D: remove, -U: ignore}", "partial-update"), path="p.yaml")
    table = lakeidx.Table.create(config.uri, config.spec())
    table.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    file = tmp_path / "f.jsonl"
    file.write_text('{"id": 1, "n": 1, "_kind": "-D"}\n{"id": 2, "n": 2, "_kind": "-U"}\n')
    result = table.upsert_files([str(file)], config.landing_options())
    assert (result.ingest.rows_rejected, result.ingest.rows_ignored) == (0, 1)
    assert rows_of(table) == [{"id": 2, "n": 2}]
    for word, engine, why in (
        ("remove", "first-row", "first-row keeps the first row"),
        ("drop", "deduplicate", "on_delete"),
        ("{-U: remove}", "deduplicate", "only -D removes"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            parse_pipeline(PIPELINE.format(tmp_path, word, engine), path="p.yaml")


def test_append_tables_have_nothing_to_take_away(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "INT"}]
    table = lakeidx.Table.create(f"{tmp_path}/d.db/t", {"fields": fields, "options": {"bucket": "-1"}})
    file = tmp_path / "f.jsonl"
    file.write_text('{"id": 1}\n{"id": 1, "_kind": "-D"}\n')
    assert table.upsert_files([str(file)]).ingest.reject_reasons == {"kind": 1}
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]
    file.write_text('{"id": 1, "_kind": "-D"}\n')
    with pytest.raises(RejectedRowsError, match="kind: -D: an append table has no keys"):
        table.upsert_files([str(file)])
