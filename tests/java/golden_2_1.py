"""Makes tests/golden/tables-2.1 anew: small tables of what Paimon 2.x added, as its Java writes and reads them.

``python -m tests.java.golden_2_1`` needs Java, Maven and the bundle of Paimon 2.x (see tests/oracle/README.md).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.java_paimon import JavaPaimon
from tests.kit.java_tools import SECOND, use_paimon

TARGET = Path(__file__).resolve().parents[1] / "golden" / "tables-2.1"
FIELDS = [
    {"name": "p", "type": "INT"},
    {"name": "k", "type": "BIGINT"},
    {"name": "v", "type": "STRING"},
    {"name": "n", "type": "INT"},
]
Row = Mapping[str, str | None]


def rows(keys: Sequence[int], mark: str, partitions: Sequence[int] = (1,)) -> list[Row]:
    """One row per partition and key."""
    return [{"p": str(p), "k": str(k), "v": f"{mark}{k}", "n": str(k * 2)} for p in partitions for k in keys]


@dataclass(frozen=True)
class Case:
    """A table and what is done to it: a list of rows is written, "compact" compacts, ("evolve", columns, rows) evolves."""

    note: str
    keys: Sequence[str]
    partitions: Sequence[str]
    options: Mapping[str, str]
    steps: Sequence[Any]

    @property
    def spec(self) -> dict[str, Any]:
        """What the table is created from."""
        return {
            "fields": FIELDS,
            "primaryKeys": list(self.keys),
            "partitionKeys": list(self.partitions),
            "options": {"bucket": "2", **self.options},
        }


_TWICE = (rows(range(6), "a"), rows(range(3, 9), "b"))
_NULL_KEY = [*rows(range(1, 6), "a"), {"p": "1", "k": None, "v": "null", "n": "0"}]
_VECTORS = {"deletion-vectors.enabled": "true"}
CASES = {
    "row-tracking": Case("append table whose rows have ids: nextRowId in snapshots, _FIRST_ROW_ID in data files", [], [],
                         {"bucket": "-1", "row-tracking.enabled": "true"}, _TWICE),
    "data-evolution": Case("a column of six rows written anew: _WRITE_COLS, one row in two files", [], [],
                           {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"},
                           [rows(range(6), "a"), ("evolve", "v", [{"v": f"new{i}"} for i in range(6)])]),
    "pk-btree": Case("primary-key index over n: entries with _SOURCE_META", ["k"], [],
                     {**_VECTORS, "pk-btree.index.columns": "n"}, [*_TWICE, "compact"]),
    "pk-bitmap": Case("primary-key index over v", ["k"], [],
                      {**_VECTORS, "pk-bitmap.index.columns": "v"}, [*_TWICE, "compact"]),
    "nullable-keys": Case("a primary key that is null", ["k"], [], {"primary-key.nullable": "true"}, [_NULL_KEY, _TWICE[1]]),
    "postpone": Case("rows that wait for their bucket", ["p", "k"], ["p"], {"bucket": "-2"}, _TWICE),
    "snapshot-ordering": Case("sequence numbers are stamped with the snapshot", ["k"], [],
                              {"sequence.snapshot-ordering": "true", "write-only": "true"}, _TWICE),
    "clustering": Case("data files sorted by n, not by key", ["k"], [],
                       {**_VECTORS, "pk-clustering-override": "true", "clustering.columns": "n"}, [*_TWICE, "compact"]),
    "merge-on-read": Case("deletion vectors, and level 0 is merged as it is read", ["k"], [],
                          {**_VECTORS, "deletion-vectors.merge-on-read": "true"}, _TWICE),
    "max-buckets": Case("the limit of buckets is one per partition", ["p", "k"], ["p"],
                        {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "dynamic-bucket.max-buckets": "2"},
                        [rows(range(4), "a", (0, 1, 2)), rows(range(2, 6), "b", (0, 1, 2, 3))]),
    "level-1-picks": Case("twelve small commits compacted as they come, with 2.1's picks", ["k"], [],
                          {"bucket": "1", "num-sorted-run.compaction-trigger": "3"},
                          [rows(range(i, i + 7), f"c{i}-") for i in range(12)]),
}  # fmt: skip


def make(name: str, case: Case, work: Path) -> None:
    """One table, its states as Java reads them, and what was done."""
    java, place = JavaPaimon(str(work), "d.t"), work / "d.db" / "t"
    (work / "spec.json").write_text(json.dumps(case.spec), encoding="utf-8")
    java.run("create", str(work / "spec.json"))
    for step in case.steps:
        if step == "compact":
            java.run("compact")
        elif isinstance(step, tuple) and step[0] == "evolve":
            java.run("evolve", str(_lines(work, step[2])), step[1], "0")
        else:
            java.run("write", str(_lines(work, step)), "1")
    target = TARGET / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(place, target / "table")
    ids = sorted(int(p.name.removeprefix("snapshot-")) for p in (place / "snapshot").glob("snapshot-*"))
    for snapshot_id in ids:
        read = java.run("read", f"scan.snapshot-id={snapshot_id}")
        (target / f"expect-{snapshot_id}.jsonl").write_text("".join(f"{line}\n" for line in read), encoding="utf-8")
    described = {"note": case.note, "spec": case.spec, "steps": len(case.steps), "snapshots": ids}
    (target / "case.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def _lines(work: Path, rows: Sequence[Row]) -> Path:
    file = work / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return file


def main(names: Sequence[str]) -> None:
    """All cases, or those named."""
    with use_paimon(SECOND):
        for name in names or CASES:
            with tempfile.TemporaryDirectory() as work:
                make(name, CASES[name], Path(work))
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
