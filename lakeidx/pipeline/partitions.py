"""Which landing files make up a partition of a pipeline, and which batch a partition is working on.

A batch is named after its partition and the content of its files, so the same files are the same batch (and are committed
once), while a file that comes again with other content is a new one. The stages after ingest find the batch by a small
pointer file in the staging directory.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.pipeline.artifacts import SourceFile, staging_root
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.storage.base import FileInfo, ObjectStore

_UNSAFE = re.compile(r"[^A-Za-z0-9._=@+-]")
POINTER_DIR = "_partitions"


def partition_key(config: PipelineConfig, file_name: str) -> str | None:
    """The partition a landing file belongs to, None when it is not a landing file of the pipeline."""
    if not fnmatchcase(file_name, config.landing.pattern):
        return None
    if config.partitions.by == "files" and config.partitions.key is None:
        return file_name
    match = re.search(config.partitions.key or "", file_name)
    return match.group(1) if match and match.groups() else None


def landing_files(store: ObjectStore, config: PipelineConfig) -> list[FileInfo]:
    """All landing files that are there now, by name."""
    found = [f for f in store.list(config.landing.path) if not f.is_dir and partition_key(config, f.name) is not None]
    marker = config.landing.success_marker
    if marker is None:
        return found
    names = {f.name for f in store.list(config.landing.path)}
    return [f for f in found if f.name + marker in names]


def files_of_partition(store: ObjectStore, config: PipelineConfig, key: str) -> list[SourceFile]:
    """The landing files of one partition, by name; NotFoundError when there is none."""
    if config.partitions.by == "files" and config.partitions.key is None:
        path = f"{config.landing.path.rstrip('/')}/{key}"
        info = store.info(path)
        found = [] if info is None else [info]
    else:
        found = [f for f in landing_files(store, config) if partition_key(config, f.name) == key]
    if not found:
        raise NotFoundError(f"partition {key!r} of {config.table} has no landing file", path=config.landing.path)
    return [SourceFile(path=f.path, size=f.size, version=str(f.mtime_ms)) for f in found]


def batch_id_of(keys: Sequence[str], files: Sequence[SourceFile], *, overwrite: bool = False) -> str:
    """The batch id of some partitions' files: readable, and different when their content is."""
    content = json.dumps([[f.path, f.size, f.version] for f in files] + [overwrite])
    name = _UNSAFE.sub("-", keys[0] if len(keys) == 1 else f"{keys[0]}+{len(keys) - 1}").lstrip("._=@+-")[:100]
    return f"{name or 'batch'}@{zlib.crc32(content.encode()):08x}"


def set_current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str], batch_id: str) -> None:
    """Remember which batch a partition (or range of them) is working on."""
    store.put(_pointer(paths, keys), batch_id.encode())


def current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str]) -> str:
    """The batch of a partition's newest ingest; InvalidInputError when it was never ingested."""
    try:
        return store.get(_pointer(paths, keys)).decode()
    except NotFoundError:
        raise InvalidInputError(f"partition {', '.join(keys)} was not ingested: run the stage ingest first") from None


def _pointer(paths: TablePaths, keys: Sequence[str]) -> str:
    name = _UNSAFE.sub("-", keys[0])[:80]
    return f"{staging_root(paths)}/{POINTER_DIR}/{name}-{zlib.crc32(json.dumps(list(keys)).encode()):08x}"
