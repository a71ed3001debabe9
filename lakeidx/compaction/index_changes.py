"""Index entries that a bucket's compaction changes: a shrunk hash index, deletion vectors of removed files, new ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from lakeidx.compaction.bucket import BucketCompaction, FilePositions
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind
from lakeidx.table.deletion_vectors import read_deletion_vector, write_deletion_vectors
from lakeidx.table.index_files import write_hash_index
from lakeidx.table.view import DELETION_VECTORS, HASH_INDEX


def hash_index_changes(
    work: BucketCompaction, names: NewFileNames, hashes: npt.NDArray[np.int32]
) -> tuple[list[IndexEntry], int]:
    """Rewrite the hash index when keys were dropped; return the entries and the number of removed hashes.

    hashes   int32[k]: of the live keys, each once
    """
    changes: list[IndexEntry] = []
    dropped = 0
    for entry in work.index:
        if entry.index_type == HASH_INDEX:
            dropped = entry.row_count - len(hashes)
            if dropped > 0:
                changes.append(write_hash_index(work.metadata, work.schema, work.partition, work.bucket, hashes, names))
    return changes, dropped


def vector_changes(
    work: BucketCompaction, names: NewFileNames, gone: Collection[str], deleted: FilePositions
) -> list[IndexEntry]:
    """Update the deletion vectors to the state after the compaction; return the entries that change.

    gone      data files that the compaction replaces
    deleted   rows of other data files that it has superseded
    """
    entries = [e for e in work.index if e.index_type == DELETION_VECTORS]
    if deleted:
        return [*(replace(e, kind=FileKind.DELETE) for e in entries), _merged_vectors(work, names, gone, deleted)]
    changes: list[IndexEntry] = []
    for entry in entries:
        if not any(r.data_file_name in gone for r in entry.dv_ranges or ()):
            continue
        left = tuple(r for r in entry.dv_ranges or () if r.data_file_name not in gone)
        # The file keeps its bytes; ranges of files that are gone are no longer named. With none left it goes.
        changes.append(replace(entry, kind=FileKind.DELETE))
        if left:
            changes.append(replace(entry, kind=FileKind.ADD, dv_ranges=left, row_count=len(left)))
    return changes


def _merged_vectors(
    work: BucketCompaction, names: NewFileNames, gone: Collection[str], deleted: FilePositions
) -> IndexEntry:
    """Write the single file of all deletion vectors of the bucket."""
    vectors = {
        name: BitMap64(read_deletion_vector(work.metadata, work.schema, work.partition, work.bucket, place))
        for name, place in work.vectors.items()
        if name not in gone
    }
    for name, positions in deleted.items():
        vectors.setdefault(name, BitMap64()).update(positions.astype(np.uint64))
    return write_deletion_vectors(work.metadata, work.schema, work.partition, work.bucket, vectors, names)
