"""The pictures of the READMEs, docs/figures/{site,stepper}.*.png: `python tests/browser/pictures.py SITE`.

SITE is the address of a site that is being served, such as that of `make serve`. Needs Chromium on PATH.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
CHAPTER = "tutorial/online-log-sum-exp/"


def main(site: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for language, prefix in ("zh", ""), ("en", "en/"):
            page = browser.new_page(base_url=site, viewport={"width": 1280, "height": 720})
            page.goto(prefix, wait_until="networkidle")
            page.screenshot(path=FIGURES / f"site.{language}.png")
            page.goto(prefix + CHAPTER, wait_until="networkidle")
            stepper = page.locator("merge-stepper")
            for _ in range(2):
                stepper.locator("[name=forward]").click()
            page.mouse.move(0, 0)
            stepper.screenshot(path=FIGURES / f"stepper.{language}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
