"""Decision 7: own containers and footers against libraries that read the whole file, on sound and on damaged bytes.

Damage is one changed byte at a place drawn by a seed. Each damaged file is read in a process of its own, for some reads end the
process. An outcome is *named* when it is a value or lakeidx's CorruptFileError, else any other exception, the death of the process,
or a memory of more than 1 GiB (the limit of the process).
"""

from __future__ import annotations

import io
import multiprocessing
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.decisions.figure import Figure, cpu_seconds
from lakeidx.codec.containers.avro import RecordSchema, decode_container, encode_container
from lakeidx.data.parquet.chunks import open_footer
from lakeidx.data.parquet.damage import damage_of
from lakeidx.errors import CorruptFileError

AVRO = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "kind", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "size", "type": "long"},
        {"name": "low", "type": "bytes"},
        {"name": "extra", "type": {"type": "array", "items": "string"}},
    ],
}
LIMIT = 1 << 30


def avro_bytes(entries: int) -> bytes:
    """Make a file like a manifest."""
    records: list[dict[str, Any]] = [
        {"kind": 0, "name": f"data-{i:032x}-0.parquet", "size": i * 977, "low": i.to_bytes(8, "big"), "extra": ["x"]}
        for i in range(entries)
    ]
    return encode_container(records, RecordSchema(AVRO), lambda record: record, codec="deflate")


def parquet_bytes(columns: int, groups: int) -> bytes:
    """Make a file of many columns and few rows."""
    table = pa.table({f"c{i}": pa.array(np.arange(groups * 10) + i) for i in range(columns)})
    out = pa.BufferOutputStream()
    pq.write_table(table, out, row_group_size=10)
    found: bytes = out.getvalue().to_pybytes()
    return found


def own_avro(data: bytes) -> int:
    """Read all records, by lakeidx."""
    return len(decode_container(data))


def library_avro(data: bytes) -> int:
    """Read all records, by fastavro."""
    return sum(1 for _ in fastavro.reader(io.BytesIO(data)))


def own_footer(data: bytes) -> int:
    """Sum of the null counts of all chunks, by lakeidx."""
    with damage_of("f"):
        footer = open_footer(pa.BufferReader(data), "f")
        return sum(
            footer.chunks.stats(g, c, leaf.physical_type).null_count or 0
            for g in range(footer.metadata.num_row_groups)
            for c, leaf in enumerate(footer.leaves)
        )


def library_footer(data: bytes) -> int:
    """Sum of the null counts of all chunks, by Arrow's metadata objects."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    total = 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for c in range(metadata.num_columns):
            stats = group.column(c).statistics
            if stats is not None:
                total += stats.null_count or 0
    return total


def _attempt(read: Callable[[bytes], int], data: bytes, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT, used + LIMIT))
    try:
        read(data)
        answer.put("value")
    except CorruptFileError:
        answer.put("CorruptFileError")
    except MemoryError:
        answer.put("out of memory")
    except BaseException as error:
        answer.put(f"other exception: {type(error).__name__}")


def outcomes(read: Callable[[bytes], int], data: bytes, changes: int, low: int) -> Counter[str]:
    """Return what reading gives for files with one changed byte from `low` on."""
    read(data)
    rng = np.random.default_rng(7)
    context = multiprocessing.get_context("fork")
    found: Counter[str] = Counter()
    for at, value in zip(
        rng.integers(low, len(data), changes).tolist(), rng.integers(1, 256, changes).tolist(), strict=True
    ):
        bad = bytearray(data)
        bad[at] ^= value
        answer = context.SimpleQueue()
        process = context.Process(target=_attempt, args=(read, bytes(bad), answer))
        process.start()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()
            found["no end after 20 s"] += 1
        else:
            found["end of the process" if answer.empty() else answer.get()] += 1
    return found


def measure(changes: int, rounds: int) -> list[Figure]:
    """Measure speed on sound files, and outcomes on damaged ones."""
    manifest, wide = avro_bytes(10_000), parquet_bytes(200, 20)
    out = []
    for name, chosen, read, data, what in (
        ("Avro: own container, records by fastavro", True, own_avro, manifest, "10,000 entries"),
        ("Avro: fastavro's reader", False, library_avro, manifest, "10,000 entries"),
        ("Parquet: own footer reader", True, own_footer, wide, "statistics of 200 columns in 20 row groups"),
        (
            "Parquet: Arrow's metadata objects",
            False,
            library_footer,
            wide,
            "statistics of 200 columns in 20 row groups",
        ),
    ):
        seconds, _ = cpu_seconds(lambda read=read, data=data: read(data), rounds)  # type: ignore[misc]
        out.append(Figure(7, name, chosen, f"read {what}", round(seconds, 4), "CPU s"))
    if own_avro(manifest) != library_avro(manifest) or own_footer(wide) != library_footer(wide):
        sys.exit("the readers differ on a sound file")
    small, few = avro_bytes(20), parquet_bytes(10, 2)
    start = len(few) - int.from_bytes(few[-8:-4], "little") - 8
    for name, chosen, read, data, low in (
        ("Avro: own container, records by fastavro", True, own_avro, small, 0),
        ("Avro: fastavro's reader", False, library_avro, small, 0),
        ("Parquet: own footer reader", True, own_footer, few, start),
        ("Parquet: Arrow's metadata objects", False, library_footer, few, start),
    ):
        found = outcomes(read, data, changes, low)
        for outcome, count in sorted(found.items()):
            out.append(Figure(7, name, chosen, f"of {changes} files with one changed byte: {outcome}", count, "files"))
    return out
