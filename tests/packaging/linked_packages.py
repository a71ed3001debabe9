"""What an installed distribution needs, linked from the environment of the tests: the same files that pip would unpack, in no time.

Only what the requirements name is there. A requirement whose marker or version does not hold is not met, as with pip.
"""

from __future__ import annotations

import csv
import sysconfig
from collections import defaultdict, deque
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_OWN = Path(sysconfig.get_path("purelib"))


def link_requirements(name: str, site: Path) -> set[str]:
    """Link what a distribution in a folder of packages needs into that folder; give the names of what was linked.

    errors   AssertionError for a requirement that the environment of the tests does not meet
    """
    (root,) = distributions(name=name, path=[str(site)])
    needed = dict[str, Distribution]()
    waiting = deque(_required(root, ()))
    seen = set[tuple[str, frozenset[str]]]()
    while waiting:
        requirement = waiting.popleft()
        key = canonicalize_name(requirement.name)
        found = distribution(key)
        assert requirement.specifier.contains(found.version, prereleases=True), (
            f"{requirement}: {found.version} is here"
        )
        needed[key] = found
        if (key, frozenset(requirement.extras)) not in seen:
            seen.add((key, frozenset(requirement.extras)))
            waiting.extend(_required(found, tuple(requirement.extras)))
    owners = _owners()
    for found in needed.values():
        for place in _places(found, owners):
            link = site / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(_OWN / place)
    return set(needed)


def _required(of: Distribution, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Requirements whose markers hold, here and with some extras."""
    for text in of.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in (*extras, "")):
            yield requirement


def _files(of: Distribution) -> Iterator[str]:
    """Files among the packages; commands and manual pages lie elsewhere."""
    names = (row[0] for row in csv.reader((of.read_text("RECORD") or "").splitlines()))
    return (name for name in names if not name.startswith(("../", "__pycache__/", "/")))


def _owners() -> dict[str, set[Distribution]]:
    """Distributions by each name at the top of the packages: a namespace has several."""
    out = defaultdict[str, set[Distribution]](set)
    for each in distributions(path=[str(_OWN)]):
        for top in {file.partition("/")[0] for file in _files(each)}:
            out[top].add(each)
    return out


def _places(of: Distribution, owners: dict[str, set[Distribution]]) -> set[str]:
    """What to link of a distribution: whole folders, where it is alone in them."""
    split = ((file.partition("/")[0], file) for file in _files(of))
    return {top if len(owners[top]) == 1 else file for top, file in split}
