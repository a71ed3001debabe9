"""Carry out the compaction of one bucket: read, merge, write the new files, and return what to commit.

Nothing is deleted here: replaced files go when their snapshots expire. A crash leaves new files that nothing refers to.

source   org.apache.paimon.mergetree.compact.MergeTreeCompactTask, MergeTreeCompactRewriter, release 1.4.2

Search for the keys of level-0 files in the files of higher levels: sorted key columns met with sorted key columns.

A level's files are in key order, and so is each level-0 file. The key columns of a level are read once, batch by batch, and each
batch is met with the batches of every level-0 file that reach into it: a binary search per key, nothing per row outside kernels.
Files whose key range no level-0 file touches are not opened.

source   org.apache.paimon.mergetree.LookupLevels#lookup, release 1.4.2, which asks a lookup file for one key at a time
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.order.normalized_key import NormalizedKeys, find_sorted, normalized_keys, search_sorted
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.compaction.bucket import BucketCompaction, BucketReader, CompactedBucket, FilePositions, entry_of
from lakeidx.compaction.index_changes import hash_index_changes, vector_changes
from lakeidx.compaction.levels import build_levels
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.pick import LevelRun
from lakeidx.compaction.plan import Rewrite, Step, Upgrade
from lakeidx.data.engines import make_engine
from lakeidx.data.merge.changelog import Changelog
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.positions import sorted_positions
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.table_schema import TableSchema, check_use
from lakeidx.key_index.registry import built_beside
from lakeidx.options.features import Use
from lakeidx.table.commit.changes import TableChanges
from lakeidx.table.intervals import Section, rank_files
from lakeidx.types import STRING_ROOTS

_SAMPLE_ROWS = 4_096


def check_can_compact(schema: TableSchema) -> None:
    """Raise UnsupportedError for tables whose compaction would go wrong; see `lakeidx.options.features`."""
    check_use(schema, Use.COMPACT)


def compact_bucket(work: BucketCompaction) -> CompactedBucket:
    """Run the steps of a bucket's compaction, or of a share of one, whose index entries come of all shares.

    errors   CorruptFileError, NotFoundError naming the data file; InvalidInputError for what the engine cannot merge
    memory   a batch per sorted run, a row group being written, and one of the changelog
    """
    steps = _Steps(work)
    for step in work.task.steps:
        if isinstance(step, Upgrade):
            steps.upgrade(step)
        else:
            steps.rewrite(step)
    made = steps.made
    entries = [entry_of(work, FileKind.DELETE, f) for f in made.removed] + [
        entry_of(work, FileKind.ADD, f) for f in made.added
    ]
    gone = {f.file_name for f in made.removed} - {f.file_name for f in made.added}
    index, dropped = ([], 0) if steps.seen is None else hash_index_changes(work, steps.names, steps.seen.sorted())
    if work.keys is None:
        index += vector_changes(work, steps.names, gone, made.deleted)
    changes = TableChanges(
        compact=tuple(entries),
        compact_index=tuple(index),
        compact_changelog=tuple(entry_of(work, FileKind.ADD, f) for f in made.changelog),
    )
    return CompactedBucket(
        work.partition,
        work.bucket,
        changes,
        made.rows_in,
        made.rows_out,
        made.bytes_in,
        made.bytes_out,
        made.upgraded,
        dropped,
        sum(f.row_count for f in made.changelog),
    )


@dataclass(slots=True)
class _Made:
    """Files that the steps have made so far.

    deleted   rows of files above the output level that are superseded
    """

    removed: list[DataFileMeta] = field(default_factory=list)
    added: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)
    deleted: dict[str, np.ndarray] = field(default_factory=dict)
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    upgraded: int = 0


class _Steps:
    """Carries out the steps of one bucket's compaction, in key order."""

    def __init__(self, work: BucketCompaction) -> None:
        self.made = _Made()
        self.names = NewFileNames()
        self.seen = _LiveHashes(work.schema) if work.shrink_index else None
        self._work = work
        self._reader = BucketReader(work)
        self._options = compaction_options(work.schema) if work.schema.primary_keys else None
        self._first_row = work.schema.table_options.merge_engine == "first-row"
        self._above = _runs_above(work) if any(s.lookup for s in work.task.steps) else ()
        if self.seen is not None:
            for rows in self._reader.rows(work.kept, work.schema.trimmed_primary_keys):
                self.seen.add(rows)

    def upgrade(self, step: Upgrade) -> None:
        """Keep the file under another level; its rows are read only for what others need to know of them."""
        work, made = self._work, self.made
        # Above level 0 readers go by the count.
        deletes = self._reader.count_deletes(step.file) if step.file.level == 0 else step.file.delete_row_count
        if deletes and not step.file.delete_row_count and step.instead is not None:
            self.rewrite(step.instead)
            return
        made.removed.append(step.file)
        made.added.append(replace(step.file, level=work.task.output_level, delete_row_count=deletes))
        made.upgraded += 1
        found = self._look_up(step)
        if step.changelog:
            with self._changelog_writer() as writer:
                # What comes out of the merge is in the file already.
                for _ in self._merged(step, (((step.file,),),), found, self._changelog(writer)):
                    pass
                made.changelog += writer.finish()
        if self.seen is not None:
            for rows in self._reader.rows([step.file], work.schema.trimmed_primary_keys):
                self.seen.add(rows)

    def rewrite(self, step: Rewrite) -> None:
        """Merge the step's files into new ones."""
        made = self.made
        found = self._look_up(step)
        with ExitStack() as open_files:
            log = open_files.enter_context(self._changelog_writer()) if step.changelog else None
            data = open_files.enter_context(self._data_writer(step))
            for rows in self._merged(step, step.sections, found, None if log is None else self._changelog(log)):
                if self.seen is not None:
                    self.seen.add(rows)
                data.write(rows)
            written = data.finish()
            if log is not None:
                made.changelog += log.finish()
        made.removed += step.files
        made.added += written
        made.rows_in += sum(f.row_count for f in step.files)
        made.bytes_in += sum(f.file_size for f in step.files)
        made.rows_out += sum(f.row_count for f in written)
        made.bytes_out += sum(f.file_size for f in written)

    def _look_up(self, step: Step) -> KeysOfBucket:
        """Look level-0 keys of a step up in the levels that stay, if needed; record the rows that they supersede."""
        if not step.lookup or not self._above:
            return KeysOfBucket()
        options = self._options
        assert options is not None
        if not (options.table.deletion_vectors_enabled or self._first_row or self._merges_above(step)):
            return KeysOfBucket()
        new = [f for f in step.files if f.level == 0]
        found = find_keys_above(self._reader, self._work.schema, new, self._above)
        if options.table.deletion_vectors_enabled:
            for name, positions in found.above.items():
                before = self.made.deleted.get(name)
                self.made.deleted[name] = positions if before is None else np.union1d(before, positions)
        return found

    def _merges_above(self, step: Step) -> bool:
        """Return True when rows found above take part in the merge, or are the rows before in a changelog."""
        assert self._options is not None
        return not self._first_row and (step.changelog or not self._options.last_record_wins)

    def _merged(
        self, step: Step, sections: Sequence[Section], found: KeysOfBucket, changelog: Changelog | None
    ) -> Iterator[pa.Table]:
        work, schema = self._work, self._work.schema
        compares = changelog is not None and changelog.compares_rows
        encoded = () if compares else _repeating_texts(work, self._reader, step)
        if not schema.primary_keys:
            # Rows of an append table stay as they are, one file's after another's.
            for section in sections:
                for run in section:
                    yield from self._run(run, encoded)
            return
        levels, drop = changelog is not None, isinstance(step, Rewrite) and step.drop_delete
        if not step.lookup:
            for section in sections:
                # One run has each key once: the merge then only drops deletes, and passes the batches through.
                runs = [self._run(run, encoded, levels=levels) for run in section]
                yield from merge_sorted_runs(runs, schema, make_engine(schema), drop_deletes=drop, changelog=changelog)
            return
        # Sections follow one another in key order, so the whole step is one merge, and each file above is read once.
        runs = [
            self._run(list(itertools.chain.from_iterable(parts)), encoded, levels=levels, without=found.known)
            for parts in itertools.zip_longest(*sections, fillvalue=())
        ]
        if self._merges_above(step):
            runs += [self._run(run.files, encoded, levels=levels, only=found.above) for run in self._above]
        yield from merge_sorted_runs(
            runs, schema, make_engine(schema), drop_deletes=drop, shortcut=False, changelog=changelog
        )

    def _run(
        self,
        run: Sequence[DataFileMeta],
        encoded: Sequence[str],
        *,
        levels: bool = False,
        only: FilePositions | None = None,
        without: FilePositions | None = None,
    ) -> Iterator[pa.Table]:
        work = self._work
        # In other tables rows that are known above are still merged with those rows.
        without = without if self._first_row else None
        rows = self._reader.rows(
            run, work.schema.field_names, encoded=encoded, levels=levels, only=only, without=without
        )
        return rows if work.expiry is None else map(work.expiry.drop_expired, rows)

    def _changelog(self, writer: DataFileWriter) -> Changelog:
        assert self._options is not None
        top = self._work.task.max_level if self._options.table.changelog_producer == "full-compaction" else None
        return Changelog(self._work.schema, writer.write, top_level=top)

    def _changelog_writer(self) -> DataFileWriter:
        work = self._work
        return DataFileWriter(
            work.schema,
            store=work.metadata.store,
            bucket_dir=self._reader.directory,
            names=self.names,
            level=work.task.output_level,
            changelog=True,
        )

    def _data_writer(self, step: Rewrite) -> DataFileWriter:
        work, schema = self._work, self._work.schema
        return DataFileWriter(
            schema,
            store=work.metadata.store,
            bucket_dir=self._reader.directory,
            names=self.names,
            level=work.task.output_level,
            file_source=FileSource.COMPACT,
            **built_beside(schema),
            first_sequence=0 if schema.primary_keys else step.files[0].min_sequence_number,
        )


def _runs_above(work: BucketCompaction) -> tuple[LevelRun, ...]:
    """Return the runs of the levels above the one that is written, lowest first."""
    levels = build_levels(work.kept, work.schema.key_types, num_levels=work.task.max_level + 1)
    return tuple(r for r in levels.runs if r.level > work.task.output_level)


def _repeating_texts(work: BucketCompaction, reader: BucketReader, step: Step) -> tuple[str, ...]:
    """Return the text columns with few different values: they stay dictionaries from reading to writing, where the
    engine only picks rows.
    """
    schema, options = work.schema, work.schema.table_options
    if options.merge_engine not in ("deduplicate", "first-row") or options.sequence_field:
        return ()
    texts = [f.name for f in schema.fields if f.type.root in STRING_ROOTS and f.name not in schema.primary_keys]
    if not texts:
        return ()
    biggest = max(step.files, key=lambda f: f.row_count)
    sample = next(reader.rows([biggest], texts, batch_rows=_SAMPLE_ROWS, all_keys=True), None)
    if sample is None:
        return ()
    return tuple(n for n in texts if pc.count_distinct(sample.column(n)).as_py() * 8 <= sample.num_rows)


class _LiveHashes:
    """Collects the key hashes of the rows that stay."""

    def __init__(self, schema: TableSchema) -> None:
        self._names = schema.trimmed_primary_keys
        self._types = list(schema.key_types)
        self._parts: list[np.ndarray] = []

    def add(self, rows: pa.Table) -> None:
        self._parts.append(hash_columns([rows.column(n) for n in self._names], self._types))

    def sorted(self) -> np.ndarray:
        """Return int32[k], each hash once, ascending."""
        return sorted_distinct(np.concatenate(self._parts)) if self._parts else np.zeros(0, np.int32)


Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeysOfBucket:
    """Positions by data file name, int64[k] rising.

    above   in files of higher levels: rows, not deleted, whose key is in one of the level-0 files
    known   in level-0 files: rows whose key is, not deleted, in a higher level
    """

    above: dict[str, Int64s] = field(default_factory=dict)
    known: dict[str, Int64s] = field(default_factory=dict)


def find_keys_above(
    reader: BucketReader,
    schema: TableSchema,
    new: Sequence[DataFileMeta],
    above: Sequence[LevelRun],
) -> KeysOfBucket:
    """Find the keys of level-0 files in higher levels.

    new      level-0 files, any order
    above    runs of the levels to look in
    memory   a batch of keys per level-0 file, one of the level, and the positions found
    errors   those of reading data files
    """
    hits: dict[str, list[Int64s]] = {}
    out = KeysOfBucket()
    for run in above:
        files = _touched(run.files, new, schema)
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
        # More than one level may have a key, and more than one level-0 file.
        (out.known if name in names else out.above)[name] = sorted_distinct(np.concatenate(parts))
    return out


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
