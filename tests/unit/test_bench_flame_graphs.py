from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.flame_graphs import Process, flame_graph, read_samples, write_graphs

FIRST = 'process 7:"python bench.py";'
WORKER = FIRST + 'process 9:"python -c import a;main("x")";'
LINES = [
    f"{FIRST}<module> (bench.py:3);run (bench.py:9) 30\n",
    f"{FIRST}<module> (bench.py:3);check (bench.py:12) 10\n",
    f"{WORKER}task (worker.py:1);encode <fast> (rows.py:2) 60\n",
    # Seen between two functions.
    'process 7:"python bench.py" 4\n',
    f'{FIRST}process 11:"python idle.py";<module> (idle.py:1) 2\n',
]


def shapes(process: Process) -> dict[str, tuple[float, float]]:
    """Title up to the colon -> (left edge, width) as shares of the graph."""
    root = ElementTree.fromstring(flame_graph(process))
    name = "{http://www.w3.org/2000/svg}"
    whole = float(root.attrib["width"])
    out = {}
    for group in root.iter(f"{name}g"):
        title, box = group.find(f"{name}title"), group.find(f"{name}rect")
        assert title is not None
        assert title.text is not None
        assert box is not None
        out[title.text.rpartition(": ")[0]] = (
            round(float(box.attrib["x"]) / whole, 3),
            round(float(box.attrib["width"]) / whole, 3),
        )
    return out


def test_samples_go_to_the_process_that_ran_and_commands_may_hold_any_sign() -> None:
    worker, first, idle = read_samples(LINES)
    assert [(p.number, p.command, p.root.samples) for p in (worker, first, idle)] == [
        (9, 'python -c import a;main("x")', 60),
        (7, "python bench.py", 44),
        (11, "python idle.py", 2),
    ]
    assert list(first.root.calls) == ["<module> (bench.py:3)"]
    assert {n: b.samples for n, b in first.root.calls["<module> (bench.py:3)"].calls.items()} == {
        "run (bench.py:9)": 30,
        "check (bench.py:12)": 10,
    }


def test_boxes_are_as_wide_as_their_share_and_stand_below_their_callers() -> None:
    assert shapes(read_samples(LINES)[1]) == {
        "all": (0, 1),
        "<module> (bench.py:3)": (0, 0.909),
        "run (bench.py:9)": (0, 0.682),
        "check (bench.py:12)": (0.682, 0.227),
    }


def test_one_graph_per_process_that_worked_and_a_page(tmp_path: Path) -> None:
    written = write_graphs(read_samples(LINES), tmp_path / "out")
    assert [p.name for p in written] == ["9.svg", "7.svg"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index('href="9.svg"') < page.index('href="7.svg"')
    assert "main(&quot;x&quot;)" in page
    assert "idle" not in page


@pytest.mark.parametrize("line", ["run (bench.py:9) 30", f"{FIRST}run (bench.py:9)"])
def test_other_lines_are_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="raw format"):
        read_samples([line])
