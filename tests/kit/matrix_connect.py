"""The doors of Spark over Spark Connect, as a program: a process with a classic session can have no other.

``python -m tests.kit.matrix_connect FOLDER``
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lakeidx.spark import register
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import fill
from tests.kit.matrix_spark import ways_in, ways_out


def main() -> None:
    """Send everything through each door."""
    folder = Path(sys.argv[1])
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        register(session)
        for name, way in ways_in(session).items():
            fill(way, 0, folder / name).check(WAYS_OUT["scan"], folder)
            session.sql("DROP TABLE IF EXISTS matrix")
            print(name)
        # Spark Connect hands over no TIME.
        filled = fill(WAYS_IN["Arrow IPC"], 0, folder / "out", ("TIME(",))
        for name in ("Spark", "Spark changes"):
            filled.check(ways_out(session)[name], folder)
            print(name)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
