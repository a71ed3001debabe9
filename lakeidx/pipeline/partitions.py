"""Which landing files make up a partition of a pipeline, and which batch a partition is working on.

A batch is named after its partition and the content of its files, so the same files are the same batch (and are committed
once), while a file that comes again with other content is a new one. Files that have been committed are written down one by
one: however partitions are put together into runs later, a file's rows go into the table once, unless overwriting is asked for.
The stages after ingest find the batch by a small pointer file in the staging directory.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.pipeline.artifacts import SourceFile, staging_root
from lakeidx.pipeline.config import PipelineConfig
from lakeidx.storage.base import FileInfo, ObjectStore

_UNSAFE = re.compile(r"[^A-Za-z0-9._=@+-]")
POINTER_DIR = "_partitions"
LEDGER_DIR = "_committed"


@dataclass(frozen=True, slots=True)
class CurrentBatch:
    """The batch that some partitions are working on.

    overwrite   None, or what the batch replaces: "partitions" or "table"
    committed   every file of the partitions was committed before: there is nothing to do
    """

    batch_id: str
    overwrite: str | None = None
    committed: bool = False


def partition_key(config: PipelineConfig, file_name: str) -> str | None:
    """The partition a landing file belongs to, None when it is not a landing file of the pipeline."""
    if not fnmatchcase(file_name, config.landing.pattern):
        return None
    if config.partitions.by == "files" and config.partitions.key is None:
        return file_name
    match = re.search(config.partitions.key or "", file_name)
    return "-".join(g for g in match.groups() if g) or None if match else None


def landing_files(store: ObjectStore, config: PipelineConfig) -> list[FileInfo]:
    """All landing files that are there now, by name; with a success marker only those that have theirs."""
    listed = [f for f in store.list(config.landing.path) if not f.is_dir]
    marker = config.landing.success_marker
    names = {f.name for f in listed}
    return [
        f for f in listed if partition_key(config, f.name) is not None and (marker is None or f.name + marker in names)
    ]


def as_source(info: FileInfo) -> SourceFile:
    """A listed file as stages name it."""
    return SourceFile(path=info.path, size=info.size, version=str(info.mtime_ms))


def files_of_partitions(store: ObjectStore, config: PipelineConfig, keys: Sequence[str]) -> list[SourceFile]:
    """The landing files of some partitions: in the order of the keys, by name within one.

    errors   NotFoundError when there is none at all
    """
    if config.partitions.by == "files" and config.partitions.key is None:
        paths = [f"{config.landing.path.rstrip('/')}/{key}" for key in keys]
        found = [f for f in map(store.info, paths) if f is not None and not f.is_dir]
    else:
        order = {key: i for i, key in enumerate(keys)}
        listed = [(partition_key(config, f.name), f) for f in landing_files(store, config)]
        mine = [(order[key], f.name, f) for key, f in listed if key is not None and key in order]
        found = [f for _, _, f in sorted(mine, key=lambda m: m[:2])]
    if not found:
        names = ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "")
        raise NotFoundError(f"partition {names} of {config.table} has no landing file", path=config.landing.path)
    return [as_source(f) for f in found]


def batch_id_of(keys: Sequence[str], files: Sequence[SourceFile], *, distinct: str = "") -> str:
    """The batch id of some partitions' files: readable, and different when their content is.

    distinct   makes another batch of the same files (an overwrite that was asked for once more)
    """
    content = json.dumps([[f.path, f.size, f.version] for f in files] + [distinct])
    name = _UNSAFE.sub("-", keys[0] if len(keys) == 1 else f"{keys[0]}+{len(keys) - 1}").lstrip("._=@+-")[:100]
    return f"{name or 'batch'}@{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def plan_batch(
    store: ObjectStore,
    paths: TablePaths,
    keys: Sequence[str],
    files: Sequence[SourceFile],
    *,
    overwrite: str | None = None,
    run_id: str = "",
) -> tuple[CurrentBatch, list[SourceFile]]:
    """The batch for some partitions and the files that go into it: those that were not committed yet, or all for an overwrite."""
    if overwrite is not None:
        return CurrentBatch(batch_id_of(keys, files, distinct=f"{overwrite} {run_id}"), overwrite), list(files)
    batches = [committed_by(store, paths, f) for f in files]
    fresh = [f for f, batch in zip(files, batches, strict=True) if batch is None]
    if fresh:
        return CurrentBatch(batch_id_of(keys, fresh)), fresh
    return CurrentBatch(next(b for b in reversed(batches) if b is not None), committed=True), []


def committed_by(store: ObjectStore, paths: TablePaths, file: SourceFile) -> str | None:
    """The batch that has committed a landing file with this content, None when none has."""
    try:
        return store.get(_ledger_path(paths, file)).decode()
    except NotFoundError:
        return None


def mark_committed(store: ObjectStore, paths: TablePaths, files: Sequence[SourceFile], batch_id: str) -> None:
    """Write down that the rows of landing files are in the table."""
    for file in files:
        store.put(_ledger_path(paths, file), batch_id.encode())


def set_current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str], batch: CurrentBatch) -> None:
    """Remember which batch partitions are working on: for all of them together, and for each."""
    data = json.dumps(asdict(batch)).encode()
    for group in [list(keys)] if len(keys) == 1 else [list(keys), *([key] for key in keys)]:
        store.put(_pointer(paths, group), data)


def current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str]) -> CurrentBatch:
    """The batch of a partition's newest ingest; InvalidInputError when it was never ingested."""
    path = _pointer(paths, keys)
    try:
        return CurrentBatch(**json.loads(store.get(path)))
    except NotFoundError:
        raise InvalidInputError(
            f"partition {', '.join(keys[:3])} was not ingested: run the stage ingest first"
        ) from None
    except (ValueError, TypeError) as error:
        raise CorruptFileError(f"the pointer to the partition's batch cannot be read: {error}", path=path) from error


def _pointer(paths: TablePaths, keys: Sequence[str]) -> str:
    name = _UNSAFE.sub("-", keys[0])[:80]
    return f"{staging_root(paths)}/{POINTER_DIR}/{name}-{zlib.crc32(json.dumps(list(keys)).encode()):08x}"


def _ledger_path(paths: TablePaths, file: SourceFile) -> str:
    mark = hashlib.sha256(f"{file.path}\n{file.size}\n{file.version}".encode()).hexdigest()[:32]
    return f"{staging_root(paths)}/{LEDGER_DIR}/{mark}"
