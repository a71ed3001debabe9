"""Pipeline files: one YAML file describes one table and how it is kept (``pipelines/*.yaml``).

Everything is checked at load, and what is wrong is named with file and line. A table is added by adding a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema import new_schema
from lakeidx.pipeline.landing import LandingOptions
from lakeidx.pipeline.yaml_lines import YamlDocument, parse_yaml

_NAME = r"^[^/\s.][^/.]*$"


class Strict(BaseModel):
    """Unknown keys are errors; values do not change after load."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _option_text(value: Any) -> Any:
    # YAML reads `bucket: -1` as a number and `write-only: true` as a boolean; table options are texts.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


OptionText = Annotated[str, BeforeValidator(_option_text)]


class ColumnConfig(Strict):
    """One column; `type` as Paimon's schema JSON writes it."""

    name: str
    type: str | dict[str, Any]
    description: str | None = None


class BatchingConfig(Strict):
    """How the landing sensor puts files into runs: a batch closes at the first limit it reaches."""

    max_files: int = Field(default=1, ge=1)
    max_bytes: int | None = Field(default=None, ge=1)
    max_age_seconds: float | None = Field(default=None, ge=0)


class LandingConfig(Strict):
    """Where landing files appear and how they are read.

    path             folder, local or ``s3://``
    pattern          glob of file names below it
    settle_seconds   a file is taken when it has not changed for so long
    success_marker   take a file only when a file of its name plus this suffix is there
    """

    path: str
    pattern: str = "*"
    format: Literal["parquet", "csv", "jsonl"] | None = None
    delimiter: str = ","
    null_values: tuple[str, ...] = ("",)
    ignore_extra_columns: bool = False
    settle_seconds: float = Field(default=2.0, ge=0)
    success_marker: str | None = None
    batching: BatchingConfig = BatchingConfig()

    def options(self) -> LandingOptions:
        """As the reader takes them."""
        return LandingOptions(self.format, self.delimiter, self.null_values, self.ignore_extra_columns)


class PartitionsConfig(Strict):
    """How Dagster partitions the table's assets.

    by       files: one partition per landing file, added as they appear; daily, hourly, monthly: by a time in the file
             name; static: fixed values in the file name
    start    first time (daily, hourly, monthly), ISO
    values   the values (static)
    key      regular expression with one group that takes the partition key out of a landing file's name
    """

    by: Literal["files", "daily", "hourly", "monthly", "static"] = "files"
    start: str | None = None
    values: tuple[str, ...] = ()
    key: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> PartitionsConfig:
        if self.by in ("daily", "hourly", "monthly") and not self.start:
            raise ValueError(f"partitions by {self.by} need 'start'")
        if self.by == "static" and not self.values:
            raise ValueError("static partitions need 'values'")
        if self.by != "files" and not self.key:
            raise ValueError(f"partitions by {self.by} need 'key': a regular expression with one group")
        return self


class SchedulesConfig(Strict):
    """Cron lines of the jobs around a table; a job without one runs only when asked to."""

    compaction: str | None = None
    expiry: str | None = None
    verification: str | None = None


class ChecksConfig(Strict):
    """Limits of the checks after each run."""

    skew_ratio: float = Field(default=4.0, gt=1)
    orphan_files: int = Field(default=1000, ge=0)
    sample_rows: int = Field(default=1000, ge=1)
    blocking: bool = True


class PipelineConfig(Strict):
    """One pipeline file.

    table       ``database.table``
    warehouse   folder or ``s3://`` prefix that holds the databases
    """

    table: str
    warehouse: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    landing: LandingConfig
    fields: tuple[ColumnConfig, ...]
    primary_keys: tuple[str, ...] = Field(default=(), alias="primaryKeys")
    partition_keys: tuple[str, ...] = Field(default=(), alias="partitionKeys")
    options: dict[str, OptionText] = {}
    partitions: PartitionsConfig = PartitionsConfig()
    strict: bool = False
    lookup_store: bool = False
    schedules: SchedulesConfig = SchedulesConfig()
    checks: ChecksConfig = ChecksConfig()

    @field_validator("table")
    @classmethod
    def _two_names(cls, value: str) -> str:
        database, dot, table = value.partition(".")
        if not dot or not database.strip() or not table.strip() or "/" in value:
            raise ValueError("write the table as database.table")
        return value

    @property
    def database(self) -> str:
        """Database name."""
        return self.table.partition(".")[0]

    @property
    def table_name(self) -> str:
        """Table name."""
        return self.table.partition(".")[2]

    @property
    def uri(self) -> str:
        """The table's directory."""
        return f"{self.warehouse.rstrip('/')}/{self.database}.db/{self.table_name}"

    def spec(self) -> dict[str, Any]:
        """What `TableHandle.create` takes."""
        return {
            "fields": [c.model_dump(exclude_none=True) for c in self.fields],
            "primaryKeys": list(self.primary_keys),
            "partitionKeys": list(self.partition_keys),
            "options": dict(self.options),
        }


def parse_pipeline(text: str, *, path: str, environment: Mapping[str, str] | None = None) -> PipelineConfig:
    """Parse and check one pipeline file.

    errors   InvalidInputError with file and line of the first thing that is wrong
    """
    document = parse_yaml(text, path=path, environment=environment)
    if not isinstance(document.value, dict):
        raise InvalidInputError(
            "line 1: a pipeline file is a mapping with at least table, warehouse, landing, fields", path=path
        )
    try:
        config = PipelineConfig.model_validate(document.value)
    except ValidationError as error:
        raise InvalidInputError(_first_problem(error, document), path=path) from error
    try:
        new_schema(config.spec())
    except InvalidInputError as error:
        raise InvalidInputError(f"line {_schema_line(document, str(error))}: {error}", path=path) from error
    return config


def load_pipeline(file: Path, *, environment: Mapping[str, str] | None = None) -> PipelineConfig:
    """Load one pipeline file."""
    return parse_pipeline(file.read_text(encoding="utf-8"), path=str(file), environment=environment)


def load_pipelines(
    folder: Path, *, environment: Mapping[str, str] | None = None
) -> tuple[dict[Path, PipelineConfig], dict[Path, InvalidInputError]]:
    """Load all pipeline files of a folder; a bad one does not keep the others from loading.

    returns   configurations, and errors, by file
    """
    good: dict[Path, PipelineConfig] = {}
    bad: dict[Path, InvalidInputError] = {}
    for file in sorted(folder.glob("*.yaml")):
        try:
            config = load_pipeline(file, environment=environment)
            _check_apart(config, good.values(), str(file))
            good[file] = config
        except InvalidInputError as error:
            bad[file] = error
    return good, bad


def _check_apart(config: PipelineConfig, others: Iterable[PipelineConfig], path: str) -> None:
    for other in others:
        if other.uri == config.uri:
            raise InvalidInputError(
                f"line 1: another pipeline file describes the table {config.table} already", path=path
            )
        same_folder = other.landing.path.rstrip("/") == config.landing.path.rstrip("/")
        if same_folder and (
            other.landing.pattern == config.landing.pattern or "*" in (other.landing.pattern, config.landing.pattern)
        ):
            raise InvalidInputError(
                f"line 1: its landing files are those of {other.table}, too; give each table its own folder or pattern",
                path=path,
            )


def _first_problem(error: ValidationError, document: YamlDocument) -> str:
    first = error.errors()[0]
    where = tuple(p for p in first["loc"] if isinstance(p, (str, int)))
    name = ".".join(map(str, where)) or "the file"
    message = {
        "extra_forbidden": f"unknown key {name!r}",
        "missing": f"{name!r} is missing",
    }.get(first["type"], f"{name}: {first['msg'].removeprefix('Value error, ')}")
    return f"line {document.line(where)}: {message}"


def _schema_line(document: YamlDocument, message: str) -> int:
    """The line of the column or option a schema error speaks of."""
    value = document.value
    for i, column in enumerate(value.get("fields", ())):
        if isinstance(column, dict) and f"{column.get('name')!r}" in message:
            return document.line(("fields", i))
    for key in value.get("options", {}):
        if key in message:
            return document.line(("options", key))
    for key in ("primaryKeys", "partitionKeys"):
        if any(f"{name!r}" in message for name in value.get(key, ())):
            return document.line((key,))
    return document.line(("fields",))
