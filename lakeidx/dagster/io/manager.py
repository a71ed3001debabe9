"""An IO manager: outputs of assets are written to tables, inputs are read from them.

A step that is tried again writes its rows once where twice would matter (append, merge engine aggregation): the batch is named
after the run and the output. Other writes are the same however often they are made.

Dagster reads the class's annotations when it is defined, so they are real types, not postponed texts.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from lakeidx.api import Table, Warehouse
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import new_batch_id
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.io.frames import is_spark_frame, load_rows, rows_of, schema_of
from lakeidx.dagster.io.lineage import lineage_of
from lakeidx.dagster.io.partitions import partition_condition
from lakeidx.dagster.io.resources import metrics, table_facts
from lakeidx.dagster.io.settings import InputSettings, OutputSettings, WriteMode
from lakeidx.dagster.resources import SparkResource, StoreResource
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.plugins import TOOLS, load_plugin
from lakeidx.predicate import Predicate, format_predicate
from lakeidx.table.history import tag_names
from lakeidx.table.scan.table_scan import bind_where
from lakeidx.table.times import epoch_ms
from lakeidx.types import column_specs

_NEWEST, _MATERIALIZED = "newest", "materialized"
_SNAPSHOT_ID = "lakeidx/snapshot_id"
_RETRIES = "dagster/retry_number"


class LakeIdxIOManager(dg.ConfigurableIOManager):
    """Stores each asset in the table ``database.table`` of its key; metadata has the settings (see `OutputSettings`,
    `InputSettings`).

    A table that is not there is made with the columns of the first rows. Assets return, and take, what their annotations say:
    Arrow, pandas, Polars, DuckDB or Spark.
    """

    warehouse: str = Field(description="folder or s3:// prefix of the tables: /lake, s3://bucket/lake")
    database: str = Field(default="default", description="database of assets whose key has one part")
    table_options: dict[str, str] = Field(default={"bucket": "-1"}, description="options of tables that are made")
    store: StoreResource | None = Field(default=None, description="access to S3; None = the environment (AWS_*)")
    spark: SparkResource | None = Field(
        default=None,
        description="where batches run, and the session of Spark data frames; None = the step's own process",
    )

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write what an asset returned as one batch; the table, its columns and its snapshot become metadata."""
        with failures_explained():
            rows = rows_of(obj)
            settings = OutputSettings.of({**context.definition_metadata, **context.output_metadata}, _place(context))
            table = self._ensured(self._name(context, settings.table), settings, rows)
            mode = _checked_mode(settings, table.schema)
            where = _replaced(context, settings, mode, table.schema)
            done = self._write(table, rows, mode, where, batch_id=_batch_id(context, mode, table.schema))
            lineage = self._lineage(context, settings, table)
            facts, version = table_facts(table)
            context.add_output_metadata({**facts, **lineage, "lakeidx/write_mode": mode, **metrics(done)})
            if version is not None and context.has_asset_key:
                context.step_context.set_data_version(context.asset_key, version)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read an asset's input: columns and rows by its metadata, of the requested partitions."""
        with failures_explained():
            settings = InputSettings.of(context.definition_metadata, _place(context))
            upstream = context.upstream_output
            theirs = OutputSettings.of({} if upstream is None else upstream.definition_metadata, _place(context))
            table = self._warehouse().table(self._name(context, settings.table or theirs.table))
            where: list[str | Predicate] = [settings.where] if settings.where else []
            where += _of_partitions(context, settings.partition_expr, theirs.partition_expr, table.schema)
            state = _state(context, table, settings.version)
            context.log.info(f"reading {table.uri}{''.join(f', {k} {v}' for k, v in state.items())}")
            return load_rows(
                table,
                context.dagster_type.typing_type,
                columns=settings.columns,
                where=where,
                state=state,
                spark=self._spark(),
                storage_options=self._options(),
            )

    def _warehouse(self) -> Warehouse:
        return Warehouse(self.warehouse, self._options())

    def _options(self) -> Mapping[str, Any] | None:
        return None if self.store is None else self.store.storage_options(self.warehouse)

    def _spark(self) -> SparkResource:
        return self.spark or SparkResource(engine="local")

    def _name(self, context: dg.InputContext | dg.OutputContext, given: str | None) -> str:
        if given is not None:
            return given
        if not context.has_asset_key:
            raise InvalidInputError(f"{_place(context)} is not an asset: name its table with metadata 'table'")
        return self._table_of(context.asset_key)

    def _table_of(self, key: dg.AssetKey) -> str:
        return f"{key.path[-2] if len(key.path) > 1 else self.database}.{key.path[-1]}"

    def _ensured(self, name: str, settings: OutputSettings, rows: Any) -> Table:
        """Open the table, or make it with the columns of the rows."""
        warehouse = self._warehouse()
        if name in warehouse:
            return warehouse.table(name)
        columns = schema_of(rows)
        spec = {
            "fields": column_specs(columns),
            "primaryKeys": list(settings.primary_keys),
            "partitionKeys": list(settings.partition_keys),
            "options": {**self.table_options, **settings.options},
        }
        return warehouse.create(name, spec, exist_ok=True)

    def _lineage(self, context: dg.OutputContext, settings: OutputSettings, table: Table) -> dict[str, Any]:
        """Return the column lineage that the asset's metadata declares, if any."""
        if settings.column_lineage is None or not context.has_asset_key:
            return {}
        warehouse = self._warehouse()
        upstream: dict[dg.AssetKey, list[str] | None] = {}
        for dep in context.asset_spec.deps:
            name = self._table_of(dep.asset_key)
            upstream[dep.asset_key] = list(warehouse.table(name).schema.field_names) if name in warehouse else None
        columns = list(table.schema.field_names)
        return {"dagster/column_lineage": lineage_of(settings.column_lineage, columns, upstream)}

    def _write(
        self, table: Table, rows: Any, mode: WriteMode, where: Predicate | None, *, batch_id: str
    ) -> BatchResult | None:
        if is_spark_frame(rows):
            return self._write_frame(table, rows, mode, where, batch_id)
        runner = self._spark().runner(table.uri)
        if mode == "delete":
            return table.delete(rows, batch_id=batch_id, runner=runner)
        if mode == "overwrite":
            return table.overwrite(rows, whole_table=where is None, where=where, batch_id=batch_id, runner=runner)
        return table.upsert(rows, batch_id=batch_id, runner=runner)

    def _write_frame(
        self, table: Table, rows: Any, mode: WriteMode, where: Predicate | None, batch_id: str
    ) -> BatchResult | None:
        """Write a Spark data frame, in Spark's tasks: nothing passes through this process but keys to delete."""
        if mode == "delete":
            return table.delete(rows.toArrow(), batch_id=batch_id, runner=self._spark().runner(table.uri))
        if mode == "overwrite" and where is None and table.schema.partition_keys:
            # Spark's overwrite of a partitioned table would leave the partitions that the frame has no rows for.
            return table.overwrite(rows.toArrow(), whole_table=True, batch_id=batch_id)
        options = {f"storage.{k}": str(v) for k, v in (self._options() or {}).items()}
        if where is not None:
            options["where"] = format_predicate(bind_where(where, table.schema), table.schema.fields)
        upsert = load_plugin(TOOLS, "spark_tables").upsert
        done: BatchResult = upsert(rows, table.uri, batch_id=batch_id, overwrite=mode == "overwrite", options=options)
        return done


def _place(context: dg.InputContext | dg.OutputContext) -> str:
    return context.asset_key.to_user_string() if context.has_asset_key else str(context.name)


def _checked_mode(settings: OutputSettings, schema: TableSchema) -> WriteMode:
    """Return how rows are written.

    errors   InvalidInputError for a mode that the table does not have
    """
    keyed = bool(schema.primary_keys)
    mode = settings.write_mode or ("upsert" if keyed else None)
    if mode is None:
        raise InvalidInputError(
            "the table has no primary key: say write_mode append or overwrite (or give primary_keys)"
        )
    if mode == "append" and keyed:
        raise InvalidInputError("write_mode append is for tables without primary key; use upsert")
    if mode in ("upsert", "delete") and not keyed:
        raise InvalidInputError(f"write_mode {mode} needs a table with a primary key (metadata primary_keys makes one)")
    return mode


def _replaced(
    context: dg.OutputContext, settings: OutputSettings, mode: WriteMode, schema: TableSchema
) -> Predicate | None:
    """Return what an overwrite replaces: the asset's partitions; None = the whole table."""
    if mode != "overwrite" or not context.has_asset_partitions:
        return None
    if settings.partition_expr is None:
        raise InvalidInputError(
            f"{_place(context)} has partitions: name the table's partition column with metadata partition_expr"
        )
    keys = context.asset_partition_keys
    return partition_condition(context.asset_partitions_def, keys, settings.partition_expr, schema)


def _of_partitions(
    context: dg.InputContext, own: str | dict[str, str] | None, theirs: str | dict[str, str] | None, schema: TableSchema
) -> list[Predicate]:
    """Return the condition for the rows of an input: of the requested partitions of the upstream asset, or, when all of it is
    requested, of the partitions of the step, if the input names their column.
    """
    asked = context.asset_partition_keys if context.has_asset_partitions else []
    if asked:
        known = context.asset_partitions_def.get_partition_keys(dynamic_partitions_store=context.instance)
        if len(asked) < len(known):
            if own is None and theirs is None:
                raise InvalidInputError(
                    f"partitions of {_place(context)} are requested: name their column in the metadata partition_expr"
                )
            return [partition_condition(context.asset_partitions_def, asked, own or theirs or "", schema)]
    step = context.step_context
    if own is None or step.entity_partitions_def is None or not step.has_partitions:
        return []
    with dg.partition_loading_context(dynamic_partitions_store=context.instance):
        mine = step.entity_partitions_def.get_partition_keys_in_range(step.partition_key_range)
    return [partition_condition(step.entity_partitions_def, mine, own, schema)]


def _state(context: dg.InputContext, table: Table, version: str | int) -> dict[str, Any]:
    """Return the state to read, as arguments of `Table.scan`.

    errors   NotFoundError when the asset was never materialized; InvalidInputError for what is no version
    """
    if version == _NEWEST:
        return {}
    if version == _MATERIALIZED:
        event = context.instance.get_latest_materialization_event(context.asset_key)
        found = None if event is None else (event.asset_materialization or _NONE).metadata.get(_SNAPSHOT_ID)
        if found is None:
            raise NotFoundError(f"{_place(context)} has no materialization that names a snapshot", path=table.uri)
        return {"snapshot": int(str(found.value))}
    text = str(version).strip()
    if text.isdecimal():
        return {"snapshot": int(text)}
    if text in tag_names(table.metadata):
        return {"tag": text}
    snapshot = next((s.id for s in table.metadata.snapshots() if s.identity == text), None)
    return {"timestamp": epoch_ms(text)} if snapshot is None else {"snapshot": snapshot}


_NONE = dg.AssetMaterialization("none")


def _batch_id(context: dg.OutputContext, mode: WriteMode, schema: TableSchema) -> str:
    """Name a batch: after run and output where it must be written once, else a new id.

    A run that Dagster started again after a crash counts as the run it was started for.
    """
    if mode != "append" and schema.table_options.merge_engine != "aggregation":
        return new_batch_id()
    run = context.step_context.dagster_run
    run_id = (run.root_run_id if _RETRIES in run.tags else None) or run.run_id
    output = hashlib.sha256(f"{context.step_key} {context.name}".encode()).hexdigest()[:16]
    return f"dagster-{run_id}-{output}"
