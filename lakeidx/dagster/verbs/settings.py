"""Run config of the jobs of verbs. Dagster reads the classes' annotations when they are defined: they are real types."""

from typing import Any

import dagster as dg
from pydantic import Field


class _Verb(dg.Config):
    dry_run: bool = Field(default=False, description="say what would change, change nothing")


class _RowVerb(_Verb):
    limits: dict[str, str] = Field(
        default_factory=dict,
        description="hold the batch beyond one, {deletes: 5%, updates: '1000'}; default: limits of the pipeline file, or the "
        "table's option lakeidx.limits",
    )


class DeleteConfig(_RowVerb):
    """Run config of a delete: by keys, or by a condition."""

    keys: list[dict[str, Any]] | None = Field(default=None, description="rows of the primary key's columns, [{id: 7}]")
    where: str | None = Field(default=None, description="SQL condition of the rows to delete, day < '2026-01-01'")


class UpdateConfig(_RowVerb):
    """Run config of an update: of keys, of the rows of a condition, or of all."""

    set: dict[str, Any] = Field(description="by column a SQL expression over the row, {qty: qty * 10}, or a number")
    keys: list[dict[str, Any]] | None = Field(default=None, description="rows of the primary key's columns, [{id: 7}]")
    where: str | None = Field(default=None, description="SQL condition; without it and keys all rows change")


class MergeConfig(_RowVerb):
    """Run config of a merge of an asset's rows."""

    source: str = Field(description="key of the asset whose rows are merged, team/customers; in this code location")
    partition: str | None = Field(default=None, description="partition of the source; default: all of it")
    on: str | None = Field(
        default=None,
        description="columns that both have, id,day, or a condition, target.id = source.customer; default: the primary key",
    )
    when: list[str] | None = Field(
        default=None,
        description="clauses as in SQL, MATCHED AND source.gone THEN DELETE; of a row the first counts that holds; default: "
        "MATCHED THEN UPDATE SET *, NOT MATCHED THEN INSERT *",
    )


class DropConfig(_Verb):
    """Run config of a drop of partitions: those that are named, or those of a condition."""

    partitions: list[str] | None = Field(default=None, description="partitions, ['day=2026-11-01']")
    where: str | None = Field(default=None, description="SQL condition over the partition columns")


class ProcedureConfig(_Verb):
    """Run config of any other verb: of branches, tags, consumers and upkeep, under the names of CALL."""

    procedure: str = Field(
        description="create_branch, delete_branch, fast_forward, create_tag, replace_tag, delete_tag, …"
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="those of the procedure by name, without the table: {branch: trial, tag: monthly}",
    )


class RollbackConfig(_Verb):
    """Run config of a rollback: to a snapshot, a tag or a time."""

    snapshot: int | None = Field(default=None, description="number of the snapshot")
    tag: str | None = Field(default=None, description="name of the tag")
    timestamp: str | None = Field(default=None, description="the newest snapshot at or before this ISO time")
    keep_history: bool = Field(
        default=False, description="commit the older state as a new snapshot; nothing that came later goes"
    )
