"""LIKE patterns as predicates."""

from __future__ import annotations

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.tree import Compare, Match, MatchKind, Op, Predicate


def like_predicate(column: str, pattern: str, *, escape: str = "\\", map_key: str | None = None) -> Predicate:
    """Build ``column LIKE pattern`` as the simplest test that means the same: equality, a prefix, suffix or part, or
    the pattern itself.

    errors  InvalidInputError when the pattern ends in the escape character
    """
    parts: list[str | None] = [""]  # literal pieces, None for '%'
    plain = True
    normal = []
    characters = iter(pattern)
    for c in characters:
        if c == escape:
            c = next(characters, "")
            if not c:
                raise InvalidInputError(f"column {column!r}: the LIKE pattern {pattern!r} ends in its escape character")
        elif c == "%":
            normal.append("%")
            parts += [None, ""]
            continue
        elif c == "_":
            normal.append("_")
            plain = False
            continue
        normal.append("\\" + c if c in "%_\\" else c)
        parts[-1] = (parts[-1] or "") + c
    shape = [p for p in parts if p != ""]
    if plain and len(shape) <= 1 and None not in shape:
        return Compare(column, Op.EQ, shape[0] if shape else "", map_key)
    if plain and shape == [None]:
        return Match(column, MatchKind.PREFIX, "", map_key=map_key)
    for kind, form in ((MatchKind.PREFIX, 1), (MatchKind.SUFFIX, 2), (MatchKind.CONTAINS, 3)):
        wanted = ([None] if form & 2 else []) + ["x"] + ([None] if form & 1 else [])
        if plain and [p and "x" for p in shape] == wanted:
            return Match(column, kind, next(p for p in shape if p is not None), map_key=map_key)
    return Match(column, MatchKind.LIKE, "".join(normal), map_key=map_key)
