"""Widening of types: one may replace another when every value of the old type is one of the new without loss."""

from __future__ import annotations

from dataclasses import replace

from lakeidx.types.model import BYTES_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Root

_INT_ORDER = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_INT_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}


def is_widening(old: DataType, new: DataType) -> bool:
    """Return True when every value of `old` is one of `new` without loss, nullability aside."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if old.root in _INT_ORDER:
        if new.root in _INT_ORDER:
            return _INT_ORDER.index(new.root) >= _INT_ORDER.index(old.root)
        if new.root is Root.DECIMAL:
            return new.precision - new.scale >= _INT_DIGITS[old.root]
        return new.root is Root.DOUBLE or (new.root is Root.FLOAT and old.root in (Root.TINYINT, Root.SMALLINT))
    if old.root is Root.FLOAT:
        return new.root is Root.DOUBLE
    if old.root is Root.DECIMAL:
        return (
            new.root is Root.DECIMAL
            and new.scale >= old.scale
            and new.precision - new.scale >= old.precision - old.scale
        )
    if old.root in STRING_ROOTS:
        return new.root is Root.VARCHAR and new.length >= old.length
    if old.root in BYTES_ROOTS:
        return new.root is Root.VARBINARY and new.length >= old.length
    if old.root is Root.TIME or old.root in TIMESTAMP_ROOTS:
        return new.root is old.root and new.precision >= old.precision
    return False


def same_shape(left: DataType, right: DataType) -> bool:
    """Return True when two types differ at most in field ids, descriptions and defaults of their nested fields."""
    return _bare(left) == _bare(right)


def _bare(t: DataType) -> DataType:
    return replace(
        t,
        key=None if t.key is None else _bare(t.key),
        element=None if t.element is None else _bare(t.element),
        fields=tuple(replace(f, id=0, type=_bare(f.type), description=None, default_value=None) for f in t.fields),
    )
