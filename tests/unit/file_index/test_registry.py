"""One registry: built-in types, types registered by a call, and types of other packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import Verdict
from lakeidx.file_index.options import validate_file_index_options
from lakeidx.file_index.registry import file_index_names, file_index_of, find_file_index, register_file_index
from lakeidx.file_index.write import index_builder
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.predicate import col

PLUGIN = '''
from lakeidx.errors import InvalidInputError
from lakeidx.file_index.kinds.types import Verdict
from lakeidx.predicate import Compare, Op

class Greatest:
    """Keeps the greatest integer of a column, as text."""
    name = "greatest"
    options = frozenset({"note"})
    def check(self, t, options):
        if t.root.value != "INT":
            raise InvalidInputError(f"greatest cannot index {t}")
    def create_writer(self, t, options):
        return Writer()
    def create_reader(self, t, payload, *, rows=None, path=None):
        return Reader(int(payload))

class Writer:
    def __init__(self):
        self.greatest = 0
    def add(self, column):
        self.greatest = max([self.greatest, *[v for v in column.to_pylist() if v is not None]])
    def finish(self):
        return str(self.greatest).encode()

class Reader:
    def __init__(self, greatest):
        self.greatest = greatest
    def select(self, leaf):
        above = isinstance(leaf, Compare) and leaf.op is Op.GT and leaf.value >= self.greatest
        return Verdict.SKIP if above else Verdict.REMAIN
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[misc]
    """An installed package with one index type, and another one that cannot be imported."""
    (tmp_path / "greatest_plugin.py").write_text(PLUGIN)
    info = tmp_path / "greatest_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greatest-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lakeidx.file_indexes]\ngreatest = greatest_plugin:Greatest\nbroken = no_such_module:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("lakeidx.file_index.registry._by_name", dict(_known()))
    yield
    sys.modules.pop("greatest_plugin", None)


def _known() -> dict[str, object]:
    return {name: file_index_of(name) for name in ("bitmap", "bloom-filter", "bsi", "range-bitmap")}


def test_built_in_types() -> None:
    for name in ("bitmap", "bloom-filter", "bsi", "range-bitmap"):
        assert file_index_of(name).name == name
    assert find_file_index("nothing") is None
    with pytest.raises(InvalidInputError, match="did you mean 'bitmap'"):
        file_index_of("bitmapp")


@pytest.mark.usefixtures("plugin")
def test_a_type_of_another_package_works_everywhere() -> None:
    assert "greatest" in file_index_names()
    options = {"file-index.greatest.columns": "a", "file-index.greatest.a.note": "x"}
    schema = new_schema({"fields": [{"name": "a", "type": "INT"}], "options": options})
    validate_file_index_options(schema)
    builder = index_builder(schema)
    assert builder is not None
    writer = builder()
    writer.add(pa.table({"a": pa.array([3, None, 9], pa.int32())}))
    container = writer.finish().embedded
    assert container is not None
    assert evaluate_container(container, col("a") > 9, schema.fields) is Verdict.SKIP
    assert evaluate_container(container, col("a") > 8, schema.fields) is Verdict.REMAIN
    assert evaluate_container(container, (col("a") > 9) | (col("a") < 0), schema.fields) is Verdict.REMAIN


@pytest.mark.usefixtures("plugin")
def test_a_package_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(InvalidInputError, match="'broken' cannot be loaded from no_such_module:X"):
        file_index_of("broken")


@pytest.mark.usefixtures("plugin")
def test_registering_by_a_call() -> None:
    class Mine:
        name = "mine"

    mine = Mine()
    register_file_index(mine)  # type: ignore[arg-type]
    register_file_index(mine)  # type: ignore[arg-type]
    assert file_index_of("mine") is mine  # type: ignore[comparison-overlap]
    with pytest.raises(InvalidInputError, match="already registered"):
        register_file_index(Mine())  # type: ignore[arg-type]
