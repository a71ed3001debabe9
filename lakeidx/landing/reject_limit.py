"""Limit of the rows of a batch that may be rejected."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class RejectLimit:
    """Limit of rejected rows; both bounds apply. A batch whose rows are all rejected never passes.

    count   rows; None = any number
    share   of all rows, 0 to 1; None = any
    """

    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str | int) -> RejectLimit:
        """Read ``100``, ``5%`` or both, ``100,5%``; InvalidInputError for anything else."""
        count: int | None = None
        share: float | None = None
        for part in str(text).split(","):
            word = part.strip()
            try:
                if word.endswith("%"):
                    share = float(word[:-1]) / 100
                else:
                    count = int(word)
            except ValueError:
                raise InvalidInputError(_help(text)) from None
        if (count is not None and count < 0) or (share is not None and not 0 <= share <= 1):
            raise InvalidInputError(_help(text))
        return cls(count, share)

    def exceeded(self, rejected: int, rows: int) -> str:
        """Return why the rejected rows exceed the limit, "" when they do not."""
        if rejected and rejected == rows:
            return "no row is left"
        if self.count is not None and rejected > self.count:
            return f"the batch may reject {self.count}"
        if self.share is not None and rejected > self.share * rows:
            return f"the batch may reject {self.share:.2%} of its {rows} rows"
        return ""


def _help(text: str | int) -> str:
    return f"rejected rows at most {text!r}: write a number of rows, a share like 5%, or both like 100,5%"
