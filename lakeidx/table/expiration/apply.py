"""Carries out plans of expiry, tag deletion and rollback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import encode_hint, encode_snapshot
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import parent_of
from lakeidx.table.expiration.files_to_delete import ExpirePlan, FileToDelete, Role
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that was, or in a dry run would be, deleted."""

    role: Role
    path: str
    size: int


def _path_of(file: FileToDelete, paths: TablePaths, schema: TableSchema) -> str:
    """Return the path of a file."""
    if file.role in (Role.DATA, Role.CHANGELOG, Role.EXTRA, Role.INDEX):
        partition = decode_partition_dict(file.partition, schema)
        if file.role is Role.EXTRA:
            return paths.extra_file(partition, file.bucket, file.name, external_path=file.external_path)
        if file.role is Role.INDEX:
            return paths.index_file(partition, file.bucket, file.name, external_path=file.external_path)
        return paths.data_file(partition, file.bucket, file.name, external_path=file.external_path)
    if file.role is Role.MANIFEST:
        return paths.manifest_path(file.name)
    if file.role is Role.STATISTICS:
        return paths.statistics_path(file.name)
    if file.role is Role.TAG:
        return paths.tag_path(file.name)
    number = int(file.name)
    return paths.snapshot_path(number) if file.role is Role.SNAPSHOT else paths.changelog_path(number)


def measure_files(plan: ExpirePlan, metadata: TableMetadata, schema: TableSchema) -> list[DeletedFile]:
    """List the files of a plan with their sizes, in order.

    A size that the metadata say is trusted, so that no bucket's directory is listed; such a file may be gone already, when an
    earlier run was cut off. Files without one are looked up, and left out when they are missing.
    cost   one listing per directory of files without a size (a request per file where a directory loses only one)
    """
    located = [(f, _path_of(f, metadata.paths, schema)) for f in plan.files]
    sizes = {path: f.size for f, path in located if f.size is not None}
    sizes |= _sizes(metadata.store, [path for _, path in located if path not in sizes])
    return [DeletedFile(f.role, path, sizes[path]) for f, path in located if path in sizes]


def _sizes(store: ObjectStore, paths: Iterable[str]) -> dict[str, int]:
    by_dir: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        by_dir[parent_of(path)].append(path)

    def look(directory: str) -> dict[str, int]:
        wanted = by_dir[directory]
        if len(wanted) == 1:
            info = store.info(wanted[0])
            return {} if info is None else {wanted[0]: info.size}
        # Listings may spell paths in their own way; names inside one directory are unique.
        there = {f.name: f.size for f in store.list(directory) if not f.is_dir}
        return {path: there[name] for path in wanted if (name := path.rpartition("/")[2]) in there}

    return {path: size for found in in_parallel(look, list(by_dir)) for path, size in found.items()}


def apply_plan(
    plan: ExpirePlan, metadata: TableMetadata, schema: TableSchema, *, clean_directories: bool = False
) -> None:
    """Carry a plan out, phase after phase.

    clean_directories   also remove bucket and partition directories that are empty afterwards
    errors              UnavailableError; running again finishes the job
    """
    store, paths = metadata.store, metadata.paths
    if plan.earliest_hint is not None:
        store.put(paths.earliest, encode_hint(plan.earliest_hint))
    if plan.restore_snapshot is not None:
        store.put_if_absent(paths.snapshot_path(plan.restore_snapshot.id), encode_snapshot(plan.restore_snapshot))
        store.put(paths.earliest, encode_hint(plan.restore_snapshot.id))
    if plan.latest_hint is not None:
        store.put(paths.latest, encode_hint(plan.latest_hint))
    if plan.changelog_hint is not None:
        store.put(paths.changelog_latest, str(plan.changelog_hint).encode())
    for snapshot in plan.keep_as_changelog:
        store.put(paths.changelog_path(snapshot.id), encode_snapshot(snapshot))
        store.put(paths.changelog_latest, encode_hint(snapshot.id))
    for phase in plan.phases:
        store.delete_many([_path_of(f, paths, schema) for f in phase])
    if clean_directories:
        _clean_directories(plan, metadata, schema)


def _clean_directories(plan: ExpirePlan, metadata: TableMetadata, schema: TableSchema) -> None:
    """Remove empty bucket directories, then partition directories from the deepest up."""
    store, paths = metadata.store, metadata.paths
    partitions: set[str] = set()
    for partition, bucket in plan.touched_buckets:
        values = decode_partition_dict(partition, schema)
        if store.delete_empty_dir(paths.bucket_dir(values, bucket)) and values:
            partitions.add(paths.partition_dir(values))
    for _ in schema.partition_keys:
        partitions = {parent_of(d) for d in sorted(partitions) if store.delete_empty_dir(d)}
