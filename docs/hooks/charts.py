"""Charts of benchmark records as SVG, in the colours of tokens.css: one line of text each.

Like the other figures they are 360 wide, so that their labels can be read on a phone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

Line = Mapping[str, Any]  # a measurement of a record

PLOT = {  # title, label of the line at 1, axis, what is told of a line
    "zh": (
        "{dtype}：带宽随行长的变化",
        "复制 = 1",
        "行长",
        "{name}：行长 {M[0]} 到 {M[1]}，复制的 {ratio[0]:.2f} 到 {ratio[1]:.2f}",
    ),
    "en": (
        "{dtype}: bandwidth by row length",
        "copy = 1",
        "row length",
        "{name}: {ratio[0]:.2f} to {ratio[1]:.2f} of the copy at row lengths {M[0]} to {M[1]}",
    ),
}
ROOFLINE = {  # title, axes, the two parts of the roof, row sum, what is told of a point
    "zh": (
        "{dtype} 的屋顶线",
        "次运算 / 字节",
        "TFLOP/s",
        "复制的带宽",
        "float32 峰值",
        "行求和",
        "{name}：每字节 {x:.2f} 次运算，{y:.2f} TFLOP/s",
    ),
    "en": (
        "roofline of {dtype}",
        "operations / byte",
        "TFLOP/s",
        "bandwidth of the copy",
        "float32 peak",
        "row sum",
        "{name}: {x:.2f} operations a byte, {y:.2f} TFLOP/s",
    ),
}

REGIMES = {  # title, axis, what is told of a length
    "zh": ("{dtype}：各行长上最快的一级", "行长", "{M}：{name}，复制的 {ratio:.2f}"),
    "en": ("{dtype}: the fastest rung by row length", "row length", "{M}: {name}, {ratio:.2f} of the copy"),
}

NOISE = 0.01  # medians of two runs of the same kernel differ by less

OURS = {"auto": "var(--write)", "cuda": "var(--read)", "tilelang": "var(--state)"}
DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 3")
CENTRED, ENDING = (f'text-anchor="{side}" fill="var(--quiet)"' for side in ("middle", "end"))
HALO = 'stroke="var(--paper)" stroke-width="4" paint-order="stroke"'  # where a line runs behind a name
SIZE = 13  # of letters: 12 px and more on a phone

# Operations an element, each maximum, subtraction, exponential, addition and division being one, and how
# often the element is moved. SCANS in camp_softmax.reference counts the second; a test holds both together.
WORK = {
    "three_pass": (5, 5),
    "online": (7, 3),
    "single_read": (5, 2),
    "cluster": (5, 2),
}
ROW_SUM = (1, 1)
PEAK = {"NVIDIA H200": 66.9e12}  # float32 operations a second: 132 SMs, 128 lanes, 2 a clock, 1.98 GHz


def plot(series: Mapping[str, Sequence[Line]], dtype: str, language: str) -> str:
    """Ratios to the copy by row length: powers of two are joined, other lengths are points."""
    title, copy, axis, told = PLOT[language]
    left, right, top, bottom = 28, 220, 16, 272
    lines = [m for own in series.values() for m in own]
    low, high = (math.log2(end(m["M"] for m in lines)) for end in (min, max))
    ceiling = max(1.12, *(m["ratio"] for m in lines))

    def place(m: Line) -> tuple[float, float]:
        return (
            round(left + (right - left) * (math.log2(m["M"]) - low) / max(high - low, 1), 1),
            round(bottom - (bottom - top) * m["ratio"] / ceiling, 1),
        )

    def height(ratio: float) -> float:
        return place({"M": 2**low, "ratio": ratio})[1]

    parts = [
        f'<path d="M{left} {bottom}H{right}" stroke="var(--rule)"/>',
        f'<path d="M{left} {height(0.5)}H{right}" stroke="var(--rule)"/>',
        f'<path d="M{left} {height(1)}H{right}" stroke="var(--ink)" stroke-width="1.5"/>',
        f'<text x="{left}" y="{height(1) - 8}">{copy}</text>',
        *(
            f'<text x="{left - 6}" y="{height(ratio) + 5}" {ENDING}>{text}</text>'
            for ratio, text in ((0, "0"), (0.5, "0.5"), (1, "1"))
        ),
        f'<text x="{right + 8}" y="{bottom + 20}" fill="var(--quiet)">{axis}</text>',
    ]
    for M in _ticks(low, high):
        x, _ = place({"M": M, "ratio": 0})
        parts.append(f'<path d="M{x} {bottom}v4" stroke="var(--quiet)"/>')
        parts.append(f'<text x="{x}" y="{bottom + 20}" {CENTRED}>{M}</text>')
    ends = []
    for name, own in series.items():
        colour, dash, width = _style(name, list(series))
        joined = [m for m in own if m["M"] & (m["M"] - 1) == 0]
        way = " ".join("{},{}".format(*place(m)) for m in joined)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>')
        parts += [
            f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>'
            for x, y in (place(m) for m in own if m not in joined)
        ]
        ends.append((*place(own[-1]), name, colour))
    parts += _labels(ends, right + 12, top, bottom)
    return _svg(
        304,
        f"plot-{dtype}",
        title.format(dtype=dtype),
        [_told(told, name, own) for name, own in series.items()],
        parts,
    )


def regimes(series: Mapping[str, Sequence[Line]], dtype: str, language: str) -> str:
    """A map: a line for each rung, a cell for each row length, fuller the nearer it comes to the copy.

    A length's fastest cell has a frame, and so has what is within NOISE of it.
    """
    title, axis, told = REGIMES[language]
    lengths = sorted({m["M"] for own in series.values() for m in own})
    best = {M: max(m["ratio"] for own in series.values() for m in own if m["M"] == M) for M in lengths}
    left, right, top, step = 124, 352, 12, 32
    width = round(min(48, (right - left) / len(lengths)), 1)
    bottom = top + len(series) * step
    parts, frames = [], []
    fastest: dict[int, list[str]] = {M: [] for M in lengths}
    for line, (name, own) in enumerate(series.items()):
        y = top + line * step
        colour, _, _ = _style(name, list(series))
        parts.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>')
        for m in own:
            x = round(left + width * lengths.index(m["M"]), 1)
            cell = f'<rect x="{x}" y="{y}" width="{width}" height="24" '
            parts.append(
                f'{cell}fill="{colour}" fill-opacity="{min(m["ratio"], 1) ** 3:.2f}" stroke="var(--rule)"/>'
            )
            if m["ratio"] >= (1 - NOISE) * best[m["M"]]:
                frames.append(f'{cell}fill="none" stroke="var(--ink)" stroke-width="2"/>')
                fastest[m["M"]].append(name)
    parts += frames  # above the cells beside them
    for place in range(0, len(lengths), max(1, math.ceil(len(lengths) / 4))):
        x = round(left + width * (place + 0.5), 1)
        parts.append(f'<path d="M{x} {bottom}v4" stroke="var(--quiet)"/>')
        parts.append(f'<text x="{x}" y="{bottom + 20}" {CENTRED}>{lengths[place]}</text>')
    parts.append(f'<text x="16" y="{bottom + 20}" fill="var(--quiet)">{axis}</text>')
    told_of = [told.format(M=M, name=", ".join(names), ratio=best[M]) for M, names in fastest.items()]
    return _svg(bottom + 32, f"map-{dtype}", title.format(dtype=dtype), told_of, parts)


def _ticks(low: float, high: float) -> list[int]:
    """Powers of two, at most four of them, so that their numbers do not touch."""
    first, last = math.ceil(low), math.floor(high)
    return [2**k for k in range(first, last + 1, max(1, math.ceil((last - first) / 3)))]


def _style(name: str, names: Sequence[str]) -> tuple[str, str, float]:
    """Colour, dashes and width of a line: what is ours in colour, the peers in grey, alike only in colour."""
    family = name.partition(".")[0]
    alike = [other for other in names if (other.partition(".")[0] in OURS) == (family in OURS)]
    dash = "" if name == "auto" else DASHES[alike.index(name) % len(DASHES)]
    width = 2.5 if name == "auto" else 1.5
    return OURS.get(family, "var(--mask)"), f' stroke-dasharray="{dash}"' if dash else "", width


def _labels(ends: Sequence[tuple[float, float, str, str]], x: float, top: float, bottom: float) -> list[str]:
    """Each name at the right, joined to the end of its line, as near to it as its neighbours let it."""
    ends = sorted(ends, key=lambda end: end[1])
    step = SIZE + 3
    places = _spread([y for _, y, _, _ in ends], step, top, bottom)
    parts = []
    for (from_x, from_y, name, colour), y in zip(ends, places, strict=True):
        ink = "var(--quiet)" if colour == "var(--mask)" else colour
        parts.append(
            f'<path d="M{from_x + 3} {from_y}L{x - 3} {y}" fill="none" stroke="{colour}" opacity=".5"/>'
        )
        parts.append(f'<text x="{x}" y="{y + 4}" fill="{ink}" {HALO}>{escape(name)}</text>')
    return parts


def _spread(wanted: Sequence[float], step: float, top: float, bottom: float) -> list[float]:
    """Ascending places, a step apart, near the wanted ones and none below the bottom."""
    places: list[float] = []
    for y in wanted:
        places.append(round(max(y, places[-1] + step if places else top), 1))
    limit = bottom
    for index in reversed(range(len(places))):
        places[index] = min(places[index], limit)
        limit = places[index] - step
    return places


def roofline(lines: Mapping[str, Line], copy: float, device: str, dtype: str, language: str) -> str:
    """What rungs attain over operations a byte, under a roof of the copy's bandwidth and the device's peak.

    Args:
        lines: a measurement of each rung; the names end with a rung of WORK.
        copy: bytes a second.
        device: of the record's stamp.
        dtype: of the rows.
        language: of the labels.

    Raises:
        KeyError: the operations of a rung, or the peak of the device, are not known here.
    """
    title, axis, unit, slope, flat, row_sum, told = ROOFLINE[language]
    peak, size = PEAK[device], 4 if dtype == "float32" else 2
    left, right, top, bottom = 36, 344, 24, 264
    x, y = _decades(left, right, 0.1, 100), _decades(bottom, top, 0.1, 100)  # operations a byte, TFLOP/s
    copy, peak = copy / 1e12, peak / 1e12
    ridge = peak / copy
    points = []
    for name, m in lines.items():
        operations, moves = WORK[name.rpartition(".")[2]]
        points.append((operations / (moves * size), operations * m["N"] * m["M"] / m["us"] / 1e6, name))
    operations, moves = ROW_SUM
    alone = operations / (moves * size)
    turn = math.degrees(math.atan2(y(copy) - y(10 * copy), x(10) - x(1)))
    parts = [
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="var(--rule)"/>',
        *(
            f'<text x="{x(tick)}" y="{bottom + 18}" {CENTRED}>{tick}</text>'
            f'<text x="{left - 6}" y="{y(tick) + 4}" {ENDING}>{tick}</text>'
            for tick in (0.1, 1, 10, 100)
        ),
        f'<text x="{left}" y="{top - 12}" fill="var(--quiet)">{unit}</text>',
        f'<text x="{right}" y="{bottom + 36}" {ENDING}>{axis}</text>',
        f'<path d="M{x(0.1)} {y(0.1 * copy)}L{x(ridge)} {y(peak)}H{right}" fill="none" '
        'stroke="var(--ink)" stroke-width="1.5"/>',
        f'<path d="M{x(ridge)} {y(peak)}V{bottom}" stroke="var(--quiet)" stroke-dasharray="2 3"/>',
        f'<text x="{x(ridge) + 5}" y="{bottom - 8}" fill="var(--quiet)">{ridge:.0f}</text>',
        f'<text x="{right}" y="{y(peak) - 8}" text-anchor="end">{flat}</text>',
        f'<text text-anchor="middle" transform="translate({x(4.5) - 6} {y(4.5 * copy) - 8}) '
        f'rotate({-turn:.1f})">'
        f"{slope}</text>",
        f'<path d="M{x(alone)} {y(alone * copy) - 5}V{y(alone * copy) - 28}" stroke="var(--quiet)"/>',
        f'<circle cx="{x(alone)}" cy="{y(alone * copy)}" r="4" fill="var(--paper)" stroke="var(--ink)"/>',
        f'<text x="{x(alone)}" y="{y(alone * copy) - 34}" text-anchor="middle">{row_sum}</text>',
    ]
    parts += [
        f'<circle cx="{x(at)}" cy="{y(attained)}" r="4" fill="{_style(name, [name])[0]}"/>'
        for at, attained, name in points
    ]
    ends = [(x(at), y(attained), name, _style(name, [name])[0]) for at, attained, name in points]
    parts += _labels(ends, max(136, 16 + max(end[0] for end in ends)), top, bottom - 32)
    descriptions = [told.format(name=name, x=at, y=attained) for at, attained, name in points]
    return _svg(304, f"roofline-{dtype}", title.format(dtype=dtype), descriptions, parts)


def _decades(start: float, end: float, low: float, high: float) -> Callable[[float], float]:
    """A logarithmic axis: the coordinate of a value."""
    return lambda value: round(start + (end - start) * math.log(value / low) / math.log(high / low), 1)


def _told(pattern: str, name: str, own: Sequence[Line]) -> str:
    """A line in numbers, for those who do not see it."""
    return pattern.format(
        name=name,
        M=[end(m["M"] for m in own) for end in (min, max)],
        ratio=[end(m["ratio"] for m in own) for end in (min, max)],
    )


def _svg(height: int, name: str, title: str, told: Sequence[str], parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 {height}" width="520" role="img" '
        f'aria-labelledby="{name}-t {name}-d" font-family="inherit" font-size="{SIZE}" fill="var(--ink)">'
        f'<title id="{name}-t">{title}</title><desc id="{name}-d">{escape("; ".join(told))}</desc>'
        f"{''.join(parts)}</svg>"
    )
