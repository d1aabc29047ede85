"""Published fonts hold the glyphs that the pages show and no others: a quarter of the bytes."""

from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

# What pages load. The other fonts of KaTeX stay whole, and nobody fetches them until a formula needs one.
CODE = ("fonts/JetBrainsMono-Regular",)
FORMULAS = tuple(
    f"katex/fonts/KaTeX_{name}" for name in ("Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular")
)
ASCII = set(map(chr, range(32, 127)))  # for what readers type


def trim(site: Path, names: tuple[str, ...], kept: set[str]) -> None:
    """Cut down some fonts of a built site to the characters that are kept."""
    for path in _paths(site, names):
        with TTFont(path, recalcTimestamp=False) as font:  # or each build would differ
            subsetter = Subsetter(Options(hinting=False))  # which only old screens need
            subsetter.populate(unicodes=map(ord, kept))
            subsetter.subset(font)
            font.save(path)


def copy(names: tuple[str, ...], there: Path, here: Path) -> None:
    """Take some fonts of one site for another."""
    for source, path in zip(_paths(there, names), _paths(here, names), strict=True):
        path.write_bytes(source.read_bytes())


def shown(site: Path) -> set[str]:
    """The characters on a site's pages, and those that readers type."""
    return ASCII.union(*(page.read_text("utf-8") for page in site.rglob("*.html")))


def _paths(site: Path, names: tuple[str, ...]) -> list[Path]:
    return [site / "assets" / f"{name}.woff2" for name in names]
