"""Figures of planning and reading a scan: per layer in the plan, added up over files while reading."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeidx.data.positions import ReadCounters


@dataclass(slots=True)
class LayerTrace:
    """Input and output of one layer of planning or reading.

    unit       what is counted: manifests, files, row groups, rows
    came_in, kept, bytes_in, bytes_kept   counts and bytes before and after
    false_positives   units that were let through and held no selected row; None where no one can know
    """

    layer: str
    unit: str
    came_in: int = 0
    kept: int = 0
    bytes_in: int = 0
    bytes_kept: int = 0
    seconds: float = 0.0
    false_positives: int | None = None

    @property
    def spared(self) -> int:
        """Units this layer left out."""
        return self.came_in - self.kept


@dataclass(slots=True)
class IndexTally:
    """Counts of the file indexes of one type and column, for files that were about to be read.

    asked             files whose index was queried
    spared            of these, files that it ruled out
    false_positives   files that it let through and that held no selected row
    bytes             of the payloads, as far as they were read
    """

    asked: int = 0
    spared: int = 0
    false_positives: int = 0
    bytes: int = 0

    def add(self, other: IndexTally) -> None:
        """Add another tally to this one."""
        self.asked += other.asked
        self.spared += other.spared
        self.false_positives += other.false_positives
        self.bytes += other.bytes


@dataclass(slots=True)
class ScanMetrics:
    """Cost of reading. Each unit of work counts for itself; sums are made when a unit is done.

    read              of the data files that were opened
    planned_files     files that came to reading, and their bytes
    opened_bytes      bytes of the files that were opened (not all of them are read)
    false_positives   files that were opened and gave no selected row; of files that are merged together all or none
    index_seconds     time to read and ask file indexes
    index_bytes       bytes read for them (side files only: embedded ones come with the manifest)
    index_failures    file indexes that could not be used; their files were read whole
    rows_merged       rows after merging, before the filter
    rows_selected     rows that passed the filter
    read_seconds      time to read, merge and filter, summed over threads
    indexes           (index type, column) -> tally
    """

    read: ReadCounters = field(default_factory=ReadCounters)
    planned_files: int = 0
    planned_bytes: int = 0
    opened_bytes: int = 0
    false_positives: int = 0
    index_seconds: float = 0.0
    index_bytes: int = 0
    index_failures: int = 0
    rows_merged: int = 0
    rows_selected: int = 0
    read_seconds: float = 0.0
    indexes: dict[tuple[str, str], IndexTally] = field(default_factory=dict)

    def tally(self, index_type: str, column: str) -> IndexTally:
        """Find the tally of one index type and column, begun when it is new."""
        return self.indexes.setdefault((index_type, column), IndexTally())

    def add(self, other: ScanMetrics) -> None:
        """Add another unit's metrics to these."""
        self.read.add(other.read)
        self.planned_files += other.planned_files
        self.planned_bytes += other.planned_bytes
        self.opened_bytes += other.opened_bytes
        self.false_positives += other.false_positives
        self.index_seconds += other.index_seconds
        self.index_bytes += other.index_bytes
        self.index_failures += other.index_failures
        self.rows_merged += other.rows_merged
        self.rows_selected += other.rows_selected
        self.read_seconds += other.read_seconds
        for (index_type, column), tally in other.indexes.items():
            self.tally(index_type, column).add(tally)
