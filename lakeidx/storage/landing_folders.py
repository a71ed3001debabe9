"""Landing folders anywhere: what `open_store` opens, and any other URL that fsspec knows (``sftp://``, ``https://``, ``hdfs://``,
files in archives as ``zip://a.csv::/in/x.zip``).

They are only read. Options are those of the store, or of fsspec's file system there; of a chained URL one mapping for each protocol
may be among them. fsspec also takes options from its configuration: files in ``~/.config/fsspec``, or variables such as
``FSSPEC_SFTP_USERNAME``. Secrets stay references, ``${LAKEIDX_SECRET_SFTP}``, until a file is read, so that no pipeline file, plan,
log or page has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import pyarrow as pa

from lakeidx.errors import (
    CorruptFileError,
    InvalidInputError,
    LakeIdxError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakeidx.options import arguments
from lakeidx.storage import open_store
from lakeidx.storage.base import CLOUD_OF, FileInfo, ObjectStore, innermost, kind_of_store
from lakeidx.storage.files import name_of
from lakeidx.storage.range_file import open_ranges

T = TypeVar("T")

#: How variables begin that options of landing folders may refer to: whoever writes a pipeline file reads no others.
SECRET_NAMES = "LAKEIDX_SECRET_"  # noqa: S105
_REFERENCE = re.compile(r"\$\{(\w+)\}")
_SECRET = re.compile(r"(?i)^(?!.*file(name)?$).*(passw|passphrase|secret|token|account_key|authorization|^auth$)")
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "modificationTime", "created")
#: What tells one content of a file from another where its time does not.
_MARKS = ("ETag", "Last-Modified", "CRC")
#: fsspec raises errors of the libraries that read archives as they are.
_BROKEN = ("BadZipFile", "ReadError", "ArchiveError", "UnusedArchiveError")


def open_landing(
    uri: str, storage_options: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
) -> ObjectStore:
    """Return the store a landing file or folder is in; of one through fsspec only the verbs that read work.

    storage_options   for `open_store`, where the files are in such a store
    options           of the landing files, also for fsspec; they count before the others
    errors            UnsupportedError for a URL that fsspec does not know, or needs another package for; InvalidInputError for
                      options that are no mapping, not known, or refer to a variable that is not set
    """
    own = cast(dict[str, Any], _looked_up(arguments.storage_options(options, path=uri), uri))
    try:
        return open_store(uri, {**(storage_options or {}), **own} if own else storage_options)
    except UnsupportedError:
        return cast(ObjectStore, FsspecFolder(uri, own))


def list_folder(store: ObjectStore, folder: str) -> list[FileInfo]:
    """List a landing folder, by name; empty for a prefix of an object store, which has no folders, under which nothing is.

    errors   InvalidInputError for a file; NotFoundError for a folder that is not there: a mount may be gone
    """
    listed = store.list(folder)
    if not listed:
        if store.info(folder.rstrip("/")) is not None:
            raise InvalidInputError("a file, not a folder: name the folder that it is in", path=folder)
        if not in_objects(folder) and not store.exists(folder):
            raise NotFoundError("the folder does not exist: is it mounted, and spelt right?", path=folder)
    return listed


def in_objects(folder: str) -> bool:
    """Return True for a store of objects, which has no folders, and where a file is there when it is whole."""
    return kind_of_store(folder) in CLOUD_OF.values()


def refuse_plain_secrets(options: Mapping[str, Any]) -> None:
    """Raise InvalidInputError for a secret that is written down instead of the name of a variable."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            refuse_plain_secrets(value)
        elif _SECRET.search(str(name)) and not _REFERENCE.fullmatch(str(value)):
            raise InvalidInputError(
                f"{name} is a secret: write ${{{SECRET_NAMES}{str(name).upper()}}} and set that variable where files are read"
            )


def secrets_filled(text: str) -> str:
    """Replace ``${LAKEIDX_SECRET_NAME}`` in a text; InvalidInputError for a variable that is not set."""
    return str(_looked_up(text, None))


def _looked_up(value: Any, uri: str | None) -> Any:
    """Return options with their references replaced."""
    if isinstance(value, Mapping):
        return {name: _looked_up(inner, uri) for name, inner in value.items()}
    return _REFERENCE.sub(lambda found: _variable(found[1], uri), value) if isinstance(value, str) else value


def _variable(name: str, uri: str | None) -> str:
    if not name.startswith(SECRET_NAMES):
        raise InvalidInputError(
            f"an option refers to the variable {name}: only names that begin with {SECRET_NAMES} may be there", path=uri
        )
    value = os.environ.get(name)
    if value is None:
        raise InvalidInputError(
            f"the environment variable {name} is not set: set it in every process that reads landing files or sends alerts",
            path=uri,
        )
    return value


class FsspecFolder:
    """The verbs of `lakeidx.storage.base.ObjectStore` that read, over an fsspec URL."""

    waits = True

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        self.uri = uri
        self.place = f"fsspec:{uri}"
        self._fs = self._open(uri, dict(options or {}))

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        return self._call(path, lambda fs, inner: bytes(fs.cat_file(inner)))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes offset .. offset + length; fewer when the file ends before."""
        found = self._raw_range(path, offset, length)
        # A web server that knows no ranges sends the whole file.
        return found if len(found) <= length else found[offset : offset + length]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file."""
        return [self.get_range(path, offset, length) for offset, length in ranges]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        found = self.info(path)
        if found is None:
            raise NotFoundError("no such file", path=path)
        return found.size

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        try:
            entry = self._call(path, lambda fs, inner: fs.info(inner))
            if entry.get("size") is None and entry.get("type") != "directory":
                # A web server that does not say it.
                entry = {**entry, "size": len(self.get(path))}
        except NotFoundError:
            return None
        found = _described(path, entry)
        return None if found.is_dir else found

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        return self._call(path, lambda fs, inner: bool(fs.exists(inner)))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when the directory is missing."""
        try:
            found = self._call(dir, lambda fs, inner: fs.ls(inner, detail=True, refresh=True))
        except NotFoundError:
            return []
        # Links of a web page that sort it are no files.
        names = [(name_of(str(entry["name"])), entry) for entry in found]
        below = [_described(_below(dir, name), entry) for name, entry in names if name and not name.startswith("?")]
        return sorted(below, key=lambda info: info.name)

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth."""
        for info in self.list(dir):
            if info.is_dir:
                yield from self.walk(info.path)
            else:
                yield info

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers; one of a server that knows no ranges is held whole."""
        length = self.size(path) if size is None else size
        whole: list[bytes] = []

        def read(offset: int, n: int) -> bytes:
            if not whole:
                found = self._raw_range(path, offset, n)
                if len(found) <= n:
                    return found
                whole.append(found)
            return whole[0][offset : offset + n]

        return open_ranges(lambda ranges: [read(*each) for each in ranges], length)

    def _raw_range(self, path: str, offset: int, length: int) -> bytes:
        return self._call(path, lambda fs, inner: bytes(fs.cat_file(inner, start=offset, end=offset + length)))

    def _open(self, path: str, options: dict[str, Any]) -> Any:
        import fsspec

        # An archive that fsspec has open already would be read as it was then.
        again = {"skip_instance_cache": True} if innermost(path) != path else {}
        try:
            return fsspec.core.url_to_fs(path, **again, **options)[0]
        except (ImportError, ValueError) as e:
            raise UnsupportedError(f"no landing folder can be there: {e}", path=path) from e
        except TypeError as e:
            raise InvalidInputError(f"options of the landing folder: {e}", path=path) from e
        except Exception as e:
            raise _named(e, path) from e

    def _call(self, path: str, request: Callable[[Any, str], T]) -> T:
        try:
            return request(self._fs, str(self._fs._strip_protocol(innermost(path))))
        except Exception as e:
            raise _named(e, path) from e


def _named(error: BaseException, path: str) -> LakeIdxError:
    """Return the error that says what went wrong there."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and cause is not None and type(cause).__module__.startswith("aiohttp"):
        # fsspec's web client says so of every failure.
        return _named(cause, path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFoundError("no such file", path=path)
    if isinstance(error, PermissionError) or getattr(error, "status", None) in (401, 403):
        return InvalidInputError(f"access denied: {error}", path=path)
    what = f"{error or type(error).__name__}"
    if type(error).__name__ in _BROKEN:
        return CorruptFileError(f"not a readable archive: {what}", path=path)
    return UnavailableError(f"the landing folder's server did not answer: {what}", path=path)


def _below(dir: str, name: str) -> str:
    """Return the path of a name in a folder, which may be one of an archive."""
    first = innermost(dir)
    inner = first if first.endswith("://") else f"{first.rstrip('/')}/"
    return f"{inner}{name}{dir[len(first) :]}"


def _described(path: str, entry: Mapping[str, Any]) -> FileInfo:
    when = next((entry[name] for name in _TIMES if entry.get(name)), 0)
    seconds = when.timestamp() if isinstance(when, datetime) else float(when) if isinstance(when, int | float) else 0.0
    is_dir = entry.get("type") == "directory"
    mark = next((str(entry[name]) for name in _MARKS if entry.get(name)), None)
    return FileInfo(path, name_of(innermost(path)), int(entry.get("size") or 0), int(seconds * 1000), is_dir, etag=mark)
