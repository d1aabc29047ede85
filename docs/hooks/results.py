"""Figures of a benchmark record on the pages: `{{ results:ratio auto float32 4096 }}` and the like; of one
beside it, docs/results/<name>-calls.json, say: `{{ results.calls:time auto float32 256 }}`.

A new run changes the pages, and nobody types a measurement. Standard library only, as blocks.py: the
guards of the pages read records too. What is drawn is in charts.py.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from blocks import outside
from charts import WORK, plot, regimes, roofline
from prose import SPAN

PLACEHOLDER = re.compile(r"\{\{\s*(?P<record>results|agreement)\b(?P<rest>[^{}]*)\}\}")
NBSP = "\N{NO-BREAK SPACE}"  # a number and its unit stay together
CALL = re.compile(r"(?:\.(?P<beside>[a-z-]+))?:(?P<name>[a-z-]+)(?P<arguments>(?:\s+[\w.-]+)*)\s*")


class MissingError(ValueError):
    """A page asks for what the record does not have; the message says what there is."""


@dataclass(frozen=True)
class Words:
    """What tables and lines say in one language."""

    length: str
    copy: str
    region: str
    download: str
    commit: str
    driver: str
    nothing: str
    more: str
    comma: str
    colon: str
    wrong: str
    # Heads of tables, each behind what the table is.
    variants: tuple[str, ...]
    calls: tuple[str, ...]
    attention: tuple[str, ...]
    causal: tuple[str, str]  # no, yes
    traffic: tuple[str, ...]
    traffic_at: str
    short: tuple[str, ...]


WORDS = {
    "zh": Words(
        length="行长",
        copy="复制，TB/s",
        region="{}：各行长上的带宽，复制为 1",
        download="下载记录",
        commit="提交",
        driver="驱动",
        nothing="没有。",
        more="另有 {} 个形状",
        comma="，",
        colon="：",
        wrong="结果错",
        variants=("各种改法的用时，以原来的核函数为 1", "改法", "类型", "行长", "用时，倍"),
        calls=(
            "一次调用的用时",
            "候选",
            "一次调用",
            "是 torch 的几倍",
            "头一次，缓存为空",
            "头一次，缓存已有",
        ),
        attention=(
            "注意力的速度",
            "类型",
            "D",
            "因果",
            "torch，TFLOP/s",
            "这里，TFLOP/s",
            "这里是 torch 的几倍",
        ),
        causal=("否", "是"),
        traffic=("每个元素经过显存几次", "候选", "按算法数"),
        traffic_at="行长 {}",
        short=("不够快的地方", "类型", "行长", "auto", "最快的别家"),
    ),
    "en": Words(
        length="row length",
        copy="copy, TB/s",
        region="{}: bandwidth by row length, the copy being 1",
        download="download the record",
        commit="commit",
        driver="driver",
        nothing="Nothing.",
        more="and {} more",
        comma=", ",
        colon=": ",
        wrong="wrong",
        variants=(
            "the time of each variant, that of the kernel being 1",
            *("variant", "dtype", "row length", "time, times"),
        ),
        calls=(
            "the time of a call",
            *(
                "candidate",
                "a call",
                "times torch’s",
                "first call, caches empty",
                "first call, caches filled",
            ),
        ),
        attention=(
            "the speed of attention",
            *("dtype", "D", "causal", "torch, TFLOP/s", "here, TFLOP/s", "here, as a fraction of torch"),
        ),
        causal=("no", "yes"),
        traffic=("how often memory moves each element", "candidate", "as counted"),
        traffic_at="row length {}",
        short=("where it is not fast enough", "dtype", "row length", "auto", "the fastest other"),
    ),
}


@dataclass(frozen=True)
class Results:
    """The record of one device, docs/results/<name>.json; None if there is none yet.

    others: docs/results/<name>-<what>.json, by what was measured: variants of the kernels, calls, …
    """

    name: str
    found: Mapping[str, Any] | None
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, name: str) -> "Results":
        records = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob(f"{name}*.json")}
        found = records.pop(name, None)
        return cls(name, found, {stem.removeprefix(f"{name}-"): record for stem, record in records.items()})

    def beside(self, what: str) -> "Results":
        return Results(f"{self.name}-{what}", self.others.get(what))

    @property
    def record(self) -> Mapping[str, Any]:
        if self.found is None:
            raise MissingError(f"there is no docs/results/{self.name}.json; `make bench` writes it")
        return self.found

    def measurement(self, candidate: str, dtype: str, length: str) -> Mapping[str, Any]:
        """The one line for this candidate, dtype and row length."""
        found = [m for m in self.series(candidate, dtype) if str(m["M"]) == length]
        if len(found) == 1:
            return found[0]
        lengths = " ".join(str(m["M"]) for m in self.series(candidate, dtype))
        raise MissingError(f"{candidate} has not one row length {length} in {dtype}; there are {lengths}")

    def series(self, candidate: str, dtype: str) -> list[Mapping[str, Any]]:
        """All lines of a candidate in a dtype, short rows first."""
        lines = self.record["measurements"]
        same = [m for m in lines if m["dtype"] == dtype]
        if not same:
            raise MissingError(f"no dtype {dtype}; there are {_names(lines, 'dtype')}")
        if found := [m for m in same if m["candidate"] == candidate]:
            return found
        why = "".join(f" ({reason})" for reason in self._excuses(candidate, dtype))
        raise MissingError(f"no candidate {candidate} in {dtype}{why}; there are {_names(same, 'candidate')}")

    def some(self, candidate: str, dtype: str) -> list[Mapping[str, Any]]:
        """The same, or nothing if the record says why it has nothing: a table then has a dash."""
        return [] if self._excuses(candidate, dtype) else self.series(candidate, dtype)

    def _excuses(self, candidate: str, dtype: str) -> list[str]:
        """Why the record has no line at all of a candidate in a dtype, in the record's words."""
        record = self.record
        if any((m["candidate"], m["dtype"]) == (candidate, dtype) for m in record["measurements"]):
            return []
        failures = [
            f["reason"] for f in record["failures"] if (f["candidate"], f["dtype"]) == (candidate, dtype)
        ]
        return [record["missing"][candidate]] if candidate in record["missing"] else failures


def _names(lines: Sequence[Mapping[str, Any]], key: str) -> str:
    return " ".join(dict.fromkeys(line[key] for line in lines))


# --- figures in a sentence --------------------------------------------------------------------------


def _bandwidth(r: Results, candidate: str, dtype: str, length: str) -> float:
    m = r.measurement(candidate, dtype, length)
    copy = r.measurement("copy", dtype, length)
    return m["ratio"] * 2 * m["N"] * m["M"] * (4 if dtype == "float32" else 2) / copy["us"] * 1e6


def _gain(r: Results, ours: str, theirs: str, dtype: str, length: str) -> float:
    return r.measurement(theirs, dtype, length)["us"] / r.measurement(ours, dtype, length)["us"]


def _roof(r: Results, candidate: str, *of: str) -> float:
    _, moves = WORK[candidate.rpartition(".")[2]]
    return r.measurement(candidate, *of)["ratio"] * moves / 2


def _first_in_calls(r: Results, *of: str) -> float:
    m = r.measurement(*of)
    return m["first_s"] * 1e6 / m["us"]


def _factor(r: Results, variant: str, dtype: str, length: str) -> float:
    variants = r.beside("variants")
    changed = variants.measurement(f"variant.{variant}", dtype, length)
    return changed["us"] / _kernel(variants, variant, dtype, length)["us"]


def _kernel(r: Results, variant: str, dtype: str, length: str) -> Mapping[str, Any]:
    """The kernel that a variant changes: the only one of the package timed beside it."""
    beside = [m for m in r.record["measurements"] if (m["dtype"], str(m["M"])) == (dtype, length)]
    kernels = [m for m in beside if m["candidate"].startswith("cuda.")]
    if len(kernels) != 1:
        raise MissingError(
            f"{variant}: not one kernel in {dtype} {length}, but {_names(kernels, 'candidate')}"
        )
    return kernels[0]


def _lowest(r: Results, candidate: str, dtype: str) -> Mapping[str, Any]:
    return min(r.series(candidate, dtype), key=lambda m: m["ratio"])


def _moved(m: Mapping[str, Any]) -> float:
    return m["read"] + m["written"]


NUMBERS: dict[str, tuple[str, Callable[..., float]]] = {  # name: (arguments, figure)
    # its bandwidth over the copy's
    "ratio": ("candidate dtype length", lambda r, *of: r.measurement(*of)["ratio"]),
    # the same, counting all that the rung moves
    "roof": ("candidate dtype length", _roof),
    "time": ("candidate dtype length", lambda r, *of: r.measurement(*of)["us"]),
    # elements that come from memory and go there, for each of the input
    "moved": ("candidate dtype length", lambda r, *of: _moved(r.measurement(*of))),
    # of the first call, compilation included, and how many later ones take as long
    "first": ("candidate dtype length", lambda r, *of: r.measurement(*of)["first_s"] * 1e6),
    "first-in-calls": ("candidate dtype length", _first_in_calls),
    # bytes a second, the input and the output counted once
    "bandwidth": ("candidate dtype length", _bandwidth),
    # how many times the first is as fast as the second
    "gain": ("candidate candidate dtype length", _gain),
    # the time of a variant as a multiple of the kernel's
    "factor": ("variant dtype length", _factor),
    # over all row lengths
    "lowest": ("candidate dtype", lambda r, *of: _lowest(r, *of)["ratio"]),
    "lowest-length": ("candidate dtype", lambda r, *of: _lowest(r, *of)["M"]),
}


def number(results: Results, name: str, arguments: Sequence[str]) -> float:
    """The figure, not rounded."""
    if name not in NUMBERS:
        raise MissingError(f"there is no figure {name}; there are {' '.join(NUMBERS)}")
    wanted, figure = NUMBERS[name]
    if len(arguments) != len(wanted.split()):
        raise MissingError(f"{name} takes: {wanted}")
    return float(figure(results, *arguments))


def _spelled(name: str, value: float) -> str:
    """A figure with its unit, as many digits as it deserves."""
    if name in ("time", "first"):
        return duration(value)
    if name == "bandwidth":
        return f"{value / 1e12:.2f}{NBSP}TB/s"
    if name == "lowest-length":
        return str(int(value))
    return f"{value:.2f}" if value < 10 else digits(value)


def duration(us: float) -> str:
    """Microseconds in the unit that suits them."""
    for unit, size in ("s", 1e6), ("ms", 1e3):
        if us >= 0.95 * size:
            return f"{digits(us / size)}{NBSP}{unit}"
    return f"{digits(us)}{NBSP}µs"


def digits(value: float) -> str:
    """Two significant digits."""
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.1f}"


def _entry(results: Results, part: str, key: str) -> str:
    """What the record says in its stamp or of its method."""
    entries = results.record[part]
    if key not in entries:
        raise MissingError(f"no {key} in the {part}; there are {' '.join(entries)}")
    return escape(str(entries[key]), quote=False)


# --- what stands on a line of its own ---------------------------------------------------------------


def _table(r: Results, words: Words, dtype: str, *chosen: str) -> str:
    """Ratios to the copy: a line for each row length, a column for each candidate; all if none is chosen."""
    of_copy = r.series("copy", dtype)
    lengths = [word for word in chosen if word.isdigit()] or [str(m["M"]) for m in of_copy]
    lines = [m for m in r.record["measurements"] if m["dtype"] == dtype]
    names = [word for word in chosen if not word.isdigit()] or [
        name for name in _names(lines, "candidate").split() if name != "copy"
    ]
    found = {(m["candidate"], str(m["M"])): m for name in names for m in r.some(name, dtype)}
    head = "".join(f'<th scope="col">{_breakable(name)}</th>' for name in names)
    rows = []
    for length in lengths:
        cells = {name: f"{found[name, length]['ratio']:.2f}" for name in names if (name, length) in found}
        best = max(cells.values(), default="")
        shown = "".join(f"<td>{_emphasis(cells.get(name, '–'), best)}</td>" for name in names)
        speed = _bandwidth(r, "copy", dtype, length) / 1e12
        rows.append(f'<tr><th scope="row">{length}</th><td>{speed:.2f}</td>{shown}</tr>')
    return (
        f'<div class="results" tabindex="0" role="region" aria-label="{words.region.format(dtype)}"'
        f' data-search-exclude="true"><table class="results__table">'
        f"<caption><code>{dtype}</code></caption><thead><tr>"
        f'<th scope="col">{words.length}</th><th scope="col">{words.copy}</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _tables(r: Results, words: Words) -> str:
    """All that the record has."""
    dtypes = _names(r.record["measurements"], "dtype").split()
    return "".join(_table(r, words, dtype) for dtype in dtypes)


def _breakable(name: str) -> str:
    """A candidate's name, which may break in a narrow column."""
    return re.sub(r"([._])", r"\1<wbr>", escape(name))


def grid(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    look: str = "results__table",
    heading: Callable[[str], str] = _breakable,
) -> str:
    """A table in a region that scrolls. The first word is what it is, the first of a row heads that row."""
    what, *names = head
    columns = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{heading(str(first))}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return (
        f'<div class="results" tabindex="0" role="region" aria-label="{what}" data-search-exclude="true">'
        f'<table class="{look}"><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _variants(r: Results, words: Words, url: str) -> str:
    """Each variant with its time as a multiple of the kernel's, or why it has none; and their source."""
    beside = r.beside("variants")
    rows = [
        (_bare(m), m["dtype"], m["M"], f"{_factor(r, _bare(m), m['dtype'], str(m['M'])):.2f}")
        for m in beside.record["measurements"]
        if m["candidate"].startswith("variant.")
    ]
    rows += [
        (_bare(f), f["dtype"], shape[1], words.wrong)
        for f in beside.record["failures"]
        for shape in f["shapes"]
    ]
    failed = bool(beside.record["failures"])
    refused = _left_out(Results("", {**beside.record, "missing": {}}), words) if failed else ""
    source = _source(beside, words, _url(url, r, beside))
    return grid(words.variants, sorted(rows)) + refused + source


def _calls(r: Results, words: Words) -> str:
    """What a call costs the host, and what the first one."""
    return grid(
        words.calls,
        [
            (
                *(m["candidate"], duration(m["us"]), f"{m['ratio']:.2f}"),
                *(duration(m[key] * 1e6) if key in m else "–" for key in ("first_s", "cached_s")),
            )
            for m in r.record["measurements"]
        ],
    )


def _attention(r: Results, words: Words) -> str:
    """The kernel of the course beside torch's: a line for each dtype and D, causal or not."""
    found = {(m["dtype"], m["M"], m["candidate"]): m for m in r.record["measurements"]}
    rows = []
    for (dtype, M, name), theirs in found.items():
        if name.startswith("sdpa"):
            ours = found[dtype, M, name.replace("sdpa", "tilelang")]
            speeds = f"{theirs['tflops']:.0f}", f"{ours['tflops']:.0f}", f"{ours['ratio']:.2f}"
            rows.append((dtype, M, words.causal[name.endswith("causal")], *speeds))
    return grid(words.attention, rows)


def _short(r: Results, words: Words, of_copy: str, of_other: str) -> str:
    """Where auto attains less than these fractions of the copy, or of the fastest kernel that is not ours."""
    rows = []
    others = [name for name in _names(r.record["measurements"], "candidate").split() if not _ours(name)]
    for dtype in _names(r.record["measurements"], "dtype").split():
        found = {
            (m["candidate"], m["M"]): m["ratio"] for m in r.record["measurements"] if m["dtype"] == dtype
        }
        for m in r.series("auto", dtype):
            ratio, best = max((found.get((name, m["M"]), 0.0), name) for name in others)
            if m["ratio"] < float(of_copy) or m["ratio"] < float(of_other) * ratio:
                cells = f"{m['ratio']:.3f}", f"{_breakable(best)} {ratio:.3f}"
                rows.append((dtype, m["M"], *cells))
    return grid(words.short, rows) if rows else f"<p>{words.nothing}</p>"


def _ours(name: str) -> bool:
    return name in ("copy", "auto") or name.startswith(("cuda.", "tilelang."))


def _traffic(r: Results, words: Words) -> str:
    """How often each element moves: as the algorithm says, and as the counters of the memory do."""
    lines = r.record["measurements"]
    lengths = sorted({m["M"] for m in lines})
    found = {(m["candidate"], m["M"]): f"{_moved(m):.2f}" for m in lines}
    rows = [
        (name, WORK[name.rpartition(".")[2]][1], *(found.get((name, M), "–") for M in lengths))
        for name in _names(lines, "candidate").split()
        if name.rpartition(".")[2] in WORK
    ]
    return grid((*words.traffic, *(words.traffic_at.format(M) for M in lengths)), rows)


def _url(url: str, r: Results, beside: Results) -> str:
    """Of a record beside another, whose address this is."""
    return url.replace(f"{r.name}.json", f"{beside.name}.json")


def _bare(line: Mapping[str, Any]) -> str:
    name: str = line["candidate"]
    return name.removeprefix("variant.")


def _emphasis(cell: str, best: str) -> str:
    return f"<strong>{cell}</strong>" if cell == best else cell


def _left_out(r: Results, words: Words) -> str:
    """The candidates that could not be had, and where others failed, each with the reason as it was given."""
    record = r.record
    entries = [(name, "", reason) for name, reason in record["missing"].items()]
    # Reasons often differ in a length only.
    alike: dict[tuple[str, str, str], tuple[str, list[list[int]]]] = {}
    for failure in record["failures"]:
        kind = failure["candidate"], failure["dtype"], re.sub(r"\d+", "", failure["reason"])
        alike.setdefault(kind, (failure["reason"], []))[1].extend(failure["shapes"])
    for (name, dtype, _), (reason, ((N, M), *more)) in alike.items():
        places = [dtype, f"{N} × {M}"] + [words.more.format(len(more))] * bool(more)
        entries.append((name, words.comma.join(places), reason))
    if not entries:
        return f"<p>{words.nothing}</p>"
    items = (
        f"<li><strong>{escape(name)}</strong>{words.comma * bool(place)}{place}{words.colon}"
        f'<code lang="en">{escape(reason, quote=False)}</code></li>'
        for name, place, reason in entries
    )
    return f'<ul data-search-exclude="true">{"".join(items)}</ul>'


def _own_words(r: Results) -> str:
    """How the record says that it was made."""
    items = (
        f"<dt><code>{escape(key)}</code></dt><dd>{escape(str(value), quote=False)}</dd>"
        for key, value in r.record["method"].items()
    )
    return f'<dl class="method" lang="en" data-search-exclude="true">{"".join(items)}</dl>'


def _source(r: Results, words: Words, url: str) -> str:
    """Where and with what the record was made, and the way to it."""
    stamp = r.record["stamp"]
    versions = {name: stamp[name] for name in ("torch", "tilelang")} | r.record["packages"]
    return origin(stamp, versions, words, url)


def origin(
    stamp: Mapping[str, Any], versions: Mapping[str, str], words: Words, url: str, look: str = "source"
) -> str:
    """Where and with what a record was made, and the way to it."""
    parts = [stamp["device"], f"{words.driver} {stamp['driver']}", f"CUDA {stamp['cuda']}"]
    parts += [f"{name} {version}" for name, version in versions.items()]
    day = f'<time datetime="{stamp["date"]}">{stamp["date"]}</time>'
    commit = [f"{words.commit} {stamp['commit'][:7]}"] if stamp["commit"] else []
    link = f'<a href="{escape(url)}" download>{words.download}</a>'
    line = " · ".join([*(escape(part) for part in parts), day, *commit, link])
    return f'<p class="{look}" data-search-exclude="true">{line}</p>'


def _drawn(draw: Callable[..., str], r: Results, language: str, dtype: str, *names: str) -> str:
    return draw({name: lines for name in names if (lines := r.some(name, dtype))}, dtype, language)


def _roofline(r: Results, language: str, dtype: str, length: str, *names: str) -> str:
    copy = _bandwidth(r, "copy", dtype, length)
    lines = {name: r.measurement(name, dtype, length) for name in names}
    return roofline(lines, copy, r.record["stamp"]["device"], dtype, language)


# --- pages ------------------------------------------------------------------------------------------


def calls(text: str, record: str = "results") -> list[str]:
    """Every placeholder of a page for a record, in order, with white space that says nothing taken out."""
    found = (match for _, line in outside(text) for match in _outside_spans(line))
    return [_plain(match) for match in found if match["record"] == record]


def _plain(match: re.Match[str]) -> str:
    return " ".join(match["rest"].split())


def _outside_spans(line: str) -> list[re.Match[str]]:
    spans = [span.span() for span in SPAN.finditer(line)]
    return [
        match
        for match in PLACEHOLDER.finditer(line)
        if not any(start < match.start() < end for start, end in spans)
    ]


def expand(text: str, results: Results, language: str, url: str, where: str) -> str:
    """The page with the record's figures in it, line for line.

    Args:
        text: the page's Markdown; what stands in fences and code spans stays.
        results: of the device that the pages tell of.
        language: of the page, "zh" or "en".
        url: of the record, from the page.
        where: the page's path, for complaints.

    Raises:
        MissingError: one line for each placeholder that cannot be filled.
    """

    def fill(call: Call) -> str:
        try:
            return _filled(call, results, language, url)
        except KeyError as error:
            raise MissingError(f"charts.py does not know {error}") from error

    return put(text, "results", fill, where)


class Call(NamedTuple):
    """What a placeholder asks for."""

    beside: str | None  # a record beside the one that is meant otherwise
    name: str
    arguments: list[str]
    alone: bool  # on its line


def put(text: str, record: str, fill: Callable[[Call], str], where: str) -> str:
    """The page with the placeholders for a record filled, line for line; raises what `expand` does."""
    lines, complaints = text.split("\n"), []
    for at, line in outside(text):
        for match in reversed(_outside_spans(line)):
            if match["record"] != record:
                continue
            try:
                if not (call := CALL.fullmatch(match["rest"])):
                    raise MissingError(f"expected {{{{ {record}:name argument … }}}}")
                alone = line.strip() == match[0]
                filled = fill(Call(call["beside"], call["name"], call["arguments"].split(), alone))
            except MissingError as error:
                complaints.append(f"{where}:{at}: {match[0]}: {error}")
                continue
            lines[at - 1] = lines[at - 1][: match.start()] + filled + lines[at - 1][match.end() :]
    if complaints:
        raise MissingError("\n".join(complaints))
    return "\n".join(lines)


def _filled(call: Call, results: Results, language: str, url: str) -> str:
    name, arguments = call.name, call.arguments
    if call.beside:
        beside = results.beside(call.beside)
        results, url = beside, _url(url, results, beside)
    if name in NUMBERS:
        return _spelled(name, number(results, name, arguments))
    if name in ("stamp", "method") and len(arguments) == 1:
        return _entry(results, name, *arguments)
    words = WORDS[language]
    blocks: dict[str, tuple[int, Callable[[], str]]] = {  # name: (the arguments it needs, what it draws)
        "table": (1, lambda: _table(results, words, *arguments)),  # dtype length … candidate …
        "tables": (0, lambda: _tables(results, words)),
        "plot": (2, lambda: _drawn(plot, results, language, *arguments)),  # dtype candidate …
        "map": (2, lambda: _drawn(regimes, results, language, *arguments)),  # dtype candidate …
        "variants": (0, lambda: _variants(results, words, url)),
        "calls": (0, lambda: _calls(results, words)),
        "attention": (0, lambda: _attention(results, words)),
        "short": (2, lambda: _short(results, words, *arguments)),  # fraction of the copy, of others
        "traffic": (0, lambda: _traffic(results, words)),
        "roofline": (3, lambda: _roofline(results, language, *arguments)),  # dtype length candidate …
        "source": (0, lambda: _source(results, words, url)),
        "left-out": (0, lambda: _left_out(results, words)),
        "own-words": (0, lambda: _own_words(results)),
    }
    if name not in blocks:
        raise MissingError(
            f"there is no {name}; there are {' '.join([*NUMBERS, 'stamp', 'method', *blocks])}"
        )
    least, draw = blocks[name]
    if len(arguments) < least or (arguments and not least):
        raise MissingError(f"{name} takes {f'at least {least}' if least else 'no'} arguments")
    if not call.alone:
        raise MissingError(f"{name} stands on a line of its own")
    return draw()
