"""What the CPU target cannot show: that the kernels of the snippets compile for a GPU, and do not race.

On the CPU loops are serial, so a racy or an unsupported kernel gives the right numbers. Here each
snippet runs, and every TileLang program that it builds is lowered for sm_90 too, race check on.
"""

import runpy
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T
import torch
from tvm.target import Target

from camp_softmax import tilelang as kernels
from camp_softmax.tilelang import online, rows

ROOT = Path(__file__).parents[1]
SNIPPETS = sorted((ROOT / "snippets").rglob("*.py"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in SNIPPETS}
# Those that run the wrong kernels of other snippets, which are here themselves, are left out.
TILELANG = [path for path, text in TEXTS.items() if "tilelang" in text and "run_path" not in text]
GPU_ONLY = {"safe_value"}  # their pages carry the mark gpu
SM_90 = Target({"kind": "cuda", "arch": "sm_90"})


def warnings_of(program, capfd) -> str:
    """What TileLang says on stderr while it lowers a program for an H100 or H200; it raises if it cannot."""
    capfd.readouterr()
    with SM_90, tilelang.tvm.transform.PassContext(config={"tl.disable_data_race_check": False}):
        tilelang.lower(program, target=SM_90)
    return capfd.readouterr().err


@pytest.mark.parametrize("path", TILELANG, ids=lambda path: path.stem)
def test_programs_of_a_snippet_lower_for_a_gpu(path, monkeypatch, capfd):
    if path.stem in GPU_ONLY and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    programs, build = [], kernels.Kernel.__init__

    def recording(self, program, device, pass_configs=None):
        programs.append(program)
        build(self, program, device, pass_configs)

    for name in ("LOWEST", "load_tile", "merge_tile"):  # mistakes put their own in their place
        monkeypatch.setattr(online, name, getattr(online, name))
    monkeypatch.setattr(kernels.Kernel, "__init__", recording)
    rows.kernel.cache_clear()
    runpy.run_path(str(path), run_name="__main__")
    rows.kernel.cache_clear()
    assert [warnings_of(program, capfd) for program in programs] == [""] * len(programs)


def test_a_race_is_seen(capfd):
    @T.prim_func
    def racy_sum(A: T.Tensor((16, 256), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((16, 256), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(A, tile)
            T.fill(total, 0)
            for i, j in T.Parallel(16, 256):
                total[i] += tile[i, j]
            T.copy(total, B)

    assert "race" in warnings_of(racy_sum, capfd).lower()
