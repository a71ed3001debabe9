"""First steps with data of one's own: a pipeline file with comments, a table, and its first batch."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lakeidx.api.inference.infer import InferredTable, infer_table
from lakeidx.api.table import Table
from lakeidx.api.warehouse import drop_table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.upsert import OnStage
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.landing.read import LandingOptions
from lakeidx.pipeline_file.model import PipelineConfig, parse_pipeline
from lakeidx.storage.local import absolute

_SUGGESTED = """\
schedules:                            # of Dagster, in UTC
  compaction: "15 * * * *"            # keeps reads fast
  expiry: "45 3 * * *"                # removes old snapshots and staging
  verification: "0 5 * * 0"           # reads every page of every file
# max_rejected: 100,5%                # a batch with more rejected rows is refused
# expectations:                       # a check each; any type of Great Expectations
# - {{type: expect_column_values_to_not_be_null, args: {{column: {key}}}, severity: warn}}
# - {{type: expect_table_row_count_to_be_between, args: {{min_value: 1}}, on: table, severity: warn}}
"""


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """Steps that `begin` takes.

    table     directory of the table
    path      file that is written
    text      what it says
    found     what was inferred
    files     of the first batch
    """

    table: str
    path: Path
    text: str
    found: InferredTable
    config: PipelineConfig
    files: tuple[str, ...]


def plan_start(
    places: Sequence[str],
    *,
    table: str | None = None,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: LandingOptions | None = None,
    here: Path | None = None,
) -> FirstSteps:
    """Infer a table from a folder or files, and plan what is written.

    table    directory of the table, WAREHOUSE/DATABASE.db/NAME; default warehouse/lake.db/ and the name of the folder or file
    here     where files are written; in a project of `dg` its component, else pipelines/NAME.yaml
    errors   as `infer_table`; InvalidInputError for a table or a file that is there
    """
    found = infer_table([absolute(p) for p in places], keys=key, partition_by=partition_by, options=options)
    uri = absolute((table or f"warehouse/lake.db/{_name_of(places)}").rstrip("/"))
    warehouse, _, last = uri.rpartition("/")
    warehouse, _, database = warehouse.rpartition("/")
    if not database.endswith(".db") or not warehouse:
        raise InvalidInputError(f"the table's directory is WAREHOUSE/DATABASE.db/NAME, not {uri}")
    attributes = {"table": f"{database[:-3]}.{last}", "warehouse": warehouse, **found.attributes}
    defs = _defs_of(here or Path.cwd())
    path = (here or Path.cwd()) / "pipelines" / f"{last}.yaml" if defs is None else defs / last / "defs.yaml"
    if path.exists():
        raise InvalidInputError("it is there: remove it, or name another table (--table)", path=str(path))
    if _is_there(uri):
        raise InvalidInputError("the table is there: load files into it with lakeidx load", path=uri)
    text = _text(attributes, found)
    config = parse_pipeline(text, path=str(path))
    if defs is not None:
        inner = "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())
        text = f"type: lakeidx.dagster.PrimaryKeyTable\nattributes:\n{inner}"
    return FirstSteps(uri, path, text, found, config, found.files)


def begin(start: FirstSteps, **given: Any) -> BatchResult:
    """Make the table, load the first batch and write the file; when the batch fails there is neither.

    given    arguments of `Table.upsert_files`
    """
    made = Table.create(start.table, start.config.spec())
    try:
        result = made.upsert_files(list(start.files), start.config.landing_options(), **given)
    except BaseException:
        drop_table(made)
        raise
    start.path.parent.mkdir(parents=True, exist_ok=True)
    start.path.write_text(start.text, encoding="utf-8")
    return result


def create_from_files(
    uri: str, files: Sequence[str], *, key: Sequence[str] = (), partition_by: Sequence[str] = ()
) -> tuple[Table, InferredTable, BatchResult]:
    """Make a table of files and load them; there is no table when that fails."""
    found = infer_table([absolute(f) for f in files], keys=key, partition_by=partition_by)
    config = parse_pipeline(_text({"table": "d.t", "warehouse": "w", **found.attributes}, found), path="inferred")
    made = Table.create(uri, config.spec())
    try:
        return made, found, made.upsert_files(list(found.files), config.landing_options())
    except BaseException:
        drop_table(made)
        raise


def init(
    places: str | Sequence[str],
    *,
    table: str | None = None,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: LandingOptions | None = None,
    on_stage: OnStage | None = None,
) -> BatchResult:
    """Make a pipeline file, a table and its first batch of a folder or files; see `plan_start` and `begin`."""
    where = [places] if isinstance(places, str) else places
    return begin(plan_start(where, table=table, key=key, partition_by=partition_by, options=options), on_stage=on_stage)


def _is_there(uri: str) -> bool:
    try:
        Table.open(uri)
    except NotFoundError:
        return False
    return True


def _name_of(places: Sequence[str]) -> str:
    """Return a name for the table of a folder or file."""
    name = os.path.basename(absolute(places[0]).rstrip("/")).partition(".")[0]
    plain = "".join(c if c.isalnum() else "_" for c in name.lower()).strip("_")
    return plain or "data"


def _defs_of(here: Path) -> Path | None:
    """Return the folder of definitions of the `dg` project that a folder is in, None without one."""
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("dg", {}).get("project", {})
        root = str(project.get("root_module", "")).replace(".", "/")
        module = str(project.get("defs_module", "")).replace(".", "/") or f"{root}/defs"
        return next((p for p in (folder / "src" / module, folder / module) if root and p.is_dir()), None)
    return None


def _text(attributes: dict[str, Any], found: InferredTable) -> str:
    """Write a pipeline file with what was decided, and why, as comments."""
    lines = [f"# {note}" for note in found.notes]
    if found.unread:
        lines += [f"# {len(found.unread)} lines of the files that were looked at are no rows, as {found.unread[0]}"]
    for name, value in attributes.items():
        if name != "fields":
            lines += _yaml({name: value})
            continue
        lines.append("fields:")
        for field in value:
            (line,) = _flow(field)
            comment = found.comments.get(field["name"])
            lines.append(f"- {line}  # {comment}" if comment else f"- {line}")
    return "\n".join(lines) + "\n" + _SUGGESTED.format(key=attributes["primaryKeys"][-1])


def _yaml(value: Any) -> list[str]:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)).splitlines()


def _flow(value: Any) -> list[str]:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10**9, default_flow_style=True)
    return str(text).splitlines()
