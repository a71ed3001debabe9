"""YAML with line numbers: values as plain Python, the line of every key, and ``${NAME}`` taken from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lakeidx.errors import InvalidInputError

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
Path = tuple[str | int, ...]


@dataclass(slots=True)
class YamlDocument:
    """A parsed file.

    value   dicts, lists and scalars
    lines   where each value stands, by its path of keys and positions; lines count from 1
    """

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Line of a value, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(text: str, *, path: str, environment: Mapping[str, str] | None = None) -> YamlDocument:
    """Parse a YAML file.

    environment   where ``${NAME}`` and ``${NAME:-default}`` are looked up; None = os.environ
    errors        InvalidInputError naming file and line: not YAML, a key twice, a variable that is not set
    """
    variables = os.environ if environment is None else environment
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise InvalidInputError(f"line {line}: not YAML: {getattr(error, 'problem', error)}", path=path) from error
    document = YamlDocument({})
    if node is not None:
        document.value = _build(node, (), document, path, variables)
    return document


def _build(node: yaml.Node, at: Path, document: YamlDocument, path: str, variables: Mapping[str, str]) -> Any:
    line = node.start_mark.line + 1
    document.lines.setdefault(at, line)
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            key_line = key_node.start_mark.line + 1
            if key in out:
                raise InvalidInputError(f"line {key_line}: the key {key!r} stands here a second time", path=path)
            document.lines[(*at, key)] = key_line
            out[key] = _build(value_node, (*at, key), document, path, variables)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_build(child, (*at, i), document, path, variables) for i, child in enumerate(node.value)]
    if node.tag == "tag:yaml.org,2002:str":
        return _expand(node.value, line, path, variables)
    return yaml.SafeLoader("").construct_object(node)


def _expand(text: str, line: int, path: str, variables: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        value = variables.get(name, default)
        if value is None:
            raise InvalidInputError(
                f"line {line}: the environment variable {name} is not set; set it, or write ${{{name}:-default}}",
                path=path,
            )
        return value

    return _REFERENCE.sub(replace, text)
