"""Column lineage of an asset, as far as its metadata declares it: it cannot be derived from the asset's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import dagster as dg

from lakeidx.errors import InvalidInputError, did_you_mean

#: ``by_name``, or the sources of columns: ``{"total": ["shop/orders.price"]}``.
Lineage = Literal["by_name"] | dict[str, tuple[str, ...]]


def lineage_of(
    wanted: Lineage, columns: Sequence[str], upstream: Mapping[dg.AssetKey, Sequence[str] | None]
) -> dg.TableColumnLineage:
    """Return the lineage of an asset's columns.

    columns    of the asset
    upstream   the assets before it, and their columns where they are known
    errors     InvalidInputError for a column, or an asset, that is not there
    """
    if wanted == "by_name":
        known = {key: names for key, names in upstream.items() if names is not None}
        sources = {c: [dg.TableColumnDep(key, c) for key, names in known.items() if c in names] for c in columns}
        return dg.TableColumnLineage({c: found for c, found in sources.items() if found})
    assert isinstance(wanted, dict)
    for column in wanted:
        _check(column, columns, "column")
    return dg.TableColumnLineage({c: [_source(text, upstream) for text in texts] for c, texts in wanted.items()})


def _source(text: str, upstream: Mapping[dg.AssetKey, Sequence[str] | None]) -> dg.TableColumnDep:
    asset, dot, column = text.rpartition(".")
    if not dot:
        raise InvalidInputError(f"column_lineage: write {text!r} as asset/key.column")
    _check(asset, [k.to_user_string() for k in upstream], "asset before it")
    key = dg.AssetKey.from_user_string(asset)
    names = upstream[key]
    if names is not None:
        _check(column, names, f"column of {asset}")
    return dg.TableColumnDep(key, column)


def _check(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise InvalidInputError(f"column_lineage: there is no {what} {name!r}; {did_you_mean(name, list(known))}")
