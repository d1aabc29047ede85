"""The words of the pages: spaced Latin script, no path of one machine, nothing from elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prose import SPAN, Pages, language, line_of, read, unfenced, without, words

PAGES = read(Path(__file__).parents[1])

HAN = r"[\u3400-\u9fff]"
LATIN = r"[A-Za-z0-9]"
TOUCHING = re.compile(rf"{HAN}(?={LATIN})|{LATIN}(?={HAN})")
EMPHASIS = re.compile(r"[*\[\]]")
MACHINE = re.compile(r"(?<![\w.:/~-])/(?:home|root|work|tmp|mnt|Users|private|opt/conda)/|[A-Z]:\\")
FOREIGN = re.compile(
    r"<(?:script|iframe|link|object|embed)\b[^>]*>?"
    r"|\b(?:src|srcset|poster|data)\s*=\s*[\"']?\s*(?:https?:)?//[^\s\"'>]*"
    r"|!\[[^\]]*\]\(\s*<?(?:https?:)?//[^\s)]*"
    r"|url\(\s*[\"']?(?:https?:)?//[^\s)]*",
    re.IGNORECASE,
)


def spacing_complaints(pages: Pages) -> Iterator[str]:
    """Chinese characters that touch Latin letters or digits."""
    for path, text in language(pages, "zh").items():
        # Emphasis and links vanish when rendered, code and formulas do not.
        prose = EMPHASIS.sub("", words(text, code="`"))
        for match in TOUCHING.finditer(prose):
            near = prose[max(match.start() - 8, 0) : match.end() + 8].replace("\n", " ")
            where = f"docs/zh/{path}:{line_of(prose, match.start())}"
            yield f"{where}: “{near}”; put a space between Chinese and Latin script"


def machine_complaints(pages: Pages) -> Iterator[str]:
    """Paths that exist on one machine only."""
    for page, text in pages.items():
        for match in MACHINE.finditer(text):
            where = f"{page}:{line_of(text, match.start())}"
            yield f"{where}: {match[0]} is a path of one machine; name files from the repository"


def foreign_complaints(pages: Pages) -> Iterator[str]:
    """What a browser would fetch from another server, and scripts."""
    for page, text in pages.items():
        if not page.startswith("docs/"):
            continue  # a README is shown by a host that has its own rules
        prose = without(SPAN, unfenced(text))
        for match in FOREIGN.finditer(prose):
            where = f"{page}:{line_of(prose, match.start())}"
            yield f"{where}: {match[0]}; pages load nothing from elsewhere: put the file into docs/"


def test_chinese_and_latin_script_are_spaced() -> None:
    assert not (found := list(spacing_complaints(PAGES))), "\n".join(found)


def test_no_page_names_a_path_of_one_machine() -> None:
    assert not (found := list(machine_complaints(PAGES))), "\n".join(found)


def test_no_page_loads_from_elsewhere() -> None:
    assert not (found := list(foreign_complaints(PAGES))), "\n".join(found)


def page(line: str) -> Pages:
    return {"docs/zh/a.md": f"# 标题\n\n{line}\n"}


@pytest.mark.parametrize(
    "line",
    [
        "用 GPU 算 3 行，共 **16** 列。",
        "用`x`和$x$表示（见 [CUDA 手册](https://a.b/中c)）。",
        "## 合并 {#merge}",
        "<!--中a-->",
        "```text\n中a\n```",
        "GPU，3。",
    ],
)
def test_spaced_chinese_passes(line: str) -> None:
    assert list(spacing_complaints(page(line))) == []


@pytest.mark.parametrize("line", ["用GPU 算", "用 GPU算", "共3 行", "用**GPU**", "[GPU](a.md)算"])
def test_chinese_touching_latin_is_named(line: str) -> None:
    (found,) = spacing_complaints(page(line))
    assert found.startswith("docs/zh/a.md:3: ")


@pytest.mark.parametrize("line", ["见 /home/me/a.py", "```text\n/root/a\n```", r"C:\a", "(/tmp/x)"])
def test_a_path_of_one_machine_is_named(line: str) -> None:
    (found,) = machine_complaints(page(line))
    assert re.match(r"docs/zh/a.md:[34]: .* is a path of one machine", found)


@pytest.mark.parametrize("line", ["docs/home/a.py", "https://a.b/home/x", "/en/start/", "~/work/x"])
def test_other_paths_pass(line: str) -> None:
    assert list(machine_complaints(page(line))) == []


@pytest.mark.parametrize(
    "line",
    [
        '<img src="https://a.b/c.png">',
        "<img src=//a.b/c.png>",
        "![图](https://a.b/c.png)",
        "<script>alert(1)</script>",
        '<iframe src="x.html"></iframe>',
        '<link rel="stylesheet" href="a.css">',
        '<video poster="https://a.b/c.png"></video>',
        '<p style="background: url(https://a.b/c.png)"></p>',
    ],
)
def test_what_comes_from_elsewhere_is_named(line: str) -> None:
    found = list(foreign_complaints(page(line)))
    assert found
    assert found[0].startswith("docs/zh/a.md:3: ")


def test_links_and_own_images_pass() -> None:
    lines = "[a](https://a.b) ![图](a.png) `<script>`\n\n```text\n<script>\n```"
    assert list(foreign_complaints(page(lines))) == []
