"""Announcement of a deletion: the hint says what is deleted, where readers look, and consumers are read once more.

A reader puts its consumer file first and looks at the hint then (`lakeidx.table.stream.consumer.StreamConsumer.begin`), an expiry
the other way round, so that one of the two sees the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakeidx.format.consumer import encode_hint
from lakeidx.table.expiration.plan import ExpireRange
from lakeidx.table.expiration.read import read_consumers
from lakeidx.table.metadata import TableMetadata


def announce(
    metadata: TableMetadata, hint: str, chosen: ExpireRange, choose: Callable[[Sequence[int]], ExpireRange | None]
) -> ExpireRange:
    """Write what is about to be deleted into a hint, so that nobody starts to read or tag it; return what may be deleted.

    hint      path of the hint that says which id is the oldest
    choose    chooses again, given the next snapshot of every consumer there is now
    returns   what goes: not more than was chosen
    """
    metadata.store.put(hint, encode_hint(chosen.end))
    fewer = choose([first for first, _ in read_consumers(metadata).values()]) or chosen
    if fewer.end < chosen.end:
        metadata.store.put(hint, encode_hint(fewer.end))
    return fewer
