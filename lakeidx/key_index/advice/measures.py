"""Measures of a workload that decide between index types, and needs that an index must meet."""

from __future__ import annotations

from dataclasses import dataclass

#: Candidate files per key, as a share of the partition's files, up to which keys count as ordered, and as partly
#: ordered.
_ORDERED_SPREAD, _PARTLY_SPREAD = 0.2, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Measures that decide about the cost of an index.

    rows, bytes         of the table's live files (rows count every version of a key)
    files, partitions   live data files, partitions with files
    batch_rows          keys per batch
    key_bytes           mean bytes of a record key's text
    key_column_bytes    mean compressed bytes of a key in a data file
    spread              candidate files per key by key range, as a share of the files of its partition: near 0 for
                        keys in order of files, 1 when every file may hold every key
    touched_files       files that some key of a whole batch may be in, by range
    touched_rows        rows of the partitions that a batch touches
    touched_partitions  partitions that a batch touches
    held_files          files that hold a key of a whole batch
    update_share        share of a batch's keys that are known
    move_share          share of the known keys that live in another partition than their row's
    largest_file_rows   rows of the largest file
    text_keys           False when keys are compared as numbers
    """

    rows: int
    bytes: int
    files: int
    partitions: int
    batch_rows: int
    key_bytes: float
    key_column_bytes: float
    spread: float
    touched_files: float
    touched_rows: float
    touched_partitions: float
    held_files: float
    update_share: float
    move_share: float
    largest_file_rows: int
    text_keys: bool = True

    @property
    def key_order(self) -> str:
        """ordered, partly ordered or random."""
        if self.spread <= _ORDERED_SPREAD:
            return "ordered"
        return "partly ordered" if self.spread <= _PARTLY_SPREAD else "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Needs that an index must meet.

    moves          keys change partition, and a key is to live in one at a time
    other_writers  Java Paimon, or other programs, write the table, too
    stateless      store nothing outside the table (no local disk, no server)
    hbase          an HBase with Thrift is there
    cross_partition   the primary key leaves out partition columns (Paimon's cross-partition mode)
    """

    moves: bool = False
    other_writers: bool = False
    stateless: bool = False
    hbase: bool = False
    cross_partition: bool = False
