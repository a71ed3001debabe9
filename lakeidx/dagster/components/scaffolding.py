"""``dg scaffold defs lakeidx.dagster.PrimaryKeyTable NAME --from FOLDER``: a ``defs.yaml`` that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, ConfigDict, Field

from lakeidx.dagster.components.inference import InferredTable, infer_table

_WAREHOUSE = "${LAKEIDX_WAREHOUSE:-warehouse}"


class PrimaryKeyTableParams(BaseModel):
    """Options of the command; all texts, lists separated by commas."""

    model_config = ConfigDict(populate_by_name=True)

    source: str | None = Field(default=None, alias="from", description="folder of landing files, local or s3://")
    table: str | None = Field(default=None, description="database.table; default lake.NAME")
    warehouse: str | None = Field(default=None, description="folder or s3:// prefix of the tables")
    key: str | None = Field(default=None, description="columns of the primary key; default: found in the files")
    partition_by: str | None = Field(default=None, alias="partition_by", description="columns that partition the table")


class PrimaryKeyTableScaffolder(dg.Scaffolder[PrimaryKeyTableParams]):
    """Writes the attributes of a table, inferred from sample files or as a template."""

    @classmethod
    def get_scaffold_params(cls) -> type[PrimaryKeyTableParams]:
        """Return the options."""
        return PrimaryKeyTableParams

    def scaffold(self, request: dg.ScaffoldRequest[PrimaryKeyTableParams]) -> None:
        """Write ``defs.yaml``.

        errors   NotFoundError for a folder without landing files; InvalidInputError when no key is found, or a column is not there
        """
        params, name = request.params, request.target_path.name
        found = _template(name) if params.source is None else _inferred(params.source, params)
        attributes = {
            "table": params.table or f"lake.{name}",
            "warehouse": params.warehouse or _WAREHOUSE,
            **found.attributes,
        }
        if request.scaffold_format != "yaml":
            scaffold_component(request, attributes)
            return
        file = request.target_path if request.append else request.target_path / "defs.yaml"
        body = yaml.safe_dump(
            {"type": request.type_name, "attributes": attributes}, sort_keys=False, allow_unicode=True
        )
        text = "".join(f"# {note}\n" for note in found.notes) + body
        if request.append:
            text = f"{file.read_text(encoding='utf-8').rstrip()}\n---\n{text}"
        file.write_text(text, encoding="utf-8")


def _inferred(folder: str, params: PrimaryKeyTableParams) -> InferredTable:
    # Runs may start elsewhere than this command.
    place = folder if "://" in folder else str(Path(folder).resolve())
    return infer_table(place, keys=_names(params.key), partition_by=_names(params.partition_by))


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]


def _template(name: str) -> InferredTable:
    attributes: dict[str, Any] = {
        "landing": {"path": f"landing/{name}", "pattern": "*.parquet"},
        "fields": [{"name": "id", "type": "BIGINT"}],
        "primaryKeys": ["id"],
        "options": {"bucket": -1},
    }
    return InferredTable(attributes, ("a template: give --from FOLDER to take columns and key from landing files",))
