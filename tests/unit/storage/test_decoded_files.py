"""Decoded files that a process keeps: the least recently used go first, one may be above the bound."""

from __future__ import annotations

from lakeidx.storage.decoded_files import Decoded, DecodedFiles


def kept(files: DecodedFiles) -> list[str]:
    return [name for name in "abcd" if name in files]


def test_the_least_recently_used_file_goes_first() -> None:
    files = DecodedFiles(10)
    for name in "abc":
        files.keep(name, Decoded(name.upper(), 1, 4))
        found = files.find("a")
        assert found is not None
        assert found.value == "A"
    assert (kept(files), files.nbytes) == (["a", "c"], 8)
    assert files.find("b") is None


def test_a_file_is_kept_once() -> None:
    files = DecodedFiles(10)
    first = Decoded("first", 1, 4)
    files.keep("a", first)
    files.keep("a", Decoded("again", 2, 4))
    assert (files.find("a"), files.nbytes) == (first, 4)


def test_a_file_above_the_bound_is_alone() -> None:
    files = DecodedFiles(10)
    files.keep("a", Decoded(None, 1, 4))
    files.keep("b", Decoded(None, 1, 99))
    assert (kept(files), files.nbytes) == (["b"], 99)
    files.keep("c", Decoded(None, 1, 1))
    assert kept(files) == ["c"]
