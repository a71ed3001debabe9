"""Option values that follow from the measures of a workload."""

from __future__ import annotations

import math

from lakeidx.key_index.advice.measures import Measures

TARGET_ROWS = "dynamic-bucket.target-row-num"
NUM_BUCKETS = "hoodie.bucket.index.num.buckets"
NUM_ENTRIES = "hoodie.index.bloom.num_entries"
MAX_ENTRIES = "hoodie.bloom.index.filter.dynamic.max.entries"
FPP = "hoodie.index.bloom.fpp"

_BUCKET_BYTES = 1 << 30
_DEFAULT_TARGET_ROWS = 2_000_000


def sizing(measures: Measures) -> dict[str, str]:
    """Return the option values that follow from the measures, for every type.

    Buckets of about 1 GiB, and no more rows than Paimon's default; filters for the largest file and a quarter more,
    with an error rate that leaves less than half a false positive per batch.
    """
    row_bytes = measures.bytes / measures.rows if measures.rows else 100.0
    target = min(_DEFAULT_TARGET_ROWS, max(100_000, int(_BUCKET_BYTES / max(1.0, row_bytes))))
    largest = max(1, measures.partitions)
    buckets = max(1, math.ceil(2 * measures.bytes / largest / _BUCKET_BYTES))
    entries = max(1000, math.ceil(measures.largest_file_rows * 1.25))
    pairs = max(1.0, measures.batch_rows * max(1.0, measures.spread * measures.files / largest))
    fpp = min(0.01, max(1e-9, 0.5 / pairs))
    return {
        TARGET_ROWS: str(_round(target)),
        NUM_BUCKETS: str(buckets),
        NUM_ENTRIES: str(_round(entries)),
        MAX_ENTRIES: str(_round(entries)),
        FPP: f"{10.0 ** math.floor(math.log10(fpp)):.10f}".rstrip("0"),
    }


def _round(value: int) -> int:
    """Round up to two digits."""
    step = 10 ** max(0, len(str(value)) - 2)
    return int(-(-value // step) * step)
