"""Read the layers of the code: packages by layer, and the arrows between them that no other arrow implies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.arch.sources import MODULES
from tests.arch.test_layers import LAYERS

Edge = tuple[str, str]
PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"

#: Imports of own modules, one a line as the formatter leaves them. Parsing 450 files takes some seconds, reading them a
#: tenth of one; tests/docs compares the two.
_IMPORT = re.compile(r"^ *(?:from|import) ((?:lakeidx|dagster_project)(?:\.\w+)*)(?: import | as |$)", re.MULTILINE)
_DOCSTRING = re.compile(r'"""[\s\S]*?"""')
_TYPING_ONLY = re.compile(r"^( *)if TYPE_CHECKING:\n(?:\1 +.*\n|\n)+", re.MULTILINE)


def package_of(module: str) -> str | None:
    """Return the longest prefix of a module that has a layer."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in LAYERS), None)


def own_imports(file: Path) -> set[str]:
    """List the modules of the project that a file imports when it runs."""
    code = _DOCSTRING.sub("", file.read_text(encoding="utf-8"))
    return set(_IMPORT.findall(_TYPING_ONLY.sub("", code)))


def import_edges() -> set[Edge]:
    """Yield (importing package, imported package) of every import in the product."""
    found = {(package_of(name), package_of(m)) for name, file in MODULES.items() for m in own_imports(file)}
    return {(a, b) for a, b in found if a is not None and b is not None and a != b}


def reduced(edges: Iterable[Edge]) -> list[Edge]:
    """Drop the edges that a longer way implies; sorted. The graph has no cycle."""
    following: dict[str, set[str]] = {}
    for a, b in edges:
        following.setdefault(a, set()).add(b)

    def reachable(start: str, without: str) -> set[str]:
        seen: set[str] = set()
        todo = [x for x in following.get(start, ()) if x != without]
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                todo.extend(following.get(node, ()))
        return seen

    return sorted((a, b) for a in following for b in following[a] if b not in reachable(a, b))


def rows(layers: Mapping[str, int], edges: Iterable[Edge]) -> list[tuple[int, list[str]]]:
    """List (layer, packages) from the highest layer down; a layer whose packages import one another takes several rows."""
    depth = dict.fromkeys(layers, 0)
    inner = [(a, b) for a, b in edges if layers[a] == layers[b]]
    for _ in inner:
        for a, b in inner:
            depth[a] = max(depth[a], depth[b] + 1)
    places = sorted({(layers[p], depth[p]) for p in layers}, reverse=True)
    return [(layer, sorted(p for p in layers if (layers[p], depth[p]) == (layer, d))) for layer, d in places]


def layer_texts(page: str) -> dict[int, tuple[set[str], str]]:
    """Read layer -> (its packages, what they are for) from the table of CONTRIBUTING.md."""
    out: dict[int, tuple[set[str], str]] = {}
    for line in re.findall(r"^\| ([\d, ]+) \| (`.*`) \| (.*) \|$", page, re.MULTILINE):
        numbers = [int(n) for n in line[0].split(",")]
        names = re.findall(r"`([\w.]+)`", line[1])
        share = [names] if len(numbers) == 1 else [[n] for n in names]
        texts = [line[2]] if len(numbers) == 1 else line[2].split("; ")
        for number, group, text in zip(numbers, share, texts, strict=True):
            out[number] = set(group), text
    return out
