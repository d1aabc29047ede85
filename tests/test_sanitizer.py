"""compute-sanitizer finds nothing in any kernel: no access out of bounds, no race, no uninitialised read."""

import shutil
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not on PATH"),
]

EVERY_OPERATOR = (
    "[getattr(cuda, name)(x.to(dtype), rung='{}') for name in cuda.OPERATORS for dtype in cuda.plan.ELEMENTS]"
)
KERNELS = {
    "three_pass": "cuda.softmax(x, rung='three_pass')",
    "online": "cuda.softmax(x, rung='online'); cuda.logsumexp(x)",
    "single_read": EVERY_OPERATOR.format("single_read"),
    "cluster": EVERY_OPERATOR.format("cluster"),
    "tilelang online": "online.softmax(x); online.logsumexp(x)",
}
IMPORTS = """
import torch
from camp_softmax import cuda
from camp_softmax.tilelang import online
"""
# One element; less than a warp; two row blocks and three tiles; more rows than there are clusters at once.
SIZES = [(1, 1), (3, 7), (17, 513), (1500, 513)]


MISSING_BARRIER = """
from pathlib import Path
import torch
from camp_softmax.cuda import runtime
x = torch.zeros(1, 256).cuda()
runtime.run(Path("snippets/mistakes/missing_barrier.cuh"), "on_time", x, torch.empty_like(x))
torch.cuda.synchronize()
"""


def test_racecheck_reports_a_missing_barrier():
    """Although the numbers are right: see test_cuda.py."""
    command = ["compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "99"]
    done = subprocess.run([*command, sys.executable, "-c", MISSING_BARRIER], capture_output=True, text=True)
    assert done.returncode == 99, done.stdout + done.stderr
    assert "hazard" in done.stdout + done.stderr


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_clean(kernel, tool):
    code = f"{IMPORTS}\nfor size in {SIZES}:\n  x = torch.randn(size).cuda()\n  {KERNELS[kernel]}\n"
    code += "torch.cuda.synchronize()\n"
    # API errors are left out: cuda-bindings asks the driver for functions that it may not have.
    options = ["--tool", tool, "--error-exitcode", "99"] + ["--report-api-errors=no"] * (tool == "memcheck")
    command = ["compute-sanitizer", *options, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    assert "ERROR SUMMARY: 0 errors" in report or "RACECHECK SUMMARY: 0 hazards" in report, report
