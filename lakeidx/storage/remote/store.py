"""Tables in an object store: S3 and what speaks like it, Google's, Azure's, through obstore.

put_if_absent is a PUT that must find nothing (``If-None-Match: *``, on Google ``x-goog-if-generation-match: 0``): 412 means the
object is there; 409 (another conditional put is under way) is tried again; after a timeout, a lost connection or a 5xx it is
unknown: CommitUnknownError. Every other request is repeated a few times with growing, random waits before it is an
UnavailableError. Calls of several requests (listings, uploads in parts, deletes in bulk) have a client that repeats each of them.
Clients are made on first use in each process, so that a store may be pickled.

Errors of object stores: a failed request becomes one of lakeidx's errors, or a reason to try again.

obstore has an exception for what most callers ask for; the HTTP status and the store's own code stand in its text only.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa
import tenacity

from lakeidx.errors import CommitUnknownError, InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.storage.base import CLOUD_OF, FileInfo, ObjectStore, kind_of_store
from lakeidx.storage.files import name_of
from lakeidx.storage.range_file import open_ranges
from lakeidx.storage.remote.clients import SHARED_CLIENTS, client_for, open_file_system
from lakeidx.storage.remote.options import RemoteOptions
from lakeidx.storage.remote.output import PART_BYTES, RemoteOutput

S = TypeVar("S")
T = TypeVar("T")

_DELETE_AT_ONCE = 1000
_LIST_AT_ONCE = 1000
#: Ranges with at most that many bytes between them are one request: a request costs about as much as half a megabyte more.
_NEAR_BYTES = 512 << 10
#: Objects and ranges above are read by several requests side by side.
_LARGE_BYTES = 16 << 20
RETRY_WAIT: tenacity.wait.wait_base = tenacity.wait_random_exponential(multiplier=0.1, max=8)
"""Seconds between tries: random, below 0.1, 0.2, 0.4 ... 8."""


class RemoteStore(ObjectStore):
    """A store of a cloud.

    uri       ``s3://bucket/...`` (also s3a, s3n), ``gs://bucket/...``, ``az://container/...``,
              ``abfss://container@account.dfs.core.windows.net/...``
    options   see `lakeidx.storage.remote.options`
    errors    InvalidInputError for unknown options or a URI without bucket

    requests  that this object has made, repeated ones too; a listing, a bulk delete and an upload in parts count as one
    """

    def __init__(self, uri: str, options: Mapping[str, Any] | None = None) -> None:
        self._uri = uri
        self._cloud = kind_of_store(uri)
        self._split(uri)
        self._raw_options = dict(options or {})
        self._options = RemoteOptions.parse(self._cloud, options)
        self._shown_options = repr(sorted(self._raw_options.items()))
        self._clients = SHARED_CLIENTS
        self._lock = threading.Lock()
        self.requests = 0

    @property
    def uri(self) -> str:
        """The URI given to `open_store`."""
        return self._uri

    @property
    def place(self) -> str:
        """Cloud, endpoint and bucket."""
        return f"{self._cloud}:{self._options.endpoint() or 'cloud'}/{self._split(self._uri)[0]}"

    @property
    def waits(self) -> bool:
        """True: every request goes over a network."""
        return True

    def __repr__(self) -> str:
        return f"RemoteStore({self._uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self._uri, self._raw_options)

    def fresh_session(self) -> RemoteStore:
        """Return a store of the same place with connections of its own."""
        store = RemoteStore(self._uri, self._raw_options)
        store._clients = {}
        return store

    def file_system(self) -> Any:
        """Return an fsspec file system of the store's bucket."""
        return open_file_system(self._uri.partition("://")[0], self._split(self._uri)[0], self._options)

    def get(self, path: str) -> bytes:
        """Read the whole file: a large one by several requests side by side."""
        import obstore

        def read(client: Any, key: str) -> bytes | int:
            found = obstore.get(client, key)
            size: int = found.meta["size"]
            return size if size > _LARGE_BYTES else _whole(found.bytes(), size)

        data = self._call(path, read)
        return data if isinstance(data, bytes) else self.get_range(path, 0, data)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (offset, length) of one file: near ones by one request, far ones and parts of large ones side by side."""
        pieces = _requests(ranges)
        read = self._side_by_side(lambda piece: self._get_piece(path, *piece), pieces)
        starts = [start for start, _ in pieces]
        return [_cut(starts, read, offset, length) for offset, length in ranges]

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return self._head(path).size

    def info(self, path: str) -> FileInfo | None:
        """Return what is known of one file, None when there is no file of that name."""
        if not self._split(path)[1]:
            return None
        try:
            return self._head(path)
        except NotFoundError:
            return None

    def list(self, dir: str) -> list[FileInfo]:
        """List the files and directories directly below, sorted by name; empty when there are none."""
        import obstore

        key = self._split(dir)[1]
        found = self._call(dir, lambda client, key: obstore.list_with_delimiter(client, key or None), patient=True)
        base = dir.rstrip("/")
        directories = [name_of(prefix) for prefix in found["common_prefixes"]]
        files = [_file_info(base, key, entry) for entry in found["objects"] if entry["path"] != key]
        out = [FileInfo(f"{base}/{name}", name, 0, 0, True) for name in directories] + files
        return sorted(out, key=lambda info: info.name)

    def walk(self, dir: str) -> Iterator[FileInfo]:
        """List all files below, at any depth, in one listing."""
        import obstore

        key, base = self._split(dir)[1], dir.rstrip("/")

        def begin(client: Any, key: str) -> tuple[Any, Any]:
            pages = iter(obstore.list(client, key or None, chunk_size=_LIST_AT_ONCE))
            return next(pages, ()), pages

        page, pages = self._call(dir, begin, patient=True)
        while page:
            yield from (_file_info(base, key, entry) for entry in page if entry["path"] != key)
            # What was listed is with the caller: from here on only the client repeats requests.
            page = self._once(dir, lambda *_: next(pages, ()), patient=True, final=True, counts=False)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write or replace a file; a large one in parts."""
        import obstore

        content = bytes(data)
        if len(content) > _LARGE_BYTES:
            self._upload(path, content, lambda: len(content))
        else:
            self._call(path, lambda client, key: obstore.put(client, key, content, use_multipart=False))

    def put_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write files, several requests at a time; a put that has returned is there to stay."""
        self._side_by_side(lambda file: self.put(*file), files)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file that must not exist; True when this call made it."""
        import obstore

        content = bytes(data)

        def attempt() -> bool:
            try:
                self._once(path, lambda client, key: obstore.put(client, key, content, mode="create"))
            except Exists:
                return False
            except Transient as e:
                if e.sent:
                    raise CommitUnknownError(f"the store did not confirm the write of the file: {e}", path=path) from e
                raise
            return True

        return self._retry(path, attempt)

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        import obstore

        try:
            self._call(path, obstore.delete)
        except NotFoundError as e:
            if "bucket" in e.message:
                raise

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files, many per request where the store can; missing ones are fine."""
        import obstore

        by_bucket: dict[str, list[str]] = {}
        for path in paths:
            by_bucket.setdefault(self._split(path)[0], []).append(path)
        requests = [
            part[at : at + _DELETE_AT_ONCE]
            for part in by_bucket.values()
            for at in range(0, len(part), _DELETE_AT_ONCE)
        ]

        def delete(part: Sequence[str]) -> None:
            keys = [self._split(path)[1] for path in part]
            try:
                self._call(part[0], lambda client, _: obstore.delete(client, keys), patient=True)
            except NotFoundError:
                # Not S3: the first one that was missing has ended it.
                self._side_by_side(self.delete, part)

        self._side_by_side(delete, requests)

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file for random access by Arrow's readers."""
        length = self.size(path) if size is None else size
        return open_ranges(lambda ranges: self.get_ranges(path, ranges), length, self._options.read_ahead_mb << 20)

    def open_output(self, path: str) -> RemoteOutput:
        """Write a file in pieces; a large one as an upload of several parts at once."""
        return RemoteOutput(
            lambda data: self.put(path, data), lambda parts, written: self._upload(path, parts, written)
        )

    def _upload(self, path: str, data: bytes | Iterator[bytes], size: Callable[[], int]) -> None:
        """Put a large object as an upload of parts."""
        import obstore

        parallel = self._options.max_concurrency

        def request(client: Any, key: str) -> None:
            obstore.put(client, key, data, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=parallel)

        try:
            self._once(path, request, patient=True, final=True)
        except NotFoundError:
            # A repeated request to complete it finds no upload any more where the first one's answer was lost.
            found = self.info(path)
            if found is None or found.size != size():
                raise

    def _get_piece(self, path: str, offset: int, length: int) -> bytes:
        import obstore

        def read(client: Any, key: str) -> bytes:
            found = obstore.get(client, key, options={"range": (offset, offset + length)})
            return _whole(found.bytes(), min(length, found.meta["size"] - offset))

        try:
            return self._retry(path, lambda: self._once(path, read))
        except OutOfRange:
            return b""

    def _head(self, path: str) -> FileInfo:
        import obstore

        base, key = path.rpartition("/")[0], self._split(path)[1]
        return _file_info(base, key.rpartition("/")[0], self._call(path, obstore.head))

    def _side_by_side(self, work: Callable[[S], T], items: Sequence[S]) -> Sequence[T]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(len(items), self._options.max_concurrency), "requests") as threads:
            return [*threads.map(work, items)]

    def _split(self, path: str) -> tuple[str, str]:
        """Return bucket and key."""
        bucket, _, key = path.partition("://")[2].partition("/")
        if not bucket or self._cloud not in CLOUD_OF or kind_of_store(path) != self._cloud:
            raise InvalidInputError(f"expected {self._cloud or 's3'}://bucket/...", path=path)
        return bucket, key.rstrip("/")

    def _once(
        self,
        path: str,
        request: Callable[[Any, str], T],
        *,
        patient: bool = False,
        final: bool = False,
        counts: bool = True,
    ) -> T:
        """Make a request once.

        request  called with client and key
        final    nothing repeats it: what may pass is UnavailableError
        counts   as a request of its own; the further pages of a listing do not
        errors   LakeIdxError, or one of those of `lakeidx.storage.remote.store`
        """
        bucket, key = self._split(path)
        client = client_for(bucket, self._options, self._shown_options, self._clients, patient=patient)
        with self._lock:
            self.requests += counts
        try:
            return request(client, key)
        except (LakeIdxError, Transient):
            raise
        except Exception as e:
            # Not shown as its cause: a signed address in it would be a secret.
            error = as_storage_error(e, path)
            if final and not isinstance(error, LakeIdxError):
                error = UnavailableError(f"the store did not answer: {error}", path=path)
            raise error from None

    def _call(self, path: str, request: Callable[[Any, str], T], *, patient: bool = False) -> T:
        try:
            return self._retry(path, lambda: self._once(path, request, patient=patient))
        except (Exists, OutOfRange) as e:
            raise UnavailableError(f"the store refused a condition that was not set: {e}", path=path) from e

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


def _whole(data: Any, size: int) -> bytes:
    """Return the bytes of an answer that must have that many."""
    if len(data) != size:
        raise Transient(f"the answer has {len(data)} bytes where {size} were announced")
    return bytes(data)


def _requests(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Plan what is requested for some ranges (offset, length): near ones together, and none longer than `_LARGE_BYTES` alone."""
    spans: list[list[int]] = []
    for offset, length in sorted(r for r in ranges if r[1] > 0):
        if spans and offset - spans[-1][1] <= _NEAR_BYTES:
            spans[-1][1] = max(spans[-1][1], offset + length)
        else:
            spans.append([offset, offset + length])
    return [
        (at, min(PART_BYTES, end - at) if end - start > _LARGE_BYTES else end - start)
        for start, end in spans
        for at in (range(start, end, PART_BYTES) if end - start > _LARGE_BYTES else (start,))
    ]


def _cut(starts: Sequence[int], read: Sequence[bytes], offset: int, length: int) -> bytes:
    """Return one range of what was read for all: pieces by where they start."""
    parts, end = [], offset + length
    for n in range(max(0, bisect_right(starts, offset) - 1), bisect_left(starts, end)):
        at, data = starts[n], read[n]
        parts.append(data[max(0, offset - at) : max(0, end - at)])
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _file_info(base: str, prefix: str, entry: Mapping[str, Any]) -> FileInfo:
    """Describe an object below a directory; `prefix`: the directory's key."""
    relative = entry["path"][len(prefix) + 1 :] if prefix else entry["path"]
    mtime_ms = round(entry["last_modified"].timestamp() * 1000)
    # Azure quotes the mark in an answer's headers, not in a listing.
    etag = entry.get("e_tag")
    return FileInfo(f"{base}/{relative}", name_of(relative), entry["size"], mtime_ms, False, etag and etag.strip('"'))


_STATUS = re.compile(r"status code: (\d{3})")
#: As S3, Google and Azure write it in the body of an answer.
_CODE = re.compile(r"<Code>([^<]+)</Code>|<Message>([^<]+)</Message>")
#: Signed queries (SAS tokens) are secrets.
_QUERY = re.compile(r"(\w+://[^\s?]+)\?[^\s)]*")
#: Nothing was sent: there was no connection.
_UNSENT = re.compile(r"kind: Connect\b")
#: Where programs in a cloud ask for credentials when nothing else gives them any.
_METADATA = re.compile(
    r"169\.254\.169\.254|/latest/api/token|metadata(?:\.google\.internal)?/computeMetadata|metadata/identity"
)
_TRY_AGAIN = (408, 429)
_TIMES = ("RequestTimeTooSkewed", "RequestExpired")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist.")


class Transient(Exception):
    """A failure that may pass; `sent` is False when the request surely never reached the store."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class Exists(Exception):
    """The object of a conditional put was there already."""


class Busy(Exception):
    """Another request for the same object is under way (409); this one surely did nothing."""


class OutOfRange(Exception):
    """A range begins behind the end of the object."""


def as_storage_error(e: Exception, path: str) -> LakeIdxError | Transient | Exists | Busy | OutOfRange:
    """Convert the failure to one of lakeidx's errors, or to a reason to try again or to answer otherwise."""
    whole = str(e)
    text = _QUERY.sub(r"\1", whole.partition("\n\nDebug source")[0])
    found = _STATUS.search(whole)
    status = int(found[1]) if found else 0
    codes = [code or message for code, message in _CODE.findall(whole)]
    if isinstance(e, FileNotFoundError) or status == 404 or "(code: NoSuchKey)" in text:
        missing = any(code in _NO_BUCKET for code in codes)
        return NotFoundError(
            "there is no such bucket: make it, or mend the URI" if missing else "no such file", path=path
        )
    if status == 412 or "BlobAlreadyExists" in codes:
        return Exists(text)
    if status == 409:
        return Busy(text)
    if status == 416 or "Wanted range starting at" in text:
        return OutOfRange(text)
    refusal = _refusal(e, text, status, codes)
    if refusal is not None:
        return InvalidInputError(refusal, path=path)
    return Transient(text, sent=_UNSENT.search(whole) is None)


def _refusal(e: Exception, text: str, status: int, codes: list[str]) -> str | None:
    """Say why the request can never work, and what to set; None when it may."""
    if _METADATA.search(text):
        return (
            "no credentials: set those of the storage options or of the environment, or run where a role gives some; "
            f"asked last was {text}"
        )
    if any(code in _TIMES for code in codes):
        return f"the clock of this machine is wrong, and the store refuses what it signs: set the clock ({text})"
    if any(code in _EXPIRED for code in codes):
        return f"the credentials have expired: give new ones, or a role or profile that renews them ({text})"
    if "incorrectly configured region" in text or "AuthorizationHeaderMalformed" in codes or status in (301, 307):
        return f"the bucket is in another region: set storage option region or AWS_REGION to it ({text})"
    if (
        status in (401, 403)
        or "(code: AccessDenied)" in text
        or type(e).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    ):
        return f"access denied: {text}"
    if isinstance(e, ValueError) and not status:
        return f"not a usable path or option: {text}"
    if 300 <= status < 500 and status not in _TRY_AGAIN and not {"SlowDown", "RequestTimeout"} & {*codes}:
        return f"the store refused the request: {text}"
    return None
