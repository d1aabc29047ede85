"""What MkDocs lacks for this site: two languages in one build, stamped blocks, formulas, reading times."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from jinja2 import Environment
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from blocks import Ledger, parse
from fonts import trim
from formulas import Formulas
from stamps import Shown, Stamps, anchor, table

MINUTES = {"zh": "阅读约 {} 分钟", "en": "{} min read"}
LEDGER = "<!-- ledger -->"

# Material cuts a Chinese query into indexed words, but never tries one that ends the query: 分块 became 分.
CUT = "for(let o=s+1;o<t.length;o++)t.slice(s,o)in e"


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _ledger(config: MkDocsConfig) -> Ledger:
    return Ledger.load(_root(config) / "docs" / "verified.json", _root(config))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add our Markdown extensions as objects: a module under docs/ cannot be imported by name."""
    config.markdown_extensions += [Formulas(), Stamps(_ledger(config), config.theme["language"])]
    if not config.extra["companion"]:
        config.theme.static_templates.discard("404.html")  # the one of the root speaks both languages
    return config


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep figures' labels out of the search index; describe a page by its question; time a chapter."""
    if question := re.search(r'<p class="question">(.*?)</p>', html, re.S):
        page.meta.setdefault("description", BeautifulSoup(question[1], "html.parser").get_text())
    html = html.replace("<svg ", '<svg data-search-exclude="true" ')
    if not page.file.src_uri.startswith("tutorial/"):
        return html
    line = MINUTES[config.theme["language"]].format(reading_minutes(html))
    return html.replace("</h1>", f'</h1>\n<p class="reading-time" data-search-exclude="true">{line}</p>', 1)


def reading_minutes(html: str) -> int:
    """300 Chinese characters or 200 words of prose a minute; code, formulas and figures do not count."""
    soup = BeautifulSoup(html, "html.parser")
    for aside in soup.select("pre, svg, .math, .stamp, .headerlink"):
        aside.decompose()
    text = soup.get_text()
    characters = len(re.findall(r"[\u3400-\u9fff]", text))
    words = len(re.findall(r"[^\W\u3400-\u9fff]+", text))
    return max(1, round(characters / 300 + words / 200))


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """Draw the ledger's table, now that every page has a title."""
    pages = [file.page for file in files.documentation_pages() if file.page]
    for page in pages:
        if page.content and LEDGER in page.content:
            drawn = table(_ledger(config), _shown(pages, page), config.theme["language"])
            page.content = page.content.replace(LEDGER, drawn)


def _shown(pages: list[Page], here: Page) -> list[Shown]:
    """Each run block, with the title of every page that shows it and the way there from `here`."""
    shown: dict[str, Shown] = {}
    for page in pages:
        fences = {fence.body: fence for fence in parse(page.file.content_string) if fence.runs}
        for body, fence in fences.items():
            url = f"{page.file.url_relative_to(here.file)}#{anchor(body)}"
            shown.setdefault(body, Shown(fence, [])).links.append((str(page.title), url))
    return list(shown.values())


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Tell the templates where this page is in each language that has it."""
    languages = config.extra["languages"]
    here = languages[config.theme["language"]]["root"] + page.url
    context["translations"] = translations = {
        code: {"name": language["name"], "url": get_relative_url(language["root"] + page.url, here)}
        for code, language in languages.items()
        if Path(config.docs_dir).with_name(code).joinpath(page.file.src_uri).exists()
    }
    for translation in translations.values():  # search engines want addresses in full, where there are any
        translation["absolute"] = urljoin(page.canonical_url or "", translation["url"])


@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Mend the search for Chinese; build the other language into a folder of this one; trim fonts."""
    (worker,) = Path(config.site_dir, "assets/javascripts/workers").glob("search.*.js")
    before, after = worker.read_text("utf-8").split(
        CUT
    )  # fails if Material has changed: look whether it is mended
    worker.write_text(before + CUT.replace("<t", "<=t") + after, "utf-8")
    if companion := config.extra["companion"]:
        build(
            load_config(
                str(_root(config) / companion),
                site_dir=str(Path(config.site_dir, "en")),
                site_url=urljoin(config.site_url, "en/") if config.site_url else None,
                strict=config.strict,
            )
        )
        trim(Path(config.site_dir))
