"""Checks of sizes that are stored twice: a snapshot has those of its lists, a list that of each manifest. Avro has no checksum."""

from __future__ import annotations

from collections.abc import Iterable

from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.errors import CorruptFileError


def check_size(found: int, size: int | None, path: str) -> None:
    """Compare a file's bytes with the recorded size, if there is one: Avro cannot notice missing blocks.

    errors   CorruptFileError
    """
    if size is not None and found != size:
        raise CorruptFileError(f"the file has {found} bytes, not {size} as the file that names it says", path=path)


def check_partitions(partitions: Iterable[bytes], path: str) -> None:
    """Check the distinct partitions of a manifest's entries: later it is unknown which manifest one came from.

    errors   CorruptFileError
    """
    for partition in partitions:
        try:
            split_arity(partition)
        except CorruptFileError as error:
            raise CorruptFileError(f"the partition of an entry: {error}", path=path) from error
