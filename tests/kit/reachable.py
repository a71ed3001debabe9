"""Which files of a table anyone can reach, found the plain way: by reading every snapshot and tag."""

from __future__ import annotations

from pathlib import Path

from lakeidx.api.table import Table
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.paths import TablePaths
from lakeidx.table.history import load_tag, tag_names
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict, load_view

_HINTS = ("LATEST", "EARLIEST")


def reopened(table: Table) -> Table:
    """Open the table without anything that was read before."""
    return Table.open(table.uri)


def files_on_disk(table: Table) -> set[str]:
    """Return every file of the table but schemas, consumers and hints, relative to its directory."""
    root = Path(table.uri)
    found = (p for p in root.rglob("*") if p.is_file() and p.name not in _HINTS)
    return {f for f in (str(p.relative_to(root)) for p in found) if not f.startswith(("schema/", "consumer/"))}


def reachable(table: Table, *, branch: str | None = None) -> set[str]:
    """Return every file that a snapshot or tag of the table needs; changelogs are needed by snapshots only.

    branch   what a branch needs of the table's directory, without the branch's own small files
    """
    table = reopened(table)
    m, root = table.metadata, Path(table.uri)
    out: set[str] = set()
    if branch is not None:
        m = TableMetadata(table.store, TablePaths.of(table.uri, table.schema, branch=branch))
    else:
        out = {f"snapshot/snapshot-{i}" for i in m.listed_snapshot_ids()} | {f"tag/tag-{n}" for n in tag_names(m)}

    def files_of(entry: ManifestEntry) -> set[str]:
        directory = Path(m.paths.bucket_dir(decode_partition_dict(entry.partition, table.schema), entry.bucket))
        return {str((directory / n).relative_to(root)) for n in (entry.file.file_name, *entry.file.extra_files)}

    snapshots = list(m.snapshots())
    for s in (*snapshots, *(load_tag(m, n) for n in tag_names(m))):
        names = [s.base_manifest_list, s.delta_manifest_list, s.index_manifest]
        names += [x.file_name for x in m.data_manifests(s)]
        out |= {f"manifest/{n}" for n in names if n is not None}
        out |= {f"statistics/{s.statistics}"} if s.statistics else set()
        for index in m.load_index_manifest(s.index_manifest):
            partition = decode_partition_dict(index.partition, table.schema)
            path = m.paths.index_file(partition, index.bucket, index.file_name, external_path=index.external_path)
            out.add(str(Path(path).relative_to(root)))
        # What lakeidx deletes from the table leaves all that manifests of a branch name, deleted files, too.
        of_branch = [e for x in m.data_manifests(s) for e in m.load_manifest(x.file_name)] if branch else []
        for entry in (*load_view(m, s).entries, *of_branch):
            out |= files_of(entry)
    for s in snapshots:
        if s.changelog_manifest_list is not None:
            # A branch from a tag has that tag's snapshot; its changelog went with the snapshot of the table.
            if branch is not None and not m.store.exists(m.paths.manifest_path(s.changelog_manifest_list)):
                continue
            out.add(f"manifest/{s.changelog_manifest_list}")
            for meta in m.load_manifest_list(s.changelog_manifest_list):
                out.add(f"manifest/{meta.file_name}")
                for entry in m.load_manifest(meta.file_name):
                    out |= files_of(entry)
    return out
