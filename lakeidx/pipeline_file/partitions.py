"""Landing files of a partition of a pipeline, and the batch that a partition is working on.

A batch is named after its partition and the content of its files, so the same files are the same batch (and are committed
once), while a file that comes again with other content is a new one. Files that have been committed are written down one by
one: however partitions are put together into runs later, a file's rows go into the table once, unless overwriting is requested.
The stages after ingest find the batch by a small pointer file in the staging directory.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from lakeidx.batch.artifacts import SourceFile, staging_root
from lakeidx.batch.landed_files import UNSAFE, as_source, batch_id_of, committed_by, leads_out
from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.landing.dms_files import file_order
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.landing_folders import list_folder
from lakeidx.tasks.in_parallel import in_parallel

POINTER_DIR = "_partitions"


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
    """Return the partition a landing file belongs to, None when it is not a landing file of the pipeline."""
    if not fnmatchcase(file_name, config.landing.pattern):
        return None
    if config.partitions.by == "files" and config.partitions.key is None:
        return file_name
    match = re.search(config.partitions.key or "", file_name)
    return "-".join(g for g in match.groups() if g) or None if match else None


def list_landing(store: ObjectStore, config: PipelineConfig, names: Collection[str] | None = None) -> list[FileInfo]:
    """List the landing folder, by name: for `sort_files`; with a pattern that has a slash the folders in it, too.

    names    only these, and their success markers, or what these mark: asked one by one, so the folder is not listed
    errors   see `list_folder`
    """
    folder, marker = config.landing.path, config.landing.success_marker
    if names is not None:
        wanted = set(names)
        if marker is not None:
            wanted = {n for name in names for n in (name.removesuffix(marker), name.removesuffix(marker) + marker)}
        order = sorted(wanted)
        found = in_parallel(store.info, [f"{folder.rstrip('/')}/{name}" for name in order])
        return [f._replace(name=n) for n, f in zip(order, found, strict=True) if f is not None and not f.is_dir]
    listed = list_folder(store, folder)
    if _in_folders(config):
        begins = len(listed[0].path) - len(listed[0].name) if listed else 0
        listed = sorted((f._replace(name=f.path[begins:]) for f in store.walk(folder)), key=lambda f: f.name)
    return [f for f in listed if not f.is_dir]


def _in_folders(config: PipelineConfig) -> bool:
    """Return True when landing files are in folders below the landing folder."""
    return "/" in config.landing.pattern


def landing_files(listed: Sequence[FileInfo], config: PipelineConfig) -> list[FileInfo]:
    """Return the landing files among the files of the folder; with a success marker only those that have theirs.

    Links to files outside the folder are none: whoever may put files there could have any file of the machine loaded.
    """
    return sort_files(listed, config)[0]


def sort_files(
    listed: Sequence[FileInfo], config: PipelineConfig, partitions: Collection[str] | None = None
) -> tuple[list[FileInfo], list[FileInfo]]:
    """Return the landing files, as `landing_files`, and those that match the pattern and belong to no partition, both by name.

    The latter would never be loaded.
    partitions   the partitions there are; None where any key makes a partition of its own
    """
    marker, folder = config.landing.success_marker, config.landing.path
    names = {f.name for f in listed} if marker is not None else set()
    placed, unplaced = [], []
    for file in listed:
        if not fnmatchcase(file.name, config.landing.pattern):
            continue
        if marker is not None and file.name.endswith(marker) and file.name.removesuffix(marker) in names:
            continue
        key, outside = partition_key(config, file.name), leads_out(folder, file)
        if key is not None and not outside and (marker is None or file.name + marker in names):
            placed.append(file)
        if key is None or outside or (partitions is not None and key not in partitions):
            unplaced.append(file)
    return placed, sorted(unplaced, key=lambda f: f.name)


def files_of_partitions(store: ObjectStore, config: PipelineConfig, keys: Sequence[str]) -> list[SourceFile]:
    """List the landing files of some partitions: in the order of the keys, by name within one; of DMS as `file_order` says.

    errors   NotFoundError when there is none at all
    """
    if config.partitions.by == "files" and config.partitions.key is None:
        names = [key for key in keys if _may_be_name(key, below=_in_folders(config))]
        there = ((name, store.info(f"{config.landing.path.rstrip('/')}/{name}")) for name in names)
        named = [f._replace(name=name) for name, f in there if f is not None and not f.is_dir]
        found = [f for f in named if not leads_out(config.landing.path, f)]
    else:
        order = {key: i for i, key in enumerate(keys)}
        landed = landing_files(list_landing(store, config), config)
        keyed = [(partition_key(config, f.name), f) for f in landed]
        mine = [(order[key], f.name, f) for key, f in keyed if key is not None and key in order]
        found = [f for _, _, f in sorted(mine, key=lambda m: m[:2])]
    if not found:
        shown = ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "")
        raise NotFoundError(f"partition {shown} of {config.table} has no landing file", path=config.landing.path)
    if config.landing.format == "dms":
        found.sort(key=lambda f: file_order("dms")(f.path))
    return [as_source(f) for f in found]


def _may_be_name(key: str, *, below: bool) -> bool:
    parts = key.split("/")
    return "\0" not in key and (below or len(parts) == 1) and not {"", ".", ".."} & set(parts)


def plan_batch(
    store: ObjectStore,
    paths: TablePaths,
    keys: Sequence[str],
    files: Sequence[SourceFile],
    *,
    overwrite: str | None = None,
    run_id: str = "",
    still_counts: Callable[[str], bool] = lambda batch_id: True,
) -> tuple[CurrentBatch, list[SourceFile]]:
    """Plan the batch for some partitions and its files: those that were not committed yet, or all for an overwrite."""
    if overwrite is not None:
        return CurrentBatch(batch_id_of(keys, files, distinct=f"{overwrite} {run_id}"), overwrite), list(files)
    batches = [committed_by(store, paths, f) for f in files]
    counts = {b: still_counts(b) for b in set(batches) if b is not None}
    batches = [b if b is not None and counts[b] else None for b in batches]
    fresh = [f for f, batch in zip(files, batches, strict=True) if batch is None]
    if fresh:
        return CurrentBatch(batch_id_of(keys, fresh)), fresh
    return CurrentBatch(next(b for b in reversed(batches) if b is not None), committed=True), []


def set_current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str], batch: CurrentBatch) -> None:
    """Record which batch some partitions belong to: for all of them together, and for each."""
    data = seal(json.dumps(asdict(batch)).encode())
    for group in [list(keys)] if len(keys) == 1 else [list(keys), *([key] for key in keys)]:
        store.put(_pointer(paths, group), data)


def current_batch(store: ObjectStore, paths: TablePaths, keys: Sequence[str]) -> CurrentBatch:
    """Load the batch of a partition's newest ingest; InvalidInputError when it was never ingested."""
    path = _pointer(paths, keys)
    try:
        return CurrentBatch(**json.loads(unseal(store.get(path), path)))
    except NotFoundError:
        raise InvalidInputError(
            f"partition {', '.join(keys[:3])} was not ingested: run the stage ingest first"
        ) from None
    except (ValueError, TypeError) as error:
        raise CorruptFileError(f"the pointer to the partition's batch cannot be read: {error}", path=path) from error


def _pointer(paths: TablePaths, keys: Sequence[str]) -> str:
    name = UNSAFE.sub("-", keys[0])[:80]
    return f"{staging_root(paths)}/{POINTER_DIR}/{name}-{zlib.crc32(json.dumps(list(keys)).encode()):08x}"
