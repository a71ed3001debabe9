"""Local wall clock as if it were UTC, in milliseconds: how Paimon stores creation times of data files, and names partitions by
local-zoned timestamps.

source   org.apache.paimon.data.Timestamp.fromLocalDateTime / DateTimeUtils, release 1.4.2
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def local_ms_of_epoch(epoch_ms: int) -> int:
    """Return what this process's wall clock shows at an instant, taken as if it were UTC; years outside 1-9999 count as UTC."""
    try:
        offset = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone().utcoffset()
    except (OverflowError, ValueError, OSError):
        return epoch_ms
    assert offset is not None
    return epoch_ms + int(offset.total_seconds()) * 1000


def epoch_ms_of_local(local_ms: int) -> int:
    """Invert `local_ms_of_epoch`, save at clock changes: the instant at which this process's wall clock shows `local_ms`."""
    try:
        naive = datetime.fromtimestamp(local_ms // 1000, UTC).replace(tzinfo=None)
        return int(naive.timestamp()) * 1000 + local_ms % 1000
    except (OverflowError, ValueError, OSError):
        return local_ms


def now_local_ms() -> int:
    """Return the wall clock now."""
    return local_ms_of_epoch(time.time_ns() // 1_000_000)
