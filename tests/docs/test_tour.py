"""The tour: every block of its page runs, and the page that is made shows what they gave."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from tools.docs import tour
from tools.docs.blocks import blocks


def test_a_block_shows_what_it_printed_and_its_last_value() -> None:
    names: dict[str, object] = {}
    assert tour.run_block("x = [1]\nprint('<hello>')\nx", names, "page:1") == "<pre>&lt;hello&gt;\n</pre><pre>[1]</pre>"
    assert tour.run_block("x.append(2)", names, "page:2") == ""
    assert names["x"] == [1, 2]


def test_a_block_that_fails_is_named_with_its_error() -> None:
    with pytest.raises(tour.BlockFailedError, match=r"^docs/tour.md:7: ZeroDivisionError: division by zero$"):
        tour.run_block("1 / 0", {}, "docs/tour.md:7")


def test_numbers_of_rows_are_shown_as_they_are() -> None:
    shown = tour.shown(pa.table({"flight": [1545], "gate": pa.nulls(1)}))
    assert "<td>1545</td><td></td>" in shown


@pytest.mark.slow
def test_the_tour_shows_a_whole_history(tmp_path: Path) -> None:
    page = tour.make_tour(tmp_path, quiet=True)
    text = page.read_text(encoding="utf-8")
    # The facts are the data's: 80,789 flights of three months, 27,004 of them in January.
    outputs = re.findall(r'<div class="output">(.*?)</div>', text, re.DOTALL)
    assert len(outputs) == len([b for b in blocks(tour.PAGE) if b.language == "python"])
    assert "80,789" in outputs[2]
    assert "True" in outputs[3]
    assert "27,004" in outputs[4]
    assert text.count('src="data:image/png;base64,') == 4
    assert "march.csv: 2 rows rejected and the batch may reject 1" in text
    assert "1 of 12 rules found something: files_readable" in text
    assert "all 12 rules hold" in text
    assert ".md" not in re.sub(r"<code>.*?</code>", "", text.split("Next steps")[1])
