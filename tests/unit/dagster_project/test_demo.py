"""What the demo's jobs land: the next month, a broken one, its repair, the rest."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from dagster_project.flights.demo import land_next_month, land_the_rest, repair
from lakeidx.errors import InvalidInputError


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as source:
        return list(csv.DictReader(source))


@pytest.mark.slow
def test_a_year_as_a_visitor_lands_it(tmp_path: Path) -> None:
    first = land_next_month(tmp_path)
    assert (first.name, len(rows(first))) == ("weather-2013-01.csv", 2226)
    assert repair(tmp_path) == []
    bad = land_next_month(tmp_path, broken=True)
    assert bad.name == "weather-2013-02.csv"
    broken = rows(bad)
    assert [r["humid"] for r in broken].count("250") == 3
    assert all(28 < float(r["pressure"]) < 32 for r in broken if r["pressure"] != "NA")
    assert repair(tmp_path) == [bad]
    assert all(900 < float(r["pressure"]) < 1100 for r in rows(bad) if r["pressure"] != "NA")
    assert len(land_the_rest(tmp_path)) == 10
    assert sum(len(rows(f)) for f in tmp_path.glob("*.csv")) == 26115
    with pytest.raises(InvalidInputError, match="all months of 2013 have landed"):
        land_next_month(tmp_path)
