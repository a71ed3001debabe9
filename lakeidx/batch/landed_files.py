"""Landing files that are in the table already, and the batch that a file is loaded with.

A batch is named after the content of its files, so the same files are the same batch (and are committed once), while a file that
comes again with other content is a new one. Files that have been committed are written down one by one, beside the staging of
batches: whoever loads a folder, a pipeline or a command, finds what others have loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from lakeidx.batch.artifacts import SourceFile, check_batch_id, staging_root
from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.table_schema import VALUE_KIND, TableSchema
from lakeidx.storage import kind_of_store
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.local import local_path
from lakeidx.tasks.in_parallel import in_parallel
from lakeidx.types import DataType, Root

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1

#: Characters that names of batches and their files do not have.
UNSAFE = re.compile(r"[^A-Za-z0-9._=@+-]")
LEDGER_DIR = "_committed"
_WHOLE_ID = re.compile("@[0-9a-f]{12}$")


def batch_id_of(keys: Sequence[str], files: Sequence[SourceFile], *, distinct: str = "") -> str:
    """Make the batch id of some partitions' files: readable, and different when their content is.

    distinct   makes another batch of the same files (an overwrite that was requested once more)
    """
    content = json.dumps([[f.path, f.size, _version_of(f)] for f in files] + [distinct])
    name = UNSAFE.sub("-", keys[0] if len(keys) == 1 else f"{keys[0]}+{len(keys) - 1}").lstrip("._=@+-")[:100]
    return f"{name or 'batch'}@{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def committed_by(store: ObjectStore, paths: TablePaths, file: SourceFile) -> str | None:
    """Find the batch that has committed a landing file as it is now, None when none has; CorruptFileError."""
    found = _noted(store, _ledger_path(paths, file))
    return found and found[0]


def last_committed(store: ObjectStore, paths: TablePaths, path: str) -> tuple[str, str] | None:
    """Find the last batch that has committed a landing file of this name, and the file's content as `content_mark`; None without.

    A file that was only touched, or copied anew, is known by its content. One that went back to an older content is not: its rows
    are to replace those of the newer one.
    errors   CorruptFileError
    """
    return _noted(store, _last_path(paths, path))


def content_mark(file: SourceFile) -> str:
    """Return what tells the content of a file, where it is known: of small files on a disk, and in object stores; else ""."""
    return file.checksum or file.etag or ""


def mark_committed(store: ObjectStore, paths: TablePaths, files: Sequence[SourceFile], batch_id: str) -> None:
    """Write down that the rows of landing files are in the table."""
    for file in files:
        store.put(_ledger_path(paths, file), f"{batch_id}\n{_checksum_of(batch_id)}".encode())
        store.put(_last_path(paths, file.path), f"{batch_id}\n{_checksum_of(batch_id)}\n{content_mark(file)}".encode())


def _noted(store: ObjectStore, path: str) -> tuple[str, str] | None:
    """Read what the ledger says: the id of a batch, and the content of the file if it is noted."""
    try:
        batch_id, _, rest = store.get(path).decode().partition("\n")
        checksum, _, content = rest.partition("\n")
        check_batch_id(batch_id)
        # Older releases wrote the id alone: it ends with a hash of its own, which a cut would shorten.
        whole = checksum == _checksum_of(batch_id) if checksum else _WHOLE_ID.search(batch_id) is not None
        if not whole:
            raise CorruptFileError(
                f"the checksum of {batch_id!r} is {_checksum_of(batch_id)}, not {checksum}", path=path
            )
    except NotFoundError:
        return None
    except (UnicodeDecodeError, InvalidInputError) as error:
        raise CorruptFileError(f"not the id of a batch: {error}", path=path) from error
    return batch_id, content


def as_source(info: FileInfo) -> SourceFile:
    """Convert a listed file to the form of batches."""
    return SourceFile(path=info.path, size=info.size, version=str(info.mtime_ms), etag=info.etag)


def leads_out(folder: str, file: FileInfo) -> bool:
    """Return True for a link, on a local disk, to something outside the landing folder."""
    if "://" in folder and not folder.startswith("file:"):
        return False
    path = local_path(file.path)
    # Of a file below, a folder on the way may be a link.
    if "/" not in file.name and not os.path.islink(path):
        return False
    return not os.path.realpath(path).startswith(os.path.realpath(local_path(folder)) + os.sep)


def _checksum_of(batch_id: str) -> str:
    return f"{crc32(batch_id.encode()):08x}"


def _version_of(file: SourceFile) -> str:
    """Return what tells a file from others of its name and size: its time, or the mark of a server that says none."""
    return file.etag if file.version == "0" and file.etag else file.version


def _ledger_path(paths: TablePaths, file: SourceFile) -> str:
    mark = hashlib.sha256(f"{file.path}\n{file.size}\n{_version_of(file)}".encode()).hexdigest()[:32]
    return f"{staging_root(paths)}/{LEDGER_DIR}/{mark}"


def _last_path(paths: TablePaths, path: str) -> str:
    return f"{staging_root(paths)}/{LEDGER_DIR}/last-{hashlib.sha256(path.encode()).hexdigest()[:32]}"


def landing_store(store: ObjectStore, path: str, options: Mapping[str, Any]) -> ObjectStore:
    """Open the store a landing file is in: the table's, or its own for a file in a store of another kind, or one with options.

    options   of the landing files' store; a store of its own is reached as they, and else environment variables, say
    """
    from lakeidx.storage.landing_folders import open_landing

    own = options or kind_of_store(store.uri) != kind_of_store(path)
    return open_landing(path, None, options) if own else store


def describe_source(store: ObjectStore, path: str, options: Mapping[str, Any]) -> SourceFile:
    """Describe a landing file as it is now; NotFoundError when it is missing, InvalidInputError for a folder."""
    where = landing_store(store, path, options)
    info = where.info(path)
    if info is None:
        if where.exists(path):
            raise InvalidInputError("a folder, not a landing file; name the files in it", path=path)
        raise NotFoundError("the landing file does not exist", path=path)
    return SourceFile(path=path, size=info.size, version=str(info.mtime_ms), etag=info.etag)


@contextmanager
def unchanged(
    store: ObjectStore, sources: Sequence[SourceFile], options: Mapping[str, Any], *, since: str, then: str
) -> Iterator[None]:
    """Make sure, when a block that reads landing files ends, that they are still the files that were described before it.

    Looking at them afterwards tells of a change at any time before, one in the middle of the block too.

    since    when the file changed, as the error says it
    then     what to do
    errors   InvalidInputError, also in the place of an error of the block: what it met may come from the change
    """

    def look(source: SourceFile) -> None:
        if not describe_source(store, source.path, options).is_version_of(source):
            raise InvalidInputError(f"the landing file changed {since}; {then}", path=source.path)

    try:
        yield
    except LakeIdxError:
        in_parallel(look, sources)
        raise
    in_parallel(look, sources)


def content_of(rows: pa.Table, schema: TableSchema) -> int:
    """Sum of the rows' hashes, 0 to 2**64 - 1; the content of two tables together is the sum of both, modulo 2**64.

    rows      the table's columns, and the row kinds when there are any
    returns   a number that differs when a value differs, but for chance (1 in 2**32 for a row), or one in an ARRAY, MAP, ROW or
              VARIANT column, which would have to be looked at one by one
    """
    flat = [f for f in schema.fields if not f.type.is_nested and f.type.root is not Root.VARIANT]
    columns, types = [rows.column(f.name) for f in flat], [f.type for f in flat]
    if VALUE_KIND in rows.column_names:
        columns.append(rows.column(VALUE_KIND))
        types.append(DataType(Root.TINYINT))
    hashes = hash_columns(columns, types, rows.num_rows).view(np.uint32).astype(np.uint64)
    # Mixed, so that two rows that swap parts of their hashes do not come to the same sum.
    hashes = (hashes + np.uint64(1)) * _ODD
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _ODD
    return int(np.add.reduce(hashes ^ (hashes >> np.uint64(32)), dtype=np.uint64)) & _MASK


def join_contents(contents: list[int]) -> str:
    """Combine the content of several tables, as reports keep it."""
    return f"{sum(contents) & _MASK:016x}"
