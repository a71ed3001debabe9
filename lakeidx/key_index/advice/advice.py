"""The result of `advise`: the recommended type, what every type would cost, and sizes, for people and as JSON."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.key_index.advice.measures import Measures
from lakeidx.key_index.advice.model import Prediction
from lakeidx.key_index.advice.sizing import FPP, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS, sizing
from lakeidx.results import Listing, Result


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advice(Result):
    """A recommendation.

    index_type     the cheapest that meets the needs
    options        table options that go with it: sizes that follow from the measures
    predictions    every type, cheapest first; those that do not meet the needs say why
    """

    index_type: str
    options: Mapping[str, str]
    measures: Measures
    predictions: tuple[Prediction, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the recommendation, sizes, measures and candidates as plain values for JSON."""
        m = self.measures
        return {
            "index.type": self.index_type,
            "options": dict(self.options),
            "sizes": self._sizes(),
            "measures": {**{name: getattr(m, name) for name in m.__slots__}, "key_order": m.key_order},
            "candidates": [
                {
                    "type": p.index_type,
                    "files": round(p.files, 1),
                    "bytes": round(p.bytes),
                    "memory": round(p.memory),
                    "seconds": float(f"{p.seconds:.3g}"),
                    "why_not": p.why_not,
                }
                for p in self.predictions
            ],
        }

    def measured(self) -> str:
        """Return what was measured, as one sentence."""
        m = self.measures
        return (
            f"{m.rows:,} rows in {m.files:,} files of {m.partitions:,} partitions; batches of {m.batch_rows:,} rows: keys"
            f" {m.key_order} (each may be in {m.spread:.0%} of its partition's files), {m.update_share:.0%} updates,"
            f" {m.move_share:.0%} of them from another partition"
        )

    def candidates(self) -> Listing:
        """List what a batch costs with each type: files opened, bytes read, memory, seconds."""
        return Listing(
            [
                {
                    "type": p.index_type,
                    "files": f"{p.files:,.0f}",
                    "read": _amount(p.bytes),
                    "memory": _amount(p.memory),
                    "seconds": f"{p.seconds:.3g}",
                    "": "recommended" if p.index_type == self.index_type else p.why_not,
                }
                for p in self.predictions
            ]
        )

    def note(self) -> str:
        """Return the options to set, and the sizes of all types."""
        sizes = self._sizes()
        return (
            f"recommended: {', '.join(f'{k} = {v}' for k, v in self.options.items())}\n"
            f"sizes: buckets of {sizes['target_row_num']:,} rows (hash, bloom, simple, state), {sizes['buckets']:,} buckets a"
            f" partition (bucket), filters of {sizes['bloom_entries']:,} keys at {sizes['bloom_fpp']:g} ="
            f" {sizes['bloom_bytes']:,} bytes a file (bloom)"
        )

    def __repr__(self) -> str:
        return f"{self.measured()}\n{self.candidates()!r}\n{self.note()}"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        said = html.escape(self.note()).replace("\n", "<br>")
        return f"<p>{html.escape(self.measured())}</p>{self.candidates()._repr_html_()}<p>{said}</p>"

    def _sizes(self) -> dict[str, Any]:
        """Compute the sizes that follow from the measures, for whatever type is chosen."""
        sizes = sizing(self.measures)
        entries, fpp = int(sizes[NUM_ENTRIES]), float(sizes[FPP])
        return {
            "target_row_num": int(sizes[TARGET_ROWS]),
            "buckets": int(sizes[NUM_BUCKETS]),
            "bloom_entries": entries,
            "bloom_fpp": fpp,
            "bloom_bytes": filter_bytes(entries, fpp),
        }


def filter_bytes(entries: int, fpp: float) -> int:
    """Return the bytes of one bloom filter of a file, as text in its footer."""
    bits = math.ceil(entries * -math.log(fpp) / math.log(2) ** 2)
    return -(-(13 + -(-bits // 8)) // 3) * 4


def _amount(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
