"""YAML with line numbers: values as plain Python, the line of every key, and ``${NAME}`` taken from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lakeidx.errors import InvalidInputError
from lakeidx.storage.landing_folders import SECRET_NAMES

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<then>\}|:-)")
#: What a shell would read as a reference, and nothing here does; options may have the names of columns, as ``$dt``.
_OTHER_REFERENCE = re.compile(r"\$\{[^}]*\}?|\$[A-Za-z_][A-Za-z0-9_]*")
Path = tuple[str | int, ...]

#: Names of variables that pipeline files may use besides those of `_OPEN_NAMES`, separated by commas.
_ALLOWED_VARIABLES = "LAKEIDX_PIPELINE_VARIABLES"
_OPEN_NAMES = ("LAKEIDX_WAREHOUSE", "LAKEIDX_LANDING", "LAKEIDX_BRANCH", "DAGSTER_CLOUD_GIT_BRANCH")
#: Where a reference may stand: what a deployment changes. Descriptions, tags and columns are shown to everybody.
_OPEN_PLACES = (
    ("warehouse",),
    ("branch",),
    ("landing", "path"),
    ("landing", "pattern"),
    ("landing", "events", "url"),
    ("data_docs",),
)
_OPEN_WORDS = (
    "warehouse, landing.path, landing.pattern, landing.events.url, landing.storage_options, branch, data_docs, alerts and "
    "options"
)
_OPTIONS = "options"
_STORAGE = ("landing", "storage_options")
_ALERTS = "alerts"
#: Values of one file; aliases of aliases could make a small file endless.
_MOST_VALUES = 100_000


@dataclass(slots=True)
class YamlDocument:
    """A parsed file.

    value      dicts, lists and scalars
    lines      where each value stands, by its path of keys and positions; lines count from 1
    problems   (line, what): keys that come twice, references that cannot be resolved or may not stand there
    """

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Return the line of a value, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(text: str, *, path: str, environment: Mapping[str, str] | None = None) -> YamlDocument:
    """Parse a YAML file; of a component's ``defs.yaml`` the attributes.

    ``${NAME}`` and ``${NAME:-default}`` are looked up in the places that `_OPEN_WORDS` names, and nowhere else. As in a shell the
    default stands for an empty variable, too, and may have references of its own. NAME begins with LAKEIDX_WAREHOUSE or
    LAKEIDX_LANDING, or is listed in LAKEIDX_PIPELINE_VARIABLES. So whoever may write a pipeline file cannot read other variables of
    the process, secrets among them.

    environment   where variables are looked up; None = os.environ
    errors        InvalidInputError naming file and line when it is not YAML; lesser problems are in the document
    """
    variables = os.environ if environment is None else environment
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = YamlDocument({})
        attributes = _attributes(node)
        if attributes is not None:
            node = attributes
            document.problems += _templates(node)
        if node is not None:
            document.value = _Builder(document, variables).build(node, ())
        return document
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise InvalidInputError(f"line {line}: not YAML: {getattr(error, 'problem', error)}", path=path) from error
    except RecursionError as error:
        raise InvalidInputError("line 1: nested too deep", path=path) from error


def _attributes(node: yaml.Node | None) -> yaml.Node | None:
    """Return the pipeline in a component's file: its attributes without `resources`; None for other files."""
    if not isinstance(node, yaml.MappingNode):
        return None
    found = {str(key.value): value for key, value in node.value}
    attributes = found.get("attributes")
    if "type" not in found or not isinstance(attributes, yaml.MappingNode):
        return None
    attributes.value = [(key, value) for key, value in attributes.value if key.value != "resources"]
    return attributes


def _templates(node: yaml.Node) -> Iterator[tuple[int, str]]:
    """Yield the templates of a component's file."""
    if isinstance(node, yaml.ScalarNode):
        if "{{" in node.value:
            yield node.start_mark.line + 1, "{{ }} is filled in by dg alone; write ${NAME}, which is read here, too"
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            yield from _templates(part)


def resolve_references(
    value: Any, *, environment: Mapping[str, str] | None = None
) -> tuple[Any, list[tuple[Path, str]]]:
    """Replace ``${NAME}`` in values that were parsed elsewhere, by the rules of `parse_yaml`.

    returns   the values, and what cannot be resolved: (where, what)
    """
    builder = _Builder(YamlDocument({}), os.environ if environment is None else environment)
    problems: list[tuple[Path, str]] = []

    def walk(item: Any, at: Path) -> Any:
        if isinstance(item, Mapping):
            return {key: walk(child, (*at, str(key))) for key, child in item.items()}
        if isinstance(item, (list, tuple)):
            return [walk(child, (*at, i)) for i, child in enumerate(item)]
        if not isinstance(item, str):
            return item
        return builder.fill(item, at, lambda text: problems.append((at, text)))

    return walk(value, ()), problems


class _Builder:
    """Turns YAML nodes into values, noting lines and problems."""

    def __init__(self, document: YamlDocument, variables: Mapping[str, str]) -> None:
        self._document = document
        self._variables = variables
        listed = variables.get(_ALLOWED_VARIABLES, "").split(",")
        self._allowed = {name.strip() for name in listed}
        self._values = 0

    def build(self, node: yaml.Node, at: Path) -> Any:
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES} values")
        self._document.lines.setdefault(at, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*at, i)) for i, child in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:str":
            return self.fill(node.value, at, lambda text: self._document.problems.append((line, text)))
        return yaml.SafeLoader("").construct_object(node)

    def _mapping(self, node: yaml.MappingNode, at: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in out:
                self._document.problems.append((line, f"duplicate key {key!r}"))
                continue
            self._document.lines[(*at, key)] = line
            out[key] = self.build(value_node, (*at, key))
        return out

    def fill(self, text: str, at: Path, report: Callable[[str], None]) -> str:
        """Replace the references of a text; what cannot be replaced is reported."""
        return self._fill(text, 0, at, report, inside=False)[0] if "$" in text else text

    def _fill(self, text: str, start: int, at: Path, report: Callable[[str], None], *, inside: bool) -> tuple[str, int]:
        """Return the text from a place on with its references replaced, and where it ends; `inside` a default, after its brace,
        which lies beyond the text where there is none.
        """
        out: list[str] = []
        here = start
        while here < len(text):
            if inside and text[here] == "}":
                return "".join(out), here + 1
            found, other = _REFERENCE.match(text, here), _OTHER_REFERENCE.match(text, here)
            if found is not None:
                value, here = self._value(found, at, report)
                out.append(value)
                continue
            if other is not None and (at in _OPEN_PLACES or (_is_open(at) and other[0].startswith("${"))):
                report(f"{other[0]} is not replaced: write ${{NAME}} or ${{NAME:-default}}")
            end = here + 1 if other is None else other.end()
            out.append(text[here:end])
            here = end
        return "".join(out), here + inside

    def _value(self, found: re.Match[str], at: Path, report: Callable[[str], None]) -> tuple[str, int]:
        """Return the value of a reference, and where it ends; one that cannot be resolved is reported."""
        name, default, end = found["name"], None, found.end()
        in_default: list[str] = []
        if found["then"] == ":-":
            default, end = self._fill(found.string, end, at, in_default.append, inside=True)
            if end > len(found.string):
                report(f"{found.string} lacks a closing brace")
                return name, end
        if not _is_open(at):
            problem = f"${{{name}}} is allowed in {_OPEN_WORDS} only"
        elif (at[:2] == _STORAGE or at[0] == _ALERTS) and name.startswith(SECRET_NAMES) and default is None:
            # Looked up where landing files are read or alerts are sent, so that no page, log or job's arguments show it.
            return found[0], end
        elif not name.startswith(_OPEN_NAMES) and name not in self._allowed:
            problem = (
                f"the variable {name} is not open to pipeline files: use a name that begins with LAKEIDX_WAREHOUSE or "
                f"LAKEIDX_LANDING, or list it in {_ALLOWED_VARIABLES}; never one that holds a secret"
            )
        else:
            value = self._variables.get(name)
            if default is not None and not value:
                for text in in_default:
                    report(text)
                return default, end
            if value is not None:
                return value, end
            problem = f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}"
        report(problem)
        # Keeps the value a text that nothing else is said about.
        return name, end


def _is_open(at: Path) -> bool:
    return at in _OPEN_PLACES or at[:2] == _STORAGE or at[:1] == (_ALERTS,) or (len(at) == 2 and at[0] == _OPTIONS)
