"""What a reader meets: each page on phone and desk, light and dark, by keyboard, without scripts."""

import re
from collections.abc import Callable
from gzip import compress
from pathlib import Path
from urllib.request import urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from test_site_build import contrast

ROOT = Path(__file__).parents[2]
CHAPTER = "tutorial/online-log-sum-exp/"
NOTEBOOK = "labs/stability/"
NOTEBOOKS = NOTEBOOK, "labs/benchmark/"
HIDDEN = """() => [...document.querySelectorAll("article :is(img, figure svg, math)")]
  .filter(e => e.checkVisibility() && !e.closest("details:not([open])"))
  .filter(e => e.localName === "img" ? !e.naturalWidth : !e.getBoundingClientRect().width).length"""
COLOURS = """e => {
  let box = e
  while (getComputedStyle(box).backgroundColor === "rgba(0, 0, 0, 0)") box = box.parentElement
  const style = getComputedStyle(e)
  const colours = [e.localName === "text" ? style.fill : style.color, getComputedStyle(box).backgroundColor]
  return colours.map(rgb => "#" + rgb.match(/\\d+/g).map(n => (+n).toString(16).padStart(2, "0")).join(""))
}"""  # of ink, and of the paper under it
OUT_OF_REACH = """() => [...document.querySelectorAll("article *")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX))
  .filter(e => !e.closest("details:not([open])"))
  .filter(e => e.tabIndex < 0 && !e.querySelector("a[href], button, input")).map(e => e.className)"""
CUT_OFF = """() => [...document.querySelectorAll(".card pre > code")]
  .filter(e => !e.closest("details") && e.scrollWidth > e.clientWidth)
  .map(e => e.closest(".highlight").innerText.split("\\n")[0])"""  # code that is wider than its card
KINDS = """() => {
  const seen = new Set()
  for (const e of document.querySelectorAll(".katex-html span:not(:has(*)), .card pre")) {
    const { fontFamily, fontStyle, fontWeight } = getComputedStyle(e)
    const kind = [fontFamily, fontStyle, fontWeight, e.textContent].join()
    if (!seen.has(kind)) e.dataset.kind = ""
    seen.add(kind)
  }
}"""
WEIGHT = 120 * 1024  # bytes
Open = Callable[..., Page]


def addresses() -> list[str]:
    """The address of every page, from its source: tutorial/x.md is /tutorial/x/ and /en/tutorial/x/."""
    found = []
    for language, prefix in ("zh", "/"), ("en", "/en/"):
        docs = ROOT / "docs" / language
        sources = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
        names = sorted(str(path.relative_to(docs).with_suffix("")) for path in sources)
        found += [prefix if name == "index" else f"{prefix}{name.removesuffix('/index')}/" for name in names]
    return found


def barriers(page: Page) -> list[str]:
    """What axe-core finds serious or critical. Over code and formulas it would take long: the contrast of
    their inks is measured in tests/test_site_build.py, and whether a key scrolls them by OUT_OF_REACH."""
    options = {"resultTypes": ["violations"]}
    context = {"exclude": [["pre"], [".katex"]]}
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [
        f"{rule['id']}: {node['html']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def weight(page: Page) -> int:
    """Bytes, gzipped, of what a first visit needs before all of it is in sight: HTML, CSS, scripts and fonts.

    Material's search follows: its worker, and an index that grows with the text.
    """
    names = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    return sum(
        len(compress(urlopen(name).read()))
        for name in {page.url, *names}
        if not re.search(r"/search/|/workers/|/sitemap\.xml", name)
    )


def foreign_fonts(page: Page) -> list[tuple[str, str]]:
    """Characters of formulas and code that are drawn in a font which stands in for ours: the trimmed fonts
    have to hold every glyph. What differs in nothing that chooses a glyph is looked at once."""
    page.evaluate(KINDS)
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    nodes = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "[data-kind]"})["nodeIds"]
    found = []
    for node in nodes:
        for font in session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]:
            if not font["isCustomFont"]:
                text = session.send("DOM.getOuterHTML", {"nodeId": node})["outerHTML"]
                found.append((font["familyName"], text))
    return found


@pytest.mark.parametrize("address", addresses())
def test_page_is_whole(visit: Open, address: str) -> None:
    """Chinese pages in light colours, English ones in dark: what both languages share is seen in both."""
    scheme, palette = ("dark", "slate") if address.startswith("/en/") else ("light", "default")
    page = visit(address, color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_load_state("networkidle")
    assert weight(page) <= WEIGHT
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", palette)
    expect(page.locator("article h1")).to_be_visible()
    for width in 1280, 390:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(HIDDEN) == 0
        page.wait_for_function(f"!({OUT_OF_REACH})().length")  # Material looks when a width has changed
        if width == 1280:
            assert page.evaluate(CUT_OFF) == []
        if (scheme, width) in (("light", 1280), ("dark", 390)):  # it takes seconds on a chapter
            assert barriers(page) == []
    assert foreign_fonts(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_not_found_bars_nobody(visit: Open, scheme: str) -> None:
    page = visit("/404.html", color_scheme=scheme, reduced_motion="reduce")
    for width in 1280, 390:
        page.set_viewport_size({"width": width, "height": 900})
        assert barriers(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("start", ["/", "/en/"])
def test_presenter_view_bars_nobody(visit: Open, start: str, scheme: str) -> None:
    page = visit(f"{start}lesson/script/", color_scheme=scheme, reduced_motion="reduce")
    for width in 1280, 390:
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("lesson-presenter [name=open]").click()
        assert barriers(page) == []
        page.keyboard.press("Escape")
        page.wait_for_function("!document.fullscreenElement")  # which cannot be resized


@pytest.mark.parametrize("address", [address for address in addresses() if not address.startswith("/en/")])
def test_page_needs_no_script(visit: Open, address: str) -> None:
    page = visit(address, java_script_enabled=False)
    for language in "zh", "en", "zh":
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.locator("article h1")).to_be_visible()
        formulas = page.locator("article > :is(p, div) .katex-html")
        assert formulas.evaluate_all("all => all.every(e => e.checkVisibility())")
        page.locator("a.language").click()


@pytest.mark.parametrize("place", [f"{CHAPTER}#merge", f"{NOTEBOOK}#maximum"])
@pytest.mark.parametrize(("here", "there"), [("/", "/en/"), ("/en/", "/")])
def test_language_switch_keeps_page_and_place(visit: Open, here: str, there: str, place: str) -> None:
    page = visit(here + place)
    page.locator("a.language").click()
    expect(page).to_have_url(re.compile(rf":\d+{there}{place}$"))


@pytest.mark.parametrize(("here", "there"), [("/", "/en/"), ("/en/", "/")])
def test_language_switch_follows_instant_navigation(visit: Open, here: str, there: str) -> None:
    page = visit(here)
    page.evaluate("window.same = true")
    page.locator(f".md-nav--primary a[href*='{CHAPTER}']").click()
    expect(page).to_have_url(re.compile(f"{here}{CHAPTER}$"))
    assert page.evaluate("window.same"), "the page was loaded anew: instant navigation is off"
    expect(page.locator("article h1")).to_contain_text("log-sum-exp")  # the address changes before the page
    page.evaluate("location.hash = 'merge'")
    page.locator("a.language").click()
    expect(page).to_have_url(re.compile(rf":\d+{there}{CHAPTER}#merge$"))


@pytest.mark.parametrize(
    ("start", "query", "found"),
    [
        ("/", "在线归约", CHAPTER),
        ("/", "归约", "tutorial/reduce/"),
        ("/", "log-sum-exp", CHAPTER),
        ("/", "attention", "tutorial/attention/"),  # a stemmer would make "attent" of it
        ("/", "__syncthreads", "cuda/three-pass/"),
        ("/en/", "online", CHAPTER),
        ("/", "笔记本", NOTEBOOK),
        ("/en/", "notebook", NOTEBOOK),
    ],
)
def test_search_finds_the_page(visit: Open, start: str, query: str, found: str) -> None:
    page = visit(start)
    page.locator(".md-search__input").click()
    page.keyboard.type(query)
    page.keyboard.press("End")  # Material searches when a key comes up; Playwright types Chinese without keys
    expect(page.locator(f".md-search-result__link[href*='{start}{found}']").first).to_be_visible()


@pytest.mark.parametrize(
    ("query", "heading"),
    [("核函数", "核函数 kernel"), ("分块", "5 · 尾部分块与掩码"), ("在线", "8 · 在线 log-sum-exp")],
)
def test_chinese_words_are_searched_whole(visit: Open, query: str, heading: str) -> None:
    page = visit(f"/?q={query}")
    results = page.locator(".md-search-result__item")
    expect(results.locator("h1, h2", has_text=heading).first).to_be_attached()
    assert set(results.locator("mark").all_text_contents()) == {query}


@pytest.mark.parametrize(("address", "count"), [(CHAPTER, 3), (NOTEBOOK, 2)])
def test_every_part_of_a_card_is_copied_by_its_own_button(visit: Open, address: str, count: int) -> None:
    page = visit(address, permissions=["clipboard-read", "clipboard-write"])
    parts = page.locator(".card:has(.language-py)").first.locator(".highlight")
    assert parts.count() == count
    for part in parts.all():
        part.hover()
        part.locator("[data-md-type=copy], .md-clipboard").click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == part.locator("code").text_content().rstrip()


def test_prompt_is_not_copied(visit: Open) -> None:
    page = visit("/start/", permissions=["clipboard-read", "clipboard-write"])
    block = page.locator(".language-console").first
    block.hover()
    block.locator("[data-md-type=copy], .md-clipboard").click()
    assert "$ " in block.locator("code").text_content()
    assert "$" not in page.evaluate("navigator.clipboard.readText()")


def test_phone_shows_equation_numbers_and_whole_ledger(visit: Open) -> None:
    page = visit(CHAPTER, viewport={"width": 390, "height": 900})
    for tag in page.locator(".equation .katex-tag").all():
        box = tag.bounding_box()
        assert 0 < box["x"] <= 390 - box["width"]
    page.goto("/verification/")
    assert page.locator(".ledger").evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize("address", [CHAPTER, NOTEBOOK])
def test_copy_button_lies_beside_the_code_on_a_phone(visit: Open, address: str) -> None:
    page = visit(address, viewport={"width": 390, "height": 900})
    for pre in page.locator(".card pre:has(.md-code__nav)").all():
        code, button = pre.locator("> code").bounding_box(), pre.locator(".md-code__nav").bounding_box()
        assert code["x"] + code["width"] <= button["x"] or code["y"] >= button["y"] + button["height"]


@pytest.mark.parametrize("address", NOTEBOOKS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("start", ["/", "/en/"])
def test_notebook_is_read_like_a_chapter(visit: Open, start: str, scheme: str, address: str) -> None:
    page = visit(start + address, color_scheme=scheme, viewport={"width": 390, "height": 900})
    assert page.locator("article .katex-html").count() == page.locator("article annotation").count() > 0
    assert "$" not in page.locator("article").evaluate("e => e.innerText")
    for heading in page.locator("article h2").all():
        heading.hover()
        heading.locator(".headerlink").click()
        assert page.url.endswith(f"/{address}#{heading.get_attribute('id')}")
        expect(heading).to_be_in_viewport()
    outputs = page.locator(".card .language-text code, .card figure text")
    assert outputs.count() > 6
    for output in outputs.all():
        assert contrast(*output.evaluate(COLOURS)) >= 4.5, output.text_content()
    wide = page.locator(".card pre > code").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth)"
    )
    assert wide, "nothing to scroll"  # in its box: test_page_is_whole holds the page to the phone's width
    drawings = page.locator(".card figure svg").all()
    assert drawings
    for svg in drawings:
        size = float(svg.get_attribute("font-size")) * svg.evaluate("e => e.getScreenCTM().a")
        assert size >= 12


@pytest.mark.parametrize("start", ["/", "/en/"])
def test_notebook_is_downloaded_in_the_language_of_its_page(visit: Open, start: str) -> None:
    page = visit(start)
    page.locator(f".md-nav--primary a[href*='{NOTEBOOK}']").click()
    with page.expect_download() as download:
        page.locator(".reading-time a[download]").click()
    source = ROOT / "docs" / {"/": "zh", "/en/": "en"}[start] / "labs" / "stability.ipynb"
    assert Path(download.value.path()).read_bytes() == source.read_bytes()
    page.locator(".md-footer__link--prev").click()
    expect(page).not_to_have_url(re.compile(NOTEBOOK))
    page.locator(".md-footer__link--next").click()
    expect(page).to_have_url(re.compile(NOTEBOOK))


def test_dark_is_honoured_without_scripts(visit: Open) -> None:
    page = visit("/", java_script_enabled=False, color_scheme="dark")
    assert page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(18, 22, 29)"


@pytest.mark.parametrize("start", ["/", "/en/"])
def test_keyboard_reaches_the_text_first_and_shows_where_it_is(visit: Open, start: str) -> None:
    page = visit(start + CHAPTER)
    page.keyboard.press("Tab")
    skip = page.locator(".md-skip")
    expect(skip).to_be_focused()
    expect(skip).to_have_text({"/": "跳到正文", "/en/": "Skip to content"}[start])
    expect(skip).to_be_in_viewport()
    seen = 0
    for _ in range(12):
        page.keyboard.press("Tab")
        focused = page.locator("a:focus")
        if focused.count():
            assert focused.evaluate("e => getComputedStyle(e).outlineStyle") != "none", focused.inner_text()
            seen += 1
    assert seen


STEPPER = f"/{CHAPTER}"
ROWS = [
    ([3.0, 1, 4, 1, 5, 9, 2, 6], 3),
    ([1000.0] * 4 + [-1000.0] * 4, 4),
    ([-float("inf")] * 3 + [1.0, 5, 9], 3),
    ([float(x) for x in range(-30, 31)], 7),
]


@pytest.mark.parametrize(("row", "tile"), ROWS)
def test_stepper_computes_what_the_package_does(visit: Open, row: list[float], tile: int) -> None:
    """Both in float32; the last bits may differ, since libraries round exp2 in their own way."""
    import torch

    from camp_softmax import reference

    words = " ".join(map(str, row)).replace("inf", "Infinity")
    array = "[" + words.replace(" ", ",") + "]"
    page = visit(STEPPER)
    page.evaluate("customElements.whenDefined('merge-stepper')")  # its script is deferred
    steps = f"customElements.get('merge-stepper').steps({array}, {tile})"
    found = page.evaluate(f"{steps}.map(({{m, s}}) => [m, s])")
    want = [(m.item(), s.item()) for m, s in reference.states(torch.tensor(row), tile)]
    assert [m for m, _ in found] == [m for m, _ in want]
    assert [s for _, s in found] == pytest.approx([s for _, s in want], rel=1e-6)
    weights = page.evaluate(f"customElements.get('merge-stepper').weights({array}, {steps}.at(-1)).pair")
    assert weights == pytest.approx(reference.softmax(torch.tensor(row)).tolist(), rel=1e-5, abs=1e-30)


@pytest.mark.parametrize(("prefix", "overflow"), [("/", "溢出"), ("/en/", "overflow")])
def test_stepper_shows_where_the_common_form_overflows(visit: Open, prefix: str, overflow: str) -> None:
    page = visit(f"{prefix}{CHAPTER}", viewport={"width": 390, "height": 900})
    stepper = page.locator("merge-stepper")
    pair, lse = (stepper.locator("section").nth(i) for i in (0, 1))
    forward = stepper.locator("button[name=forward]")
    forward.focus()
    page.keyboard.press("Enter")
    expect(stepper.locator(".now")).to_have_count(4)
    expect(stepper.locator(".fault")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(lse.locator(".fault").first).to_contain_text(overflow)
    expect(lse.locator("dd.fault")).to_have_text("0 ✕")
    expect(pair.locator("dd.right")).to_have_text("1")
    expect(forward).to_have_attribute("aria-disabled", "true")
    expect(forward).to_be_focused()  # at the end, too, the keys still work
    page.keyboard.press("ArrowLeft")
    expect(stepper.locator(".now")).to_have_count(4)


def test_stepper_takes_the_readers_own_row(visit: Open) -> None:
    stepper = visit(f"/en/{CHAPTER}").locator("merge-stepper")
    stepper.get_by_label("Row").fill("-inf, −inf 1 5")
    stepper.get_by_label("Tile width").fill("2")
    forward = stepper.get_by_role("button", name="Forward")
    forward.click()
    expect(stepper.get_by_role("status")).to_have_text("tile 0 (2 in all, counted from 0): −∞ −∞")
    expect(stepper.locator("section").nth(1).locator(".fault").first).to_contain_text("NaN")
    forward.click()
    expect(stepper.locator("section").nth(0)).to_contain_text("0.018 0.982")
    for width in "0", "2.5", "100", "":
        stepper.get_by_label("Tile width").fill(width)
        expect(stepper.get_by_role("alert")).to_contain_text("a whole number from 1 to 64")
        expect(stepper.get_by_label("Tile width")).to_have_attribute("aria-invalid", "true")
    stepper.get_by_label("Row").fill("1 two 3")
    expect(stepper.get_by_role("alert")).to_contain_text("separated by spaces")
    expect(forward).to_have_attribute("aria-disabled", "true")
