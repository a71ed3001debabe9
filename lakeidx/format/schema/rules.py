"""Requirements of a schema before it is written: columns, keys, buckets, and options that do not go together.

source   org.apache.paimon.schema.SchemaValidation, release 1.4.2 (rules; the wording is ours)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.format.schema.table_schema import KEY_PREFIX, POSTPONE_BUCKET, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from lakeidx.options.descriptors import parse_names
from lakeidx.options.table_options import STATS_MODES, TableOptions, check_retained
from lakeidx.types import BYTES_ROOTS, FIELD_KEYS, STRING_ROOTS, DataType, Field, Root, parse_type

#: Paimon's, then lakeidx's own: row kinds come in as ``_kind``, lookups answer with ``_FOUND``.
_RESERVED_NAMES = frozenset(
    {SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID", "_KEY_ROW_ID", "_kind", "_FOUND"}
)
_FILE_FORMATS = frozenset({"parquet", "orc", "avro", "csv", "json", "text"})
_AGGREGATORS = (
    "sum", "product", "max", "min", "first_value", "first_non_null_value", "first_not_null_value", "last_value",
    "last_non_null_value", "listagg", "bool_and", "bool_or", "collect", "merge_map", "merge_map_with_keytime",
    "nested_update", "nested_partial_update", "rbm32", "rbm64", "hll_sketch", "theta_sketch", "primary-key",
)  # fmt: skip
_STATS_MODE = re.compile(r"none|counts|full|truncate\(\s*[1-9][0-9]*\s*\)", re.IGNORECASE)
_SPEC_KEYS = frozenset(
    {"fields", "primaryKeys", "partitionKeys", "options", "comment", "version", "id", "highestFieldId", "timeMillis"}
)
_COLUMN_KEYS = FIELD_KEYS | {"comment"}


def parse_columns(spec: Mapping[str, Any]) -> list[Field]:
    """Parse the columns of a ``table create`` JSON, in order; their ids are not assigned yet.

    errors   InvalidInputError naming the column or key that is wrong
    """
    _refuse_unknown(spec, "the schema", _SPEC_KEYS)
    raw = spec.get("fields")
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise InvalidInputError("'fields' must be an array of at least one column, each with 'name' and 'type'")
    columns, seen = [], set()
    for i, item in enumerate(raw):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"fields[{i}] must be an object with a 'name', not {item!r}")
        _refuse_unknown(item, f"column {name!r}", _COLUMN_KEYS)
        if "type" not in item:
            raise InvalidInputError(f"column {name!r} needs a 'type'")
        if name in seen:
            raise InvalidInputError(f"column {name!r} is there twice")
        seen.add(name)
        try:
            data_type = parse_type(item["type"], where=f"column {name!r}")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise InvalidInputError(f"column {name!r}: cannot read the type {item['type']!r}") from e
        texts = {k: item.get(k) for k in ("description", "comment", "defaultValue")}
        for key, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise InvalidInputError(f"column {name!r}: {key} must be text, not {text!r}")
        columns.append(Field(-1, name, data_type, texts["description"] or texts["comment"], texts["defaultValue"]))
    return columns


def _refuse_unknown(given: Mapping[str, Any], what: str, known: frozenset[str]) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise InvalidInputError(
            f"unknown key {unknown[0]!r} in {what}; {did_you_mean(unknown[0], sorted(known), listing='known are')}"
        )


def parse_key_columns(spec: Mapping[str, Any], key: str, options: dict[str, str], option: str) -> tuple[str, ...]:
    """Return the key columns from the spec's array or from an option, which is taken out of `options`."""
    named = spec.get(key) or ()
    if isinstance(named, str) or not isinstance(named, Sequence) or not all(isinstance(n, str) for n in named):
        raise InvalidInputError(f"'{key}' must be an array of column names, not {named!r}")
    text = options.pop(option, None)
    if text is None:
        return tuple(named)
    try:
        from_option = parse_names(text)
    except ValueError as e:
        raise InvalidInputError(f"option '{option}': expected {e}, not {text!r}") from e
    if named:
        raise InvalidInputError(f"the columns are named twice, by '{key}' and by option '{option}'")
    return from_option


def check_schema(schema: TableSchema) -> None:
    """Refuse a schema that Paimon would refuse, or that could not be written and read.

    errors   InvalidInputError naming the column or option
    """
    options = schema.table_options
    options.check()
    _check_names(schema)
    _check_keys(schema)
    _check_buckets(schema, options)
    _check_formats(options)
    _check_merge(schema, options)
    _check_retention(schema, options)
    _check_field_options(schema)
    _check_sequence_groups(options)
    _check_row_tracking(schema, options)


def _check_names(schema: TableSchema) -> None:
    if schema.table_options.type != "table":
        raise InvalidInputError(f"option 'type': lakeidx makes tables of type table, not {schema.table_options.type!r}")
    _check_siblings(schema.fields, "")
    for name in schema.field_names:
        if name in _RESERVED_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"column name {name!r} is reserved (names starting with {KEY_PREFIX} are, too)")


def _check_siblings(fields: Sequence[Field], inside: str) -> None:
    """Refuse names that Java cannot open a table with, also inside of columns.

    source   org.apache.paimon.types.RowType.validateFields, release 1.4.2
    """
    seen: set[str] = set()
    for at, f in enumerate(fields, 1):
        where = f"field {at} of {inside}" if inside else f"column {at}"
        if not f.name.strip():
            raise InvalidInputError(
                f"{where} has no name ({f.name!r}): give it one with a character that is not blank, or leave it out; Java Paimon "
                "could not open the table"
            )
        try:
            f.name.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(f"{where}: the name {f.name!r} is not valid Unicode") from None
        if f.name in seen:
            raise InvalidInputError(f"{where}: the name {f.name!r} is there twice")
        seen.add(f.name)
        for t in _rows_in(f.type):
            _check_siblings(t.fields, f"{inside}.{f.name}" if inside else f.name)


def _rows_in(t: DataType) -> Iterator[DataType]:
    """Return the ROW types that a type is or holds, but for those inside of these."""
    if t.root is Root.ROW:
        yield t
    for inner in (t.key, t.element):
        if inner is not None:
            yield from _rows_in(inner)


def _check_keys(schema: TableSchema) -> None:
    for what, keys in (("primary key", schema.primary_keys), ("partition", schema.partition_keys)):
        if len(set(keys)) != len(keys):
            raise InvalidInputError(f"the {what} names a column twice: {', '.join(keys)}")
        for name in keys:
            if name not in schema.fields_by_name:
                raise InvalidInputError(
                    f"{what} column {name!r} does not exist; the table has {', '.join(schema.field_names)}"
                )
            data_type = schema.field(name).type
            if data_type.is_nested or data_type.root is Root.VARIANT:
                raise InvalidInputError(f"{what} column {name!r} cannot be of type {data_type}")
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError("the primary key needs at least one column that is not a partition column")
    _check_partition_names(schema)
    if len(schema.partition_keys) == len(schema.fields):
        raise InvalidInputError("at least one column must not be a partition column")


def _check_partition_names(schema: TableSchema) -> None:
    """Check that directory names are valid, and equal for every writer and reader."""
    legacy = schema.table_options.partition_legacy_name
    for name in schema.partition_keys:
        data_type = schema.field(name).type
        if legacy and data_type.root in BYTES_ROOTS:
            raise InvalidInputError(
                f"partition column {name!r} of type {data_type} needs option 'partition.legacy-name' = false"
            )
        if not legacy and data_type.root is Root.TIMESTAMP_LTZ:
            raise InvalidInputError(
                f"partition column {name!r} of type {data_type} cannot be combined with option 'partition.legacy-name' = false: the"
                " directory's name would depend on the time zone of each process (Java Paimon's, too)"
            )


def _check_buckets(schema: TableSchema, options: TableOptions) -> None:
    bucket, keys = options.bucket, options.bucket_key
    for name in keys:
        if name not in schema.fields_by_name:
            raise InvalidInputError(f"option 'bucket-key': column {name!r} does not exist")
        if schema.field(name).type.is_nested or schema.field(name).type.root is Root.VARIANT:
            raise InvalidInputError(f"option 'bucket-key': column {name!r} cannot be of type {schema.field(name).type}")
        if name in schema.partition_keys:
            raise InvalidInputError(f"option 'bucket-key': {name!r} is a partition column")
        if schema.primary_keys and name not in schema.primary_keys:
            raise InvalidInputError(f"option 'bucket-key': {name!r} is not in the primary key")
    if len(set(keys)) != len(keys):
        raise InvalidInputError(f"option 'bucket-key' names a column twice: {', '.join(keys)}")
    if bucket == -1 and keys:
        raise InvalidInputError("option 'bucket-key' needs a fixed number of buckets (option 'bucket')")
    if not schema.primary_keys:
        if bucket > 0 and not keys:
            raise InvalidInputError("a table without primary key and with fixed buckets needs option 'bucket-key'")
        if bucket == POSTPONE_BUCKET:
            raise InvalidInputError("option 'bucket' = -2 needs a primary key")
    function = options.bucket_function_type
    bucket_types = schema.types_of(schema.bucket_keys) if bucket > 0 else ()
    if (
        function == "mod"
        and bucket > 0
        and (len(bucket_types) != 1 or bucket_types[0].root not in (Root.INT, Root.BIGINT))
    ):
        raise InvalidInputError(
            "option 'bucket-function.type' = mod needs exactly one bucket key of type INT or BIGINT"
        )


def _check_formats(options: TableOptions) -> None:
    named = {"file.format": options.file_format, "changelog-file.format": options.changelog_file_format}
    named |= {f"file.format.per.level ({level})": f for level, f in options.file_format_per_level.items()}
    for key, text in named.items():
        if text is not None and text.lower() not in _FILE_FORMATS:
            raise InvalidInputError(f"option '{key}': unknown format {text!r}")
    if options.manifest_format.lower() != "avro":
        raise InvalidInputError(f"option 'manifest.format' must be avro, not {options.manifest_format!r}")
    if options.manifest_codec not in ("zstd", "zstandard", "null", "deflate"):
        raise InvalidInputError(
            f"option 'manifest.compression' must be zstd, null or deflate, not {options.manifest_codec!r}"
        )
    modes = {"metadata.stats-mode": options.metadata_stats_mode}
    modes |= {f"metadata.stats-mode.per.level ({k})": v for k, v in options.metadata_stats_mode_per_level.items()}
    modes |= {f"fields.{k}.stats-mode": v for k, v in options.field_options("stats-mode").items()}
    if options.changelog_file_stats_mode is not None:
        modes["changelog-file.stats-mode"] = options.changelog_file_stats_mode
    for key, mode in modes.items():
        if not _STATS_MODE.fullmatch(mode.strip()):
            raise InvalidInputError(f"option '{key}': expected {STATS_MODES}, not {mode!r}")
    for key in (
        *options.file_compression_per_level,
        *options.file_format_per_level,
        *options.metadata_stats_mode_per_level,
    ):
        if not key.isascii() or not key.isdigit():
            raise InvalidInputError(f"a level must be a number, not {key!r}, in options of the form 'level:value'")


def _check_merge(schema: TableSchema, options: TableOptions) -> None:  # noqa: C901 - one rule after the other
    if not schema.primary_keys:
        if options.changelog_producer != "none":
            raise InvalidInputError("option 'changelog-producer' needs a primary key")
        if options.sequence_field:
            raise InvalidInputError("option 'sequence.field' needs a primary key")
    for name in options.sequence_field:
        if name not in schema.fields_by_name:
            raise InvalidInputError(f"option 'sequence.field': column {name!r} does not exist")
        if schema.field(name).type.is_nested or schema.field(name).type.root is Root.VARIANT:
            raise InvalidInputError(
                f"option 'sequence.field': column {name!r} cannot be of type {schema.field(name).type}"
            )
        if options.field_option(name, "aggregate-function") is not None:
            raise InvalidInputError(f"option 'sequence.field': column {name!r} also has an aggregate function")
    if len(set(options.sequence_field)) != len(options.sequence_field):
        raise InvalidInputError("option 'sequence.field' names a column twice")
    if options.sequence_field and options.merge_engine == "first-row":
        raise InvalidInputError("option 'sequence.field' cannot be combined with merge engine first-row")
    if options.sequence_field and schema.is_cross_partition:
        raise InvalidInputError(
            "option 'sequence.field' cannot be combined with a primary key that leaves out partition columns"
        )
    if options.merge_engine == "first-row" and options.changelog_producer not in ("none", "lookup"):
        raise InvalidInputError("merge engine first-row supports changelog producers none and lookup only")
    if options.rowkind_field is not None:
        if options.rowkind_field not in schema.fields_by_name:
            raise InvalidInputError(f"option 'rowkind.field': column {options.rowkind_field!r} does not exist")
        if schema.field(options.rowkind_field).type.root not in STRING_ROOTS:
            raise InvalidInputError(f"option 'rowkind.field': column {options.rowkind_field!r} must be STRING")
    if options.deletion_vectors_enabled:
        if options.changelog_producer not in ("none", "input", "lookup"):
            raise InvalidInputError(
                "option 'deletion-vectors.enabled' supports changelog producers none, input and lookup only"
            )
        if options.merge_engine == "first-row":
            raise InvalidInputError("option 'deletion-vectors.enabled' cannot be combined with merge engine first-row")
    engine = options.merge_engine
    deletes = (
        options.partial_update_remove_record_on_delete,
        bool(options.partial_update_remove_record_on_sequence_group),
        options.ignore_delete,
    )
    if engine == "partial-update" and sum(deletes) > 1:
        raise InvalidInputError(
            "merge engine partial-update allows only one of ignore-delete, partial-update.remove-record-on-delete and "
            "partial-update.remove-record-on-sequence-group"
        )


def _check_retention(schema: TableSchema, options: TableOptions) -> None:
    check_retained(options, "snapshot", options.snapshot_num_retained_min, options.snapshot_num_retained_max)
    if options.partition_expiration_time is not None and not schema.partition_keys:
        raise InvalidInputError("option 'partition.expiration-time' needs partition columns")
    if options.record_level_expire_time is not None:
        name = options.record_level_time_field
        if name is None or name not in schema.fields_by_name:
            raise InvalidInputError(
                "option 'record-level.expire-time' needs 'record-level.time-field', a column of the table"
            )
        if schema.field(name).type.root not in (Root.INT, Root.BIGINT, Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
            raise InvalidInputError(
                f"option 'record-level.time-field': column {name!r} must be INT, BIGINT or TIMESTAMP, not "
                f"{schema.field(name).type}"
            )


def _check_field_options(schema: TableSchema) -> None:
    """Check that options ``fields.<columns>.<name>`` name existing columns."""
    engine = schema.table_options.merge_engine
    for key, value in schema.options.items():
        if not key.startswith("fields.") or key == "fields.default-aggregate-function":
            continue
        columns, _, name = key[len("fields.") :].rpartition(".")
        spoken_of = columns.split(",")
        if name == "sequence-group":
            spoken_of += value.split(",")
        for column in (c.strip() for c in spoken_of):
            if column not in schema.fields_by_name:
                raise InvalidInputError(f"option '{key}': column {column!r} does not exist")
        if name == "aggregate-function" and engine in ("aggregation", "partial-update") and value not in _AGGREGATORS:
            raise InvalidInputError(
                f"option '{key}': unknown aggregate function {value!r}; known are {', '.join(_AGGREGATORS)}"
            )


def _check_sequence_groups(options: TableOptions) -> None:
    """Check partial updates: a column follows one sequence group, and a group excludes removal by any delete."""
    if options.merge_engine != "partial-update":
        return
    groups = options.field_options("sequence-group")
    follows: dict[str, str] = {}
    for sequence_columns, value in groups.items():
        for column in (c.strip() for c in value.split(",")):
            if column in follows:
                raise InvalidInputError(
                    f"column {column!r} is in two sequence groups: {follows[column]} and {sequence_columns}"
                )
            follows[column] = sequence_columns
    if groups and options.partial_update_remove_record_on_delete:
        raise InvalidInputError(
            "option 'partial-update.remove-record-on-delete' cannot be combined with sequence groups"
        )
    leaders = {c.strip() for columns in groups for c in columns.split(",")}
    for column in options.partial_update_remove_record_on_sequence_group:
        if column not in leaders:
            raise InvalidInputError(
                f"option 'partial-update.remove-record-on-sequence-group': {column!r} leads no sequence group"
            )


def _check_row_tracking(schema: TableSchema, options: TableOptions) -> None:
    if options.row_tracking_enabled and schema.primary_keys:
        raise InvalidInputError("option 'row-tracking.enabled' cannot be combined with a primary key")
    if options.data_evolution_enabled and not options.row_tracking_enabled:
        raise InvalidInputError("option 'data-evolution.enabled' needs 'row-tracking.enabled'")
