"""Stamps: under each run block, where it last ran; and the table of all blocks. Both come from the ledger."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import NamedTuple

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

from blocks import Fence, Ledger, Verdict, parse


@dataclass(frozen=True)
class Words:
    """What stamps and table say in one language."""

    fresh: str
    host: str
    stale: str
    stale_host: str
    never: str
    recorded: str
    columns: tuple[str, ...]
    states: dict[str, str]
    summary: str
    changed: str


WORDS = {
    "zh": Words(
        fresh="在 {device} 上运行",
        host="只在主机端运行（{device} 机器）",
        stale="上次在 GPU 上运行之后改动过 · {device}",
        stale_host="上次运行之后改动过 · 只在主机端（{device} 机器）",
        never="还没有在 GPU 上运行过",
        recorded="记录下的输出",
        columns=("状态", "代码块", "启动的核函数", "运行于", "秒"),
        states={"fresh": "最新", "host": "仅主机", "stale": "已改动", "never": "未运行"},
        summary="共 {} 个代码块：",
        changed="改动的文件：",
    ),
    "en": Words(
        fresh="ran on {device}",
        host="ran on the host only ({device} machine)",
        stale="changed since it last ran on a GPU · {device}",
        stale_host="changed since it last ran, on the host only ({device} machine)",
        never="has not run on a GPU yet",
        recorded="Recorded output",
        columns=("State", "Block", "Kernels launched", "Ran on", "Seconds"),
        states={"fresh": "fresh", "host": "host only", "stale": "changed", "never": "not run yet"},
        summary="{} blocks: ",
        changed="changed: ",
    ),
}


def anchor(body: str) -> str:
    """The id of a block's card: the same in both languages and on every page."""
    return "run-" + sha256(body.encode()).hexdigest()[:8]


def kind(verdict: Verdict) -> str:
    """The state to show; a fresh run that launched nothing on the GPU is only "host"."""
    launched = verdict.record and verdict.record["kernels"]
    return "host" if verdict.state == "fresh" and not launched else verdict.state


def caption(verdict: Verdict, words: Words) -> str:
    """Where and when the block ran, in one line of HTML."""
    if verdict.record is None:
        return words.never
    stamp, launched = verdict.record["stamp"], verdict.record["kernels"]
    if verdict.state == "stale":
        phrase = words.stale if launched else words.stale_host
    else:
        phrase = words.fresh if launched else words.host
    return f"{escape(phrase.format(**stamp))} · tilelang {escape(stamp['tilelang'])} · {_date(stamp)}"


def _date(stamp: Mapping[str, str]) -> str:
    return f'<time datetime="{stamp["date"]}">{stamp["date"]}</time>'


class Card(NamedTuple):
    """A run block with what belongs to it: code shown right above, the command, its output, its stamp."""

    fence: Fence
    first: int  # line on which the first fence starts
    last: int  # line on which the last one ends


def cards(markdown: str) -> list[Card]:
    """The cards of a page, in order."""
    lines, fences = markdown.splitlines(), parse(markdown)
    found = []
    for position, fence in enumerate(fences):
        if not fence.runs:
            continue
        first = fence.line
        above = fences[position - 1] if position else None
        if above and "title=" in above.info and above.indent == fence.indent:
            between = lines[above.end : fence.line - 1]
            if all(not line.strip() or line.strip().startswith("<!--") for line in between):
                first = above.line
        found.append(Card(fence, first, (fence.expected or fence).end))
    return found


class _Mark(Preprocessor):
    """Leave a comment before and after each card.

    It runs before snippets are included, because the ledger knows a block by its bare text.
    """

    def __init__(self, md: Markdown, fences: list[Fence]) -> None:
        super().__init__(md)
        self.fences = fences

    def run(self, lines: list[str]) -> list[str]:
        marked = list(lines)
        found = cards("\n".join(lines))
        self.fences[:] = [card.fence for card in found]
        for number, (fence, first, last) in reversed([*enumerate(found)]):
            marked[last:last] = ["", f"{fence.indent}<!--/card {number}-->", ""]
            marked[first - 1 : first - 1] = ["", f"{fence.indent}<!--card {number}-->", ""]
        return marked


class _Fill(Postprocessor):
    """Turn the comments into the card's box and its stamp."""

    MARK = re.compile(r"<!--(/?)card (\d+)-->")

    def __init__(self, md: Markdown, fences: list[Fence], ledger: Ledger, words: Words) -> None:
        super().__init__(md)
        self.fences, self.ledger, self.words = fences, ledger, words

    def run(self, text: str) -> str:
        seen: set[str] = set()

        def fill(mark: re.Match[str]) -> str:
            fence = self.fences[int(mark[2])]
            if mark[1]:
                return self._end(fence)
            name = anchor(fence.body)
            target = "" if name in seen else f'<a id="{name}"></a>'
            seen.add(name)
            return f'<div class="card">{target}'  # Material would give an id of the card to all code in it

        return self.MARK.sub(fill, text)

    def _end(self, fence: Fence) -> str:
        verdict = self.ledger.verdict(fence.body, fence.expected)
        output = verdict.record["output"] if verdict.record and not fence.expected else ""
        if output:
            output = (
                '<div class="language-text highlight recorded">'
                f'<span class="filename">{self.words.recorded}</span>'
                f"<pre><code>{escape(output, quote=False)}</code></pre></div>\n"
            )
        stamp = caption(verdict, self.words)
        return f'{output}<p class="stamp stamp--{kind(verdict)}" data-search-exclude="true">{stamp}</p></div>'


class Stamps(Extension):
    """The Markdown extension: cards and stamps in `language`, from `ledger`."""

    def __init__(self, ledger: Ledger, language: str) -> None:
        super().__init__()
        self.ledger, self.words = ledger, WORDS[language]

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name is Markdown's
        fences: list[Fence] = []  # of the page at hand: MkDocs makes a new Markdown for each
        md.preprocessors.register(_Mark(md, fences), "cards", 40)  # pymdownx.snippets is 32
        fill = _Fill(md, fences, self.ledger, self.words)
        md.postprocessors.register(fill, "cards", 5)  # raw HTML is 30


class Shown(NamedTuple):
    """A run block, with the title and address of each page that shows it."""

    fence: Fence
    links: list[tuple[str, str]]


def table(ledger: Ledger, blocks: Sequence[Shown], language: str) -> str:
    """One row for each block."""
    words = WORDS[language]
    verdicts = [ledger.verdict(fence.body, fence.expected) for fence, _ in blocks]
    rows = "".join(_row(block, verdict, words) for block, verdict in zip(blocks, verdicts, strict=True))
    head = "".join(f"<th>{column}</th>" for column in words.columns)
    counts = Counter(map(kind, verdicts))
    summary = " · ".join(f"{_state(state, words)} {counts[state]}" for state in words.states)
    return (
        '<div data-search-exclude="true">'
        f'<p class="ledger-summary">{words.summary.format(len(blocks))}{summary}</p>\n'
        f'<div class="ledger" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div></div>"
    )


def _state(state: str, words: Words) -> str:
    return f'<span class="state state--{state}">{words.states[state]}</span>'


def _name(text: str) -> str:
    """A path or a C++ name, which may break after / and :: only."""
    return re.sub("(/|::)", r"\1<wbr>", escape(text))


def _row(shown: Shown, verdict: Verdict, words: Words) -> str:
    first, *more = shown.fence.body.strip().splitlines()
    block = f"<code>{_name(first + ' …' * bool(more))}</code><br>"
    block += " · ".join(f'<a href="{escape(url)}">{escape(title)}</a>' for title, url in shown.links)
    if verdict.changed:
        block += f"<br><small>{words.changed}{', '.join(map(_name, verdict.changed))}</small>"
    cells = [_state(kind(verdict), words), block]
    if record := verdict.record:
        kernels = "<br>".join(f"<code>{_name(name)}</code>" for name in dict.fromkeys(record["kernels"]))
        place = f"{escape(record['stamp']['device'])}<br>{_date(record['stamp'])}"
        cells += [kernels or "–", place, f"{record['seconds']:.1f}"]
    else:
        cells += ["–"] * 3
    labelled = zip(words.columns, cells, strict=True)  # for phones, which have no room for columns
    return "<tr>" + "".join(f'<td data-label="{label}">{cell}</td>' for label, cell in labelled) + "</tr>\n"
