"""The pictures of a table: SVG that a browser takes as an image, with every bar where its number belongs."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lakeidx.dagster.metadata import plots
from lakeidx.dagster.metadata.plots import short, ticks

_SVG = "{http://www.w3.org/2000/svg}"
_BAR = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v(-?[\d.]+)h-[\d.]+z")


def drawing(value: Any) -> ET.Element:
    """Return the image inside a Markdown text."""
    found = re.fullmatch(r"!\[[a-z ]+\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", value.value)
    assert found is not None
    return ET.fromstring(base64.b64decode(found[1]))


def texts(svg: ET.Element) -> list[str]:
    return [t.text or "" for t in svg.iter(f"{_SVG}text")]


def bars(svg: ET.Element) -> list[tuple[float, float, float, str]]:
    """Return the bars: left end, top and height, colour."""
    found = []
    for path in svg.iter(f"{_SVG}path"):
        found += [(float(x), float(y), float(h), path.attrib["fill"]) for x, y, _, h in _BAR.findall(path.attrib["d"])]
    return sorted(found)


def at(svg: ET.Element, text: str) -> float:
    """Return the height of a text of the left scale."""
    (y,) = [
        float(t.attrib["y"]) for t in svg.iter(f"{_SVG}text") if t.text == text and t.attrib["text-anchor"] == "end"
    ]
    return y - 4


def test_bars_reach_their_numbers_and_those_above_the_target_are_red() -> None:
    svg = drawing(plots.rows_per_bucket({"0": 400_000, "1": 600_000, "2": 200_000, "3": 0}, 400_000))
    found = bars(svg)
    assert [round(top) for _, top, _, _ in found] == [round(at(svg, n)) for n in ("400k", "600k", "200k")]
    assert all(top + height == pytest.approx(at(svg, "0"), abs=0.2) for _, top, height, _ in found)
    assert [color for *_, color in found] == ["#3b6fb6", "#c0392b", "#3b6fb6"]
    assert {"Rows per bucket against target", "target", "bucket", "rows", "0", "1", "2", "3"} <= set(texts(svg))


def test_levels_stand_on_one_another() -> None:
    svg = drawing(plots.levels_per_bucket({"0": {0: 2, 5: 1}, "1": {5: 3}}))
    first, second, other = bars(svg)
    assert {round(first[1]), round(second[1])} == {round(at(svg, "2")), round(at(svg, "3"))}
    assert first[2] + second[2] == pytest.approx(other[2], abs=0.2)
    assert {"level 0", "level 5"} <= set(texts(svg))


def test_what_a_compaction_merged_away_hangs_below_zero() -> None:
    svg = drawing(plots.batch_history([7, 8], [1000, -500], [1000, 500]))
    (_, up, _, green), (_, down, depth, grey) = bars(svg)
    assert up == pytest.approx(at(svg, "1k"), abs=0.2)
    assert down == pytest.approx(at(svg, "-500"), abs=0.2)
    assert down + depth == pytest.approx(at(svg, "0"), abs=0.2)
    assert green != grey
    assert len(list(svg.iter(f"{_SVG}circle"))) == 2
    assert "rows in files" in texts(svg)


def test_many_buckets_are_put_together_and_names_are_text() -> None:
    name = "<b>&\x01\ud800" + "n" * 60
    svg = drawing(plots.rows_per_bucket({f"{name}/{i}": 1 + i for i in range(600)}, 10_000))
    assert len(bars(svg)) == 60
    labels = [t for t in texts(svg) if "nnn" in t]
    assert {(t[0], len(t)) for t in labels} == {("…", 40)}
    assert [t.rpartition("/")[2] for t in labels] == ["0", "260", "520"]
    assert any("<b>&\ufffd\ufffd" in t for t in texts(drawing(plots.levels_per_bucket({name[:20] + "/0": {0: 1}}))))


def test_a_table_without_rows_is_drawn() -> None:
    assert bars(drawing(plots.batch_history([1], [0], [0]))) == []
    assert bars(drawing(plots.rows_per_bucket({"0": 0}, 0))) == []


@pytest.mark.parametrize("values", [[0, 0], [0, 1], [0, 7], [0, 601_000], [-12, 0], [-200_001, 600_000], [0, 9.9e14]])
def test_a_scale_has_few_round_numbers_around_all_values(values: list[float]) -> None:
    found = ticks(values)
    assert found[0] <= min(values) <= max(values) <= found[-1]
    assert 2 <= len(found) <= 8
    assert 0 in found
    (step,) = {b - a for a, b in pairwise(found)}
    assert f"{step:.0e}"[0] in "125"
    assert step == float(f"{step:.0e}")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (-1500, "-1.5k"), (600_000, "600k"), (2.5e9, "2.5G"), (1e13, "10T")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text
