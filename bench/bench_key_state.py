"""What the key state costs: a load with it, lookups of many and few keys, batches that change and add keys.

    python -m bench.bench_key_state [--rows 6000000] [--json]

The table's key leaves out its partition column, so that every batch asks the state where its keys live. Seconds are those of the
processor.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.clock import best_of
from bench.figures import tell
from lakeidx.api import Table
from lakeidx.batch.index_types import TableIndex, index_folder
from lakeidx.key_index.table_view import key_batch
from lakeidx.table.view import decode_partition_dict, load_view, number_partitions

_PARTITIONS = 8
_FEW, _ROUNDS = 100, 3


def _rows(ids: npt.NDArray[np.int64]) -> pa.Table:
    return pa.table({"id": ids, "p": (ids % _PARTITIONS).astype(np.int32), "v": ids + 1})


def _look_up(table: Table, ids: npt.NDArray[np.int64]) -> float:
    """Time a lookup in a new locator; every key has to be found in its partition."""
    schema, snapshot = table.schema, table.snapshot
    found = {e.partition for e in load_view(table.metadata, snapshot).entries}
    partitions, numbers = number_partitions((), sorted(found))
    of = np.array([numbers[p] for p in sorted(found, key=lambda p: decode_partition_dict(p, schema)["p"])], np.int32)
    batch = key_batch(pa.table({"id": ids}), schema, (partitions, of[ids % _PARTITIONS]))
    index, answers = TableIndex.of(schema), []
    locator, context = index.made(), index.context(table.metadata, snapshot)
    spent = best_of(1, lambda: answers.append(locator.tag(batch, context)))[1]
    assert (answers[0].bucket >= 0).all()
    assert (answers[0].partition == batch.partition).all()
    return spent


def measure(rows: int) -> dict[str, float]:
    """Run all of it once on a table of so many rows; the least of some rounds."""
    rng, many = np.random.default_rng(1), rows // 10
    fields = [("id", "BIGINT NOT NULL"), ("p", "INT NOT NULL"), ("v", "BIGINT")]
    spec = {
        "fields": [{"name": n, "type": t} for n, t in fields],
        "primaryKeys": ["id"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1"},
    }
    with tempfile.TemporaryDirectory(prefix="lakeidx-state-") as folder:
        table = Table.create(f"{folder}/b.db/t", spec)
        out = {"load": best_of(1, lambda: table.upsert(_rows(rng.permutation(rows))))[1]}
        files = Path(index_folder(table.paths)).rglob("*")
        out["bytes_per_key"] = sum(f.stat().st_size for f in files if f.is_file()) / rows

        def known(count: int) -> npt.NDArray[np.int64]:
            return rng.integers(0, rows, count)

        def least(work: Callable[[], float]) -> float:
            work()
            return min(work() for _ in range(_ROUNDS))

        def look_up(count: int) -> float:
            return _look_up(table, known(count))

        def upsert(ids: Callable[[], npt.NDArray[np.int64]]) -> float:
            return best_of(1, lambda: Table.open(table.uri).upsert(_rows(ids())))[1]

        for name, count in (("many", many), ("few", _FEW)):
            out[f"look_up_{name}"] = least(partial(look_up, count))
            out[f"upsert_{name}_known"] = least(partial(upsert, partial(known, count)))
        starts = iter(range(rows, 10 * rows, _FEW))
        out["upsert_few_new"] = least(partial(upsert, lambda: np.arange(_FEW, dtype=np.int64) + next(starts)))
    return {name: round(value, 4) for name, value in out.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figure = {"name": "key_state", "rows": given.rows, **measure(given.rows)}
    tell("Key state", [figure], as_json=given.json)


if __name__ == "__main__":
    main()
