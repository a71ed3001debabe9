"""What tagging a batch costs, as arithmetic: files, bytes, memory and seconds for each index type.

Seconds are those of the work done, spread over the machine's cores, plus waiting for the store; constants were fitted
to bench/bench_tagging.py on one core of a 2.6 GHz server and scale with `Machine.speed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

# Seconds per piece of work on one core.
_HASH_KEY = 25e-9  # hash and look up a key in a table of the batch
_BUILD_KEY = 100e-9  # put a key of the batch into that table, and its answer back into the batch
_READ_KEY = 20e-9  # decode a key of a file, plus per byte of it:
_READ_BYTE = 1.0e-9
_HASH_FILE_VALUE = 25e-9  # read a 4-byte hash of a HASH file and look it up
_PROBE_MISS = 100e-9  # ask a filter about a key it does not have
_PROBE_ROUND = 9e-9  # one hash round of a key it has
_FILTER_BYTE = 1.0e-9  # read and decode a byte of a filter's Base64
_BUCKET_KEY = 60e-9
_STATE_KEY = 250e-9  # look a key up in the state
_STATE_BYTE = 0.6e-9  # a byte of the state's pages that are read
_STATE_WRITE = 1.2e-6  # put a new location
_TEXT_BYTE = 2e-9
_HBASE_KEY = 50e-6
_HBASE_PUT = 75e-6
# Bytes.
_BATCH_KEY_MEMORY = 60
_STATE_ENTRY = 26
_SECONDS_PER_OPEN = 1.5e-3  # footer and column chunk of a file, without waiting for the store


class Shape(Protocol):
    """What of the measures the model reads; see `lakeidx.tagging.advise.Measures`."""

    @property
    def rows(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def batch_rows(self) -> int: ...
    @property
    def key_bytes(self) -> float: ...
    @property
    def key_column_bytes(self) -> float: ...
    @property
    def spread(self) -> float: ...
    @property
    def touched_files(self) -> float: ...
    @property
    def touched_rows(self) -> float: ...
    @property
    def touched_partitions(self) -> float: ...
    @property
    def held_files(self) -> float: ...
    @property
    def update_share(self) -> float: ...
    @property
    def move_share(self) -> float: ...
    @property
    def largest_file_rows(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where tagging runs.

    cores          that check files side by side
    speed          against the machine the constants are of
    latency_ms     of one request to the store (0.1 local disk, 30 object store)
    bytes_per_s    from the store
    """

    cores: int = 2
    speed: float = 1.0
    latency_ms: float = 0.1
    bytes_per_s: float = 500e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One type's cost per batch.

    files     data files opened
    bytes     read from the store
    memory    bytes held at once, beyond the batch itself
    seconds   tagging, and what the index adds to the commit
    why_not   why it is out of the question, "" when it is not
    """

    index_type: str
    files: float
    bytes: float
    memory: float
    seconds: float
    why_not: str = ""


def predict(kind: str, m: Shape, machine: Machine, *, fpp: float, why_not: str = "") -> Prediction:
    """Predict the cost of one type.

    fpp   error rate the bloom filters are made for
    """
    work = _WORK[kind](m, fpp)
    requests = 2 * work.files + work.requests
    # Requests of several threads wait side by side.
    waiting = requests * machine.latency_ms / 1000 / max(1, machine.cores) + work.bytes / machine.bytes_per_s
    seconds = (work.serial + work.parallel / max(1, machine.cores)) / machine.speed + waiting
    return Prediction(
        index_type=kind, files=work.files, bytes=work.bytes, memory=work.memory, seconds=seconds, why_not=why_not
    )


@dataclass(slots=True)
class _Work:
    """CPU seconds on one core, what of them is done side by side, and what is read."""

    serial: float = 0.0
    parallel: float = 0.0
    files: float = 0.0
    bytes: float = 0.0
    memory: float = 0.0
    requests: float = 0.0


def _table(m: Shape) -> float:
    """Seconds to put the batch into its key table and take the answers out."""
    return m.batch_rows * (_BUILD_KEY + _TEXT_BYTE * m.key_bytes)


def _read_keys(rows: float, m: Shape) -> float:
    return rows * (_READ_KEY + _READ_BYTE * m.key_bytes + _HASH_KEY)


def _hash(m: Shape, fpp: float) -> _Work:
    buckets = max(1.0, m.touched_rows / 1_000_000)
    new_share = 1.0 - m.update_share
    # Buckets that get new keys have their index file written anew.
    rewritten = min(m.touched_rows, m.rows) if new_share > 0 else 0.0
    return _Work(
        serial=_table(m),
        parallel=m.touched_rows * _HASH_FILE_VALUE + rewritten * 4e-9,
        bytes=4 * m.touched_rows,
        memory=m.batch_rows * _BATCH_KEY_MEMORY + 4 * m.touched_rows,
        requests=buckets,
    )


def _bucket(m: Shape, fpp: float) -> _Work:
    return _Work(serial=m.batch_rows * (_BUCKET_KEY + _TEXT_BYTE * m.key_bytes))


def _simple(m: Shape, fpp: float, *, everywhere: bool = False) -> _Work:
    rows = m.rows if everywhere else m.touched_rows
    files = m.files if everywhere else m.files * m.touched_rows / max(1, m.rows)
    return _Work(
        serial=_table(m),
        parallel=_read_keys(rows, m) + files * _SECONDS_PER_OPEN,
        files=files,
        bytes=rows * m.key_column_bytes,
        memory=m.batch_rows * _BATCH_KEY_MEMORY + 2 * m.largest_file_rows * m.key_bytes,
    )


def _bloom(m: Shape, fpp: float, *, everywhere: bool = False) -> _Work:
    share = m.spread
    own_files = m.files * m.touched_rows / max(1, m.rows)
    files_per_key = share * (m.files if everywhere else m.files / max(1, m.partitions))
    pairs = m.batch_rows * max(files_per_key, m.update_share)
    hits = m.batch_rows * m.update_share
    rounds = math.log2(1 / fpp)
    probed = min(m.files, m.touched_files * (m.files / max(1.0, own_files) if everywhere else 1.0))
    false_positives = max(0.0, pairs - hits) * fpp
    # Each false positive may open a file of its own.
    opened = min(probed, m.held_files + false_positives)
    rows = opened * m.rows / max(1, m.files)
    filter_bytes = probed * m.largest_file_rows * 1.25 * rounds / math.log(2) / 8 * 4 / 3
    return _Work(
        serial=_table(m),
        parallel=(
            max(0.0, pairs - hits) * _PROBE_MISS
            + hits * rounds * _PROBE_ROUND
            + filter_bytes * _FILTER_BYTE
            + _read_keys(rows, m)
            + probed * _SECONDS_PER_OPEN
            # Writing the batch's own filters.
            + m.batch_rows * rounds * _PROBE_ROUND
        ),
        files=probed,
        bytes=filter_bytes + rows * m.key_column_bytes,
        memory=m.batch_rows * _BATCH_KEY_MEMORY
        + 2 * (filter_bytes / max(1.0, probed) + m.largest_file_rows * m.key_bytes),
    )


def _state(m: Shape, fpp: float) -> _Work:
    entry = _STATE_ENTRY + m.key_bytes
    # A page has about 2,000 keys; a batch reads the pages its keys are on.
    pages = max(1.0, m.rows / 2048)
    read = pages * (1 - (1 - 1 / pages) ** m.batch_rows) if pages > 1 else 1.0
    size = read / pages * m.rows * entry
    changed = m.batch_rows * (1 - m.update_share + m.update_share * m.move_share)
    return _Work(
        serial=m.batch_rows * _STATE_KEY + size * _STATE_BYTE + changed * _STATE_WRITE,
        memory=m.batch_rows * (_BATCH_KEY_MEMORY + m.key_bytes) + (256 << 20),
    )


def _in_memory(m: Shape, fpp: float) -> _Work:
    work = _state(m, fpp)
    work.memory += m.rows * (_STATE_ENTRY + m.key_bytes)
    return work


def _hbase(m: Shape, fpp: float) -> _Work:
    new = m.batch_rows * (1 - m.update_share + m.update_share * m.move_share)
    return _Work(
        serial=m.batch_rows * _HBASE_KEY + new * (_HBASE_PUT + _HBASE_KEY),
        bytes=m.batch_rows * (m.key_bytes + 150),
        memory=m.batch_rows * 400,
    )


_WORK = {
    "hash": _hash,
    "bucket": _bucket,
    "simple": _simple,
    "bloom": _bloom,
    "global-simple": lambda m, fpp: _simple(m, fpp, everywhere=True),
    "global-bloom": lambda m, fpp: _bloom(m, fpp, everywhere=True),
    "state": _state,
    "inmemory": _in_memory,
    "hbase": _hbase,
}
