"""The real site, built strictly: it holds together, needs nobody else, and comes out the same twice."""

import ast
import functools
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
ADDRESS = re.compile(r"url\(\s*[\"']?(.*?)[\"']?\s*\)|@import\s+[\"'](.*?)[\"']")
REPOSITORY = "https://github.com/example/course"
ELSEWHERE = re.compile(r"(?:https?:)?//")


def build(folder: Path) -> Path:
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": "1700000000",
        "SITE_URL": "https://example.org/course/",
        "REPO_URL": REPOSITORY,
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


@functools.cache
def soup(path: Path) -> BeautifulSoup:
    """A page, parsed once for all tests."""
    return BeautifulSoup(path.read_text("utf-8"), "lxml")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


def requests(path: Path) -> Iterator[str]:
    """Every address that a browser fetches to show the page; an ordinary link is none."""
    page = soup(path)
    for element in page.select("[src], [srcset], [data], [poster]"):
        yield from (element[name] for name in ("src", "srcset", "data", "poster") if element.has_attr(name))
    for element in page.select("link[href], use[href], image[href]"):
        if not {"canonical", "alternate", "prev", "next"} & set(element.get("rel", [])):
            yield element["href"]
    for element in page.select("style, [style]"):
        yield from addresses(element.get("style") or element.text)


def addresses(css: str) -> Iterator[str]:
    for match in ADDRESS.finditer(COMMENT.sub("", css)):
        yield match[1] or match[2]


def test_every_source_page_is_built(site: Path) -> None:
    for language, folder in ("zh", site), ("en", site / "en"):
        docs = ROOT / "docs" / language
        for source in [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]:
            name = source.relative_to(docs).with_suffix("")
            place = folder / name.parent if name.name == "index" else folder / name
            page = soup(place / "index.html")
            assert page.html["lang"] == language


def test_a_notebook_weighs_no_more_than_a_chapter(site: Path) -> None:
    def weight(folder: str) -> int:
        return max(len(gzip.compress(path.read_bytes())) for path in site.rglob(f"{folder}/*/index.html"))

    assert weight("labs") <= weight("tutorial")


def test_nothing_is_requested_from_elsewhere(site: Path) -> None:
    found = {(path, url) for path in site.rglob("*.html") for url in requests(path)}
    found |= {(path, url) for path in site.rglob("*.css") for url in addresses(path.read_text("utf-8"))}
    assert found
    assert not [(str(path.relative_to(site)), url) for path, url in found if ELSEWHERE.match(url)]


def test_our_stylesheets_point_at_files_that_exist(site: Path) -> None:
    for path in (site / "assets").rglob("*.css"):
        for url in addresses(path.read_text("utf-8")):
            assert url.startswith("data:") or (path.parent / url.split("#")[0]).exists(), (path.name, url)


def test_our_stylesheets_are_published_without_their_comments(site: Path) -> None:
    for path in (site / "assets").glob("*.css"):
        assert "/*" in (ROOT / "docs/theme/assets" / path.name).read_text("utf-8")
        assert "/*" not in path.read_text("utf-8"), path.name


def test_our_scripts_name_no_other_host(site: Path) -> None:
    """Material's own bundle names some that this site never triggers; the browser tests watch those."""
    for path in (site / "assets").glob("*.js"):
        assert not re.search(r"[\"'`](?:https?:)?//", path.read_text("utf-8")), path.name


def test_tools_of_the_build_are_not_published(site: Path) -> None:
    names = {path.name for path in site.rglob("*")}
    assert "katex.min.css" in names
    assert not names & {"katex.min.js", "terms.txt", "verified.json"}
    assert not [name for name in names if name.endswith((".py", ".md"))]


def test_page_not_found_leads_home_in_both_languages(site: Path) -> None:
    page = soup(site / "404.html")
    assert page.select_one("article h1").text == "404"
    links = {link.parent["lang"]: link["href"].rstrip("/.") for link in page.select("article a")}
    assert links == {"zh": "/course", "en": "/course/en"}
    assert not (site / "en/404.html").exists()  # a host shows that of the root


def test_every_page_links_to_its_own_source(site: Path) -> None:
    pages = set(site.rglob("index.html"))
    assert pages
    for path in pages:
        page = soup(path)
        (link,) = page.select("a[rel=edit]")
        assert link["title"] == {"zh": "编辑此页", "en": "Edit this page"}[page.html["lang"]]
        source = ROOT / link["href"].removeprefix(f"{REPOSITORY}/edit/main/")
        assert source.is_file(), link["href"]
        name = source.relative_to(ROOT / "docs" / page.html["lang"]).with_suffix("")
        folder = site if page.html["lang"] == "zh" else site / "en"
        assert path.parent == folder / (name.parent if name.name == "index" else name)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_api_page_says_all_that_the_docstrings_say(site: Path, language: str) -> None:
    """Word for word and in order, beside a link to the line where the name is defined."""
    folder = site if language == "zh" else site / "en"
    page = soup(folder / "api/index.html")
    found = page.select(".docstring")
    assert found
    for shown in found:
        link = shown.select_one(".source a")["href"]
        path, line = link.removeprefix(f"{REPOSITORY}/blob/main/").split("#L")
        for node in ast.parse((ROOT / path).read_text("utf-8")).body:
            decorators = getattr(node, "decorator_list", [])  # a definition begins with them
            if min(part.lineno for part in (node, *decorators)) == int(line):
                break
        title = shown.find_previous("h3").code.text
        assert node.name == title.split(".")[-1]
        assert re.search(rf"\b{node.name}\b", shown.find_previous("pre").text)
        said = iter(re.findall(r"\w+", shown.text))
        wanted = re.sub(r"^(Args|Returns|Raises|Example):$", "", ast.get_docstring(node), flags=re.M)
        assert [word for word in re.findall(r"\w+", wanted) if word not in said] == [], title


@pytest.mark.parametrize("language", ["zh", "en"])
def test_routes_state_the_reading_times_of_their_pages(site: Path, language: str) -> None:
    here = (site if language == "zh" else site / "en") / "routes"
    page = soup(here / "index.html")
    times = []
    for stop in page.select("article ol > li"):
        target = soup((here / stop.a["href"] / "index.html").resolve())
        if said := target.select_one(".reading-time"):  # only chapters and labs say it themselves
            times.append((number(stop.a.next_sibling), number(said.text)))
    assert times
    assert [shown for shown, _ in times] == [said for _, said in times]


def number(text: str) -> str:
    """The first number in a text."""
    return re.search(r"\d+", text)[0]


def test_link_to_the_repository_does_not_ask_it_for_stars(site: Path) -> None:
    page = soup(site / "index.html")
    assert {link["href"] for link in page.select(".md-source")} == {REPOSITORY}
    assert not page.select("[data-md-component=source]")  # what Material's script looks for


@pytest.mark.parametrize("page", ["index.html", "en/index.html"])
def test_home_page_leaves_the_room_of_the_contents_to_its_figure(site: Path, page: str) -> None:
    (sidebar,) = soup(site / page).select(".md-sidebar--secondary")
    assert sidebar.has_attr("hidden")


def test_nothing_is_named_by_the_key_of_a_translation(site: Path) -> None:
    keys = [
        f"{path.relative_to(site)}: {element[name]}"
        for path in site.rglob("*.html")
        for name in ("aria-label", "title", "placeholder")
        for element in soup(path).select(f"[{name}]")
        if re.fullmatch(r"[a-z]+(\.[a-z]+)+", element[name])
    ]
    assert not keys


def test_second_build_is_the_same_to_the_byte(site: Path, tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[Path, bytes]:
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    first, second = contents(site), contents(build(tmp_path / "again"))
    assert first.keys() == second.keys()
    assert not [str(name) for name in first if first[name] != second[name]]


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rrggbb."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(ink: str, paper: str) -> float:
    """WCAG's contrast of two colours, #rrggbb: 4.5 is enough for text."""
    dim, bright = sorted(map(luminance, (ink, paper)))
    return (bright + 0.05) / (dim + 0.05)


def test_inks_are_readable_on_both_papers() -> None:
    tokens = (ROOT / "docs/theme/assets/tokens.css").read_text()
    light, dark, scriptless = re.split(r"^(?=\S.*\{$)", tokens, flags=re.M)[1:]
    assert re.findall(r"--.*?;", scriptless) == re.findall(r"--.*?;", dark)
    pairs = [(ink, "paper") for ink in ("ink", "quiet", "read", "state", "write", "mask", "fault")]
    pairs += [(ink, "code-paper") for ink in ("ink", "quiet", "read", "state", "write", "fault")]
    for theme in light, dark:
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", theme))
        for ink, paper in [*pairs, ("fault", "fault-fill")]:
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
