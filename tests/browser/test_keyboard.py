"""The whole way of a reader who has no mouse, in both languages."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

CHAPTER = "tutorial/online-log-sum-exp/"
SHOWN = """e => {  // the choice of light or dark is an input out of sight; its label has the outline
  const { outlineStyle, outlineWidth } = getComputedStyle(e.matches(".md-option") ? e.nextElementSibling : e)
  return outlineStyle !== "none" && parseFloat(outlineWidth) > 0
}"""
Open = Callable[..., Page]


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the focus is on what matches; wherever it rests on the way, one sees it."""
    look = f"""selector => {{
      const e = document.activeElement
      return e === document.body ? "" : ({SHOWN})(e) ? e.matches(selector) : e.outerHTML
    }}"""
    for _ in range(200):
        page.keyboard.press("Tab")
        found = page.evaluate(look, selector)
        assert not isinstance(found, str) or not found, f"the focus is on {found:.200}, and nothing shows it"
        if found:
            return
    raise AssertionError(f"Tab does not come to {selector}")


@pytest.mark.parametrize(("here", "there"), [("/", "/en/"), ("/en/", "/")])
def test_keys_alone_are_enough(visit: Open, here: str, there: str) -> None:
    page = visit(here, viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab_to(page, ".md-skip")
    page.keyboard.press("Enter")
    tab_to(page, "article a")
    tab_to(page, "merge-stepper [name=forward]")
    page.keyboard.press("Enter")
    expect(page.locator("merge-stepper .now")).to_have_count(3)

    page.reload(wait_until="networkidle")
    tab_to(page, f".md-nav--primary a[href*='{CHAPTER}']")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"{here}{CHAPTER}$"))
    tab_to(page, "article details > summary")
    answer = page.locator("article details").first
    for state in True, False:
        page.keyboard.press("Enter")
        assert answer.evaluate("e => e.open") is state

    tab_to(page, "a.language")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf":\d+{there}{CHAPTER}$"))


@pytest.mark.parametrize("here", ["/", "/en/"])
def test_code_scrolls_by_key(visit: Open, here: str) -> None:
    page = visit(here, viewport={"width": 390, "height": 900}, reduced_motion="reduce")
    tab_to(page, "pre > code")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize("here", ["/", "/en/"])
@pytest.mark.parametrize("key", ["s", "/"])
def test_search_opens_and_leads_on_by_key(visit: Open, here: str, key: str) -> None:
    page = visit(here, reduced_motion="reduce")
    page.keyboard.press(key)
    expect(page.locator(".md-search__input")).to_be_focused()
    page.keyboard.insert_text("log-sum-exp")  # letter by letter, each would bring results anew
    page.keyboard.press("End")  # Material searches when a key comes up
    expect(page.locator(f".md-search-result__link[href*='{here}{CHAPTER}']").first).to_be_visible()
    focused = page.locator(".md-search-result__link:focus")
    page.keyboard.press("ArrowDown")
    assert focused.evaluate(SHOWN)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"{here}tutorial/"))
