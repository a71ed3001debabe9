"""The sections of a pipeline file: columns, landing files, partitions, schedules, limits of checks, freshness, retries."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.landing.changes import message_formats
from lakeidx.landing.kind_rules import parse_on_delete
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.options.arguments import path_text
from lakeidx.options.limits import BatchLimits
from lakeidx.storage.landing_folders import refuse_plain_secrets

T = TypeVar("T")

_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_NAMED = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_URL = re.compile(r"^(https?://\S+|\$\{LAKEIDX_SECRET_\w+\})$")
_PART = re.compile(r"^(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?$")


#: Options of the reader that a pipeline file has by the same name.
_READING = frozenset(f.name for f in dataclasses.fields(LandingOptions))


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


def accepted_by(check: Callable[[Any], object]) -> AfterValidator:
    """Return a validator of what a check of lakeidx accepts; its error becomes one of the file."""

    def accepted(value: T) -> T:
        accept(partial(check, value))
        return value

    return AfterValidator(accepted)


def accept(check: Callable[[], object]) -> None:
    """Run a check; ValueError with the message of its InvalidInputError."""
    try:
        check()
    except InvalidInputError as error:
        raise ValueError(error.message) from error


#: A folder: a blank one, such as an empty variable leaves, would be the root of the file system.
FolderText = Annotated[str, accepted_by(partial(path_text, name="a folder"))]
#: Limits of a batch, by what they count.
LimitsText = Annotated[dict[str, int | str], accepted_by(BatchLimits.parse)]
#: Limit of rejected rows: a number, a share, or both.
RejectedText = Annotated[int | str, accepted_by(RejectLimit.parse)]
# The JSON schema, by which other tools check a file, says what YAML may hold there.
DateText = Annotated[str, BeforeValidator(_date_text), WithJsonSchema({"description": "ISO date or time"})]
#: A word of a file, which YAML may read as a number or a boolean; `no` and `yes` in quotes.
WordText = Annotated[str, BeforeValidator(_option_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
ConstantText = Annotated[
    str | None,
    BeforeValidator(lambda value: _option_text(_date_text(value))),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
OptionText = Annotated[str, BeforeValidator(_option_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class ColumnConfig(Strict):
    """One column.

    name         the column's name
    type         as Paimon's schema JSON writes it: ``BIGINT NOT NULL``, ``DECIMAL(10, 2)``, a mapping for nested types
    description  shown in Dagster and kept in the schema
    """

    name: str
    type: str | dict[str, Any]
    description: str | None = None


class BatchingConfig(Strict):
    """Rules by which the landing sensor puts files into runs: a batch closes at the first limit it reaches.

    max_files        number of files
    max_bytes        their bytes
    max_age_seconds  age of the oldest file; without it an incomplete batch starts at once
    """

    max_files: int = Field(default=1, ge=1)
    max_bytes: int | None = Field(default=None, ge=1)
    max_age_seconds: float | None = Field(default=None, ge=0)


class EventsConfig(Strict):
    """A queue of events about new landing files: SQS, or a service that speaks its protocol; for landing folders on S3.

    url           of the queue; the bucket's events of the landing folder go there, directly, through SNS or through EventBridge
    max_messages  messages that one look at it receives at most
    list_hours    hours after which the folder is listed all the same, for files whose message was lost
    """

    url: str
    max_messages: int = Field(default=200, ge=1, le=2000)
    list_hours: float = Field(default=24.0, gt=0)


OnDeleteText = Literal["apply", "reject", "ignore", "remove"]


class LandingConfig(Strict):
    r"""Place and reading of landing files.

    path                  folder: local, ``s3://``, ``gs://``, ``az://``, or any URL that fsspec reads (``sftp://``, ``https://``,
                          ``zip://::/in/x.zip``)
    storage_options       options of the store it is in; of one that fsspec reads those of its file system there. Secrets are
                          written as ``${LAKEIDX_SECRET_NAME}``, and looked up where files are read
    pattern               glob of file names in it; one with a slash (``*/*.csv``) is of paths below it, folders in it included
    format                format of the files; without it the ending of the name decides. Changes of a database: ``debezium``,
                          ``canal``, ``maxwell``, ``ogg``, ``dms-json`` (messages, one a line); ``dms``: files with a column
                          ``Op``, their own format by the ending
    op_column             column of the files that says what happened to a row
    op_values             texts of that column and the row kinds they mean: ``{c: +I, u: +U, d: -D}``; default I, U and D
    order                 where messages (``source.lsn``), or columns of the files, have the source's order: values for the
                          columns of option ``sequence.field``, as many as it names
    source                table of the source whose messages are read, ``shop.customers`` or with the names before it, or a list of
                          them; others are left out, and counted. Without it all messages must be of one table
    check_before          share of the keys whose rows before changes (``before``, ``old``) must be those the table has, 0 to 1: 0
                          checks none, 1 all; contradictions are rejected rows. Costs a point lookup per key; messages only
    delimiter             character between the fields of a CSV file; without it a comma, or what the header says where that gives
                          no column of the table
    quote, escape         characters around values of CSV files, ``''`` for none, and before characters that mean themselves
    comment               character that begins lines of CSV files that are left out
    skip_lines            lines (of Excel files rows) before the header
    encoding              of CSV and JSON files: ``latin-1``, ``cp1252``, ``utf-16``; without it UTF-8. A byte order mark goes first
    member                where an object of a JSON file has the array of rows: ``result.items``. A file that is an array needs none
    sheet                 sheet of an Excel file, by name or number from 1; without it the first
    columns               names in the files and the table's, ``{Kunden-Nr: id, Notiz: null}``: null leaves a column out. Or the
                          columns of CSV files that have no header line, a list in their order
    constants             values of columns that files do not have: ``{country: DE}``
    from_name             regular expressions that take values of columns from the file's name, from its path when they have a
                          slash: ``{day: 'orders-(\d{4}-\d{2}-\d{2})'}``
    decimal               before the fraction of numbers: ``.`` or ``,``
    thousands             between groups of three digits: ``.`` ``,`` ``_``, a blank or an apostrophe
    date_formats          how dates and times are written, the first that fits: ``['%d.%m.%Y', '%d.%m.%Y %H:%M', iso]``; without
                          it as ISO says
    timezone              of times without a zone, for columns of TIMESTAMP WITH LOCAL TIME ZONE: ``Europe/Berlin``; without it UTC
    true_values           words for true, beside true, t, yes, y and 1
    false_values          words for false, beside false, f, no, n and 0
    null_values           texts of a CSV or Excel file that are read as null
    ignore_extra_columns  leave out columns that the table does not have, instead of refusing the file
    missing_columns       nullable columns that a file, or a row of it, lacks: ``refuse`` the file or reject the row; take them as
                          ``null``, which replaces the values of known keys; take them from the row ``before`` the change that a
                          message has, or else from the ``table``. Merge engines partial-update and aggregation keep them in any
                          case
    on_delete             rows of kind -D and -U: ``apply`` them where the table's merge engine and options take them, and reject
                          them where not; ``reject`` them; ``ignore``: leave them out; ``remove``: a -D removes the row, and the
                          table gets the option that says so (`partial-update.remove-record-on-delete`). Or one for each kind,
                          ``{-D: remove, -U: ignore}``
    settle_seconds        a file is taken when it has not changed for so long
    success_marker        take a file only when a file of its name plus this suffix is there
    events                queue of events about new files; the landing sensor receives its messages then, and seldom lists
    asset                 Dagster asset that writes the files, ``team/export``, of any code location: a partition of it that was
                          materialized is a batch of the same partition, when automation is on. With partitions by files the
                          landing sensor looks for files each time the asset was materialized
    """

    path: FolderText
    storage_options: Annotated[dict[str, Any], accepted_by(refuse_plain_secrets)] = Field(default_factory=dict)
    pattern: str = "*"
    format: (
        Literal["parquet", "arrow", "orc", "avro", "csv", "jsonl", "excel"]
        | Literal["debezium", "canal", "maxwell", "ogg", "dms-json", "dms"]
        | None
    ) = None
    op_column: str | None = None
    op_values: dict[str, Literal["+I", "-U", "+U", "-D"]] = Field(default_factory=dict)
    order: tuple[str, ...] = ()
    source: str | tuple[str, ...] = ()
    check_before: float = Field(default=0.0, ge=0, le=1)
    delimiter: str | None = None
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    skip_lines: int = Field(default=0, ge=0)
    encoding: str | None = None
    member: str | None = None
    sheet: str | int | None = None
    columns: tuple[str, ...] | dict[str, str | None] = ()
    constants: dict[str, ConstantText] = Field(default_factory=dict)
    from_name: dict[str, str] = Field(default_factory=dict)
    decimal: str = "."
    thousands: str = ""
    date_formats: tuple[str, ...] = ()
    timezone: str | None = None
    true_values: tuple[WordText, ...] = ()
    false_values: tuple[WordText, ...] = ()
    null_values: tuple[WordText, ...] = ("",)
    ignore_extra_columns: bool = False
    missing_columns: Literal["refuse", "null", "before", "table"] = "refuse"
    on_delete: Annotated[OnDeleteText | dict[str, OnDeleteText], accepted_by(parse_on_delete)] = "apply"
    settle_seconds: float = Field(default=2.0, ge=0)
    success_marker: str | None = None
    batching: BatchingConfig = BatchingConfig()
    events: EventsConfig | None = None
    asset: str | None = Field(default=None, pattern=r"^[^/\s]+(/[^/\s]+)*$")

    @model_validator(mode="after")
    def _reading(self) -> LandingConfig:
        accept(self.options)
        return self

    @model_validator(mode="after")
    def _order_of_changes(self) -> LandingConfig:
        if (self.order or self.op_values) and not self.is_changes:
            raise ValueError("order and op_values are for changes: set format or op_column")
        if self.op_column is not None and self.format in message_formats():
            raise ValueError(f"messages of {self.format} have their operation in the message: leave op_column out")
        if self.check_before and self.format not in message_formats():
            raise ValueError("check_before is for messages, which have rows before changes: set their format")
        if self.check_before and self.missing_columns == "table":
            raise ValueError("check_before and missing_columns: table do not go together: set one of them")
        if self.source and self.format not in message_formats():
            raise ValueError("source is for messages, which name their table: set their format")
        return self

    @property
    def removes(self) -> bool:
        """True when a -D is to remove the row of its key."""
        return parse_on_delete(self.on_delete)["-D"] == "remove"

    @property
    def is_changes(self) -> bool:
        """True when files contain changes of a database."""
        return self.options().is_changes

    def options(self, *, merge_schema: str = "refuse") -> LandingOptions:
        """Return the reader's options.

        merge_schema  what is done with columns that the table does not have
        """
        own = {name: getattr(self, name) for name in type(self).model_fields.keys() & _READING}
        return LandingOptions(
            **own
            | {
                "ignore_extra": self.ignore_extra_columns,
                "missing": self.missing_columns,
                "op_values": tuple(self.op_values.items()),
                "merge_schema": merge_schema,
                "source": (self.source,) if isinstance(self.source, str) else self.source,
            }
        )


class PartitionsConfig(Strict):
    """Partitions of the table's assets in Dagster.

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
        try:
            groups = 1 if value is None else re.compile(value).groups
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        if not groups:
            raise ValueError("the regular expression needs a group: (...) around the partition")
        return value

    @field_validator("start")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        try:
            datetime.fromisoformat("1970-01-01" if value is None else value)
        except ValueError:
            raise ValueError(f"{value!r} is not an ISO date or time; write 2013-01-01") from None
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


def check_cron(text: str) -> str:
    """Return a cron line; ValueError saying which field is wrong: five fields, or one of ``@hourly`` .. ``@yearly``."""
    if text in _NAMED:
        return text
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"cron {text!r} has {len(fields)} fields; write minute, hour, day of month, month, day of week"
        )
    for value, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in value.split(","):
            match = _PART.match(part)
            if match is None:
                raise ValueError(f"cron {text!r}: {part!r} is no {name}")
            star, first, last, step = match.groups()
            numbers = [] if star else [_number(t, names, low) for t in (first, last) if t is not None]
            if any(n is None or not low <= n <= high for n in numbers) or (step is not None and int(step) < 1):
                raise ValueError(f"cron {text!r}: {part!r} is no {name} ({low} to {high})")
            if len(numbers) == 2 and (numbers[0] or 0) > (numbers[1] or 0):
                raise ValueError(f"cron {text!r}: the range {part!r} runs backwards")
    return text


def _number(text: str, names: tuple[str, ...], low: int) -> int | None:
    if text.isdigit():
        return int(text)
    return names.index(text.lower()) + low if text.lower() in names else None


CronText = Annotated[str, AfterValidator(check_cron)]
#: When the jobs around a table run where a pipeline file does not say it; the minute is another for each table.
_CRONS = {"compaction": "{} 1 * * *", "expiry": "{} 2 * * *", "orphans": "{} 3 * * 6", "verification": "{} 4 * * 0"}


class SchedulesConfig(Strict):
    """Cron lines of the jobs around a table. Each schedule is off until it is turned on; `null` leaves one out.

    compaction    merge sorted runs; default: daily after 1:00
    expiry        expire snapshots, remove staging files; default: daily after 2:00
    orphans       an expiry that also removes old files that nothing refers to; default: on Saturdays after 3:00
    verification  run every check over the whole table; default: on Sundays after 4:00
    timezone      of all four: ``Europe/Berlin``
    """

    compaction: CronText | None = None
    expiry: CronText | None = None
    orphans: CronText | None = None
    verification: CronText | None = None
    timezone: str = "UTC"

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, ZoneInfoNotFoundError):
            near = did_you_mean(value, sorted(available_timezones()), listing="write one like Europe/Berlin; there are")
            raise ValueError(f"there is no time zone {value!r}; {near}") from None
        return value

    def crons(self, table: str) -> dict[str, str]:
        """Return the cron line of each schedule of a table; none for those that are left out."""
        minute = zlib.crc32(table.encode()) % 60
        given = {n: getattr(self, n) if n in self.model_fields_set else c.format(minute) for n, c in _CRONS.items()}
        return {name: cron for name, cron in given.items() if cron is not None}


_ALERT_KINDS = ("slack", "webhook", "email", "call")


class AlertConfig(Strict):
    """Somebody who is told when a run of the table failed: one of the first four. URLs that are secrets are written as
    ``${LAKEIDX_SECRET_NAME}``, and looked up when an alert is sent.

    slack    URL of an incoming webhook of Slack
    webhook  URL that gets JSON: `text`, and each part of the alert
    email    address, or a list of them
    call     ``module:function``, called with a `lakeidx.dagster.sensors.failed_runs.Alert`
    smtp     with email: the server, ``smtp://user:password@host:587`` or ``smtps://``; default: LAKEIDX_ALERT_SMTP
    sender   with email: the address it comes from; default: the first that gets it
    """

    slack: str | None = None
    webhook: str | None = None
    email: str | tuple[str, ...] | None = None
    call: str | None = Field(default=None, pattern=r"^[\w.]+:\w+$")
    smtp: str | None = None
    sender: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> AlertConfig:
        if sum(bool(getattr(self, kind)) for kind in _ALERT_KINDS) != 1:
            raise ValueError(f"an alert is one of {', '.join(_ALERT_KINDS)}")
        if (self.smtp or self.sender) and not self.email:
            raise ValueError("smtp and sender are for email")
        url = self.slack or self.webhook
        if url and not _URL.match(url):
            raise ValueError("the URL does not begin with http:// or https://, and is no ${LAKEIDX_SECRET_NAME}")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses that get e-mail."""
        return (self.email,) if isinstance(self.email, str) else self.email or ()


class GroupsConfig(Strict):
    """Groups of the table's assets in Dagster, which its lineage shows folded or open.

    table   of the table itself; default: the database
    stages  of the landing folder, the stages of a batch and the upkeep; default: the database and ``_stages``
    """

    table: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_/]+$")
    stages: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_/]+$")


class ChecksConfig(Strict):
    """Limits of the checks after each run.

    skew_ratio     largest bucket of a partition over the partition's mean
    stale_share    share of index hashes whose key was deleted
    orphan_files   files that nothing refers to
    sample_rows    keys that are looked up in the lookup store, values that are tried on file indexes
    bucket_rows    rows of buckets whose keys are read after a batch: all that it touched, or some of them drawn at random
    blocking       failed checks of severity ERROR keep the stages after them from running
    """

    skew_ratio: float = Field(default=4.0, gt=1)
    stale_share: float = Field(default=0.1, ge=0, le=1)
    orphan_files: int = Field(default=1000, ge=0)
    sample_rows: int = Field(default=1000, ge=1)
    bucket_rows: int = Field(default=2_000_000, ge=1)
    blocking: bool = True


class FreshnessConfig(Strict):
    """Age of the table's newest batch at which Dagster warns or fails.

    fail_hours  hours after which the table counts as stale
    warn_hours  hours after which it is shown as a warning
    """

    fail_hours: float = Field(gt=0)
    warn_hours: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _warns_first(self) -> FreshnessConfig:
        if self.warn_hours is not None and self.warn_hours >= self.fail_hours:
            raise ValueError("warn_hours must be less than fail_hours")
        return self


#: Columns that expectations ``on: batches`` may name: what a batch did, and the table after it; `batches_ago` is 0 for the newest.
BATCH_FIGURES = (
    "batches_ago", "rows_in", "rows_rejected", "rejected_share", "inserts", "updates", "upserts", "deletes", "buckets",
    "new_buckets", "data_bytes", "index_bytes", "table_rows", "table_buckets", "bucket_fill",
)  # fmt: skip


class ExpectationConfig(Strict):
    """Expectation about rows, in the words of Great Expectations; each is an asset check of its own.

    type       name of an expectation: ``expect_column_values_to_be_between``
    args       its arguments: ``{column: delay, min_value: -60, mostly: 0.99}``
    on         ``landed``: the rows of each batch, before a bucket is assigned; ``table``: all rows, at each verification;
               ``batches``: a row of figures (`BATCH_FIGURES`) for each of the last 30 batches, after each commit
    name       of the check; default the type and its columns
    severity   ``error`` or ``warn``
    blocking   when it is not met, the stages after it do not run; default: as `severity` says
    set_aside  landed rows that do not meet it are rejected, each with its value, and the others pass; for expectations about
               single rows. `max_rejected` and `strict` say how many may be, so `mostly` is not for these
    """

    type: str = Field(pattern=r"^expect_[a-z_]+$")
    args: dict[str, Any] = Field(default_factory=dict)
    on: Literal["landed", "table", "batches"] = "landed"
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_]+$")
    severity: Literal["error", "warn"] = "error"
    blocking: bool | None = None
    set_aside: bool = False

    @model_validator(mode="after")
    def _of_landed_rows(self) -> ExpectationConfig:
        if self.set_aside and self.on != "landed":
            raise ValueError(f"set_aside is for landed rows: leave on: {self.on} out")
        if self.set_aside and "mostly" in self.args:
            raise ValueError(
                "set_aside rejects every row that fails: limit these by max_rejected, and leave mostly out"
            )
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the arguments name."""
        found = [self.args[k] for k in ("column", "column_A", "column_B") if k in self.args]
        lists = [self.args[k] for k in ("column_list", "column_set") if isinstance(self.args.get(k), list)]
        return tuple(str(c) for c in (*found, *(c for names in lists for c in names)))

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns to read; none where all are, in their order: for what is expected of the table's columns."""
        of_all = self.type.startswith("expect_table_") or self.type == "expect_column_to_exist"
        return () if of_all else self.columns

    @property
    def check_name(self) -> str:
        """Name of the check."""
        return self.name or re.sub(r"\W", "_", "__".join([self.type, *self.columns]))

    @property
    def blocks(self) -> bool:
        """True when stages after the check wait for it."""
        return self.severity == "error" if self.blocking is None else self.blocking


class ChangesConfig(Strict):
    """A consumer of the table: a Parquet file with the changes of each commit, and an asset that has a materialization for each.

    path      folder the files are written to, local or ``s3://``; the environment is not read here
    consumer  id under which the table keeps how far it has read; expiry leaves what it has not
    start     where it begins: ``latest-full`` (the whole newest state, then each commit), ``latest``, ``earliest``, a snapshot id,
              a tag or an ISO time
    """

    path: FolderText
    consumer: str = "changes"
    start: str = "latest-full"


class RetriesConfig(Strict):
    """Retries of a step after an error that may pass.

    max_retries    tries after the first one
    delay_seconds  pause before the first retry, doubled each time
    """

    max_retries: int = Field(default=3, ge=0)
    delay_seconds: float = Field(default=10.0, ge=0)
