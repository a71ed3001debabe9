"""LIKE patterns as predicates."""

from __future__ import annotations

from lakeidx.errors import InvalidInputError
from lakeidx.predicate.tree import Match, MatchKind, Predicate


def like_predicate(column: str, pattern: str, *, escape: str = "\\", map_key: str | None = None) -> Predicate:
    """Build ``column LIKE pattern`` as the simplest test that means the same: a prefix, suffix or part, or the pattern itself
    (which `bind` makes an equality when it has no wildcards).

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
        normal.append(like_text(c))
        parts[-1] = (parts[-1] or "") + c
    shape = [p for p in parts if p != ""]
    if plain and shape == [None]:
        return Match(column, MatchKind.PREFIX, "", map_key=map_key)
    for kind, form in ((MatchKind.PREFIX, 1), (MatchKind.SUFFIX, 2), (MatchKind.CONTAINS, 3)):
        wanted = ([None] if form & 2 else []) + ["x"] + ([None] if form & 1 else [])
        if plain and [p and "x" for p in shape] == wanted:
            return Match(column, kind, next(p for p in shape if p is not None), map_key=map_key)
    return Match(column, MatchKind.LIKE, "".join(normal), map_key=map_key)


def like_text(text: str) -> str:
    """Return the pattern that only one text matches."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def like_prefix(pattern: str) -> tuple[str, bool]:
    """Return the literal start of every text that matches a pattern of a `Match`, and whether only it matches."""
    prefix: list[str] = []
    characters = iter(pattern)
    for c in characters:
        if c in "%_":
            return "".join(prefix), False
        prefix.append(next(characters) if c == "\\" else c)
    return "".join(prefix), True
