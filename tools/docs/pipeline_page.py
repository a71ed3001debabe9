"""The reference page of pipeline files: every key of the pydantic model."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakeidx.pipeline_file.model import PipelineConfig
from tools.docs.docstrings import cell, first_line, rows_of, table


def pipeline_page() -> str:
    """Return the page as Markdown."""
    parts = [
        "# Keys of a pipeline file",
        "One YAML file describes one table and how it is kept; [the guide](../pipelines.md) shows one. `${NAME}` and "
        "`${NAME:-default}` are taken from the environment, in paths and options only. Unknown keys are errors.",
    ]
    for path, model in models("", PipelineConfig):
        title = f"`{path}`" if path else "The file"
        rows = (
            (f"`{path + '.' if path else ''}{name}`", cell(type_text(field)), default_text(field), cell(text))
            for name, field, text in fields(model)
        )
        parts += [f"## {title}", first_line(model.__doc__), table(("key", "type", "default", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def models(path: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """List (key path, model) of the file and of every mapping in it."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            many = get_origin(field.annotation) is tuple
            yield from models(f"{path + '.' if path else ''}{field.alias or name}{'[]' if many else ''}", inner)


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo, str]]:
    """List (key, field, meaning) of a model; meanings are the rows of its docstring."""
    meanings = rows_of(model.__doc__)
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        text = meanings.get(field.alias or name) or (first_line(inner.__doc__) if inner else "")
        if not text:
            raise AssertionError(f"{model.__name__}.{field.alias or name} has no row in the docstring of its class")
        yield field.alias or name, field, text


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field holds, alone or in a sequence."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is tuple:
        return _model_in(get_args(annotation)[0])
    return None


def type_text(field: FieldInfo) -> str:
    """Return the type in words of YAML."""
    return _words(field.annotation)


def _words(annotation: Any) -> str:
    plain = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any"}
    if annotation in plain:
        return plain[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return " | ".join(f"`{a}`" for a in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(a) for a in arguments if a is not type(None))
    if origin is tuple:
        return f"list of {_words(arguments[0])}"
    return "mapping"


def default_text(field: FieldInfo) -> str:
    """Return the default as YAML writes it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        return "see below"
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"
