"""BatchLimits of what a batch may do to its table: beyond one it is held before its commit (`lakeidx.batch.held`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lakeidx.errors import InvalidInputError, did_you_mean

#: What is limited, by its name in pipeline files.
KINDS = ("deletes", "updates", "inserts", "rejected", "new_partitions")
#: Text ``deletes=5%,inserts=2x``, or a mapping of each name to its bound.
GivenLimits: TypeAlias = "str | Mapping[str, str | int] | BatchLimits"
_FORMS = {
    "rejected": "a number of rows, or a share of the batch's rows (1%)",
    "new_partitions": "a number",
}
#: Units that make no sense: rejected rows leave no trace in the table.
_NO_UNITS = {"rejected": ("x",), "new_partitions": ("%", "x")}
_FORM = "a number of rows, a share of the table's rows (5%), or a multiple of recent batches (2x)"


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound.

    text    as it was written
    unit    ``""`` rows, ``%`` of the table's rows (of the batch's, for rejected ones), ``x`` the mean of recent batches
    """

    kind: str
    text: str
    value: float
    unit: str

    def beyond(self, count: int, base: float) -> bool:
        """Return True when a count is beyond the limit; `base`: rows of the table, or the mean of recent batches."""
        return count > (self.value if not self.unit else self.value * base / (100 if self.unit == "%" else 1))


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """BatchLimits of a batch; each of them holds it."""

    bounds: tuple[Limit, ...]

    @classmethod
    def parse(cls, given: GivenLimits | None) -> BatchLimits:
        """Read limits, ``deletes=5%,inserts=2x`` or a mapping; of one kind there may be several: ``deletes: 100, 5%``.

        errors   InvalidInputError naming the limit, and how one is written
        """
        if isinstance(given, BatchLimits):
            return given
        if given is None:
            return cls(())
        pairs = _pairs(given) if isinstance(given, str) else [(k, str(v)) for k, v in given.items()]
        return cls(tuple(_limit(kind.strip(), word.strip()) for kind, text in pairs for word in text.split(",")))

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __str__(self) -> str:
        return ",".join(f"{b.kind}={b.text}" for b in self.bounds)

    def exceeded(self, counts: Mapping[str, int], base: Callable[[Limit], float | None]) -> list[tuple[Limit, float]]:
        """Return the limits that counts are beyond, each with what it was measured by.

        base   rows of the table or batch, or the mean of recent batches; None when there is nothing to compare with
        """
        out = []
        for bound in self.bounds:
            by = base(bound) if counts[bound.kind] else None
            if by is not None and bound.beyond(counts[bound.kind], by):
                out.append((bound, by))
        return out


def _pairs(text: str) -> list[tuple[str, str]]:
    """Cut a text into kinds and bounds; a bound without a kind is one more of the kind before it."""
    out: list[tuple[str, str]] = []
    for word in text.split(","):
        kind, equals, bound = word.partition("=")
        if not equals and not out:
            raise InvalidInputError(f"limit {text!r}: write what it limits and a bound, like deletes=5%")
        out.append((kind, bound) if equals else (out[-1][0], word))
    return out


def _limit(kind: str, text: str) -> Limit:
    if kind not in KINDS:
        raise InvalidInputError(f"there is no limit {kind!r}; {did_you_mean(kind, KINDS)}")
    unit = text[-1:] if text[-1:] in ("%", "x") else ""
    try:
        value = float(text.removesuffix(unit)) if unit else int(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or unit in _NO_UNITS.get(kind, ()):
        raise InvalidInputError(f"limit {kind}={text}: write {_FORMS.get(kind, _FORM)}")
    return Limit(kind, text, value, unit)
