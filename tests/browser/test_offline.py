"""The zip of `make offline`, opened as files: all of it works, and nothing but files is asked for."""

import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, Request, expect

ROOT = Path(__file__).parents[2]
CHAPTER = "tutorial/online-log-sum-exp.html"


def pack(folder: Path) -> Path:
    command = ["make", "offline", "NOVENV=1", f"PYTHON={sys.executable}", f"BUILD={folder}"]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder / "softmax-camp.zip"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked") / "我的 文档 #1"
    with ZipFile(archive) as zipped:
        zipped.extractall(folder)
    return folder / "softmax-camp"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails at the end if it asked for more than files or complained."""
    complaints = []

    def watch(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            complaints.append(f"requested {request.url}")

    def failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left before its icon had come
            complaints.append(f"failed {request.url}")

    context = browser.new_context()
    context.on("request", watch)
    context.on("requestfailed", failed)
    page = context.new_page()
    page.on("console", lambda said: said.type in ("error", "warning") and complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert not complaints


def test_same_pages_make_the_same_zip(archive: Path, tmp_path: Path) -> None:
    first, second = (sha256(path.read_bytes()).hexdigest() for path in (archive, pack(tmp_path)))
    assert first == second


def test_every_link_leads_to_a_file(unpacked: Path) -> None:
    """No server is there to make index.html of a folder, or a page of an address without .html."""
    pages = list(unpacked.rglob("*.html"))
    assert len(pages) >= 12
    for page in pages:
        soup = BeautifulSoup(page.read_text("utf-8"), "lxml")
        for element in soup.select("[href], [src]"):
            url = urlsplit(element.get("href") or element.get("src"))
            if not url.scheme and url.path:
                assert (page.parent / unquote(url.path)).is_file(), (page.name, url.path)
            assert element.name == "a" or url.scheme in ("", "data"), (page.name, str(element))


@pytest.mark.parametrize(
    ("folder", "queries", "toggle"),
    [("", ["在线", "分块", "log-sum-exp"], "切换到深色"), ("en", ["online", "tile"], "Switch to dark")],
)
def test_pages_work_from_files(
    page: Page, unpacked: Path, folder: str, queries: list[str], toggle: str
) -> None:
    home = unpacked / folder / "index.html"
    for query in queries:
        page.goto(home.as_uri())
        page.locator(".md-search__input").click()
        page.keyboard.type(query)
        page.keyboard.press("End")  # Material searches when a key comes up
        result = page.locator(".md-search-result__link[href*='tutorial/']").first
        expect(result).to_be_visible()
        result.click()
        page.wait_for_url(re.compile(r"^file:.*/tutorial/[\w-]+\.html\?h="))
        expect(page.locator("article mark").first).to_be_visible()

    page.goto((unpacked / folder / CHAPTER).as_uri())
    expect(page.locator(".equation .katex-html").first).to_be_visible()
    assert page.evaluate("[...document.fonts].some(f => f.family === 'KaTeX_Main' && f.status === 'loaded')")
    expect(page.locator("article figure svg").first).to_be_visible()
    stepper = page.locator("merge-stepper")
    stepper.locator("button[name=forward]").click()
    expect(stepper.locator(".now")).to_have_count(4)

    page.get_by_title(toggle).click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.locator(".md-footer__link--prev").click()
    page.wait_for_url("**/tutorial/exp2.html")
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.locator(".md-footer__link--next").click()
    page.wait_for_url(f"**/{CHAPTER}")

    page.goto((unpacked / folder / "lesson/script.html").as_uri())
    for cue in 2, 3:  # from the first, then, after a reload, from the second
        page.locator("lesson-presenter [name=open]").click()
        expect(page.locator("lesson-presenter dialog")).to_be_visible()
        page.keyboard.press("ArrowRight")
        expect(page.locator("lesson-presenter .place")).to_have_text(re.compile(f"(提示|cue) {cue} "))
        page.reload()

    page.goto((unpacked / folder / CHAPTER).as_uri())
    page.evaluate("location.hash = 'pair'")
    page.locator("a.language").click()
    other = "" if folder else "en/"
    page.wait_for_url(f"{unpacked.as_uri()}/{other}{CHAPTER}#pair")
    expect(page.locator("#pair")).to_be_in_viewport()
