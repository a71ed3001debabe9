"""Locations of keys in a key state: the buckets that the keys are in are read, and the newest record of each key counts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.batch.key_state.state_table import KeyState
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.parquet.schema import SYSTEM_COLUMNS
from lakeidx.data.read_data_file import read_data_file
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import VALUE_KIND
from lakeidx.key_index.keys.codes import KeyCodes, has_int_view, key_codes
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import Int32s, Int64s
from lakeidx.predicate import BoundPredicate, In, Predicate, Values, between
from lakeidx.table.intervals import sections_of
from lakeidx.table.key_buckets import buckets_by_function
from lakeidx.table.scan.plan import keys_may_match
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.tasks.limits import available_cores
from lakeidx.types import BYTES_ROOTS, STRING_ROOTS

#: Rows of a row group, about. A list of keys leaves some of a file out when it has fewer keys than the file has row groups.
_GROUP_ROWS = 1 << 14


@dataclass(slots=True, eq=False)
class Located:
    """Locations of n keys.

    bucket       int32[n], -1 = nowhere
    partition    int32[n] number of the partition; any where there is no bucket
    numbers      of partitions, by their text
    rows_read    of the state
    """

    bucket: Int32s
    partition: Int32s
    numbers: dict[str, int] = field(default_factory=dict)
    rows_read: int = 0

    @property
    def partitions(self) -> tuple[bytes, ...]:
        """Manifest bytes of the partitions, by number."""
        return tuple(bytes.fromhex(p) for p in self.numbers)


def state_buckets(state: KeyState, keys: pa.Table) -> Int32s:
    """Return the bucket of the state that each key is in, int32[n]."""
    return buckets_by_function(state.schema, keys, state.schema.bucket)


def locate_keys(state: KeyState, keys: pa.Table, *, expire_before: int = 0) -> Located:
    """Look keys up.

    keys            the state's primary key, no dictionaries
    expire_before   epoch seconds: what was written before counts as gone
    errors          NotFoundError, CorruptFileError when files of the state are gone or damaged
    memory          besides the result a batch of rows per thread
    """
    n = keys.num_rows
    found = Located(np.full(n, -1, np.int32), np.zeros(n, np.int32))
    if n and state.data is not None:
        names = state.schema.primary_keys
        codes = key_codes([keys.column(name) for name in names], state.schema.key_types)
        buckets = state_buckets(state, keys)
        work = []
        for (_, bucket), files in state.view().by_bucket().items():
            rows = np.flatnonzero(buckets == bucket)
            if len(rows):
                work.append((bucket, files, rows))
        lookup = _Lookup(state, keys, codes, expire_before, found)
        in_parallel(lambda w: lookup.in_bucket(*w), work, threads=available_cores())
    return found


def count_by_place(
    state: KeyState, bucket: int, files: Sequence[DataFileMeta], *, expire_before: int = 0
) -> dict[tuple[bytes, int], int]:
    """Count the keys of a bucket of the state per (partition, bucket) of the served table."""
    partition, place, written = state.place_columns
    schema, numbers = state.schema, dict[str, int]()
    columns = [*schema.primary_keys, partition, place, written]
    out: dict[tuple[bytes, int], int] = {}
    for section in sections_of(files, schema.key_types):
        runs = [_rows(state, bucket, run, columns, None, SYSTEM_COLUMNS) for run in section]
        for rows in merge_sorted_runs(runs, schema, drop_deletes=True, columns=[partition, place, written]):
            young = rows.column(written).to_numpy() >= expire_before
            count_places(out, places_of(rows, partition, place, numbers)[young], numbers)
    return out


def places_of(rows: pa.Table, partition: str, bucket: str, numbers: dict[str, int]) -> Int64s:
    """Return the place of each row as one number, int64[n]; negative for none.

    partition, bucket   names of columns
    numbers             of partitions, by their text; new ones are added
    """
    codes, buckets = _number_texts(rows.column(partition), numbers).astype(np.int64), rows.column(bucket).to_numpy()
    return np.where(buckets < 0, -1, codes << 32 | np.maximum(buckets, 0))


def count_places(counts: dict[tuple[bytes, int], int], places: Int64s, numbers: dict[str, int], sign: int = 1) -> None:
    """Add the number of times that each place comes, or take it away."""
    texts = list(numbers)
    for code, n in zip(*(a.tolist() for a in np.unique(places, return_counts=True)), strict=True):
        place = bytes.fromhex(texts[code >> 32]), code & 0xFFFFFFFF
        counts[place] = counts.get(place, 0) + sign * n


def add_counts(parts: Iterable[Mapping[tuple[bytes, int], int]]) -> dict[tuple[bytes, int], int]:
    """Add counts up."""
    out: dict[tuple[bytes, int], int] = {}
    for part in parts:
        for place, n in part.items():
            out[place] = out.get(place, 0) + n
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """A lookup in a state; threads work on rows of their own, and hold `lock` for all else."""

    state: KeyState
    keys: pa.Table
    codes: KeyCodes
    expire_before: int
    found: Located
    lock: threading.Lock = field(default_factory=threading.Lock)

    def in_bucket(self, bucket: int, files: Sequence[DataFileMeta], rows: Int64s) -> None:
        """Read a bucket's files, older ones first: what comes later replaces what was found."""
        state = self.state
        known = KeySet(self.codes.take(rows))
        count = sum(f.row_count for f in files)
        wanted = self._wanted(rows, few=len(rows) * _GROUP_ROWS < count)
        partition, place, written = state.place_columns
        names = state.schema.primary_keys
        columns = [*names, partition, place, *([written] if self.expire_before else [])]
        where, which, rows_read = np.full(len(rows), -1, np.int32), np.zeros(len(rows), np.int32), 0
        for file in sorted(files, key=lambda f: (-f.level, f.max_sequence_number)):
            if wanted is not None and not keys_may_match(file, wanted, state.schema):
                continue
            system = (VALUE_KIND,) if file.may_hold_deletes else ()
            for batch in _rows(state, bucket, [file], columns, wanted, system):
                rows_read += batch.num_rows
                hit = known.find(key_codes([_plain(batch.column(n)) for n in names], state.schema.key_types))
                at = np.flatnonzero(hit >= 0)
                if not len(at):
                    continue
                mine, taken = hit[at], batch.take(pa.array(at))
                to = taken.column(place).to_numpy().astype(np.int32)
                gone = np.zeros(len(at), np.bool_)
                if system:
                    gone |= taken.column(VALUE_KIND).to_numpy() & 1 == 1
                if self.expire_before:
                    gone |= taken.column(written).to_numpy() < self.expire_before
                where[mine] = np.where(gone, -1, to)
                with self.lock:
                    which[mine] = _number_texts(taken.column(partition), self.found.numbers)
        with self.lock:
            self.found.rows_read += rows_read
        self.found.bucket[rows] = where[known.first]
        self.found.partition[rows] = which[known.first]

    def _wanted(self, rows: Int64s, *, few: bool) -> BoundPredicate | None:
        """Return what row groups have to pass: the keys themselves where they are few, else their range."""
        name = self.state.schema.primary_keys[0]
        column = self.state.schema.field(name)
        root = column.type.root
        if not (has_int_view(column.type) or root in STRING_ROOTS or root in BYTES_ROOTS):
            return None
        values = self.keys.column(name).take(pa.array(rows))
        made: Predicate
        if few:
            made = In(name, Values.of(arrow_to_internal(pc.unique(values), column.type)))
        else:
            ends = pc.min_max(values)
            low, high = arrow_to_internal(pa.array([ends["min"], ends["max"]], values.type), column.type)
            made = between(name, low, high)
        return BoundPredicate(made, self.state.schema.fields)


def _number_texts(column: pa.ChunkedArray, numbers: dict[str, int]) -> Int32s:
    """Return the number of each text, int32[n]; new texts get the next ones.

    column   of texts, few of which differ
    """
    out = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        own = np.array([numbers.setdefault(text, len(numbers)) for text in coded.dictionary.to_pylist()], np.int32)
        out.append(own[coded.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(out)


def _rows(
    state: KeyState,
    bucket: int,
    files: Sequence[DataFileMeta],
    columns: Sequence[str],
    wanted: BoundPredicate | None,
    system: Sequence[str],
) -> Iterator[pa.Table]:
    """Read data files of the state, one after another."""
    metadata, schema = state.metadata, state.schema
    for file in files:
        path = metadata.paths.data_file({}, bucket, file.file_name)
        yield from read_data_file(
            metadata.store,
            path,
            file,
            schema,
            schema,
            columns,
            predicate=wanted,
            system_columns=system,
            dictionary_columns=(state.place_columns[0],),
        )


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
