"""Index types that find keys by reading data files, in this process or in tasks.

In this process the files of a batch's partitions are read by threads, each file for the keys that it may have. In tasks the keys of
a file are read once and brought to the keys of the batch. The rows of one file then travel as an Arrow table: the key columns, and
columns that order the records of a key. Which file they are of is in the schema's metadata, as JSON.

source   org.apache.hudi.index.simple.HoodieSimpleIndex (the join), release 1.0.2
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import CorruptFileError
from lakeidx.key_index.keys.ranges import Candidates
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locate import (
    DEAD,
    DELETE_KINDS,
    ORDER,
    SEQUENCE,
    join_matches,
    locate_anywhere,
    locate_in_partition,
    match_file,
    match_rows,
)
from lakeidx.key_index.locations import (
    FoundFile,
    Int32s,
    Int64s,
    KeyBatch,
    KeyLocations,
    LiveFile,
    Matches,
    no_locations,
)
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, Locator
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import DataType

_FILE = b"lakeidx.file"


@dataclass(frozen=True, slots=True, eq=False)
class AskedKeys:
    """Keys that are looked for in one file.

    keys       table of the batch's keys
    number     of the file, for `Matches`
    partition  of the file, as `keys` numbers it
    rows       int64[c] positions of those that the file may have, each a first row of its key; None: any of them
    """

    batch: KeyBatch
    keys: KeySet
    number: int = 0
    partition: int = 0
    rows: Int64s | None = None


class FileJoiner(Locator):
    """Finds keys in the data files of the batch's partitions (of all partitions, for a global type).

    narrows_files   `candidates` selects the keys that each file may have, so that tasks send a file only those; else tasks read all
                    keys of a file, and send them to the keys of the batch
    """

    narrows_files: bool = False

    def files_to_join(self, partitions: Collection[bytes] | None, context: IndexContext) -> Sequence[LiveFile]:
        """Return the data files of some partitions (None = of all) whose keys are looked at."""
        return context.view.files(partitions)

    def candidates(self, batch: KeyBatch, files: Sequence[LiveFile], context: IndexContext) -> Candidates | None:
        """Return the keys that each file may have, of keys that come again the first; None: any."""
        return None

    def check_file(self, asked: AskedKeys, file: LiveFile, context: IndexContext) -> Matches:
        """Return which of some keys a file has: reads all its keys."""
        return match_file(file, asked.number, asked.keys, context, partition=asked.partition, versions=self.is_global)

    def threads(self, context: IndexContext) -> LocalRunner:
        """Return where files are read."""
        return context.pool

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch.

        memory   a table of the batch's keys, and one file's per thread
        """
        if not len(batch):
            return no_locations(batch)
        files = self.files_to_join(None if self.is_global else batch.partitions, context)
        metrics = IndexMetrics(keys=len(batch), files=len(files))
        keys = KeySet(batch.codes, None if self.is_global else batch.partition)
        number = {p: i for i, p in enumerate(batch.partitions)}
        candidates = self.candidates(batch, files, context)
        if candidates is not None:
            metrics.pairs = int(candidates.counts.sum())
            metrics.files_pruned = int((candidates.counts == 0).sum())

        def check(i: int) -> Matches:
            partition = 0 if self.is_global else number[files[i].partition]
            rows = None if candidates is None else candidates.keys_of(i)
            return self.check_file(AskedKeys(batch, keys, i, partition, rows), files[i], context)

        some = [i for i in range(len(files)) if candidates is None or candidates.counts[i]]
        # Largest files first, so that the last thread does not start with one.
        order = sorted(some, key=lambda i: -files[i].meta.row_count)
        matches = join_matches(self.threads(context).map(check, order))
        if self.is_global:
            return locate_anywhere(
                batch, keys, files, matches, metrics,
                descending=context.descending, deletes_hide=context.deletes_hide,
            )  # fmt: skip
        return locate_in_partition(batch, keys, files, matches, metrics)


def read_file_keys(file: LiveFile, context: IndexContext, *, versions: bool) -> tuple[pa.Table, IndexMetrics]:
    """Read all keys of a data file.

    versions   with what orders the records of a key
    """
    metrics = IndexMetrics(files=1)
    rows = context.reader.open(file).read(None, metrics, versions=versions)
    n = rows.keys.num_rows
    sequence = np.zeros(n, np.int64) if rows.sequence is None else rows.sequence
    dead = np.zeros(n, np.bool_) if rows.kinds is None else np.isin(rows.kinds, DELETE_KINDS)
    return _table(file, rows.keys, pa.array(sequence), pa.array(dead), rows.order), metrics


def matched_keys(file: LiveFile, batch: KeyBatch, found: Matches) -> pa.Table:
    """Return the keys that a file was found to have.

    found   of a batch of this file's keys
    """
    keys = batch.keys.take(pa.array(found.key))
    return _table(file, keys, pa.array(found.sequence), pa.array(found.dead), found.order)


def given_keys(file: LiveFile, keys: pa.Table) -> pa.Table:
    """Return keys that are in memory as those of a data file; none of them is deleted."""
    n = keys.num_rows
    return _table(file, keys, pa.array(np.zeros(n, np.int64)), pa.array(np.zeros(n, np.bool_)), ())


def _table(
    file: LiveFile, keys: pa.Table, sequence: pa.Array, dead: pa.Array, order: Sequence[pa.ChunkedArray]
) -> pa.Table:
    columns: dict[str, Any] = {name: keys.column(name) for name in keys.column_names}
    columns |= {SEQUENCE: sequence, DEAD: dead, **{f"{ORDER}{i}": column for i, column in enumerate(order)}}
    facts = [file.partition.hex(), file.bucket, file.level, file.max_sequence]
    return pa.table(columns).replace_schema_metadata({_FILE: json.dumps(facts).encode()})


def hashes_of(rows: pa.Table, names: Sequence[str], types: Sequence[DataType]) -> Int32s:
    """Return the key hashes of a file's rows, int32[n]."""
    return hash_columns([rows.column(n) for n in names], list(types))


def file_of(rows: pa.Table) -> FoundFile:
    """Return which file some rows are of; CorruptFileError."""
    try:
        partition, bucket, level, sequence = json.loads((rows.schema.metadata or {})[_FILE])
        return FoundFile(bytes.fromhex(partition), int(bucket), int(level), int(sequence))
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError(f"keys of a data file do not say which: {error}") from error


def locate_joined(
    batch: KeyBatch,
    of_files: Iterable[pa.Table],
    *,
    is_global: bool,
    descending: bool = False,
    deletes_hide: bool = True,
) -> KeyLocations:
    """Locate the keys of a batch, or of a share of it, among keys of data files; the last two as in `IndexContext`.

    of_files   of every file that may have one, its keys or some of them; a file may come in pieces
    memory     a table of the batch's keys, and the rows of one piece
    """
    keys = KeySet(batch.codes, None if is_global else batch.partition)
    numbers = {p: i for i, p in enumerate(batch.partitions)}
    files: dict[FoundFile, int] = {}
    parts: list[Matches] = []
    for rows in of_files:
        file = file_of(rows)
        partition = 0 if is_global else numbers.get(file.partition, -1)
        if partition >= 0:
            parts.append(match_rows(rows, files.setdefault(file, len(files)), keys, batch, partition))
    matches, metrics = join_matches(parts), IndexMetrics(keys=len(batch))
    if is_global:
        return locate_anywhere(
            batch, keys, list(files), matches, metrics, descending=descending, deletes_hide=deletes_hide
        )
    return locate_in_partition(batch, keys, list(files), matches, metrics)
