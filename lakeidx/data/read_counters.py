"""What reading data files has cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReadCounters:
    """What reading data files has cost; add up over files.

    files              files opened
    row_groups         row groups of these files
    row_groups_read    those that were decoded, if only the columns of a filter
    rows_read          rows decoded
    rows_given         rows handed on, after positions were filtered
    bytes_read         compressed bytes of the decoded columns
    bytes_spared       compressed bytes of the same columns in row groups that were left out, or of which only the columns
                       of the filter were decoded
    """

    files: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    rows_read: int = 0
    rows_given: int = 0
    bytes_read: int = 0
    bytes_spared: int = 0

    def add(self, other: ReadCounters) -> None:
        """Add another reader's counts to these."""
        self.files += other.files
        self.row_groups += other.row_groups
        self.row_groups_read += other.row_groups_read
        self.rows_read += other.rows_read
        self.rows_given += other.rows_given
        self.bytes_read += other.bytes_read
        self.bytes_spared += other.bytes_spared
