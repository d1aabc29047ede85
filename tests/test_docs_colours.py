"""Code that was coloured in another build has the colours that this one would give it."""

from pathlib import Path

import pytest

pytest.importorskip("pymdownx")
from markdown import Markdown
from pymdownx.highlight import HighlightExtension

from colours import Colours

CODE = "for i in range(2):\n    print(i < 1)\n"
PAGE = "\n".join(
    f"```{info}\n{CODE}```\n"
    for info in ("py", 'py title="a.py"', 'py title="b.py"', 'py hl_lines="2"', "text", "cuda")
)


def rendered(highlight: HighlightExtension) -> str:
    return Markdown(extensions=["pymdownx.superfences", highlight]).convert(PAGE)


def test_kept_colours_are_those_of_pygments(tmp_path: Path) -> None:
    plain = rendered(HighlightExtension(pygments_lang_class=True))
    assert rendered(Colours(tmp_path, pygments_lang_class=True)) == plain
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 6
    assert rendered(Colours(tmp_path, pygments_lang_class=True)) == plain
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == kept


def test_other_settings_do_not_take_colours_kept_before(tmp_path: Path) -> None:
    rendered(Colours(tmp_path, pygments_lang_class=True))
    assert "language-" not in rendered(Colours(tmp_path, pygments_lang_class=False))
