"""Benchmark records, docs/results/<device>.json and those beside it, and the figures in them for pages.

A new run changes the pages, and nobody types a measurement. Standard library only, as blocks.py: the guards
of the pages read records too.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from charts import WORK
from placeholders import MissingError

NBSP = "\N{NO-BREAK SPACE}"  # a number and its unit stay together


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
            raise MissingError(f"no dtype {dtype}; there are {distinct(lines, 'dtype')}")
        if found := [m for m in same if m["candidate"] == candidate]:
            return found
        why = "".join(f" ({reason})" for reason in self._excuses(candidate, dtype))
        raise MissingError(
            f"no candidate {candidate} in {dtype}{why}; there are {distinct(same, 'candidate')}"
        )

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


def distinct(lines: Sequence[Mapping[str, Any]], key: str) -> str:
    return " ".join(dict.fromkeys(line[key] for line in lines))


# --- figures in a sentence --------------------------------------------------------------------------


def bandwidth(r: Results, candidate: str, dtype: str, length: str) -> float:
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


def factor(r: Results, variant: str, dtype: str, length: str) -> float:
    variants = r.beside("variants")
    changed = variants.measurement(f"variant.{variant}", dtype, length)
    return changed["us"] / _kernel(variants, variant, dtype, length)["us"]


def _kernel(r: Results, variant: str, dtype: str, length: str) -> Mapping[str, Any]:
    """The kernel that a variant changes: the only one of the package timed beside it."""
    beside = [m for m in r.record["measurements"] if (m["dtype"], str(m["M"])) == (dtype, length)]
    kernels = [m for m in beside if m["candidate"].startswith("cuda.")]
    if len(kernels) != 1:
        raise MissingError(
            f"{variant}: not one kernel in {dtype} {length}, but {distinct(kernels, 'candidate')}"
        )
    return kernels[0]


def _lowest(r: Results, candidate: str, dtype: str) -> Mapping[str, Any]:
    return min(r.series(candidate, dtype), key=lambda m: m["ratio"])


def moved(m: Mapping[str, Any]) -> float:
    return m["read"] + m["written"]


NUMBERS: dict[str, tuple[str, Callable[..., float]]] = {  # name: (arguments, figure)
    # its bandwidth over the copy's
    "ratio": ("candidate dtype length", lambda r, *of: r.measurement(*of)["ratio"]),
    # the same, counting all that the rung moves
    "roof": ("candidate dtype length", _roof),
    "time": ("candidate dtype length", lambda r, *of: r.measurement(*of)["us"]),
    # elements that come from memory and go there, for each of the input
    "moved": ("candidate dtype length", lambda r, *of: moved(r.measurement(*of))),
    # of the first call, compilation included, and how many later ones take as long
    "first": ("candidate dtype length", lambda r, *of: r.measurement(*of)["first_s"] * 1e6),
    "first-in-calls": ("candidate dtype length", _first_in_calls),
    # bytes a second, the input and the output counted once
    "bandwidth": ("candidate dtype length", bandwidth),
    # how many times the first is as fast as the second
    "gain": ("candidate candidate dtype length", _gain),
    # the time of a variant as a multiple of the kernel's
    "factor": ("variant dtype length", factor),
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


def spelled(name: str, value: float) -> str:
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


def entry(results: Results, part: str, key: str) -> str:
    """What the record says in its stamp or of its method."""
    entries = results.record[part]
    if key not in entries:
        raise MissingError(f"no {key} in the {part}; there are {' '.join(entries)}")
    return escape(str(entries[key]), quote=False)
