"""HBase through its Thrift server: batched gets and puts, a rate limit, tries with growing pauses.

Every call either does all of its work or raises UnavailableError. Puts may be done twice when a connection breaks
after the server took them; what is put is the same then.

source   org.apache.hudi.index.hbase.{SparkHoodieHBaseIndex,HBaseIndexQPSResourceAllocator}, release 1.0.2 (batches,
         limits)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.key_index.hbase.options import HBaseOptions
from lakeidx.key_index.hbase.rows import COLUMNS, COMMIT_TS, FAMILY

try:
    import happybase
    from thriftpy2.thrift import TException

    _AWAY: tuple[type[Exception], ...] = (TException, OSError)
except ImportError:  # the extra `hbase` is not installed
    happybase = None
    _AWAY = (OSError,)

T = TypeVar("T")
#: A location must outlive one put of a commit that came to nothing, and the put that mends it.
LEAST_VERSIONS = 3
#: Thrift's defaults differ from HBase's: without a filter and a cache every get reads blocks of every file from the disk.
_NEW_FAMILY = {"max_versions": 10, "bloom_filter_type": "ROW", "block_cache_enabled": True}
_POLL_SECONDS = 0.005
_GET_LIMIT_FACTOR = 10
#: Bytes of keys and values that one put sends, about: the Thrift server and the region server hold it several times.
_PUT_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class StoredLocation:
    """One version of a row.

    timestamp   HBase's, ms
    """

    commit_ts: str
    file_id: str
    partition: str
    timestamp: int


class RateLimiter:
    """At most this many permits in each second, counted from the first one used; a caller without a permit waits."""

    def __init__(
        self,
        per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit, self._clock, self._sleep = max(1, per_second), clock, sleep
        self._lock = threading.Lock()
        self._window, self._left = clock(), self._limit

    def acquire(self, permits: int) -> None:
        """Acquire permits; more than a second's worth are acquired over several seconds."""
        wanted = permits
        while wanted:
            with self._lock:
                now = self._clock()
                if now - self._window >= 1.0:
                    self._window, self._left = now, self._limit
                taken = min(wanted, self._left)
                self._left -= taken
                wanted -= taken
            if wanted:
                self._sleep(_POLL_SECONDS)


def put_batch_size(options: HBaseOptions, *, tasks: int, region_servers: int = 1) -> int:
    """Return the rows per put: as configured, or from the share of the servers' limit that each task gets."""
    if not options.hoodie_index_hbase_put_batch_size_autocompute:
        return options.hoodie_index_hbase_put_batch_size
    most = int(
        options.hoodie_index_hbase_qps_fraction * region_servers * options.hoodie_index_hbase_max_qps_per_region_server
    )
    return max(1, -(-most // max(1, tasks)))


def put_batches(
    rows: Sequence[tuple[bytes, StoredLocation]], most: int, *, most_bytes: int = _PUT_BYTES
) -> Iterator[Sequence[tuple[bytes, StoredLocation]]]:
    """Cut rows into what is put at once: at most so many, and so many bytes unless one row has more."""
    start = size = 0
    for at, (key, location) in enumerate(rows):
        # Each of the three cells has the row's key.
        own = len(COLUMNS) * len(key) + len(location.commit_ts) + len(location.file_id) + len(location.partition)
        if at > start and (at - start >= most or size + own > most_bytes):
            yield rows[start:at]
            start, size = at, 0
        size += own
    if start < len(rows):
        yield rows[start:]


class HBaseLocations:
    """An HBase table of locations, over happybase; threads share it.

    connections   how many may be used at once
    errors        from the constructor: UnsupportedError without the library, InvalidInputError without a table name,
                  NotFoundError when the table or its column family is missing, InvalidInputError when it keeps too
                  few versions, UnavailableError
    """

    def __init__(self, options: HBaseOptions, *, connections: int) -> None:
        if happybase is None:
            raise UnsupportedError("index type hbase needs the package happybase: pip install 'lakeidx[hbase]'")
        name = options.hoodie_index_hbase_table
        if not name:
            raise InvalidInputError("index type hbase needs option hoodie.index.hbase.table")
        self._name = name
        self._options = options
        self._where = f"{options.index_hbase_thrift_host}:{options.index_hbase_thrift_port}"
        self._connections = connections
        self._pool: Any = None
        self._get_batch = options.hoodie_index_hbase_get_batch_size
        self._put_batch = put_batch_size(options, tasks=connections)
        limit = options.index_hbase_max_requests_per_second
        self._get_limit = RateLimiter(limit or self._get_batch * _GET_LIMIT_FACTOR)
        self._put_limit = RateLimiter(limit or self._put_batch)
        self._check()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, StoredLocation]:
        """Read the newest version of the rows that exist; keys in batches."""
        out: dict[bytes, StoredLocation] = {}
        for start in range(0, len(keys), self._get_batch):
            batch = list(keys[start : start + self._get_batch])
            self._get_limit.acquire(len(batch))
            found = self._call(partial(_get_rows, batch))
            for key, cells in found:
                location = location_of(cells, self._where)
                if location is not None:
                    out[key] = location
            _pause(self._options.hoodie_index_hbase_sleep_ms_for_get_batch)
        return out

    def get_older(self, key: bytes, timestamp: int) -> StoredLocation | None:
        """Read the newest version of a row that is older than a timestamp."""
        self._get_limit.acquire(1)
        cells = self._call(lambda t: t.row(key, columns=[FAMILY], timestamp=timestamp, include_timestamp=True))
        return location_of(cells, self._where) if cells else None

    def put(self, rows: Sequence[tuple[bytes, StoredLocation]]) -> None:
        """Write new versions, in batches; the server sets their timestamps."""
        for batch in put_batches(rows, self._put_batch):
            self._put_limit.acquire(len(batch))
            self._call(partial(_send, batch))
            _pause(self._options.hoodie_index_hbase_sleep_ms_for_put_batch)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete rows with all versions, in batches."""
        for start in range(0, len(keys), self._put_batch):
            batch = keys[start : start + self._put_batch]
            self._put_limit.acquire(len(batch))
            self._call(partial(_send_deletes, batch))
            _pause(self._options.hoodie_index_hbase_sleep_ms_for_put_batch)

    def _check(self) -> None:
        family = self._call(lambda t: t.families()).get(FAMILY)
        if family is None:
            raise NotFoundError(
                f"HBase table {self._name!r} is missing or has no column family {FAMILY.decode()}", path=self._where
            )
        if family["max_versions"] < LEAST_VERSIONS:
            raise InvalidInputError(
                f"column family {FAMILY.decode()} of HBase table {self._name!r} keeps {family['max_versions']} versions; "
                f"a failed commit could overwrite a location: set VERSIONS to {LEAST_VERSIONS} or more",
                path=self._where,
            )

    def _call(self, action: Callable[[Any], T]) -> T:
        """Call HBase, and retry with growing pauses while it does not answer."""
        retrying = Retrying(
            stop=stop_after_attempt(self._options.index_hbase_attempts),
            wait=wait_exponential_jitter(multiplier=0.1, max=5.0),
            retry=retry_if_exception_type(_AWAY),
        )
        try:
            found: T = retrying(self._once, action)
            return found
        except RetryError as error:
            cause = error.last_attempt.exception()
            message = str(getattr(cause, "message", b"") or cause)
            if "TableNotFoundException" in message:
                raise NotFoundError(f"HBase table {self._name!r} does not exist", path=self._where) from cause
            raise UnavailableError(f"HBase's Thrift server does not answer: {cause!r}", path=self._where) from cause

    def _once(self, action: Callable[[Any], T]) -> T:
        if self._pool is None:
            # Connects at once, so that an absent server is an error of this call.
            self._pool = happybase.ConnectionPool(
                self._connections,
                host=self._options.index_hbase_thrift_host,
                port=self._options.index_hbase_thrift_port,
                timeout=self._options.index_hbase_timeout_ms,
            )
        with self._pool.connection() as connection:
            return action(connection.table(self._name))


def create_location_table(options: HBaseOptions) -> None:
    """Make the HBase table of the options, with versions enough, a filter of row keys and the block cache.

    errors   UnavailableError; InvalidInputError when it exists or no name is given
    """
    name = options.hoodie_index_hbase_table
    if happybase is None or not name:
        raise InvalidInputError("needs option hoodie.index.hbase.table and the package happybase")
    where = f"{options.index_hbase_thrift_host}:{options.index_hbase_thrift_port}"
    try:
        connection = happybase.Connection(
            options.index_hbase_thrift_host, options.index_hbase_thrift_port, timeout=options.index_hbase_timeout_ms
        )
        try:
            if name.encode() in connection.tables():
                raise InvalidInputError(f"HBase table {name!r} exists", path=where)
            connection.create_table(name, {FAMILY.decode(): _NEW_FAMILY})
        finally:
            connection.close()
    except _AWAY as error:
        raise UnavailableError(f"HBase's Thrift server does not answer: {error!r}", path=where) from error


def location_of(cells: Mapping[bytes, tuple[bytes, int]], where: str) -> StoredLocation | None:
    """Decode a row's three columns; None for a row that lacks one, as no writer of the index leaves it.

    where    names the place in errors
    errors   CorruptFileError for bytes that are no text
    """
    if any(c not in cells for c in COLUMNS):
        return None
    try:
        commit_ts, file_id, partition = (cells[c][0].decode("utf-8") for c in COLUMNS)
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"a location that is not UTF-8: {bytes(error.object)!r}", path=where) from error
    return StoredLocation(commit_ts, file_id, partition, cells[COMMIT_TS][1])


def _get_rows(keys: list[bytes], table: Any) -> Any:
    return table.rows(keys, columns=[FAMILY], include_timestamp=True)


def _send(rows: Sequence[tuple[bytes, StoredLocation]], table: Any) -> None:
    with table.batch() as batch:
        for key, location in rows:
            values = (location.commit_ts, location.file_id, location.partition)
            batch.put(key, {c: v.encode("utf-8") for c, v in zip(COLUMNS, values, strict=True)})


def _send_deletes(keys: Sequence[bytes], table: Any) -> None:
    with table.batch() as batch:
        for key in keys:
            batch.delete(key)


def _pause(ms: int) -> None:
    if ms:
        time.sleep(ms / 1000)
