"""How TileLang's AllReduce halves the number of threads: one level of it."""

from pathlib import Path

import tilelang

folder = Path(tilelang.__file__).parent / "src/tl_templates/cuda"
template = (folder / "reduce.h").read_text(encoding="utf-8")
level = template.split("T butterfly_reduce_scalar(T x, T *red_buf) {\n")[1]
print(level.split("    if constexpr (offset == scale)")[0], end="")
