"""Published fonts hold the glyphs that the pages show and no others: a quarter of the bytes."""

from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

from formulas import glyphs

# What pages load. The other fonts of KaTeX stay whole, and nobody fetches them until a formula needs one.
CODE = ("fonts/JetBrainsMono-Regular",)
FORMULAS = tuple(
    f"katex/fonts/KaTeX_{name}"
    for name in ("AMS-Regular", "Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular")
)
ASCII = set(map(chr, range(32, 127)))  # for what readers type


def trim(site: Path) -> None:
    """Cut down the fonts of a built site; the English one, in en/, has copies of its own."""
    shown = ASCII.union(*(page.read_text("utf-8") for page in site.rglob("*.html")))
    for names, kept in (CODE, shown), (FORMULAS, glyphs()):
        for path in (Path("assets", f"{name}.woff2") for name in names):
            with TTFont(site / path, recalcTimestamp=False) as font:  # or each build would differ
                subsetter = Subsetter(Options(hinting=False))  # which only old screens need
                subsetter.populate(unicodes=map(ord, kept))
                subsetter.subset(font)
                font.save(site / path)
            (site / "en" / path).write_bytes((site / path).read_bytes())
