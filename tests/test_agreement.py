"""agreement.py: the checker finds the seeded bugs, nothing in correct kernels, and what the record says."""

import json

import pytest

import agreement
from cases import compare

ENTRIES = {entry["name"]: entry for entry in agreement.entries()}
SEEDED = [name for name, entry in ENTRIES.items() if not entry["correct"]]
CORRECT = [name for name, entry in ENTRIES.items() if entry["correct"]]
RECORD = json.loads((agreement.ROOT / "docs/results/agreement.json").read_text("utf-8"))
RECORDED = {kernel["name"]: kernel["checker"] for kernel in RECORD["kernels"]}
UNSEEN = {"no fence", "next array", "not set", "variable"}  # see docs/en/checker.md


def test_there_are_enough():
    assert len(SEEDED) >= 20
    assert len(CORRECT) >= 10


def test_the_record_is_of_these_kernels():
    assert list(RECORDED) == list(ENTRIES)
    assert RECORD["files"].keys() == agreement.digests(list(ENTRIES.values())).keys()


def as_recorded(name, found):
    """The checker says what it said then, unless the kernel has changed since: then the pages say so."""
    files = agreement.digests([ENTRIES[name]])
    return found == RECORDED[name] or any(RECORD["files"][path] != digest for path, digest in files.items())


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_bug_is_found(tmp_path, name):
    """As the record says: `make agreement` on a GPU writes a new one."""
    found = agreement.checked(agreement.launch(ENTRIES[name], tmp_path))
    assert bool(found) == (name not in UNSEEN)
    assert str(tmp_path) not in found
    assert as_recorded(name, found)


@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_kernel(tmp_path, name):
    """And its numbers are right."""
    launch = agreement.launch(ENTRIES[name], tmp_path)
    assert agreement.checked(launch) == ""
    assert as_recorded(name, "")
    launch.kernel(launch.grid, launch.threads, *launch.arguments, **launch.options)
    if launch.right:
        compare(launch.y, *launch.right)
