"""The table options that decide how rows of one key merge, checked and by meaning.

source   org.apache.paimon.CoreOptions, org.apache.paimon.mergetree.compact.PartialUpdateMergeFunction.Factory,
         org.apache.paimon.mergetree.compact.aggregate.AggregateMergeFunction.Factory,
         org.apache.paimon.mergetree.compact.aggregate.factory.*, release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.options.descriptors import INT_MAX, parse_bool
from lakeidx.types import INT_ROOTS, MAX_LENGTH, STRING_ROOTS, DataType, Root

_NUMERIC_ROOTS = INT_ROOTS | {Root.FLOAT, Root.DOUBLE, Root.DECIMAL}
PRIMARY_KEY = "primary-key"
_LAST_VALUE = "last_value"
_LAST_NON_NULL_VALUE = "last_non_null_value"
#: Functions by name; an old name maps to its new one.
_FUNCTION_NAMES: Mapping[str, str] = {
    n: n
    for n in (
        PRIMARY_KEY, "sum", "product", "max", "min", _LAST_VALUE, _LAST_NON_NULL_VALUE, "first_value",
        "first_non_null_value", "listagg", "bool_and", "bool_or", "collect", "merge_map", "merge_map_with_keytime",
        "nested_update", "nested_partial_update", "rbm32",
    )
} | {"first_not_null_value": "first_non_null_value"}  # fmt: skip
#: Functions that can take a value back.
RETRACTABLE = frozenset(
    {PRIMARY_KEY, "sum", "product", _LAST_VALUE, _LAST_NON_NULL_VALUE, "collect", "merge_map", "nested_update"}
)
#: Functions of Paimon that lakeidx does not have.
_MISSING_FUNCTIONS = frozenset({"rbm64", "hll_sketch", "theta_sketch"})


class Engine(StrEnum):
    """Values of option ``merge-engine``."""

    DEDUPLICATE = "deduplicate"
    FIRST_ROW = "first-row"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """The aggregate function of one column.

    name              as in `_FUNCTION_NAMES`
    type              type of the column
    column            name of the column, for messages
    ignore_retract    fields.<f>.ignore-retract
    distinct          fields.<f>.distinct (listagg, collect)
    delimiter         fields.<f>.list-agg-delimiter
    nested_key        positions in the element ROW (nested_update, nested_partial_update)
    count_limit       fields.<f>.count-limit (nested_update)
    time_field        position in the value ROW (merge_map_with_keytime)
    """

    name: str
    type: DataType
    column: str
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[int, ...] = ()
    count_limit: int = INT_MAX
    time_field: int = -1


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns of a partial-update table that are ordered by columns of their own.

    sequence   positions of the ordering columns, in the order the option names them
    members    positions of the columns they order
    """

    sequence: tuple[int, ...]
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """Options of a merge engine.

    remove_on_delete    the engine's remove-record-on-delete
    groups              sequence groups (partial-update)
    remove_on_sequence  positions of the sequence columns whose -D removes the row (partial-update)
    functions           position -> function: every column for aggregation, some for partial-update
    """

    engine: Engine
    ignore_delete: bool = False
    remove_on_delete: bool = False
    groups: tuple[SequenceGroup, ...] = ()
    remove_on_sequence: frozenset[int] = frozenset()
    functions: Mapping[int, FunctionSpec]


def kept_merge_options(schema: TableSchema) -> MergeOptions:
    """Return `merge_options`, which are read once for a schema."""
    return schema.once("merge_options", lambda: merge_options(schema))


def merge_options(schema: TableSchema) -> MergeOptions:
    """Read and check the merge options of a primary-key table.

    errors   InvalidInputError naming the column and the option; UnsupportedError for a function lakeidx does not have
    """
    options = schema.table_options
    if not schema.primary_keys:
        raise InvalidInputError("a table without primary key has no merge engine")
    engine = Engine(options.merge_engine)
    if engine is Engine.PARTIAL_UPDATE:
        return _partial_update(schema)
    if engine is Engine.AGGREGATION:
        return MergeOptions(
            engine=engine,
            remove_on_delete=options.aggregation_remove_record_on_delete,
            functions=_aggregation_functions(schema),
        )
    return MergeOptions(engine=engine, ignore_delete=options.ignore_delete, functions={})


def _partial_update(schema: TableSchema) -> MergeOptions:
    options = schema.table_options
    remove_on_delete = options.partial_update_remove_record_on_delete
    remove_on_sequence = options.partial_update_remove_record_on_sequence_group
    groups = _sequence_groups(schema)
    clashes = {
        "ignore-delete": options.ignore_delete,
        "partial-update.remove-record-on-delete": remove_on_delete,
        "partial-update.remove-record-on-sequence-group": bool(remove_on_sequence),
    }
    if options.ignore_delete and sum(clashes.values()) > 1:
        named = [k for k, on in clashes.items() if on]
        raise InvalidInputError(f"options {' and '.join(named)} contradict each other; set one of them")
    if remove_on_delete and groups:
        raise InvalidInputError(
            "option 'partial-update.remove-record-on-delete' cannot be combined with sequence groups; use "
            "'partial-update.remove-record-on-sequence-group'"
        )
    sequence_names = {schema.field_names[p] for g in groups for p in g.sequence}
    for name in remove_on_sequence:
        if name not in sequence_names:
            raise InvalidInputError(
                f"option 'partial-update.remove-record-on-sequence-group': column {name!r} orders no sequence group"
            )
    return MergeOptions(
        engine=Engine.PARTIAL_UPDATE,
        ignore_delete=options.ignore_delete,
        remove_on_delete=remove_on_delete,
        groups=groups,
        remove_on_sequence=frozenset(schema.field_names.index(n) for n in remove_on_sequence),
        functions=_partial_update_functions(schema, groups, sequence_names),
    )


def _sequence_groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    groups: list[SequenceGroup] = []
    seen: dict[int, str] = {}
    for names, value in sorted(schema.table_options.field_options("sequence-group").items()):
        key = f"fields.{names}.sequence-group"
        sequence = tuple(_position(schema, n, key) for n in names.split(","))
        # A sequence column is in its own group anyway; naming it among the members changes nothing.
        members = tuple(m for m in (_position(schema, n, key) for n in value.split(",")) if m not in sequence)
        for position in (*dict.fromkeys(sequence), *members):
            if position in seen:
                raise InvalidInputError(
                    f"option '{key}': column {schema.field_names[position]!r} is also in '{seen[position]}'; a column "
                    "belongs to one sequence group"
                )
            seen[position] = key
        groups.append(SequenceGroup(sequence, members))
    return tuple(groups)


def _position(schema: TableSchema, name: str, key: str) -> int:
    if name not in schema.fields_by_name:
        raise InvalidInputError(f"option '{key}': column {name!r} does not exist")
    return schema.field_names.index(name)


def _partial_update_functions(
    schema: TableSchema, groups: tuple[SequenceGroup, ...], sequence_names: set[str]
) -> dict[int, FunctionSpec]:
    default = schema.table_options.fields_default_aggregate_function
    grouped = {p for g in groups for p in g.members}
    out: dict[int, FunctionSpec] = {}
    for position, field in enumerate(schema.fields):
        if field.name in sequence_names:
            continue
        if field.name in schema.primary_keys:
            out[position] = FunctionSpec(name=PRIMARY_KEY, type=field.type, column=field.name)
            continue
        named = schema.table_options.field_option(field.name, "aggregate-function")
        function = named if named is not None else default
        if function is None:
            continue
        if function != _LAST_NON_NULL_VALUE and position not in grouped:
            option = f"fields.{field.name}.aggregate-function" if named else "fields.default-aggregate-function"
            raise InvalidInputError(
                f"option '{option}': column {field.name!r} is in no sequence group; in a partial-update table only "
                f"members of a group ('fields.<sequence column>.sequence-group') take {function!r}"
            )
        out[position] = _function_spec(schema, field.name, function)
    return out


def _aggregation_functions(schema: TableSchema) -> dict[int, FunctionSpec]:
    options = schema.table_options
    out: dict[int, FunctionSpec] = {}
    for position, field in enumerate(schema.fields):
        if field.name in options.sequence_field:
            function = _LAST_VALUE
        elif field.name in schema.primary_keys:
            function = PRIMARY_KEY
        else:
            function = (
                options.field_option(field.name, "aggregate-function")
                or options.fields_default_aggregate_function
                or _LAST_NON_NULL_VALUE
            )
        out[position] = _function_spec(schema, field.name, function)
    return out


def _function_spec(schema: TableSchema, column: str, function: str) -> FunctionSpec:
    """Make the function of a column with its own options.

    errors   InvalidInputError for an unknown function, a type it does not take, or options that do not go together;
             UnsupportedError for a function that Paimon has and lakeidx has not
    """
    options = schema.table_options
    where = f"option 'fields.{column}.aggregate-function'"
    if function in _MISSING_FUNCTIONS:
        raise UnsupportedError(f"{where}: function {function!r} is not supported by lakeidx")
    if function not in _FUNCTION_NAMES:
        known = ", ".join(sorted(n for n in _FUNCTION_NAMES if n != PRIMARY_KEY))
        raise InvalidInputError(f"{where}: unknown function {function!r}; known are {known}")
    ignore_retract = _flag(schema, column, "ignore-retract")
    if ignore_retract and options.aggregation_remove_record_on_delete:
        raise InvalidInputError(
            f"options 'aggregation.remove-record-on-delete' and 'fields.{column}.ignore-retract' contradict each other; "
            "set one of them"
        )
    name = _FUNCTION_NAMES[function]
    t = schema.field(column).type
    _check_type(name, t, where, column)
    element = t.element
    delimiter = options.field_option(column, "list-agg-delimiter")
    return FunctionSpec(
        name=name,
        type=t,
        column=column,
        ignore_retract=ignore_retract,
        distinct=_flag(schema, column, "distinct"),
        delimiter="," if delimiter is None else delimiter,
        nested_key=_nested_key(schema, column, element) if name.startswith("nested_") and element is not None else (),
        count_limit=_count_limit(schema, column),
        time_field=_time_field(schema, column, element) if name == "merge_map_with_keytime" and element else -1,
    )


def _check_type(function: str, t: DataType, where: str, column: str) -> None:
    """Refuse a type Paimon's factory refuses; max and min only fail in Paimon when two values meet."""
    wanted = ""
    if function in ("sum", "product") and t.root not in _NUMERIC_ROOTS:
        wanted = "a number"
    elif function in ("bool_and", "bool_or") and t.root is not Root.BOOLEAN:
        wanted = "BOOLEAN"
    elif function == "listagg" and (t.root is not Root.VARCHAR or t.length != MAX_LENGTH):
        wanted = "STRING"
    elif function == "collect" and t.root is not Root.ARRAY:
        wanted = "ARRAY"
    elif function == "merge_map" and t.root is not Root.MAP:
        wanted = "MAP"
    elif function == "merge_map_with_keytime" and (
        t.root is not Root.MAP or t.element is None or t.element.root is not Root.ROW or len(t.element.fields) < 2
    ):
        wanted = "MAP with a ROW of at least two fields as value"
    elif function.startswith("nested_") and (
        t.root is not Root.ARRAY or t.element is None or t.element.root is not Root.ROW
    ):
        wanted = "ARRAY of ROW"
    elif function == "rbm32" and t.root is not Root.VARBINARY:
        wanted = "VARBINARY"
    if wanted:
        raise InvalidInputError(f"{where}: {function} needs {wanted}, column {column!r} is {t}")


def _flag(schema: TableSchema, column: str, name: str) -> bool:
    text = schema.table_options.field_option(column, name)
    try:
        return text is not None and parse_bool(text)
    except ValueError as e:
        raise InvalidInputError(f"option 'fields.{column}.{name}': expected {e}, not {text!r}") from e


def _nested_key(schema: TableSchema, column: str, element: DataType) -> tuple[int, ...]:
    key = f"fields.{column}.nested-key"
    text = schema.table_options.field_option(column, "nested-key")
    function = schema.table_options.field_option(column, "aggregate-function")
    if text is None:
        if function == "nested_partial_update":
            raise InvalidInputError(f"column {column!r}: nested_partial_update needs option '{key}'")
        return ()
    names = [f.name for f in element.fields]
    out = []
    for name in (n.strip() for n in text.split(",")):
        if name not in names:
            raise InvalidInputError(f"option '{key}': the ROW has no field {name!r}, only {', '.join(names)}")
        out.append(names.index(name))
    return tuple(out)


def _count_limit(schema: TableSchema, column: str) -> int:
    text = schema.table_options.field_option(column, "count-limit")
    if text is None:
        return INT_MAX
    try:
        return int(text)
    except ValueError as e:
        raise InvalidInputError(f"option 'fields.{column}.count-limit': expected a whole number, not {text!r}") from e


def _time_field(schema: TableSchema, column: str, element: DataType) -> int:
    names = [f.name for f in element.fields]
    text = schema.table_options.field_option(column, "ts-field")
    if text is None:
        position = len(names) - 1
    elif text in names:
        position = names.index(text)
    else:
        raise InvalidInputError(f"option 'fields.{column}.ts-field': the ROW has no field {text!r}")
    if element.fields[position].type.root not in STRING_ROOTS:
        raise InvalidInputError(
            f"column {column!r}: merge_map_with_keytime compares texts; field {names[position]!r} of its ROW is "
            f"{element.fields[position].type}"
        )
    return position


def first_row_retract() -> InvalidInputError:
    """Explain a -U or -D row in a first-row table."""
    return InvalidInputError(
        "merge engine first-row does not accept rows of kind -U or -D; set option 'ignore-delete' = true to drop them"
    )


def partial_update_retract() -> InvalidInputError:
    """Explain a -U or -D row in a partial-update table that has no rule for it."""
    return InvalidInputError(
        "merge engine partial-update does not accept rows of kind -U or -D unless one of these is set: 'ignore-delete' "
        "(drops them), 'partial-update.remove-record-on-delete' (a -D removes the row), or sequence groups "
        "('fields.<column>.sequence-group'; with 'partial-update.remove-record-on-sequence-group' a -D removes the row)"
    )


def null_in_not_null(column: str) -> InvalidInputError:
    """Explain a null in a NOT NULL column of a row that is merged."""
    return InvalidInputError(f"column {column!r} is NOT NULL, but a row to be merged has no value for it")
