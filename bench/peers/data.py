"""The files that every peer gets, and what its table must hold after each of them, by NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.lineitem import plain
from bench.peers.base import KEYS, SUMMED, Answer, key_numbers, mixed

SMALL = 10_000
LOOKED_UP = 1_000
#: Reads are repeated, each lookup with other keys; the best round counts.
READ_ROUNDS = 3
NEW_KEYS_FROM = 10**9


@dataclass(slots=True)
class Data:
    """Paths by name (load, upsert, small, keys-1, ...), and what a table holds after any of the first three."""

    files: dict[str, Path]
    rows: int
    _states: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def state(self, written: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and values after these files: of equal keys the last one counts."""
        if written not in self._states:
            rows = [pq.read_table(self.files[n], columns=[*KEYS, SUMMED]) for n in written]
            keys = np.concatenate([key_numbers(r) for r in rows])[::-1]
            values = np.concatenate([np.asarray(r.column(SUMMED)) for r in rows])[::-1]
            kept, at = np.unique(keys, return_index=True)
            self._states[written] = kept, values[at]
        return self._states[written]

    def held(self, written: tuple[str, ...]) -> Answer:
        """Return the answer about the whole table."""
        keys, values = self.state(written)
        return Answer(len(keys), int(values.sum()), mixed(keys, values))

    def found(self, written: tuple[str, ...], name: str) -> Answer:
        """Return the answer to a lookup of the keys of a file."""
        keys, values = self.state(written)
        hit = np.isin(keys, key_numbers(pq.read_table(self.files[name])))
        return Answer(int(hit.sum()), int(values[hit].sum()))


def make_data(source: Path, rows: int, folder: Path) -> Data:
    """Write the files: so many rows in random key order, an upsert of a tenth, a small one; half of their keys are known."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(14)
    base = plain(_first(source, rows))
    steps = {
        "load": base,
        "upsert": _changed(base, base.num_rows // 10, 1, NEW_KEYS_FROM, rng),
        "small": _changed(base, min(SMALL, base.num_rows // 10), 2, 2 * NEW_KEYS_FROM, rng),
    }
    data = Data({}, base.num_rows)
    for name, table in steps.items():
        data.files[name] = folder / f"{name}.parquet"
        pq.write_table(table.take(pa.array(rng.permutation(table.num_rows))), data.files[name], row_group_size=131_072)
    keys, _ = data.state(("load",))
    for n in range(1, READ_ROUNDS + 1):
        data.files[f"keys-{n}"] = folder / f"keys-{n}.parquet"
        _write_keys(keys, rng, data.files[f"keys-{n}"])
    return data


def _first(source: Path, rows: int) -> pa.Table:
    """Return the first rows of a file, from no more row groups than hold them."""
    file = pq.ParquetFile(source)
    ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    needed = min(int(np.searchsorted(ends, rows)) + 1, file.num_row_groups)
    return file.read_row_groups(list(range(needed))).slice(0, rows)


def _changed(base: pa.Table, rows: int, step: int, shift: int, rng: np.random.Generator) -> pa.Table:
    """Make half known keys with other values, half new ones."""
    half = rows // 2
    known = base.take(pa.array(rng.choice(base.num_rows, half, replace=False)))
    fresh = base.slice(0, half)
    fresh = fresh.set_column(0, fresh.schema.field(0), pc.add(fresh.column(0), shift))
    both = pa.concat_tables([known, fresh])
    return both.set_column(1, both.schema.field(1), pc.add(both.column(1), step * 1_000_000))


def _write_keys(keys: np.ndarray, rng: np.random.Generator, path: Path) -> None:
    """Write some loaded keys, one in ten changed into one that is not there."""
    wanted = rng.choice(keys, min(LOOKED_UP, len(keys)), replace=False)
    absent = len(wanted) // 10
    # lineitem has lines 1 to 7.
    wanted[:absent] = wanted[:absent] // 16 * 16 + 9
    line = pa.array((wanted % 16).astype(np.int32), pa.int32())
    pq.write_table(pa.table([pa.array(wanted // 16), line], names=list(KEYS)), path)
