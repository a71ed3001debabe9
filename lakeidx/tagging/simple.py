"""simple and global-simple: join the batch with all keys of the partitions it touches (of all partitions, for the global form).

source   org.apache.hudi.index.simple.{HoodieSimpleIndex,HoodieGlobalSimpleIndex}, release 1.0.2
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.tagging.base import KeyBatch, StatelessTagger, TagContext, TagResult, TaskPool, ThreadPool, no_locations
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.key_set import KeySet
from lakeidx.tagging.locate import Matches, join_matches, locate_anywhere, locate_in_partition, match_file


@dataclass(frozen=True)
class SimpleTagger(StatelessTagger):
    """No filter and no range: every key of the files is read."""

    is_global: bool = False
    moves_keys: bool = False

    @property
    def name(self) -> str:
        """``simple`` or ``global-simple``."""
        return "global-simple" if self.is_global else "simple"

    def tag(self, batch: KeyBatch, context: TagContext) -> TagResult:
        """Where the batch's keys live.

        cost   reads the key columns of all files looked at; memory: a table of the batch's keys, and one file's per
               thread
        """
        if not len(batch):
            return no_locations(batch)
        files = context.view.files(None if self.is_global else batch.partitions)
        figures = TagFigures(keys=len(batch), files=len(files))
        keys = KeySet(batch.codes, None if self.is_global else batch.partition)
        number = {p: i for i, p in enumerate(batch.partitions)}

        def match(i: int) -> Matches:
            partition = 0 if self.is_global else number[files[i].partition]
            return match_file(files[i], i, keys, context, partition=partition, versions=self.is_global)

        # Largest files first, so that the last thread does not start with one.
        order = sorted(range(len(files)), key=lambda i: -files[i].meta.row_count)
        matches = join_matches(_pool(context, self.is_global).map(match, order))
        if self.is_global:
            return locate_anywhere(batch, keys, files, matches, figures, context=context)
        return locate_in_partition(batch, keys, files, matches, figures)


def _pool(context: TagContext, is_global: bool) -> TaskPool:
    options = context.options
    wanted = options.hoodie_global_simple_index_parallelism if is_global else options.hoodie_simple_index_parallelism
    return ThreadPool(wanted) if wanted else context.pool
