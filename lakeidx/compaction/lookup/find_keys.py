"""Search for the keys of level-0 files in the files of higher levels: sorted key columns met with sorted key columns.

A level's files are in key order, and so is each level-0 file. The key columns of a level are read once, batch by batch, and each
batch is met with the batches of every level-0 file that reach into it: a binary search per key, nothing per row outside kernels.
Files whose key range no level-0 file touches are not opened. Of a file that has a lookup file few keys are asked there instead.

source   org.apache.paimon.mergetree.LookupLevels#lookup, release 1.4.2, which asks a lookup file for one key at a time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.order.key import run_starts
from lakeidx.codec.order.normalized_key import NormalizedKeys, find_sorted, normalized_keys, search_sorted
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.compaction.bucket import BucketReader
from lakeidx.compaction.lookup.stored_keys import StoredKeys
from lakeidx.compaction.pick import LevelRun
from lakeidx.data.merge.order import merge_order
from lakeidx.data.positions import sorted_positions
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.lookup.point.answers import lookup_keys
from lakeidx.table.intervals import rank_files

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeysOfBucket:
    """Positions by data file name, int64[k] rising.

    above   in files of higher levels: rows, not deleted, whose key is in one of the level-0 files
    known   in level-0 files: rows whose key is, not deleted, in a higher level
    rows    of files that are not in `above`, since a lookup file gave the rows themselves: KV tables in key order
    """

    above: dict[str, Int64s] = field(default_factory=dict)
    known: dict[str, Int64s] = field(default_factory=dict)
    rows: dict[str, pa.Table] = field(default_factory=dict)


def find_keys_above(
    reader: BucketReader,
    schema: TableSchema,
    new: Sequence[DataFileMeta],
    above: Sequence[LevelRun],
    stored: StoredKeys | None = None,
) -> KeysOfBucket:
    """Find the keys of level-0 files in higher levels.

    new      level-0 files, any order
    above    runs of the levels to look in
    stored   lookup files of the levels, which are asked where that is cheaper
    memory   a batch of keys per level-0 file, one of the level, and the positions found; with lookup files all keys of level 0,
             a small part of those of the file that is asked
    errors   those of reading data files and lookup files
    """
    hits: dict[str, list[Int64s]] = {}
    out = KeysOfBucket()
    asked = None if stored is None else _LookedUpKeys(reader, schema, new, stored, hits, out.rows)
    for run in above:
        files = _touched(run.files, new, schema)
        if asked is not None:
            files = [f for f in files if not asked.meet(f)]
        if not files:
            continue
        heads = [h for h in (_Head(reader, schema, f) for f in new) if h.advance()]
        for file in files:
            deleted = reader.deleted(file)
            gone = None if deleted is None else sorted_positions(deleted)
            for first, keys in _key_batches(reader, schema, file):
                if not heads:
                    break
                alive = None if gone is None else _alive(gone, first, len(keys))
                found = _meet(keys, alive, heads, hits)
                if len(found):
                    hits.setdefault(file.file_name, []).append(found + first)
                heads = [h for h in heads if not h.is_done]
    names = {f.file_name for f in new}
    for name, parts in hits.items():
        # More than one level may have a key, and more than one level-0 file; lookup files answer in the order of the keys.
        (out.known if name in names else out.above)[name] = sorted_distinct(np.concatenate(parts))
    return out


class _LookedUpKeys:
    """All keys of the level-0 files, encoded once for lookups in lookup files."""

    def __init__(
        self,
        reader: BucketReader,
        schema: TableSchema,
        new: Sequence[DataFileMeta],
        stored: StoredKeys,
        hits: dict[str, list[Int64s]],
        rows: dict[str, pa.Table],
    ) -> None:
        self._reader, self._schema, self._new, self._stored = reader, schema, new, stored
        self._hits, self._rows = hits, rows
        self._count = sum(f.row_count for f in new)
        self._batches: list[tuple[str, int, RowBytes]] | None = None

    def meet(self, file: DataFileMeta) -> bool:
        """Look keys up in the lookup file of a higher-level file; False when its key columns have to be read."""
        if not self._stored.is_cheaper(file, self._count, some_deleted=self._reader.has_deleted(file)):
            return False
        deleted = self._reader.deleted(file)
        gone = None if deleted is None else sorted_positions(deleted)
        noted: list[tuple[str, Int64s]] = []
        given: list[pa.Table] = []
        for name, first, keys in self._encoded():
            answer = self._stored.find(file, keys)
            if answer is None:
                return False
            there, positions = answer.there, answer.positions
            given += [] if answer.rows is None else [answer.rows]
            if gone is not None and positions is not None:
                alive = np.flatnonzero(~np.isin(positions, gone))
                there, positions = there[alive], positions[alive]
            noted += [(name, there + first), *([] if positions is None else [(file.file_name, positions)])]
        for name, found in noted:
            if len(found):
                self._hits.setdefault(name, []).append(found)
        if given:
            self._rows[file.file_name] = _once_in_order(pa.concat_tables(given), self._schema)
        return True

    def _encoded(self) -> list[tuple[str, int, RowBytes]]:
        if self._batches is None:
            self._batches = []
            for file in self._new:
                first = 0
                for rows in self._reader.keys(file):
                    self._batches.append((file.file_name, first, lookup_keys(rows, self._schema)))
                    first += rows.num_rows
        return self._batches


class _Head:
    """The batch of keys of one level-0 file that is being met."""

    def __init__(self, reader: BucketReader, schema: TableSchema, file: DataFileMeta) -> None:
        self.name = file.file_name
        self._batches = _key_batches(reader, schema, file)
        self._keys: NormalizedKeys | None = None
        self._first = self._at = 0

    @property
    def is_done(self) -> bool:
        """Nothing left of the file."""
        return self._keys is None

    def advance(self) -> bool:
        """Go to the next batch; False at the end of the file."""
        self._first, self._keys = next(self._batches, (0, None))
        self._at = 0
        return self._keys is not None

    def take_until(self, last: NormalizedKeys) -> Iterator[tuple[int, NormalizedKeys]]:
        """Yield the keys up to `last`, it included, with the position of the first of them."""
        while self._keys is not None:
            rest = self._keys.slice(self._at, len(self._keys))
            count = int(search_sorted(rest, last, side="right")[0])
            if count:
                yield self._first + self._at, rest.slice(0, count)
            if count < len(rest):
                self._at += count
                return
            self.advance()


def _once_in_order(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Sort rows of one file by key; keys of several level-0 files have brought theirs more than once."""
    ordered = rows.cast(schema.kv_arrow_schema).take(pa.array(merge_order(rows, schema)))
    keys = [ordered.column(n) for n in schema.trimmed_primary_keys]
    return ordered.take(pa.array(run_starts(keys, schema.key_types)))


def _meet(
    keys: NormalizedKeys, alive: npt.NDArray[np.bool_] | None, heads: Sequence[_Head], hits: dict[str, list[Int64s]]
) -> Int64s:
    """Find the keys of level-0 files in a batch of a higher level; note them, and return where they are in the batch."""
    last = keys.slice(len(keys) - 1, len(keys))
    met = np.zeros(len(keys), np.bool_)
    for head in heads:
        for first, probe in head.take_until(last):
            at = find_sorted(keys, probe)
            there = np.flatnonzero(at >= 0)
            if alive is not None:
                there = there[alive[at[there]]]
            if len(there):
                hits.setdefault(head.name, []).append(there + first)
                met[at[there]] = True
    return np.flatnonzero(met)


def _key_batches(reader: BucketReader, schema: TableSchema, file: DataFileMeta) -> Iterator[tuple[int, NormalizedKeys]]:
    """Yield the keys of a file with the position of the first of them."""
    position = 0
    for rows in reader.keys(file):
        yield position, _keys(rows, schema)
        position += rows.num_rows


def _keys(rows: pa.Table, schema: TableSchema) -> NormalizedKeys:
    return normalized_keys([rows.column(n) for n in schema.trimmed_primary_keys], schema.key_types)


def _alive(gone: Int64s, first: int, rows: int) -> npt.NDArray[np.bool_]:
    """Return bool[rows] of the stretch that begins at position `first`: rows that are not deleted."""
    begin, end = np.searchsorted(gone, (first, first + rows))
    out = np.ones(rows, np.bool_)
    out[gone[begin:end] - first] = False
    return out


def _touched(files: Sequence[DataFileMeta], new: Sequence[DataFileMeta], schema: TableSchema) -> list[DataFileMeta]:
    """List the files of a level whose key range a level-0 file reaches into, in key order."""
    ranked = rank_files([*files, *new], schema.key_types)
    asked = ranked[len(files) :]
    return [f.file for f in ranked[: len(files)] if any(f.low <= n.high and n.low <= f.high for n in asked)]
