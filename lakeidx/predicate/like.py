"""Texts that match a pattern: SQL's LIKE, and prefixes, suffixes and parts."""

from __future__ import annotations

import functools
import re

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


def match_may_match(leaf: Match, low: str | None, high: str | None) -> bool:
    """Return whether a file may hold a row that passes the leaf, given the least and greatest text it has, where known."""
    if low is not None and low == high:
        return matches(leaf, low)  # every value is this one
    prefix, whole = _known_prefix(leaf)
    if leaf.negated:
        # All values between two strings with the prefix have it, too.
        return not whole or low is None or high is None or not (low.startswith(prefix) and high.startswith(prefix))
    return (low is None or low[: len(prefix)] <= prefix) and (high is None or high[: len(prefix)] >= prefix)


def matches(leaf: Match, value: str) -> bool:
    """Return whether a string passes the leaf."""
    if leaf.kind is MatchKind.PREFIX:
        found = value.startswith(leaf.text)
    elif leaf.kind is MatchKind.SUFFIX:
        found = value.endswith(leaf.text)
    elif leaf.kind is MatchKind.CONTAINS:
        found = leaf.text in value
    else:
        found = _like_pattern(leaf.text).fullmatch(value) is not None
    return found != leaf.negated


@functools.lru_cache(maxsize=64)
def _like_pattern(text: str) -> re.Pattern[str]:
    wild = {"%": ".*", "_": "."}
    characters = iter(text)
    parts = [re.escape(next(characters)) if c == "\\" else wild.get(c) or re.escape(c) for c in characters]
    return re.compile("".join(parts), re.DOTALL)


def _known_prefix(leaf: Match) -> tuple[str, bool]:
    """Return the literal start of every matching string, and whether the match requires nothing else."""
    if leaf.kind is MatchKind.PREFIX:
        return leaf.text, True
    if leaf.kind is not MatchKind.LIKE:
        return "", leaf.text == ""
    return like_prefix(leaf.text)[0], False
