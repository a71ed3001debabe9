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
    """Paths by name (load, upsert, small, keys-1, gone, merged), and what a table holds after some of them, and ``changed``."""

    files: dict[str, Path]
    rows: int
    _states: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def state(self, written: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return keys, ascending, and values after these changes, one after the other."""
        if not written:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if written not in self._states:
            keys, values = self.state(written[:-1])
            self._states[written] = self._after(written[-1], keys, values)
        return self._states[written]

    def _after(self, name: str, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if name == "changed":
            return keys, values + (keys % 16 == 7)
        if name == "gone":
            kept = ~np.isin(keys, key_numbers(pq.read_table(self.files[name])))
            return keys[kept], values[kept]
        rows = pq.read_table(self.files[name], columns=[*KEYS, SUMMED])
        own, given = key_numbers(rows), np.asarray(rows.column(SUMMED))
        if name == "merged" and len(keys):
            # A known row is changed by a larger value alone.
            at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
            wins = (keys[at] != own) | (given > values[at])
            own, given = own[wins], given[wins]
        every, first = np.unique(np.concatenate([own, keys]), return_index=True)
        return every, np.concatenate([given, values])[first]

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
    """Write the files: so many rows in random key order, an upsert of a tenth, a small one, one to merge; half of
    their keys are known; and keys to look up and to delete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(14)
    base = plain(_first(source, rows))
    steps = {
        "load": base,
        "upsert": _changed(base, base.num_rows // 10, 1, NEW_KEYS_FROM, rng),
        "small": _changed(base, min(SMALL, base.num_rows // 10), 2, 2 * NEW_KEYS_FROM, rng),
        "merged": _changed(base, base.num_rows // 10, 3, 3 * NEW_KEYS_FROM, rng, same=0.5),
    }
    data = Data({}, base.num_rows)
    for name, table in steps.items():
        data.files[name] = folder / f"{name}.parquet"
        pq.write_table(table.take(pa.array(rng.permutation(table.num_rows))), data.files[name], row_group_size=131_072)
    keys, _ = data.state(("load",))
    for n in range(1, READ_ROUNDS + 1):
        data.files[f"keys-{n}"] = folder / f"keys-{n}.parquet"
        wanted = rng.choice(keys, min(LOOKED_UP, len(keys)), replace=False)
        absent = len(wanted) // 10
        # One in ten is not there: lineitem has lines 1 to 7.
        wanted[:absent] = wanted[:absent] // 16 * 16 + 9
        _write_keys(wanted, data.files[f"keys-{n}"])
    data.files["gone"] = folder / "gone.parquet"
    _write_keys(rng.choice(keys, base.num_rows // 20, replace=False), data.files["gone"])
    return data


def _first(source: Path, rows: int) -> pa.Table:
    """Return the first rows of a file, from no more row groups than hold them."""
    file = pq.ParquetFile(source)
    ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    needed = min(int(np.searchsorted(ends, rows)) + 1, file.num_row_groups)
    return file.read_row_groups(list(range(needed))).slice(0, rows)


def _changed(
    base: pa.Table, rows: int, step: int, shift: int, rng: np.random.Generator, *, same: float = 0.0
) -> pa.Table:
    """Make half known keys with other values, half new ones; `same`: the share of rows whose value is that of the load."""
    half = rows // 2
    known = base.take(pa.array(rng.choice(base.num_rows, half, replace=False)))
    fresh = base.slice(0, half)
    fresh = fresh.set_column(0, fresh.schema.field(0), pc.add(fresh.column(0), shift))
    both = pa.concat_tables([known, fresh])
    added = np.where(rng.random(both.num_rows) < same, 0, step * 1_000_000)
    return both.set_column(1, both.schema.field(1), pc.add(both.column(1), pa.array(added)))


def _write_keys(numbers: np.ndarray, path: Path) -> None:
    """Write keys by their numbers."""
    line = pa.array((numbers % 16).astype(np.int32), pa.int32())
    pq.write_table(pa.table([pa.array(numbers // 16), line], names=list(KEYS)), path)
