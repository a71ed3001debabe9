"""Conflicts of HASH index files: what others added to them since a batch was assigned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lakeidx.bucket_assignment.hash_set import missing_from
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.table.commit.conflicts import MOST_FINDINGS
from lakeidx.table.index_files import known_hashes
from lakeidx.table.key_buckets import find_hits
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX
from lakeidx.tasks.in_parallel import in_parallel

#: partition -> bucket -> HASH index entry, as `lakeidx.table.view.SnapshotView.hash_index` gives it.
HashIndex = Mapping[bytes, Mapping[int, IndexEntry]]


def index_conflicts(
    changed: Mapping[bytes, Collection[int]], touched: Collection[tuple[bytes, int]] | None
) -> list[str]:
    """Check rule 4: the HASH index files of the buckets a batch touches are those it was assigned on.

    changed   what `changed_buckets` found
    touched   buckets the batch writes to; None: a key's bucket depends on all buckets of its partition
    """
    findings = []
    for partition, buckets in changed.items():
        mine = sorted(b for b in buckets if touched is None or (partition, b) in touched)
        if mine:
            findings.append(
                f"the hash index changed since the batch was assigned (buckets {', '.join(map(str, mine[:8]))})"
            )
    return findings[:MOST_FINDINGS]


class AddedHashes:
    """The hashes that a commit adds to the index, read from the files it brings and those they replace.

    index   index files of the commit
    """

    def __init__(self, metadata: TableMetadata, schema: TableSchema, index: Sequence[IndexEntry]) -> None:
        self._metadata, self._schema = metadata, schema
        self._files = [e for e in index if e.index_type == HASH_INDEX]
        self._found: dict[bytes, NDArray[np.int32]] = {}

    def conflicts(self, changed: Mapping[bytes, Collection[int]], live: HashIndex) -> list[str]:
        """Check rule 10: none of the hashes was put into another bucket since the batch was assigned.

        changed   buckets whose index file is another one, by partition; none that the commit touches
        live      the index now
        errors    CorruptFileError for a damaged index file; NotFoundError
        """
        findings = []
        for partition, buckets in changed.items():
            now = live.get(partition, {})
            theirs = [now[b] for b in sorted(buckets) if b in now]
            mine = self._of(partition, now) if theirs else np.zeros(0, np.int32)
            if not len(mine):
                continue
            both = [
                hits.entry.bucket
                for hits in find_hits(self._metadata, self._schema, theirs, [mine])
                if np.isin(hits.known, mine).any()
            ]
            if both:
                findings.append(
                    "keys of the batch were added to other buckets since it was assigned (buckets "
                    f"{', '.join(map(str, both[:8]))})"
                )
        return findings[:MOST_FINDINGS]

    def _of(self, partition: bytes, now: Mapping[int, IndexEntry]) -> NDArray[np.int32]:
        """Return the hashes added to a partition; the files that are replaced are live still, or rule 4 had found it."""
        if partition not in self._found:

            def read(entry: IndexEntry) -> NDArray[np.int32]:
                hashes = known_hashes(self._metadata, self._schema, entry)
                old = now.get(entry.bucket)
                if old is None:
                    return hashes
                return missing_from(hashes, known_hashes(self._metadata, self._schema, old))

            files = [e for e in self._files if e.partition == partition]
            found = in_parallel(read, files)
            self._found[partition] = np.concatenate([np.zeros(0, np.int32), *found])
        return self._found[partition]
