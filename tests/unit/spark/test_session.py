"""Settings of sessions that lakeidx makes: those of one process only where there is one process."""

from __future__ import annotations

import pytest

from lakeidx.spark.session import default_settings

ADDRESS = {"spark.driver.host", "spark.driver.bindAddress"}


@pytest.mark.parametrize(
    ("master", "submitted", "local"),
    [
        (None, False, True),
        ("local", False, True),
        ("local[*]", False, True),
        (None, True, False),
        ("spark://m:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://api", False, False),
    ],
)
def test_the_address_of_the_driver_is_set_only_where_all_is_one_process(
    master: str | None, submitted: bool, local: bool
) -> None:
    settings = default_settings(master, submitted=submitted)
    assert (set(settings) & ADDRESS) == (ADDRESS if local else set())
    assert settings["spark.sql.adaptive.enabled"] == "false"
