"""What a peer is: the few things that every one is asked to do, and how its rows become an answer that can be compared.

Modules of this package run in the environment of a peer, which has neither lakeidx nor its requirements: NumPy and PyArrow only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEYS = ("l_orderkey", "l_linenumber")
SUMMED = "l_partkey"
#: What an update changes: a value of one in 28 rows, found by a condition.
UPDATED, SET_TO = "l_linenumber = 7", "l_partkey + 1"
#: A merge changes known rows where this holds, and inserts the others.
NEWER = "{source}.l_partkey > {target}.l_partkey"
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


class NotSupportedError(Exception):
    """The peer has no such operation; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, the sum of a column, and for whole states a sum over key and value together, which sees a value at a wrong key."""

    rows: int
    total: int
    mixed: int | None = None


def mixed(keys: np.ndarray, values: np.ndarray) -> int:
    """Return a sum modulo 2^64 that does not depend on the order of the rows."""
    with np.errstate(over="ignore"):
        words = (keys.astype(np.uint64) * _FACTORS[0]) ^ (values.astype(np.uint64) * _FACTORS[1])
        words ^= words >> np.uint64(29)
        return int((words * _FACTORS[0]).sum(dtype=np.uint64))


def key_numbers(rows: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Return one number for each key."""
    order, line = (np.asarray(rows.column(k)).astype(np.int64) for k in KEYS)
    return order * 16 + line


def answer_of(batches: Iterable[pa.Table | pa.RecordBatch]) -> Answer:
    """Return the rows and sum, batch by batch."""
    rows = total = 0
    for batch in batches:
        rows += batch.num_rows
        total += pc.sum(batch.column(SUMMED)).as_py() or 0
    return Answer(rows, int(total))


def state_of(batches: Iterable[pa.Table | pa.RecordBatch]) -> Answer:
    """Return the answer about a whole table, of its key columns and the summed one, batch by batch."""
    rows = total = mix = 0
    for batch in batches:
        values = np.asarray(batch.column(SUMMED))
        rows, total = rows + batch.num_rows, total + int(values.sum())
        mix = (mix + mixed(key_numbers(batch), values)) % 2**64
    return Answer(rows, total, mix)


def matching(rows: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the rows whose whole key is asked for, of those whose first column fits."""
    return rows.filter(pa.array(np.isin(key_numbers(rows), key_numbers(wanted))))


class Peer(ABC):
    """One engine with one table below a folder of its own; files are Parquet, the columns those of lineitem."""

    def __init__(self, folder: Path, rows: int) -> None:
        """Begin in an empty folder; so many rows will be loaded."""
        self.folder = folder
        self.rows = rows

    @abstractmethod
    def load(self, file: Path) -> None:
        """Create the table and fill it."""

    @abstractmethod
    def upsert(self, file: Path) -> None:
        """Insert new keys, replace known ones."""

    def compact(self) -> None:
        """Merge everything into files without deleted or older rows."""
        raise NotSupportedError("updates in place")

    def delete(self, file: Path) -> None:
        """Delete the rows of the keys of a file."""
        raise NotSupportedError("no delete by keys of two columns")

    def update(self) -> None:
        """Set the summed column by an expression where a condition holds."""
        raise NotSupportedError("no update by a condition")

    def merge(self, file: Path) -> None:
        """Insert new keys, and replace known ones where a condition over both rows holds."""
        raise NotSupportedError("no merge with conditions")

    @abstractmethod
    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        """Return all rows as they are now."""

    @abstractmethod
    def found(self, keys: pa.Table) -> pa.Table:
        """Return rows of some keys."""

    def scan(self) -> Answer:
        """Read all columns of all rows."""
        return answer_of(self.batches(None))

    def lookup(self, file: Path) -> Answer:
        """Read all columns of the keys of a file."""
        return answer_of([self.found(pq.read_table(file))])

    def state(self) -> Answer:
        """Return what the table holds, for the check."""
        return state_of(self.batches([*KEYS, SUMMED]))
