"""What a variant of a fast kernel changes: lines of its source, or its plan."""

import sys
import textwrap

from camp_softmax.bench.variants import VARIANTS
from camp_softmax.cuda import plan

variant = VARIANTS[sys.argv[1]]


def show(sign: str, text: str) -> None:
    for line in text.splitlines():
        for piece in textwrap.wrap(line, 64, subsequent_indent="      "):
            print(sign, piece)


for file, edits in variant.edits.items():
    print(file)
    for old, new in edits:
        show("-", old)
        show("+", new)

for dtype, M in variant.at:
    made = plan.READ_ONCE[variant.rung](M, dtype, "SOFTMAX", aligned=True)
    changed = variant.change(made)
    if changed == made:
        continue
    print(f"{variant.rung}, {str(dtype).removeprefix('torch.')} {M}")
    before, after = (dict(p.constants) for p in (made, changed))
    for name in "THREADS", "ITEMS", "STAGES", "CLUSTER", "AHEAD":
        if before.get(name) != after.get(name):
            print(f"  {name} {before[name]} -> {after[name]}")
    if changed.in_flight != made.in_flight:
        fit = changed.in_flight > 1000
        clusters = "all that fit" if fit else changed.in_flight
        print(f"  clusters {made.in_flight} -> {clusters}")
