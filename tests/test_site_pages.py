"""What the build makes of a page, on small sites: stamps, formulas, languages, mistakes that must end it."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mkdocs")
from bs4 import BeautifulSoup, Tag
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).parents[1]
LANGUAGES = ("zh", "en")
STAMP = {"device": "NVIDIA H200", "tilelang": "0.1.15", "date": "2026-11-30"}


class Site:
    """A site of its own in `root`, with the configuration, hooks and theme of the real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("snippets/a.py", 'print("a")\n')
        for language in LANGUAGES:
            self.page("index.md", "# Home\n", language)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def page(self, name: str, text: str, *languages: str) -> None:
        for language in languages or LANGUAGES:
            self.write(f"docs/{language}/{name}", text)

    def record(
        self, body: str, *, digest: str = "", kernels: tuple[str, ...] = ("online",), output: str = ""
    ) -> None:
        """Add a run of a block that loaded snippets/a.py."""
        path = self.root / "docs/verified.json"
        blocks = json.loads(path.read_text())["blocks"] if path.exists() else {}
        digest = digest or sha256((self.root / "snippets/a.py").read_bytes()).hexdigest()
        blocks[body] = {
            "files": {"snippets/a.py": digest},
            "output": output,
            "seconds": 7.25,
            "kernels": list(kernels),
            "stamp": STAMP,
        }
        self.write("docs/verified.json", json.dumps({"blocks": blocks}))

    def configure(self, **options: object) -> None:
        real = {"nav": None, "watch": [], "hooks": [f"{ROOT}/docs/hooks/website.py"]}
        real["theme"] = {"custom_dir": f"{ROOT}/docs/theme"}
        real["plugins"] = {"search": {"jieba_dict_user": None}}  # jieba would leave the file open: a warning
        for name in ("mkdocs.yml", "mkdocs.en.yml"):
            self.write(name, yaml.safe_dump({"INHERIT": f"{ROOT}/{name}", **real, **options}))

    def build(self, **options: object) -> None:
        """Build both languages, strictly, in this process."""
        self.configure(**options)
        build(load_config(str(self.root / "mkdocs.yml"), strict=True))

    def html(self, name: str, language: str = "zh") -> BeautifulSoup:
        folder = "site" if language == "zh" else "site/en"
        return BeautifulSoup((self.root / folder / name).read_text("utf-8"), "html.parser")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delattr("os.fork")  # both languages in this process, where caplog hears them
    return Site(tmp_path)


def only(soup: BeautifulSoup | Tag, selector: str) -> Tag:
    """The one element that matches."""
    (element,) = soup.select(selector)
    return element


RUN = "```bash\npython snippets/a.py\n```\n"
BODY = "python snippets/a.py\n"
EXPECTED = "\n<!--pytest-codeblocks:expected-output-->\n\n```text\na\n```\n"
DISPLAY = '```py title="snippets/a.py"\n--8<-- "snippets/a.py"\n```\n\n'

CAPTIONS = {
    "fresh": ("在 NVIDIA H200 上运行 · {}", "ran on NVIDIA H200 · {}"),
    "host": ("只在主机端运行（NVIDIA H200 机器） · {}", "ran on the host only (NVIDIA H200 machine) · {}"),
    "stale": (
        "上次在 GPU 上运行之后改动过 · NVIDIA H200 · {}",
        "changed since it last ran on a GPU · NVIDIA H200 · {}",
    ),
    "stale host": (
        "上次运行之后改动过 · 只在主机端（NVIDIA H200 机器） · {}",
        "changed since it last ran, on the host only (NVIDIA H200 machine) · {}",
    ),
    "never": ("还没有在 GPU 上运行过", "has not run on a GPU yet"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_mistake_in_either_language_ends_the_build(tmp_path: Path, language: str) -> None:
    """The languages are built side by side: each has to fail the whole, and to say why."""
    site = Site(tmp_path)
    site.page("index.md", "# Home\n\n[there](nowhere.md)\n", language)
    site.configure()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert "'nowhere.md'" in result.stderr


def test_stamp_tells_the_state_in_both_languages(site: Site) -> None:
    for state in CAPTIONS:
        if state != "never":
            kernels = () if "host" in state else ("online",)
            site.record(f"echo {state}\n", digest="0" if "stale" in state else "", kernels=kernels)
    site.page("index.md", "# Home\n\n" + "".join(f"```bash\necho {state}\n```\n" for state in CAPTIONS))
    site.build()
    for language, column in ("zh", 0), ("en", 1):
        stamps = site.html("index.html", language).select(".card > .stamp")
        for stamp, (state, texts) in zip(stamps, CAPTIONS.items(), strict=True):
            assert stamp.text == texts[column].format("tilelang 0.1.15 · 2026-11-30")
            assert f"stamp--{state.split()[0]}" in stamp["class"]


def test_an_output_that_is_not_the_recorded_one_is_a_change(site: Site) -> None:
    for body, output in ("echo a\n", "a\n"), ("echo b\n", "b\n"):
        site.record(body, output=output)
    block = "```bash\necho {}\n```\n" + EXPECTED
    site.page("index.md", "# Home\n\n" + block.format("a") + "\n" + block.format("b") + "\n<!-- ledger -->\n")
    site.build()
    soup = site.html("index.html")
    right, wrong = soup.select(".card > .stamp")
    assert "stamp--fresh" in right["class"]
    assert "stamp--stale" in wrong["class"]
    assert [state.text for state in soup.select("tbody .state")] == ["最新", "已改动"]


PLACES = {
    "page": "{}",
    "tab": '=== "one"\n\n{4}\n=== "two"\n\n    text\n',
    "list": "1. item\n\n{4}\n2. item\n",
    "nested-list": "- item\n\n    - item\n\n{8}\n",
    "admonition": "!!! note\n\n{4}\n",
    "details": '??? answer "Answer"\n\n{4}\n',
    "html": "<details markdown>\n<summary>Answer</summary>\n\n{}\n\n</details>\n",
    "tight": "text\n{}text\n",
}


def test_card_holds_code_command_output_and_stamp_anywhere(site: Site) -> None:
    def indented(depth: re.Match[str]) -> str:
        return re.sub("^(?=.)", " " * int(depth[1] or 0), DISPLAY + RUN + EXPECTED, flags=re.M)

    for place, text in PLACES.items():
        site.page(f"{place}.md", "# Home\n\n" + re.sub(r"\{(\d?)\}", indented, text))
    site.build()
    for place in PLACES:
        card = only(site.html(f"{place}/index.html"), ".card")
        codes = [code.text.strip() for code in card.select(".highlight code")]
        assert codes == ['print("a")', BODY.strip(), "a"], place
        assert [child.name for child in card.find_all(recursive=False)] == ["a", "div", "div", "div", "p"], (
            place
        )
        assert not card.has_attr("id"), place  # Material would give it to every block of the card
        assert not card.find_parent("p"), place


def test_card_leaves_out_code_that_prose_separates(site: Site) -> None:
    site.page("index.md", f"# Home\n\n{DISPLAY}Run it:\n\n{RUN}")
    site.build()
    assert len(only(site.html("index.html"), ".card").select(".highlight")) == 1


def test_card_holds_the_code_above_a_marked_command(site: Site) -> None:
    site.page("index.md", f"# Home\n\n{DISPLAY}<!--pytest.mark.gpu-->\n\n{RUN}")
    site.build()
    assert len(only(site.html("index.html"), ".card").select(".highlight")) == 2


def test_shown_code_alone_has_no_stamp(site: Site) -> None:
    site.page("index.md", "# Home\n\n" + DISPLAY)
    site.build()
    assert not site.html("index.html").select(".stamp, .card")


def test_recorded_output_is_shown_unless_the_page_expects_it(site: Site) -> None:
    site.record(BODY, output="1 < 2\n")
    site.page("index.md", f"# Home\n\n{RUN}\n\n## Again\n\n{RUN}{EXPECTED}")
    site.build()
    for language, label in ("zh", "记录下的输出"), ("en", "Recorded output"):
        first, second = site.html("index.html", language).select(".card")
        recorded = only(first, ".recorded")
        assert (only(recorded, ".filename").text, only(recorded, "code").text) == (label, "1 < 2\n")
        assert not second.select(".recorded")


def test_ledger_table_has_a_row_for_each_block(site: Site) -> None:
    site.record(BODY, kernels=("online", "online", "fill"))
    site.record("python snippets/b.py\n", digest="0")
    site.record("python snippets/c.py\n", kernels=())
    other = "".join(RUN.replace("a.py", name) + "\n" for name in ("b.py", "c.py", "d.py"))
    site.page("tutorial/one.md", f"# One\n\n{RUN}\n{RUN}\n{other}")
    site.page("index.md", f"# Home\n\n{RUN}")
    site.page("verification.md", "# Verification\n\n<!-- ledger -->\n")
    site.build()
    page = site.html("verification/index.html", "en")
    for wbr in page.select("wbr"):
        wbr.unwrap()
    page.smooth()
    rows = [[cell.get_text("|") for cell in row.select("td")] for row in page.select(".ledger tbody tr")]
    ran = ["NVIDIA H200|2026-11-30", "7.2"]
    assert rows == [
        ["fresh", "python snippets/a.py|Home| · |One", "online|fill", *ran],
        ["changed", "python snippets/b.py|One|changed: snippets/a.py", "online", *ran],
        ["host only", "python snippets/c.py|One", "–", *ran],
        ["not run yet", "python snippets/d.py|One", "–", "–", "–"],
    ]
    assert only(page, ".ledger-summary").text == "4 blocks: fresh 1 · host only 1 · changed 1 · not run yet 1"
    summary = only(site.html("verification/index.html"), ".ledger-summary").text
    assert summary == "共 4 个代码块：最新 1 · 仅主机 1 · 已改动 1 · 未运行 1"
    _, link = page.select(".ledger tbody tr:first-child a")
    assert [cell["data-label"] for cell in page.select(".ledger tbody tr:last-child td")] == [
        head.text for head in page.select(".ledger th")
    ]
    target, anchor = link["href"].split("#")
    assert target == "../tutorial/one/"
    assert only(site.html("tutorial/one/index.html", "en"), f"#{anchor}")  # one id for the two cards


def test_formula_is_rendered_and_its_equation_links_to_itself(site: Site) -> None:
    equation = '<div class="equation" id="eq-merge" markdown>\n$$\ns < 1 \\tag{1}\n$$\n\ntest_merge\n</div>\n'
    site.page("index.md", f"# Home\n\nInline $m_0$ and [(1)](#eq-merge).\n\n{equation}")
    site.build()
    page = site.html("index.html")
    assert [formula.text for formula in page.select("annotation")] == ["m_0", "s < 1 \\tag{1}"]
    assert only(page, "#eq-merge div.math[tabindex='0'] .katex-tag").text == "(1)"
    assert only(page, "#eq-merge > p").text == "test_merge"
    assert only(page, "#eq-merge > a.headerlink")["href"] == "#eq-merge"


def test_search_index_holds_text_alone(site: Site) -> None:
    figure = (
        '<figure><svg viewBox="0 0 1 1"><title>label</title></svg><figcaption>legend</figcaption></figure>\n'
    )
    equation = '<div class="equation" id="eq" markdown>\n$$\n\\beta\n$$\n\nnote\n</div>\n'
    site.page(
        "index.md", f"# Home\n\nbefore $\\alpha$ after\n\n{equation}\n{figure}\n{RUN}\n<!-- ledger -->\n"
    )
    site.build()
    (entry,) = json.loads((site.root / "site/en/search/search_index.json").read_text("utf-8"))["docs"]
    found = BeautifulSoup(entry["text"], "html.parser").get_text(" ", strip=True).split()
    assert found == ["before", "after", "note", "legend", *BODY.split()]


def test_reading_time_counts_prose_alone(site: Site) -> None:
    site.page("tutorial/one.md", "# 一\n\n" + "字" * 900 + "\n\n```text\n" + "word " * 2000 + "\n```\n", "zh")
    site.page("tutorial/one.md", "# One\n\n" + "word " * 1000 + "\n\n$" + "x + " * 999 + "x$\n", "en")
    site.build()
    assert only(site.html("tutorial/one/index.html"), "h1 + .reading-time").text == "阅读约 3 分钟"
    assert only(site.html("tutorial/one/index.html", "en"), "h1 + .reading-time").text == "5 min read"
    assert not site.html("index.html").select(".reading-time")


def test_times_are_those_of_the_pages_and_their_sum(site: Site) -> None:
    site.page("tutorial/one.md", "# One\n\n" + "word " * 1000)
    site.page("labs/two.ipynb", notebook({"cell_type": "markdown", "id": "a", "source": "word " * 600}))
    line = "1. [it]({}), <!-- minutes --> min\n"
    sections = [
        line.format("tutorial/one.md") + line.format("labs/two.ipynb"),
        line.format("tutorial/one.md"),
    ]
    site.page(
        "index.md", "# Home\n" + "".join(f"\n## A\n\nAll <!-- minutes --> min\n\n{s}" for s in sections)
    )
    site.build()
    page = site.html("index.html")
    assert [item.text for item in page.select("article li")] == ["it, 5 min", "it, 3 min", "it, 5 min"]
    assert [text.text for text in page.select("article h2 + p")] == ["All 8 min", "All 5 min"]


CELLS = [
    {"cell_type": "markdown", "id": "title", "source": "# 标题\n\n[see](../index.md) $x_0$"},
    {"cell_type": "markdown", "id": "part", "source": "## 一节\n\nwords"},
    {"cell_type": "code", "id": "run", "source": "print('a < b')", "outputs": "a < b\n"},
]


def notebook(*cells: dict, outputs: list[dict] | None = None) -> str:
    """A notebook whose code cells printed what stands for their outputs, or these outputs."""
    made = []
    for cell in cells or CELLS:
        printed = {"output_type": "stream", "name": "stdout", "text": cell.get("outputs")}
        made.append(
            {"metadata": {}, **cell} | ({"outputs": outputs or [printed]} if "outputs" in cell else {})
        )
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_notebook_is_a_page_of_cards(site: Site) -> None:
    site.page("labs/a.ipynb", notebook())
    site.page("index.md", "# Home\n\n[part](labs/a.ipynb#part)\n\n<!-- ledger -->\n")
    site.build()
    for language, line in (
        ("zh", "阅读约 1 分钟 · 下载 a.ipynb · 输出在 CPU 上核对"),
        ("en", "1 min read · download a.ipynb · outputs checked on a CPU"),
    ):
        page = site.html("labs/a/index.html", language)
        code, output = only(page, ".card").select(".highlight > pre > code")
        assert (code.text, output.text) == ("print('a < b')\n", "a < b\n")
        assert code.select(".nb")  # highlighted
        assert only(page, "article h2#part > a.headerlink")["href"] == "#part"
        assert only(page, ".md-sidebar--secondary a[href='#part']").text.strip() == "一节"
        assert only(page, "annotation").text == "x_0"
        assert only(page, "h1 + .reading-time").text == line
        link = only(page, "a[download]")["href"]
        copy = site.root / ("site" if language == "zh" else "site/en") / "labs/a" / link
        assert copy.read_text("utf-8") == notebook()
        assert only(site.html("index.html", language), "article a[href='labs/a/#part']")
        assert not page.select("article :is(script, style)")
        assert only(site.html("index.html", language), ".ledger-summary").text.count("0") == 5
    assert only(site.html("labs/a/index.html"), "a.language")["href"] == "../../en/labs/a/"
    found = json.loads((site.root / "site/search/search_index.json").read_text("utf-8"))["docs"]
    (entry,) = (entry for entry in found if entry["location"] == "labs/a/#part")
    assert "words" in entry["text"]


SCRIPT = """
[[segment]]
id = "concept"
title = "A & B"

[[segment.cue]]
id = "opening"
title = "x < y"
seconds = 90
screen = "run `it`"
page = "tutorial/one.md#part"
show = ["python snippets/a.py"]
say = \"\"\"
First `m` line.
Second & last.
\"\"\"
"""


def test_script_becomes_cues_a_timeline_and_subtitles(site: Site) -> None:
    site.page("tutorial/one.md", "# 1 · One\n\n## Part {#part}\n")
    site.page("lesson/script.md", "# Script\n\n<!-- script -->\n")
    for language in LANGUAGES:
        site.write(f"docs/script/{language}.toml", SCRIPT)
    site.build()
    for language, minutes in ("zh", "1.5 分钟"), ("en", "1.5 min"):
        page = site.html("lesson/script/index.html", language)
        assert only(page, "h2#concept").text.startswith(f"A & B · {minutes}")
        cue = only(page, "section.cue[data-start='0'][data-seconds='90']")
        assert only(cue, "h3#cue-opening .cue__time").text == "0:00–1:30"
        assert only(cue, ".cue__title").text == "x < y"
        assert [line.text for line in cue.select(".cue__say .cue__line")] == [
            "First m line.",
            "Second & last.",
        ]
        assert only(cue, ".cue__say code").text == "m"
        link, shown = only(cue, ".cue__shows a"), only(cue, ".cue__shows code")
        assert (link["href"], link.text) == ("../../tutorial/one/#part", "1 · One")
        assert shown.text == "python snippets/a.py"
        assert [label.text for label in page.select("#fig-timeline svg text")] == [f"A & B · {minutes}", "0"]
        assert len(page.select("#fig-timeline svg rect")) == 1
        folder = site.root / ("site" if language == "zh" else "site/en") / "lesson" / "script"
        for link in page.select("a[download]"):
            assert "Second &" in (folder / link["href"]).resolve().read_text("utf-8")
        assert len(page.select("a[download]")) == 2
        assert (folder / only(page, "article script")["src"]).resolve().name == "presenter.js"
        assert only(page, "lesson-presenter").text
    index = json.loads((site.root / "site/search/search_index.json").read_text("utf-8"))["docs"]
    assert "lesson/script/#cue-opening" not in {entry["location"] for entry in index}


def test_script_that_shows_no_page_ends_the_build(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.page("lesson/script.md", "# Script\n\n<!-- script -->\n")
    for language in LANGUAGES:
        site.write(f"docs/script/{language}.toml", SCRIPT)
    with pytest.raises(Abort):
        site.build()
    assert "docs/script/zh.toml shows tutorial/one.md, and there is no such page" in caplog.text


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ({"output_type": "error", "ename": "E", "evalue": "", "traceback": []}, "not error"),
        ({"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}}, "a picture needs words"),
    ],
)
def test_output_that_cannot_be_shown_ends_the_build(
    site: Site, caplog: pytest.LogCaptureFixture, output: dict, complaint: str
) -> None:
    site.page("labs/a.ipynb", notebook(outputs=[output]))
    with pytest.raises(Abort):
        site.build()
    assert re.search(f"labs/a.ipynb: cell run: .*{complaint}", caplog.text)


FUNCTION = """
def f(x: int, *, mode: str = "a", third: dict[str, int] | None = None, fourth: int = 4) -> int:
    \"\"\"What `f` does.

    Args:
        x: a number
            of any size.

    Returns:
        x as it came, or
        none: not here.

    Raises:
        ValueError: x < 0.

    Example:
        >>> f(1)
        1
    \"\"\"
"""


def test_docstring_becomes_an_entry(site: Site) -> None:
    site.write("camp_softmax/part.py", FUNCTION)
    site.write("camp_softmax/__init__.py", "from camp_softmax.part import f\n")
    site.page("index.md", "# Home\n\n::: camp_softmax.f\n")
    site.build(repo_url="https://example.org/course/")
    for language, labels in (
        ("zh", ["参数", "返回", "抛出", "例子"]),
        ("en", ["Arguments", "Returns", "Raises", "Example"]),
    ):
        page = site.html("index.html", language)
        assert only(page, "article > .highlight").text.strip().splitlines() == [
            "f(",
            "    x: int,",
            "    *,",
            '    mode: str = "a",',
            "    third: dict[str, int] | None = None,",
            "    fourth: int = 4,",
            ") -> int",
        ]
        entry = only(page, ".docstring")
        assert [label.text for label in entry.select("strong")] == labels
        assert [" ".join(item.text.split()) for item in entry.select("dt, dd")] == [
            "x",
            "a number of any size.",
            "ValueError",
            "x < 0.",
        ]
        assert "x as it came, or none: not here." in " ".join(entry.text.split())
        assert only(entry, ".highlight .gp").text == ">>> "
        english = [part.get("lang") for part in entry.select(":scope > :is(div:not(.highlight), dl)")]
        assert english == (["en"] * 4 if language == "zh" else [None] * 4)
        assert only(entry, ".source a")["href"] == (
            "https://example.org/course/blob/main/camp_softmax/part.py#L2"
        )
    site.build(repo_url="")
    assert only(site.html("index.html"), ".source").text == "源码 camp_softmax/part.py"
    assert not site.html("index.html").select(".source a")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("", "index.md: 'f'"),
        ("def f(): ...", "index.md: f has no docstring"),
        (
            'def f():\n    """Text.\n\n    Yields:\n        int: 1.\n    """',
            "no form for a section of yields",
        ),
    ],
)
def test_mark_that_cannot_be_filled_ends_the_build(
    site: Site, caplog: pytest.LogCaptureFixture, source: str, complaint: str
) -> None:
    site.write("camp_softmax/__init__.py", source)
    site.page("index.md", "# Home\n\n::: camp_softmax.f\n")
    with pytest.raises(Abort):
        site.build()
    assert complaint in caplog.text


def test_page_is_described_by_its_question(site: Site) -> None:
    site.page("one.md", "# One\n\nWhat is `a`?\n{ .question }\n")
    site.build(site_description="of all")
    for name, description in ("one/index.html", "What is a?"), ("index.html", "of all"):
        assert only(site.html(name), "meta[name=description]")["content"] == description


def test_languages_link_to_the_same_page_where_it_exists(site: Site) -> None:
    site.page("both.md", "# Both\n")
    site.page("chinese.md", "# Chinese\n", "zh")
    site.build(site_url="https://example.org/course/")
    for language, other, href in (("zh", "en", "../en/both/"), ("en", "zh", "../../both/")):
        page = site.html("both/index.html", language)
        link = only(page, "a.language")
        assert (link["hreflang"], link["href"]) == (other, href)
        assert page.html["lang"] == language
        assert {link["hreflang"]: link["href"] for link in page.select("head link[hreflang]")} == {
            "zh": "https://example.org/course/both/",
            "en": "https://example.org/course/en/both/",
        }
    alone = site.html("chinese/index.html")
    assert not alone.select("a.language")
    assert [link["hreflang"] for link in alone.select("head link[hreflang]")] == ["zh"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("text", "messages"),
    {
        "formula": ("$$\n\\frac{1}\n$$\n", ["tutorial/bad.md", r"\frac{1}", "KaTeX parse error"]),
        "anchor": ("[see](../index.md#nowhere)\n", ["tutorial/bad.md", "#nowhere"]),
        "link": ("[see](nowhere.md)\n", ["tutorial/bad.md", "nowhere.md"]),
    }.values(),
    ids=["formula", "anchor", "link"],
)
def test_mistake_on_a_page_ends_the_build(
    site: Site, caplog: pytest.LogCaptureFixture, language: str, text: str, messages: list[str]
) -> None:
    site.page("tutorial/bad.md", "# Bad\n\n" + text, language)
    with pytest.raises(Abort):
        site.build()
    assert all(message in caplog.text for message in messages)


@pytest.mark.parametrize("name", ["snippets/nowhere.py", "snippets/a.py:nowhere", "../outside.py"])
def test_missing_include_ends_the_build(site: Site, name: str) -> None:
    site.write("../outside.py", "print()\n")
    site.page("index.md", "# Home\n\n" + DISPLAY.replace('"snippets/a.py"\n```', f'"{name}"\n```'))
    with pytest.raises(Exception, match=re.escape(name.split(":")[-1])):
        site.build()


def test_page_outside_the_navigation_ends_the_build(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.page("forgotten.md", "# Forgotten\n")
    with pytest.raises(Abort):
        site.build(nav=[{"Home": "index.md"}])
    assert "forgotten.md" in caplog.text


def test_without_a_repository_no_page_links_to_one(site: Site) -> None:
    site.build(repo_url="")
    for language in LANGUAGES:
        assert not site.html("index.html", language).select("a[rel=edit], .md-source")


def test_publishing_refuses_stale_and_missing_stamps(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = {"fresh": "", "host": "", "stale": "0", "printed": "", "never": None}
    for name, digest in blocks.items():
        if digest is not None:
            kernels = () if name == "host" else ("online",)
            site.record(
                f"echo {name}\n", digest=digest, kernels=kernels, output="b" if name == "printed" else ""
            )
    text = "".join(f"```bash\necho {name}\n```\n{EXPECTED if name == 'printed' else ''}\n" for name in blocks)
    site.page("index.md", f"# Home\n\n{text}", "en")
    monkeypatch.delenv("FRESH", raising=False)
    site.build()  # the pages tell the state, and that is all
    monkeypatch.setenv("FRESH", "true")
    with pytest.raises(Abort):
        site.build()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "docs/en/index.md:11: changed since its stamp: snippets/a.py",
        "docs/en/index.md:15: changed since its stamp: output",
        "docs/en/index.md:25: no stamp",
    ]


def test_publishing_takes_a_site_with_every_stamp(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.record(BODY, output="a\n")
    site.page("index.md", f"# Home\n\n{DISPLAY}{RUN}{EXPECTED}")
    monkeypatch.setenv("FRESH", "true")
    site.build()


def test_publishing_refuses_a_record_that_is_older_than_what_it_judged(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write("docs/results/agreement.json", json.dumps({"files": {"gone.cuh": "0" * 64}}))
    site.write("docs/agreement.toml", "")
    monkeypatch.delenv("FRESH", raising=False)
    site.build()
    monkeypatch.setenv("FRESH", "true")
    with pytest.raises(Abort):
        site.build()
    assert "agreement.json: changed since: gone.cuh; run make agreement" in caplog.text


def measured(site: Site) -> dict:
    """A record of one shape, in the site."""
    line = {"dtype": "float32", "N": 4, "M": 8, "us": 2.0, "ratio": 0.5}
    record = {
        "stamp": STAMP | {"driver": "1.2", "cuda": "13.0", "torch": "2.11", "commit": None},
        "packages": {},
        "missing": {},
        "failures": [],
        "measurements": [
            line | {"candidate": "copy", "us": 1.0, "ratio": 1.0},
            line | {"candidate": "torch"},
        ],
    }
    site.write("docs/results/nvidia-h200.json", json.dumps(record))
    return record


def test_figures_of_the_record_stand_on_the_page(site: Site) -> None:
    record = measured(site)
    text = "# A\n\nIt is {{ results:ratio torch float32 8 }}.\n\n{{ results:table float32 }}\n\n"
    figure = "<figure>\n{{ results:plot float32 torch }}\n<figcaption>See.</figcaption>\n</figure>\n"
    wide = f"<table><tr><td>{'word ' * 400}</td></tr></table>\n"  # takes no time to read
    site.page("tutorial/a.md", text + figure + wide + "\n{{ results:source }}\n")
    site.build()
    for language in LANGUAGES:
        soup = site.html("tutorial/a/index.html", language)
        assert "It is 0.50." in [paragraph.text for paragraph in soup.select("article > p")]
        assert [cell.text for cell in soup.select(".results td")][1:] == ["0.50"]
        assert "torch" in only(soup, "figure > svg").text
        link = only(soup, "p.source a[download]")["href"]
        folder = site.root / ("site" if language == "zh" else "site/en") / "tutorial/a"
        assert json.loads((folder / link).resolve().read_text("utf-8")) == record
        assert only(soup, ".reading-time").text in ("阅读约 1 分钟", "1 min read")


def test_what_tools_said_stands_on_the_page(site: Site) -> None:
    record = {
        "stamp": STAMP | {"driver": "1.2", "cuda": "13.0", "commit": None},
        "files": {},
        "tools": {"compute-sanitizer": "Version 2025.3 (x)"},
        "kernels": [
            {"name": "a", "memcheck": ["at __global__ <a>", "    by thread", "ERROR SUMMARY: 1 error"]}
        ],
    }
    site.write("docs/results/agreement.json", json.dumps(record))
    site.write("docs/agreement.toml", "[seeded]\n[correct]\n")
    site.page("b/a.md", "# A\n\n{{ agreement:seeded }} seeded\n\n{{ agreement:said memcheck a }}\n\nend\n")
    site.build()
    for language in LANGUAGES:
        soup = site.html("b/a/index.html", language)
        assert [paragraph.text for paragraph in soup.select("article > p")][-2:] == ["0 seeded", "end"]
        card = only(soup, ".card")
        assert only(card, "pre").text == "\n".join(record["kernels"][0]["memcheck"])
        folder = site.root / ("site" if language == "zh" else "site/en") / "b/a"
        link = only(card, ".stamp a[download]")["href"]
        assert json.loads((folder / link).resolve().read_text("utf-8")) == record


def test_without_a_record_of_the_tools_the_build_ends(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.page("a.md", "# A\n\n{{ agreement:seeded }}\n")
    with pytest.raises(Abort):
        site.build()
    assert "there is no docs/results/agreement.json; `make agreement` writes it" in caplog.text


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_figure_that_the_record_lacks_ends_the_build(
    site: Site, language: str, caplog: pytest.LogCaptureFixture
) -> None:
    measured(site)
    site.page("a.md", "# A\n\n{{ results:ratio torch float32 9 }}\n", language)
    with pytest.raises(Abort):
        site.build()
    call = "{{ results:ratio torch float32 9 }}: torch has not one row length 9 in float32; there are 8"
    assert f"docs/{language}/a.md:3: {call}" in caplog.text
