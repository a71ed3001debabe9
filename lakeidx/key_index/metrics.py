"""Metrics of tagging."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IndexMetrics:
    """Counts of one tagging; tasks fill their own and are added up.

    keys              keys to locate
    found             of them with a location
    files             files that could hold keys (latest base files, live data files)
    files_pruned      of them ruled out for every key by their ranges
    pairs             (file, key) pairs that were left
    files_probed      files whose filter was probed
    files_without_filter, bad_filters   files whose keys were read because there was no filter, or none that can be read
    filter_hits       pairs a filter let through
    false_positives   of them without the key in the file
    files_read        files whose key columns were read
    row_groups_read, row_groups   read, and all in those files
    rows_read         keys read from files
    bytes_read        compressed bytes of key columns, filters not counted
    split_keys        keys that live in more than one place, which no sound table has
    """

    keys: int = 0
    found: int = 0
    files: int = 0
    files_pruned: int = 0
    pairs: int = 0
    files_probed: int = 0
    files_without_filter: int = 0
    bad_filters: int = 0
    filter_hits: int = 0
    false_positives: int = 0
    files_read: int = 0
    row_groups_read: int = 0
    row_groups: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    split_keys: int = 0

    def add(self, other: IndexMetrics) -> None:
        """Add another task's counts to these."""
        # `fields` takes a tenth of what a small file takes.
        for name in self.__match_args__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, int]:
        """Name -> count."""
        return {name: getattr(self, name) for name in self.__match_args__}
