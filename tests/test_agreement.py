"""What agreement.py judges: the checker finds the seeded bugs, and nothing in the correct kernels."""

import pytest

import agreement
from cases import compare

ENTRIES = {entry["name"]: entry for entry in agreement.entries()}
SEEDED = [name for name, entry in ENTRIES.items() if not entry["correct"]]
CORRECT = [name for name, entry in ENTRIES.items() if entry["correct"]]
UNSEEN = {"no fence", "next array", "not set", "variable"}  # see docs/en/checker.md


def test_there_are_enough():
    assert len(SEEDED) >= 20
    assert len(CORRECT) >= 10


@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_bug_is_found(tmp_path, name):
    found = agreement.checked(agreement.launch(ENTRIES[name], tmp_path))
    assert bool(found) == (name not in UNSEEN)
    assert str(tmp_path) not in found


@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_kernel(tmp_path, name):
    """And its numbers are right."""
    launch = agreement.launch(ENTRIES[name], tmp_path)
    assert agreement.checked(launch) == ""
    launch.kernel(launch.grid, launch.threads, *launch.arguments, **launch.options)
    if launch.right:
        compare(launch.y, *launch.right)
