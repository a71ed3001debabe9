"""``${A:-${B}}`` in a pipeline file: the first brace ended it, and ``${B}`` was a folder. A shell is the judge of what it means."""

from __future__ import annotations

import re
import subprocess

import pytest

from lakeidx.pipeline_file.yaml_lines import parse_yaml, resolve_references

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
