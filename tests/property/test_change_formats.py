"""Changes of a random database, in the words of every change capture tool, leave the table as the database is."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tests.kit.change_messages as messages
from lakeidx.api.table import Table
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.cdc.connect_schema import split_runs
from lakeidx.landing.cdc.envelopes import ENVELOPES
from lakeidx.landing.cdc.events import read_events
from lakeidx.landing.cdc.reader import make_piece, read_events_by_line
from lakeidx.landing.cdc.target import make_target
from lakeidx.landing.types import LandingOptions
from lakeidx.quality.changelog_agrees import check_changelog_agrees
from tests.kit.change_messages import Change
from tests.kit.source_database import CREATED, FIELDS, SourceDatabase

Encoder = Callable[[list[Change]], list[str]]
FORMATS: list[tuple[str, str, Encoder, str]] = [
    ("debezium", "source.lsn", messages.debezium, ".json"),
    ("debezium", "transaction.total_order", partial(messages.debezium, schema=True), ".json"),
    ("canal", "id", messages.canal, ".json"),
    ("maxwell", "xoffset", messages.maxwell, ".json"),
    ("ogg", "pos", messages.ogg, ".json"),
    ("dms-json", "metadata.transaction-id", messages.dms_json, ".json"),
    ("dms", "transact_id", messages.dms_csv, ".csv"),
]
IDS = ["debezium", "debezium-schema", *(f[0] for f in FORMATS[2:])]
SPEC: dict[str, Any] = {"fields": [*FIELDS, {"name": "seq", "type": "BIGINT"}], "primaryKeys": ["id"]}


def make_table(folder: Path, **options: str) -> Table:
    return Table.create(
        f"{folder}/wh/d.db/t", {**SPEC, "options": {"bucket": "-1", "sequence.field": "seq", **options}}
    )


def content(table: Table) -> dict[int, dict[str, Any]]:
    rows = table.scan(columns=[f["name"] for f in FIELDS]).to_arrow().to_pylist()
    found = {r["id"]: r for r in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


@pytest.mark.parametrize(("name", "order", "encode", "ending"), FORMATS, ids=IDS)
def test_the_table_is_as_the_database(tmp_path: Path, name: str, order: str, encode: Encoder, ending: str) -> None:
    """Files are cut anywhere, and each may come once more, after later ones; its changes are known by their order then."""
    database = SourceDatabase(len(name) * 31 + len(order))
    database.run(60)
    rows = database.rows
    if ending == ".csv":
        # An empty field is null, which a CSV file cannot tell from an empty text.
        rows = {k: {**r, "name": r["name"] or None} for k, r in rows.items()}
    some = random.Random(7)
    cuts = sorted(some.sample(range(1, len(database.changes)), 3))
    pieces = [database.changes[a:b] for a, b in zip([0, *cuts], [*cuts, len(database.changes)], strict=True)]
    table = make_table(tmp_path)
    options = LandingOptions(name, order=(order,))
    for number, piece in enumerate([*pieces, pieces[1], pieces[-1]]):
        file = tmp_path / f"f{number}{ending}"
        file.write_text("\n".join(encode([CREATED, *piece])) + "\n", encoding="utf-8")
        result = table.upsert_files([str(file)], options, strict=True)
        if number == 3 and ending != ".csv":
            assert result.ingest.newest_change_ms == database.changes[-1].ms
    assert content(table) == rows


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize(("name", "order", "encode"), [f[:3] for f in FORMATS[:-1]], ids=IDS[:-1])
def test_lines_one_by_one_give_the_same_rows(
    tmp_path: Path, name: str, order: str, encode: Encoder, producer: str
) -> None:
    database = SourceDatabase(99)
    database.run(40)
    table = make_table(tmp_path, **{"changelog-producer": producer})
    target = make_target(table.schema, LandingOptions(name, order=(order,)), "f")
    lines = [text for text in encode(database.changes) if text != "null"]
    if producer == "input":
        # A null in a list of what changed has to be read line by line in any case.
        lines = [
            t for t in lines if all(m not in t or "null" not in t.split(m)[1] for m in ('"old"', '"before-image"'))
        ]
    found = []
    for run in split_runs("\n".join(lines).encode() + b"\n"):
        for read in (read_events, read_events_by_line):
            events = read(run, 1, ENVELOPES[name], target)
            assert events is not None, "nothing here needs the slow way"
            piece = make_piece(events, run, 1, ENVELOPES[name], target, table.schema.fields_by_name)
            kept, rejected = cast_piece(piece, table.schema.fields, "f")
            assert rejected.num_rows == 0, rejected.to_pylist()[:2]
            lines_of_rows = [] if piece.lines is None else [int(n) for n in piece.lines]
            found.append((kept.to_pylist(), lines_of_rows, events.newest, dict(events.skipped)))
    assert found[0] == found[1]
    assert len(found[0][0]) >= len(lines) // 2


def test_the_changelog_of_an_input_producer_leads_to_the_table(tmp_path: Path) -> None:
    """Rows before updates come in, too, and a key may change many times in a batch."""
    database = SourceDatabase(5)
    database.run(40)
    spec = {"fields": FIELDS, "primaryKeys": ["id"], "options": {"bucket": "2", "changelog-producer": "input"}}
    table = Table.create(f"{tmp_path}/wh/d.db/t", spec)
    lines = messages.maxwell(database.changes)
    for start in range(0, len(lines), 30):
        file = tmp_path / f"{start}.json"
        file.write_text("\n".join(lines[start : start + 30]), encoding="utf-8")
        table.upsert_files([str(file)], LandingOptions("maxwell"), strict=True)
    assert content(table) == database.rows
    changes = table.changes(0).to_arrow().column("_rowkind").to_pylist()
    moved = [c for c in database.changes if c.before and c.after and c.before["id"] != c.after["id"]]
    updates = sum(c.op == "u" for c in database.changes) - len(moved)
    assert (changes.count("-U"), changes.count("+U")) == (updates, updates)
    assert changes.count("-D") == len(moved) + sum(c.op == "d" for c in database.changes)
    assert check_changelog_agrees(table).passed


def test_messages_in_any_order_come_to_the_same(tmp_path: Path) -> None:
    """All of them shuffled, over files and within: time of the transaction and place in it say which row of a key is the newest."""
    database = SourceDatabase(3)
    database.run(40)
    spec = {**SPEC, "fields": [*SPEC["fields"], {"name": "place", "type": "BIGINT"}]}
    table = Table.create(f"{tmp_path}/wh/d.db/t", {**spec, "options": {"bucket": "-1", "sequence.field": "seq,place"}})
    lines = messages.debezium(database.changes, schema=True)
    random.Random(1).shuffle(lines)
    options = LandingOptions("debezium", order=("source.ts_ms", "transaction.total_order"))
    for start in range(0, len(lines), 40):
        file = tmp_path / f"{start}.json"
        file.write_text("\n".join(lines[start : start + 40]) + "\n", encoding="utf-8")
        table.upsert_files([str(file)], options, strict=True)
    assert content(table) == database.rows
