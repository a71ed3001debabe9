"""Which files of the landing folder are a pipeline's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import landing_files, list_landing
from lakeidx.storage import open_store


def pipeline(path: Path | str, **landing: object) -> PipelineConfig:
    fields = [{"name": "k", "type": "BIGINT"}]
    return PipelineConfig.model_validate(
        {"table": "d.t", "warehouse": "/lake", "landing": {"path": str(path), **landing}, "fields": fields}
    )


def test_a_path_that_is_a_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("k\n1\n")
    assert [f.name for f in list_landing(open_store(str(tmp_path)), pipeline(tmp_path))] == ["a.csv"]
    for path in (str(file), f"{file}/"):
        with pytest.raises(InvalidInputError, match=r"a\.csv/?: a file, not a folder: name the folder that it is in$"):
            list_landing(open_store(path), pipeline(path))


def test_a_folder_that_is_empty_lists_nothing_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert list_landing(open_store(str(tmp_path)), pipeline(tmp_path)) == []
    gone = tmp_path / "unmounted"
    with pytest.raises(NotFoundError, match="unmounted: the folder does not exist: is it mounted"):
        list_landing(open_store(str(gone)), pipeline(gone))


def test_files_that_are_named_are_asked_with_their_markers(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.done", "b.csv", "c.csv", "c.csv.done", "other"):
        (tmp_path / name).write_text("")
    store = open_store(str(tmp_path))
    plain, marked = pipeline(tmp_path), pipeline(tmp_path, success_marker=".done")
    assert [f.name for f in list_landing(store, plain, ["b.csv", "a.csv", "gone"])] == ["a.csv", "b.csv"]
    listed = list_landing(store, marked, ["a.csv", "b.csv", "c.csv.done"])
    assert [f.name for f in landing_files(listed, marked)] == ["a.csv", "c.csv"]
