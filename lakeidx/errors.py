"""The few kinds of error lakeidx raises. A kind exists because a caller would act differently on it.

=================  ==========================================================================
kind               what the caller should do
=================  ==========================================================================
BatchHeld          release the batch, or discard it (an InvalidInput for those who do not know it)
InvalidInput       mend the input (schema, option, landing file, argument) and call again
NotFound           name a table, snapshot, tag or file that exists
CorruptFile        the bytes are damaged: restore the file, or rebuild what can be rebuilt
Unsupported        a newer format version or a feature lakeidx does not have
CommitConflict     plan the batch again from the newest snapshot
TableReplaced      open the table again: another one has its place
CommitUnknown      the outcome of a put is not known: read the table before trying again
Unavailable        the store or service did not answer: back off and try again
Internal           a bug in lakeidx
=================  ==========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar


class LakeIdxError(Exception):
    """Root of all errors lakeidx raises.

    path         file, table or option the error refers to, when there is one
    offset       byte position inside the file, when known
    snapshot_id  snapshot the error refers to, when there is one
    """

    kind: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        snapshot_id: int | None = None,
    ) -> None:
        # What a library says may have several lines; an error is one.
        message = " ".join(message.split()) if any(c in message for c in "\n\r\v\f") else message
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.snapshot_id = snapshot_id

    def __str__(self) -> str:
        where = ""
        if self.path is not None:
            where = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        elif self.offset is not None:
            where = f"byte {self.offset}"
        return f"{where}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark tasks, Dagster steps); keyword-only fields need a helper to be rebuilt.
        # A cause is lost on the way, but for what the operating system said: a full disk calls for other help.
        number = self.__cause__.errno if isinstance(self.__cause__, OSError) else None
        return _rebuild, (type(self), self.message, self.path, self.offset, self.snapshot_id, number)


def _rebuild(
    cls: type[LakeIdxError],
    message: str,
    path: str | None,
    offset: int | None,
    snapshot_id: int | None,
    number: int | None = None,
) -> LakeIdxError:
    error = cls(message, path=path, offset=offset, snapshot_id=snapshot_id)
    if number is not None:
        error.__cause__ = OSError(number, os.strerror(number))
    return error


class InvalidInputError(LakeIdxError):
    """The input cannot be accepted; the message says what is wrong and what is accepted."""

    kind = "invalid_input"


class RejectedRowsError(InvalidInputError):
    """More rows of a batch cannot be kept than it may reject; nothing of it was published.

    rows_in, rows_rejected, rejected_path, reject_reasons   as in the report of an ingest
    """

    FIGURES: ClassVar = ("rows_in", "rows_rejected", "rejected_path", "reject_reasons")

    rows_in: int = 0
    rows_rejected: int = 0
    rejected_path: str | None = None
    reject_reasons: Mapping[str, int] = MappingProxyType({})


class BatchHeldError(InvalidInputError):
    """A batch stopped before its commit, staged, since it is beyond a limit or a check failed; somebody decides about it.

    batch_id   the batch that is held
    reasons    what is beyond which limit, or which check failed
    """

    kind = "batch_held"

    batch_id: str = ""
    reasons: tuple[str, ...] = ()


class NotFoundError(LakeIdxError):
    """A table, snapshot, tag or file that was named does not exist."""

    kind = "not_found"


class CorruptFileError(LakeIdxError):
    """Bytes that cannot be what they should be: names the file, the offset, what was expected and what was found."""

    kind = "corrupt_file"


class UnsupportedError(LakeIdxError):
    """A format version, type or feature that this release of lakeidx does not handle."""

    kind = "unsupported"


class CommitConflictError(LakeIdxError):
    """Another writer changed what this commit was planned on; plan again from the newest snapshot."""

    kind = "commit_conflict"
    retryable = True


class TableReplacedError(LakeIdxError):
    """The table that was opened does not exist any more: it was dropped, and another one was created in its place."""

    kind = "table_replaced"
    retryable = True


class CommitUnknownError(LakeIdxError):
    """The store did not report whether the snapshot was put, and reading it back failed, too."""

    kind = "commit_unknown"
    retryable = True


class UnavailableError(LakeIdxError):
    """The store or a service did not answer, or asked to slow down."""

    kind = "unavailable"
    retryable = True


class InternalError(LakeIdxError):
    """A bug in lakeidx: a state that its own code should have made impossible."""

    kind = "internal"


def did_you_mean(name: str, known: Iterable[str], *, listing: str = "there are", empty: str = "there are none") -> str:
    """Return the hint after a name that does not exist: the most similar names, else all names.

    listing   words before the names when none is like it
    empty     the hint when there is no name at all
    """
    # Only for a message: importing lakeidx must not cost it.
    import difflib

    names = list(known)
    near = [n for n in names if n.lower() == name.lower()] or difflib.get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(repr(n) for n in near)}?"
    if not names:
        return empty
    return f"{listing} {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
