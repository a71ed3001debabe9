from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.storage import LocalStore


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOENT, NotFoundError),
        (errno.EACCES, InvalidInputError),
        (errno.EIO, UnavailableError),
        (errno.ENAMETOOLONG, InvalidInputError),
    ],
)
def test_errors_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(error) as caught:
        LocalStore().get("/x/y")
    assert caught.value.path == "/x/y"  # type: ignore[attr-defined]


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        LocalStore().put(str(tmp_path / ("x" * 300)), b"1")


def test_a_file_in_the_way_of_a_directory(tmp_path: Path) -> None:
    store = LocalStore()
    store.put(str(tmp_path / "f"), b"1")
    assert store.list(str(tmp_path / "f")) == []
    with pytest.raises(NotFoundError):
        store.get(str(tmp_path / "f" / "g"))
