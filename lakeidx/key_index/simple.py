"""simple and global-simple: join the batch with all keys of the partitions it touches (of all partitions, for the global form).

source   org.apache.hudi.index.simple.{HoodieSimpleIndex,HoodieGlobalSimpleIndex}, release 1.0.2
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.key_index.joined import FileJoiner
from lakeidx.key_index.port import IndexContext
from lakeidx.tasks.runner import LocalRunner


@dataclass(frozen=True)
class SimpleKeyIndex(FileJoiner):
    """Key index without filter and range: every key of the files is read."""

    is_global: bool = False
    moves_keys: bool = False

    def threads(self, context: IndexContext) -> LocalRunner:
        """Return as many threads as Hudi's option for the type says."""
        options = context.options
        wanted = (
            options.hoodie_global_simple_index_parallelism
            if self.is_global
            else options.hoodie_simple_index_parallelism
        )
        return LocalRunner(wanted) if wanted else context.pool
