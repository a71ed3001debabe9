"""Pictures of a table as Markdown with an image inside, which Dagster shows in the metadata of an asset."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
from numpy.typing import NDArray

from lakeidx.dagster.metadata.charts import Chart

#: Bars that can be distinguished; beyond that neighbours are put together.
_MAX_BARS = 60
#: Snapshots that a history has room for at least: bars of a young table should not look like walls.
_LEAST_SNAPSHOTS = 8
_BLUE, _GREY, _DIM, _RED, _GREEN = "#3b6fb6", "#b8c0cc", "#777777", "#c0392b", "#2e8b57"
#: Of the lowest and the highest level.
_LIGHT, _DARK = (190, 205, 227), (52, 99, 168)


def _picture(chart: Chart, *, alt: str) -> Any:
    text = base64.b64encode(chart.svg().encode("utf-8", "replace")).decode()
    return dg.MetadataValue.md(f"![{alt}](data:image/svg+xml;base64,{text})")


def rows_per_bucket(rows: Mapping[str, int], target: int) -> Any:
    """Plot the rows (index hashes) of each bucket beside dynamic-bucket.target-row-num; `rows` is by the bucket's name."""
    shown, labels = _thin(np.array(list(rows.values()), dtype=np.int64), list(rows), np.max)
    chart = Chart("Rows per bucket against target", len(shown), [*shown, target], x=_bucket_axis(rows), y="rows")
    chart.bars(shown, [_RED if v > target else _BLUE for v in shown])
    chart.level(target, _DIM, "target")
    chart.labels(labels)
    return _picture(chart, alt="rows per bucket")


def levels_per_bucket(levels: Mapping[str, Mapping[int, int]]) -> Any:
    """Draw the data files of each bucket by level, stacked: `levels` is bucket name -> level -> files."""
    names = list(levels)
    present = sorted({level for files in levels.values() for level in files})
    stacks, labels = [np.zeros(min(len(names), _MAX_BARS))], list[str]()
    for level in present:
        shown, labels = _thin(np.array([levels[n].get(level, 0) for n in names], dtype=np.int64), names, np.max)
        stacks.append(stacks[-1] + shown)
    chart = Chart("Data files per bucket and level", len(labels), stacks[-1], x=_bucket_axis(names), y="files")
    colors = [_shade(i / max(1, len(present) - 1)) for i in range(len(present))]
    for below, top, color in zip(stacks, stacks[1:], colors, strict=False):
        chart.bars((top - below).tolist(), [color] * len(labels), bottoms=below.tolist())
    chart.labels(labels)
    chart.legend([f"level {level}" for level in present], colors)
    return _picture(chart, alt="levels per bucket")


def hash_distribution(counts: Sequence[int]) -> Any:
    """Plot how evenly key hashes fill the 32-bit space.

    counts   hashes in equal parts of it; a line shows what every part should have
    """
    axis = f"key hash, {len(counts)} equal ranges of the 32-bit space"
    chart = Chart("Distribution of key hashes", len(counts), counts, x=axis, y="keys")
    chart.bars(counts, [_BLUE] * len(counts), width=1.0)
    chart.level(sum(counts) / len(counts), _RED)
    return _picture(chart, alt="hash distribution")


def batch_history(ids: Sequence[int], deltas: Sequence[int], totals: Sequence[int]) -> Any:
    """Plot the rows each snapshot added (bars) and the sum of rows in data files (line)."""
    chart = Chart("Batch history", max(len(ids), _LEAST_SNAPSHOTS), deltas, x="snapshot", y="rows added")
    chart.bars(deltas, [_GREEN if d >= 0 else _GREY for d in deltas])
    chart.labels([str(i) for i in ids])
    chart.curve(totals, _BLUE, "rows in files")
    return _picture(chart, alt="batch history")


def _shade(share: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(_LIGHT, _DARK, strict=True))


def _thin(
    values: NDArray[Any], names: Sequence[str], combine: Callable[[NDArray[Any]], Any]
) -> tuple[list[int], list[str]]:
    if len(values) <= _MAX_BARS:
        return values.tolist(), list(names)
    parts = np.array_split(np.arange(len(values)), _MAX_BARS)
    return [int(combine(values[p])) for p in parts], [names[p[0]] for p in parts]


def _bucket_axis(names: Collection[str]) -> str:
    return "partition/bucket" if any("/" in name for name in names) else "bucket"
