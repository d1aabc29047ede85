"""What a run says: a record in JSON, a table for the terminal, a plot in SVG."""

import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from itertools import groupby
from pathlib import Path

import torch

from camp_softmax.bench.measure import Measurement, Outcome
from camp_softmax.bench.peers import LOADERS, PEERS

SCHEMA = 1
NO_GPU = "CPU: no GPU figure"
PACKAGES = ("triton", "liger-kernel", "quack-kernels", "cuda-core")


def record(
    outcome: Outcome,
    *,
    kind: str,
    operator: str,
    stamp: Mapping[str, str | None],
    method: Mapping[str, object],
    missing: Mapping[str, str],
) -> dict:
    """A run as it is written down; `dump` turns it into text.

    Args:
        outcome: what was measured, in any order.
        kind: "bandwidth", "overhead", "variants" or "attention".
        operator: what was timed.
        stamp: of `camp_softmax.stamp`.
        method: how it was measured, in words and numbers.
        missing: the candidates that could not be had, each with the reason.

    Returns:
        a dict of JSON values: schema, kind, operator, gpu (a note in its place on a CPU), stamp, packages,
        method, missing, failures (one for each candidate, dtype and reason), measurements.
    """
    lines = [
        {key: value for key, value in asdict(m).items() if value is not None}
        for m in sorted(outcome.measurements, key=_place)
    ]
    reasons: dict[tuple[str, str, str], list[list[int]]] = {}
    for case, name, reason in outcome.failures:
        reasons.setdefault((name, case.dtype_name, reason), []).append([case.N, case.M])
    return {
        "schema": SCHEMA,
        "kind": kind,
        "operator": operator,
        **({"gpu": True} if stamp["driver"] else {"gpu": False, "note": NO_GPU}),
        "stamp": dict(stamp),
        "packages": _versions(),
        "method": dict(method),
        "missing": dict(sorted(missing.items())),
        "failures": [
            {"candidate": name, "dtype": dtype, "reason": reason, "shapes": sorted(shapes)}
            for (name, dtype, reason), shapes in sorted(reasons.items())
        ],
        "measurements": lines,
    }


def dump(record: Mapping) -> str:
    """The record as text: one line a measurement, so that a new run makes a readable diff.

    Example:
        >>> print(dump({"schema": 1, "missing": {}, "failures": [], "method": {"rounds": 2}}), end="")
        {
         "schema": 1,
         "missing": {},
         "failures": [],
         "method": {
          "rounds": 2
         }
        }
    """
    parts = []
    for key, value in record.items():
        text = json.dumps(value, ensure_ascii=False)
        if value and isinstance(value, list):
            text = "[\n  " + ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n ]"
        elif value and isinstance(value, dict):
            items = (f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items())
            text = "{\n  " + ",\n  ".join(items) + "\n }"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def table(record: Mapping) -> str:
    """The record for a terminal: a line for each shape, a column for each candidate."""
    lines = [] if record["gpu"] else [NO_GPU, ""]
    found = dict.fromkeys(m["candidate"] for m in record["measurements"])
    names = sorted(found, key=_order)
    kind = record["kind"]
    what = {"overhead": "microseconds of a call on the host", "attention": "speed as a fraction of torch's"}
    lines.append(
        f"{record['operator']} on {record['stamp']['device']}: "
        + what.get(kind, "bandwidth as a fraction of the copy's")
    )
    if kind == "attention":
        for m in record["measurements"]:
            lines.append(
                f"{m['dtype']:>8} {m['N']:>6} x {m['M']:<4} {m['candidate']:>16} {m['us']:10.1f} us "
                f"{m['tflops']:8.1f} TFLOP/s {m['ratio']:6.3f}"
            )
    elif kind == "overhead":
        for m in record["measurements"]:
            first = f"{m['first_s']:8.2f} {m['cached_s']:8.2f}" if "cached_s" in m else ""
            lines.append(f"{m['candidate']:>18} {m['us']:8.1f} {m['ratio']:6.2f} of torch {first}")
        lines.append("the last columns: seconds of the first call of a process, with empty caches and again")
    else:
        for dtype, same in groupby(record["measurements"], key=lambda m: m["dtype"]):
            lines += ["", *_matrix(dtype, list(same), [name for name in names if name != "copy"])]
    for title, reasons in (
        ("missing", [f"{name}: {reason}" for name, reason in record["missing"].items()]),
        ("left out", [_left_out(failure) for failure in record["failures"]]),
    ):
        if reasons:
            lines += ["", f"{title}:", *(f"  {reason}" for reason in reasons)]
    return "\n".join(lines)


def _matrix(dtype: str, measurements: Sequence[Mapping], names: Sequence[str]) -> list[str]:
    widths = [max(6, len(name)) for name in names]
    lines = [f"{dtype:>8} {'rows':>9} {'columns':>8} {'copy GB/s':>10}"]
    lines[0] += "".join(f"  {name:>{width}}" for name, width in zip(names, widths, strict=True))
    for (N, M), same in groupby(measurements, key=lambda m: (m["N"], m["M"])):
        found = {m["candidate"]: m for m in same}
        copy = 2 * N * M * getattr(torch, dtype).itemsize / found["copy"]["us"] / 1e3
        line = f"{'':>8} {N:>9} {M:>8} {copy:>10.0f}"
        for name, width in zip(names, widths, strict=True):
            line += f"  {format(found[name]['ratio'], '.3f') if name in found else '–':>{width}}"
        lines.append(line)
    return lines


def _left_out(failure: Mapping) -> str:
    lengths = ", ".join(f"{N} x {M}" for N, M in failure["shapes"][:3])
    more = f" and {len(failure['shapes']) - 3} more" if len(failure["shapes"]) > 3 else ""
    return f"{failure['candidate']}, {failure['dtype']}, {lengths}{more}: {failure['reason']}"


def _place(m: Measurement) -> tuple[int, int, int, int]:
    dtypes = ("float32", "float16", "bfloat16")
    return dtypes.index(m.dtype), m.M, m.N, _order(m.candidate)


def _order(name: str) -> int:
    """The place of a candidate; variants come last."""
    return list(LOADERS).index(name) if name in LOADERS else len(LOADERS)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# --- the plot -------------------------------------------------------------------------------------

WIDTH, PANEL, LEFT, RIGHT, TOP = 720, 320, 64, 144, 40
QUIET = "var(--quiet, #5f6675)"
GREYS = ("#5f6675", "#8b919d", "#6a7180", "#a3a9b5", "#747b88")
OURS = {
    "auto": "var(--write, #16703f)",
    "cuda": "var(--read, #1f4e9c)",
    "tilelang": "var(--state, #8f5300)",
}
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def plot(record: Mapping) -> str:
    """The record as SVG: a panel a dtype, row length on a log scale, the copy at 1. Powers of two are joined,
    other lengths are points.
    """
    panels = [
        (dtype, list(same)) for dtype, same in groupby(record["measurements"], key=lambda m: m["dtype"])
    ]
    height = TOP + PANEL * len(panels)
    stamp = record["stamp"]
    title = f"{record['operator']} on {stamp['device']}, {stamp['date']}"
    note = "" if record["gpu"] else f" ({NO_GPU})"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        'font-family="sans-serif" font-size="14" fill="var(--ink, #1d2330)">',
        f"<title>{escape(title + note)}: bandwidth as a fraction of the copy's, by row length</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="var(--paper, #fffdf8)"/>',
        f'<text x="{LEFT}" y="24" font-weight="700">{escape(title + note)}</text>',
    ]
    for number, (dtype, measurements) in enumerate(panels):
        parts += _panel(dtype, measurements, TOP + PANEL * number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(dtype: str, measurements: Sequence[Mapping], top: int) -> list[str]:
    lengths = sorted({m["M"] for m in measurements})
    low, high = math.log2(lengths[0]), max(math.log2(lengths[-1]), math.log2(lengths[0]) + 1)
    ceiling = max(1.1, *(m["ratio"] for m in measurements))
    bottom, right = top + PANEL - 48, WIDTH - RIGHT

    def x(M: int) -> float:
        return round(LEFT + (right - LEFT) * (math.log2(M) - low) / (high - low), 1)

    def y(ratio: float) -> float:
        return round(bottom - (bottom - top - 16) * ratio / ceiling, 1)

    parts = [
        f'<text x="{LEFT}" y="{top + 8}">{dtype}</text>',
        f'<path d="M{LEFT} {y(0)}H{right}" stroke="var(--rule, #ddd7c9)"/>',
        f'<path d="M{LEFT} {y(1)}H{right}" stroke="var(--ink, #1d2330)" stroke-width="1.5"/>',
        f'<text x="{LEFT - 8}" y="{y(1) + 5}" text-anchor="end">copy 1.0</text>',
        f'<text x="{LEFT - 8}" y="{y(0.5) + 5}" text-anchor="end">0.5</text>',
        f'<text x="{LEFT - 8}" y="{y(0) + 5}" text-anchor="end">0</text>',
        f'<text x="{right + 32}" y="{bottom + 20}" fill="{QUIET}">row length</text>',
    ]
    for power in range(math.ceil(low), math.floor(high) + 1, 2):
        parts.append(f'<text x="{x(2**power)}" y="{bottom + 20}" text-anchor="middle">{2**power}</text>')
    labels: list[tuple[float, str, str]] = []
    drawn = [name for name in LOADERS if name != "copy" and any(m["candidate"] == name for m in measurements)]
    for name in drawn:
        mine = [m for m in measurements if m["candidate"] == name]
        colour, dash, width = _style(name)
        joined = [m for m in mine if m["M"] & (m["M"] - 1) == 0]
        line = " ".join(f"{x(m['M'])},{y(m['ratio'])}" for m in joined)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"'
            + (f' stroke-dasharray="{dash}"' if dash else "")
            + "/>"
        )
        parts += [
            f'<circle cx="{x(m["M"])}" cy="{y(m["ratio"])}" r="2.5" fill="{colour}"/>'
            for m in mine
            if m not in joined
        ]
        labels.append((y(mine[-1]["ratio"]), name, QUIET if name in PEERS else colour))
    return parts + _labels(labels, right + 8, bottom)


def _labels(labels: list[tuple[float, str, str]], x: float, bottom: float) -> list[str]:
    """Each name where its line ends, moved up where two would overlap; in the order of their ends."""
    parts, free = [], bottom + 8.0
    for end, name, colour in sorted(labels, reverse=True):
        free = min(end + 5, free)
        parts.append(f'<text x="{x}" y="{free:.1f}" fill="{colour}">{escape(name)}</text>')
        free -= 15
    return parts


def _style(name: str) -> tuple[str, str, float]:
    """Colour, dashes and width of a candidate's line: peers in greys, ours in colour."""
    if name in PEERS:
        place = PEERS.index(name) - 1
        return GREYS[place % len(GREYS)], DASHES[place % len(DASHES)], 1.5
    family, _, rung = name.partition(".")
    rungs = [other for other in LOADERS if other.startswith(f"{family}.")]
    return OURS[family], DASHES[rungs.index(name)] if rung else "", 1.5 if rung else 2.5


def write(path: Path, text: str) -> None:
    """Writes a record or a plot, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
