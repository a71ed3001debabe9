"""Compactions that look keys up, and their changelogs: for the same history lakeidx and Java write and read the same rows.

A record above level 0 holds what lies below it, which no reader may count twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.landing.read import LandingOptions
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.java_paimon import JavaPaimon
from tests.kit.upserts import upsert_files

pytestmark = pytest.mark.interop

KEYS = 250
FULL = {"changelog-producer": "full-compaction"}
LOOKUP = {"changelog-producer": "lookup"}
VECTORS = {"deletion-vectors.enabled": "true"}
EQUAL_ROWS = {"changelog-producer.row-deduplicate": "true"}
BUT_W = {**EQUAL_ROWS, "changelog-producer.row-deduplicate-ignore-fields": "w"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTIAL = {"merge-engine": "partial-update"}
REMOVING = {**PARTIAL, "partial-update.remove-record-on-delete": "true"}
FIRST = {"merge-engine": "first-row"}
TABLES: dict[str, Mapping[str, str]] = {
    "full": FULL,
    "full, equal rows": {**FULL, **EQUAL_ROWS},
    "full, sequence": {**FULL, "sequence.field": "v"},
    "full, sum": {**FULL, **SUM},
    "full, partial update": {**FULL, **REMOVING, **BUT_W},
    "lookup": LOOKUP,
    "lookup, equal rows": {**LOOKUP, **EQUAL_ROWS},
    "lookup, sequence": {**LOOKUP, "sequence.field": "v", "sequence.field.sort-order": "descending"},
    "lookup, sum": {**LOOKUP, **SUM},
    "lookup, partial update": {**LOOKUP, **REMOVING, **BUT_W},
    "lookup, first row": {**LOOKUP, **FIRST},
    "lookup, vectors": {**LOOKUP, **VECTORS},
    "lookup, vectors, sum": {**LOOKUP, **VECTORS, **SUM, "deletion-vectors.bitmap64": "true"},
    "first row": FIRST,
    "vectors": VECTORS,
    "vectors, sequence": {**VECTORS, "sequence.field": "v"},
    "vectors, sum": {**VECTORS, **SUM},
    "vectors, partial update": {**VECTORS, **REMOVING},
    "lookup, kept partial update": {**LOOKUP, **PARTIAL},
    "force lookup, sum": {"force-lookup": "true", **SUM},
    "force lookup, partial update": {"force-lookup": "true", **REMOVING},
}
Change = tuple[int, int, int | None, int | None, str | None]


class Side:
    """One table, and the rows of its changelog so far."""

    def __init__(self, folder: Path, name: str) -> None:
        spec = {
            "fields": [
                {"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "BIGINT"}, {"name": "w", "type": "STRING"},
            ],
            "primaryKeys": ["k"],
            "partitionKeys": [],
            "options": {"bucket": "1", "num-sorted-run.compaction-trigger": "4", **TABLES[name]},
        }  # fmt: skip
        folder.mkdir()
        (folder / "schema.json").write_text(json.dumps(spec))
        self.folder = folder
        self.place = folder / "wh" / "d.db" / "t"
        self.java = JavaPaimon(str(folder / "wh"), "d.t")
        self.java.run("create", str(folder / "schema.json"))
        self._batches = 0

    @property
    def table(self) -> Table:
        return Table.open(str(self.place))

    def write(self, rows: list[dict[str, Any]], *, by_java: bool) -> None:
        self._batches += 1
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(r) + "\n" for r in rows))
        if by_java:
            self.java.run("write", str(file), "1", "write-only=true")
        else:
            context = make_context(self.table.metadata, f"b{self._batches}", runner=LocalRunner(1))
            upsert_files(context, [str(file)], LandingOptions("jsonl"))

    def compact(self, *, by_java: bool, full: bool) -> None:
        if by_java:
            self.java.run("compact" if full else "minor")
        else:
            run_compaction(self.table.metadata, LocalRunner(1), full=full)

    def rows(self) -> dict[int, tuple[int | None, str | None]]:
        found = self.table.scan().to_arrow().to_pylist()
        assert len({r["k"] for r in found}) == len(found)
        return {r["k"]: (r["v"], r["w"]) for r in found}

    def rows_by_java(self) -> dict[int, tuple[int | None, str | None]]:
        found = self.java.json("read")
        assert len({r["k"] for r in found}) == len(found)
        return {int(r["k"]): (None if r["v"] is None else int(r["v"]), r["w"]) for r in found}

    def looked_up(self) -> dict[int, tuple[int | None, str | None]]:
        found = self.table.lookup(pa.table({"k": pa.array(range(KEYS), pa.int32())})).to_pylist()
        return {k: (row["v"], row["w"]) for k, row in enumerate(found) if row["_FOUND"]}

    def levels(self) -> set[int]:
        table = self.table
        return {e.file.level for e in load_view(table.metadata, table.snapshot).entries}

    def changelog(self) -> list[list[Change]]:
        """(key, kind, sequence number, v, w) of each commit that has a changelog, in the order of the files."""
        m = self.table.metadata
        out = []
        for snapshot in m.snapshots():
            name = snapshot.changelog_manifest_list
            entries = (
                [e for meta in m.load_manifest_list(name) for e in m.load_manifest(meta.file_name)] if name else []
            )
            rows: list[Change] = []
            for file in (e.file for e in entries):
                read = pq.read_table(m.paths.data_file({}, 0, file.file_name))
                assert file.row_count == read.num_rows
                assert file.delete_row_count == sum(k % 2 for k in read.column("_VALUE_KIND").to_pylist())
                columns = ("k", "_VALUE_KIND", "_SEQUENCE_NUMBER", "v", "w")
                rows += zip(*(read.column(c).to_pylist() for c in columns), strict=True)
            if rows:
                assert snapshot.changelog_record_count == len(rows)
                out.append(rows)
        return out


def batch(r: random.Random, size: int, *, deletes: bool) -> list[dict[str, Any]]:
    kinds = ["+I", "+U", "-D"] if deletes else ["+I", "+U"]
    return [
        {
            "k": str(r.randrange(KEYS)), "v": r.choice([None, *map(str, range(5))]), "w": r.choice([None, "a", "b"]),
            "_kind": r.choice(kinds),
        }
        for _ in range(size)
    ]  # fmt: skip


def takes_deletes(name: str) -> bool:
    return not any(word in name for word in ("sum", "first row", "kept"))


def applied(changes: list[list[Change]]) -> dict[int, tuple[int | None, str | None]]:
    """What the changes make of an empty table; each must fit what is there."""
    rows: dict[int, tuple[int | None, str | None]] = {}
    for commit in changes:
        for key, kind, _, v, w in commit:
            if kind in (1, 3):
                assert rows.pop(key) == (v, w)
            else:
                assert key not in rows
                rows[key] = (v, w)
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_java_and_lakeidx_write_the_same_changes(name: str, tmp_path: Path) -> None:
    theirs, ours = Side(tmp_path / "theirs", name), Side(tmp_path / "ours", name)
    r = random.Random(name)
    full_only = TABLES[name].get("changelog-producer") == "full-compaction"
    deepest = 0
    for step in range(9):
        for _ in range(r.choice([1, 1, 2])):
            rows = batch(r, 200 if step == 0 else r.choice([3, 12, 12, 40]), deletes=takes_deletes(name))
            theirs.write(rows, by_java=True)
            # Java sorts the rows of one batch by rising sequence fields even where they are declared descending.
            ours.write(rows, by_java=r.random() < 0.5 or "sequence.field.sort-order" in TABLES[name])
        if step % 3 == 1:
            assert ours.rows() == ours.rows_by_java()
        full = full_only or r.random() < 0.15
        java_now = step % 3 == 2
        theirs.compact(by_java=True, full=full)
        ours.compact(by_java=java_now, full=full)
        deepest = max(deepest, len(ours.levels()))
        assert 0 not in ours.levels()
        assert ours.rows() == theirs.rows()
        assert ours.changelog() == theirs.changelog()
        if step % 3 == 1:
            # Java reads what lakeidx compacted; what Java compacts, it does in the next step.
            assert ours.rows() == ours.rows_by_java() == theirs.rows_by_java() == ours.looked_up()
            run_lookup_store(ours.table.metadata, LocalRunner(1))
            assert ours.looked_up() == ours.rows()
    if not full_only:
        # Else nothing was looked up.
        assert deepest >= 2
    if "changelog-producer" in TABLES[name]:
        assert ours.changelog()
        if "partial update" not in name:
            # There w is not compared, so that changes of it alone are not told.
            assert applied(ours.changelog()) == ours.rows()
    # All of it once more by lakeidx alone: the newest state stays, with nothing to tell.
    before = ours.changelog()
    ours.compact(by_java=False, full=True)
    assert (ours.rows_by_java(), ours.changelog()) == (theirs.rows_by_java(), before)
