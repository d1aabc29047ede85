"""The same copy with one buffer over and over, and with buffers in turn."""

import torch

MIB = 2**20
x = torch.randn(64, 2 * MIB, device="cuda")  # 64 inputs of 8 MiB
y = torch.empty_like(x)


def bandwidth(buffers: int) -> float:
    """Bytes a second of 640 copies that use so many buffers in turn."""
    graph = torch.cuda.CUDAGraph()  # so that the host does not slow it down
    with torch.cuda.graph(graph):
        for i in range(640):
            y[i % buffers].copy_(x[i % buffers])
    graph.replay()  # warm-up
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 640 * 2 * 8 * MIB / start.elapsed_time(end) * 1e3


memory = bandwidth(64)  # 1 GiB in all: none of it is in the L2 cache
for buffers in (1, 64):
    share = bandwidth(buffers) / memory
    verdict = "faster than memory" if share > 1.2 else "as fast as memory"
    print(f"{buffers:2} x 8 MiB in turn: {verdict}")
