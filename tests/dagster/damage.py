"""A real table that is damaged in one way, and the checks of it, as the assets run them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np

from lakeidx.batch.context import make_context
from lakeidx.dagster.assets.checks import check_results
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.hash_index import decode_hash_index, encode_hash_index
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import ManifestEntry, decode_manifest
from lakeidx.format.snapshot import Snapshot, encode_snapshot
from lakeidx.pipeline_file.batch_checks import batch_results
from lakeidx.pipeline_file.partitions import current_batch
from lakeidx.pipeline_file.table_checks import verify_whole
from lakeidx.table.view import load_view
from tests.dagster.pipelines import Deployment
from tests.kit.replaced_manifest import replace_manifest


def rows(low: int, high: int, text: str) -> list[tuple[int, int, str | None]]:
    return [(k % 2, k, f"{text}{k}") for k in range(low, high)]


def three_batches(d: Deployment) -> None:
    """Three batches over two partitions: 76 keys, buckets of at most 10; the last of each partition is not full."""
    for name, low, high in (("a", 0, 40), ("b", 30, 55), ("c", 50, 76)):
        d.land(f"{name}.parquet", rows(low, high, name))
        assert d.run(f"{name}.parquet").success


@dataclass
class Damaged:
    """A copy of the healthy table, and means to damage it."""

    deployment: Deployment

    @property
    def root(self) -> Path:
        return Path(self.deployment.config.uri)

    def snapshot(self) -> Snapshot:
        found = self.deployment.table.snapshot
        assert found is not None
        return found

    def put_snapshot(self, snapshot: Snapshot) -> None:
        (self.root / "snapshot" / f"snapshot-{snapshot.id}").write_bytes(encode_snapshot(snapshot))

    def index_entries(self) -> list[IndexEntry]:
        path = self.root / "manifest" / str(self.snapshot().index_manifest)
        return decode_index_manifest(path.read_bytes(), str(path))

    def index_file(self, entry: IndexEntry) -> Path:
        return self.root / "index" / entry.file_name

    def rewrite_index(self, entry: IndexEntry, change: Callable[[np.ndarray], np.ndarray]) -> IndexEntry:
        """Replace an index file and its manifest entry, so that only its hashes are wrong; return the new entry."""
        path = self.index_file(entry)
        data = encode_hash_index(change(decode_hash_index(path.read_bytes(), str(path))).astype(np.int32))
        name = NewFileNames().index_name(zlib.crc32(data))
        new = replace(entry, file_name=name, file_size=len(data), row_count=len(data) // 4)
        path.unlink()
        self.index_file(new).write_bytes(data)
        entries = [new if e.file_name == entry.file_name else e for e in self.index_entries()]
        (self.root / "manifest" / str(self.snapshot().index_manifest)).write_bytes(encode_index_manifest(entries))
        return new

    def edit_delta(self, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
        """Change the newest snapshot's own manifest; sizes in its list and in the snapshot are put right."""
        metadata = self.deployment.table.metadata
        path = self.root / "manifest" / metadata.load_manifest_list(self.snapshot().delta_manifest_list)[0].file_name
        replace_manifest(metadata, path.name, change(decode_manifest(path.read_bytes(), str(path))))

    def bucket_dir(self, entry: ManifestEntry) -> Path:
        return next(self.root.glob(f"p=*/bucket-*/{entry.file.file_name}")).parent

    def live_entry(self) -> ManifestEntry:
        table = self.deployment.table
        return min(load_view(table.metadata, table.snapshot).entries, key=lambda e: e.file.file_name)


def verified(d: Deployment) -> dict[str, dg.AssetCheckResult]:
    """The checks of the whole table by name."""
    results = check_results(d.config, "verification", verify_whole(d.config, d.table).results)
    return {str(r.check_name): r for r in results}


def after_commit(d: Deployment, key: str = "c.parquet") -> dict[str, dg.AssetCheckResult]:
    """The checks of what the newest batch touched, by name."""
    table = d.table
    batch = current_batch(table.store, table.paths, [key])
    results = batch_results(d.config, make_context(table.metadata, batch.batch_id)).results
    return {str(r.check_name): r for r in check_results(d.config, "commit", results)}


def red(results: dict[str, dg.AssetCheckResult]) -> set[str]:
    return {name for name, r in results.items() if not r.passed}


def sample(result: dg.AssetCheckResult) -> list[dict[str, Any]]:
    table = result.metadata["lakeidx/sample"]
    return [dict(record.data) for record in table.records]  # type: ignore[attr-defined]
