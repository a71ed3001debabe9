"""Settings in the metadata of an asset, an output or an input: how its table is written and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from lakeidx.dagster.io.lineage import Lineage
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.sections import OptionText

WriteMode = Literal["append", "upsert", "overwrite", "delete"]


class _Settings(BaseModel):
    """Keys of metadata; other keys are for others."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def of(cls, metadata: Mapping[str, Any], where: str) -> Self:
        """Read the keys from metadata.

        where    the asset, for messages
        errors   InvalidInputError naming every key that is wrong
        """
        plain = {k: v.value if isinstance(v, dg.MetadataValue) else v for k, v in metadata.items()}
        try:
            return cls.model_validate({k: plain[k] for k in cls.model_fields if k in plain})
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
            raise InvalidInputError(f"metadata of {where}: {'; '.join(problems)}") from error


class OutputSettings(_Settings):
    """Settings by which an asset is written.

    table            ``database.table``; default the last two parts of the asset's key
    write_mode       append rows (of a table without primary key), upsert them, overwrite (the asset's partitions, or the table)
                     with them, or delete the rows with their keys; default upsert for a table with primary key
    partition_expr   the table's column that has the partition of the asset; by dimension for an asset with several
    column_lineage   what columns are made of: ``by_name``: of the columns of the same name in the assets before it, or the sources
                     of each: ``{"total": ["shop/orders.price"]}``
    primary_keys, partition_keys, options   of the table, when it is created
    """

    table: str | None = None
    write_mode: WriteMode | None = None
    partition_expr: str | dict[str, str] | None = None
    column_lineage: Lineage | None = None
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, OptionText] = {}

    @field_validator("primary_keys", "partition_keys", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class InputSettings(_Settings):
    """Settings by which an asset is read.

    table            as for outputs
    columns          only these, in order
    where            SQL condition, e.g. ``carrier = 'UA' AND month >= 6``
    version          state to read: ``newest``; ``materialized``: the snapshot of the asset's newest materialization, whoever has
                     written since; a data version, snapshot id, tag or ISO time
    partition_expr   the column of the partitions that are asked for, default what the upstream asset says; where it is asked for as
                     a whole, the column of the reading asset's own partitions
    """

    table: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    version: str | int = "newest"
    partition_expr: str | dict[str, str] | None = None
