"""bloom and global-bloom: filters in data file footers select the files that may have a key; their key columns decide.

The steps, Hudi's: affected partitions; their files; candidate files per key by key ranges (`file_ranges`,
`key_range`); the pairs shared out (`checking`); each file's filter asked; what it lets through verified by reading
the key columns, row groups pruned; the matches joined back to the batch (`locate`). The global form looks at all
partitions, whatever the rows' own are, in every mode (Hudi searches only the incoming partitions when ranges are off,
and loses keys by it).

Filters come from the footers that lakeidx's writer leaves (`bloom_footer`), or from the metadata cache of the
snapshot. A file without a filter (Java wrote it, say) has its keys read.

source   org.apache.hudi.index.bloom.{HoodieBloomIndex,HoodieGlobalBloomIndex,SparkHoodieBloomIndexHelper}, release
         1.0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lakeidx.codec.hudi.bloom import BloomFilter, FirstHashes, first_hashes
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.key_index.bloom.cache import FilterCache
from lakeidx.key_index.bloom.candidate_checks import CheckPlan, CheckTask, plan_checks, share_out
from lakeidx.key_index.keys.codes import KeyCodes
from lakeidx.key_index.keys.file_ranges import file_slots
from lakeidx.key_index.keys.ranges import Candidates, find_candidates
from lakeidx.key_index.keys.reader import OpenKeyFile
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locate import join_matches, locate_anywhere, locate_in_partition, match_file
from lakeidx.key_index.locations import CommitInfo, Int64s, KeyBatch, KeyLocations, LiveFile, Matches, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext, KeyIndexDefaults


@dataclass(frozen=True)
class BloomKeyIndex(KeyIndexDefaults):
    """Filters first, keys after.

    seed   of the order in which ranges are put into the interval tree; changes the tree's depth, never an answer
    """

    is_global: bool = False
    moves_keys: bool = False
    seed: int = field(default=0, repr=False)

    joins_files = narrows_files = True

    @property
    def name(self) -> str:
        """``bloom`` or ``global-bloom``."""
        return "global-bloom" if self.is_global else "bloom"

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch.

        errors   CorruptFileError, UnsupportedError for a filter that cannot be read, if ``index.bad-filter`` says so
        """
        if not len(batch):
            return no_locations(batch)
        files = context.view.files(None if self.is_global else batch.partitions)
        metrics = IndexMetrics(keys=len(batch), files=len(files))
        keys = KeySet(batch.codes, None if self.is_global else batch.partition)
        distinct = np.flatnonzero(keys.first == np.arange(len(batch)))
        candidates = self._among(batch, distinct, files, context)
        metrics.pairs = int(candidates.counts.sum())
        metrics.files_pruned = int((candidates.counts == 0).sum())
        shares = _share_out(batch, candidates, context)
        cache = FilterCache.load(files, context) if context.options.hoodie_bloom_index_use_metadata else None
        number = {p: i for i, p in enumerate(batch.partitions)}
        # Hashing a key takes most of a test: what is the same for all files is done once, where keys go to two or more.
        hashes = first_hashes(batch.record_keys) if metrics.pairs >= 2 * len(batch) else None
        run = _Run(batch, keys, files, context, cache, number, self.is_global, hashes)
        matches = join_matches([m for part in context.pool.map(run.check, shares) for m in part])
        if self.is_global:
            return locate_anywhere(batch, keys, files, matches, metrics, context=context)
        return locate_in_partition(batch, keys, files, matches, metrics)

    def follows_commits(self, options: IndexOptions) -> bool:
        """Return whether commits are followed: with a metadata cache."""
        return options.hoodie_bloom_index_use_metadata

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        """Update the metadata cache to the new snapshot, if the table uses one."""
        if context.options.hoodie_bloom_index_use_metadata:
            FilterCache.load(context.view.files(None), context).save(context)

    def candidates(self, batch: KeyBatch, files: Sequence[LiveFile], context: IndexContext) -> Candidates:
        """Return the keys whose range a file's is; of keys that come again, the first."""
        first = KeySet(batch.codes, None if self.is_global else batch.partition).first
        return self._among(batch, np.flatnonzero(first == np.arange(len(batch))), files, context)

    def check_file(self, batch: KeyBatch, file: LiveFile, context: IndexContext) -> Matches:
        """Test the filter in the file's footer, and read the keys that pass it.

        errors   CorruptFileError, UnsupportedError for a filter that cannot be read, if ``index.bad-filter`` says so
        """
        keys = KeySet(batch.codes)
        distinct = np.flatnonzero(keys.first == np.arange(len(batch)))
        run = _Run(batch, keys, (file,), context, None, {file.partition: 0}, self.is_global)
        (found,) = run.check([CheckTask(0, distinct)])
        found.metrics.pairs += len(distinct)
        return found

    def _among(self, batch: KeyBatch, distinct: Int64s, files: Sequence[LiveFile], context: IndexContext) -> Candidates:
        """Return the candidate keys of every file, keys as positions in the batch."""
        options = context.options
        rng = np.random.default_rng(self.seed)
        orders: list[Int64s] = []
        starts, stops, base = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64), 0
        for rows, numbers in self._groups(batch, distinct, files):
            slots = file_slots(
                batch, rows, [files[i] for i in numbers], prune=options.hoodie_bloom_index_prune_by_ranges
            )
            found = find_candidates(slots, tree=options.hoodie_bloom_index_use_treebased_filter, rng=rng)
            orders.append(rows[found.order])
            starts[numbers], stops[numbers] = found.starts + base, found.stops + base
            base += len(rows)
        return Candidates(np.concatenate([np.zeros(0, np.int64), *orders]), starts, stops)

    def _groups(self, batch: KeyBatch, distinct: Int64s, files: Sequence[LiveFile]) -> list[tuple[Int64s, Int64s]]:
        """Return (positions of keys, numbers of files) to be compared with each other: all, or partition by partition."""
        if self.is_global:
            return [(distinct, np.arange(len(files)))]
        by_partition: dict[bytes, list[int]] = {}
        for i, file in enumerate(files):
            by_partition.setdefault(file.partition, []).append(i)
        order = distinct[np.argsort(batch.partition[distinct], kind="stable")]
        edges = np.searchsorted(batch.partition[order], np.arange(len(batch.partitions) + 1))
        return [
            (order[edges[p] : edges[p + 1]], np.array(by_partition[partition], np.int64))
            for p, partition in enumerate(batch.partitions)
            if partition in by_partition
        ]


def _share_out(batch: KeyBatch, candidates: Candidates, context: IndexContext) -> list[list[CheckTask]]:
    options = context.options
    counts = candidates.counts.tolist()
    parallelism = options.hoodie_bloom_index_parallelism or context.pool.parallelism
    if options.hoodie_bloom_index_bucketized_checking:
        per_bucket = options.hoodie_bloom_index_keys_per_bucket
        if options.hoodie_bloom_index_bucketized_checking_enable_dynamic_parallelism:
            parallelism = max(1, sum(-(-c // per_bucket) for c in counts))
        plan = plan_checks(counts, keys_per_bucket=per_bucket, parallelism=parallelism)
    else:
        # Files in order, an even number of them to each task.
        some = [i for i, c in enumerate(counts) if c]
        tasks = min(parallelism, len(some))
        place = {file: (k * tasks // len(some),) for k, file in enumerate(some)}
        plan = CheckPlan(tasks, tuple(place.get(i, ()) for i in range(len(counts))))
    shares = share_out(candidates, plan, batch.record_keys if _splits(plan) else RowBytes.empty())
    if options.hoodie_bloom_index_fileid_key_sorting_enable and not options.hoodie_bloom_index_bucketized_checking:
        shares = [[CheckTask(t.file, t.keys[_key_order(batch, t.keys)]) for t in share] for share in shares]
    return shares


def _splits(plan: CheckPlan) -> bool:
    """Return True when some file is checked by several tasks, so that record keys are needed to identify its keys."""
    return any(len(set(tasks)) > 1 for tasks in plan.tasks_of_file)


def _key_order(batch: KeyBatch, keys: Int64s) -> Int64s:
    return np.asarray(pc.array_sort_indices(batch.record_keys.to_arrow().take(keys))).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What the tasks of one `tag` call share."""

    batch: KeyBatch
    keys: KeySet
    files: Sequence[LiveFile]
    context: IndexContext
    cache: FilterCache | None
    number: dict[bytes, int]
    is_global: bool
    hashes: FirstHashes | None = None

    def check(self, share: list[CheckTask]) -> list[Matches]:
        """Check all files of a task."""
        return [self._check_file(task) for task in share]

    def _check_file(self, task: CheckTask) -> Matches:
        metrics = IndexMetrics()
        file = self.files[task.file]
        opened: OpenKeyFile | None = None
        bloom = None
        try:
            if self.cache is None:
                opened = self.context.reader.open(file)
                bloom = opened.footer().bloom_filter(file.path)
            else:
                bloom = self.cache.bloom_filter(file)
            metrics.files_without_filter += bloom is None
        except (CorruptFileError, UnsupportedError):
            if self.context.options.index_bad_filter == "fail":
                raise
            metrics.bad_filters += 1
        rows = task.keys if bloom is None else self._probe(bloom, task.keys, metrics)
        if not len(rows):
            return _nothing(metrics)
        found = match_file(
            file,
            task.file,
            self.keys,
            self.context,
            partition=0 if self.is_global else self.number[file.partition],
            versions=self.is_global,
            wanted=_take(self.batch.codes, rows),
            asked=rows,
            opened=opened,
        )
        if bloom is not None:
            # A data file has each key once.
            metrics.false_positives += len(rows) - len(found.key)
        found.metrics.add(metrics)
        return found

    def _probe(self, bloom: BloomFilter, rows: Int64s, metrics: IndexMetrics) -> Int64s:
        metrics.files_probed += 1
        texts = self.batch.record_keys
        # Hudi has no empty keys and its filters take none: such a key is looked for in the file itself.
        maybe: npt.NDArray[np.bool_] = texts.offsets[rows] == texts.offsets[rows + 1]
        if maybe.any():
            maybe[~maybe] = bloom.test(texts, rows[~maybe], self.hashes)
        else:
            maybe = bloom.test(texts, rows, self.hashes)
        kept: Int64s = rows[maybe]
        metrics.filter_hits += len(kept)
        return kept


def _take(codes: KeyCodes, rows: Int64s) -> KeyCodes:
    if codes.ints is not None:
        return KeyCodes(ints=codes.ints[rows])
    assert codes.rows is not None
    return KeyCodes(rows=codes.rows.take(rows))


def _nothing(metrics: IndexMetrics) -> Matches:
    none = np.zeros(0, np.int64)
    return Matches(none, none, none, none.astype(bool), metrics)
