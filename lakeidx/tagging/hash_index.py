"""hash: Paimon's own HASH index files, one set of key hashes per bucket; the default, and what Java reads and goes on with.

source   org.apache.paimon.index.{HashBucketAssigner,PartitionIndex}, release 1.4.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakeidx.tagging.base import Int32s, KeyBatch, StatelessTagger, TagContext, TagResult, no_locations
from lakeidx.tagging.figures import TagFigures
from lakeidx.tagging.key_codes import KeyCodes
from lakeidx.tagging.key_set import KeySet


@dataclass(frozen=True)
class HashTagger(StatelessTagger):
    """Two keys with one hash share a bucket, as they do for Java; which file has a key is not known."""

    name: str = "hash"
    is_global: bool = False
    moves_keys: bool = False

    def tag(self, batch: KeyBatch, context: TagContext) -> TagResult:
        """Where the batch's hashes live.

        cost   reads the HASH files of the batch's partitions; memory: them, and a table of the batch's hashes
        """
        n = len(batch)
        if not n:
            return no_locations(batch)
        keys = KeySet(KeyCodes(ints=batch.hashes.astype(np.int64)), batch.partition)
        figures = TagFigures(keys=n)

        def find(partition: int) -> list[tuple[int, Int32s, int]]:
            found = []
            for bucket, hashes in context.view.hashes(batch.partitions[partition]):
                rows = keys.find(KeyCodes(ints=hashes.astype(np.int64)), partition)
                found.append((bucket, rows[rows >= 0], len(hashes)))
            return found

        bucket_of = np.full(n, -1, np.int32)
        for part in context.pool.map(find, range(len(batch.partitions))):
            for bucket, rows, count in part:
                figures.files += 1
                figures.files_read += 1
                figures.rows_read += count
                figures.bytes_read += 4 * count
                figures.split_keys += int((bucket_of[rows] >= 0).sum())
                # Java loads the files into one map, so a hash that two of them have belongs to the later one.
                bucket_of[rows] = bucket
        located = bucket_of[keys.first]
        figures.found = int((located >= 0).sum())
        return TagResult(
            bucket=located,
            partition=batch.partition,
            partitions=batch.partitions,
            file=np.full(n, -1, np.int32),
            figures=figures,
        )
