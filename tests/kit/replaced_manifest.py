"""Puts other entries into a manifest of a table, as another writer could have written them: sizes and numbers fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakeidx.format.manifest import FileKind, ManifestEntry, encode_manifest
from lakeidx.format.manifest_list import decode_manifest_list, encode_manifest_list
from lakeidx.format.snapshot import encode_snapshot
from lakeidx.table.metadata import TableMetadata


def replace_manifest(metadata: TableMetadata, name: str, entries: Sequence[ManifestEntry]) -> None:
    """Write a manifest of the newest snapshot anew, then the list that names it, then the snapshot.

    name   of the manifest
    """
    store, paths = metadata.store, metadata.paths
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    data = encode_manifest(entries)
    store.put(paths.manifest_path(name), data)
    deleted = sum(e.kind is FileKind.DELETE for e in entries)
    sizes: dict[str, Any] = {}
    for key in ("base_manifest_list", "delta_manifest_list"):
        path = paths.manifest_path(getattr(snapshot, key))
        metas = decode_manifest_list(store.get(path), path)
        if any(m.file_name == name for m in metas):
            fits = [
                replace(m, file_size=len(data), num_added_files=len(entries) - deleted, num_deleted_files=deleted)
                if m.file_name == name
                else m
                for m in metas
            ]
            listed = encode_manifest_list(fits)
            store.put(path, listed)
            sizes[f"{key}_size"] = len(listed)
    store.put(paths.snapshot_path(snapshot.id), encode_snapshot(replace(snapshot, **sizes)))
