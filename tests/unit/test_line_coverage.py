"""The marks that measure the fast lane say what the interpreter's own tracing says."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.line_coverage import mark_blocks

SOURCE = '''"""A module."""

from __future__ import annotations

import math


def kernel(f):
    return f


class A:
    """Documented."""

    size: int = 3

    @property
    def twice(self):
        return self.size * 2


@kernel
def compiled(n):
    m = n
    return m


def walk(n):
    """Documented."""
    total = 0
    for i in range(n):
        if i == 1:
            continue
        elif i == 2:
            total += (
                i
                + 1
            )
        else:
            with open("/dev/null") as _:
                total += 1
    else:
        total += 2
    while total > 100:
        total = 0
    try:
        total += {}["missing"]
        total = -1
    except ValueError:
        total = -2
    except KeyError:
        total += 3
    finally:
        total += 4
    match total:
        case 0:
            return None
        case _:
            global seen
            seen = [x for x in range(3)]
    return math.floor(total)


def never():
    return 1


result = (walk(4), A().twice, compiled(1))
'''
#: What Numba compiles has no marks inside; the interpreter does not stop at a `global`.
UNCOUNTED = {SOURCE[: SOURCE.index(text)].count("\n") + 1 for text in ("m = n", "return m\n", "global seen")}
#: Where a docstring of a module or class stands is a line to the interpreter or not, by version.
TEXTS = {i for i, line in enumerate(SOURCE.splitlines(), 1) if line.strip().startswith('"""')}


def traced(run: Callable[[], Any]) -> set[int]:
    """The first lines of the statements that ran."""
    seen: set[int] = set()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != "<sample>":
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    begins = {line for node in ast.walk(ast.parse(SOURCE)) for line in _begins(node)}
    return seen & begins


def _begins(node: ast.AST) -> list[int]:
    if isinstance(node, ast.match_case):
        return [node.pattern.lineno]
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        return [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]
    return []


def test_marks_say_what_tracing_says() -> None:
    plain: dict[str, Any] = {}
    expected = traced(lambda: exec(compile(SOURCE, "<sample>", "exec"), plain))

    tree = ast.parse(SOURCE)
    mark_blocks(tree)
    marks = [0] * (SOURCE.count("\n") + 2)
    marked: dict[str, Any] = {"__lines_reached__": marks}
    exec(compile(tree, "<sample>", "exec"), marked)

    assert marked["result"] == plain["result"] == (14, 6, 1)
    assert marked["A"].__doc__ == "Documented."
    assert marked["walk"].__doc__ == "Documented."
    assert marked["compiled"].__code__.co_code == plain["compiled"].__code__.co_code
    found = {line for line, mark in enumerate(marks) if mark}
    assert found - UNCOUNTED - TEXTS == expected - UNCOUNTED - TEXTS
