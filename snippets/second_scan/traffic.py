"""What each way asks of the memory: elements for each element, and bytes."""

import torch

from camp_softmax.reference import SCANS, bytes_moved

WAYS = {
    "three_pass": "three passes that store exp",
    "three_scan": "three scans, exp again",
    "online": "two scans",
    "single_read": "one read",
}

print("1024 x 4096, float32          read  written  moved      MiB")
for rung, name in WAYS.items():
    reads, writes = SCANS[rung]
    moved = bytes_moved(rung, (1024, 4096), torch.float32) // 2**20
    print(f"{name:27} {reads:6} {writes:8} {reads + writes:6} {moved:8}")
