from __future__ import annotations

import os

import pytest

from lakeidx.storage.fsync import directory_of


@pytest.mark.parametrize("path", ["/lake/t/schema-0", "/schema-0", "t/schema-0", "schema-0", "./schema-0"])
def test_the_directory_of_a_file_is_that_of_the_standard_library(path: str) -> None:
    assert directory_of(path) == (os.path.dirname(path) or ".")
