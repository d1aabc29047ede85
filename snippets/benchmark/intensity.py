"""Operations and bytes of an operator, and the one divided by the other."""

from camp_softmax.reference import SCANS

# What one element costs; each +, -, max, exp and / is one operation.
WORK = {  # name: (reads, writes, reductions, operations)
    "copy": (1, 1, 0, 0),
    "vector add": (2, 1, 0, 1),
    "row sum": (1, 0, 1, 1),
    "three passes": (*SCANS["three_pass"], 2, 5),  # max; -, exp, +; /
    "two scans": (*SCANS["online"], 2, 7),  # max, -, exp, +; -, exp, /
    "one read": (*SCANS["single_read"], 2, 5),  # max, -, exp, +, /
}

print("              each element:                   operations a byte:")
print("              read  write  reduce  operations  float32  bfloat16")
for name, (reads, writes, reductions, operations) in WORK.items():
    counts = f"{reads:5} {writes:6} {reductions:7} {operations:11}"
    single, half = (operations / (reads + writes) / size for size in (4, 2))
    print(f"{name:12} {counts} {single:9.2f} {half:9.2f}")
