"""Engines beside those of other histories: floating point keys, index types that find keys by themselves, tables with changelogs.

Floats sort, hash and compare apart although ``==`` says they are the same.
"""

from __future__ import annotations

import math

import pyarrow as pa

from tests.kit.table_history import ENGINES, Engine, Record, as_arrow

#: Keys 0 to 9 of a history as they are stored there: zeros of both signs, both infinities, numbers below the normal ones.
FLOATS = (-0.0, 0.0, -1.5, 1.5, math.inf, -math.inf, 5e-324, -5e-324, 1e308, 0.1)
_NUMBERS = {repr(value): number for number, value in enumerate(FLOATS)}

#: Files of two rows, so that compacted ones end between any two keys.
FLOAT_KEYS = Engine(
    "float-keys", {"bucket": "1", "target-file-size": "1 b"}, ENGINES["deduplicate"].merge, deletes=True
)

#: Keys are looked for in data files.
_BLOOM_INDEX = Engine("bloom-index", {"index.type": "bloom"}, ENGINES["deduplicate"].merge, deletes=True)
#: Keys are looked for in what the process remembers of earlier batches.
MEMORY_INDEX = Engine(
    "memory-index",
    {"index.type": "inmemory", "index.global.enabled": "false"},
    ENGINES["deduplicate"].merge,
    deletes=True,
)
#: Each batch has a changelog, which goes with its snapshot also where a tag or a branch keeps the rest; each file has an index
#: beside it.
_CHANGELOG = Engine(
    "changelog",
    {
        "changelog-producer": "input",
        "file-index.bloom-filter.columns": "text",
        "file-index.in-manifest-threshold": "1 b",
    },
    ENGINES["deduplicate"].merge,
    deletes=True,
)
OTHER_ENGINES = (FLOAT_KEYS, _BLOOM_INDEX, MEMORY_INDEX, _CHANGELOG)


def key_type(engine: Engine) -> str:
    """Return the type of column k."""
    return "DOUBLE" if engine is FLOAT_KEYS else "BIGINT"


def stored(numbers: list[int], engine: Engine) -> pa.Array:
    """Convert keys of a history to column k."""
    return (
        pa.array([FLOATS[n] for n in numbers], pa.float64()) if engine is FLOAT_KEYS else pa.array(numbers, pa.int64())
    )


def number_of(key: float) -> int:
    """Convert a value of column k to the key of a history; KeyError for a number that no history has."""
    return key if isinstance(key, int) else _NUMBERS[repr(key)]


def batch_of(records: list[Record], engine: Engine) -> pa.Table:
    """Convert records to a batch."""
    return as_arrow(records).set_column(1, "k", stored([r[1] for r in records], engine))
