"""The checker beside compute-sanitizer on the pages: `{{ agreement:table seeded }}` and the like.

What the tools said is in docs/results/agreement.json, which `make agreement` writes; what each kernel is, and
why a side is wrong about it, is in docs/agreement.toml. Standard library only, as results.py.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import results
from blocks import changed_since
from placeholders import Call, MissingError, put
from results import grid, origin

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PARTS = ("seeded", "correct")
SUMMARY = re.compile(
    r"ERROR SUMMARY: (?P<errors>\d+) errors?"
    r"|RACECHECK SUMMARY: \d+ hazards? displayed \((?P<hazards>\d+) errors?, (?P<warnings>\d+) warnings?\)"
)


@dataclass(frozen=True)
class Words:
    """What tables say in one language."""

    part: Mapping[str, str]
    checker: str
    together: str
    numbers: str
    verdicts: Mapping[str, str]
    found: str
    alarms: str
    join: str
    changed: str


WORDS = {
    "zh": Words(
        part={"seeded": "放进去的错", "correct": "正确的核函数"},
        checker="检查器",
        together="四个工具合计",
        numbers="不用工具时的结果",
        verdicts={"reports": "报告", "warns": "警告", "right": "对", "wrong": "错"},
        found="{} 个错里查出",
        alarms="{} 个正确的里误报",
        join="；",
        changed="记录之后改动过：{}",
    ),
    "en": Words(
        part={"seeded": "what is seeded", "correct": "correct kernel"},
        checker="checker",
        together="the four tools together",
        numbers="numbers without a tool",
        verdicts={"reports": "reports", "warns": "warns", "right": "right", "wrong": "wrong"},
        found="found, of {}",
        alarms="false alarms, of {}",
        join="; ",
        changed="changed since the record: {}",
    ),
}


@dataclass(frozen=True)
class Agreement:
    """The record, by kernel, and what is told of the kernels.

    changed: files that have changed since; what was judged then is not what there is now.
    """

    record: Mapping[str, Any]
    told: Mapping[str, Any]
    changed: tuple[str, ...] = ()

    @classmethod
    def load(cls, docs: Path) -> "Agreement":
        path = docs / "results/agreement.json"
        if not path.exists():
            raise MissingError("there is no docs/results/agreement.json; `make agreement` writes it")
        told = tomllib.loads((docs / "agreement.toml").read_text("utf-8"))
        record = json.loads(path.read_text("utf-8"))
        return cls(record, told, changed_since(record["files"].items(), docs.parent))

    @property
    def state(self) -> str:
        """As of a block's stamp."""
        return "stale" if self.changed else "fresh"

    def kernel(self, name: str) -> Mapping[str, Any]:
        kernels: dict[str, Mapping[str, Any]] = {k["name"]: k for k in self.record["kernels"]}
        if name not in kernels:
            raise MissingError(f"no kernel {name}; there are {', '.join(kernels)}")
        return kernels[name]

    def verdict(self, name: str, side: str) -> str:
        """The checker's rule, or whether a tool "reports" or "warns"; nothing if it found nothing."""
        said = self.kernel(name)[side]
        if side == "checker":
            return said.split(": ")[1] if said else ""
        if not (summary := SUMMARY.match(said[-1])):
            raise MissingError(f"{side} did not get to its summary of {name}: {said[-1]}")
        if int(summary["errors"] or summary["hazards"]):
            return "reports"
        return "warns" if int(summary["warnings"] or 0) else ""

    def finds(self, name: str, side: str) -> bool:
        """Whether that side, "tools" being any of them, has something to say."""
        return any(self.verdict(name, one) for one in (TOOLS if side == "tools" else (side,)))

    def count(self, part: str, side: str) -> int:
        return sum(self.finds(name, side) for name in self.told[part])

    def kind(self, name: str) -> str | None:
        """Who is wrong about a kernel: nobody, None; or what the section is called that tells why."""
        checker, tools = (self.finds(name, side) for side in ("checker", "tools"))
        if name in self.told["correct"]:
            return "false-alarms" if checker or tools else None
        if checker and tools:
            return None
        return "checker-alone" if checker else "tools-alone" if tools else "neither"


# --- figures in a sentence --------------------------------------------------------------------------


def _compared(a: Agreement) -> list[str]:
    """What became of the numbers of the seeded kernels of which somebody knows what is right."""
    found = [a.kernel(name)["numbers"] for name in a.told["seeded"]]
    return [numbers for numbers in found if numbers != "unknown"]


FIGURES: dict[str, Callable[[Agreement], int]] = {
    "seeded": lambda a: len(a.told["seeded"]),
    "correct": lambda a: len(a.told["correct"]),
    "compared": lambda a: len(_compared(a)),
    "right": lambda a: _compared(a).count("right"),
}


# --- what stands on a line of its own ---------------------------------------------------------------


def _inline(text: str) -> str:
    """Text with code spans."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    filled = [[first, *(cell or "–" for cell in rest)] for first, *rest in rows]
    return grid(head, filled, "results__table results__table--words", _inline)


def _kernels(a: Agreement, words: Words, language: str, part: str) -> str:
    """A line for each seeded or correct kernel."""
    rows = []
    for name, told in a.told[part].items():
        rule, numbers = a.verdict(name, "checker"), a.kernel(name)["numbers"]
        verdicts = [words.verdicts.get(a.verdict(name, tool), "") for tool in TOOLS]
        result = words.verdicts.get(numbers) or ("" if numbers == "unknown" else _code(numbers))
        rows.append([told[language], rule and _code(rule), *verdicts, result])
    what = words.part[part]
    return _table([what, what, words.checker, *TOOLS, words.numbers], rows)


def _code(text: str) -> str:
    """A rule, or the name of an error, which may break before a capital."""
    return f"<code>{re.sub('(?<=[a-z])(?=[A-Z])', '<wbr>', escape(text))}</code>"


def _sums(a: Agreement, words: Words) -> str:
    """How many of the seeded bugs each side finds, and how many correct kernels it reports."""
    names = {"checker": words.checker, "tools": words.together} | {tool: tool for tool in TOOLS}
    rows = [[name, *(str(a.count(part, side)) for part in PARTS)] for side, name in names.items()]
    found, alarms = (
        text.format(len(a.told[part])) for text, part in zip((words.found, words.alarms), PARTS, strict=True)
    )
    return _table([f"{found}{words.join}{alarms}", "", found, alarms], rows)


def _why(a: Agreement, words: Words, language: str, kind: str) -> str:
    """Why one side is wrong, for each kernel of a kind."""
    told = {name: entry for part in PARTS for name, entry in a.told[part].items()}
    items = [
        f"<li><strong>{words.join.join(_inline(told[name][language]) for name in entry['of'])}</strong>"
        f"<br>{_inline(entry[language])}</li>"
        for entry in a.told["why"]
        if a.kind(entry["of"][0]) == kind
    ]
    if not items:
        raise MissingError(f"no kernel is of the kind {kind}")
    return f"<ul>{''.join(items)}</ul>"


def _said(a: Agreement, language: str, url: str, tool: str, name: str) -> str:
    """The first report of a tool, and its summary, in its own words, on a card like a block that ran."""
    *lines, summary = a.kernel(name)[tool]
    if not lines:
        raise MissingError(f"{tool} says nothing of {name}")
    end = next((at for at, line in enumerate(lines) if at and not line.startswith(" ")), len(lines))
    shown = [*lines[:end], *["…"] * (end < len(lines)), summary]
    text = "&#10;".join(escape(line, quote=False) for line in shown)
    return (
        f'<div class="card"><div class="language-text highlight"><span class="filename">{tool}</span>'
        f"<pre><code>{text}</code></pre></div>{_source(a, language, url, f'stamp stamp--{a.state}')}</div>"
    )


def _source(a: Agreement, language: str, url: str, look: str = "source") -> str:
    """Where and with what the record was made, and the way to it."""
    versions = {"compute-sanitizer": a.record["tools"]["compute-sanitizer"].split()[1]}
    made = origin(a.record["stamp"], versions, results.WORDS[language], url, look)
    if not a.changed:
        return made
    files = ", ".join(f"<code>{escape(name)}</code>" for name in a.changed)
    return f'{made}<p class="{look}">{WORDS[language].changed.format(files)}</p>'


# --- pages ------------------------------------------------------------------------------------------


def expand(text: str, agreement: Agreement, language: str, url: str, where: str) -> str:
    """The page with what the record says of both sides in it, as `results.expand`."""

    return put(text, "agreement", lambda call: _filled(call, agreement, language, url), where)


def _filled(call: Call, a: Agreement, language: str, url: str) -> str:
    name, arguments = call.name, call.arguments
    if call.beside:
        raise MissingError("there is no record beside that of the agreement")
    if name in FIGURES and not arguments:
        return str(FIGURES[name](a))
    if name == "device" and not arguments:
        return escape(a.record["stamp"]["device"])
    words = WORDS[language]
    tool, *of = arguments or [""]
    blocks: dict[str, tuple[str, Callable[[], str]]] = {  # name: (its arguments, what it draws)
        "table": ("|".join(PARTS), lambda: _kernels(a, words, language, *arguments)),
        "sums": ("", lambda: _sums(a, words)),
        "why": (r"[a-z-]+", lambda: _why(a, words, language, *arguments)),
        "said": (f"({'|'.join(TOOLS)}) .+", lambda: _said(a, language, url, tool, " ".join(of))),
        "source": ("", lambda: _source(a, language, url)),
    }
    if name not in blocks:
        raise MissingError(f"there is no {name}; there are {' '.join([*FIGURES, 'device', *blocks])}")
    wanted, draw = blocks[name]
    if not re.fullmatch(wanted, " ".join(arguments)):
        raise MissingError(f"{name} takes {wanted or 'no arguments'}")
    if not call.alone:
        raise MissingError(f"{name} stands on a line of its own")
    return draw()
