"""Which files of the landing folder are a pipeline's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import landing_files, unplaced_files
from lakeidx.storage import open_store


def pipeline(path: Path | str) -> PipelineConfig:
    fields = [{"name": "k", "type": "BIGINT"}]
    return PipelineConfig.model_validate(
        {"table": "d.t", "warehouse": "/lake", "landing": {"path": str(path)}, "fields": fields}
    )


def test_a_path_that_is_a_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("k\n1\n")
    assert [f.name for f in landing_files(open_store(str(tmp_path)), pipeline(tmp_path))] == ["a.csv"]
    for path in (str(file), f"{file}/"):
        for listing in (landing_files, unplaced_files):
            with pytest.raises(InvalidInputError, match=r"a\.csv/?: landing\.path is a file: .*landing\.pattern$"):
                listing(open_store(path), pipeline(path))


def test_a_folder_that_is_empty_or_not_there_yet_lists_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "later"):
        assert landing_files(open_store(str(path)), pipeline(path)) == []
