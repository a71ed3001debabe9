"""The merge engine of a table."""

from __future__ import annotations

from lakeidx.data.engines.base import MergeEngine
from lakeidx.data.engines.deduplicate import DeduplicateEngine
from lakeidx.data.engines.options import Engine, kept_merge_options, merge_options
from lakeidx.data.engines.writing import sequence_fields
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.schema_file import TableSchema


def make_engine(schema: TableSchema) -> MergeEngine:
    """Make the merge engine that a primary-key table's options request.

    errors   InvalidInputError naming column and option; UnsupportedError for a function lakeidx does not have
    """
    options = kept_merge_options(schema)
    if options.engine is Engine.DEDUPLICATE:
        return DeduplicateEngine(ignore_delete=options.ignore_delete)
    if options.engine is Engine.FIRST_ROW:
        from lakeidx.data.engines.first_row import FirstRowEngine

        return FirstRowEngine(ignore_delete=options.ignore_delete)
    # With these two come all functions of columns: few tables have them.
    if options.engine is Engine.PARTIAL_UPDATE:
        from lakeidx.data.engines.partial_update import PartialUpdateEngine

        return PartialUpdateEngine(schema, options)
    from lakeidx.data.engines.aggregation import AggregationEngine

    return AggregationEngine(schema, options)


def validate_merge_options(schema: TableSchema) -> None:
    """Refuse merge options that cannot work; for use when a table is made or altered.

    Stricter than `make_engine` in one thing: max and min over a type without order are refused at once, not when two
    values meet.

    errors   InvalidInputError naming column and option; UnsupportedError for a function lakeidx does not have
    """
    from lakeidx.data.engines.scalar.base import is_ordered

    options = merge_options(schema)
    sequence_fields(schema)
    for spec in options.functions.values():
        if spec.name in ("max", "min") and not is_ordered(spec.type):
            raise InvalidInputError(
                f"option 'fields.{spec.column}.aggregate-function': {spec.name} cannot compare values of {spec.type}"
            )
    for group in options.groups:
        for position in group.sequence:
            field = schema.fields[position]
            if not is_ordered(field.type) and field.type.root.value != "BOOLEAN":
                raise InvalidInputError(f"column {field.name!r} of {field.type} cannot order a sequence group")
