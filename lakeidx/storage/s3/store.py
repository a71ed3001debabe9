"""Tables in an S3-compatible object store, through s3fs.

put_if_absent is a PUT with ``If-None-Match: *``: 412 means the object is there; 409 (another conditional put is under way) is tried
again; after a timeout, a lost connection or a 5xx it is unknown: CommitUnknownError. Every other request is repeated a
few times with growing, random waits before it is an UnavailableError. Connections are made on first use in each process, so that
a store may be pickled, and used after a fork.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import tenacity

from lakeidx.errors import (
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from lakeidx.storage.base import FileInfo, name_of
from lakeidx.storage.range_file import open_ranges
from lakeidx.storage.s3.client import SHARED_CLIENTS, Clients, client_for
from lakeidx.storage.s3.errors import Busy, Exists, Transient, client_errors, status_of, translate
from lakeidx.storage.s3.options import S3Options
from lakeidx.storage.s3.output import S3Output

if TYPE_CHECKING:
    from s3fs import S3FileSystem

T = TypeVar("T")

_DELETE_AT_ONCE = 1000
_PUTS_AT_ONCE = 8
RETRY_WAIT: tenacity.wait.wait_base = tenacity.wait_random_exponential(multiplier=0.1, max=8)
"""Seconds between tries: random, below 0.1, 0.2, 0.4 ... 8."""


class S3Store:
    """An `lakeidx.storage.base.ObjectStore` on S3.

    uri       ``s3://bucket/...``; s3a and s3n are taken, too
    options   see `lakeidx.storage.s3.options`
    errors    InvalidInputError for unknown options or a URI without bucket
    """

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        self._uri = uri
        self._raw_options = dict(options or {})
        self._options = S3Options.parse(options)
        self._own_clients: Clients | None = None
        _bucket_and_key(uri)

    @property
    def uri(self) -> str:
        """The URI given to `open_store`."""
        return self._uri

    @property
    def place(self) -> str:
        """Endpoint and bucket."""
        endpoint = self._options.s3fs_kwargs().get("endpoint_url") or "aws"
        return f"s3:{endpoint}/{_bucket_and_key(self._uri)[0]}"

    @property
    def waits(self) -> bool:
        """True: every request goes over a network."""
        return True

    def __repr__(self) -> str:
        return f"S3Store({self._uri!r}, endpoint_url={self._options.endpoint_url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Store, (self._uri, self._raw_options)

    def get(self, path: str) -> bytes:
        """Read the whole file."""
        # One request: s3fs would ask for the size first to fetch large files in pieces.
        return self._call(path, lambda fs, key: bytes(fs.cat_file(key, max_concurrency=1)))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Read bytes offset .. offset + length; fewer when the file ends before."""
        if length <= 0:
            return b""

        def read(fs: S3FileSystem, key: str) -> bytes:
            try:
                return bytes(fs.cat_file(key, start=offset, end=offset + length))
            except OSError as e:
                if status_of(e)[0] == 416:
                    return b""
                raise

        return self._call(path, read)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file, fetched side by side."""
        if len(ranges) <= 1:
            return [self.get_range(path, offset, length) for offset, length in ranges]

        def read(fs: S3FileSystem, key: str) -> list[bytes]:
            starts = [offset for offset, _ in ranges]
            ends = [offset + length for offset, length in ranges]
            return [bytes(b) for b in fs.cat_ranges([key] * len(ranges), starts, ends, on_error="raise")]

        if any(length <= 0 for _, length in ranges):
            return [self.get_range(path, offset, length) for offset, length in ranges]
        try:
            return self._call(path, read)
        except InvalidInputError:
            # One of them begins behind the end of the file.
            return [self.get_range(path, offset, length) for offset, length in ranges]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        bucket, key = _bucket_and_key(path)
        head = self._call(path, lambda fs, _: fs.call_s3("head_object", Bucket=bucket, Key=key))
        return int(head["ContentLength"])

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        bucket, key = _bucket_and_key(path)
        if not key:
            return None
        try:
            head = self._call(path, lambda fs, _: fs.call_s3("head_object", Bucket=bucket, Key=key))
        except NotFoundError:
            return None
        return _file_info(path.rpartition("/")[0], name_of(path), {**head, "Size": head["ContentLength"]})

    def exists(self, path: str) -> bool:
        """Return True when a file or a directory has that name."""
        if self.info(path) is not None:
            return True
        bucket, key = _bucket_and_key(path)
        prefix = f"{key.rstrip('/')}/" if key else ""
        # Two keys, since some servers list an empty directory as an object of its own name.
        request = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 2}
        page = self._call(path, functools.partial(_list_page, request))
        return any(o["Key"] != prefix for o in page.get("Contents", ()))

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when there are none."""
        bucket, key = _bucket_and_key(dir)
        prefix = f"{key.rstrip('/')}/" if key else ""
        base = dir.rstrip("/")
        out = []
        for page in self._pages(dir, Bucket=bucket, Prefix=prefix, Delimiter="/"):
            for entry in page.get("CommonPrefixes", ()):
                name = entry["Prefix"][len(prefix) :].rstrip("/")
                out.append(FileInfo(f"{base}/{name}", name, 0, 0, True))
            out += [
                _file_info(base, o["Key"][len(prefix) :], o) for o in page.get("Contents", ()) if o["Key"] != prefix
            ]
        return sorted(out, key=lambda info: info.name)

    def walk(self, dir: str, *, prefix: str = "") -> Iterator[FileInfo]:
        """List all files below, at any depth, in one listing."""
        bucket, key = _bucket_and_key(dir)
        above = f"{key.rstrip('/')}/" if key else ""
        base = dir.rstrip("/")
        for page in self._pages(dir, Bucket=bucket, Prefix=above + prefix):
            for o in page.get("Contents", ()):
                if not o["Key"].endswith("/"):
                    yield _file_info(base, o["Key"][len(above) :], o)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file."""
        self._call(path, lambda fs, key: fs.pipe_file(key, bytes(data)))

    def put_many(self, files: Sequence[tuple[str, bytes]], *, waiting: Sequence[str] = ()) -> None:
        """Write files, several requests at a time; a put that has returned is there to stay."""
        with ThreadPoolExecutor(_PUTS_AT_ONCE) as threads:
            for _ in threads.map(lambda file: self.put(*file), files):
                pass

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""

        def attempt() -> bool:
            try:
                self._once(path, lambda fs, key: fs.pipe_file(key, bytes(data), mode="create"))
            except Exists:
                return False
            except Transient as e:
                if e.sent:
                    raise CommitUnknownError(f"the store did not confirm the write of the file: {e}", path=path) from e
                raise
            return True

        return self._retry(path, attempt)

    def prepare_put(
        self, path: str, data: bytes, *, files: Sequence[tuple[str, bytes]] = (), waiting: Sequence[str] = ()
    ) -> Callable[[], bool]:
        """Write the files that come before one, which nothing makes ready; whether it is there, the put of it tells."""
        self.put_many(files, waiting=waiting)
        return lambda: self.put_if_absent(path, data)

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        bucket, key = _bucket_and_key(path)
        self._call(path, lambda fs, _: fs.call_s3("delete_object", Bucket=bucket, Key=key))

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files, a thousand per request; missing ones are fine."""
        todo = list(paths)
        for at in range(0, len(todo), _DELETE_AT_ONCE):
            part = todo[at : at + _DELETE_AT_ONCE]
            buckets = {_bucket_and_key(p)[0] for p in part}
            for bucket in sorted(buckets):
                keys = [{"Key": _bucket_and_key(p)[1]} for p in part if _bucket_and_key(p)[0] == bucket]
                self._delete_keys(f"s3://{bucket}", bucket, keys)

    def delete_empty_dir(self, dir: str) -> bool:
        """Return True when no object is below; directories are names only."""
        return not self.list(dir)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        length = self.size(path) if size is None else size
        return open_ranges(lambda offset, n: self.get_range(path, offset, n), length)

    def open_output(self, path: str, *, durable: bool = True) -> S3Output:
        """Write a file in pieces; large ones as a multipart upload."""
        bucket, key = _bucket_and_key(path)

        def call(method: str, **kwargs: Any) -> Mapping[str, Any]:
            return self._call(path, lambda fs, _: fs.call_s3(method, Bucket=bucket, Key=key, **kwargs))

        return S3Output(call)

    def fresh_session(self) -> S3Store:
        """Return a store of the same place with connections of its own."""
        store = S3Store(self._uri, self._raw_options)
        store._own_clients = {}
        return store

    def _delete_keys(self, path: str, bucket: str, keys: Sequence[Mapping[str, str]]) -> None:
        delete = {"Objects": list(keys), "Quiet": True}
        answer = self._call(path, lambda fs, _: fs.call_s3("delete_objects", Bucket=bucket, Delete=delete))
        failed = [e for e in answer.get("Errors", ()) if e.get("Code") not in ("NoSuchKey", "404")]
        if failed:
            first = failed[0]
            raise UnavailableError(
                f"{len(failed)} of {len(keys)} files were not deleted: {first.get('Message') or first.get('Code')}",
                path=f"s3://{bucket}/{first.get('Key')}",
            )

    def _pages(self, path: str, **kwargs: Any) -> Iterator[Mapping[str, Any]]:
        token: dict[str, str] = {}
        while True:
            request = {**kwargs, **token}
            try:
                page = self._call(path, functools.partial(_list_page, request))
            except NotFoundError as e:
                raise NotFoundError("no such bucket", path=path) from e
            yield page
            if not page.get("IsTruncated") or not page.get("NextContinuationToken"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _filesystem(self) -> S3FileSystem:
        clients = SHARED_CLIENTS if self._own_clients is None else self._own_clients
        return client_for(self._options, repr(sorted(self._raw_options.items())), clients)

    def _once(self, path: str, request: Callable[[S3FileSystem, str], T]) -> T:
        bucket, key = _bucket_and_key(path)
        try:
            return request(self._filesystem(), f"{bucket}/{key}")
        except client_errors() as e:
            raise translate(e, path) from e

    def _call(self, path: str, request: Callable[[S3FileSystem, str], T]) -> T:
        try:
            return self._retry(path, lambda: self._once(path, request))
        except Exists as e:
            raise UnavailableError("the store refused a precondition that was not set", path=path) from e

    def _retry(self, path: str, attempt: Callable[[], T]) -> T:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((Transient, Busy)),
            stop=tenacity.stop_after_attempt(self._options.max_attempts),
            wait=RETRY_WAIT,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except (Transient, Busy) as e:
            raise UnavailableError(f"the store did not answer: {e}", path=path) from e


def _bucket_and_key(path: str) -> tuple[str, str]:
    scheme, mark, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not mark or not bucket or scheme.lower() not in ("s3", "s3a", "s3n"):
        raise InvalidInputError("expected s3://bucket/...", path=path)
    return bucket, key


def _list_page(request: Mapping[str, Any], fs: S3FileSystem, _: str) -> Mapping[str, Any]:
    page: Mapping[str, Any] = fs.call_s3("list_objects_v2", **request)
    return page


def _file_info(base: str, relative: str, entry: Mapping[str, Any]) -> FileInfo:
    modified = entry.get("LastModified")
    mtime_ms = int(modified.timestamp() * 1000) if isinstance(modified, datetime) else 0
    return FileInfo(f"{base}/{relative}", name_of(relative), int(entry["Size"]), mtime_ms, False, entry.get("ETag"))
