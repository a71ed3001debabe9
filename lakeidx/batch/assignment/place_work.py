"""What placing the rows of a batch needs to know, in whichever process it is done."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.batch.context import BatchContext
from lakeidx.batch.index_types import TableIndex
from lakeidx.bucket_assignment.assign_plan import AssignPlan
from lakeidx.bucket_assignment.rules import RandomBuckets
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class PlaceWork:
    """One batch on one snapshot; pickles, and its size does not grow with rows, parts or buckets.

    staging     where the batch is staged
    index       the table's index type
    snapshot    the state that keys are looked for in; None for a table without snapshots
    fresh       the batch replaces what is there: nothing is known, buckets are filled again from 0
    directory   where targets are written
    plan        placing tasks, and who owns which hashes and buckets
    here        the one task runs in the process that plans the batch, with what that keeps of the index
    """

    metadata: TableMetadata
    staging: ObjectStore
    schema: TableSchema
    index: TableIndex
    snapshot: Snapshot | None
    batch_id: str
    fresh: bool
    directory: str
    plan: AssignPlan
    here: bool

    @classmethod
    def of(
        cls, context: BatchContext, schema: TableSchema, snapshot: Snapshot | None, directory: str, tasks: int | None
    ) -> PlaceWork:
        """Make the work of a batch; `tasks` are at most those that may run at a time, None: one in this process."""
        here, options = tasks is None, schema.table_options
        if tasks is None:
            target_rows, max_buckets = options.dynamic_bucket_target_row_num, options.dynamic_bucket_max_buckets
            plan = AssignPlan(target_rows=target_rows, max_buckets=max_buckets)
        else:
            plan = plan_assigners(schema, tasks)
        files, fresh, index = context.files, context.overwrite is not None, TableIndex.of(schema)
        return cls(context.metadata, files.store, schema, index, snapshot, files.batch_id, fresh, directory, plan, here)

    def pick(self, task: int) -> RandomBuckets:
        """Return the draws of buckets; seeded by batch and task, so that either may be run again and decides the same."""
        return RandomBuckets.seeded(f"{self.batch_id}#{task}")


def plan_assigners(schema: TableSchema, parallelism: int) -> AssignPlan:
    """Plan how many assigners share the work, by the table's dynamic-bucket options and the runner's slots."""
    options = schema.table_options
    return AssignPlan.from_options(
        parallelism=parallelism,
        target_rows=options.dynamic_bucket_target_row_num,
        max_buckets=options.dynamic_bucket_max_buckets,
        initial_buckets=options.dynamic_bucket_initial_buckets,
        assigner_parallelism=options.dynamic_bucket_assigner_parallelism,
    )
