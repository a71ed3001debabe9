"""Manifest entries as columns of a walk, and as records of fastavro: ``python -m bench.manifests [--entries 100000]``.

Prints the processor time per entry and the memory that the result takes, each in a process of its own; decision 17 has the figures.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import process_time

from bench.metadata_table import make_metadata
from lakeidx.codec.containers.avro import decode_container
from lakeidx.format.manifest import decode_manifest
from lakeidx.table.entry_decoder import decode_entries
from lakeidx.table.handle import TableHandle
from tests.kit.peak_memory import peak_mib

WAYS: Mapping[str, Callable[[bytes], Sequence[object]]] = {
    "columns": decode_entries,
    "records of fastavro": decode_container,
    "objects": decode_manifest,
}


def measure(way: str, uri: str) -> tuple[float, float]:
    """Return microseconds per entry, and bytes per entry that are held at the end."""
    table = TableHandle.open(uri)
    assert table.snapshot is not None
    metas = table.metadata.data_manifests(table.snapshot)
    files = [table.store.get(table.paths.manifest_path(m.file_name)) for m in metas]
    WAYS[way](files[0])
    before, start = peak_mib(), process_time()
    found = [WAYS[way](data) for data in files]
    count = sum(map(len, found))
    return (process_time() - start) / count * 1e6, (peak_mib() - before) * (1 << 20) / count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000)
    with tempfile.TemporaryDirectory() as folder:
        made = make_metadata(Path(folder), parser.parse_args().entries)
        for name in WAYS:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                micros, size = pool.submit(measure, name, made).result()
            print(f"{name}: {micros:.1f} µs and {size:.0f} bytes an entry")
