"""Resources for assets that are written by hand: one table, or the tables of a warehouse.

Dagster reads these classes' annotations when they are defined, so they are real types, not postponed texts.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from lakeidx.api import Table, Warehouse
from lakeidx.dagster.metadata.overview import size_metadata
from lakeidx.dagster.metadata.reports import state_metadata, table_metadata
from lakeidx.dagster.resources import StoreResource
from lakeidx.results import Result
from lakeidx.table.newest import load_newest


class LakeIdxCatalog(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The tables below a folder or ``s3://`` prefix, by ``database.table``."""

    warehouse: str = Field(description="folder or s3:// prefix: /lake, s3://bucket/lake")
    store: StoreResource | None = Field(default=None, description="access to S3; None = the environment (AWS_*)")

    def open(self) -> Warehouse:
        """Open the warehouse."""
        return Warehouse(self.warehouse, _options(self.store, self.warehouse))

    def table(self, name: str) -> Table:
        """Open ``database.table``; NotFoundError names the tables there are."""
        return self.open().table(name)


class LakeIdxTable(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One table."""

    uri: str = Field(description="the table's directory: /lake/shop.db/orders, s3://bucket/lake/shop.db/orders")
    store: StoreResource | None = Field(default=None, description="access to S3; None = the environment (AWS_*)")

    def open(self) -> Table:
        """Open the table; NotFoundError when it does not exist."""
        return Table.open(self.uri, _options(self.store, self.uri))

    def materialized(
        self, done: Result | None = None, asset_key: dg.AssetKey | str | Sequence[str] | None = None
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Return a result with the table as it is now: columns, name, snapshot as metadata, and as data version.

        done   what a call of the table gave back: its metrics are metadata, too
        """
        table = self.open()
        key = None if asset_key is None else dg.AssetKey.from_coercible(asset_key)
        facts, version = table_facts(table)
        return dg.MaterializeResult(asset_key=key, metadata={**facts, **metrics(done)}, data_version=version)


def table_facts(table: Table) -> tuple[dict[str, Any], dg.DataVersion | None]:
    """Return what consumers of a table see: its name, URI, columns, newest snapshot and size.

    returns   with it the data version: that snapshot; None before the first
    """
    database, name = table.uri.rstrip("/").rsplit("/", 2)[-2:]
    view = load_newest(table.metadata)
    facts = {
        **size_metadata(view),
        **table_metadata(f"{database.removesuffix('.db')}.{name}", table.uri, table.schema),
        **state_metadata(table.metadata, view),
    }
    return facts, None if view.snapshot is None else dg.DataVersion(view.snapshot.identity)


def metrics(done: Result | None) -> dict[str, Any]:
    """Return the numbers of a call's result as metadata."""
    found = {} if done is None else done.as_dict()
    return {f"lakeidx/{k}": v for k, v in found.items() if isinstance(v, (bool, int, float))}


def _options(store: StoreResource | None, uri: str) -> dict[str, Any] | None:
    return None if store is None else store.storage_options(uri)
