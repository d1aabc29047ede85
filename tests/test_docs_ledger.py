"""docs/verified.json says what a stamp needs, of blocks that a page shows, and nothing else."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path

import pytest

from blocks import Fence, parse
from prose import read
from test_docs_fences import scripts

ROOT = Path(__file__).parents[1]
LEDGER = json.loads((ROOT / "docs" / "verified.json").read_text("utf-8"))
RECORD = {"files": dict, "kernels": list, "output": str, "seconds": float, "stamp": dict}
STAMP = ("commit", "cuda", "date", "device", "driver", "python", "tilelang", "torch")


def shown(pages: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The snippets that each block of the pages runs, by its text; `…` for other Python of the repository."""
    fences = [fence for text in pages.values() for fence in parse(text) if fence.runs]

    def reads(fence: Fence) -> bool:
        return ("camp_softmax" if fence.info == "python" else "python") in fence.body

    return {fence.body: tuple(scripts(fence)) or ("…",) * reads(fence) for fence in fences}


def complaints(ledger: dict, blocks: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """What is not as `make gpu` writes it."""
    if ledger.keys() != {"blocks"}:
        yield f"the ledger has the keys {sorted(ledger)}"
    for body, record in ledger["blocks"].items():
        where = f"`{body.splitlines()[0]}`"
        if body not in blocks:
            yield f"{where} is on no page"
        if {name: type(value) for name, value in record.items()} != RECORD:
            yield f"{where} must have {', '.join(RECORD)}, and each of its type"
            continue
        files, needed = record["files"], blocks.get(body, ())
        if needed and not files:
            yield f"{where} runs Python and lists no file"
        if missing := [name for name in needed if name != "…" and name not in files]:
            yield f"{where} does not list {', '.join(missing)}, which it runs"
        for name, digest in files.items():
            if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
                yield f"{where}: {name} has no sha256"
            if Path(name).is_absolute() or ".." in Path(name).parts:
                yield f"{where}: {name} is not in the repository"
        if not all(isinstance(kernel, str) and kernel for kernel in record["kernels"]):
            yield f"{where}: kernels are names"
        if record["seconds"] <= 0:
            yield f"{where} took no time"
        yield from (f"{where}: {text}" for text in stamp_complaints(record["stamp"]))


def stamp_complaints(stamp: dict) -> Iterator[str]:
    """Keys more or less, a day that is none, a commit that is none."""
    if tuple(sorted(stamp)) != STAMP:
        yield f"the stamp must have {', '.join(STAMP)}"
        return
    commit = stamp["commit"]
    if commit is not None and not re.fullmatch("[0-9a-f]{40}", str(commit)):
        yield f"{commit} is no commit"
    if empty := [
        name for name in STAMP if name != "commit" and not (stamp[name] and type(stamp[name]) is str)
    ]:
        yield f"{', '.join(empty)} must be text"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", stamp["date"]) or not _day(stamp["date"]):
        yield f"{stamp['date']} is no day"


def _day(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def test_the_ledger_is_as_make_gpu_writes_it() -> None:
    assert not (found := list(complaints(LEDGER, shown(read(ROOT))))), "\n".join(found)


BODY = "python snippets/a.py\n"
BLOCKS = shown({"docs/zh/a.md": f"```bash\n{BODY}```\n"})
RIGHT = {
    "files": {"snippets/a.py": "0" * 64},
    "kernels": ["softmax"],
    "output": "",
    "seconds": 0.1,
    "stamp": dict.fromkeys(STAMP, "1") | {"date": "2026-11-30", "commit": None},
}


def test_a_right_ledger_passes() -> None:
    assert list(complaints({"blocks": {BODY: RIGHT}}, BLOCKS)) == []
    named = RIGHT | {"stamp": RIGHT["stamp"] | {"commit": "a" * 40}}
    assert list(complaints({"blocks": {BODY: named}}, BLOCKS)) == []
    fences = "```bash\npython -m camp_softmax\n```\n```bash\nls\n```\n```python\nimport camp_softmax\n```\n"
    assert shown({"a": fences + "```python\nimport torch\n```\n"}) == {
        "python -m camp_softmax\n": ("…",),
        "ls\n": (),
        "import camp_softmax\n": ("…",),
        "import torch\n": (),
    }


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["note"], "", "must have files"),
        (["output"], None, "must have files"),
        (["seconds"], "1", "must have files"),
        (["seconds"], 0.0, "took no time"),
        (["files"], {}, "runs Python and lists no file"),
        (["files"], {"snippets/b.py": "0" * 64}, "does not list snippets/a.py"),
        (["files", "snippets/a.py"], None, "snippets/a.py has no sha256"),
        (["files", "../b.py"], "0" * 64, "../b.py is not in the repository"),
        (["kernels"], [1], "kernels are names"),
        (["stamp", "note"], "", "the stamp must have"),
        (["stamp", "device"], "", "device must be text"),
        (["stamp", "torch"], 2, "torch must be text"),
        (["stamp", "date"], "2026-13-01", "2026-13-01 is no day"),
        (["stamp", "date"], "20261130", "20261130 is no day"),
        (["stamp", "commit"], "main", "main is no commit"),
    ],
)
def test_a_wrong_record_is_named(path: list[str], value: object, complaint: str) -> None:
    record = deepcopy(RIGHT)
    *way, last = path
    target = record[way[0]] if way else record
    target[last] = value
    found = list(complaints({"blocks": {BODY: record}}, BLOCKS))
    assert any(complaint in text for text in found), found


def test_a_record_that_no_page_shows_is_named() -> None:
    (found,) = complaints({"blocks": {BODY: RIGHT}}, {})
    assert found == "`python snippets/a.py` is on no page"
    assert list(complaints({"blocks": {}, "note": 1}, {})) == ["the ledger has the keys ['blocks', 'note']"]
