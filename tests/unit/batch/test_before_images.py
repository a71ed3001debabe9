"""Rows before changes that are not those of the table: which lines go, with what reason, and that no other does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.kit.change_messages as messages
from lakeidx.api.table import Table
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import InvalidInputError, RejectedRowsError
from lakeidx.landing.types import LandingOptions
from tests.kit.change_messages import Change
from tests.kit.command_line import call
from tests.kit.source_database import FIELDS, SourceDatabase

Row = dict[str, Any]


def make_table(folder: Path, **options: str) -> Table:
    fields = [*FIELDS, {"name": "seq", "type": "BIGINT"}]
    spec = {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "-1", **options}}
    return Table.create(f"{folder}/wh/d.db/t", spec)


def put(table: Table, folder: Path, files: list[list[str]], options: LandingOptions) -> list[tuple[str, int, str]]:
    """Upsert files of lines as one batch; (file, line, reason) of what was rejected."""
    paths = []
    for lines in files:
        paths.append(folder / f"f{len(list(folder.glob('f*'))):02}.json")
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = table.upsert_files([str(p) for p in paths], options)
    if result.ingest.rejected_path is None:
        return []
    found = read_rejected(table.store, result.ingest.rejected_path).to_pylist()
    return list(dict.fromkeys((Path(r["source"]).name, r["line"], r["reason"]) for r in found))


def maxwell(kind: str, data: Row, old: Row | None = None) -> str:
    return json.dumps({"type": kind, "ts": 1, "data": data, **({} if old is None else {"old": old})})


def test_each_contradiction_is_one_rejected_line(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    checked = LandingOptions("maxwell", check_before=1, missing="null")
    put(table, tmp_path, [[maxwell("insert", {"id": k, "name": f"n{k}", "price": "1.50"}) for k in range(4)]], checked)
    first = [
        maxwell("update", {"id": 0, "name": "a", "price": "2"}, {"price": "1.5"}),
        maxwell("update", {"id": 1, "name": "n1", "price": "3"}, {"price": "9"}),
        maxwell("update", {"id": 2, "name": "c", "price": "1.50"}, {"name": "other"}),
        maxwell("delete", {"id": 3, "name": "n3", "price": "1.50"}),
        maxwell("delete", {"id": 3, "name": "n3", "price": "1.50"}),
    ]
    second = [
        # The row before this change came in a file of the same batch.
        maxwell("update", {"id": 0, "name": "b", "price": "2"}, {"name": "a"}),
        maxwell("update", {"id": 7, "name": "b"}, {"id": 8}),
        "no message",
    ]
    assert put(table, tmp_path, [first, second], checked) == [
        ("f01.json", 2, "before: column price of the row id='1' is '9.00' before the change, but the table has '1.50'"),
        ("f01.json", 3, "before: column name of the row id='2' is 'other' before the change, but the table has 'n2'"),
        ("f01.json", 5, "before: the message changes the row id='3', which the table does not have"),
        ("f02.json", 2, "before: the message changes the row id='8', which the table does not have"),
        ("f02.json", 3, "format: not JSON: Expecting value: line 1 column 1 (char 0)"),
    ]
    rows = {r["id"]: (r["name"], str(r["price"])) for r in table.scan().to_arrow().to_pylist()}
    assert rows == {0: ("b", "2.00"), 1: ("n1", "1.50"), 2: ("n2", "1.50")}
    with pytest.raises(RejectedRowsError, match="line 1: before: column name of the row id='2'"):
        table.upsert_files([_file(tmp_path, first[2])], checked, strict=True)


def test_the_command_says_it_once_per_line(tmp_path: Path) -> None:
    """Where the input is the changelog, an update is two rows."""
    table = make_table(tmp_path, **{"changelog-producer": "input"})
    put(table, tmp_path, [[maxwell("insert", {"id": 1, "name": "a"})]], LandingOptions("maxwell", missing="null"))
    lines = [maxwell("update", {"id": 1, "name": "b"}, {"name": "x"}), maxwell("insert", {"id": 2, "name": "b"})]
    file, options = _file(tmp_path, "\n".join(lines)), ("--format", "maxwell", "--check-before", 1, "--missing", "null")
    result = call("upsert", table.uri, file, *options)
    said = [line for line in result.stderr.splitlines() if " line 1: before: column name of the row id='1'" in line]
    assert len(said) == 1
    assert "2 rows rejected" in result.stderr


def _file(folder: Path, line: str) -> str:
    (folder / "one.json").write_text(line + "\n")
    return str(folder / "one.json")


def test_a_key_alone_contradicts_nothing(tmp_path: Path) -> None:
    """So come deletes of PostgreSQL tables without REPLICA IDENTITY FULL; and values that the source did not send."""
    table = make_table(tmp_path)
    checked = LandingOptions("debezium", check_before=1, missing="null")
    rows = [{"id": k, "name": "a", "flag": True} for k in range(2)]
    put(table, tmp_path, [[json.dumps({"op": "c", "after": r}) for r in rows]], checked)
    hidden = {"id": 1, "name": "__debezium_unavailable_value", "flag": True}
    lines = [
        {"op": "d", "before": {"id": 0, "name": None, "flag": None}},
        {"op": "u", "before": hidden, "after": {"id": 1, "name": "b", "flag": False}},
    ]
    assert put(table, tmp_path, [[json.dumps(m) for m in lines]], checked) == []
    assert [r["name"] for r in table.scan().to_arrow().to_pylist()] == ["b"]


@pytest.mark.parametrize(
    ("options", "landing", "message"),
    [
        ({}, {"format": "jsonl", "check_before": 1}, "landing files of jsonl have none; use one of canal, debezium"),
        ({}, {"format": "dms", "check_before": 1}, "landing files of dms have none"),
        ({}, {"format": "canal", "check_before": 1.5}, "between 0 and 1, not 1.5"),
        ({"merge-engine": "aggregation"}, {"format": "canal", "check_before": 1}, "takes merge-engine=deduplicate"),
        ({"ignore-delete": "true"}, {"format": "canal", "check_before": 1}, "without ignore-delete"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    tmp_path: Path, options: dict[str, str], landing: dict[str, Any], message: str
) -> None:
    table = make_table(tmp_path, **options)
    with pytest.raises(InvalidInputError, match=message):
        table.upsert_files([_file(tmp_path, "{}")], LandingOptions(**landing))


def _wrong(change: Change, some: random.Random) -> Change:
    """A change whose row before says another name and time than the database had."""
    assert change.before is not None
    at = change.before["at"].replace(year=1950 + some.randrange(9))
    return replace(change, before={**change.before, "name": f"wrong{some.random()}", "at": at})


def _expected(changes: list[Change], *, ordered: bool, partial: bool) -> set[int]:
    """Places of the changes that contradict what is there when they come, one after another: the scalar twin.

    partial   a message has only those values of the row before an update that the update changes
    """
    there: dict[int, tuple[int, Row | None]] = {}
    out = set()
    for place, c in enumerate(changes):
        puts: list[tuple[int, Row | None]] = [] if c.after is None else [(c.after["id"], c.after)]
        if c.before is not None:
            order, row = there.get(c.before["id"], (-1, None))
            told = {n: v for n, v in c.before.items() if not (partial and c.after is not None and v == c.after[n])}
            if not (ordered and c.number <= order) and (
                row is None or any(v is not None and v != row[n] for n, v in told.items())
            ):
                out.add(place)
                continue
            if c.after is None or c.after["id"] != c.before["id"]:
                puts.insert(0, (c.before["id"], None))
        for key, new in puts:
            if not ordered or c.number >= there.get(key, (-1, None))[0]:
                there[key] = (c.number, new)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("name", "order", "encode"),
    [
        ("debezium", "source.lsn", messages.debezium),
        ("maxwell", "xoffset", messages.maxwell),
        ("ogg", "pos", messages.ogg),
    ],
)
def test_random_streams_lose_exactly_the_lines_that_contradict(
    tmp_path: Path, name: str, order: str, encode: Callable[[list[Change]], list[str]], ordered: bool
) -> None:
    """In batches of several files; with an order some changes come again, late, and are no contradiction."""
    some = random.Random(len(name) + ordered)
    database = SourceDatabase(len(name))
    database.run(50)
    changes = []
    for c in database.changes:
        changes.append(_wrong(c, some) if c.before is not None and some.random() < 0.1 else c)
        if ordered and some.random() < 0.1:
            changes.append(some.choice(changes))
    table = make_table(tmp_path, **({"sequence.field": "seq"} if ordered else {}))
    options = LandingOptions(name, order=(order,) if ordered else (), check_before=1, missing="null")
    # A delete by Debezium has a tombstone after it; messages are one line each here.
    lines = [[text for text in encode([c]) if text != "null"] for c in changes]
    assert all(len(t) == 1 for t in lines)
    texts, places, found = [t for (t,) in lines], range(len(lines)), set()
    batches = [places[a : a + 25] for a in range(0, len(places), 25)]
    for number, batch in enumerate(batches):
        split = len(batch) // 2
        rejected = put(table, tmp_path, [[texts[p] for p in batch[:split]], [texts[p] for p in batch[split:]]], options)
        assert all(reason.startswith("before: ") for _, _, reason in rejected), rejected
        files = [f"f{2 * number + i:02}.json" for i in range(2)]
        found |= {batch[files.index(file) * split + line - 1] for file, line, _ in rejected}
    assert found == _expected(changes, ordered=ordered, partial=name == "maxwell")
    assert len(found) > 5


def test_a_share_of_the_keys_is_checked(tmp_path: Path) -> None:
    """All messages of a key or none, and as many as are asked for."""
    lines = [maxwell("update", {"id": k, "name": "b"}, {"name": "a"}) for k in range(400)]
    asked = LandingOptions("maxwell", check_before=0.25, missing="null")
    found = put(make_table(tmp_path), tmp_path, [lines, lines], asked)
    keys = [line for file, line, _ in found if file == "f00.json"]
    assert 60 < len(keys) < 140
    assert [line for file, line, _ in found if file == "f01.json"] == keys
