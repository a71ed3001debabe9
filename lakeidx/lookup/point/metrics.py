"""Counters of point lookups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class LookupMetrics:
    """Counters of what lookups have cost so far.

    keys, found    asked and answered
    not_indexed    keys that ended at the hash index
    lookup_files   asked
    data_files     read: they have no lookup file, or one without rows
    """

    keys: int = 0
    found: int = 0
    not_indexed: int = 0
    lookup_files: int = 0
    data_files: int = 0
