"""The page of a table: what is said of it, and the programs that read it, which are run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lakeidx.api.table import Table
from lakeidx.dagster.metadata.overview import size_metadata, table_description, table_page
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.table.view import load_view

_PROGRAM = re.compile(r"(\w+)\n```python\n(.*?)\n```", re.DOTALL)


def test_a_table_is_described_and_every_program_reads_it(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "table": "shop.or-ders",
        "warehouse": str(tmp_path),
        "landing": {"path": "/landing"},
        "fields": [{"name": "day", "type": "STRING"}, {"name": "id", "type": "BIGINT"}],
        "primaryKeys": ["day", "id"],
        "partitionKeys": ["day"],
        "options": {"bucket": 2, "sequence.field": "id"},
        "freshness": {"fail_hours": 26},
    }
    pipeline = PipelineConfig.model_validate(spec)
    assert table_description(pipeline) == "The table shop.or-ders."
    text = table_page(pipeline)["lakeidx/how_to_use"].value
    for said in (
        "| primary key | `day`, `id` |",
        "| partitioned by | `day` |",
        "| buckets | 2 in each partition, by a hash of the key |",
        "| options | `sequence.field` = `id` |",
        "| fresh | while the newest batch is at most 26 hours old |",
        'Identifier.create("shop", "or-ders")',
    ):
        assert said in text
    table = Table.create(pipeline.uri, pipeline.spec())
    assert size_metadata(load_view(table.metadata, None)) == {}
    programs = dict(_PROGRAM.findall(text))
    assert set(programs) == {"Python", "Spark", "DuckDB", "Polars"}
    for name in ("Python", "DuckDB", "Polars"):
        exec(programs[name], {})
