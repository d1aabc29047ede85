"""The presenter view by keyboard, in its place after a reload, on time; subtitles as a browser reads them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from script import Script, subtitles

ROOT = Path(__file__).parents[2]
PAGE = "lesson/script/"
Open = Callable[..., Page]


def script(start: str) -> Script:
    language = {"/": "zh", "/en/": "en"}[start]
    return Script.load(ROOT / "docs" / "script" / f"{language}.toml")


def present(page: Page) -> Locator:
    page.locator("lesson-presenter [name=open]").click()
    dialog = page.locator("lesson-presenter dialog")
    expect(dialog).to_be_visible()
    return dialog


@pytest.mark.parametrize("start", ["/", "/en/"])
def test_keys_lead_through_all_cues(visit: Open, start: str) -> None:
    page = visit(start + PAGE)
    cues = script(start).cues
    dialog = present(page)
    heading = dialog.locator("h2")
    for cue in cues:
        expect(heading).to_have_text(cue.title)
        assert dialog.locator(".say").evaluate("e => e.scrollHeight <= e.clientHeight"), (
            "nobody likes to scroll"
        )
        said = dialog.locator(".say .cue__line").all_text_contents()
        assert said == [line.replace("`", "") for line in cue.say]
        page.keyboard.press("ArrowRight")
    expect(heading).to_have_text(cues[-1].title)  # there is no further
    expect(dialog.locator("[name=forward]")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("PageUp")
    expect(heading).to_have_text(cues[-2].title)
    expect(dialog.locator("aside")).to_contain_text(cues[-1].title)
    for key in "nf.,":  # Material's own keys would leave the page, or search
        page.keyboard.press(key)
    expect(heading).to_have_text(cues[-2].title)
    page.keyboard.press("r")
    expect(heading).to_have_text(cues[0].title)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("lesson-presenter [name=open]")).to_be_focused()


@pytest.mark.parametrize("start", ["/", "/en/"])
def test_buttons_do_what_keys_do(visit: Open, start: str) -> None:
    page = visit(start + PAGE)
    cues, dialog = script(start).cues, present(page)
    for name, cue in ("forward", 1), ("forward", 2), ("back", 1), ("reset", 0):
        dialog.locator(f"[name={name}]").click()
        expect(dialog.locator("h2")).to_have_text(cues[cue].title)
    dialog.locator("[name=forward]").focus()
    page.keyboard.press("Space")  # presses the button: it does not start the clock as well
    expect(dialog.locator("h2")).to_have_text(cues[1].title)
    expect(dialog.locator("[name=run]")).to_have_text(re.compile("^(开始|Start)"))
    dialog.locator("[name=close]").click()
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize(
    ("start", "early", "late", "right"),
    [("/", "早 0:30", "晚 0:05", "准时"), ("/en/", "0:30 early", "0:05 late", "on time")],
)
def test_clock_runs_beside_the_plan(visit: Open, start: str, early: str, late: str, right: str) -> None:
    page = visit("about:blank")
    page.clock.install()
    page.goto(start + PAGE)
    dialog = present(page)
    elapsed, drift = dialog.locator(".elapsed"), dialog.locator(".drift")
    expect(dialog.locator(".planned")).to_have_text("0:00–0:30")
    page.clock.run_for(9_000)
    expect(elapsed).to_have_text("0:00")  # nobody has started it
    page.keyboard.press("ArrowRight")
    expect(drift).to_have_text(early)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("p")
    page.clock.run_for(21_000)
    expect(elapsed).to_have_text("0:21")
    expect(drift).to_have_text(right)
    assert dialog.locator("progress").evaluate("e => e.value") == pytest.approx(0.7, abs=0.02)
    page.keyboard.press("Space")
    page.clock.run_for(60_000)
    expect(elapsed).to_have_text("0:21")
    page.keyboard.press("Space")
    page.clock.run_for(14_000)
    expect(drift).to_have_text(late)
    expect(drift).to_have_class(re.compile("late"))
    page.keyboard.press("R")
    expect(elapsed).to_have_text("0:00")
    page.clock.run_for(5_000)
    expect(elapsed).to_have_text("0:00")


@pytest.mark.parametrize(("here", "there"), [("/", "/en/"), ("/en/", "/")])
def test_place_and_time_outlast_a_reload_and_a_change_of_language(visit: Open, here: str, there: str) -> None:
    page = visit("about:blank")
    page.clock.install()
    page.goto(here + PAGE)
    dialog = present(page)
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("p")
    page.clock.run_for(12_000)
    for start in here, there:
        page.goto(start + PAGE)
        dialog = present(page)
        expect(dialog.locator("h2")).to_have_text(script(start).cues[4].title)
        expect(dialog.locator(".elapsed")).to_have_text("0:12")
        expect(dialog.locator("[name=run]")).to_have_text(re.compile("^(开始|Start)"))  # and it waits


def test_view_works_where_nothing_can_be_kept(visit: Open) -> None:
    page = visit("about:blank")
    refuse = "if (key.startsWith('softmax-camp')) throw new DOMException()"  # Material keeps things, too
    for method in "getItem", "setItem":
        page.add_init_script(f"""{{
          const own = Storage.prototype.{method}
          Storage.prototype.{method} = function (key, ...more) {{
            {refuse}
            return own.call(this, key, ...more)
          }}
        }}""")
    page.goto(f"/en/{PAGE}")
    dialog = present(page)
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("h2")).to_have_text(script("/en/").cues[1].title)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("start", ["/", "/en/"])
def test_view_fills_the_screen(visit: Open, start: str, scheme: str) -> None:
    page = visit(start + PAGE, color_scheme=scheme, reduced_motion="reduce")
    for width, height in (1280, 720), (390, 844):
        page.set_viewport_size({"width": width, "height": height})
        dialog = present(page)
        page.keyboard.press("ArrowRight")  # to a long one
        box = dialog.bounding_box()
        assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, width, height)
        for part in dialog.locator("button, h2, .say, .drift, aside").all():
            expect(part).to_be_in_viewport(ratio=1)
        size = float(dialog.locator(".say").evaluate("e => getComputedStyle(e).fontSize").removesuffix("px"))
        assert size >= 20
        assert dialog.evaluate("e => e.scrollWidth <= e.clientWidth")
        page.keyboard.press("Escape")
        page.wait_for_function("!document.fullscreenElement")  # which cannot be resized


def test_view_follows_instant_navigation(visit: Open) -> None:
    page = visit("/en/lesson/pipeline/")
    page.evaluate("window.same = true")
    for _ in range(2):  # the script runs again with the page
        page.locator(
            f".md-nav--primary a[href$='{PAGE}'], .md-nav--primary a[href='../script/']"
        ).first.click()
        expect(page.locator("article h1")).to_contain_text("The script")
        dialog = present(page)
        page.keyboard.press("ArrowRight")
        expect(dialog.locator("aside")).to_contain_text("The formula")
        page.keyboard.press("r")
        page.keyboard.press("Escape")
        page.go_back()
        expect(page.locator("article h1")).to_contain_text("The pipelines")
    assert page.evaluate("window.same"), "the page was loaded anew: instant navigation is off"


def test_only_the_script_loads_the_view(visit: Open) -> None:
    loaded = "performance.getEntriesByType('resource').some(e => e.name.endsWith('/presenter.js'))"
    assert visit(f"/{PAGE}").evaluate(loaded)
    assert not visit("/lesson/pipeline/").evaluate(loaded)


@pytest.mark.parametrize("start", ["/", "/en/"])
def test_a_browser_reads_the_subtitles(visit: Open, start: str) -> None:
    page = visit(start + PAGE)
    address = page.locator("a[download][href$='.vtt']").evaluate("e => e.href")
    read = """address => new Promise((done, fail) => {
      const track = document.createElement("track")
      track.src = address
      const told = e => [e.id, e.startTime, e.endTime, e.getCueAsHTML().textContent]
      track.onload = () => done([...track.track.cues].map(told))
      track.onerror = fail
      const video = document.createElement("video")
      video.append(track)
      document.body.append(video)
      track.track.mode = "showing"
    })"""
    found = page.evaluate(read, address)
    assert [tuple(cue) for cue in found] == [
        (name, begin / 1000, end / 1000, text) for name, begin, end, text in subtitles(script(start))
    ]
