"""Components for tables that other programs write: `WarehouseTables` lists a warehouse, `TableMaintenance` keeps one table.

What the warehouse has is state: it is read when the state is refreshed, so definitions load without it. A table is an external
asset that a sensor, or *Observe*, looks at; its snapshot is its data version.
"""

import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from dagster.components.utils.defs_state import DefsStateConfig, DefsStateConfigArgs
from pydantic import BaseModel, ValidationError

from lakeidx.dagster.assets.table import table_observation
from lakeidx.dagster.components.attributes import TableMaintenanceAttributes, WarehouseTablesAttributes
from lakeidx.dagster.components.members import Member
from lakeidx.dagster.components.scaffolding import TableMaintenanceScaffolder, WarehouseTablesScaffolder
from lakeidx.dagster.factory import TableDefinitions, add_upkeep, merged_definitions
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.metadata.overview import table_description, table_page
from lakeidx.dagster.metadata.reports import table_metadata
from lakeidx.dagster.names import TABLE, asset_key, table_group, table_id
from lakeidx.dagster.resources import resource_keys, resources_in
from lakeidx.dagster.sensors.compaction import name_state
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.schema.schema_file import schema_to_json
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.problems import PipelineFileError

if TYPE_CHECKING:
    from lakeidx.api import Warehouse

INTERVAL_SECONDS = 60


class _FoundTables(Member, dg.StateBackedComponent):
    """Tables of a warehouse, as its state names them."""

    attributes: Any

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``, and tell its project where its state is kept."""
        made = super().load(attributes, context)
        if not made.problems:
            key = made.defs_state_config.key
            context.component_tree.mark_component_defs_state_key(defs_state_key=key, loc=context.component_loc)
        return made

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the list of tables is kept."""
        kept = DefsStateConfigArgs.local_filesystem() if self.attributes is None else self.attributes.defs_state
        name = self.file if self.attributes is None else self.name
        return DefsStateConfig.from_args(kept, default_key=f"{type(self).__name__}[{name}]")

    @property
    def name(self) -> str:
        """Name of the component, unique in the project: after its warehouse, and the table where it is of one."""
        return f"{self.attributes.warehouse} {self.attributes.table}".rstrip()

    def wanted(self, warehouse: "Warehouse") -> Sequence[str]:
        """List the tables."""
        return [n for n in warehouse.tables() if self.claims(n)]

    def write_state_to_path(self, state_path: Path) -> None:
        """Write down the schemas of the tables that there are now.

        errors   PipelineFileError for a component with a mistake
        """
        if self.problems:
            raise PipelineFileError("; ".join(self.problems), path=self.file)
        from lakeidx.api import Warehouse

        warehouse = Warehouse(self.attributes.warehouse)
        found = {name: schema_to_json(warehouse.table(name).schema) for name in self.wanted(warehouse)}
        state_path.write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")

    def build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        """Build the assets of the tables; a warehouse that cannot be read now shows as a failed check."""
        try:
            return [dg.StateBackedComponent.build_defs(self, context)]
        except LakeIdxError as error:
            return self.build_left_out([str(error)])

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Build the assets of the tables; none before the state was read once."""
        state = {} if state_path is None else json.loads(state_path.read_text(encoding="utf-8"))
        out, pipelines, left_out = TableDefinitions(), [], []
        for name, schema in state.items():
            try:
                pipeline = self._pipeline(name, schema, context)
            except InvalidInputError as error:
                left_out.append(str(error))
                continue
            pipelines.append(pipeline)
            if self.attributes.external:
                out.assets.append(_table_asset(pipeline))
            if self.attributes.upkeep:
                add_upkeep(out, pipeline)
        if pipelines and self.attributes.external:
            out.sensors.append(
                _tables_sensor(f"lakeidx__{zlib.crc32(self.name.encode()):08x}__tables_sensor", pipelines)
            )
        return dg.Definitions.merge(
            merged_definitions([out], self.build_resources(context)), *self.build_left_out(left_out)
        )

    def _pipeline(self, name: str, schema: dict[str, Any], context: dg.ComponentLoadContext) -> PipelineConfig:
        """Describe a table as a pipeline file would; no files land in it.

        errors   InvalidInputError for a name or option that pipeline files do not take, and a table of another component
        """
        earlier = itertools.takewhile(lambda m: m is not self, self.members(context))
        owner = next((m.file for m in earlier if not m.problems and m.claims(name)), None)
        if owner is not None:
            raise InvalidInputError(f"table {name} is described by {owner} already: leave it to one of them")
        keys = ("owners", "tags", "schedules", "checks", "retries", "alerts", "groups", "resource_prefix")
        try:
            return PipelineConfig.model_validate(
                {
                    "table": name,
                    "warehouse": self.attributes.warehouse,
                    "description": schema.get("comment") or "",
                    "landing": {"path": self.attributes.warehouse},
                    "fields": [{k: f[k] for k in ("name", "type", "description") if k in f} for f in schema["fields"]],
                    **{k: schema[k] for k in ("primaryKeys", "partitionKeys", "options")},
                    **{k: getattr(self.attributes, k) for k in keys},
                }
            )
        except ValidationError as error:
            raise InvalidInputError(
                f"table {name}: {error.errors()[0]['msg']}", path=self.attributes.warehouse
            ) from error


@dg.scaffold_with(WarehouseTablesScaffolder)
class WarehouseTables(_FoundTables):
    """The tables of a warehouse as external assets, with upkeep and checks on request."""

    model = WarehouseTablesAttributes
    attributes: WarehouseTablesAttributes
    rank = 2

    def claims(self, table: str) -> bool:
        """Return whether the globs choose it."""
        return _matches(table, self.attributes.tables) and not _matches(table, self.attributes.exclude)


@dg.scaffold_with(TableMaintenanceScaffolder)
class TableMaintenance(_FoundTables):
    """Compaction, snapshot expiry, verification and their checks for one table that other programs write."""

    model = TableMaintenanceAttributes
    attributes: TableMaintenanceAttributes
    rank = 1

    def wanted(self, warehouse: "Warehouse") -> Sequence[str]:
        """List the one table; NotFoundError names the tables there are."""
        warehouse.table(self.attributes.table)
        return [self.attributes.table]

    def claims(self, table: str) -> bool:
        """Return whether it is this table."""
        return table == self.attributes.table


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, g) for g in globs)


def _table_asset(pipeline: PipelineConfig) -> dg.AssetsDefinition:
    """Build a table as an external asset; an observation reads its newest snapshot."""
    spec = dg.AssetSpec(
        asset_key(pipeline, TABLE),
        kinds={"paimon", "table"},
        description=table_description(pipeline),
        metadata={
            **table_metadata(pipeline.table, pipeline.uri, pipeline.first_schema),
            **table_page(pipeline),
        },
        group_name=table_group(pipeline),
        owners=list(pipeline.owners),
        tags=pipeline.tags,
    )

    @dg.multi_observable_source_asset(
        specs=[spec],
        name=f"{table_id(pipeline)}__observation",
        required_resource_keys=resource_keys(pipeline, "tables"),
    )
    def table(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        with failures_explained():
            seen = table_observation(pipeline, resources_in(context, pipeline).tables.open(pipeline).metadata)
            yield dg.ObserveResult(asset_key=spec.key, metadata=seen.metadata, tags=seen.tags)

    found: dg.AssetsDefinition = table
    return found


def _tables_sensor(name: str, pipelines: Sequence[PipelineConfig]) -> dg.SensorDefinition:
    """Build a sensor that observes each table that has a new snapshot; its cursor has the snapshots it has seen."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Observes each new snapshot of {len(pipelines)} tables, whoever writes them.",
        required_resource_keys=resource_keys(pipelines[0], "tables"),
    )
    def tables_sensor(context: dg.SensorEvaluationContext, **_: Any) -> dg.SensorResult:
        tables = resources_in(context, pipelines[0]).tables
        seen: dict[str, str] = json.loads(context.cursor or "{}")
        events: list[dg.AssetObservation] = []
        errors: list[LakeIdxError] = []
        for pipeline in pipelines:
            try:
                metadata = tables.open(pipeline).metadata
                snapshot = metadata.latest_snapshot()
                if snapshot is not None and seen.get(pipeline.table) != name_state(snapshot):
                    events.append(table_observation(pipeline, metadata))
                    seen[pipeline.table] = name_state(snapshot)
            except NotFoundError:
                seen.pop(pipeline.table, None)
            except LakeIdxError as error:
                errors.append(error)
        lasting = [e for e in errors if not e.retryable]
        if lasting and not events:
            # Observations are reported first: the next tick, without anything new, turns red.
            raise lasting[0]
        reason = None if events else str(errors[0]) if errors else "no new snapshot"
        return dg.SensorResult(asset_events=events, cursor=json.dumps(seen), skip_reason=reason)

    return tables_sensor
