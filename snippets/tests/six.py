"""Wrong kernels on the six cases of the task."""

from pathlib import Path
from runpy import run_path

import tilelang.language as T
import torch

from camp_softmax.tilelang import build, online

MISTAKES = Path(__file__).parents[1] / "mistakes"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# --8<-- [start:kernels]
WRONG = {  # file: the part of the kernel that it replaces
    "no_max": "softmax_kernel",
    "zero_padding": "load_tile",
    "floor_blocks": "softmax_kernel",
    "floor_tiles": "softmax_kernel",
    "dim_0": "merge_tile",
    "no_second_scan": "softmax_kernel",
    "no_rescale": "merge_tile",
    "max_from_zero": "LOWEST",
    "start_at_minus_inf": "LOWEST",
    "tile_max_merge": "softmax_kernel",
}


def kernel(mistake: str = ""):
    """The kernel that ships, or with one part taken from mistakes/."""
    part = WRONG.get(mistake, "softmax_kernel")
    right = getattr(online, part)
    if mistake == "start_at_minus_inf":
        online.LOWEST = -torch.inf
    elif mistake:
        wrong = run_path(str(MISTAKES / f"{mistake}.py"))
        setattr(online, part, wrong[part])
    tile = (16, 16) if mistake == "dim_0" else (16, 256)
    program = online.softmax_kernel(T.dynamic("M"), "float32", *tile)
    setattr(online, part, right)
    return build(program, DEVICE)
    # --8<-- [end:kernels]


# --8<-- [start:cases]
def cases():
    torch.manual_seed(0)
    for shape in (1, 1), (3, 7), (16, 256), (17, 513), (64, 4096):
        yield torch.randn(shape).to(DEVICE)
    yield torch.tensor([[-1000.0, 0, 1000, 1]], device=DEVICE)


def passes(kernel, x: torch.Tensor) -> bool:
    y = torch.full_like(x, torch.nan)  # poison
    try:
        kernel(x, y)
        torch.testing.assert_close(
            y, torch.softmax(x, 1), atol=2e-3, rtol=2e-3
        )
    except (AssertionError, RuntimeError):
        return False
    return True


if __name__ == "__main__":
    print("a 1 x 1      d 17 x 513")
    print("b 3 x 7      e 64 x 4096")
    print("c 16 x 256   f -1000 0 1000 1")
    print(f"{'':20}a b c d e f")
    for mistake in "", *WRONG:
        wrong = kernel(mistake)
        marks = ["." if passes(wrong, x) else "x" for x in cases()]
        print(f"{mistake or 'as it ships':20}" + " ".join(marks))
    # --8<-- [end:cases]
