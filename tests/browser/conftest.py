"""The site as a reader's browser gets it, and the browser that all tests here share."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, Route, sync_playwright

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        # The address has to be known to the build: without one, Material turns instant navigation off.
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
        # With a repository, Material's own link to it would ask GitHub about it.
        addresses = {"SITE_URL": url, "REPO_URL": "https://github.com/example/course"}
        subprocess.run(command, cwd=ROOT, env=os.environ | addresses, check=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield url
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # lightest first
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:  # without a path, playwright's own
        # Hinted, as only the shell draws by default, each letter is as wide as a whole number of pixels.
        options = ["--no-sandbox", "--font-render-hinting=none"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, base_url: str) -> Iterator[Callable[..., Page]]:
    """Open an address; fails at the end if a page asked for something elsewhere or complained."""
    contexts, complaints = [], []

    def route(route: Route) -> None:
        if route.request.url.startswith((base_url, "data:", "blob:")):
            route.continue_()
        else:
            complaints.append(f"requested {route.request.url}")
            route.abort()

    def open_page(address: str, **options: object) -> Page:
        context = browser.new_context(base_url=base_url, **options)
        contexts.append(context)
        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("response", lambda got: got.status >= 400 and complaints.append(f"{got.status} {got.url}"))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
