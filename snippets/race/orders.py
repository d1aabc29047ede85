"""Runs hand_over.cuh in 20 orders under the checker."""

import textwrap
from pathlib import Path

import torch

from camp_softmax.cuda.host import Finding, Memory, kernel

source = Path(__file__).with_name("hand_over.cuh")
x = torch.tensor([3.0, 1])
for barriers in "1", "2":
    hand_over = kernel(source, "hand_over", (("BARRIERS", barriers),))
    found, right = {}, 0
    for seed in range(20):  # each an order in which the threads run
        y = torch.zeros(2)
        try:
            hand_over(1, 2, Memory.of(x), Memory.of(y), 2, seed=seed)
            right += int(y.equal(x))
        except Finding as finding:
            found[seed] = str(finding)
    print(f"BARRIERS={barriers}: found in {len(found)}, right in {right}")
    for seed in list(found)[:2]:
        print(f"order {seed}:", *textwrap.wrap(found[seed], 72), sep="\n  ")
