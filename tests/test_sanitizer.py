"""compute-sanitizer finds nothing in any kernel: no access out of bounds, no race, no uninitialised read."""

import itertools
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not on PATH"),
]

EVERY_OPERATOR = (
    "[getattr(cuda, name)(x.to(dtype), rung='{}') for name in cuda.OPERATORS for dtype in cuda.plan.ELEMENTS]"
)
KERNELS = {
    "three_pass": "cuda.softmax(x, rung='three_pass')",
    "online": "cuda.softmax(x, rung='online'); cuda.logsumexp(x, rung='online')",
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


def bulk_copies() -> set[int]:
    """Where the bulk copies are in the machine code of the cluster kernels that run here."""
    from camp_softmax import cuda
    from camp_softmax.cuda import runtime

    major, minor = torch.cuda.get_device_capability()
    found = set()
    for operator, dtype, (_, M) in itertools.product(cuda.OPERATORS, cuda.plan.ELEMENTS, SIZES):
        constants = cuda.plan.cluster(M, dtype, operator.upper(), False).constants
        path = runtime.HERE / "cluster.cuh"
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(runtime.compile(path, f"sm_{major}{minor}", constants).code)
            file.flush()
            command = ["cuobjdump", "-sass", file.name]
            listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found |= {int(at, 16) for at in re.findall(r"/\*(\w+)\*/[^;]*\bUBLKCP\b", listing)}
    return found


def test_racecheck_reports_of_a_cluster_only_what_a_bulk_copy_wrote():
    """racecheck does not see that a wait for a barrier orders a bulk copy before the loads that follow."""
    report = sanitize("cluster", "racecheck")
    errors = [line for line in report.splitlines() if "Error:" in line]
    written = [re.search(r"Write access at cluster\+0x(\w+)", line) for line in errors]
    assert all(written), report
    assert {int(at[1], 16) for at in written} <= bulk_copies(), report
    assert written, "racecheck has learned it: cluster can be with the others"


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_clean(kernel, tool):
    if (kernel, tool) == ("cluster", "racecheck"):
        pytest.skip("see above")
    report = sanitize(kernel, tool)
    assert "ERROR SUMMARY: 0 errors" in report or "RACECHECK SUMMARY: 0 hazards" in report, report


def sanitize(kernel: str, tool: str) -> str:
    """What a tool says of a kernel."""
    code = f"{IMPORTS}\nfor size in {SIZES}:\n  x = torch.randn(size).cuda()\n  {KERNELS[kernel]}\n"
    code += "torch.cuda.synchronize()\n"
    # API errors are left out: cuda-bindings asks the driver for functions that it may not have.
    options = ["--report-api-errors=no"] * (tool == "memcheck")
    command = ["compute-sanitizer", "--tool", tool, *options, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    return report
