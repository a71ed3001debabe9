"""Carry out the compaction of one bucket: read, merge, write the new files, and return what to commit.

Nothing is deleted here: replaced files go when their snapshots expire. A crash leaves new files that nothing refers to.

source   org.apache.paimon.mergetree.compact.MergeTreeCompactTask, MergeTreeCompactRewriter, release 1.4.2
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.bucket_assignment.hash_set import sorted_distinct
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.compaction.bucket import BucketCompaction, BucketReader, CompactedBucket, FilePositions, entry_of
from lakeidx.compaction.index_changes import hash_index_changes, vector_changes
from lakeidx.compaction.levels import build_levels
from lakeidx.compaction.lookup.find_keys import KeysOfBucket, find_keys_above
from lakeidx.compaction.lookup.stored_keys import Need, StoredKeys
from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.pick import LevelRun
from lakeidx.compaction.plan import Rewrite, Step, Upgrade
from lakeidx.data.engines import make_engine
from lakeidx.data.merge.changelog import Changelog
from lakeidx.data.merge.levels import with_level
from lakeidx.data.merge.merge_runs import merge_sorted_runs
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.data_file import DataFileMeta, FileSource
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.manifest import FileKind
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.schema.table_schema import check_use
from lakeidx.key_index.registry import built_beside
from lakeidx.options.features import Use
from lakeidx.table.commit.changes import TableChanges
from lakeidx.table.intervals import Section
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
    with closing(_Steps(work)) as steps:
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
        self._stored = self._lookup_files()
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
        if not (options.deletion_vectors or self._first_row or self._merges_above(step)):
            return KeysOfBucket()
        new = [f for f in step.files if f.level == 0]
        found = find_keys_above(self._reader, self._work.schema, new, self._above, self._stored)
        if options.deletion_vectors:
            for name, positions in found.above.items():
                before = self.made.deleted.get(name)
                self.made.deleted[name] = positions if before is None else np.union1d(before, positions)
        return found

    def _lookup_files(self) -> StoredKeys | None:
        work = self._work
        if not work.lookups or not self._above or self._options is None:
            return None
        need = Need.POSITIONS if self._options.deletion_vectors else Need.KEYS if self._first_row else Need.ROWS
        return StoredKeys(work.metadata, work.schema, work.lookups, need)

    def close(self) -> None:
        """Close what was opened for all steps."""
        if self._stored is not None:
            self._stored.close()

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
            runs += [self._run_above(run, found, encoded, levels=levels) for run in self._above]
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

    def _run_above(
        self, run: LevelRun, found: KeysOfBucket, encoded: Sequence[str], *, levels: bool
    ) -> Iterator[pa.Table]:
        """Return the rows of a higher level whose keys were found: read at their positions, or from a lookup file."""
        for file in run.files:
            rows = found.rows.get(file.file_name)
            if rows is None:
                yield from self._run([file], encoded, levels=levels, only=found.above)
                continue
            by_level = levels or self._work.schema.table_options.merges_by_level
            given = with_level([rows], file.level) if by_level else iter([rows])
            expiry = self._work.expiry
            yield from given if expiry is None else map(expiry.drop_expired, given)

    def _changelog(self, writer: DataFileWriter) -> Changelog:
        assert self._options is not None
        top = self._work.task.max_level if self._options.changelog_producer == "full-compaction" else None
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
