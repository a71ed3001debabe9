"""Run the tour and write it with what its blocks gave, as one HTML page: ``python -m tools.docs.tour --work .work``.

The page holds everything it shows, pictures too, and can be sent to somebody.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import html
import io
import os
import re
import shutil
import sys
import traceback
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from rich.progress import track

from lakeidx.results import Listing
from tools.docs.blocks import ROOT, blocks

PAGE = "docs/tour.md"
_ROWS = 12
_STYLE = HtmlFormatter(style="friendly")


class BlockFailedError(Exception):
    """A block of the tour ended with an error."""


def run_block(code: str, names: dict[str, Any], place: str) -> str:
    """Run a block; what it printed and the value of its last line, as HTML.

    errors   BlockFailedError naming the block and what it raised
    """
    tree, printed, value = ast.parse(code), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, place, "exec", dont_inherit=True), names)  # noqa: S102 - the page is ours
            if isinstance(last, ast.Expr):
                code_of_last = compile(ast.Expression(last.value), place, "eval", dont_inherit=True)
                value = eval(code_of_last, names)  # noqa: S307
    except Exception as error:
        raise BlockFailedError(f"{place}: {traceback.format_exception_only(error)[-1].strip()}") from error
    said = f"<pre>{html.escape(printed.getvalue())}</pre>" if printed.getvalue() else ""
    return said + ("" if value is None else shown(value))


def shown(value: Any) -> str:
    """Show a value as a notebook does: its own HTML, a picture, the first rows of an Arrow table, else its text."""
    if isinstance(value, pa.Table):
        more = f"<p>{len(value)} rows</p>" if len(value) > _ROWS else ""
        # Numbers of rows may be names (of flights): no thousands are marked.
        rows = [
            {name: None if v is None else str(v) for name, v in row.items()}
            for row in value.slice(0, _ROWS).to_pylist()
        ]
        return shown(Listing(rows)) + more
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=110)
        return _image(picture.getvalue(), "")
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    return f"<pre>{html.escape(repr(value))}</pre>"


def _image(data: bytes, title: str) -> str:
    text = base64.b64encode(data).decode("ascii")
    return f'<img alt="{html.escape(title)}" title="{html.escape(title)}" src="data:image/png;base64,{text}">'


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    folder.mkdir(parents=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def make_tour(work: Path, *, quiet: bool = False) -> Path:
    """Run all blocks in a folder below `work`, which is emptied first; gives the page.

    errors   BlockFailedError; then no page is written
    """
    folder = (work / "tour").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    code = [b for b in blocks(PAGE) if b.language == "python"]
    names: dict[str, Any] = {"__name__": "__tour__"}
    with _within(folder):
        outputs = [
            run_block(b.code, names, b.place) for b in track(code, "blocks of the tour", disable=quiet, transient=True)
        ]
    page = folder / "index.html"
    page.write_text(_html(outputs), encoding="utf-8")
    return page


def _html(outputs: Sequence[str]) -> str:
    """Put the page's text and the outputs of its blocks together."""
    left = iter(outputs)
    markdown = MarkdownIt("commonmark").enable("table")

    def fence(tokens: Any, index: int, options: Any, environment: Any) -> str:
        if tokens[index].info != "python":
            return f"<pre>{html.escape(tokens[index].content)}</pre>"
        return str(highlight(tokens[index].content, PythonLexer(), _STYLE)) + f'<div class="output">{next(left)}</div>'

    def image(tokens: Any, index: int, options: Any, environment: Any) -> str:
        source = ROOT / "docs" / str(tokens[index].attrs["src"])
        return _image(source.read_bytes(), tokens[index].content)

    markdown.renderer.rules.update(fence=fence, image=image)  # type: ignore[attr-defined]
    body = markdown.render((ROOT / PAGE).read_text(encoding="utf-8"))
    # Other pages are not beside this one: their names stay, as text.
    body = re.sub(r'<a href="[\w/-]+\.md">(.*?)</a>', r"<em>\1</em>", body)
    templates = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    return templates.get_template("tour.html.jinja").render(body=body, style=_STYLE.get_style_defs(".highlight"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs.tour", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(".work"), help="folder to run in")
    parser.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    arguments = parser.parse_args(argv)
    try:
        page = make_tour(arguments.work)
    except BlockFailedError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the tour is in {page}")
    # Without a screen a browser of the terminal would take it over.
    screen = sys.platform in ("darwin", "win32") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))
    if screen and not arguments.no_open:
        webbrowser.open(page.as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
