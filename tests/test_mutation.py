"""The mutation run on a package of one file: what it changes, what survives, what is explained."""

import subprocess
import sys
from pathlib import Path

import pytest

import mutation

ROOT = Path(__file__).parents[1]
PACKAGE = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "tiny.py": "def clip(x, low):\n    if x < low:\n        return low\n    return x + 0\n",
    "tests/test_tiny.py": "import tiny\n\n\ndef test_clip():\n    assert tiny.clip(5, 3) == 5\n",
}
RUN = """
import pathlib, sys
sys.path.insert(0, sys.argv.pop(1))
import mutation
mutation.ROOT = pathlib.Path.cwd()
mutation.TARGETS = {"tiny.py": ("tiny", "")}
mutation.NAMED = []
mutation.preload = lambda: None
mutation.main()
"""
EQUAL = """
[[equivalent]]
file = "tiny.py"
was = "if x < low:"
now = ["if x <= low:"]
why = "at equality both are the same number"
"""
GUARD = """
[[equivalent]]
file = "tiny.py"
function = "clip"
why = "a rule for a whole function"
"""
STALE = """
[[equivalent]]
file = "tiny.py"
was = "return x + 0"
now = ["return x - 0", "return x + 1"]
why = "no number is changed; the second does change it"
"""


def run(folder: Path, table: str) -> subprocess.CompletedProcess[str]:
    for name, text in (PACKAGE | {"tests/equivalent.toml": table}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-c", RUN, str(ROOT / "tests"), "--verbose"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_survivors_need_a_reason_and_reasons_a_survivor(tmp_path):
    """x < low has two mutants, of which the test sees neither; x + 0 has two, of which it sees one."""
    done = run(tmp_path, EQUAL + STALE)
    assert done.returncode == 1, done.stderr
    assert "4: killed tests/test_tiny.py::test_clip\n  - return x + 0\n  + return x + 1" in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["in", "all", "1", "0", "0", "2", "1", "50.0%"]
    assert done.stderr.splitlines() == [
        "tiny.py: killed, or no longer there: return x + 1",
        "tiny.py:2: survived: if False:",
    ]
    assert (tmp_path / "tiny.py").read_text() == PACKAGE["tiny.py"]


def test_a_rule_for_a_function(tmp_path):
    done = run(tmp_path, GUARD)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].split() == ["in", "all", "1", "0", "0", "3", "0", "100.0%"]


def changes(text: str, python: bool) -> list[str]:
    return [text[:begin] + by + text[end:] for begin, end, by in mutation.sites(text, python)]


@pytest.mark.parametrize(
    ("text", "python", "made"),
    [
        ("y = f(*a) - 1  # x - y\n", True, ["y = f(*a) + 1  # x - y\n"]),
        ('s = "a < b"\n', True, []),
        ("m = T.max(a, b)\n", True, ["m = T.min(a, b)\n"]),
        ("a = b if c else d\n", True, ["a = b if True else d\n"]),
        ("    if c:\n        raise E\n", True, ["    if False:\n        raise E\n"]),
        ("    T.fill(m, x)\n", True, ["    pass\n"]),
        ("@cache(0)\ndef f(x=0):\n", True, []),
        ("T* y = x; // *x < 0\n", False, []),
        ("\n  if (c) return;\n", False, ["\n  if (false) return;\n"]),
        ("\n  if (c) y = x;\n", False, ["\n  if (true) y = x;\n"]),
        ("float e = i < n ? f(i) : z;\n", False, [
            "float e = i <= n ? f(i) : z;\n", "float e = true ? f(i) : z;\n",
        ]),
        ("\n  __syncthreads();\n", False, ["\n  ;\n"]),
        ("float m = LOWEST;\n", False, ["float m = 0;\n"]),
    ],
    ids=str,
)  # fmt: skip
def test_operators(text, python, made):
    assert changes(text, python) == made


def test_reasons_are_about_files_that_are_tried():
    table = mutation.explained()
    assert {entry["file"] for entry in table} <= mutation.TARGETS.keys()
    assert all(entry["why"] for entry in table)
    for entry in table:
        made = mutation.mutants(entry["file"])
        for now in entry.get("now", [None]):
            assert any(mutation.fits(mutant, entry, now) for mutant in made), f"no longer there: {now}"
