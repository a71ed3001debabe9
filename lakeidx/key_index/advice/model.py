"""Cost of tagging a batch, as arithmetic: files, bytes, memory and seconds for each index type.

Seconds are those of the work done, spread over the machine's cores, plus waiting for the store. `Costs` were fitted by
``python -m bench.bench_advice --calibrate`` to workloads that the advice is not judged by (those of the state by itself, with
``--types state``); they are those of one core of a 2.6 GHz server and scale with `Machine.speed`. What every type of a
dynamic-bucket table pays alike, the HASH index files that are rewritten, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lakeidx.key_index.advice.measures import Measures

# Bytes.
_BATCH_KEY_MEMORY = 60
# Of the state: what a row takes besides its key, and what of the key, compressed; rows of a row group, of a bucket.
_STATE_ROW, _STATE_KEY_SHARE, _STATE_GROUP, _STATE_BUCKET = 1.5, 0.4, 10_000, 1 << 21
# Keys of a batch whose table stays in the cache.
_CACHED_KEYS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds per piece of work on one core; every prediction is linear in them, so that they can be fitted.

    call          one batch, whatever its size
    build_key     put a key of the batch into a table, and its answer back into the batch; build_byte: per byte of its text
    read_key      decode a key of a file and look it up; read_byte: per compressed byte of it; read_text: more for keys that
                  are no numbers
    far           more for each look into the batch's table, per doubling of the batch beyond what a processor's cache holds
    hash_key      put a hash of the batch into the filter of its hashes, and place it
    hash_value    read a hash of a HASH file and ask that filter
    pair          find out that a file may have a key by its range, and ask its filter
    probe_round   one hash round of a filter, for a key it has or takes
    filter_byte   read and decode a byte of a filter's text
    open_file     footer and column chunks of a file, without waiting for the store
    bucket_key    compute a bucket
    state_call    more for one batch with the state, which is committed to as well
    state_key     look a key up in the state; state_row: a row of it that is read; state_write: write a location, or again
                  when it is compacted
    hbase_key, hbase_put   one key of a batched get, one row of a batched put
    """

    call: float = 0.30e-3
    build_key: float = 41e-9
    build_byte: float = 6e-9
    read_key: float = 21e-9
    read_byte: float = 0.8e-9
    read_text: float = 25e-9
    far: float = 1.2e-9
    hash_key: float = 60e-9
    hash_value: float = 2e-9
    pair: float = 71e-9
    probe_round: float = 12e-9
    filter_byte: float = 1.7e-9
    open_file: float = 1.2e-3
    bucket_key: float = 44e-9
    state_call: float = 20e-3
    state_key: float = 60e-9
    state_row: float = 60e-9
    state_write: float = 250e-9
    hbase_key: float = 50e-6
    hbase_put: float = 75e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine on which tagging runs.

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


@dataclass(slots=True)
class Work:
    """CPU seconds on one core, what of them is done side by side, and what is read."""

    serial: float = 0.0
    parallel: float = 0.0
    files: float = 0.0
    bytes: float = 0.0
    memory: float = 0.0
    requests: float = 0.0


#: Work of a batch by its measures, the error rate of bloom filters, and the costs.
WorkModel = Callable[[Measures, float, Costs], Work]


def predict(
    name: str,
    work_of: WorkModel,
    m: Measures,
    machine: Machine,
    *,
    fpp: float,
    why_not: str = "",
    costs: Costs | None = None,
) -> Prediction:
    """Predict the cost of one type.

    work_of  its model
    fpp     error rate the bloom filters are made for
    costs   default: the fitted ones
    """
    work = work_of(m, fpp, costs or Costs())
    requests = 2 * work.files + work.requests
    # Requests of several threads wait side by side.
    waiting = requests * machine.latency_ms / 1000 / max(1, machine.cores) + work.bytes / machine.bytes_per_s
    seconds = (work.serial + work.parallel / max(1, machine.cores)) / machine.speed + waiting
    return Prediction(
        index_type=name, files=work.files, bytes=work.bytes, memory=work.memory, seconds=seconds, why_not=why_not
    )


def _table(m: Measures, c: Costs) -> float:
    """Return the seconds to put the batch into its key table and read the answers."""
    text = c.build_byte * m.key_bytes if m.text_keys else 0.0
    return c.call + m.batch_rows * (c.build_key + c.far * _depth(m) + text)


def _depth(m: Measures) -> float:
    """Return the doublings of the batch beyond the cache."""
    return max(0.0, math.log2(max(1, m.batch_rows) / _CACHED_KEYS))


def _read_keys(rows: float, m: Measures, c: Costs) -> float:
    text = c.read_text if m.text_keys else 0.0
    return rows * (c.read_key + c.read_byte * m.key_column_bytes + text + c.far * _depth(m))


def hash_work(m: Measures, fpp: float, c: Costs) -> Work:
    """Stream the HASH files of the touched partitions past a filter of the batch's hashes."""
    return Work(
        # Hashes are numbers: the length of keys does not matter. The filter is smaller than the cache: no look into it is far.
        serial=c.call + m.batch_rows * c.hash_key,
        parallel=m.touched_rows * c.hash_value,
        bytes=4 * m.touched_rows,
        memory=m.batch_rows * _BATCH_KEY_MEMORY + 4 * m.touched_rows,
        requests=max(1.0, m.files * m.touched_rows / max(1, m.rows)),
    )


def bucket_work(m: Measures, fpp: float, c: Costs) -> Work:
    """Compute a bucket per key."""
    return Work(serial=c.call + m.batch_rows * c.bucket_key)


def simple_work(m: Measures, fpp: float, c: Costs, *, everywhere: bool = False) -> Work:
    """Read the keys of the touched partitions, or of all."""
    rows = m.rows if everywhere else m.touched_rows
    files = m.files if everywhere else m.files * m.touched_rows / max(1, m.rows)
    return Work(
        serial=_table(m, c),
        parallel=_read_keys(rows, m, c) + files * c.open_file,
        files=files,
        bytes=rows * m.key_column_bytes,
        memory=m.batch_rows * _BATCH_KEY_MEMORY + 2 * m.largest_file_rows * m.key_bytes,
    )


def bloom_work(m: Measures, fpp: float, c: Costs, *, everywhere: bool = False) -> Work:
    """Test the filters of files whose key range fits, and read the keys of those that pass."""
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
    return Work(
        serial=_table(m, c),
        parallel=(
            pairs * c.pair
            # Includes the filters written for this batch.
            + (hits + m.batch_rows) * rounds * c.probe_round
            + filter_bytes * c.filter_byte
            + _read_keys(rows, m, c)
            + (probed + opened) * c.open_file
        ),
        files=probed,
        bytes=filter_bytes + rows * m.key_column_bytes,
        memory=m.batch_rows * _BATCH_KEY_MEMORY
        + 2 * (filter_bytes / max(1.0, probed) + m.largest_file_rows * m.key_bytes),
    )


def state_work(m: Measures, fpp: float, c: Costs) -> Work:
    """Read the row groups of the state that may have keys; write the locations that are new or change, and compact them."""
    groups = max(1.0, m.rows / _STATE_GROUP)
    read = _share_hit(groups, m.batch_rows) * m.rows
    row_bytes = _STATE_ROW + _STATE_KEY_SHARE * m.key_bytes
    changed = m.batch_rows * (1 - m.update_share + m.update_share * m.move_share)
    written = times_written(m.rows, max(1.0, changed))
    buckets = max(1.0, m.rows / _STATE_BUCKET)
    return Work(
        serial=c.call
        + c.state_call
        + m.batch_rows * c.state_key
        + read * c.state_row
        + changed * written * c.state_write,
        bytes=read * row_bytes + changed * row_bytes * (written - 1),
        memory=m.batch_rows * (_BATCH_KEY_MEMORY + m.key_bytes) + (256 << 20),
        requests=12 + 2 * buckets + min(groups, m.batch_rows),
    )


def times_written(rows: float, batch_rows: float) -> float:
    """How often the state writes a location in the long run: once, and again as often as runs double up to all rows."""
    return 1 + max(0.0, math.log2(max(1.0, rows / max(1.0, batch_rows))))


def _share_hit(blocks: float, keys: float) -> float:
    """Share of blocks that some of the keys are in, when they fall on them at random."""
    return 1.0 if blocks <= 1 else 1 - (1 - 1 / blocks) ** keys


def in_memory_work(m: Measures, fpp: float, c: Costs) -> Work:
    """Do the work of the state, all in memory."""
    work = state_work(m, fpp, c)
    work.memory += m.rows * (_STATE_ROW + _STATE_KEY_SHARE * m.key_bytes)
    return work


def hbase_work(m: Measures, fpp: float, c: Costs) -> Work:
    """Get every key and put those that are new, over Thrift."""
    new = m.batch_rows * (1 - m.update_share + m.update_share * m.move_share)
    return Work(
        serial=m.batch_rows * c.hbase_key + new * (c.hbase_put + c.hbase_key),
        bytes=m.batch_rows * (m.key_bytes + 150),
        memory=m.batch_rows * 400,
    )
