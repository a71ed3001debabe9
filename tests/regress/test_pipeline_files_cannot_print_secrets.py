"""`${NAME}` in a description, a tag or a column of a pipeline file showed any variable of the process in the UI."""

from __future__ import annotations

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import parse_pipeline

_SECRET = "wJalrXUtnFEMI"
_ENVIRONMENT = {"AWS_SECRET_ACCESS_KEY": _SECRET, "LAKEIDX_WAREHOUSE": "/lake", "LAKEIDX_SPARK_CONFIG": _SECRET}
_FILE = """\
table: d.t
warehouse: WAREHOUSE
description: DESCRIPTION
owners: [OWNER]
tags: {k: TAG}
landing: {path: LANDING, pattern: "*.csv", delimiter: DELIMITER}
fields:
  - {name: k, type: BIGINT, description: COLUMN}
primaryKeys: [k]
options: {bucket: "-1", dynamic-bucket.target-row-num: OPTION}
"""
_FINE = {
    "WAREHOUSE": "${LAKEIDX_WAREHOUSE}",
    "DESCRIPTION": "about",
    "OWNER": "team:a",
    "TAG": "v",
    "LANDING": "/in",
    "DELIMITER": '","',
    "COLUMN": "key",
    "OPTION": "7",
}


def _text(**changes: str) -> str:
    text = _FILE
    for name, value in {**_FINE, **changes}.items():
        text = text.replace(name, value, 1)
    return text


def test_open_variables_still_work() -> None:
    """The warehouse of a deployment."""
    assert parse_pipeline(_text(), path="p.yaml", environment=_ENVIRONMENT).warehouse == "/lake"


@pytest.mark.parametrize("place", sorted(_FINE))
@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "LAKEIDX_SPARK_CONFIG"])
def test_no_place_takes_a_secret(place: str, variable: str) -> None:
    """Refused with the line and the variable's name; its value is in no message."""
    with pytest.raises(InvalidInputError, match=variable) as caught:
        parse_pipeline(_text(**{place: f'"${{{variable}}}"'}), path="p.yaml", environment=_ENVIRONMENT)
    error: BaseException | None = caught.value
    while error is not None:
        assert _SECRET not in str(error)
        error = error.__cause__


@pytest.mark.parametrize("place", ["DESCRIPTION", "TAG", "COLUMN", "OWNER", "DELIMITER"])
def test_even_open_variables_stay_out_of_what_everybody_sees(place: str) -> None:
    """Only paths and options are a deployment's."""
    with pytest.raises(InvalidInputError, match=r"is allowed in warehouse, landing\.path"):
        parse_pipeline(_text(**{place: '"${LAKEIDX_WAREHOUSE}"'}), path="p.yaml", environment=_ENVIRONMENT)


def test_secrets_of_landing_folders_stay_references() -> None:
    """What is dumped for jobs and pages has the variable's name; it may stand nowhere else, and no other variable there."""
    environment = {**_ENVIRONMENT, "LAKEIDX_SECRET_SFTP": _SECRET}
    given = 'storage_options: {username: ada, password: "${PASSWORD}"}, pattern'
    text = _text().replace("pattern", given, 1)
    config = parse_pipeline(text.replace("PASSWORD", "LAKEIDX_SECRET_SFTP"), path="p.yaml", environment=environment)
    assert config.landing_options().storage_options == {"username": "ada", "password": "${LAKEIDX_SECRET_SFTP}"}
    assert _SECRET not in config.model_dump_json()
    for bad in (
        text.replace("PASSWORD", "AWS_SECRET_ACCESS_KEY"),
        text.replace("${PASSWORD}", _SECRET),
        _text(WAREHOUSE="${LAKEIDX_SECRET_SFTP}"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            parse_pipeline(bad, path="p.yaml", environment=environment)
        assert _SECRET not in str(caught.value)
