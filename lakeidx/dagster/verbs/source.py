"""Rows of an asset of the code location: of a table itself, or what the asset's IO manager loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from lakeidx.errors import InvalidInputError

if TYPE_CHECKING:
    from lakeidx.dagster.resources import TableResource


def rows_of_asset(context: dg.OpExecutionContext, tables: TableResource, source: str, partition: str | None) -> Any:
    """Return the rows of an asset: of a table of lakeidx its newest ones, of others what was materialized last.

    source      key of the asset, ``team/customers``
    partition   of the asset; None = all of it
    errors      InvalidInputError for an asset that this code location does not have, or partitions of a table
    memory      the rows
    """
    key, repository = dg.AssetKey.from_user_string(source), context.repository_def
    if not repository.asset_graph.has(key):
        raise InvalidInputError(f"source {source}: this code location has no such asset")
    metadata = repository.asset_graph.get(key).metadata
    if "dagster/table_name" not in metadata:
        return repository.load_asset_value(
            key, python_type=pa.Table, instance=context.instance, partition_key=partition
        )
    if partition is not None:
        raise InvalidInputError(f"partition {partition}: {source} is a table; pick its rows by a condition in `when`")
    from lakeidx.api.table import Table

    uri = str(getattr(metadata["dagster/uri"], "value", metadata["dagster/uri"]))
    return Table.open(uri, tables.store.storage_options(uri)).scan().to_arrow()
