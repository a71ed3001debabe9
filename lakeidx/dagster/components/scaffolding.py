"""``dg scaffold defs lakeidx.dagster.PrimaryKeyTable NAME --from FOLDER`` and other components: a ``defs.yaml`` that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import dagster as dg
import yaml
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, ConfigDict, Field

from lakeidx.errors import LakeIdxError
from lakeidx.pipeline_file.sections import SchedulesConfig

if TYPE_CHECKING:
    from lakeidx.api.inference.infer import InferredTable

P = TypeVar("P", bound=BaseModel)

_WAREHOUSE = "${LAKEIDX_WAREHOUSE:-warehouse}"


class _ScaffolderWithOptions(dg.Scaffolder[P]):
    """A scaffolder whose command takes the fields of a model as options."""

    options: type[P]

    @classmethod
    def get_scaffold_params(cls) -> type[P]:
        """Return the model of the command's options."""
        return cls.options


class PrimaryKeyTableParams(BaseModel):
    """Options of the command; all texts, lists separated by commas."""

    model_config = ConfigDict(populate_by_name=True)

    source: str | None = Field(default=None, alias="from", description="folder of landing files, local or s3://")
    table: str | None = Field(default=None, description="database.table; default lake.NAME")
    warehouse: str | None = Field(default=None, description="folder or s3:// prefix of the tables")
    key: str | None = Field(default=None, description="columns of the primary key; default: found in the files")
    partition_by: str | None = Field(default=None, alias="partition_by", description="columns that partition the table")


class PrimaryKeyTableScaffolder(_ScaffolderWithOptions[PrimaryKeyTableParams]):
    """Writes the attributes of a table, inferred from sample files or as a template."""

    options = PrimaryKeyTableParams

    def scaffold(self, request: dg.ScaffoldRequest[PrimaryKeyTableParams]) -> None:
        """Write ``defs.yaml``, and for a project without an executor of its own the line that gives it one.

        errors   ClickException for a folder without landing files, when no key is found, for a column or a name of a table that is
                 none
        """
        params, name = request.params, request.target_path.name
        with _in_one_line(request):
            table = _table(params.table, name)
            found = _template(name) if params.source is None else _inferred(params.source, params)
        _choose_executor(request.target_path)
        attributes = {
            "table": table,
            "warehouse": params.warehouse or _WAREHOUSE,
            **found.attributes,
            **_watched(table),
        }
        if request.scaffold_format != "yaml":
            scaffold_component(request, attributes)
            return
        file = request.target_path if request.append else request.target_path / "defs.yaml"
        body = yaml.safe_dump(
            {"type": request.type_name, "attributes": attributes}, sort_keys=False, allow_unicode=True
        )
        text = "".join(f"# {note}\n" for note in found.notes) + body + _suggested(found.attributes)
        if request.append:
            text = f"{file.read_text(encoding='utf-8').rstrip()}\n---\n{text}"
        file.write_text(text, encoding="utf-8")


_EXECUTOR = """\
# Materialize and backfills: one process for all steps of a run, not one for each.
import dagster as dg

defs = dg.Definitions(executor=dg.in_process_executor)
"""


def _choose_executor(target: Path) -> None:
    """Write ``defs/executor.py``, unless a module of the project speaks of an executor: Dagster refuses a second one."""
    folder = next((p for p in target.parents if p.name == "defs"), None)
    if folder is None or any("executor" in p.read_text(encoding="utf-8") for p in folder.parent.rglob("*.py")):
        return
    file = folder / "executor.py"
    file.write_text(_EXECUTOR, encoding="utf-8")
    click.echo(f"{file}: runs of the project share a process for their steps; remove it to have one for each")


class WarehouseTablesParams(BaseModel):
    """Options of the command."""

    warehouse: str | None = Field(default=None, description="folder or s3:// prefix of the tables")


class WarehouseTablesScaffolder(_ScaffolderWithOptions[WarehouseTablesParams]):
    """Writes the attributes of all tables of a warehouse."""

    options = WarehouseTablesParams

    def scaffold(self, request: dg.ScaffoldRequest[WarehouseTablesParams]) -> None:
        """Write ``defs.yaml``."""
        attributes = {"warehouse": request.params.warehouse or _WAREHOUSE, "tables": ["*"], "upkeep": False}
        scaffold_component(request, {**attributes, **_watched(None)})


class FeedTablesScaffolder(WarehouseTablesScaffolder):
    """Writes the attributes of a feed as a template."""

    def scaffold(self, request: dg.ScaffoldRequest[WarehouseTablesParams]) -> None:
        """Write ``defs.yaml``."""
        name = request.target_path.name
        _choose_executor(request.target_path)
        attributes = {
            "feed": name,
            "warehouse": request.params.warehouse or _WAREHOUSE,
            "database": name,
            "landing": {"path": f"landing/{name}", "pattern": "*.json", "format": "debezium"},
            "including_tables": ".*",
            "primary_keys": {"*": "id"},
            "table_conf": {"bucket": -1},
        }
        scaffold_component(request, {**attributes, **_watched(None)})


class TableMaintenanceParams(WarehouseTablesParams):
    """Options of the command."""

    table: str | None = Field(default=None, description="database.table; default lake.NAME")


class TableMaintenanceScaffolder(_ScaffolderWithOptions[TableMaintenanceParams]):
    """Writes the attributes of one table that other programs write."""

    options = TableMaintenanceParams

    def scaffold(self, request: dg.ScaffoldRequest[TableMaintenanceParams]) -> None:
        """Write ``defs.yaml``.

        errors   ClickException for a name of a table that is none
        """
        with _in_one_line(request):
            table = _table(request.params.table, request.target_path.name)
        attributes = {"warehouse": request.params.warehouse or _WAREHOUSE, "table": table}
        scaffold_component(request, {**attributes, **_watched(table)})


def _watched(table: str | None) -> dict[str, Any]:
    """Write out what keeps a table: its schedules, and who is told when a run failed.

    table   None for many tables, whose minutes differ
    """
    crons = {} if table is None else SchedulesConfig().crons(table)
    return {"schedules": {**crons, "timezone": "UTC"}, "alerts": []}


def _suggested(attributes: Mapping[str, Any]) -> str:
    """Suggest what a table may have besides, as comments."""
    key = (attributes["primaryKeys"] or [attributes["fields"][0]["name"]])[-1]
    return f"""\
  # - slack: ${{LAKEIDX_SECRET_SLACK}}     # or webhook, email, call; then without the [] above
  # max_rejected: 100,5%                  # a batch with more rejected rows is refused
  # limits: {{deletes: 5%, inserts: 2x}}    # a batch beyond one is held until somebody decides
  # publish: after_checks                 # readers see no batch that failed a check
  # expectations:                         # a check each; any type of Great Expectations
  # - {{type: expect_column_values_to_not_be_null, args: {{column: {key}}}, severity: warn}}
  # - {{type: expect_table_row_count_to_be_between, args: {{min_value: 1}}, on: table, severity: warn}}
  # freshness: {{fail_hours: 26}}
  # lineage: table                        # the stages of a batch are inside the table's asset
"""


@contextmanager
def _in_one_line(request: dg.ScaffoldRequest[Any]) -> Iterator[None]:
    """Turn an error into one line of the command, and remove the folder that it has made."""
    try:
        yield
    except LakeIdxError as error:
        # The command has made the folder; left there, it would be in the way of the next try.
        if not request.append:
            with suppress(OSError):
                request.target_path.rmdir()
        raise click.ClickException(str(error)) from error


def _table(given: str | None, name: str) -> str:
    table = given or f"lake.{name}"
    from lakeidx.api import Warehouse

    Warehouse("/").path(table)
    return table


def _inferred(folder: str, params: PrimaryKeyTableParams) -> InferredTable:
    from lakeidx.api.inference.infer import infer_table

    # Runs may start elsewhere than this command.
    place = folder if "://" in folder else str(Path(folder).resolve())
    return infer_table(place, keys=_names(params.key), partition_by=_names(params.partition_by))


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]


def _template(name: str) -> InferredTable:
    from lakeidx.api.inference.infer import InferredTable

    attributes: dict[str, Any] = {
        "landing": {"path": f"landing/{name}", "pattern": "*.parquet"},
        "fields": [{"name": "id", "type": "BIGINT"}],
        "primaryKeys": ["id"],
        "options": {"bucket": -1},
    }
    return InferredTable(attributes, ("a template: give --from FOLDER to take columns and key from landing files",))
