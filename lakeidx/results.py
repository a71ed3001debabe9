"""Results of calls: small objects with metrics, readable in a shell, a log line and a notebook."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

_NOTHING: tuple[Any, ...] = (None, "", (), [], {})
#: Characters of a cell that is read as a sentence.
_SENTENCE = 40


class Result:
    """Metrics of one call. Subclasses are dataclasses or pydantic models; `note` may explain why nothing was done."""

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics as plain values for JSON."""
        dump = getattr(self, "model_dump", None)
        if dump is not None:
            return dict(dump())
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.repr}  # type: ignore[arg-type]

    def note(self) -> str:
        """Return one sentence about the outcome, "" when the metrics speak for themselves."""
        return ""

    def _shown(self) -> dict[str, Any]:
        return {k: v for k, v in self.as_dict().items() if v not in (*_NOTHING, False)}

    def __str__(self) -> str:
        lines = [f"{name.replace('_', ' ')}: {_text(value)}" for name, value in self._shown().items()]
        return "\n".join([*([self.note()] if self.note() else []), *lines])

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name}={_text(value)}" for name, value in self._shown().items())
        return f"{type(self).__name__}({metrics})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(n)}</th><td>{html.escape(_text(v))}</td></tr>"
            for n, v in self._shown().items()
        )
        return f"<table><caption>{html.escape(self.note() or type(self).__name__)}</caption>{rows}</table>"


class Listing(Sequence[Mapping[str, Any]]):
    """A short list of rows with named columns: snapshots, files, buckets, tags.

    rows   one mapping per row; all may leave out columns that they have no value for
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = tuple(rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order of appearance."""
        return tuple(dict.fromkeys(n for r in self._rows for n in r))

    def column(self, name: str) -> list[Any]:
        """Return the values of one column."""
        return [r.get(name) for r in self._rows]

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Listing: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Listing:
        return Listing(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        names = self.columns
        cells = [list(names), *([_text(r.get(n)) for n in names] for r in self._rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(lines) if names else "(none)"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(n)}</th>" for n in self.columns)
        body = "".join("<tr>" + "".join(_cell(_text(r.get(n))) for n in self.columns) + "</tr>" for r in self._rows)
        return f"<table><tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    # Long sentences take several lines, so that what stands behind them is seen.
    style = " style='white-space:normal'" if len(text) > _SENTENCE and " " in text else ""
    return f"<td{style}>{html.escape(text)}</td>"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (tuple, list)):
        shown = ", ".join(_text(v) for v in value[:10])
        return f"{shown}, ... ({len(value)})" if len(value) > 10 else shown
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items() if v not in _NOTHING)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
