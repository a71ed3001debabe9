"""Landing files for a visitor of the demo: the weather of 2013, a month at a time, one of them as a broken feed would send it."""

from __future__ import annotations

import csv
from pathlib import Path

from dagster_project.flights.prepare_weather import MONTHS, month_file, month_rows, write_month
from lakeidx.errors import InvalidInputError

_MILLIBARS_OF_AN_INCH = 33.8639


def land_next_month(landing: Path, *, broken: bool = False) -> Path:
    """Land the first month that is not there.

    broken   pressure in inches of mercury, and three rows with a humidity that cannot be
    errors   InvalidInputError when the whole year is there
    """
    month = next((m for m in MONTHS if not (landing / month_file(m)).exists()), None)
    if month is None:
        raise InvalidInputError(
            "all months of 2013 have landed; start anew with another --work folder", path=str(landing)
        )
    rows = month_rows(month)
    return write_month(landing / month_file(month), _broken(rows) if broken else rows)


def land_the_rest(landing: Path) -> list[Path]:
    """Land all months that are not there."""
    missing = [m for m in MONTHS if not (landing / month_file(m)).exists()]
    return [write_month(landing / month_file(m), month_rows(m)) for m in missing]


def repair(landing: Path) -> list[Path]:
    """Land each month again that differs from what was measured; return what was replaced."""
    there = [(landing / month_file(m), month_rows(m)) for m in MONTHS if (landing / month_file(m)).exists()]
    return [write_month(file, rows) for file, rows in there if _rows_of(file) != rows]


def _rows_of(file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as source:
        return list(csv.reader(source))


def _broken(rows: list[list[str]]) -> list[list[str]]:
    heads, *values = rows
    humid, pressure = heads.index("humid"), heads.index("pressure")
    out = [heads]
    for number, row in enumerate(values):
        new = list(row)
        if row[pressure] not in ("", "NA"):
            new[pressure] = f"{float(row[pressure]) / _MILLIBARS_OF_AN_INCH:.2f}"
        if number < 3:
            new[humid] = "250"
        out.append(new)
    return out
