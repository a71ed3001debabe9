"""Avro schemas: names resolved, types compared, the parts of a schema that decide how a record is written."""

from __future__ import annotations

import json
from itertools import count as numbers
from typing import Any

_MAX_SCHEMA_DEPTH = 32


_MAX_SCHEMA_NODES = 10_000


_MAX_FIXED_BYTES = 1 << 20


_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


_RECORDS_OF = frozenset({"record", "error"})


_NAMED = _RECORDS_OF | {"enum", "fixed"}


#: What the type of their items is called.
_ITEMS = {"array": "items", "map": "values"}


def resolved_schema(writer: bytes) -> Any:
    """Return a writer's schema with each named type where it is used, so that any part of it can be taken for itself.

    Records, enumerations and fixed types get names that occur once.
    errors   ValueError, KeyError or TypeError for what is no schema, and for types that hold themselves, which no table has
    """
    try:
        return Resolver(None).type_of(json.loads(writer), "", 0)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


def with_types_named(node: Any, name: str) -> Any:
    """Return a part of a resolved schema whose named types are called ``name``, ``name_2`` and so on, whatever they were called."""
    return Resolver(name).type_of(node, "", 0)


def plain_schema(writer: bytes) -> Any:
    """Return the schema of a writer's records, resolved, without logical types and whatever else does not change the bytes.

    errors   as `resolved_schema`; ValueError for a file of anything but records, or of none that take a byte
    """
    plain = _plain(resolved_schema(writer))
    tops = [branch for branch in plain if branch != "null"] if isinstance(plain, list) else [plain]
    if not tops or not all(isinstance(top, dict) and top["type"] == "record" for top in tops) or not _smallest(plain):
        raise ValueError("the top type is not a record")
    return plain


class Resolver:
    """Puts the definition of a named type in the place of its name."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._defined: dict[str, tuple[Any, str]] = {}
        self._open: set[str] = set()
        self._taken: set[str] = set()
        self._nodes = 0

    def type_of(self, node: Any, namespace: str, depth: int) -> Any:
        """Resolve a node of a schema whose names without a dot are of a namespace."""
        self._nodes += 1
        if depth > _MAX_SCHEMA_DEPTH or self._nodes > _MAX_SCHEMA_NODES:
            raise ValueError("nested too deeply")
        if isinstance(node, list):
            return [self.type_of(branch, namespace, depth + 1) for branch in node]
        kind = node["type"] if isinstance(node, dict) else node
        if isinstance(kind, (dict, list)):
            return self.type_of(kind, namespace, depth + 1)
        if kind in _PRIMITIVES:
            return node
        if kind in _NAMED:
            return self._named(node, namespace, depth)
        if kind in _ITEMS:
            item = self.type_of(node[_ITEMS[kind]], namespace, depth + 1)
            if kind == "array" and _smallest(item) == 0:
                # A damaged count of what takes no bytes would let a reader loop for ever.
                raise ValueError("the items of an array take no bytes")
            return {**node, _ITEMS[kind]: item}
        full = kind if "." in kind or not namespace else f"{namespace}.{kind}"
        full = full if full in self._defined else kind
        if full in self._open or full not in self._defined:
            raise ValueError(f"there is no type {kind!r}")
        return self._named(*self._defined[full], depth + 1)

    def _named(self, node: dict[str, Any], namespace: str, depth: int) -> dict[str, Any]:
        if not isinstance(node["name"], str):
            raise ValueError("a name is not text")
        if node["type"] == "fixed" and not 0 <= node["size"] <= _MAX_FIXED_BYTES:
            raise ValueError(f"a fixed type of {node['size']} bytes")
        space, _, short = node["name"].rpartition(".")
        space = space or node.get("namespace", namespace)
        full = f"{space}.{short}" if space else short
        self._defined[full] = (node, namespace)
        wanted = self._name or short
        name = next(n for i in numbers(1) if (n := wanted if i == 1 else f"{wanted}_{i}") not in self._taken)
        self._taken.add(name)
        out = {key: value for key, value in node.items() if key not in ("aliases", "namespace")} | {"name": name}
        if not self._open and "namespace" in node and not self._name:
            out["namespace"] = node["namespace"]
        if node["type"] not in _RECORDS_OF:
            return out
        self._open.add(full)
        out["fields"] = [{**f, "type": self.type_of(f["type"], space, depth + 1)} for f in node["fields"]]
        self._open.discard(full)
        return out


def _smallest(node: Any) -> int:
    """Return 0 when a value of a resolved type may take no bytes, else 1."""
    if isinstance(node, list):
        return 1
    kind = node["type"] if isinstance(node, dict) else node
    if kind in _RECORDS_OF:
        return max((_smallest(f["type"]) for f in node["fields"]), default=0)
    return min(1, node["size"]) if kind == "fixed" else int(kind != "null")


def _plain(node: Any) -> Any:
    """Strip a resolved schema of logical types, defaults and documentation."""
    if isinstance(node, list):
        return [_plain(branch) for branch in node]
    kind = node["type"] if isinstance(node, dict) else node
    if kind in _PRIMITIVES:
        return kind
    if kind in _ITEMS:
        return {"type": kind, _ITEMS[kind]: _plain(node[_ITEMS[kind]])}
    if kind in _RECORDS_OF:
        fields = [{"name": f["name"], "type": _plain(f["type"])} for f in node["fields"]]
        return {"type": "record", "name": node["name"], "fields": fields}
    return {key: node[key] for key in ("type", "name", "size", "symbols") if key in node}
