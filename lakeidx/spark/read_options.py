"""Options of the Spark data source, under Paimon's names where Paimon has one.

=========================================  ======================================================================================
``path``                                   the table's directory (what ``load(TABLE)`` gives); ``TABLE$audit_log`` and
                                           ``TABLE$binlog``, ``TABLE$files`` … are Paimon's system tables
``columns``                                comma list; only these are read (see `lakeidx.spark.datasource`)
``where``                                  SQL condition, tested by lakeidx before rows reach Spark; writes with mode overwrite
                                           replace the partitions it holds for
``scan.snapshot-id``, ``scan.tag-name``    time travel; ``scan.version`` (``versionAsOf``) takes a tag or an id
``scan.timestamp-millis``                  the same by time: ISO text or epoch milliseconds; also ``scan.timestamp`` and
                                           ``timestampAsOf``
``read.changelog``                         true: each row has its kind (+I -U +U -D) in ``_rowkind``, and deletes are there, too
``read.committed``                         true: also what readers see only after a compaction (tables with deletion vectors)
``incremental-between``                    ``a,b``: rows of the snapshots in (a, b]; of two tags: as scan mode diff
``incremental-between-tag``                ``a,b``: two tags, as in incremental-between
``incremental-between-timestamp``          ``t1,t2`` epoch ms or ISO times
``incremental-between-scan-mode``          auto, delta, changelog, derived (see `lakeidx.table.scan.changes`), or diff: what
                                           differs between the states a and b
``incremental-between-tag-to-snapshot``    true: two tags stand for the ids of their snapshots
``scan.mode``                              where a stream begins: latest-full (default), latest, compacted-full, from-snapshot,
                                           from-snapshot-full (both with scan.snapshot-id), from-timestamp (with
                                           scan.timestamp-millis); see `lakeidx.table.stream.start`
``read.stream.maxFilesPerTrigger``         files, bytes or rows a batch of a stream reads at most, by one of ``maxFilesPerTrigger``,
                                           ``maxBytesPerTrigger``, ``maxRowsPerTrigger``, with or without ``read.stream.``
``consumer-id``                            streams: what a new query begins with, and what expiry leaves while it does not run
``consumer.ignore-progress``               true: a new query begins by ``scan.mode``
``source.split.target-size``               bytes of a task
``source.split.open-file-cost``            least bytes a file counts
``storage.<name>``                         option of the object store
``primary-key``, ``partition``             writes: comma lists; where there is no table, one is made with the columns of the
                                           frame, these keys, and options of a table that stand beside them
``traceback``                              true: errors show where in lakeidx they were raised, not only their line
``batch-id``                               writes: a batch of the same name is committed once
``replay``                                 writes: other rows under a batch id that is known: refuse (default), or skip to leave
                                           them out, for what differs each time it is computed (``current_timestamp()``)
``write.merge-schema``                     writes: columns that the table does not have: add, or true (widen) to widen types, too;
                                           also as ``mergeSchema`` and ``merge_schema`` (see `lakeidx.landing.new_columns`)
``missing``                                upserts: columns that the frame does not have: refuse (default), or null to set them to
                                           null (see `lakeidx.landing.missing_columns`)
``limits``                                 writes: beyond which a batch is held before its commit: ``deletes=5%,inserts=2x``
                                           (see `lakeidx.options.limits`); default as the table's option lakeidx.limits
``on-delete``                              writes: rows of kind -D and -U: apply (default), reject, ignore or remove, or by kind,
                                           ``-D=remove,-U=ignore`` (see `lakeidx.landing.kind_rules`)
=========================================  ======================================================================================

Any other name is refused: a read that skipped one would give other rows. What Spark itself adds is known (`OF_SPARK`), and
properties of a name in its catalog (``TBLPROPERTIES``) are the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeidx.errors import InvalidInputError, NotFoundError, did_you_mean
from lakeidx.landing.kind_rules import ON_DELETE_DEFAULT
from lakeidx.landing.new_columns import merge_policy
from lakeidx.landing.types import MISSING_DEFAULT
from lakeidx.options.descriptors import parse_size
from lakeidx.options.names import KNOWN, options_of_other_programs, unknown_options
from lakeidx.table.handle import TableHandle
from lakeidx.table.history import tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.incremental import IncrementalMode
from lakeidx.table.scan.layout import Layout
from lakeidx.table.scan.states import State, find_state, state_at
from lakeidx.table.stream.start import Start, StartMode
from lakeidx.table.system.names import split_system_name
from lakeidx.table.times import epoch_ms

#: Bytes of a task when neither the read nor the table says: small tables still fill a few cores.
DEFAULT_SPLIT_BYTES = 32 << 20
_STORAGE = "storage."
#: Beside each option of a name in Spark's catalog that was given as one, and not as a property.
_GIVEN = "option."
_STREAM = "read.stream."
#: Options that say how much one batch of a stream reads, and what they count.
_LIMITS = {"maxfilespertrigger": "files", "maxbytespertrigger": "bytes", "maxrowspertrigger": "rows"}
_SCAN_MODES = ("default", "full", *StartMode)
_VERSION = ("scan.version", "versionasof")
_TIME = ("scan.timestamp-millis", "scan.timestamp", "timestampasof")
_NEW_TABLE = ("primary-key", "partition")
_MERGE = ("write.merge-schema", "mergeschema", "merge_schema")
_STATE = "scan.snapshot-id, scan.tag-name or scan.timestamp-millis"
_RANGE = "incremental-between or incremental-between-timestamp"
_BETWEEN = ("incremental-between", "incremental-between-tag", "incremental-between-timestamp")
_CHANGELOG = "read.changelog"
#: Names by which Delta, Iceberg, Hudi and JDBC sources choose rows, in lower case, and what to write here.
_OF_OTHER_SOURCES = {
    **dict.fromkeys(
        ("as-of-timestamp", "as.of.instant", "snapshot-id", "snapshot", "timestamp", "tag", "version"), _STATE
    ),
    **dict.fromkeys(
        ("startingversion", "startingtimestamp", "endingversion", "endingtimestamp", "readchangefeed", "readchangedata",
         "start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp", "stream-from-timestamp",
         "hoodie.datasource.query.type", "hoodie.datasource.read.begin.instanttime",
         "hoodie.datasource.read.end.instanttime"),
        _RANGE,
    ),
    **dict.fromkeys(
        ("filter", "filter-pushdown", "query", "predicates", "limit", "partition", "partitions"), "where, or filter the data frame"
    ),
    "branch": "the path of the branch, TABLE$branch_NAME",
}  # fmt: skip
#: What Spark itself puts among the options, in lower case: of loads, streams, and names of its catalog.
OF_SPARK = frozenset({
    "path", "paths", "queryname", "checkpointlocation", "comment", "location", "owner", "provider", "external",
    "is_managed_location", "collation",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of one read or write; see the table above.

    between         two states by the option that names them, one at most
    table_options   of a write: those of the table that it makes where there is none, its keys among them
    """

    path: str
    columns: tuple[str, ...] | None = None
    where: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    timestamp_ms: int | None = None
    mode: IncrementalMode = IncrementalMode.AUTO
    scan_mode: str = "default"
    stream_limit: tuple[str, int] | None = None
    consumer: str | None = None
    ignore_progress: bool = False
    split_bytes: int | None = None
    open_cost: int | None = None
    batch_id: str | None = None
    replay: str = "refuse"
    merge_schema: str = "refuse"
    missing: str = MISSING_DEFAULT
    on_delete: str = ON_DELETE_DEFAULT
    limits: str | None = None
    between: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    layout: Layout = Layout.PLAIN
    system: str | None = None
    version: str | None = None
    tag_to_snapshot: bool = False
    committed: bool = False
    traceback: bool = False
    table_options: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, writes: bool = False) -> ReadOptions:
        """Read Spark's options; keys in any case. InvalidInputError names the option."""
        given = {k.lower(): v for k, v in options.items()}
        path = given.get("path")
        if not path:
            raise InvalidInputError(
                'name the table: .load("/lake/db.db/flights") or .option("path", ...); in SQL '
                "CREATE TABLE name USING lakeidx LOCATION '/lake/db.db/table'"
            )
        table_options = _of_a_new_table(given, writes=writes)
        between = {key: _pair(given[key], key) for key in _BETWEEN if key in given}
        if len(between) > 1:
            raise InvalidInputError(f"give one of {', '.join(_BETWEEN)}")
        root, system = split_system_name(path)
        kinds = Layout.KINDS if _flag(given.get(_CHANGELOG, "false"), _CHANGELOG) else Layout.PLAIN
        in_layout = system in (Layout.AUDIT_LOG, Layout.BINLOG)
        return cls(
            path=root,
            layout=Layout(str(system)) if in_layout else kinds,
            system=None if in_layout else system,
            timestamp_ms=_time(given),
            stream_limit=_stream_limit(given),
            replay=_replay(given),
            merge_schema=merge_policy(_one_of(given, _MERGE) or "refuse"),
            between=between,
            version=_one_of(given, _VERSION),
            table_options=table_options,
            storage={k[len(_STORAGE) :]: v for k, v in given.items() if k.startswith(_STORAGE)},
            **{name: read(given[key], key) for key, (name, read) in _FIELDS.items() if key in given},
        )

    def open(self) -> TableHandle:
        """Open the table."""
        return TableHandle.open(self.path, self.storage or None)

    def state(self, metadata: TableMetadata) -> dict[str, Any]:
        """Return which state is requested, as arguments of `lakeidx.table.scan.states.time_travel`."""
        snapshot, tag = self.snapshot, self.tag
        if self.version is not None:
            if self.version in tag_names(metadata):
                tag = self.version
            else:
                snapshot = _int(self.version)
        return {"snapshot_id": snapshot, "tag": tag, "timestamp_ms": self.timestamp_ms}

    def stream_start(self) -> Start:
        """Return where a stream begins.

        errors   InvalidInputError for options of batch reads
        """
        if self.between or self.tag is not None or self.version is not None:
            raise InvalidInputError(
                "a stream begins by scan.mode, scan.snapshot-id or scan.timestamp-millis, and has no end"
            )
        by_default = StartMode.LATEST_FULL
        if self.snapshot is not None:
            by_default = StartMode.FROM_SNAPSHOT
        elif self.timestamp_ms is not None:
            by_default = StartMode.FROM_TIMESTAMP
        modes = {"default": by_default, "full": StartMode.LATEST_FULL}
        mode = modes.get(self.scan_mode) or StartMode(self.scan_mode)
        return Start(mode, self.snapshot, self.timestamp_ms)

    def between_states(self, metadata: TableMetadata) -> tuple[tuple[State, State], IncrementalMode] | None:
        """Return the ends of an incremental read and how it is read; None for a read of one state."""
        if not self.between:
            return None
        _, tag, timestamp = _BETWEEN
        ((key, pair),) = self.between.items()
        tags = set(tag_names(metadata))
        by_tags = set(pair) <= tags and key != timestamp
        if key == tag and not by_tags:
            missing, have = sorted(set(pair) - tags), ", ".join(sorted(tags)) or "none"
            raise NotFoundError(f"{tag}: no tag {missing[0]!r}; tags: {have}", path=metadata.paths.root)
        if key == timestamp:
            first, last = (epoch_ms(t) for t in pair)
            ends = (state_at(metadata, first), state_at(metadata, last))
        else:
            ends = (find_state(metadata, pair[0]), find_state(metadata, pair[1]))
        if any(end.metadata.paths.branch != metadata.paths.branch for end in ends):
            raise InvalidInputError(
                "Spark reads one branch, by TABLE$branch_NAME; Table.diff and lakeidx diff compare two"
            )
        if self.mode is IncrementalMode.AUTO and by_tags and not self.tag_to_snapshot:
            return ends, IncrementalMode.DIFF
        return ends, self.mode


def has_option(key: str) -> bool:
    """Return whether reads and writes have an option of this name, in lower case."""
    return key in _OURS or key.startswith(_STORAGE)


def _of_a_new_table(given: Mapping[str, str], *, writes: bool) -> dict[str, str]:
    """Return the options of a write that are those of a table.

    errors   InvalidInputError for an option that neither Spark nor lakeidx has
    """
    out = {}
    for key, value in given.items():
        if has_option(key) or key in OF_SPARK or key.startswith(_GIVEN):
            continue
        if "provider" in given and _GIVEN + key not in given:
            continue
        # Other sources choose rows by it; a write names columns of a new table.
        if key in _OF_OTHER_SOURCES and not (writes and key == "partition"):
            raise InvalidInputError(f"{key}: lakeidx does not have this option; write {_OF_OTHER_SOURCES[key]}")
        if not writes or unknown_options({key: value}) or options_of_other_programs({key: value}):
            known = [*sorted(_OURS), *(sorted(KNOWN.union(_NEW_TABLE) - _OURS) if writes else ())]
            raise InvalidInputError(f"{key}: lakeidx does not have this option; {did_you_mean(key, known)}")
        out[key] = value
    return out


def _time(given: Mapping[str, str]) -> int | None:
    moment = _one_of(given, _TIME)
    return None if moment is None else epoch_ms(moment)


def _replay(given: Mapping[str, str]) -> str:
    wanted = given.get("replay", "refuse")
    if wanted not in ("refuse", "skip"):
        raise InvalidInputError(f"replay: write refuse or skip, not {wanted!r}")
    if wanted == "skip" and "batch-id" not in given:
        raise InvalidInputError("replay: skip goes by the batch's id: give batch-id, too")
    return wanted


def _one_of(given: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    values = {given[k] for k in keys if k in given}
    if len(values) > 1:
        raise InvalidInputError(f"{' and '.join(keys)} have different values")
    return values.pop() if values else None


def _pair(text: str, key: str) -> tuple[str, str]:
    parts = [p.strip() for p in text.split(",")]
    if len(parts) != 2:
        raise InvalidInputError(f"{key}: expected two values with a comma between, found {text!r}")
    return parts[0], parts[1]


def _text(text: str, _: str) -> str:
    return text


def _names(text: str, _: str) -> tuple[str, ...]:
    return tuple(c.strip() for c in text.split(",") if c.strip())


def _mode(text: str, key: str) -> IncrementalMode:
    if text not in {str(m.value) for m in IncrementalMode}:
        raise InvalidInputError(f"{key}: {text!r} is not auto, delta, changelog, derived or diff")
    return IncrementalMode(text)


def _scan_mode(text: str, key: str) -> str:
    if text not in _SCAN_MODES:
        raise InvalidInputError(f"{key}: {text!r} is not {', '.join(StartMode)}")
    return text


def _flag(text: str, key: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInputError(f"{key}: write true or false, not {text.lower()!r}")
    return text.lower() == "true"


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"{text!r} is neither a number nor the name of a tag") from None


def _number(text: str, key: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"{key}: {text!r} is not a whole number") from None


def _size(text: str, key: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise InvalidInputError(f"{key}: {error}") from error


def _stream_limit(given: Mapping[str, str]) -> tuple[str, int] | None:
    """Return what one batch of a stream reads at most: (what is counted, how many)."""
    found = [(k, k.removeprefix(_STREAM)) for k in given if k.removeprefix(_STREAM) in _LIMITS]
    if len(found) > 1:
        raise InvalidInputError(f"a batch has one limit: give one of {', '.join(k for k, _ in found)}")
    for key, name in found:
        counted = _LIMITS[name]
        most = _size(given[key], key) if counted == "bytes" else _number(given[key], key)
        if most < 1:
            raise InvalidInputError(f"{key}: write a number of {counted}, at least 1, not {given[key]!r}")
        return counted, most
    return None


#: Options that are each a field: its name, and how the option's text is read.
_FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "columns": ("columns", _names),
    "where": ("where", _text),
    "scan.snapshot-id": ("snapshot", _number),
    "scan.tag-name": ("tag", _text),
    "scan.mode": ("scan_mode", _scan_mode),
    "incremental-between-scan-mode": ("mode", _mode),
    "incremental-between-tag-to-snapshot": ("tag_to_snapshot", _flag),
    "read.committed": ("committed", _flag),
    "consumer-id": ("consumer", _text),
    "consumer.ignore-progress": ("ignore_progress", _flag),
    "source.split.target-size": ("split_bytes", _size),
    "source.split.open-file-cost": ("open_cost", _size),
    "batch-id": ("batch_id", _text),
    "missing": ("missing", _text),
    "on-delete": ("on_delete", _text),
    "limits": ("limits", _text),
    "traceback": ("traceback", _flag),
}
_OURS = frozenset({
    *_FIELDS, *_VERSION, *_TIME, *_BETWEEN, *_LIMITS, *(_STREAM + name for name in _LIMITS), *_MERGE, _CHANGELOG, "replay",
})  # fmt: skip
