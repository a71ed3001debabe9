"""Sorted runs of one bucket cut into parts that are complete, memory bounded by a batch per run.

Of every run one batch is at hand. The smallest of their last keys is the *cut*: no later batch has a row up to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.arrays import frozen
from lakeidx.codec.order.normalized_key import NormalizedKeys, normalized_keys, search_sorted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.data.merge.kernels import Int64s, KeyBuffers, is_rising, key_buffers, merge_last, merge_two
from lakeidx.errors import CorruptFileError
from lakeidx.format.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one run that are complete, in key order."""

    table: pa.Table
    keys: NormalizedKeys


def complete_parts(runs: Sequence[Iterable[pa.Table]], schema: TableSchema) -> Iterator[list[Part]]:
    """Cut sorted runs into parts: those of one list hold all rows of their keys, and no later list has a smaller key.

    runs      each gives tables in key order, no key twice, with the columns of the trimmed primary key
    returns   lists in key order, of each run at most one part, in the order of the runs; never an empty list or part
    errors    CorruptFileError for a run that is not in key order
    """
    heads = [h for h in (_Head(i, iter(run), schema) for i, run in enumerate(runs)) if h.advance()]
    while heads:
        if len(heads) == 1:
            yield [heads[0].take_rest()]
        else:
            cut = min((h.last_key() for h in heads), key=_sort_key)
            yield [p for p in (h.take_until(cut) for h in heads) if p is not None]
        heads = [h for h in heads if not h.is_empty or h.advance()]


class _Head:
    """The batch of one run that is being consumed."""

    def __init__(self, number: int, batches: Iterator[pa.Table], schema: TableSchema) -> None:
        self._number = number
        self._batches = batches
        self._names = schema.trimmed_primary_keys
        self._types = schema.key_types
        self._table: pa.Table | None = None
        self._keys: NormalizedKeys | None = None
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """No rows left of the batch at hand."""
        return self._keys is None or self._at == len(self._keys)

    def advance(self) -> bool:
        """Advance to the next batch; False at the end of the run."""
        before = self._keys
        table = next((t for t in self._batches if t.num_rows), None)
        if table is None:
            self._table = self._keys = None
            return False
        keys = normalized_keys([table.column(n) for n in self._names], self._types)
        words, data, offsets, exact = key_buffers(keys)
        rising = is_rising(words, data, offsets, exact)
        if rising and before is not None:
            joined = concat_keys([before.slice(len(before) - 1, len(before)), keys.slice(0, 1)])
            rising = is_rising(*key_buffers(joined))
        if not rising:
            raise CorruptFileError(
                f"sorted run {self._number} is not in key order, or holds a key twice: its files overlap"
            )
        self._table, self._keys, self._at = table, keys, 0
        return True

    def last_key(self) -> NormalizedKeys:
        """Return the greatest key of the batch at hand."""
        assert self._keys is not None
        return self._keys.slice(len(self._keys) - 1, len(self._keys))

    def take_rest(self) -> Part:
        """Take the rest of the current batch."""
        return self._take(len(self._keys or ()))

    def take_until(self, cut: NormalizedKeys) -> Part | None:
        """Take rows up to and including a key; None when there are none."""
        assert self._keys is not None
        rest = self._keys.slice(self._at, len(self._keys))
        end = self._at + int(search_sorted(rest, cut, side="right")[0])
        return self._take(end) if end > self._at else None

    def _take(self, end: int) -> Part:
        assert self._table is not None
        assert self._keys is not None
        begin, self._at = self._at, end
        return Part(self._table.slice(begin, end - begin), self._keys.slice(begin, end))


def _sort_key(key: NormalizedKeys) -> tuple[bytes, bytes]:
    """Encode one key as bytes that sort as it does."""
    return key.words[0].astype(">u8").tobytes(), b"" if key.rows is None else key.rows[0]


def merge_parts(lengths: Sequence[int], buffers: KeyBuffers) -> Int64s:
    """Merge the rows of sorted parts laid end to end; the two shortest streams are merged first. Earlier parts first on ties."""

    def merge(a: Int64s, b: Int64s) -> Int64s:
        out = np.empty(len(a) + len(b), np.int64)
        merge_two(*buffers, a, b, out)
        return out

    return _by_twos(lengths, merge)


def merge_to_last(
    lengths: Sequence[int], buffers: KeyBuffers, sequences: Int64s, kinds: npt.NDArray[np.int8]
) -> Int64s:
    """Merge as `merge_parts` does, and keep of each key's rows only the one that the kernel `pick_last` chooses.

    lengths     of the parts; in none of them a key is there twice
    sequences   int64[n] and kinds int8[n]: of all rows
    """
    sequences, kinds = frozen(sequences), frozen(kinds)

    def merge(a: Int64s, b: Int64s) -> Int64s:
        out = np.empty(len(a) + len(b), np.int64)
        later = len(b) <= len(a)
        long, short = (a, b) if later else (b, a)
        return out[: merge_last(*buffers, sequences, kinds, long, short, later, out)]

    return _by_twos(lengths, merge)


def _by_twos(lengths: Sequence[int], merge: Callable[[Int64s, Int64s], Int64s]) -> Int64s:
    """Merge streams of row numbers two at a time, the shortest first; `merge` gets the one of earlier parts first."""
    bounds = np.cumsum([0, *lengths])
    heap: list[tuple[int, int, Int64s]] = []
    for i, length in enumerate(lengths):
        heapq.heappush(heap, (length, i, frozen(np.arange(bounds[i], bounds[i + 1]))))
    while len(heap) > 1:
        (n, i, a), (m, j, b) = heapq.heappop(heap), heapq.heappop(heap)
        # Counted with rows that `merge` left out: who meets whom, and so who wins of equals, depends on the parts alone.
        heapq.heappush(heap, (n + m, min(i, j), frozen(merge(a, b) if i < j else merge(b, a))))
    return heap[0][2]


def concat_keys(parts: Sequence[NormalizedKeys]) -> NormalizedKeys:
    """Concatenate keys of one type."""
    if len(parts) == 1:
        return parts[0]
    words = np.concatenate([p.words for p in parts])
    rows = [p.rows for p in parts if p.rows is not None]
    return NormalizedKeys(words, RowBytes.concat(rows) if rows else None)


def take_keys(keys: NormalizedKeys, rows: Int64s) -> NormalizedKeys:
    """Take the keys of some rows."""
    if keys.rows is None:
        return NormalizedKeys(keys.words[rows], None)
    return NormalizedKeys(keys.words[rows], keys.rows.take(rows))
