"""Attributes of components, and what is wrong in them with file, line and column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import dagster as dg
from dagster.components.resolved.errors import ResolutionException
from dagster.components.utils.defs_state import DefsStateConfigArgs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakeidx.pipeline_file.feed import FeedConfig
from lakeidx.pipeline_file.model import RESOURCE_PREFIX, PipelineConfig, check_document
from lakeidx.pipeline_file.problems import fail, model_problems
from lakeidx.pipeline_file.sections import (
    AlertConfig,
    ChecksConfig,
    GroupsConfig,
    RetriesConfig,
    SchedulesConfig,
    Strict,
)
from lakeidx.pipeline_file.yaml_lines import YamlDocument, resolve_references

M = TypeVar("M", bound=BaseModel)

Resources = Literal["environment", "project"]
_RESOURCES: Any = Field(
    default="environment",
    # Jobs that do the work of a step are sent a pipeline file.
    exclude=True,
    description="environment: the resources store, spark and tables are made from AWS_* and LAKEIDX_*; project: it has them. Their "
    "names begin with resource_prefix",
)


class PrimaryKeyTableAttributes(PipelineConfig):
    """A pipeline file: the table, its landing files, schedules, checks."""

    resources: Resources = _RESOURCES


class FeedTablesAttributes(FeedConfig):
    """A pipeline file of a feed: its files, choice and names of tables, schedules, checks."""

    resources: Resources = _RESOURCES


class UpkeepAttributes(Strict):
    """Upkeep of tables that other programs write.

    warehouse    folder or ``s3://`` prefix that holds the databases
    owners       shown in Dagster: e-mail addresses or ``team:name``
    tags         shown in Dagster
    schedules    cron lines of compaction, expiry, orphans and verification
    checks       limits of the verification's checks
    retries      how often a step is tried again
    alerts       who is told when a run failed
    groups       groups of the assets
    resource_prefix  what the names of the resources begin with
    defs_state   where the list of tables is kept; ``dg utils refresh-defs-state`` and ``dg dev`` read it anew
    """

    warehouse: str
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    schedules: SchedulesConfig = SchedulesConfig()
    checks: ChecksConfig = ChecksConfig()
    retries: RetriesConfig = RetriesConfig()
    alerts: tuple[AlertConfig, ...] = ()
    groups: GroupsConfig = GroupsConfig()
    resource_prefix: str = RESOURCE_PREFIX
    resources: Resources = _RESOURCES
    defs_state: DefsStateConfigArgs = Field(default_factory=DefsStateConfigArgs.local_filesystem)


class WarehouseTablesAttributes(UpkeepAttributes):
    """The tables of a warehouse.

    tables    globs of ``database.table``
    exclude   globs of tables to leave out
    upkeep    also compaction, snapshot expiry and verification of each, by `schedules`
    """

    table: ClassVar[str] = ""
    external: ClassVar[bool] = True
    tables: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    upkeep: bool = False


class TableMaintenanceAttributes(UpkeepAttributes):
    """The upkeep of one table.

    table      ``database.table``
    external   whether the component makes the table's asset; false where an asset of the project writes it and has its key
    """

    upkeep: ClassVar[bool] = True
    table: str
    external: bool = True


def as_given(model: type[BaseModel]) -> type[BaseModel]:
    """Return a model that takes whatever attributes a file has, with the JSON schema of another, by which ``dg check yaml`` goes: a
    mistake is to keep the table of its file from loading, not all of the project.
    """

    class Given(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *given: Any, **named: Any) -> dict[str, Any]:
            schema = model.model_json_schema(*given, **named)
            for part in schema.get("$defs", {}).values():
                if "on" in part.get("properties", ()):
                    # To Dagster's reader of YAML the key `on` is true, which is no property.
                    part.pop("additionalProperties", None)
            return schema

    Given.__name__, Given.__doc__ = model.__name__, model.__doc__
    return Given


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a component as they are written, with templates and ``${NAME}`` filled in.

    file   the ``defs.yaml``, from the project's folder
    """

    document: YamlDocument
    path: str
    file: str

    @classmethod
    def read(cls, given: BaseModel | None, context: dg.ComponentLoadContext) -> Attributes:
        """Take over what Dagster has parsed; what cannot be filled in is a problem of the document."""
        tree = context.resolution_context.source_position_tree
        lines = {} if tree is None else dict(_lines(tree.children.get("attributes"), ()))
        path = Path(str(context.path) if tree is None else tree.position.filename)
        inside = path.is_relative_to(context.project_root)
        file = str(path.relative_to(context.project_root) if inside else path)
        value: Any = {} if given is None else _with_text_keys(given.model_extra or {})
        unknown: list[Any] = []
        try:
            # Dagster compiles a template for each text, which for a hundred tables takes a second of a processor.
            if any(mark in repr(value) for mark in ("{{", "{%", "{#")):
                value = context.resolution_context.at_path("attributes").resolve_value(value)
            value, unknown = resolve_references(value)
        except ResolutionException as error:
            unknown = [((), str(error).strip().splitlines()[-1])]
        document = YamlDocument(value, lines)
        document.problems += [(document.line(at), text) for at, text in unknown]
        return cls(document, str(path), file)

    def checked(self, model: type[M]) -> M:
        """Return the attributes as their model has them.

        errors   PipelineFileError naming line and column of every mistake
        """
        if issubclass(model, PipelineConfig):
            return check_document(self.document, self.path, model)
        problems = list(self.document.problems)
        try:
            found = model.model_validate(self.document.value)
        except ValidationError as error:
            problems += model_problems(error, self.document, model)
        if problems:
            raise fail(problems, self.path)
        return found

    def placed(self, problems: Iterator[str] | tuple[str, ...]) -> tuple[str, ...]:
        """Add the column to each ``line N: text``: where the line's text begins."""
        lines = Path(self.path).read_text(encoding="utf-8").splitlines() if Path(self.path).is_file() else []
        return tuple(_with_column(problem, lines) for problem in problems)


def _lines(tree: Any, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the position of each value."""
    if tree is None:
        return
    yield at, tree.position.start.line
    for key, child in tree.children.items():
        yield from _lines(child, (*at, _text_key(key)))


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_text_key(key): _with_text_keys(child) for key, child in value.items()}
    return [_with_text_keys(child) for child in value] if isinstance(value, list) else value


def _text_key(key: Any) -> Any:
    """Return the key as it was written: YAML reads a bare `on` as true, and it is the only such key there is."""
    return "on" if key is True else key


def _with_column(problem: str, lines: list[str]) -> str:
    place, _, text = problem.partition(": ")
    number = place.removeprefix("line ")
    if not number.isdecimal() or not 0 < int(number) <= len(lines):
        return problem
    line = lines[int(number) - 1]
    return f"line {number}, column {len(line) - len(line.lstrip()) + 1}: {text}"
