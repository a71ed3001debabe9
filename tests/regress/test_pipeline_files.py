"""Pipeline files and the Makefile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import parse_pipeline
from lakeidx.pipeline_file.yaml_lines import parse_yaml, resolve_references

# `${NAME}` in a description, a tag or a column of a pipeline file showed any variable of the process in the UI.

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


# ``${A:-${B}}`` in a pipeline file: the first brace ended it, and ``${B}`` was a folder. A shell is the judge of what it means.

W, L = "LAKEIDX_WAREHOUSE", "LAKEIDX_LANDING"
TEXTS = [
    "${W}", "a${W}b", "${W:-x}", "${W:-}", "${W:-${L}}", "${W:-${L:-deep}}/t", "${W:-a${L:-b${W:-c}d}e}f", "${W:-${L}}${L:-${W}}",
    "${W:-s3://b/p}", "${W:-{x}}", "}${W:-y}{", "plain", "{}", "100%", "a$", "$$", "${W:-$}", "é${W:-ü${L}}",
]  # fmt: skip
ENVIRONMENTS = [{W: "/w", L: "/l"}, {W: "", L: "/l"}, {L: "/l"}, {W: "/w", L: ""}]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_defaults_are_those_of_a_shell(environment: dict[str, str]) -> None:
    texts = [re.sub(r"\$\{([WL])", lambda m: f"${{{W if m[1] == 'W' else L}", t) for t in TEXTS]
    # Where a shell has "" for a variable that is not set, a pipeline file is refused.
    texts = [t for t in texts if W in environment or not re.search(rf"(^|a)\$\{{{W}\}}", t)]
    script = "".join(f'printf "%s\\n" "{t}"\n' for t in texts if t != "$$")
    wanted = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    found = [parse_yaml(f'warehouse: "{t}"', path="p", environment=environment) for t in texts if t != "$$"]
    assert [d.value["warehouse"] for d in found] == wanted.splitlines()
    assert not any(d.problems for d in found)
    values, problems = resolve_references({"warehouse": texts[4]}, environment=environment)
    assert (values, problems) == ({"warehouse": found[4].value["warehouse"]}, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${LAKEIDX_WAREHOUSE-x}", "${LAKEIDX_WAREHOUSE-x} is not replaced: write ${NAME} or ${NAME:-default}"),
        ("${LAKEIDX_WAREHOUSE:?no}", "${LAKEIDX_WAREHOUSE:?no} is not replaced"),
        ("${}", "${} is not replaced"),
        ("${LAKEIDX_WAREHOUSE", "${LAKEIDX_WAREHOUSE is not replaced"),
        ("$LAKEIDX_WAREHOUSE/x", "$LAKEIDX_WAREHOUSE is not replaced"),
        ("${LAKEIDX_WAREHOUSE:-${LAKEIDX_LANDING}", "lacks a closing brace"),
        ("${LAKEIDX_WAREHOUSE:-${LAKEIDX_LANDING}}", "the environment variable LAKEIDX_LANDING is not set"),
        ("${LAKEIDX_WAREHOUSE:-${AWS_SECRET_ACCESS_KEY}}", "AWS_SECRET_ACCESS_KEY is not open to pipeline files"),
    ],
)
def test_other_forms_are_refused_in_a_line(text: str, words: str) -> None:
    document = parse_yaml(f'table: a.b\nwarehouse: "{text}"', path="p", environment={"AWS_SECRET_ACCESS_KEY": "secret"})
    assert [line for line, _ in document.problems] == [2]
    assert words in document.problems[0][1]
    assert "secret" not in document.value["warehouse"]


def test_dollars_elsewhere_stay() -> None:
    text = "description: costs $5, ${5}\noptions: {partition.timestamp-pattern: $dt}"
    document = parse_yaml(text, path="p", environment={})
    assert document.value == {"description": "costs $5, ${5}", "options": {"partition.timestamp-pattern": "$dt"}}
    assert document.problems == []


# `make ui-demo` had lost its rule to an edit, and `make demo` had two recipes: make took the later one and only warned.

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TASKS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE).group(1).split()  # type: ignore[union-attr]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_one_rule(task: str) -> None:
    done = subprocess.run(["make", "--dry-run", task], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_task_is_declared_and_listed_once() -> None:
    # A variable of one task stands behind its name, too.
    found = re.findall(r"^([a-z][a-z-]*):(.*)$", MAKEFILE, re.MULTILINE)
    rules = [task for task, rest in found if " := " not in rest and " ?= " not in rest]
    assert sorted(rules) == sorted(TASKS)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  make ([a-z-]+) ", listed, re.MULTILINE)
    assert names == [task for task in rules if task != "install-dev"], "a task without a text behind ##"
