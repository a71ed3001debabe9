"""Pipeline files of feeds: one YAML file describes a feed of many tables, and the database that gets them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from lakeidx.format.schema.schema_file import TableSchema, schema_to_json
from lakeidx.landing.changes import change_formats, message_formats
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.pipeline_file.model import RESOURCE_PREFIX, PipelineConfig, feed_files, read_document
from lakeidx.pipeline_file.problems import PipelineFileError, fail, model_problems
from lakeidx.pipeline_file.sections import (
    AlertConfig,
    ChecksConfig,
    FolderText,
    GroupsConfig,
    LandingConfig,
    LimitsText,
    OptionText,
    RejectedText,
    RetriesConfig,
    SchedulesConfig,
    Strict,
    accept,
)

_NAME = re.compile(r"[\w-]+")


class FeedConfig(Strict):
    """Pipeline file of a feed; its options are those of `lakeidx.landing.feed_options.FeedOptions`.

    feed              name of the feed, in Dagster
    warehouse         folder or ``s3://`` prefix that holds the databases
    database          the database that gets the tables
    description, owners, tags   shown in Dagster
    landing           feed files; `format` is one of debezium, canal, maxwell, ogg, dms-json; or dms, whose files are in folders of
                      tables below it, so that `pattern` has a slash
    including_tables, excluding_tables   regular expressions, or lists of them
    schema_changes    columns that a table does not have: ``refuse`` the table's batch, ``add`` them, ``widen`` also types
    strict            refuse a table's batch with rejected rows
    max_rejected      refuse it with more rejected rows: a number, a share like 5%, or both like 100,5%
    limits            hold a table's batch that is beyond one, as in a table's pipeline file; the other tables get theirs
    retries           retries of a run after an error that may pass
    schedules         cron lines of compaction, expiry, orphans and verification of each table
    checks            limits of the verification's checks
    alerts            who is told when a run of the feed or of one of its tables failed
    groups, resource_prefix   groups of the assets in Dagster, and what the names of its resources begin with
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
    max_rejected: RejectedText | None = None
    limits: LimitsText = Field(default_factory=dict)
    retries: RetriesConfig = RetriesConfig()
    schedules: SchedulesConfig = SchedulesConfig()
    checks: ChecksConfig = ChecksConfig()
    alerts: tuple[AlertConfig, ...] = ()
    groups: GroupsConfig = GroupsConfig()
    resource_prefix: str = RESOURCE_PREFIX

    @field_validator("feed", "database")
    @classmethod
    def _plain_names(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value!r}: use letters, digits, _ and -")
        return value

    @model_validator(mode="after")
    def _can_be_read(self) -> FeedConfig:
        if self.landing.format not in change_formats():
            raise ValueError(f"landing.format of a feed is one of {', '.join(change_formats())}")
        if self.landing.format not in message_formats() and "/" not in self.landing.pattern:
            raise ValueError(
                f"files of {self.landing.format} are in folders, <schema>/<table>/<file>: give landing.pattern a slash, '*/*/*'"
            )
        if self.landing.source:
            raise ValueError("landing.source chooses one table: choose many with including_tables")
        accept(self.options)
        accept(self.landing_pipeline)
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
        return self._pipeline(self.feed, {"fields": (), "description": self.description})

    def table_pipeline(self, name: str, source: str, schema: TableSchema | None) -> PipelineConfig:
        """Return one of the tables as a pipeline: for its upkeep and checks, which go by its key and options.

        source   its table of the source
        schema   None for a table that cannot be looked at now: it is to have the keys and options that this file gives
        """
        if schema is not None:
            kept = schema_to_json(schema)
            fields = [{k: f[k] for k in ("name", "type", "description") if k in f} for f in kept["fields"]]
            return self._pipeline(
                name, {"fields": fields, **{k: kept[k] for k in ("primaryKeys", "partitionKeys", "options")}}
            )
        options = self.options()
        partitions = options.partition_keys_of(source)
        keys = [*dict.fromkeys((*partitions, *(options.keys_of(source) or ("id",))))]
        columns = [*keys, *(n for n in self.table_conf.get("sequence.field", "").split(",") if n and n not in keys)]
        fields = [{"name": n.strip(), "type": "STRING"} for n in columns]
        return self._pipeline(
            name, {"fields": fields, "primaryKeys": keys, "partitionKeys": partitions, "options": self.table_conf}
        )

    def _pipeline(self, name: str, more: Mapping[str, Any]) -> PipelineConfig:
        shared = ("warehouse", "landing", "owners", "tags", "limits", "retries", "schedules", "checks", "alerts", "groups",
                  "resource_prefix")  # fmt: skip
        return PipelineConfig.model_validate(
            {"table": f"{self.database}.{name}", **{n: getattr(self, n) for n in shared}, **more}
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
    document = read_document(file, environment)
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
