"""Check that a table which lakeidx makes, or whose options it sets, allows batches, compactions and lookup files.

A table of another program may have any option: it opens, and a use that is not possible says so when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from lakeidx.errors import LakeIdxError, UnsupportedError
from lakeidx.format.data_file import FileSource
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.options.features import Use, refused_by


def check_usable(schema: TableSchema, *, before: TableSchema | None = None) -> None:
    """Refuse options that the first batch, compaction or lookup file would be refused for.

    before   the schema that is altered: what was wrong with it before is not the alteration's fault
    errors   InvalidInputError, UnsupportedError naming the option
    """
    if schema.primary_keys and _sets(schema, "merge-engine"):
        from lakeidx.data.engines import validate_merge_options

        validate_merge_options(schema)
    if _sets(schema, "file-index."):
        from lakeidx.file_index.options import validate_file_index_options

        validate_file_index_options(schema)
    known = set[str]()
    if before is not None:
        # What could not even be read before is what the alteration mends.
        with suppress(LakeIdxError, ValueError):
            known.update(str(problem) for problem in _problems(before))
    for problem in _problems(schema):
        if str(problem) not in known:
            raise problem


def _sets(schema: TableSchema, *beginnings: str) -> bool:
    """Return whether an option's name begins so: what checks options that are not set would only find their defaults."""
    return any(key.startswith(beginnings) for key in schema.options)


def _problems(schema: TableSchema) -> Iterator[LakeIdxError]:
    for key, rule in refused_by(schema.options):
        if Use.WRITE in rule.uses:
            text = schema.options[key]
            yield UnsupportedError(f"option '{key}' = {text}: lakeidx could not write the table: {rule.reason}")
    for make in _checks(schema):
        try:
            make()
        except LakeIdxError as error:
            yield error


def _checks(schema: TableSchema) -> Iterator[Callable[[], object]]:
    if _sets(schema, "file.", "changelog-file.", "parquet."):
        yield from _file_checks(schema)
    if _sets(schema, "lookup.cache-spill-compression", "spill-compression."):
        yield partial(_check_lookup_compression, schema)
    if schema.bucket_mode is BucketMode.HASH_DYNAMIC and _sets(schema, "dynamic-bucket."):
        yield partial(_check_bucket_rules, schema)


def _file_checks(schema: TableSchema) -> Iterator[Callable[[], object]]:
    from lakeidx.data.write_spec import WriteSpec

    options = schema.table_options
    levels = {0, options.max_levels - 1, *(int(n) for n in options.file_format_per_level)}
    levels |= {int(n) for n in options.file_compression_per_level}
    specs = [WriteSpec(schema, level, FileSource.APPEND, changelog=False) for level in sorted(levels)]
    if options.changelog_producer != "none":
        specs.append(WriteSpec(schema, 0, FileSource.APPEND, changelog=True))
    for spec in specs:
        yield spec.check_format
        yield partial(getattr, spec, "properties")


def _check_lookup_compression(schema: TableSchema) -> None:
    from lakeidx.codec.containers.compress import BlockCompressor, parse_codec

    options = schema.table_options
    BlockCompressor(parse_codec(options.lookup_cache_spill_compression), options.spill_compression_zstd_level)


def _check_bucket_rules(schema: TableSchema) -> None:
    from lakeidx.bucket_assignment.rules import AssignRules

    options = schema.table_options
    AssignRules(target_rows=options.dynamic_bucket_target_row_num, max_buckets=options.dynamic_bucket_max_buckets)
