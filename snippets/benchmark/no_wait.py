"""A call returns long before its kernel is done: what the clock says then."""

import time

import torch


def seconds(x: torch.Tensor, wait: bool) -> float:
    torch.softmax(x, -1)  # warm-up: what happens once is not timed
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.softmax(x, -1)
    if wait:
        torch.cuda.synchronize()
    return time.perf_counter() - start


small = torch.randn(1024, 4096, device="cuda")
large = torch.randn(256 * 1024, 4096, device="cuda")  # 256 times the work

for wait in (False, True):
    growth = seconds(large, wait) / seconds(small, wait)
    verdict = "over 30 times as long" if growth > 30 else "about as long"
    print(f"wait={wait!s:5}   256 times the work takes {verdict}")
end = torch.cuda.Event()
torch.softmax(large, -1)
end.record()
state = "is done" if end.query() else "still runs"
print(f"when the call returns, the kernel {state}")
