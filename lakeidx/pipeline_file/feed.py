"""Pipeline files of feeds: one YAML file describes a feed of many tables, and the database that gets them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from lakeidx.errors import InvalidInputError
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.types import message_formats
from lakeidx.pipeline_file.model import PipelineConfig, feed_files
from lakeidx.pipeline_file.problems import PipelineFileError, fail, model_problems
from lakeidx.pipeline_file.sections import FolderText, LandingConfig, OptionText, RetriesConfig, Strict
from lakeidx.pipeline_file.yaml_lines import parse_yaml

_NAME = re.compile(r"[\w-]+")


class FeedConfig(Strict):
    """Pipeline file of a feed; its options are those of `lakeidx.landing.feed_options.FeedOptions`.

    feed              name of the feed, in Dagster
    warehouse         folder or ``s3://`` prefix that holds the databases
    database          the database that gets the tables
    description, owners, tags   shown in Dagster
    landing           feed files; `format` is one of debezium, canal, maxwell, ogg, dms-json
    including_tables, excluding_tables   regular expressions, or lists of them
    schema_changes    columns that a table does not have: ``refuse`` the table's batch, ``add`` them, ``widen`` also types
    strict            refuse a table's batch with rejected rows
    max_rejected      refuse it with more rejected rows: a number, a share like 5%, or both like 100,5%
    retries           retries of a run after an error that may pass
    """

    feed: str
    warehouse: FolderText
    database: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    landing: LandingConfig
    including_tables: str | tuple[str, ...] = ".*"
    excluding_tables: str | tuple[str, ...] | None = None
    table_prefix: str = ""
    table_suffix: str = ""
    table_mapping: dict[str, str] = Field(default_factory=dict)
    primary_keys: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    partition_keys: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    types: dict[str, str] = Field(default_factory=dict)
    table_conf: dict[str, OptionText] = Field(default_factory=dict)
    schema_changes: Literal["refuse", "add", "widen"] = "widen"
    strict: bool = False
    max_rejected: int | str | None = None
    retries: RetriesConfig = RetriesConfig()

    @field_validator("feed", "database")
    @classmethod
    def _plain_names(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r}: use letters, digits, _ and -")
        return value

    @model_validator(mode="after")
    def _can_be_read(self) -> FeedConfig:
        if self.landing.format not in message_formats():
            raise ValueError(f"landing.format of a feed is one of {', '.join(message_formats())}")
        if self.landing.source:
            raise ValueError("landing.source chooses one table: choose many with including_tables")
        try:
            self.options()
            if self.max_rejected is not None:
                RejectLimit.parse(self.max_rejected)
            self.landing_pipeline()
        except InvalidInputError as error:
            raise ValueError(error.message) from error
        return self

    def options(self) -> FeedOptions:
        """Return the choice and the names of the tables."""
        return FeedOptions(
            _expression(self.including_tables) or ".*",
            _expression(self.excluding_tables),
            self.table_prefix,
            self.table_suffix,
            self.table_mapping,
            {n: _names(v) for n, v in self.primary_keys.items()},
            {n: _names(v) for n, v in self.partition_keys.items()},
            self.types,
            self.table_conf,
            self.schema_changes,
        )

    def landing_pipeline(self) -> PipelineConfig:
        """Return the feed as a pipeline whose table it is: for what looks for landing files, and makes them partitions."""
        return PipelineConfig.model_validate(
            {
                "table": f"{self.database}.{self.feed}",
                "warehouse": self.warehouse,
                "landing": self.landing,
                "fields": (),
                **{n: getattr(self, n) for n in ("description", "owners", "tags", "retries")},
            }
        )


def load_feeds(
    folder: Path, *, environment: Mapping[str, str] | None = None
) -> tuple[dict[Path, FeedConfig], dict[Path, PipelineFileError]]:
    """Load the pipeline files of feeds of a folder, those with a key `feed`; a bad one does not keep the others from loading.

    returns   configurations, and errors, by file
    """
    good: dict[Path, FeedConfig] = {}
    bad: dict[Path, PipelineFileError] = {}
    for file in feed_files(folder):
        try:
            good[file] = _load(file, environment)
        except PipelineFileError as error:
            bad[file] = error
    return good, bad


def _load(file: Path, environment: Mapping[str, str] | None) -> FeedConfig:
    path = str(file)
    try:
        document = parse_yaml(file.read_text(encoding="utf-8"), path=path, environment=environment)
    except InvalidInputError as error:
        raise PipelineFileError(error.message, path=path) from error
    problems = [*document.problems]
    try:
        config = FeedConfig.model_validate(document.value)
    except ValidationError as error:
        raise fail([*problems, *model_problems(error, document, FeedConfig)], path) from error
    if problems:
        raise fail(problems, path)
    return config


def _expression(value: str | tuple[str, ...] | None) -> str | None:
    return "|".join(value) if isinstance(value, tuple) else value


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
