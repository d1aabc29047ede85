"""Formulas become HTML and MathML while the site builds: a page needs no script to show them."""

import atexit
import html
import re
from functools import cache
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.exceptions import BuildError
from py_mini_racer import MiniRacer

KATEX = Path(__file__).parent / "katex" / "katex.min.js"
UNINDEXED = {"data-search-exclude": "true"}
RENDER = """
function render(tex, displayMode) {
  try { return {html: katex.renderToString(tex, {displayMode, output: "htmlAndMathml", strict: "error"})} }
  catch (error) { return {error: error.message} }
}
"""


TAG = re.compile(r"<[^>]*>")
_glyphs: set[str] = set()


@cache
def _engine() -> MiniRacer:
    engine = MiniRacer()
    atexit.register(engine.close)  # left to itself it may hang when a failed build ends
    engine.eval(KATEX.read_text("utf-8"))
    engine.eval(RENDER)
    return engine


@cache
def render(tex: str, display: bool) -> str:
    """KaTeX's markup for a formula; a mistake in it ends the build, and MkDocs adds the page's name."""
    match _engine().call("render", tex, display):
        case {"html": markup}:
            _glyphs.update(html.unescape(TAG.sub("", markup.partition('class="katex-html"')[2])))
            return str(markup)
        case {"error": message}:
            raise BuildError(f"{message}\nin the formula: {tex}")
    raise AssertionError


def glyphs() -> set[str]:
    """Every character that a formula has shown so far, in whichever font."""
    return _glyphs


class _Render(Treeprocessor):
    """Fill in what pymdownx.arithmatex found, and give numbered equations a link to themselves."""

    def run(self, root: Element) -> None:
        for element in root.iter():
            match element.get("class"):
                case "arithmatex":
                    self._formula(element)
                case "equation" if name := element.get("id"):
                    link = SubElement(element, "a", {"class": "headerlink", "href": f"#{name}"} | UNINDEXED)
                    link.text = "¶"

    def _formula(self, element: Element) -> None:
        source = html.unescape("".join(element.itertext()))
        display = source.startswith(r"\[")
        markup = render(source[2:-2].strip(), display)
        for child in list(element):
            element.remove(child)
        element.text = self.md.htmlStash.store(markup)
        element.set("class", "math")
        element.attrib |= UNINDEXED  # or search would hold every formula twice, as HTML and as MathML
        if display:
            element.set("tabindex", "0")  # a wide formula scrolls, by keyboard too
        else:
            element.tag = "var"  # Material's index ends an exclusion at the first inner tag of the same name


class Formulas(Extension):
    """The Markdown extension; it follows pymdownx.arithmatex in generic mode."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is Markdown's
        md.treeprocessors.register(_Render(md), "formulas", 15)  # after inline patterns (20)
