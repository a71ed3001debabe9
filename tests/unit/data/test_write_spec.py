"""What options say about the files of one write."""

from __future__ import annotations

import pickle

import pytest

from lakeidx.data.stats_modes import ModeKind, StatsMode
from lakeidx.data.write_spec import WriteSpec
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.format.data_file import FileSource
from tests.unit.data.tables import table_schema

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}


def spec(
    options: dict[str, str], *, level: int = 0, changelog: bool = False, keys: tuple[str, ...] = ("k",)
) -> WriteSpec:
    return WriteSpec(table_schema(COLUMNS, keys, options), level, FileSource.APPEND, changelog)


def test_statistics_by_level_and_for_changelogs() -> None:
    options = {
        "metadata.stats-mode": "counts",
        "metadata.stats-mode.per.level": "5:full",
        "changelog-file.stats-mode": "none",
    }
    assert spec(options).modes["v"] == StatsMode(ModeKind.COUNTS)
    assert spec(options, level=5).modes["v"] == StatsMode(ModeKind.FULL)
    assert spec(options, level=5, changelog=True).modes["v"] == StatsMode(ModeKind.NONE)
    assert spec({}).modes == {
        "_KEY_k": StatsMode(ModeKind.TRUNCATE, 128), "_SEQUENCE_NUMBER": StatsMode(ModeKind.TRUNCATE, 128),
        "_VALUE_KIND": StatsMode(ModeKind.TRUNCATE, 128), "k": StatsMode(ModeKind.TRUNCATE, 16),
        "v": StatsMode(ModeKind.TRUNCATE, 16),
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"metadata.stats-mode.*'some'"):
        assert spec({"metadata.stats-mode": "some"}).modes


def test_thin_mode_is_for_keyed_tables() -> None:
    thin = {"data-file.thin-mode": "true"}
    assert [f.name for f in spec(thin).fields] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    assert spec(thin).modes["k"] == StatsMode(ModeKind.TRUNCATE, 128)
    append = spec(thin, keys=())
    assert not append.thin
    assert [f.name for f in append.fields] == ["k", "v"]


@pytest.mark.parametrize(
    ("options", "changelog"), [({"file.format": "orc"}, False), ({"changelog-file.format": "avro"}, True)]
)
def test_other_formats_are_refused(options: dict[str, str], changelog: bool) -> None:
    with pytest.raises(UnsupportedError, match=next(iter(options.values()))):
        spec(options, changelog=changelog).check_format()
    spec({"file.format": "PARQUET"}).check_format()


def test_a_schema_has_one_of_each_kind_also_when_it_travels() -> None:
    schema = table_schema(COLUMNS, ("k",), {"file.format.per.level": "5:orc"})
    found = WriteSpec.of(schema, 0, FileSource.APPEND, changelog=False)
    assert WriteSpec.of(schema, 0, FileSource.APPEND, changelog=False) is found
    assert WriteSpec.of(schema, 0, FileSource.COMPACT, changelog=False).file_source is FileSource.COMPACT
    assert WriteSpec.of(schema, 0, FileSource.APPEND, changelog=True).changelog
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="orc"):
            WriteSpec.of(schema, 5, FileSource.COMPACT, changelog=False)
    assert ([f.name for f, _ in found.reduced], found.keys_in_front) == (["v"], (2,))
    settings = found.settings
    copy = pickle.loads(pickle.dumps(schema))
    assert WriteSpec.of(copy, 0, FileSource.APPEND, changelog=False).settings == settings
