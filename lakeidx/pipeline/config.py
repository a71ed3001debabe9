"""Pipeline files: one YAML file describes one table and how it is kept (``pipelines/*.yaml``).

Everything is checked at load, and what is wrong is named with file and line. A table is added by adding a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from lakeidx.data.engines import validate_merge_options
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema import new_schema
from lakeidx.pipeline.cron import check_cron
from lakeidx.pipeline.globs import globs_overlap
from lakeidx.pipeline.index_types import check_index_type
from lakeidx.pipeline.landing import LandingOptions
from lakeidx.pipeline.yaml_lines import YamlDocument, parse_yaml

_OWNER = re.compile(r"^(team:[^:]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")
_TAG_KEY = re.compile(r"^([\w.-]{1,63}/)?[\w.-]{1,63}$")
_TAG_VALUE = re.compile(r"^[\w.-]{0,63}$")


class Strict(BaseModel):
    """Unknown keys are errors; values do not change after load."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _option_text(value: Any) -> Any:
    # YAML reads `bucket: -1` as a number and `write-only: true` as a boolean; table options are texts.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _date_text(value: Any) -> Any:
    # YAML reads an unquoted 2013-01-01 as a date.
    return value.isoformat() if isinstance(value, date) else value


DateText = Annotated[str, BeforeValidator(_date_text)]
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
    key      regular expression that takes the partition out of a landing file's name. What its groups match, joined by ``-``,
             is the partition: ``2013-07-09`` (daily), ``2013-07-09-23`` (hourly), ``2013-07`` (monthly), or one of `values`
    per_run  partitions that one run of a backfill takes at most; None: a backfill is one run, one batch, one snapshot
    """

    by: Literal["files", "daily", "hourly", "monthly", "static"] = "files"
    start: DateText | None = None
    values: tuple[str, ...] = ()
    key: str | None = None
    per_run: int | None = Field(default=None, ge=1)

    @field_validator("key")
    @classmethod
    def _has_group(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                groups = re.compile(value).groups
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
            if not groups:
                raise ValueError("the regular expression needs a group: (...) around the partition")
        return value

    @field_validator("start")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                datetime.fromisoformat(value)
            except ValueError:
                raise ValueError(f"{value!r} is no ISO date or time; write 2013-01-01") from None
        return value

    @model_validator(mode="after")
    def _complete(self) -> PartitionsConfig:
        if self.by in ("daily", "hourly", "monthly") and not self.start:
            raise ValueError(f"partitions by {self.by} need 'start'")
        if self.by == "static" and not self.values:
            raise ValueError("static partitions need 'values'")
        if self.by != "files" and not self.key:
            raise ValueError(f"partitions by {self.by} need 'key': a regular expression with a group")
        return self


class SchedulesConfig(Strict):
    """Cron lines of the jobs around a table, in UTC; a job without one runs only when asked to."""

    compaction: str | None = None
    expiry: str | None = None
    verification: str | None = None

    @field_validator("compaction", "expiry", "verification")
    @classmethod
    def _is_cron(cls, value: str | None) -> str | None:
        if value is not None:
            check_cron(value)
        return value


class ChecksConfig(Strict):
    """Limits of the checks after each run.

    skew_ratio     largest bucket of a partition over the partition's mean
    stale_share    share of index hashes whose key was deleted
    orphan_files   files that nothing refers to
    sample_rows    keys that are looked up in the lookup store, values that are tried on file indexes
    blocking       failed checks of severity ERROR keep the stages after them from running
    """

    skew_ratio: float = Field(default=4.0, gt=1)
    stale_share: float = Field(default=0.1, ge=0, le=1)
    orphan_files: int = Field(default=1000, ge=0)
    sample_rows: int = Field(default=1000, ge=1)
    blocking: bool = True


class RetriesConfig(Strict):
    """How often a step is tried again after an error that may pass, and how long to wait first (doubled each time)."""

    max_retries: int = Field(default=3, ge=0)
    delay_seconds: float = Field(default=10.0, ge=0)


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
    retries: RetriesConfig = RetriesConfig()

    @field_validator("owners")
    @classmethod
    def _owners_are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for owner in value:
            if not _OWNER.match(owner):
                raise ValueError(f"owner {owner!r}: write an e-mail address, or team:name")
        return value

    @field_validator("tags")
    @classmethod
    def _tags_are_short(cls, value: dict[str, str]) -> dict[str, str]:
        for key, text in value.items():
            if not _TAG_KEY.match(key) or not _TAG_VALUE.match(text):
                raise ValueError(f"tag {key}: {text}: use up to 63 letters, digits and . _ -")
        return value

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
    return _parse(text, path, environment)[0]


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
    for file in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        try:
            config, document = _parse(_read(file), str(file), environment)
            _check_apart(config, document, good, str(file))
            good[file] = config
        except InvalidInputError as error:
            bad[file] = error
    return good, bad


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"line 1: the file cannot be read: {error}", path=str(file)) from error


def _parse(text: str, path: str, environment: Mapping[str, str] | None) -> tuple[PipelineConfig, YamlDocument]:
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
        schema = new_schema(config.spec())
        validate_merge_options(schema)
        check_index_type(schema)
    except (InvalidInputError, UnsupportedError) as error:
        raise InvalidInputError(f"line {_schema_line(document, str(error))}: {error}", path=path) from error
    return config, document


def _check_apart(
    config: PipelineConfig, document: YamlDocument, others: Mapping[Path, PipelineConfig], path: str
) -> None:
    landing = config.landing
    for file, other in others.items():
        if other.uri == config.uri:
            line = document.line(("table",))
            raise InvalidInputError(f"line {line}: {file.name} describes the table {config.table} already", path=path)
        same_folder = other.landing.path.rstrip("/") == landing.path.rstrip("/")
        if same_folder and globs_overlap(other.landing.pattern, landing.pattern):
            line = document.line(("landing", "pattern"))
            raise InvalidInputError(
                f"line {line}: files of {landing.pattern!r} can be landing files of {other.table} ({file.name}: "
                f"{other.landing.pattern!r}), too; give each table its own folder or pattern",
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
