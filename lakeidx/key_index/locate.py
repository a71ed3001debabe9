"""Locations of keys, from the files that hold them.

A key may be in several files of its bucket, as every update writes it again. Its location is the bucket; the file
given is the newest one. Over partitions (global indexes) it matters whether the key still lives there: the newest
record of each bucket decides, and a delete means it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakeidx.key_index.keys.codes import KeyCodes, key_codes
from lakeidx.key_index.keys.reader import record_ages
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locations import FoundFile, Int32s, Int64s, KeyBatch, KeyLocations, LiveFile, Matches
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext
from lakeidx.table.view import number_partitions

if TYPE_CHECKING:
    from lakeidx.key_index.keys.parquet_keys import OpenKeyFile

#: Columns of file keys that were read elsewhere, beside the keys; order columns are numbered.
SEQUENCE, DEAD, ORDER = "lakeidx.sequence", "lakeidx.dead", "lakeidx.order."
DELETE_KINDS = (1, 3)


def match_file(
    file: LiveFile,
    number: int,
    keys: KeySet,
    context: IndexContext,
    *,
    partition: int,
    versions: bool,
    wanted: KeyCodes | None = None,
    asked: Int64s | None = None,
    opened: OpenKeyFile | None = None,
) -> Matches:
    """Read a file's keys and look them up.

    partition  of the file, as the key set numbers it (0 for sets without partitions)
    wanted     keys that the row groups are pruned by, those of `asked`
    asked      int64[c] positions in the batch, each a first row of its key: only these count
    opened     the file, if it is open
    """
    metrics = IndexMetrics()
    opened = opened or context.reader.open(file)
    rows = opened.read(wanted, metrics, versions=versions)
    found = keys.find(rows.codes, partition)
    hit = found >= 0
    if asked is not None:
        among = np.zeros(len(keys.first), np.bool_)
        among[asked] = True
        hit &= among[found]
    at = np.flatnonzero(hit)
    key = found[at].astype(np.int64)
    none = np.zeros(len(at), np.int64)
    return Matches(
        key,
        none + number,
        rows.sequence[at] if rows.sequence is not None else none,
        np.isin(rows.kinds[at], DELETE_KINDS) if rows.kinds is not None else none.astype(bool),
        metrics,
        tuple(column.take(pa.array(at)) for column in rows.order),
    )


def match_rows(rows: pa.Table, number: int, keys: KeySet, batch: KeyBatch, partition: int) -> Matches:
    """Look up the keys of a file that were read elsewhere (`lakeidx.key_index.joined`).

    number      of the file
    partition   of the file, as the key set numbers it (0 for sets without partitions)
    """
    found = keys.find(key_codes([rows.column(n) for n in batch.keys.column_names], batch.key_types), partition)
    at = np.flatnonzero(found >= 0)
    none = np.zeros(len(at), np.int64)
    names = [n for n in rows.column_names if n.startswith(ORDER)]
    taken = rows.select([SEQUENCE, DEAD, *names]).take(pa.array(at))
    return Matches(
        found[at].astype(np.int64),
        none + number,
        taken.column(SEQUENCE).to_numpy().astype(np.int64, copy=False),
        taken.column(DEAD).to_numpy(zero_copy_only=False).astype(np.bool_, copy=False),
        IndexMetrics(),
        tuple(taken.column(n) for n in names),
    )


def join_matches(parts: Sequence[Matches]) -> Matches:
    """Join the matches of all tasks and add up their metrics."""
    metrics = IndexMetrics()
    for part in parts:
        metrics.add(part.metrics)
    empty = np.zeros(0, np.int64)
    key, file, sequence = (
        np.concatenate([empty, *(getattr(p, n) for p in parts)]) for n in ("key", "file", "sequence")
    )
    dead = np.concatenate([empty.astype(bool), *(p.dead for p in parts)])
    ordered = [p.order for p in parts if p.order]
    order = tuple(
        pa.chunked_array([c for column in columns for c in column.chunks]) for columns in zip(*ordered, strict=True)
    )
    return Matches(key, file, sequence, dead, metrics, order)


def locate_in_partition(
    batch: KeyBatch, keys: KeySet, files: Sequence[LiveFile | FoundFile], matches: Matches, metrics: IndexMetrics
) -> KeyLocations:
    """Locate keys for an index that is not global: the bucket of the newest file that has the key.

    keys     made of the batch's keys and partitions
    files    numbered as in `matches`
    metrics  completed and put into the result
    """
    n = len(batch)
    buckets = np.array([f.bucket for f in files], np.int32)
    metrics.add(matches.metrics)
    if not len(matches.key):
        return _result(batch, np.full(n, -1, np.int32), batch.partition, (), np.full(n, -1, np.int32), files, metrics)
    file_of = np.full(n, -1, np.int32)
    if np.bincount(matches.key).max() == 1:
        # Compacted tables have each key once: nothing to choose from.
        file_of[matches.key] = matches.file
    else:
        order = np.lexsort((_ages(files)[matches.file], matches.key))
        key, file = matches.key[order], matches.file[order]
        last = np.append(key[1:] != key[:-1], True)
        file_of[key[last]] = file[last]
        elsewhere = (key[1:] == key[:-1]) & (buckets[file][1:] != buckets[file][:-1])
        metrics.split_keys += len(np.unique(key[1:][elsewhere]))
    file_of = file_of[keys.first]
    bucket = np.where(file_of >= 0, buckets[file_of], -1).astype(np.int32)
    return _result(batch, bucket, batch.partition, (), file_of, files, metrics)


def locate_anywhere(
    batch: KeyBatch,
    keys: KeySet,
    files: Sequence[LiveFile | FoundFile],
    matches: Matches,
    metrics: IndexMetrics,
    *,
    descending: bool = False,
    deletes_hide: bool = True,
) -> KeyLocations:
    """Locate keys for a global index, in any partition. A key that was deleted everywhere has a location only in the
    row's own partition, where a new record must meet the delete.

    keys     made of the batch's keys without partitions
    """
    n = len(batch)
    metrics.add(matches.metrics)
    partitions, numbers = number_partitions(batch.partitions, (f.partition for f in files))
    partition_of_file = np.array([numbers[f.partition] for f in files], np.int64)
    buckets = np.array([f.bucket for f in files], np.int64)
    if not len(matches.key):
        return _result(batch, np.full(n, -1, np.int32), batch.partition, (), np.full(n, -1, np.int32), files, metrics)
    place = partition_of_file[matches.file] << 32 | buckets[matches.file]
    ages = record_ages(matches.order, matches.sequence, descending=descending)
    order = np.lexsort((_ages(files)[matches.file], ages, place, matches.key))
    key, place, file = matches.key[order], place[order], matches.file[order]
    # The last of each (key, place) is its newest record there.
    newest = np.append((key[1:] != key[:-1]) | (place[1:] != place[:-1]), True)
    dead = matches.dead[order] & deletes_hide
    alive = np.flatnonzero(newest & ~dead)
    living = key[alive]
    metrics.split_keys += len(np.unique(living[1:][living[1:] == living[:-1]]))
    file_of = np.full(n, -1, np.int32)
    file_of[key[alive]] = file[alive]
    file_of = file_of[keys.first]
    gone = np.flatnonzero(newest & dead)
    file_of = _own_deletes(batch, keys.first, file_of, key[gone], partition_of_file[file[gone]], file[gone])
    known = file_of >= 0
    bucket = np.where(known, buckets[file_of], -1).astype(np.int32)
    partition = np.where(known, partition_of_file[file_of], batch.partition).astype(np.int32)
    return _result(batch, bucket, partition, partitions, file_of, files, metrics)


def _own_deletes(
    batch: KeyBatch, first: Int32s, file_of: Int32s, key: Int64s, partition: Int64s, file: Int64s
) -> Int32s:
    """Fill in, for rows without a location, the deleted record of their key in their own partition."""
    if not len(key):
        return file_of
    codes = key << 32 | partition
    order = np.argsort(codes, kind="stable")
    codes, file = codes[order], file[order]
    asked = first.astype(np.int64) << 32 | batch.partition
    at = np.minimum(np.searchsorted(codes, asked), len(codes) - 1)
    hit = (file_of < 0) & (codes[at] == asked)
    return np.where(hit, file[at], file_of).astype(np.int32)


def _ages(files: Sequence[LiveFile | FoundFile]) -> Int64s:
    """Return int64[F], higher = newer within a bucket: lower levels are newer, on level 0 the higher sequence number."""
    order = sorted(range(len(files)), key=lambda i: (-files[i].level, files[i].max_sequence))
    out = np.empty(len(files), np.int64)
    out[order] = np.arange(len(files))
    return out


def _result(
    batch: KeyBatch,
    bucket: Int32s,
    partition: Int32s,
    partitions: tuple[bytes, ...],
    file: Int32s,
    files: Sequence[LiveFile | FoundFile],
    metrics: IndexMetrics,
) -> KeyLocations:
    metrics.found = int((bucket >= 0).sum())
    return KeyLocations(
        bucket=bucket,
        partition=partition,
        partitions=partitions or batch.partitions,
        file=file,
        files=tuple(files),
        metrics=metrics,
    )
