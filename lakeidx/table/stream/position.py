"""Position of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.table.history import earliest_commit_id, load_commit
from lakeidx.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a stream: everything before a snapshot was read, and of the snapshot all or some units.

    snapshot   id; 0 = before the first one
    identity   of the snapshot; None where it is not known, and then not checked
    whole      the stream reads the whole state of the snapshot, not what its commit changed
    units      how many units of it are read; None = all
    of         how many there are, when some are read
    """

    snapshot: int
    identity: str | None = None
    whole: bool = False
    units: int | None = None
    of: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the keys and values that are not the default."""
        pairs = {"identity": self.identity, "whole": self.whole or None, "units": self.units, "of": self.of}
        return {"snapshot": self.snapshot} | {k: v for k, v in pairs.items() if v is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        """Decode; unknown keys are skipped.

        errors   InvalidInputError
        """
        snapshot, identity, units, of = (value.get(k) for k in ("snapshot", "identity", "units", "of"))
        whole = value.get("whole", False)
        if (
            not _is_count(snapshot)
            or not (identity is None or isinstance(identity, str))
            or not all(n is None or _is_count(n) for n in (units, of))
            or not isinstance(whole, bool)
        ):
            raise InvalidInputError(
                f"{dict(value)} is not a stream position: start a new stream, with a new checkpoint"
            )
        return cls(snapshot, identity, whole, units, of)

    @property
    def next_snapshot(self) -> int:
        """The oldest snapshot that the stream has not read to its end."""
        return self.snapshot + 1 if self.units is None else self.snapshot


def check_history(metadata: TableMetadata, position: Position, *, held: bool) -> None:
    """Raise InvalidInputError when the snapshot of a position is not, or may not be, in the table's history any more.

    One that has expired cannot be compared, unless its changelog outlives it.

    held   a consumer file has stood for the position since it was read: where a rollback had put another snapshot in its place,
           expiry would have left that one (`lakeidx.table.expiration.read.read_consumers`)
    """
    number = position.snapshot
    if number == 0:
        return
    try:
        if position.identity in (None, load_commit(metadata, number).identity):
            return
    except NotFoundError:
        pass
    if number < (metadata.earliest_snapshot_id() or 0):
        # In the last case what comes next has expired, too, and whoever reads it hears of that.
        if held or position.identity is None or (earliest_commit_id(metadata) or 0) > position.next_snapshot:
            return
        raise InvalidInputError(
            f"the stream has read up to snapshot {number}, which has expired while the stream did not run, so nothing tells "
            "whether the snapshots after it still follow it: start a new stream, with a new checkpoint; one with a consumer "
            "id keeps what tells",
            path=metadata.paths.snapshot_path(number),
        )
    raise InvalidInputError(
        f"the stream has read up to snapshot {number}, which was rolled back or replaced since: start a new stream, with a "
        "new checkpoint or with its consumer's progress ignored",
        path=metadata.paths.snapshot_path(number),
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0
