"""A causal mask where there are not as many queries as keys."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from camp_softmax.tilelang.attention import attention, visible

device = "cuda" if torch.cuda.is_available() else "cpu"


def show(name: str, y: torch.Tensor) -> None:
    print(f"  {name:16}", " ".join(f"{x:.1f}" for x in y[0, 0, :, 0].tolist()))


for Nq, Nk in (3, 5), (5, 3):
    print(f"{Nq} queries, {Nk} keys")
    for i in range(Nq):
        seen = visible(i, Nq, Nk, causal=True)
        print("   ", *("#" if j < seen else "." for j in range(Nk)))
    q = torch.zeros(1, 1, Nq, 64, dtype=torch.float16, device=device)
    k = q.new_zeros(1, 1, Nk, 64)  # scores of 0: equal weights
    v = k + torch.arange(1, Nk + 1, device=device)[:, None]  # places
    mask = torch.ones(Nq, Nk, dtype=torch.bool, device=device).tril(Nk - Nq)
    show("kernel", attention(q, k, v, causal=True))
    with sdpa_kernel(SDPBackend.MATH):  # in plain operations
        show("torch, this mask", sdpa(q, k, v, attn_mask=mask))
        show("torch, is_causal", sdpa(q, k, v, is_causal=True))
