"""Names that are loaded when they are requested: what is said of those that are not there."""

from __future__ import annotations

import math

import pytest

from lakeidx import lazy_names

NEEDS = ("nowhere_to_be_found", "install the extra")


def test_a_name_is_taken_from_its_module() -> None:
    assert lazy_names("package", {"pi": "math"})("pi") == math.pi


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'tau'"):
        lazy_names("package", {"pi": "math"})("tau")


def test_a_library_that_is_not_installed_is_said_with_its_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="install the extra") as error:
        lazy_names("package", {"it": "nowhere_to_be_found"}, needs=NEEDS)("it")
    assert error.value.name == "nowhere_to_be_found"


def test_another_missing_module_is_said_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'nor_this'"):
        lazy_names("package", {"it": "nor_this"}, needs=NEEDS)("it")
