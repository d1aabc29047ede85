"""The CUDA kernels: they compile for every architecture without a GPU, and on one they match the oracle."""

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from cases import BOUNDARIES, CASES, ODD_LENGTHS, check_logsumexp, check_softmax, random

cuda = pytest.importorskip("camp_softmax.cuda", exc_type=ImportError)
from camp_softmax.cuda import runtime  # noqa: E402

ROOT = Path(__file__).parents[1]
SOURCES = sorted(runtime.HERE.glob("*.cuh"))
KERNELS = [source for source in SOURCES if "__global__" in source.read_text(encoding="utf-8")]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def cold_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.stem)
def test_compiles_without_a_gpu(cold_cache, source, arch):
    code = runtime.compile(source, arch)
    assert code.code_type == "cubin"
    assert bytes(code.code)[:4] == b"\x7fELF"


def test_compile_error_shows_the_source_line(cold_cache, tmp_path):
    wrong = tmp_path / "wrong.cuh"
    wrong.write_text('#include "reduce.cuh"\n__global__ void k(float* x) {\n    x[0] = undefined_name;\n}\n')
    with pytest.raises(RuntimeError, match=r"wrong\.cuh does not compile for sm_90") as caught:
        runtime.compile(wrong, "sm_90")
    assert 'identifier "undefined_name" is undefined\n    3 |     x[0] = undefined_name;' in str(caught.value)


def test_compiled_once(cold_cache, monkeypatch):
    source = runtime.HERE / "online.cuh"
    first = bytes(runtime.compile(source, "sm_90").code)
    monkeypatch.setattr(runtime, "_compile", lambda *_: pytest.fail("compiled again"))
    assert bytes(runtime.compile(source, "sm_90").code) == first
    with pytest.raises(pytest.fail.Exception):
        runtime.compile(source, "sm_80")


@pytest.mark.parametrize("damage", [b"", b"garbage"])
def test_a_damaged_cache_entry_is_compiled_again(cold_cache, damage):
    source = runtime.HERE / "online.cuh"
    first = bytes(runtime.compile(source, "sm_90").code)
    entries = [path for path in cold_cache.rglob("*") if path.is_file() and path.read_bytes() == first]
    assert entries
    for entry in entries:
        entry.write_bytes(damage)
    assert bytes(runtime.compile(source, "sm_90").code) == first


def test_an_error_in_a_header_shows_its_line_too(cold_cache, tmp_path):
    (tmp_path / "my-header.cuh").write_text("int a = undefined_name;\n")
    (tmp_path / "wrong.cuh").write_text(f'#include "{tmp_path}/my-header.cuh"\n')
    with pytest.raises(RuntimeError) as caught:
        runtime.compile(tmp_path / "wrong.cuh", "sm_90")
    assert "    1 | int a = undefined_name;" in str(caught.value)


def test_a_changed_header_is_compiled_again(cold_cache, tmp_path, monkeypatch):
    for source in SOURCES:
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(runtime, "HERE", tmp_path)
    runtime.compile(tmp_path / "online.cuh", "sm_90")
    (tmp_path / "reduce.cuh").write_text("#error changed")
    with pytest.raises(RuntimeError, match="changed"):
        runtime.compile(tmp_path / "online.cuh", "sm_90")


def test_unwritable_cache_is_reported_and_does_without(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/x")  # nobody can make it, root included
    with pytest.warns(RuntimeWarning, match="not kept on disk"):
        assert runtime.compile(runtime.HERE / "online.cuh", "sm_90").code_type == "cubin"


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.float16), TypeError, "take float32, got torch.float16"),
        (torch.zeros(2, 3), ValueError, "on a CUDA device, got one on cpu"),
    ],
    ids=str,
)
def test_bad_rows_are_refused(rows, error, message):
    for operator in (cuda.softmax, cuda.logsumexp):
        with pytest.raises(error, match=message):
            operator(rows)


def test_unknown_rung():
    with pytest.raises(ValueError, match="one of three_pass, online, got 'four_pass'"):
        cuda.softmax(torch.zeros(2, 3), rung="four_pass")


@GPU
@pytest.mark.parametrize(
    "layout", [lambda x: x[0], lambda x: x[:0], lambda x: x[:, ::2], lambda x: x.T], ids=range(4)
)
def test_bad_layouts_are_refused(layout):
    with pytest.raises(ValueError, match="expected contiguous rows"):
        cuda.softmax(layout(torch.zeros(2, 6, device="cuda")))


@GPU
@pytest.mark.parametrize("rung", cuda.SOFTMAX)
@pytest.mark.parametrize("case", CASES)
def test_values(rung, case):
    check_softmax(functools.partial(cuda.softmax, rung=rung), CASES[case]().cuda())


def writes_outside(path: Path, kernel: str) -> int:
    """How many places around the result a kernel changes, for a row that fills no block."""
    memory = torch.full((3 * runtime.BLOCK,), 7.0, device="cuda")
    out = memory[runtime.BLOCK : runtime.BLOCK + 5].view(1, 5)
    runtime.run(path, kernel, torch.zeros(1, 5, device="cuda"), out)
    out.fill_(7)
    return int((memory != 7).sum())


@GPU
@pytest.mark.parametrize("rung", cuda.SOFTMAX)
def test_nothing_is_written_outside_the_result(rung):
    assert writes_outside(runtime.HERE / f"{rung}.cuh", cuda.SOFTMAX[rung]) == 0


@GPU
def test_an_unguarded_write_is_seen():
    wrong = ROOT / "snippets" / "mistakes" / "unguarded_write.cuh"
    assert writes_outside(wrong, "unguarded_write") == runtime.BLOCK - 5


@GPU
@pytest.mark.parametrize("rung", cuda.SOFTMAX)
@pytest.mark.parametrize("length", [1, 2, 3, *BOUNDARIES, *ODD_LENGTHS, 100_003])
def test_lengths(rung, length):
    check_softmax(functools.partial(cuda.softmax, rung=rung), random(5, length).cuda())
    check_logsumexp(cuda.logsumexp, random(5, length).cuda())


@GPU
def test_a_thread_of_its_own():
    """A new thread has no CUDA context until somebody makes one current."""
    x = random(5, 257).cuda()
    cuda.softmax(x)
    with ThreadPoolExecutor(1) as pool:
        check_softmax(lambda x: pool.submit(cuda.softmax, x).result(), x)


@GPU
def test_output_dtype_does_not_follow_torch_s_default():
    torch.set_default_dtype(torch.float16)
    try:
        assert cuda.logsumexp(torch.zeros(2, 3, device="cuda", dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@GPU
@pytest.mark.parametrize("rung", cuda.SOFTMAX)
def test_a_long_row_of_equal_terms(rung):
    """The rounding errors of the additions all go the same way."""
    x = torch.full((2, 250_007), -2.7, device="cuda")
    x[:, 0] = 0
    check_softmax(functools.partial(cuda.softmax, rung=rung), x)
    check_logsumexp(cuda.logsumexp, x)


@GPU
def test_rows_beyond_32_bit_offsets():
    """2^31 + M elements: the last row starts where a 32-bit offset has wrapped around."""
    M = 4096
    x = torch.zeros(2**31 // M + 1, M, device="cuda")
    x[-1, 0] = 5
    for rung in cuda.SOFTMAX:
        y = cuda.softmax(x, rung=rung)
        check_softmax(lambda row, y=y: y[-1:], x[-1:])
        assert y[0, 0] == 1 / M
        del y
