"""Every wrong kernel that the course shows is rejected by the tests of the right one."""

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from camp_softmax.tilelang import online, rows
from cases import CASES, TUTORIAL_SHAPES, check_softmax, random

ROOT = Path(__file__).parents[1]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "snippets" / "mistakes" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def square(factory: Callable) -> Callable:
    """The kernel with tiles of 16 x 16: with dim=0, no other shape compiles."""
    return lambda M, dtype, *blocks: factory(M, dtype, 16, 16)


# mistake: what it puts into camp_softmax.tilelang.online, and the cases that must fail then
STANDS_IN = {
    "tile_max_merge": (
        lambda: {"softmax_kernel": load("tile_max_merge").softmax_kernel},
        {"descending tiles", "first tile -inf", "lowest and highest"},
    ),
    "no_rescale": (
        lambda: {"merge_tile": load("no_rescale").merge_tile},
        {"random", "ascending tiles", "ascending inside"},
    ),
    "no_max": (
        lambda: {"softmax_kernel": load("no_max").softmax_kernel},
        {"large", "uniform -1000", "descending tiles", "lowest"},
    ),
    "zero_padding": (lambda: {"load_tile": load("zero_padding").load_tile}, {"uniform -20", "negative"}),
    "floor_blocks": (
        lambda: {"softmax_kernel": load("floor_blocks").softmax_kernel},
        {"random", "a spike at every position"},
    ),
    "dim_0": (
        lambda: {"merge_tile": load("dim_0").merge_tile, "softmax_kernel": square(online.softmax_kernel)},
        {"random", "uniform 0", "descending inside"},
    ),
    "no_second_scan": (
        lambda: {"softmax_kernel": load("no_second_scan").softmax_kernel},
        {"random", "uniform 0", "ascending tiles", "a spike at every position"},
    ),
    "floor_tiles": (
        lambda: {"softmax_kernel": load("floor_tiles").softmax_kernel},
        {"uniform 0", "only the tail", "a spike at every position"},
    ),
    "max_from_zero": (lambda: {"LOWEST": load("max_from_zero").LOWEST}, {"uniform -1000", "only the tail"}),
    "half_sum": (
        lambda: {"merge_tile": load("half_sum").merge_tile},
        {"random", "ascending inside", "equal terms"},
    ),
    "start_at_minus_inf": (lambda: {"LOWEST": -torch.inf}, {"first tile -inf", "only the tail"}),
}
NOT_KERNELS = {
    "dim_0_layout",  # does not compile: the snippet shows the error
    "misaligned_view",  # the input is wrong, and refused: test_tilelang.py
    "missing_barrier",  # CUDA: test_cuda.py
    "narrow_offset",  # arithmetic
    "parallel_tiles",  # does not compile: the snippet shows the error
    "racy_sum",  # right on the CPU: the snippet shows the warning
    "unfilled",  # the same
    "unguarded_write",  # CUDA: test_cuda.py
}


def failures(cases: Iterable[str]) -> set[str]:
    failed = set()
    for case in cases:
        try:
            check_softmax(online.softmax, CASES[case]().to(DEVICE))
        except AssertionError:
            failed.add(case)
    return failed


def test_every_mistake_is_here():
    snippets = {path.stem for path in (ROOT / "snippets" / "mistakes").glob("*.py")}
    assert snippets == STANDS_IN.keys() | NOT_KERNELS


@pytest.mark.parametrize("mistake", STANDS_IN)
def test_the_wrong_kernel_is_rejected(monkeypatch, mistake):
    changes, must_fail = STANDS_IN[mistake]
    for name, value in changes().items():
        monkeypatch.setattr(online, name, value)
    rows.kernel.cache_clear()
    try:
        assert failures(must_fail) == must_fail
    finally:
        rows.kernel.cache_clear()


def test_the_right_kernel_is_not():
    assert failures(CASES) == set()


def test_tile_max_merge_passes_the_tutorial_s_own_shapes(monkeypatch):
    """Why it circulates: on ordinary numbers it is right."""
    monkeypatch.setattr(online, "softmax_kernel", load("tile_max_merge").softmax_kernel)
    rows.kernel.cache_clear()
    try:
        for shape in TUTORIAL_SHAPES[:4]:
            x = random(*shape)
            torch.testing.assert_close(
                online.softmax(x.to(DEVICE)).cpu(), torch.softmax(x, 1), atol=2e-3, rtol=2e-3
            )
    finally:
        rows.kernel.cache_clear()
