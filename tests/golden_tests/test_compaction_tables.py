"""Compaction plans against what the released Java did: every COMPACT snapshot of the golden tables.

The live files of the snapshot before go into the plan; the files Java replaced, upgraded and wrote must be the plan's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.compaction.plan import Rewrite, Upgrade, plan_compaction
from lakeidx.format.data_file import EMPTY_STATS, DataFileMeta
from lakeidx.format.schema.schema_file import TableSchema
from tests.kit.golden_tables import TABLES, GoldenTable
from tests.kit.json_forms import json_to_internal

pytestmark = pytest.mark.golden


def transitions() -> list[Any]:
    """(table, id) of every COMPACT snapshot of a primary-key table whose predecessor's files are known."""
    out = []
    for case in TABLES:
        for snapshot in case.info["snapshots"]:
            n = snapshot["id"]
            known = all((case.folder / f"files-{i}.jsonl").exists() for i in (n - 1, n))
            if snapshot["kind"] == "COMPACT" and known and case.info["primary_keys"]:
                out.append(pytest.param(case, n, id=f"{case.name}-{n}"))
    return out


def live_files(case: GoldenTable, snapshot: int, schema: TableSchema) -> dict[Any, list[DataFileMeta]]:
    buckets: dict[Any, list[DataFileMeta]] = {}
    types = schema.key_types

    def key(values: list[Any]) -> bytes:
        row = encode_row([json_to_internal(v, t) for v, t in zip(values, types, strict=True)], types)
        return with_arity(row, len(types))

    for line in case.lines(f"files-{snapshot}.jsonl"):
        if "file" not in line or "level" not in line:
            continue
        meta = DataFileMeta(
            file_name=line["file"],
            file_size=line["size"],
            row_count=line["rows"],
            min_key=key(line["min_key"]),
            max_key=key(line["max_key"]),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=line["min_seq"],
            max_sequence_number=line["max_seq"],
            schema_id=line["schema_id"],
            level=line["level"],
            delete_row_count=line["delete_rows"],
        )
        buckets.setdefault((json.dumps(line["partition"]), line["bucket"]), []).append(meta)
    return buckets


def deleted_from(case: GoldenTable, snapshot: int) -> set[str]:
    """Data files that have a deletion vector in the snapshot."""
    lines = case.lines(f"files-{snapshot}.jsonl")
    return {name for line in lines for name in line.get("deletion_vectors") or ()}


@pytest.mark.parametrize(("case", "snapshot"), transitions())
def test_plan_is_what_java_did(case: GoldenTable, snapshot: int) -> None:
    schema = case.latest_schema
    before, after = live_files(case, snapshot - 1, schema), live_files(case, snapshot, schema)
    for bucket, files in before.items():
        old = {f.file_name: f.level for f in files}
        new = {f.file_name: f.level for f in after.get(bucket, [])}
        done = {
            "replaced": {n for n in old if n not in new},
            "upgraded": {n: new[n] for n in old if n in new and new[n] != old[n]},
            "written": {new[n] for n in new if n not in old},
        }
        plans = []
        for full in (False, True):
            task = plan_compaction(files, schema, full=full, must_rewrite=deleted_from(case, snapshot - 1))
            steps = task.steps if task is not None else ()
            level = task.output_level if task is not None else -1
            rewrites = [s for s in steps if isinstance(s, Rewrite)]
            plans.append(
                {
                    "replaced": {f.file_name for s in rewrites for f in s.files},
                    "upgraded": {s.file.file_name: level for s in steps if isinstance(s, Upgrade)},
                    # A rewrite in which every row is deleted leaves no file.
                    "written": {level} & (done["written"] or set()) if rewrites else set(),  # type: ignore[operator]
                }
            )
        # Which of the two Java was asked for is not recorded for every commit.
        assert done in plans, (bucket, old, plans)
