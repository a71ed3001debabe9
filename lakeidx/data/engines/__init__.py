"""Merge engines: what becomes of several rows of one key.

Import `factory.make_engine`; an engine takes runs of rows that are sorted by key and sequence number, and works on whole columns.
Aggregate functions live in `functions`, those that take one record at a time in `scalar`; merging of runs in `lakeidx.data.merge`.
"""

from lakeidx.data.engines.factory import MergeEngine, make_engine, validate_merge_options
from lakeidx.data.engines.writing import apply_write_options, kinds_by_column

__all__ = [
    "MergeEngine",
    "apply_write_options",
    "kinds_by_column",
    "make_engine",
    "validate_merge_options",
]
