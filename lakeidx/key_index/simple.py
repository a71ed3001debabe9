"""simple and global-simple: join the batch with all keys of the partitions it touches (of all partitions, for the global form).

source   org.apache.hudi.index.simple.{HoodieSimpleIndex,HoodieGlobalSimpleIndex}, release 1.0.2
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locate import join_matches, locate_anywhere, locate_in_partition, match_file
from lakeidx.key_index.locations import KeyBatch, KeyLocations, Matches, no_locations
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext, KeyIndexDefaults
from lakeidx.tasks.runner import LocalRunner


@dataclass(frozen=True)
class SimpleKeyIndex(KeyIndexDefaults):
    """No filter and no range: every key of the files is read."""

    is_global: bool = False
    moves_keys: bool = False

    joins_files = True

    @property
    def name(self) -> str:
        """``simple`` or ``global-simple``."""
        return "global-simple" if self.is_global else "simple"

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch.

        cost   reads the key columns of all files examined; memory: a table of the batch's keys, and one file's per
               thread
        """
        if not len(batch):
            return no_locations(batch)
        files = context.view.files(None if self.is_global else batch.partitions)
        metrics = IndexMetrics(keys=len(batch), files=len(files))
        keys = KeySet(batch.codes, None if self.is_global else batch.partition)
        number = {p: i for i, p in enumerate(batch.partitions)}

        def match(i: int) -> Matches:
            partition = 0 if self.is_global else number[files[i].partition]
            return match_file(files[i], i, keys, context, partition=partition, versions=self.is_global)

        # Largest files first, so that the last thread does not start with one.
        order = sorted(range(len(files)), key=lambda i: -files[i].meta.row_count)
        matches = join_matches(_pool(context, self.is_global).map(match, order))
        if self.is_global:
            return locate_anywhere(batch, keys, files, matches, metrics, context=context)
        return locate_in_partition(batch, keys, files, matches, metrics)


def _pool(context: IndexContext, is_global: bool) -> LocalRunner:
    options = context.options
    wanted = options.hoodie_global_simple_index_parallelism if is_global else options.hoodie_simple_index_parallelism
    return LocalRunner(wanted) if wanted else context.pool
