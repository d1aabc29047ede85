"""Pages with what benchmark records say: `{{ results:ratio auto float32 4096 }}` in a sentence; tables and
charts on lines of their own. Of a record beside the main one, docs/results/<name>-calls.json, say:
`{{ results.calls:time auto float32 256 }}`. What is drawn is in charts.py.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from charts import WORK, plot, regimes, roofline
from placeholders import Call, MissingError, put
from records import NUMBERS, Results, bandwidth, distinct, duration, entry, factor, moved, number, spelled


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


# --- what stands on a line of its own ---------------------------------------------------------------


def _table(r: Results, words: Words, dtype: str, *chosen: str) -> str:
    """Ratios to the copy: a line for each row length, a column for each candidate; all if none is chosen."""
    of_copy = r.series("copy", dtype)
    lengths = [word for word in chosen if word.isdigit()] or [str(m["M"]) for m in of_copy]
    lines = [m for m in r.record["measurements"] if m["dtype"] == dtype]
    names = [word for word in chosen if not word.isdigit()] or [
        name for name in distinct(lines, "candidate").split() if name != "copy"
    ]
    found = {(m["candidate"], str(m["M"])): m for name in names for m in r.some(name, dtype)}
    head = "".join(f'<th scope="col">{_breakable(name)}</th>' for name in names)
    rows = []
    for length in lengths:
        cells = {name: f"{found[name, length]['ratio']:.2f}" for name in names if (name, length) in found}
        best = max(cells.values(), default="")
        shown = "".join(f"<td>{_emphasis(cells.get(name, '–'), best)}</td>" for name in names)
        speed = bandwidth(r, "copy", dtype, length) / 1e12
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
    dtypes = distinct(r.record["measurements"], "dtype").split()
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
        (_bare(m), m["dtype"], m["M"], f"{factor(r, _bare(m), m['dtype'], str(m['M'])):.2f}")
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
    others = [name for name in distinct(r.record["measurements"], "candidate").split() if not _ours(name)]
    for dtype in distinct(r.record["measurements"], "dtype").split():
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
    found = {(m["candidate"], m["M"]): f"{moved(m):.2f}" for m in lines}
    rows = [
        (name, WORK[name.rpartition(".")[2]][1], *(found.get((name, M), "–") for M in lengths))
        for name in distinct(lines, "candidate").split()
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
    copy = bandwidth(r, "copy", dtype, length)
    lines = {name: r.measurement(name, dtype, length) for name in names}
    return roofline(lines, copy, r.record["stamp"]["device"], dtype, language)


# --- pages ------------------------------------------------------------------------------------------


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


def _filled(call: Call, results: Results, language: str, url: str) -> str:
    name, arguments = call.name, call.arguments
    if call.beside:
        beside = results.beside(call.beside)
        results, url = beside, _url(url, results, beside)
    if name in NUMBERS:
        return spelled(name, number(results, name, arguments))
    if name in ("stamp", "method") and len(arguments) == 1:
        return entry(results, name, *arguments)
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
