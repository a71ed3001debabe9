"""Large text files of a batch cut into shares, so that no task reads more of one than its share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.batch.artifacts import SourceFile
from lakeidx.batch.parts import landing_store
from lakeidx.landing.read import landing_format
from lakeidx.landing.text.compressed import open_plain, without_codec
from lakeidx.landing.text.csv import csv_header
from lakeidx.landing.text.shares import SHARE_BYTES, Crossing, TextShare, cross_range, plan_ranges, plan_shares
from lakeidx.landing.types import LandingOptions, message_formats
from lakeidx.storage.base import ObjectStore
from lakeidx.tasks.runner import Runner


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of a landing file for a task; `delimiter` of CSV only, `place` the options of its store."""

    store: ObjectStore
    source: int
    path: str
    start: int
    end: int
    delimiter: str | None
    place: Mapping[str, Any]


def share_files(
    store: ObjectStore, sources: Mapping[int, SourceFile], options: LandingOptions, runner: Runner, *, label: str
) -> Mapping[int, list[TextShare]]:
    """Find the shares of the landing files that are read by several tasks, by the files' numbers; tasks scan for them.

    errors   InvalidInputError for a CSV file without a header
    """
    ranges: list[_Range] = []
    headers: dict[int, tuple[tuple[str, ...], int]] = {}
    for number, source in sources.items():
        kind = _text_format(source.path, options)
        planned = [] if kind is None else plan_ranges(source.size, share_bytes=SHARE_BYTES)
        if len(planned) > 1:
            delimiter = options.delimiter if kind == "csv" else None
            headers[number] = _header(store, source.path, options) if kind == "csv" else ((), 0)
            place = options.storage_options
            ranges += [_Range(store, number, source.path, start, end, delimiter, place) for start, end in planned]
    if not ranges:
        return {}
    found: dict[int, list[Crossing]] = defaultdict(list)
    for each, crossing in zip(ranges, runner.map(_cross, ranges, label=label), strict=True):
        found[each.source].append(crossing)
    return {
        n: plan_shares(sources[n].size, crossings, headers[n][0], header_bytes=headers[n][1])
        for n, crossings in found.items()
    }


def _text_format(path: str, options: LandingOptions) -> str | None:
    """Return csv or jsonl for a file that can be cut."""
    if without_codec(path) != path:
        return None
    if options.is_changes and options.format in message_formats():
        return "jsonl"
    kind = landing_format(path, options)
    return kind if kind in ("csv", "jsonl") else None


def _cross(item: _Range) -> Crossing:
    with open_plain(landing_store(item.store, item.path, item.place), item.path) as source:
        return cross_range(source, item.start, item.end, item.delimiter)


def _header(store: ObjectStore, path: str, options: LandingOptions) -> tuple[tuple[str, ...], int]:
    with open_plain(landing_store(store, path, options.storage_options), path) as source:
        return csv_header(source, path, options)
