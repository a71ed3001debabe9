"""Attributes of components, and errors in them with file, line and column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from dagster.components.utils.defs_state import DefsStateConfigArgs
from pydantic import Field

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import PipelineConfig, check_document
from lakeidx.pipeline_file.problems import PipelineFileError
from lakeidx.pipeline_file.sections import ChecksConfig, RetriesConfig, SchedulesConfig, Strict
from lakeidx.pipeline_file.yaml_lines import YamlDocument, resolve_references

Resources = Literal["environment", "project"]
_RESOURCES: Any = Field(
    default="environment",
    description="environment: resources store, spark, tables are made from AWS_* and LAKEIDX_*; project: it has them",
)


class PrimaryKeyTableAttributes(PipelineConfig):
    """A pipeline file: the table, its landing files, schedules, checks."""

    resources: Resources = _RESOURCES


class UpkeepAttributes(Strict):
    """Upkeep of tables that other programs write.

    warehouse    folder or ``s3://`` prefix that holds the databases
    owners       shown in Dagster: e-mail addresses or ``team:name``
    tags         shown in Dagster
    schedules    cron lines of compaction, expiry and verification
    checks       limits of the verification's checks
    retries      how often a step is tried again
    defs_state   where the list of tables is kept; ``dg utils refresh-defs-state`` and ``dg dev`` read it anew
    """

    warehouse: str
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    schedules: SchedulesConfig = SchedulesConfig()
    checks: ChecksConfig = ChecksConfig()
    retries: RetriesConfig = RetriesConfig()
    resources: Resources = _RESOURCES
    defs_state: DefsStateConfigArgs = Field(default_factory=DefsStateConfigArgs.local_filesystem)


class WarehouseTablesAttributes(UpkeepAttributes):
    """The tables of a warehouse.

    tables    globs of ``database.table``
    exclude   globs of tables to leave out
    upkeep    also compaction, snapshot expiry and verification of each, by `schedules`
    """

    tables: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    upkeep: bool = False


class TableMaintenanceAttributes(UpkeepAttributes):
    """The upkeep of one table: ``database.table``."""

    table: str


def pipeline_of(attributes: PrimaryKeyTableAttributes, context: dg.ComponentLoadContext) -> PipelineConfig:
    """Return the pipeline that attributes describe; templates and ``${NAME}`` are filled in.

    errors   PipelineFileError naming file, line and column of every mistake
    """
    resolution = context.resolution_context.at_path("attributes")
    given = attributes.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"resources"})
    value, unknown = resolve_references(resolution.resolve_value(given))
    tree = context.resolution_context.source_position_tree
    lines = {} if tree is None else dict(_lines(tree.children.get("attributes"), ()))
    document = YamlDocument(value, lines)
    document.problems += [(document.line(at), text) for at, text in unknown]
    path = str(context.path) if tree is None else tree.position.filename
    try:
        return check_document(document, path)
    except PipelineFileError as error:
        problems = [_with_column(p, path) for p in error.problems]
        raise PipelineFileError("; ".join(problems), path=path, problems=problems) from None


def filled_in(value: str, context: dg.ComponentLoadContext) -> str:
    """Fill in templates and ``${NAME}`` of a warehouse.

    errors   InvalidInputError
    """
    filled, unknown = resolve_references({"warehouse": context.resolution_context.resolve_value(value)})
    if unknown:
        raise InvalidInputError(unknown[0][1], path=str(context.path))
    return str(filled["warehouse"])


def _lines(tree: Any, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the position of each value."""
    if tree is None:
        return
    yield at, tree.position.start.line
    for key, child in tree.children.items():
        yield from _lines(child, (*at, key))


def _with_column(problem: str, path: str) -> str:
    """Add the column to ``line N: text``: where the line's text begins."""
    place, _, text = problem.partition(": ")
    number = place.removeprefix("line ")
    if not number.isdecimal() or not Path(path).is_file():
        return problem
    line = Path(path).read_text(encoding="utf-8").splitlines()[int(number) - 1]
    return f"line {number}, column {len(line) - len(line.lstrip()) + 1}: {text}"
