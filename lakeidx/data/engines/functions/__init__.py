"""Aggregate functions over whole columns, one result per run of rows with the same key.

Import `fold.fold_column` or a module's function; values are internal values of Paimon types and overflow as Java's do.
Functions that take one record at a time are in `lakeidx.data.engines.scalar`.
"""

from lakeidx.data.engines.functions.fold import fold_column

__all__ = ["fold_column"]
