"""Aggregate functions over whole columns."""

from lakeidx.data.engines.functions.fold import fold_column

__all__ = ["fold_column"]
