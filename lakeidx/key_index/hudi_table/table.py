"""Finding keys in a copy-on-write table that Hudi wrote, by the filters in its file footers.

The steps are those of Hudi's own bloom index: latest base files, key ranges from footers, candidate (file, key)
pairs, filters, and then the truth: the key column of every file a filter pointed at. So what is reported is exact whatever the
filters say; how often they were wrong is counted.

A file without a filter has its keys read. One whose filter cannot be read has, too, or stops the run, as asked.

source   org.apache.hudi.index.bloom.HoodieBloomIndex, org.apache.hudi.io.HoodieKeyLookupHandle, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError, UnsupportedError
from lakeidx.format.hudi.footer import RECORD_KEY_COLUMN, KeyFooter, parse_footer
from lakeidx.key_index.hudi_table.timeline import BaseFile, HudiTable, latest_base_files, open_hudi_table
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.files import groups_that_may_hold, open_key_file, read_key_columns, row_positions
from lakeidx.key_index.keys.ranges import find_candidates, text_slots
from lakeidx.key_index.keys.record_key import record_keys
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.options import IndexOptions
from lakeidx.results import Result
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HudiTagResult(Result):
    """Locations of keys in a table of Hudi.

    keys      the record keys that were looked for
    found     bool[n]
    file      int32[n] number of the base file in `files`, -1 = the key is in none
    row       int64[n] its row in that file, -1 = in none
    files     latest base files of the table (of the partitions requested), by partition and file id
    repeated  keys found in more than one file (possible over partitions); the first file is reported
    """

    keys: pa.Array | pa.ChunkedArray
    found: npt.NDArray[np.bool_]
    file: npt.NDArray[np.int32]
    row: Ints
    files: tuple[BaseFile, ...]
    repeated: int
    metrics: IndexMetrics

    def as_dict(self) -> dict[str, Any]:
        """Return the counters: what was opened, how often filters were wrong, repeated keys."""
        return {**self.metrics.as_dict(), "repeated": self.repeated}

    def to_table(self) -> pa.Table:
        """Return one row per key: key, found, partition, file_id, file_name, instant (all null when absent)."""
        at = pa.array(self.file, mask=~self.found)
        columns = {
            "partition": [f.partition for f in self.files],
            "file_id": [f.file_id for f in self.files],
            "file_name": [f.name for f in self.files],
            "instant": [f.instant for f in self.files],
        }
        taken = {name: pa.array(values, pa.string()).take(at) for name, values in columns.items()}
        return pa.table({"key": self.keys, "found": self.found, **taken})


@dataclass(frozen=True, slots=True, eq=False)
class _Check:
    """Positions of the keys that one file may have, and the file's footer."""

    file: int
    keys: Ints
    footer: KeyFooter


@dataclass(frozen=True, slots=True, eq=False)
class _Hits:
    """Matches in one file: three arrays of one length, file numbers, positions of distinct keys, rows."""

    file: Ints
    key: Ints
    row: Ints
    metrics: IndexMetrics


def find_record_keys(
    store: ObjectStore,
    path: str,
    keys: pa.Array | pa.ChunkedArray,
    *,
    partitions: Collection[str] | None = None,
    options: IndexOptions | None = None,
) -> HudiTagResult:
    """Find record keys in a Hudi table.

    keys        n record keys (text), repeats allowed, no nulls
    partitions  look in these only; None = in all
    errors      NotFoundError, UnsupportedError (see `open_hudi_table`), CorruptFileError; InvalidInputError for null
                keys
    """
    chosen = options or IndexOptions({})
    table = open_hudi_table(store, path)
    files = [f for f in latest_base_files(store, table) if partitions is None or f.partition in partitions]
    return _Tagging(store, table, tuple(files), chosen).tag(keys)


class _Tagging:
    """One run over one table."""

    def __init__(
        self, store: ObjectStore, table: HudiTable, files: tuple[BaseFile, ...], options: IndexOptions
    ) -> None:
        self._store, self._table, self._files, self._options = store, table, files, options
        self._threads = options.index_threads or available_cores()
        self._set = KeySet(KeyCodes(rows=RowBytes.empty()))
        self._keys = RowBytes.empty()

    def tag(self, wanted: pa.Array | pa.ChunkedArray) -> HudiTagResult:
        keys = RowBytes.from_arrow(wanted)
        self._set, self._keys = KeySet(KeyCodes(rows=keys)), keys
        # Hudi refuses empty record keys, so no file has one.
        distinct = np.flatnonzero((self._set.first == np.arange(len(keys))) & (keys.lengths > 0))
        metrics = IndexMetrics(keys=len(keys), files=len(self._files))
        pool = LocalRunner(self._threads)
        footers = pool.map(self._footer, self._files) if len(distinct) else []
        hits = pool.map(self._check, self._checks(distinct, footers, metrics)) if footers else []
        result = self._gather(hits, len(keys))
        for hit in hits:
            metrics.add(hit.metrics)
        metrics.found = int(result[0].sum())
        return HudiTagResult(wanted, *result[:3], self._files, result[3], metrics)

    def _footer(self, file: BaseFile) -> KeyFooter:
        if not self._table.has_meta_columns:
            return KeyFooter()
        return parse_footer(open_key_file(self._store, file.path, file.size).metadata.metadata, file.path)

    def _checks(self, distinct: Ints, footers: Sequence[KeyFooter], metrics: IndexMetrics) -> list[_Check]:
        """Return the keys that each file may have by its range."""
        prune = self._options.hoodie_bloom_index_prune_by_ranges
        low = [f.min_key if prune else None for f in footers]
        high = [f.max_key if prune else None for f in footers]
        found = find_candidates(text_slots(_take(self._keys, distinct), low, high))
        metrics.pairs = int(found.counts.sum())
        metrics.files_pruned = int((found.counts == 0).sum())
        return [
            _Check(number, distinct[found.keys_of(number)], footer)
            for number, footer in enumerate(footers)
            if found.counts[number]
        ]

    def _check(self, check: _Check) -> _Hits:
        metrics = IndexMetrics()
        keys = self._probe_filter(check, metrics)
        found = row = np.zeros(0, np.int64)
        if len(keys):
            found, row = self._read_file(self._files[check.file], keys, metrics)
            if check.footer.filter_text is not None:
                metrics.false_positives += len(keys) - len(found)
        return _Hits(np.full(len(found), check.file, np.int64), found, row, metrics)

    def _probe_filter(self, check: _Check, metrics: IndexMetrics) -> Ints:
        if check.footer.filter_text is None:
            metrics.files_without_filter += 1
            return check.keys
        try:
            bloom = check.footer.bloom_filter(self._files[check.file].path)
        except (CorruptFileError, UnsupportedError):
            if self._options.index_bad_filter == "fail":
                raise
            metrics.bad_filters += 1
            return check.keys
        assert bloom is not None
        metrics.files_probed += 1
        kept = check.keys[bloom.test(self._keys, check.keys)]
        metrics.filter_hits += len(kept)
        return kept

    def _read_file(self, file: BaseFile, keys: Ints, metrics: IndexMetrics) -> tuple[Ints, Ints]:
        """Find the keys that are in the file: their positions, and their rows."""
        opened = open_key_file(self._store, file.path, file.size)
        if self._table.has_meta_columns:
            wanted = KeyCodes(rows=_take(self._keys, keys))
            groups = groups_that_may_hold(opened, RECORD_KEY_COLUMN, wanted)
            table = read_key_columns(opened, [RECORD_KEY_COLUMN], groups, metrics)
            held = RowBytes.from_arrow(table.column(0)) if table.num_rows else RowBytes.empty()
        else:
            names = self._table.record_key_fields
            if not names:
                raise InvalidInputError("the table names no record key fields", path=self._table.path)
            groups = list(range(opened.metadata.num_row_groups))
            table = read_key_columns(opened, names, groups, metrics)
            held = record_keys([table.column(n) for n in names], names, escaped=False)
        found = self._set.find(KeyCodes(rows=held))
        asked = np.zeros(len(self._keys), np.bool_)
        asked[keys] = True
        hit = np.flatnonzero((found >= 0) & asked[found])
        return found[hit].astype(np.int64), row_positions(opened, groups)[hit]

    def _gather(self, hits: Sequence[_Hits], n: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32], Ints, int]:
        none = np.zeros(0, np.int64)
        file = np.concatenate([none, *(h.file for h in hits)])
        key = np.concatenate([none, *(h.key for h in hits)])
        row = np.concatenate([none, *(h.row for h in hits)])
        order = np.lexsort((row, file, key))[::-1]
        file_of, row_of = np.full(n, -1, np.int32), np.full(n, -1, np.int64)
        # Written from the last to the first, so that the first file stays.
        file_of[key[order]], row_of[key[order]] = file[order], row[order]
        places = np.unique(np.stack([key, file]), axis=1)[0] if len(key) else none
        repeated = int((np.unique(places, return_counts=True)[1] > 1).sum())
        first = self._set.first
        return file_of[first] >= 0, file_of[first], row_of[first], repeated


def _take(keys: RowBytes, positions: Ints) -> RowBytes:
    return keys if len(positions) == len(keys) else keys.take(positions)
