"""``python -m lakeidx.dagster.move_pipelines FOLDER DEFS``: pipeline files become components of a project of `dg`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

import yaml

from lakeidx.errors import InvalidInputError, LakeIdxError

_HEAD = "type: lakeidx.dagster.PrimaryKeyTable\nattributes:\n"


def move_pipelines(folder: Path, defs: Path) -> list[Path]:
    """Move each ``NAME.yaml`` of a folder to ``NAME/defs.yaml`` below another one, its comments included.

    returns   the files that were made
    errors    InvalidInputError for a file that is not moved as it is, or a place that is taken; then nothing was moved
    """
    files = sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
    if not files:
        raise InvalidInputError("there are no pipeline files", path=str(folder))
    texts = {file: _component(file) for file in files}
    places = {file: defs / file.stem / "defs.yaml" for file in files}
    if len(set(places.values())) < len(files):
        raise InvalidInputError("two files differ only in their endings: rename one", path=str(folder))
    for place in places.values():
        if place.exists():
            raise InvalidInputError("the file exists already: remove it, or the pipeline file", path=str(place))
    for file, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(texts[file], encoding="utf-8")
    for file in files:
        file.unlink()
    return list(places.values())


def _component(file: Path) -> str:
    """Return a pipeline file as the attributes of a component."""
    text = file.read_text(encoding="utf-8").removeprefix("---\n")
    component = _HEAD + textwrap.indent(text, "  ")
    if "{{" in text:
        raise InvalidInputError("{{ is filled in by dg in the new place: write it in another way", path=str(file))
    try:
        same = yaml.safe_load(component)["attributes"] == yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"not YAML: {' '.join(str(error).split())}", path=str(file)) from error
    if not same:
        raise InvalidInputError("the file would not mean the same when it is indented: edit it by hand", path=str(file))
    return component


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of pipeline files")
    parser.add_argument("defs", type=Path, help="folder of definitions of the project: PACKAGE/defs")
    arguments = parser.parse_args(argv)
    try:
        for place in move_pipelines(arguments.folder, arguments.defs):
            print(place)
    except LakeIdxError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
