"""Questions about a predicate's shape: its columns, its conjuncts, what it implies for some columns only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakeidx.predicate.tree import (
    FALSE,
    TRUE,
    And,
    Compare,
    Constant,
    In,
    Leaf,
    Op,
    Or,
    Predicate,
    and_,
    map_reference,
    or_,
)


def leaves(pred: Predicate) -> list[Leaf]:
    """Return all leaves, left to right."""
    if isinstance(pred, Leaf):
        return [pred]
    if isinstance(pred, (And, Or)):
        return [leaf for child in pred.children for leaf in leaves(child)]
    return []


def columns(pred: Predicate) -> tuple[str, ...]:
    """List the table columns that must be read to evaluate the predicate, in order of first use."""
    return tuple(dict.fromkeys(leaf.source for leaf in leaves(pred)))


def split_and(pred: Predicate) -> tuple[Predicate, ...]:
    """Split into the conjuncts: all must be true. TRUE has none."""
    if isinstance(pred, And):
        return pred.children
    return () if pred == TRUE else (pred,)


def project(pred: Predicate, keep: Collection[str]) -> Predicate:
    """Return the strongest predicate over some columns that `pred` implies (TRUE when it implies nothing about them).

    keep  table columns; a partition or a file that fails the result holds no selected row
    """
    if isinstance(pred, And):
        return and_(project(c, keep) for c in pred.children)
    if isinstance(pred, Or):
        return or_(project(c, keep) for c in pred.children)
    if isinstance(pred, Leaf) and pred.source not in keep:
        return TRUE
    return pred


def rename(pred: Predicate, mapping: Mapping[str, str]) -> Predicate:
    """Rename the columns of a predicate; columns that are not in `mapping` keep theirs."""
    if isinstance(pred, And):
        return and_(rename(c, mapping) for c in pred.children)
    if isinstance(pred, Or):
        return or_(rename(c, mapping) for c in pred.children)
    if isinstance(pred, Leaf):
        source = mapping.get(pred.source, pred.source)
        return replace(pred, column=source if pred.map_key is None else map_reference(source, pred.map_key))
    return pred


def equality_values(pred: Predicate, names: Sequence[str], *, limit: int = 1000) -> list[tuple[Any, ...]] | None:
    """Return all value combinations of some columns that a selected row can have, if = and IN fix every one of them.

    pred     bound: literals are internal values
    names    columns, e.g. the bucket keys
    limit    the most combinations to list
    returns  tuples in the order of `names`, without repetition; an empty list when no row can be selected;
             None when a column is not limited to listed values, or there are more than `limit` combinations
    """
    if pred == FALSE:
        return []
    domains = [_domain(pred, name) for name in names]
    if any(d is not None and not d for d in domains):
        return []
    if not domains or any(d is None for d in domains) or math.prod(len(d) for d in domains if d) > limit:
        return None
    return list(itertools.product(*(list(d) for d in domains if d)))


def _domain(pred: Predicate, name: str) -> dict[Any, None] | None:
    """Return the values that `pred` allows for a column, as the keys of a dict (which keeps their order); None = any."""
    if isinstance(pred, Constant):
        return None if pred.value else {}
    if isinstance(pred, And):
        known = [d for d in (_domain(c, name) for c in pred.children) if d is not None]
        return {v: None for v in known[0] if all(v in d for d in known[1:])} if known else None
    if isinstance(pred, Or):
        joined: dict[Any, None] = {}
        for child in pred.children:
            domain = _domain(child, name)
            if domain is None:
                return None
            joined.update(domain)
        return joined
    if isinstance(pred, Compare) and pred.column == name and (pred.op is Op.EQ or pred.value is None):
        return _listed((pred.value,))
    if isinstance(pred, In) and pred.column == name and not pred.negated:
        return _listed(pred.values)
    return None


def _listed(values: Sequence[Any]) -> dict[Any, None] | None:
    kept = [v for v in values if v is not None]
    # Zero has two encodings as a float and NaN many: a caller that hashes the values would miss rows.
    if any(isinstance(v, float) and (v == 0 or math.isnan(v)) for v in kept):
        return None
    return dict.fromkeys(kept)
