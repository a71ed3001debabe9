"""Problems of a pipeline file: each with its line, not only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from lakeidx.errors import InvalidInputError, UnsupportedError, did_you_mean
from lakeidx.pipeline_file.yaml_lines import YamlDocument
from lakeidx.types import parse_type


class PipelineFileError(InvalidInputError):
    """A pipeline file cannot be used.

    problems   each as one line that begins with the line in the file, by that line
    """

    def __init__(self, message: str, *, problems: Sequence[str] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.problems = tuple(problems) or (message,)


def fail(problems: Iterable[tuple[int, str]], path: str) -> PipelineFileError:
    """Make the error of a file with these (line, problem) pairs; each is named once."""
    lines = list(dict.fromkeys(f"line {line}: {text}" for line, text in sorted(problems)))
    return PipelineFileError("; ".join(lines), path=path, problems=lines)


def model_problems(error: ValidationError, document: YamlDocument, model: type[BaseModel]) -> Iterator[tuple[int, str]]:
    """List what the model of the file does not accept; an unknown key with the nearest known one."""
    for found in error.errors(include_input=False, include_url=False):
        where = tuple(p for p in found["loc"] if isinstance(p, (str, int)))
        name = ".".join(map(str, where)) or "the file"
        message = {
            "extra_forbidden": f"unknown key {name!r}{_nearest(where, model)}",
            "missing": f"{name!r} is missing",
        }.get(found["type"], f"{name}: {found['msg'].removeprefix('Value error, ')}")
        yield document.line(where), message


def _nearest(where: Sequence[str | int], model: type[BaseModel]) -> str:
    for part in where[:-1]:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field is not None else None
        if isinstance(part, int) or not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ""
        model = inner
    if not where:
        return ""
    known = [f.alias or name for name, f in model.model_fields.items()]
    return f"; {did_you_mean(str(where[-1]), known)}"


def column_problems(document: YamlDocument) -> Iterator[tuple[int, str]]:
    """Return the columns whose type cannot be read."""
    fields = document.value.get("fields")
    for i, column in enumerate(fields if isinstance(fields, list) else ()):
        if not isinstance(column, dict) or not isinstance(column.get("type"), (str, dict)):
            continue
        try:
            parse_type(column["type"], where=f"column {column.get('name')!r}")
        except InvalidInputError as error:
            yield document.line(("fields", i)), str(error)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            yield document.line(("fields", i)), f"column {column.get('name')!r}: cannot read the type"


def schema_problems(document: YamlDocument, checks: Iterable[Callable[[], object]]) -> Iterator[tuple[int, str]]:
    """List what some checks of the table's schema and options refuse, each check its first problem."""
    for check in checks:
        try:
            check()
        except (InvalidInputError, UnsupportedError) as error:
            yield _schema_line(document.value, document, str(error)), str(error)


def _schema_line(value: Mapping[str, Any], document: YamlDocument, message: str) -> int:
    """Find the line of the column or option a schema error names."""
    for i, column in enumerate(value.get("fields", ())):
        if isinstance(column, dict) and f"{column.get('name')!r}" in message:
            return document.line(("fields", i))
    for key in value.get("options", {}):
        if key in message:
            return document.line(("options", key))
    for key in ("primaryKeys", "partitionKeys"):
        if any(f"{name!r}" in message for name in value.get(key, ())):
            return document.line((key,))
    return document.line(("fields",))
