"""Pipeline files: one YAML file describes one table and how it is kept (``pipelines/*.yaml``).

Everything is checked at load, and what is wrong is named with file and line. A table is added by adding a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from lakeidx.batch.index_types import check_index_type
from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.paths import (
    MAIN_BRANCH,
    TablePaths,
    check_table_name,
    split_branch_name,
    split_table_name,
    with_branch,
)
from lakeidx.format.schema.schema_file import TableSchema, new_schema
from lakeidx.landing.kind_rules import REMOVING_OPTION, check_on_delete
from lakeidx.landing.reject_limit import RejectLimit
from lakeidx.landing.types import LandingOptions
from lakeidx.landing.written.file_columns import check_file_columns
from lakeidx.pipeline_file.expectations import cast_arguments, check_type
from lakeidx.pipeline_file.problems import PipelineFileError, column_problems, fail, model_problems, schema_problems
from lakeidx.pipeline_file.sections import (
    BATCH_FIGURES,
    AlertConfig,
    ChangesConfig,
    ChecksConfig,
    ColumnConfig,
    ExpectationConfig,
    FolderText,
    FreshnessConfig,
    GroupsConfig,
    LandingConfig,
    LimitsText,
    OptionText,
    PartitionsConfig,
    RejectedText,
    RetriesConfig,
    SchedulesConfig,
    Strict,
    accepted_by,
)
from lakeidx.pipeline_file.yaml_lines import YamlDocument, parse_yaml
from lakeidx.storage.local import absolute
from lakeidx.table.usable import check_usable
from lakeidx.types import DataType

P = TypeVar("P", bound="PipelineConfig")

#: Names of resources in Dagster begin so: a project may have a `spark` of its own.
RESOURCE_PREFIX = "lakeidx_"
_QUEUE = re.compile(r"https?://[^/@\s]+/[^\s?#]+$")
_ON_S3 = re.compile(r"s3[an]?://")
_OWNER = re.compile(r"^(team:[^:]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")
_TAG_KEY = re.compile(r"^([\w.-]{1,63}/)?[\w.-]{1,63}$")
_TAG_VALUE = re.compile(r"^[\w.-]{0,63}$")
_FEED = re.compile(rb"^feed[ \t]*:", re.MULTILINE)
_TOKEN = re.compile(r"\*+|\?|\[[^\]]+\]|.", re.DOTALL)


class PipelineConfig(Strict):
    """One pipeline file.

    table           ``database.table``
    warehouse       folder or ``s3://`` prefix that holds the databases; the table is in ``<warehouse>/<database>.db/<table>``
    branch          the branch of the table that is written and read, ``${DAGSTER_CLOUD_GIT_BRANCH:-main}``: other characters than
                    letters, digits, ``_``, ``.`` and ``-`` become ``-``
    create_branch   make the branch, at the table's newest snapshot, when a run finds that it is not there
    description     shown in Dagster
    owners          shown in Dagster: e-mail addresses or ``team:name``
    tags            shown in Dagster
    fields          the columns
    primaryKeys     columns of the primary key; none: an append table
    partitionKeys   columns that partition the table
    options         table options under Paimon's names, e.g. ``bucket: -1``
    schema_changes  what is done when the table is there and this file says otherwise: ``refuse`` the run and show every
                    difference; ``add`` columns, comments and options; ``widen`` types and nullability, too; ``all``: drop
                    what this file does not have, too
    merge_schema    columns that only landing files have: ``refuse`` the batch; ``add`` them to the table; ``widen`` also
                    columns that the files declare wider. The table is then ahead of this file
    strict          refuse a batch with rejected rows
    max_rejected    refuse a batch with more rejected rows: a number, a share like 5%, or both like 100,5%
    limits          hold a batch before its commit that is beyond one: ``{deletes: 5%, updates: 50%, inserts: 2x, rejected: 1%,
                    new_partitions: 3}``, of the table's rows (5%), of those of recent batches (2x), or a number of rows; default:
                    the table's option ``lakeidx.limits``
    publish         ``after_checks``: checks of the table, and expectations of it and of batches, are judged before a batch is
                    committed, on the table as it would be; one that fails and blocks holds the batch. ``at_once``: after it
    lookup_store    build lookup files after each commit
    freshness       how old the newest batch may be
    changes         write what each commit changed to files
    expectations    what is expected of landed rows, of the table, and of figures over the last batches
    alerts          who is told when a run of the table failed
    groups          groups of the assets in Dagster
    lineage         ``stages``: each stage of a batch is an asset before the table's. ``table``: the table is the only asset, whose
                    step runs them all
    resource_prefix  what the names of the resources begin with that the assets use in Dagster: `lakeidx_store`
    data_docs       folder, local or ``s3://``, that gets Great Expectations' page of each time expectations were judged;
                    checks link to it
    """

    table: Annotated[str, accepted_by(lambda name: check_table_name(split_table_name(name)[1]))]
    warehouse: FolderText
    branch: str = MAIN_BRANCH
    create_branch: bool = False
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    landing: LandingConfig
    fields: tuple[ColumnConfig, ...]
    primary_keys: tuple[str, ...] = Field(default=(), alias="primaryKeys")
    partition_keys: tuple[str, ...] = Field(default=(), alias="partitionKeys")
    options: dict[str, OptionText] = Field(default_factory=dict)
    schema_changes: Literal["refuse", "add", "widen", "all"] = "refuse"
    merge_schema: Literal["refuse", "add", "widen"] = "refuse"
    partitions: PartitionsConfig = PartitionsConfig()
    strict: bool = False
    max_rejected: RejectedText | None = None
    limits: LimitsText = Field(default_factory=dict)
    publish: Literal["at_once", "after_checks"] = "at_once"
    lookup_store: bool = False
    schedules: SchedulesConfig = SchedulesConfig()
    checks: ChecksConfig = ChecksConfig()
    retries: RetriesConfig = RetriesConfig()
    freshness: FreshnessConfig | None = None
    changes: ChangesConfig | None = None
    expectations: tuple[ExpectationConfig, ...] = ()
    data_docs: FolderText | None = None
    alerts: tuple[AlertConfig, ...] = ()
    groups: GroupsConfig = GroupsConfig()
    lineage: Literal["stages", "table"] = "stages"
    resource_prefix: str = Field(default=RESOURCE_PREFIX, pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")

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

    @field_validator("branch")
    @classmethod
    def _name_of_a_branch(cls, value: str) -> str:
        return re.sub(r"[^A-Za-z0-9_.-]", "-", value.strip()) or MAIN_BRANCH

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
        """The table's directory, of a branch with ``$branch_NAME``, as `TableHandle.open` takes it."""
        root = f"{self.warehouse.rstrip('/')}/{self.database}.db/{self.table_name}"
        return root if self.branch == MAIN_BRANCH else with_branch(root, self.branch)

    @property
    def paths(self) -> TablePaths:
        """Paths of the table, or its branch."""
        return TablePaths(absolute(split_branch_name(self.uri)[0]), branch=self.branch)

    @property
    def lands_columns(self) -> bool:
        """True when landing files may add columns that this file does not have to the table."""
        return self.merge_schema != "refuse"

    def landing_options(self) -> LandingOptions:
        """Return how landing files are read."""
        return self.landing.options(merge_schema=self.merge_schema)

    def reject_limit(self) -> RejectLimit | None:
        """Return how many rows of a batch may be rejected; None: any number but all."""
        return None if self.max_rejected is None else RejectLimit.parse(self.max_rejected)

    def spec(self) -> dict[str, Any]:
        """Return the argument of `TableHandle.create`."""
        return {
            "fields": [c.model_dump(exclude_none=True) for c in self.fields],
            "primaryKeys": list(self.primary_keys),
            "partitionKeys": list(self.partition_keys),
            "options": {**self._options_of_landing(), **self.options},
        }

    @cached_property
    def first_schema(self) -> TableSchema:
        """Return the schema that the table is made with; InvalidInputError."""
        return new_schema(self.spec())

    def _options_of_landing(self) -> dict[str, str]:
        """Return the options by which the table does what `landing` says of its rows."""
        option = REMOVING_OPTION.get(self.options.get("merge-engine", ""))
        sequenced = any(k.endswith(".sequence-group") for k in self.options)
        return {option: "true"} if self.landing.removes and option is not None and not sequenced else {}


def parse_pipeline(text: str, *, path: str, environment: Mapping[str, str] | None = None) -> PipelineConfig:
    """Parse and check one pipeline file.

    errors   PipelineFileError with everything that is wrong, each with its line
    """
    return check_document(_document(text, path, environment), path, PipelineConfig)


def load_pipeline(file: Path, *, environment: Mapping[str, str] | None = None) -> PipelineConfig:
    """Load one pipeline file; errors as `parse_pipeline`."""
    return check_document(read_document(file, environment), str(file), PipelineConfig)


def load_pipelines(
    folder: Path, *, environment: Mapping[str, str] | None = None
) -> tuple[dict[Path, PipelineConfig], dict[Path, PipelineFileError]]:
    """Load all pipeline files of a folder; a bad one does not keep the others from loading.

    returns   configurations, and errors, by file
    """
    good: dict[Path, PipelineConfig] = {}
    bad: dict[Path, PipelineFileError] = {}
    names: dict[str, PipelineConfig] = {}
    feeds = feed_files(folder)
    for file in (f for f in _files(folder) if f not in feeds):
        try:
            document = read_document(file, environment)
            config = check_document(document, str(file), PipelineConfig)
            shared = list(shared_with_others(config, document, names))
            if shared:
                raise fail(shared, str(file))
            good[file] = names[file.name] = config
        except PipelineFileError as error:
            bad[file] = error
    return good, bad


def _files(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))


def feed_files(folder: Path) -> list[Path]:
    """List the pipeline files of feeds: those with a key `feed` in the place of `table`."""
    return [f for f in _files(folder) if _FEED.search(f.read_bytes())]


def read_document(file: Path, environment: Mapping[str, str] | None) -> YamlDocument:
    """Read the YAML of a pipeline file; PipelineFileError."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise fail([(1, f"the file cannot be read: {error}")], str(file)) from error
    return _document(text, str(file), environment)


def _document(text: str, path: str, environment: Mapping[str, str] | None) -> YamlDocument:
    try:
        return parse_yaml(text, path=path, environment=environment)
    except InvalidInputError as error:
        raise PipelineFileError(error.message, path=path) from error


def check_document(document: YamlDocument, path: str, model: type[P]) -> P:
    """Check the values of a pipeline file, from any parser.

    model    `PipelineConfig`, or one that has more
    errors   PipelineFileError with everything that is wrong, each with its line
    """
    if not isinstance(document.value, dict):
        raise fail([(1, "a pipeline file is a mapping with at least table, warehouse, landing, fields")], path)
    problems = [*document.problems, *column_problems(document)]
    config = None
    try:
        config = model.model_validate(document.value)
    except ValidationError as error:
        problems += model_problems(error, document, model)
    if config is not None and not problems:
        made = cache(partial(new_schema, config.spec()))
        problems += _expectation_problems(config, document)
        problems += _landing_problems(config, document)
        problems += schema_problems(
            document,
            (
                made,
                lambda: check_usable(made()),
                lambda: check_index_type(made()),
                lambda: _check_changes(config, made()),
            ),
        )
    if problems or config is None:
        raise fail(problems, path)
    return config


def _expectation_problems(config: PipelineConfig, document: YamlDocument) -> Iterator[tuple[int, str]]:
    """List expectations that cannot be judged, of columns that the table does not have, and names that come twice."""
    names = set[tuple[str, str]]()
    types: dict[str, DataType] = {}
    with suppress(InvalidInputError):  # said with the other problems of the columns
        types = {f.name: f.type for f in config.first_schema.fields}
    for i, expected in enumerate(config.expectations):
        line = document.line(("expectations", i))
        columns = BATCH_FIGURES if expected.on == "batches" else [c.name for c in config.fields]
        for name in expected.columns:
            if name not in columns:
                yield line, f"{expected.type}: there is no column {name!r}; {did_you_mean(name, columns)}"
        try:
            check_type(expected)
            cast_arguments(expected, {} if expected.on == "batches" else types)
        except InvalidInputError as error:
            yield line, str(error)
        # Checks of batches are the table's; so are those of its rows that are judged before a commit, and of its only asset.
        with_batches = {"table": config.publish == "after_checks", "landed": config.lineage == "table"}
        on = "batches" if with_batches.get(expected.on) else expected.on
        if (on, expected.check_name) in names:
            yield line, f"two expectations on {on} are named {expected.check_name}: give one another name"
        names.add((on, expected.check_name))


def _landing_problems(config: PipelineConfig, document: YamlDocument) -> Iterator[tuple[int, str]]:
    """List what is wrong with the queue of landing events."""
    events, path = config.landing.events, config.landing.path
    if events is not None and not _ON_S3.match(path):
        yield document.line(("landing", "events")), f"landing.events is for folders on S3; landing.path is {path}"
    if events is not None and not _QUEUE.match(events.url):
        text = "landing.events.url is not a queue: write https://sqs.REGION.amazonaws.com/ACCOUNT/NAME, without credentials"
        yield document.line(("landing", "events", "url")), text


def _check_changes(config: PipelineConfig, schema: TableSchema) -> None:
    """Raise InvalidInputError for landing files of changes that the table cannot hold, or columns that would come and go."""
    if config.lands_columns and config.schema_changes == "all":
        raise InvalidInputError("schema_changes: all drops the columns that merge_schema adds: use widen")
    if config.landing.is_changes and not schema.primary_keys:
        raise InvalidInputError("landing files of changes need a table with primaryKeys")
    check_on_delete(schema, config.landing.on_delete)
    check_file_columns(schema.fields, config.landing_options())
    places, columns = len(config.landing.order), len(schema.table_options.sequence_field)
    if places and places != columns:
        raise InvalidInputError(
            f"landing.order names {places} places, and option sequence.field {columns} columns for them"
        )


def shared_with_others(
    config: PipelineConfig, document: YamlDocument, others: Mapping[str, PipelineConfig]
) -> Iterator[tuple[int, str]]:
    """Return the tables and landing files that other pipeline files describe already, by the names of these files."""
    landing = config.landing
    for file, other in others.items():
        if other.uri == config.uri:
            yield document.line(("table",)), f"{file} describes the table {config.table} already"
            continue
        if other.table == config.table:
            text = f"{file} describes a table {config.table} in another warehouse; give one another name, which its asset has"
            yield document.line(("table",)), text
        out = None if config.changes is None else config.changes.path.rstrip("/")
        if out is not None and other.changes is not None and other.changes.path.rstrip("/") == out:
            text = f"{out} gets the changes of {other.table} ({file}) already; give each table its own folder"
            yield document.line(("changes", "path")), text
        queue = None if landing.events is None else landing.events.url
        if queue is not None and other.landing.events is not None and other.landing.events.url == queue:
            text = f"{queue} is already the queue of {other.table} ({file}); give each table its own"
            yield document.line(("landing", "events", "url")), text
        same_folder = other.landing.path.rstrip("/") == landing.path.rstrip("/")
        if same_folder and globs_overlap(other.landing.pattern, landing.pattern):
            yield (
                document.line(("landing", "pattern")),
                f"files of {landing.pattern!r} can be landing files of {other.table} ({file}: "
                f"{other.landing.pattern!r}), too; give each table its own folder or pattern",
            )


def globs_overlap(left: str, right: str) -> bool:
    """Return True when some file name matches both patterns (``*``, ``?``, ``[...]``); a set is taken to match any character."""
    a, b = _TOKEN.findall(left), _TOKEN.findall(right)

    @cache
    def meet(i: int, j: int) -> bool:
        if i == len(a) and j == len(b):
            return True
        if i < len(a) and a[i].startswith("*"):
            return meet(i + 1, j) or (j < len(b) and meet(i, j + 1))
        if j < len(b) and b[j].startswith("*"):
            return meet(i, j + 1) or (i < len(a) and meet(i + 1, j))
        if i == len(a) or j == len(b):
            return False
        return _one_character(a[i], b[j]) and meet(i + 1, j + 1)

    return meet(0, 0)


def _one_character(a: str, b: str) -> bool:
    return a == b or a == "?" or b == "?" or a.startswith("[") or b.startswith("[")
