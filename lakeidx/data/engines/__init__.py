"""Merge engines: what becomes of several rows of one key."""

from lakeidx.data.engines.base import MergeEngine
from lakeidx.data.engines.factory import make_engine, validate_merge_options
from lakeidx.data.engines.writing import apply_write_options, sequence_fields

__all__ = ["MergeEngine", "apply_write_options", "make_engine", "sequence_fields", "validate_merge_options"]
