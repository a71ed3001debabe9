"""The key state asked by a process that has just begun; imports nothing but what it needs for that, for its imports are timed."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import psutil

from bench.scale.figure import Figure, SlowStore
from lakeidx.key_index.locations import KeyBatch, KeyLocations
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.registry import make_key_index
from lakeidx.key_index.table_view import make_tag_context
from lakeidx.table.handle import TableHandle

STATE = {"index.type": "state"}


def asked(root: str, index_dir: Path, batch: KeyBatch, rows: int) -> tuple[Figure, KeyLocations]:
    """Ask the state behind a slow store; seconds are those since the process was started, imports and all."""
    opened = TableHandle.open(root)
    store = SlowStore(opened.store)
    metadata = TableHandle(store, opened.paths).metadata
    made = make_tag_context(metadata, metadata.latest_snapshot(), index_dir=str(index_dir))
    options = IndexOptions({**metadata.latest_schema().options, **STATE})
    found = make_key_index(options).tag(batch, dataclasses.replace(made, options=options))
    process = psutil.Process()
    times, seconds = process.cpu_times(), time.time() - process.create_time()
    whole = sum(f.stat().st_size for f in index_dir.rglob("*") if f.is_file())
    read = sum(c.bytes for verb, c in store.counts.items() if verb.startswith("get"))
    figure = Figure(
        f"fresh process, 30 ms a request, {len(batch):,} of {rows:,} keys",
        seconds,
        times.user + times.system,
        requests=store.total.requests,
        read_share=read / whole,
    )
    return figure, found
