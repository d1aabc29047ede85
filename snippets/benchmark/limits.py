"""What a multiprocessor of an H200 is given in one clock, and could compute."""

SMS, CLOCK = 132, 1.98e9  # from the data sheet, as the next three
MEMORY = 4.8e12  # bytes a second
LANES = 128  # float32 operations that can start in a clock
SPECIAL = 16  # exponentials that can

peak = SMS * LANES * 2 * CLOCK  # a fused multiply-add counts as two
print(f"float32 peak: {peak / 1e12:.1f} TFLOP/s")
arrive = MEMORY / SMS / CLOCK
print(f"bytes a clock: {arrive:.1f}")
print("                                      float32  bfloat16")
elements = [arrive / (2 * size) for size in (4, 2)]  # in and out
rows = {
    "elements that memory brings": [f"{e:.1f}" for e in elements],
    "exponentials that could be computed": [f"{SPECIAL}"] * 2,
    "instructions that each may take": [f"{LANES / e:.0f}" for e in elements],
}
for name, (single, half) in rows.items():
    print(f"{name:37} {single:>7} {half:>9}")
