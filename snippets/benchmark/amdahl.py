"""How much faster the whole gets when softmax does."""


def speedup(share: float, gain: float) -> float:
    """Of the whole, if `share` of its time becomes `gain` times as fast."""
    return 1 / (1 - share + share / gain)


print("softmax is    10% faster   2 times   never again")
for share in (1.0, 0.5, 0.1, 0.02):
    never = "no end" if share == 1 else f"{1 / (1 - share):.3f}"
    sped = [f"{speedup(share, gain):.3f}" for gain in (1.1, 2.0)]
    print(f"{share:10.0%} {sped[0]:>13} {sped[1]:>9} {never:>13}")
