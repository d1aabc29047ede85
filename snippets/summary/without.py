"""The kernel with one of its six points taken away."""

from pathlib import Path
from runpy import run_path

import tilelang
import torch
from tvm.target import Target

from camp_softmax import reference

SNIPPETS = Path(__file__).parents[1]
SIX = run_path(str(SNIPPETS / "tests" / "six.py"))
PARALLEL = run_path(str(SNIPPETS / "mistakes" / "parallel_tiles.py"))
# --8<-- [start:points]
WITHOUT = {
    "as it ships": "",
    "1 row blocks rounded down": "floor_blocks",
    "2 column tiles in parallel": "parallel_tiles",
    "3 zeros outside the matrix": "zero_padding",
    "4 dim=0": "dim_0",
    "5 old sum not rescaled": "no_rescale",
    "6 written in the first scan": "no_second_scan",
}


torch.manual_seed(0)
x = torch.randn(17, 513)
want = reference.softmax(x)


def wrong_rows(mistake: str) -> int:
    if mistake == "parallel_tiles":  # no kernel: it does not compile
        target = Target({"kind": "cuda", "arch": "sm_90"})
        with target:
            tilelang.lower(PARALLEL["row_max"], target=target)
    y = torch.full_like(x, torch.nan).to(SIX["DEVICE"])  # poison
    SIX["kernel"](mistake)(x.to(y.device), y)
    right = torch.isclose(y.cpu().double(), want, atol=0, rtol=1e-4)
    return (~right).any(1).sum().item()


print("17 x 513                 rows wrong")
for name, mistake in WITHOUT.items():
    try:
        found = wrong_rows(mistake)
    except ValueError:
        found = "refused"
    print(f"{name:27} {found:>7}")
    # --8<-- [end:points]
