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
from collections.abc import Sequence

from lakeidx.batch.artifacts import SourceFile, check_batch_id, staging_root
from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.local import local_path

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
