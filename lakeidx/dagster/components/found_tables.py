"""Components for tables that other programs write: `WarehouseTables` lists a warehouse, `TableMaintenance` keeps one table.

What the warehouse has is state: it is read when the state is refreshed, so definitions load without it. A table is an external
asset that a sensor, or *Observe*, looks at; its snapshot is its data version.
"""

import json
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import dagster as dg
from dagster.components.utils.defs_state import DefsStateConfig
from pydantic import BaseModel, ValidationError

from lakeidx.api import Warehouse
from lakeidx.dagster.assets.table import table_observation
from lakeidx.dagster.components.attributes import (
    TableMaintenanceAttributes,
    UpkeepAttributes,
    WarehouseTablesAttributes,
    filled_in,
)
from lakeidx.dagster.components.scaffolding import TableMaintenanceScaffolder, WarehouseTablesScaffolder
from lakeidx.dagster.factory import TableDefinitions, add_upkeep, merged_definitions
from lakeidx.dagster.failures import failures_explained
from lakeidx.dagster.metadata.overview import table_description
from lakeidx.dagster.metadata.reports import table_metadata
from lakeidx.dagster.names import TABLE, asset_key, key_prefix, table_id
from lakeidx.dagster.resources import TableResource
from lakeidx.dagster.sensors.compaction import name_state
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.schema.schema_file import new_schema, schema_to_json
from lakeidx.pipeline_file.model import PipelineConfig

INTERVAL_SECONDS = 60


class _FoundTables(dg.StateBackedComponent):
    """Tables of a warehouse, as its state names them."""

    def __init__(self, attributes: UpkeepAttributes, warehouse: str) -> None:
        self.attributes = attributes
        self.warehouse = warehouse

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``."""
        assert isinstance(attributes, UpkeepAttributes)
        made = cls(attributes, filled_in(attributes.warehouse, context))
        key = made.defs_state_config.key
        context.component_tree.mark_component_defs_state_key(defs_state_key=key, loc=context.component_loc)
        return made

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where the list of tables is kept."""
        return DefsStateConfig.from_args(self.attributes.defs_state, default_key=f"{type(self).__name__}[{self.name}]")

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the component, unique in the project."""

    @property
    @abstractmethod
    def upkeep(self) -> bool:
        """Whether compaction, expiry and verification are assets."""

    @abstractmethod
    def wanted(self, warehouse: Warehouse) -> Sequence[str]:
        """List the tables."""

    def write_state_to_path(self, state_path: Path) -> None:
        """Write down the schemas of the tables that there are now."""
        warehouse = Warehouse(self.warehouse)
        found = {name: schema_to_json(warehouse.table(name).schema) for name in self.wanted(warehouse)}
        state_path.write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Build the assets of the tables; none before the state was read once."""
        state = {} if state_path is None else json.loads(state_path.read_text(encoding="utf-8"))
        pipelines = [self._pipeline(name, schema) for name, schema in state.items()]
        out = TableDefinitions()
        for pipeline in pipelines:
            out.assets.append(_table_asset(pipeline))
            if self.upkeep:
                add_upkeep(out, pipeline)
        if pipelines:
            out.sensors.append(
                _tables_sensor(f"lakeidx__{zlib.crc32(self.name.encode()):08x}__tables_sensor", pipelines)
            )
        return merged_definitions([out], self.attributes.resources == "environment")

    def _pipeline(self, name: str, schema: dict[str, Any]) -> PipelineConfig:
        """Describe a table as a pipeline file would; no files land in it.

        errors   InvalidInputError for a name or option that pipeline files do not take
        """
        keys = ("owners", "tags", "schedules", "checks", "retries")
        try:
            return PipelineConfig.model_validate(
                {
                    "table": name,
                    "warehouse": self.warehouse,
                    "description": schema.get("comment") or "",
                    "landing": {"path": self.warehouse},
                    "fields": [{k: f[k] for k in ("name", "type", "description") if k in f} for f in schema["fields"]],
                    **{k: schema[k] for k in ("primaryKeys", "partitionKeys", "options")},
                    **{k: getattr(self.attributes, k) for k in keys},
                }
            )
        except ValidationError as error:
            raise InvalidInputError(f"table {name}: {error.errors()[0]['msg']}", path=self.warehouse) from error


@dg.scaffold_with(WarehouseTablesScaffolder)
class WarehouseTables(_FoundTables):
    """The tables of a warehouse as external assets, with upkeep and checks on request."""

    attributes: WarehouseTablesAttributes

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes."""
        return WarehouseTablesAttributes

    @property
    def name(self) -> str:
        """Name the component after its warehouse."""
        return self.warehouse

    @property
    def upkeep(self) -> bool:
        """Keep tables only when the attribute is set."""
        return self.attributes.upkeep

    def wanted(self, warehouse: Warehouse) -> Sequence[str]:
        """List the tables that the globs choose."""
        chosen, left_out = self.attributes.tables, self.attributes.exclude
        return [n for n in warehouse.tables() if _matches(n, chosen) and not _matches(n, left_out)]


@dg.scaffold_with(TableMaintenanceScaffolder)
class TableMaintenance(_FoundTables):
    """Compaction, snapshot expiry, verification and their checks for one table that other programs write."""

    attributes: TableMaintenanceAttributes

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes."""
        return TableMaintenanceAttributes

    @property
    def name(self) -> str:
        """Name the component after its table."""
        return f"{self.warehouse} {self.attributes.table}"

    @property
    def upkeep(self) -> bool:
        """Keep the table: that is what the component is for."""
        return True

    def wanted(self, warehouse: Warehouse) -> Sequence[str]:
        """List the one table; NotFoundError names the tables there are."""
        warehouse.table(self.attributes.table)
        return [self.attributes.table]


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, g) for g in globs)


def _table_asset(pipeline: PipelineConfig) -> dg.AssetsDefinition:
    """Build a table as an external asset; an observation reads its newest snapshot."""
    spec = dg.AssetSpec(
        asset_key(pipeline, TABLE),
        kinds={"paimon", "table"},
        description=table_description(pipeline),
        metadata=table_metadata(pipeline.table, pipeline.uri, new_schema(pipeline.spec())),
        group_name=key_prefix(pipeline)[1],
        owners=list(pipeline.owners),
        tags=pipeline.tags,
    )

    @dg.multi_observable_source_asset(specs=[spec], name=f"{table_id(pipeline)}__observation")
    def table(tables: TableResource) -> Iterator[dg.ObserveResult]:
        with failures_explained():
            seen = table_observation(pipeline, tables.open(pipeline).metadata)
            yield dg.ObserveResult(asset_key=spec.key, metadata=seen.metadata, tags=seen.tags)

    found: dg.AssetsDefinition = table
    return found


def _tables_sensor(name: str, pipelines: Sequence[PipelineConfig]) -> dg.SensorDefinition:
    """Build a sensor that observes each table that has a new snapshot; its cursor has the snapshots it has seen."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_SECONDS,
        description=f"Observes each new snapshot of {len(pipelines)} tables, whoever writes them.",
    )
    def tables_sensor(context: dg.SensorEvaluationContext, tables: TableResource) -> dg.SensorResult:
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
