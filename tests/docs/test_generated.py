"""Committed parts of the documentation that follow from the code are as the code says."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lakeidx.batch.artifacts import BucketAssignmentReport, CommitReport, IndexWriteReport, IngestReport
from lakeidx.landing.changes import change_formats
from tests.arch.sources import MODULES
from tests.arch.test_layers import LAYERS, imports
from tools.docs.__main__ import stale
from tools.docs.layers import PAGE, import_edges, layer_texts, own_imports, reduced, rows

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
def test_nothing_generated_is_stale() -> None:
    assert not stale(), "run: .venv/bin/python -m tools.docs"


def test_the_page_and_arch_tests_name_the_same_layers() -> None:
    texts = layer_texts(PAGE.read_text(encoding="utf-8"))
    wanted: dict[int, set[str]] = {}
    for package, layer in LAYERS.items():
        wanted.setdefault(layer, set()).add(package.removeprefix("lakeidx."))
    assert {layer: names for layer, (names, _) in texts.items()} == wanted


@pytest.mark.slow
def test_imports_that_are_read_are_those_that_are_parsed() -> None:
    own = ("lakeidx", "dagster_project")
    for file in MODULES.values():
        assert own_imports(file) == {m for m, _ in imports(file) if m.split(".")[0] in own}, file


def test_every_arrow_of_the_layers_points_down() -> None:
    edges = import_edges()
    row_of = {name: i for i, (_, names) in enumerate(rows(LAYERS, edges)) for name in names}
    assert edges
    assert not [(a, b) for a, b in edges if row_of[a] >= row_of[b]]


def test_leaving_implied_arrows_out_keeps_what_reaches_what() -> None:
    assert reduced([("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")]) == [("a", "b"), ("a", "d"), ("b", "c")]


def titles_of_the_flow() -> list[list[str]]:
    """Titles of the boxes of docs/images/flow.svg: rows from top to bottom, each from left to right."""
    tree = ElementTree.parse(ROOT / "docs/images/flow.svg")
    found = [(t, float(t.get("y", 0)), float(t.get("x", 0))) for t in tree.iter(f"{SVG}text") if t.get("class") == "t"]
    heights = [(float(r.get("y", 0)), float(r.get("height", 0))) for r in tree.iter(f"{SVG}rect")]
    rows_at = sorted(set(heights))
    return [
        [t.text or "" for t, y, _ in sorted(found, key=lambda f: f[2]) if top < y < top + height]
        for top, height in rows_at
    ]


def test_the_flow_shows_the_stages_in_their_order_and_the_assets_below_the_table() -> None:
    reports = (IngestReport, BucketAssignmentReport, IndexWriteReport, CommitReport)
    stages = [r.model_fields["stage"].default for r in reports]
    names = (ROOT / "lakeidx/dagster/names.py").read_text(encoding="utf-8")
    assets = re.findall(
        r'"(\w+)"', " ".join(re.findall(r"^(?:LANDING|SNAPSHOT_EXPIRY), .*= (.*)$", names, re.MULTILINE))
    )
    first, table, below = titles_of_the_flow()
    assert first == ["landing files", *stages]
    assert len(table) == 1
    # The landing asset observes the box of landing files; verification is the checks over the whole table.
    assert {*below, "landing", "verification"} == {*assets, "checks after every run"}


def test_the_page_of_changes_names_every_format() -> None:
    page = (ROOT / "docs/changes.md").read_text(encoding="utf-8")
    assert [f for f in change_formats() if f"| `{f}` |" not in page] == []


def test_the_stages_of_the_flow_are_joined_by_arrows() -> None:
    tree = ElementTree.parse(ROOT / "docs/images/flow.svg")
    boxes = sorted(
        (float(r.get("x", 0)), float(r.get("width", 0))) for r in tree.iter(f"{SVG}rect") if r.get("y") == "60"
    )
    lines = {tuple(float(n) for n in re.findall(r"[\d.]+", p.get("d", ""))) for p in tree.iter(f"{SVG}path")}
    for (x, width), (after, _) in itertools.pairwise(boxes):
        assert any(line[0] == x + width and after - 4 < line[-1] <= after for line in lines if len(line) == 3)
