"""Spark's Python daemon with lakeidx loaded: a worker is forked from it and begins with its task at once.

Each worker otherwise imports lakeidx, Arrow and Numba for itself, over a second and a half of processor time, and Spark ends
workers that were idle for a minute: every batch after a pause would pay that for each slot. The daemon imports them once, and
writes a few rows, for what is loaded when it is used first; the workers share its memory. Index types, merge engines, file indexes
and stores, which come with the first table that has them elsewhere, are among it.

Spark starts it as ``python -m`` with the worker's module, where `lakeidx.spark.runner` names it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import pkgutil
import sys
import tempfile

import pyarrow as pa

from lakeidx import batch, codec, data, file_index, key_index, landing, storage, table, tasks
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.merge.merge_runs import merge_rows
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.format.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from lakeidx.spark import runner as _runner  # noqa: F401 - for the workers
from lakeidx.storage import LocalStore

log = logging.getLogger(__name__)

_SPEC = {
    "fields": [
        {"name": "a", "type": "BIGINT NOT NULL"},
        {"name": "b", "type": "INT NOT NULL"},
        {"name": "c", "type": "STRING NOT NULL"},
        {"name": "d", "type": "DOUBLE"},
    ],
    "primaryKeys": ["a", "b", "c"],
    "partitionKeys": [],
    "options": {"bucket": "-1"},
}


def main() -> None:
    """Load what tasks need, then serve as PySpark's own daemon does."""
    from pyspark.daemon import manager

    # Spark reads the daemon's port from standard output.
    with contextlib.redirect_stdout(sys.stderr):
        _import_all()
        try:
            _rehearse()
        except OSError as error:
            # No place for temporary files: workers load what they need themselves.
            log.warning("Spark's workers are started without lakeidx preloaded: %s", error)
    # Forked workers do not copy pages for the collector's sake, and do not scan what never goes away.
    gc.collect()
    gc.freeze()
    manager()


def _import_all() -> None:
    """Import every module that a task may need, also those that come with the first table of their kind elsewhere."""
    for package in (batch, codec, data, file_index, key_index, landing, storage, table, tasks):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)


def _rehearse() -> None:
    """Sort, merge and write a few rows into a temporary folder, to load everything.

    errors   OSError where no temporary files can be written
    """
    schema = new_schema(_SPEC)
    rows = pa.table(
        {
            SEQUENCE_NUMBER: pa.array([0, 1, 2], pa.int64()),
            VALUE_KIND: pa.array([0, 0, 0], pa.int8()),
            "a": pa.array([2, 1, 2], pa.int64()),
            "b": pa.array([1, 1, 1], pa.int32()),
            "c": pa.array(["x", "y", "x"]),
            "d": pa.array([0.5, None, 1.5]),
        }
    )
    hash_columns([rows.column(n) for n in schema.trimmed_primary_keys], schema.key_types)
    with tempfile.TemporaryDirectory(prefix="lakeidx-") as folder:
        DataFileWriter(
            schema,
            store=LocalStore(sync=False),
            bucket_dir=folder,
            names=NewFileNames(),
        ).write_all([merge_rows(rows, schema)])


if __name__ == "__main__":
    main()
