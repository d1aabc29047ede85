"""What MkDocs lacks for this site: two languages, stamps, formulas, notebooks, docstrings, reading times."""

import gc
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from bs4 import BeautifulSoup
from jinja2 import Environment, FileSystemBytecodeCache
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort, BuildError
from mkdocs.plugins import CombinedEvent, event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

import fonts
import results
import sanitizer
from api import fill
from blocks import Fence, Ledger, parse
from colours import Colours
from formulas import Formulas, glyphs
from notebooks import markdown
from placeholders import PLACEHOLDER, MissingError, calls
from prose import words
from records import Results
from sanitizer import Agreement
from script import Script, downloads
from script import page as script_page
from stamps import Shown, Stamps, anchor, table

MINUTES = {"zh": "阅读约 {} 分钟", "en": "{} min read"}
NOTEBOOK = {
    "zh": ' · <a href="{0}" download>下载 {0}</a> · 输出在 CPU 上核对',
    "en": ' · <a href="{0}" download>download {0}</a> · outputs checked on a CPU',
}
LEDGER, SCRIPT = "<!-- ledger -->", "<!-- script -->"
TITLE = re.compile(r"^# (.+)$", re.M)
TIME = "<!-- minutes -->"  # of the page that its line links to; on a line without a link, of its section
LINK = re.compile(r"\]\((?P<page>[\w./-]+)\)")
DRAWN = re.compile(r"<(svg|table)\b.*?</\1>", re.S)

# For the search index: drawings and formulas, which are not in it, and the colours of code.
UNREAD = re.compile(r"<(?P<tag>svg|var|div)(?= )[^>]* data-search-exclude=[^>]*>.*?</(?P=tag)>", re.S)
CODE = re.compile(r"<code\b.*?</code>", re.S)
INLINE = re.compile(r"</?(?:span|a)\b[^>]*>")

log = logging.getLogger("mkdocs.hooks.website")  # --strict counts what is said under "mkdocs"

_child: int | None = None  # the process that builds the other language

# Workers do not run on file://; this stands in for them, and the offline plugin wants it by this name.
SHIM = "assets/iframe-worker/shim.js"

# Material cuts a Chinese query into indexed words, but never tries one that ends the query: 分块 became 分.
CUT = "for(let o=s+1;o<t.length;o++)t.slice(s,o)in e"


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def _kept(config: MkDocsConfig, name: str) -> Path:
    """A folder for what the next build need not make again."""
    folder = _root(config) / ".cache" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _offline(config: MkDocsConfig) -> bool:
    return config.plugins["material/offline"].config.enabled


def _ledger(config: MkDocsConfig) -> Ledger:
    return Ledger.load(_root(config) / "docs" / "verified.json", _root(config))


def _script_path(config: MkDocsConfig) -> Path:
    return _root(config) / "docs" / "script" / f"{config.theme['language']}.toml"


def _script(config: MkDocsConfig) -> Script:
    return Script.load(_script_path(config))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add our Markdown extensions as objects: a module under docs/ cannot be imported by name."""
    language = config.theme["language"]
    config.markdown_extensions += [
        Colours(_kept(config, "colours"), pygments_lang_class=True),
        Formulas(),
        Stamps(_ledger(config), language),
    ]
    config.edit_uri = f"edit/main/docs/{language}/" if config.repo_url else None
    if not config.extra["companion"]:
        config.theme.static_templates.discard("404.html")  # the one of the root speaks both languages
    if _offline(config):
        config.extra["polyfills"] = [SHIM]  # in place of the plugin's, which is on another host
        config.theme["features"].remove("navigation.instant")  # without a server, it stops other scripts
    return config


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> None:
    """Take a notebook's rendering back from mkdocs-jupyter, whose pages are 600 KB without formulas."""
    vars(page).pop("render", None)


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Read a notebook as the Markdown that it is; other pages are read as ever."""
    if not page.file.src_uri.endswith(".ipynb"):
        return None
    try:
        return markdown(page.file.content_string)
    except ValueError as error:
        raise BuildError(f"{page.file.src_uri}: {error}") from error


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in what the record says, docstrings and the script of the lesson, where the page asks for them."""
    try:
        if PLACEHOLDER.search(text):
            text = _with_figures(text, page, config, files)
        text = fill(text, _root(config), config.theme["language"], config.repo_url or "")
    except MissingError as error:
        raise BuildError(str(error)) from error
    except (KeyError, ValueError) as error:
        raise BuildError(f"{page.file.src_uri}: {error}") from error
    return text.replace(SCRIPT, _script_text(page, config, files)) if SCRIPT in text else text


def _with_figures(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with what the records say: of speed, and of the checker beside compute-sanitizer."""
    name, docs, language = config.extra["results"], _root(config) / "docs", config.theme["language"]
    where = (Path(config.docs_dir).relative_to(_root(config)) / page.file.src_uri).as_posix()

    def url(record: str) -> str:
        file = files.get_file_from_path(f"results/{record}.json")
        return file.url_relative_to(page.file) if file else ""

    if calls(text, "agreement"):
        text = sanitizer.expand(text, Agreement.load(docs), language, url("agreement"), where)
    return results.expand(text, Results.load(docs / "results", name), language, url(name), where)


def _script_text(page: Page, config: MkDocsConfig, files: Files) -> str:
    """The script of the lesson, with the titles of the pages that it shows."""
    script = _script(config)
    titles = {}
    for path in {cue.page.partition("#")[0] for cue in script.cues}:
        if (file := files.get_file_from_path(path)) is None:
            raise BuildError(f"docs/script/{script.language}.toml shows {path}, and there is no such page")
        title = TITLE.search(file.content_string)
        titles[path] = title[1] if title else path
    return script_page(script, titles, get_relative_url("assets", page.url))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep figures' labels out of the search index; describe a page by its question; time a chapter."""
    if question := re.search(r'<p class="question">(.*?)</p>', html, re.S):
        page.meta.setdefault("description", BeautifulSoup(question[1], "html.parser").get_text())
    if '<div class="hero">' in html:
        page.meta["hide"] = ["toc"]  # for the figure; with CSS alone it goes late, and the text jumps
    html = html.replace("<svg ", '<svg data-search-exclude="true" ')
    folder, _, name = page.file.src_uri.rpartition("/")
    if folder not in ("tutorial", "cuda", "labs"):
        return html
    language = config.theme["language"]
    line = MINUTES[language].format(reading_minutes(page.markdown or ""))
    if name.endswith(".ipynb"):  # mkdocs-jupyter lays it beside the page
        line += NOTEBOOK[language].format(name)
    return html.replace("</h1>", f'</h1>\n<p class="reading-time" data-search-exclude="true">{line}</p>', 1)


def reading_minutes(text: str) -> int:
    """300 Chinese characters or 200 words of prose a minute; code, formulas and drawings do not count."""
    prose = words(DRAWN.sub("", text))
    characters = len(re.findall(r"[\u3400-\u9fff]", prose))
    others = len(re.findall(r"[^\W\u3400-\u9fff]+", prose))
    return max(1, round(characters / 300 + others / 200))


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """Draw the ledger's table and tell times, now that every page is read; name stale stamps, if asked."""
    env.bytecode_cache = FileSystemBytecodeCache(str(_kept(config, "templates")))
    pages = [file.page for file in files.documentation_pages() if file.page]
    if config.extra["fresh"]:
        _refuse_stale(pages, config)
    for page in pages:
        if page.content and LEDGER in page.content:
            drawn = table(_ledger(config), _shown(pages, page), config.theme["language"])
            page.content = page.content.replace(LEDGER, drawn)
        if page.content and TIME in page.content:
            page.content = _timed(page.content, _times(page.markdown or "", files))


def _timed(html: str, times: Iterator[str]) -> str:
    return re.sub(TIME, lambda _: next(times), html)


def _times(text: str, files: Files) -> Iterator[str]:
    """What each mark stands for, in order."""
    for section in text.split("\n## "):
        links = [LINK.search(line) for line in section.split("\n") if TIME in line]
        found = [files.get_file_from_path(link["page"]) if link else None for link in links]
        minutes = [reading_minutes(file.page.markdown or "") if file and file.page else 0 for file in found]
        yield from (str(time if link else sum(minutes)) for link, time in zip(links, minutes, strict=True))


def _refuse_stale(pages: list[Page], config: MkDocsConfig) -> None:
    """Warn of each run block and record whose stamp is stale or missing, which ends a strict build."""
    ledger = _ledger(config)
    for page in pages:
        for fence in _runs(page):
            verdict = ledger.verdict(fence.body, fence.expected)
            if verdict.state != "fresh":
                where = Path(config.docs_dir).relative_to(_root(config)) / page.file.src_uri
                why = (
                    f"changed since its stamp: {', '.join(verdict.changed)}" if verdict.record else "no stamp"
                )
                log.warning("%s:%d: %s", where, fence.line, why)
    docs = _root(config) / "docs"
    if (docs / "results/agreement.json").exists() and (changed := Agreement.load(docs).changed):
        log.warning("docs/results/agreement.json: changed since: %s; run make agreement", ", ".join(changed))


def _runs(page: Page) -> list[Fence]:
    return [fence for fence in parse(page.markdown or "") if fence.runs]


def _shown(pages: list[Page], here: Page) -> list[Shown]:
    """Each run block, with the title of every page that shows it and the way there from `here`."""
    shown: dict[str, Shown] = {}
    for page in pages:
        for body, fence in {fence.body: fence for fence in _runs(page)}.items():
            url = f"{page.file.url_relative_to(here.file)}#{anchor(body)}"
            shown.setdefault(body, Shown(fence, [])).links.append((str(page.title), url))
    return list(shown.values())


def _translations(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
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


@event_priority(100)
def _lighten(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Hand the search plugin a page without what it does not index: most of its time goes there."""
    context["whole"] = page.content
    text = UNREAD.sub("", page.content or "")
    page.content = CODE.sub(lambda code: INLINE.sub("", code[0]), text)


@event_priority(-100)
def _restore(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """The page as it was; as the plugin does, without its own attributes."""
    page.content = re.sub(r'\s?data-search-\w+="[^"]+"', "", context.pop("whole"))


on_page_context = CombinedEvent(_lighten, _translations, _restore)


@event_priority(-100)
def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add records and subtitles; start on the other language: the site has just been cleared."""
    for path in sorted((_root(config) / "docs" / "results").glob("*.json")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    if _script_path(config).exists():
        for name, text in downloads(_script(config)).items():
            files.append(File.generated(config, f"lesson/{name}", content=text))
    global _child
    # A fork is safe only while nothing else runs, such as KaTeX's engine or the server of `mkdocs serve`.
    if config.extra["companion"] and hasattr(os, "fork") and threading.active_count() == 1:
        _child = _fork(config)


def _fork(config: MkDocsConfig) -> int:
    """Builds the other language in a process of its own; its number."""
    gc.freeze()  # or both would go through all that is there, again and again
    if child := os.fork():
        return child
    status = 1
    try:
        _build_companion(config)
        status = 0
    except Abort as error:
        error.show()
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def _wait(child: int) -> bool:
    """Waits for that process, and forgets it; whether it built the other language."""
    global _child
    _child = None
    return os.waitpid(child, 0)[1] == 0


def _build_companion(config: MkDocsConfig) -> None:
    build(
        load_config(
            str(_root(config) / config.extra["companion"]),
            site_dir=str(Path(config.site_dir, "en")),
            site_url=urljoin(config.site_url, "en/") if config.site_url else None,
            strict=config.strict,
        )
    )


def on_build_error(error: Exception) -> None:
    """Leave no process behind."""
    if _child:
        _wait(_child)


@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Mend the search for Chinese; have the other language in a folder of this one; trim CSS and fonts."""
    (worker,) = Path(config.site_dir, "assets/javascripts/workers").glob("search.*.js")
    # Fails if Material has changed: look whether it is mended.
    before, after = worker.read_text("utf-8").split(CUT)
    worker.write_text(before + CUT.replace("<t", "<=t") + after, "utf-8")
    for css in Path(config.site_dir, "assets").glob("*.css"):  # comments are a fifth of what a reader loads
        css.write_text(re.sub(r"/\*.*?\*/\s*", "", css.read_text("utf-8"), flags=re.S), "utf-8")
    if config.extra["companion"]:
        here, there = Path(config.site_dir), Path(config.site_dir, "en")
        fonts.trim(here, fonts.FORMULAS, glyphs())  # the same formulas in each language
        if not _child:
            _build_companion(config)
        elif not _wait(_child):
            raise Abort("The other language does not build; see above")
        fonts.trim(here, fonts.CODE, fonts.shown(here))
        fonts.copy(fonts.FORMULAS + fonts.CODE, here, there)
        if _offline(config):
            _pack(Path(config.site_dir))


def _pack(folder: Path) -> None:
    """Zip a folder beside itself, without what only servers use: the same pages make the same bytes."""
    served = {"404.html", "sitemap.xml", "sitemap.xml.gz"}
    with ZipFile(f"{folder}.zip", "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in served):
            entry = ZipInfo(path.relative_to(folder.parent).as_posix())  # of 1980
            archive.writestr(entry, path.read_bytes(), ZIP_DEFLATED)
