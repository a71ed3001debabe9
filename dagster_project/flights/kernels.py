"""Compiles the kernels that the main job meets, by two small batches of its rows into a table that is thrown away."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import lakeidx
from lakeidx.pipeline_file.model import load_pipeline

_ROWS = 100


def main(file: str) -> None:
    """Compile what is not on disk yet.

    file   a landing file of the job
    """
    config = load_pipeline(Path(__file__).parents[2] / "pipelines" / "flights.yaml")
    rows = pq.read_table(file).slice(0, _ROWS)
    with tempfile.TemporaryDirectory() as folder:
        table = lakeidx.Table.create(f"{folder}/db.db/flights", config.spec())
        table.upsert(rows, missing="null")
        table.upsert(rows.slice(_ROWS // 2), missing="null")
        table.lookup(rows.slice(0, 1).select(config.primary_keys))
        table.verify()


if __name__ == "__main__":
    main(sys.argv[1])
