"""compute-sanitizer finds nothing in any kernel: no access out of bounds, no race, no uninitialised read."""

import shutil
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not on PATH"),
]

KERNELS = {
    "three_pass": "from camp_softmax import cuda; cuda.softmax(x, rung='three_pass')",
    "online": "from camp_softmax import cuda; cuda.softmax(x, rung='online'); cuda.logsumexp(x)",
    "tilelang online": "from camp_softmax.tilelang import online; online.softmax(x); online.logsumexp(x)",
}
SIZES = [(1, 1), (3, 7), (17, 513)]  # one element, less than a warp, two row blocks and three tiles


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_clean(kernel, tool):
    code = f"import torch\nfor size in {SIZES}:\n  x = torch.randn(size).cuda()\n  {KERNELS[kernel]}\n"
    code += "torch.cuda.synchronize()\n"
    # API errors are left out: cuda-bindings asks the driver for functions that it may not have.
    options = ["--tool", tool, "--error-exitcode", "99"] + ["--report-api-errors=no"] * (tool == "memcheck")
    command = ["compute-sanitizer", *options, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    assert "ERROR SUMMARY: 0 errors" in report or "RACECHECK SUMMARY: 0 hazards" in report, report
