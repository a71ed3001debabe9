"""Page of a table, in Markdown as metadata of its asset: what it is and how it is queried; its size with every snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from lakeidx.batch.index_types import TableIndex
from lakeidx.format.schema.schema_file import BucketMode, TableSchema
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.view import SnapshotView

_OPTIONS_OF_THEIR_OWN = ("bucket", "merge-engine", "changelog-producer")


def table_description(pipeline: PipelineConfig) -> str:
    """Describe a table in a line, as lists of definitions show it."""
    return pipeline.description or f"The table {pipeline.table}."


def table_page(pipeline: PipelineConfig) -> dict[str, Any]:
    """Describe a table to someone who wants to use it, from its pipeline file alone; metadata of its asset."""
    schema = pipeline.first_schema
    facts = [
        ("name", f"`{pipeline.table}`"),
        ("location", f"`{pipeline.uri}`"),
        ("primary key", _names(schema.primary_keys) or "none: rows are appended"),
        ("partitioned by", _names(schema.partition_keys) or "nothing"),
        ("buckets", _buckets(schema)),
        ("merge engine", schema.table_options.merge_engine) if schema.primary_keys else ("", ""),
        ("changelog", schema.table_options.changelog_producer),
        ("options", _options(schema)),
        ("fresh", _freshness(pipeline)),
    ]
    parts = [_table(("", ""), [f for f in facts if all(f)]), "**Query it**", *_queries(pipeline)]
    return {"lakeidx/how_to_use": dg.MetadataValue.md("\n\n".join(parts))}


def _buckets(schema: TableSchema) -> str:
    options = schema.table_options
    match schema.bucket_mode:
        case BucketMode.HASH_FIXED:
            return f"{options.bucket} in each partition, by a hash of the key"
        case BucketMode.HASH_DYNAMIC:
            kind = TableIndex.of(schema).name
            return f"dynamic, by index type {kind}; a new one after {options.dynamic_bucket_target_row_num:,} keys"
        case BucketMode.KEY_DYNAMIC:
            return "dynamic over all partitions; a key that changes its partition moves"
        case BucketMode.POSTPONE:
            return "given by compactions"
        case _:
            return "one"


def _options(schema: TableSchema) -> str:
    return ", ".join(f"`{k}` = `{v}`" for k, v in sorted(schema.options.items()) if k not in _OPTIONS_OF_THEIR_OWN)


def _freshness(pipeline: PipelineConfig) -> str:
    wanted = pipeline.freshness
    return "" if wanted is None else f"while the newest batch is at most {wanted.fail_hours:g} hours old"


def _queries(pipeline: PipelineConfig) -> Iterator[str]:
    """Yield a heading and a program for each reader."""
    uri, warehouse, name = pipeline.uri, pipeline.warehouse, f'"{pipeline.database}"."{pipeline.table_name}"'
    opened = f'table = lakeidx.Table.open("{uri}")\n'
    java = (
        "Options options = new Options();\n"
        f'options.set("warehouse", "{warehouse}");\n'
        "Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options));\n"
        f'Table table = catalog.getTable(Identifier.create("{pipeline.database}", "{pipeline.table_name}"));'
    )
    spark = f'from lakeidx.spark import register\n\nregister(spark)\nspark.read.format("lakeidx").load("{uri}").show()'
    duckdb = (
        f'import lakeidx.duckdb\n\ndb = lakeidx.duckdb.attach("{warehouse}")\ndb.table({name!r}).limit(10).fetchall()'
    )
    programs = [
        ("Python", "python", f"import lakeidx\n\n{opened}table.scan(limit=10).to_arrow()"),
        ("Spark", "python", spark),
        ("DuckDB", "python", duckdb),
        ("Polars", "python", f"import lakeidx.polars\n\n{opened}lakeidx.polars.scan(table).head(10).collect()"),
        ("Java (Paimon)", "java", java),
    ]
    for title, language, text in programs:
        yield f"{title}\n```{language}\n{text}\n```"


def size_metadata(view: SnapshotView) -> dict[str, int]:
    """Return size, files and buckets of a state; nothing before the first snapshot."""
    if view.snapshot is None:
        return {}
    return {
        "lakeidx/data_bytes": int(view.entries.column("file_size").sum()),
        "lakeidx/data_files": len(view.entries),
        "lakeidx/buckets": len(view.entries.places()[1]),
    }


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f"`{c}`" for c in columns)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
