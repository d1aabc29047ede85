"""The CUDA kernels: they compile for every architecture without a GPU, and match the oracle on each."""

import functools
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from camp_softmax import cuda
from camp_softmax.cuda import plan
from cases import (
    BOUNDARIES,
    CASES,
    CHECKS,
    ODD_LENGTHS,
    check_softmax,
    random,
)

try:
    runtime = cuda._runtime(on_gpu=True)
except ImportError as error:
    pytest.skip(str(error), allow_module_level=True)

ROOT = Path(__file__).parents[1]
READ_ONCE = plan.READ_ONCE
LONGEST = {"single_read": plan.CAPACITY, "cluster": plan.LONGEST_CLUSTER}  # rows that a rung takes
SOURCES = sorted(runtime.HERE.glob("*.cuh"))
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])

DTYPES = list(plan.ELEMENTS)
RUNGS = [
    (rung, dtype) for rung in cuda.KERNELS for dtype in (DTYPES if rung in READ_ONCE else [torch.float32])
]


def check(rung, x):
    """All operators of a rung against the oracle."""
    for name in cuda.KERNELS[rung]:
        CHECKS[name](functools.partial(getattr(cuda, name), rung=rung), x)


@pytest.fixture
def cold_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("rung", cuda.ONE_BLOCK_A_ROW)
def test_compiles_without_a_gpu(cold_cache, rung, arch):
    code = runtime.compile(runtime.HERE / f"{rung}.cuh", arch)
    assert code.code_type == "cubin"
    assert bytes(code.code)[:4] == b"\x7fELF"


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("rung", "M", "arch"),
    [
        ("single_read", 100, "sm_80"),
        ("single_read", 4096, "sm_90"),
        ("single_read", 1000, "sm_100"),
        ("single_read", 1000, "sm_120"),
        ("cluster", 50_000, "sm_90"),
        ("cluster", 524_288, "sm_90"),
        ("cluster", 131_072, "sm_100"),
        ("cluster", 131_072, "sm_120"),
    ],
)
def test_rungs_that_read_once_compile_without_a_gpu(cold_cache, rung, M, arch, dtype, aligned):
    constants = READ_ONCE[rung](M, dtype, "SOFTMAX", aligned).constants
    assert runtime.compile(runtime.HERE / f"{rung}.cuh", arch, constants).code_type == "cubin"


@pytest.mark.parametrize("output", ["LOG_SOFTMAX", "LOGSUMEXP"])
@pytest.mark.parametrize("rung", READ_ONCE)
def test_other_outputs_compile_without_a_gpu(cold_cache, rung, output):
    constants = READ_ONCE[rung](1001, torch.bfloat16, output, False).constants
    assert runtime.compile(runtime.HERE / f"{rung}.cuh", "sm_90", constants).code_type == "cubin"


@pytest.mark.parametrize(
    ("M", "dtype", "threads", "items"),
    [
        (512, torch.float32, 64, 2),
        (16384, torch.float32, 1024, 4),
        (1024, torch.bfloat16, 32, 4),
        (16384, torch.float16, 512, 4),
    ],
    ids=str,
)
def test_a_row_is_divided_so_that_hardly_a_thread_is_idle(M, dtype, threads, items):
    """As TileLang's kernel divides 16-bit rows, which was measured to be faster than 3 vectors a thread."""
    made = plan.single_read(M, dtype, "SOFTMAX", aligned=True)
    assert (made.threads, dict(made.constants)["ITEMS"]) == (threads, str(items))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "output"), [(100, "SOFTMAX"), (4096, "LOG_SOFTMAX"), (20_001, "SOFTMAX")])
def test_the_gradient_compiles_without_a_gpu(cold_cache, M, output, dtype, arch):
    constants = plan.backward(M, dtype, output, M % 8 == 0).constants
    assert runtime.compile(runtime.HERE / "backward.cuh", arch, constants).code_type == "cubin"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rung", READ_ONCE)
def test_a_plan_has_room_for_every_vector(rung, dtype):
    """What the kernel's loops reach, and what a block may have: 1024 threads, 227 KiB of shared memory."""
    width = plan.VECTOR // dtype.itemsize
    longest = LONGEST[rung]
    lengths = {1, 2, 3, longest, *torch.randint(1, longest + 1, (2000,)).tolist()}
    lengths |= {n for k in range(1, 17) for n in (longest * k // 16, longest * k // 16 - 1, 2**k, 2**k + 1)}
    for M in sorted(n for n in lengths if 1 <= n <= longest):
        aligned = M % width == 0
        chosen = READ_ONCE[rung](M, dtype, "SOFTMAX", aligned)
        sizes = {name: int(value) for name, value in chosen.constants if value.isdigit()}
        vectors = M // width
        if rung == "single_read":
            lanes = min(sizes["GROUP"], sizes["THREADS"])
            assert chosen.threads == sizes["THREADS"] <= 1024
            assert chosen.rows == sizes["THREADS"] // lanes
        else:
            assert chosen.threads == sizes["THREADS"] + 32 <= 1024
            assert chosen.shared <= 220 * 1024
            assert sizes["STAGES"] * sizes["STAGE"] >= sizes["ITEMS"]
            assert chosen.shared == sizes["STAGES"] * sizes["STAGE"] * sizes["THREADS"] * plan.VECTOR
            assert chosen.in_flight >= 1
            lanes = sizes["THREADS"]
            pieces = chosen.blocks * (sizes["ITEMS"] // sizes["STAGE"])
            vectors = pieces // chosen.blocks * math.ceil(math.ceil(vectors / pieces) / 8) * 8
        assert lanes * sizes["ITEMS"] >= vectors
        assert aligned or lanes >= width - 1  # a lane for each element before and after the vectors


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_plan_of_short_rows_has_room_for_them(dtype):
    """What packed.cuh counts on."""
    width = plan.VECTOR // dtype.itemsize
    for M in range(1, plan.LONGEST_PACKED[dtype] + 1):
        made = plan.single_read(M, dtype, "SOFTMAX", M % width == 0, dense=True)
        if M % width == 0 and M // width not in (3, 5):
            assert made.rung == "single_read"
            made = plan.single_read(M, dtype, "SOFTMAX", aligned=False, dense=True)
        assert made.rung == "packed"
        sizes = {name: int(value) for name, value in made.constants if value.isdigit()}
        pair, lanes = plan.WORD // dtype.itemsize, sizes["GROUP"]
        assert (sizes["WORDS"] - 1) * pair * lanes < M <= sizes["WORDS"] * pair * lanes  # SURE, EACH
        assert (
            made.rows == sizes["PASSES"] * made.threads // lanes
        )  # ROWS, of which each STEP leads to another
        assert made.rows & (made.rows - 1) == 0
        assert sizes["STEP"] % 2 == 1
        assert made.rows * M <= sizes["THREADS"] * sizes["LOADS"] * width
        assert made.threads >= 2 * width  # a thread for each element before and after the vectors
        if M % width:
            starts = [thread // lanes * sizes["STEP"] % made.rows * M for thread in range(32)]
            words = {(start + thread % lanes) // pair for thread, start in enumerate(starts)}
            assert max(Counter(word % 32 for word in words).values()) <= 2  # of a bank of shared memory
    assert plan.single_read(9, dtype, "SOFTMAX", False).rung == "single_read"


def test_which_plans_reduce():
    """The checker takes from it how many elements a kernel may write."""
    assert plan.one_block_a_row("online", "logsumexp").reduces
    assert not plan.one_block_a_row("online", "softmax").reduces
    for make in READ_ONCE.values():
        assert make(100, torch.float32, "LOGSUMEXP", True).reduces
        assert not make(100, torch.float32, "SOFTMAX", True).reduces


def test_rows_that_are_too_long_for_a_rung():
    for rung, longest in (("single_read", 65_536), ("cluster", 524_288)):
        with pytest.raises(ValueError, match=f"{rung}: expected rows of up to {longest}"):
            READ_ONCE[rung](longest + 8, torch.float32, "SOFTMAX", True)


def test_compile_error_shows_the_source_line(cold_cache, tmp_path):
    wrong = tmp_path / "wrong.cuh"
    wrong.write_text('#include "reduce.cuh"\n__global__ void k(float* x) {\n    x[0] = undefined_name;\n}\n')
    with pytest.raises(RuntimeError, match=r"wrong\.cuh does not compile for sm_90") as caught:
        runtime.compile(wrong, "sm_90")
    assert 'identifier "undefined_name" is undefined\n    3 |     x[0] = undefined_name;' in str(caught.value)


def test_a_changed_header_of_a_header_is_compiled(cold_cache, tmp_path):
    (tmp_path / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "k.cuh").write_text(
        '#include "a.cuh"\nextern "C" __global__ void k(int* x) { *x = VALUE; }\n'
    )
    codes = set()
    for value in (1, 2):
        (tmp_path / "b.cuh").write_text(f"#define VALUE {value}\n")
        codes.add(bytes(runtime.compile(tmp_path / "k.cuh", "sm_90").code))
    assert len(codes) == 2


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
        (torch.zeros(2, 3, dtype=torch.float64), TypeError, "bfloat16, got torch.float64"),
        (torch.zeros(2, 3, device="meta"), ValueError, "on a CPU or a CUDA device, got one on meta"),
        ([0.0], TypeError, "expected a dense tensor in memory, got list"),
    ],
    ids=str,
)
def test_bad_rows_are_refused(rows, error, message):
    for operator in (cuda.softmax, cuda.log_softmax, cuda.logsumexp):
        with pytest.raises(error, match=message):
            operator(rows)


def test_unknown_rung():
    with pytest.raises(ValueError, match=r"one of auto, three_pass, online, .*, got 'four_pass'"):
        cuda.softmax(torch.zeros(2, 3), rung="four_pass")
    with pytest.raises(ValueError, match=r"one of auto, single_read, cluster, got 'online'"):
        cuda.log_softmax(torch.zeros(2, 3), rung="online")


@DEVICES
@pytest.mark.parametrize(
    "layout", [lambda x: x[0], lambda x: x[:0], lambda x: x[:, ::2], lambda x: x.T], ids=range(4)
)
def test_bad_layouts_are_refused(layout, device):
    with pytest.raises(ValueError, match="expected contiguous rows"):
        cuda.softmax(layout(torch.zeros(2, 6, device=device)))


@DEVICES
def test_rungs_for_float32_refuse_16_bits(device):
    with pytest.raises(TypeError, match=r"online takes float32, got torch\.float16"):
        cuda.softmax(torch.zeros(2, 3, device=device, dtype=torch.float16), rung="online")


@DEVICES
@pytest.mark.parametrize(("rung", "dtype"), RUNGS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_values(rung, dtype, case, device):
    if (rung, device) == ("single_read", "cpu"):
        pytest.skip("test_softmax.py has it")
    check(rung, CASES[case]().to(device, dtype))


# CASES have rows of a whole warp. A block merges the states of its warps; the rows of a warp are kept apart.
OTHER_ROWS = {
    "of a block": lambda x: x.repeat(1, 2),
    "of a lane": lambda x: x[:, 254:258].contiguous(),
    "of a part of a warp": lambda x: x[:, 224:289] + 500 * (torch.arange(len(x)) % 2).view(-1, 1),
}


@DEVICES
@pytest.mark.parametrize("rows", OTHER_ROWS)
def test_values_of_other_rows(rows, device):
    for case in ("random", "uniform -1000", "descending tiles", "all -inf", "lowest", "underflow"):
        check("single_read", OTHER_ROWS[rows](CASES[case]()).to(device))


def writes_outside(path: Path, kernel: str) -> int:
    """How many places around the result a kernel changes, for a row that fills no block."""
    memory = torch.full((3 * plan.BLOCK,), 7.0, device="cuda")
    out = memory[plan.BLOCK : plan.BLOCK + 5].view(1, 5)
    runtime.run(path, kernel, torch.zeros(1, 5, device="cuda"), out)
    out.fill_(7)
    return int((memory != 7).sum())


@GPU
@pytest.mark.parametrize("rung", cuda.ONE_BLOCK_A_ROW)
def test_nothing_is_written_outside_the_result(rung):
    assert writes_outside(runtime.HERE / f"{rung}.cuh", f"softmax_{rung}") == 0


APART = {  # rows of M elements in memory of 14 * M
    "columns": lambda memory, M: memory.view(7, 2 * M)[:, :M],
    "every other row": lambda memory, M: memory.view(14, M)[::2],
    "one row for all": lambda memory, M: memory[:M].expand(7, M),
    "two dimensions": lambda memory, M: memory[: 12 * M].view(2, 3, 2 * M)[..., :M],
    "not whole": lambda memory, M: memory.view(2 * M, 7).T[:, :M],
    "not equally far": lambda memory, M: memory[: 12 * M].view(3, 4, M)[:, :3],
    "between two vectors": lambda memory, M: memory[: 7 * (M + 1)].view(7, M + 1)[:, :M],
}


@DEVICES
@pytest.mark.parametrize("rung", ["online", *READ_ONCE])
@pytest.mark.parametrize("M", [8, 1000, 1003])
@pytest.mark.parametrize("apart", APART)
def test_rows_that_are_apart(rung, M, apart, device, monkeypatch):
    """Are read where they are, if a kernel can; between them is NaN."""
    where = APART[apart](torch.arange(14 * M), M)
    memory = torch.full((14 * M,), torch.nan)
    memory[where] = random(14 * M, 1).flatten()[where]
    x = APART[apart](memory.to(device), M)
    copied = []
    contiguous = torch.Tensor.contiguous
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda x: copied.append(x) or contiguous(x))
    y = cuda._launch("softmax", x, rung)
    monkeypatch.undo()
    check_softmax(lambda x: y, x)
    readable = apart in list(APART)[:4] and M % 4 == 0 and rung in READ_ONCE
    assert bool(copied) != readable


@GPU
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rung", READ_ONCE)
@pytest.mark.parametrize("M", [1, 5, 7, 8, 17, 64, 513, 1000, 4097, 20_001])
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_nothing_is_written_outside_an_aligned_or_misaligned_result(rung, dtype, M, offset):
    N, width = 5, plan.VECTOR // dtype.itemsize
    memory = torch.full((N * M + 64,), 7.0, device="cuda", dtype=dtype)
    out = memory[32 + offset : 32 + offset + N * M].view(N, M)
    x = torch.empty(N * M + 8, device="cuda", dtype=dtype)[offset : offset + N * M].view(N, M)
    x.copy_(random(N, M))
    chosen = READ_ONCE[rung](M, dtype, "SOFTMAX", M % width == 0 and offset % width == 0)
    runtime.launcher(chosen, 0)(x.data_ptr(), out.data_ptr(), N, M, M)
    check_softmax(lambda x: out, x)
    out.fill_(7)
    assert (memory == 7).all()


@GPU
def test_an_unguarded_write_is_seen():
    wrong = ROOT / "snippets" / "mistakes" / "unguarded_write.cuh"
    assert writes_outside(wrong, "unguarded_write") == plan.BLOCK - 5


def by(kernel):
    """A kernel of missing_barrier.cuh as a function of its rows."""

    def softmax(x):
        out = torch.full_like(x, torch.nan)
        runtime.run(ROOT / "snippets" / "mistakes" / "missing_barrier.cuh", kernel, x, out)
        return out

    return softmax


@GPU
@pytest.mark.parametrize("length", [256, 513])
def test_a_missing_barrier_is_seen_when_warps_are_late(length):
    x = random(1, length).cuda()
    check_softmax(by("on_time"), x)
    with pytest.raises(AssertionError):
        check_softmax(by("late"), x)


@DEVICES
@pytest.mark.parametrize("rung", cuda.ONE_BLOCK_A_ROW)
@pytest.mark.parametrize("length", [1, 2, 3, *BOUNDARIES, *ODD_LENGTHS, 100_003])
def test_lengths(rung, length, device):
    check(rung, random(5, length).to(device))


def branches(rung, dtype):
    """The lengths where a plan changes what a thread, a group or a cluster does, each with the one before."""
    width, last, found = plan.VECTOR // dtype.itemsize, {}, set()
    step = {"single_read": width, "cluster": 128 * width}[rung]  # plans count vectors
    lengths = {*range(1, 2048), *range(2048, LONGEST[rung], step), *range(2049, LONGEST[rung], step)}
    for M in sorted(lengths):
        aligned = M % width == 0
        sizes = dict(READ_ONCE[rung](M, dtype, "SOFTMAX", aligned).constants)
        kind = min(int(sizes.get("GROUP", 33)), 33), sizes["ITEMS"], sizes.get("CLUSTER")
        if last.get(aligned) != kind:
            found |= {max(1, M - 1), M}
            last[aligned] = kind
    return sorted(found | {LONGEST[rung]})


AROUND = [
    (rung, dtype, M)
    for rung in READ_ONCE
    for dtype in (torch.float32, torch.bfloat16)  # float16 has the plans of bfloat16
    for M in branches(rung, dtype)
]


@GPU
@pytest.mark.parametrize(("rung", "dtype", "M"), AROUND, ids=str)
def test_lengths_around_branches(rung, dtype, M):
    name = cuda.OPERATORS[M % 3]  # each length is a compilation: all operators have all branches
    CHECKS[name](functools.partial(getattr(cuda, name), rung=rung), random(5, M).cuda().to(dtype))


@GPU
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("M", [*ODD_LENGTHS, 1000, 4100, 24_577, 50_257, 128_256, 250_007])
def test_auto_on_odd_lengths(dtype, M):
    check_softmax(cuda.softmax, random(67, M).cuda().to(dtype))


@GPU
@pytest.mark.parametrize("N", [1, 65_535, 65_536])
def test_numbers_of_rows(N):
    for rung in READ_ONCE:
        check_softmax(functools.partial(cuda.softmax, rung=rung), random(N, 33).cuda())


@DEVICES
def test_rows_longer_than_any_cluster_holds(device):
    x = random(2, plan.LONGEST_CLUSTER + 1).to(device)
    check_softmax(cuda.softmax, x)
    with pytest.raises(
        ValueError, match=r"524289 elements in torch\.float16 are too long .* backend='tilelang'"
    ):
        cuda.softmax(x.half())


@GPU
@pytest.mark.parametrize(("rung", "M"), [("single_read", 1000), ("single_read", 20_001), ("cluster", 65_536)])
def test_the_same_bits_in_every_run(rung, M):
    x = random(700, M).cuda()
    first = cuda.softmax(x, rung=rung)
    assert all(torch.equal(cuda.softmax(x, rung=rung), first) for _ in range(200))


# The plan that showed it on one H200, though not on another: without the fence, each of 150 launches was
# wrong. Many blocks a multiprocessor, and a ring that holds one row.
CROWDED = plan.Plan(
    "cluster",
    "cluster",
    (
        *(("THREADS", "256"), ("ITEMS", "8"), ("STAGE", "2"), ("STAGES", "4"), ("CLUSTER", "8")),
        *(("ELEMENT", "Float32"), ("ALIGNED", "true"), ("OUTPUT", "SOFTMAX"), ("AHEAD", str(plan.AHEAD))),
    ),
    threads=288,
    blocks=8,
    shared=8 * 256 * 16,
    in_flight=1000,
)


@GPU
def test_a_stage_is_free_only_when_it_has_been_read():
    """Else loads from a stage are still on their way when the next row overwrites it."""
    x = torch.randn(2048, 65_536, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    want, y = torch.softmax(x, -1), torch.empty_like(x)
    crowded = runtime.Launcher(CROWDED, 0)
    for _ in range(20):
        y.fill_(torch.nan)
        crowded(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0))
        assert ((y - want).abs() <= 1e-4 * want).all()


@GPU
@pytest.mark.parametrize("M", [1000, 65_536])
def test_graph_replays_beside_other_launches(M):
    """A replayed graph shares no counter with what its stream, or another, runs meanwhile."""
    x, z = random(300, M).cuda(), random(300, M).cuda() + 1
    cuda.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = cuda.softmax(x)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for _ in range(10):
        y.fill_(torch.nan)
        torch.cuda.synchronize()
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(cuda.softmax(z))
        graph.replay()
        torch.cuda.synchronize()
        check_softmax(lambda x: y, x)
        for result in results[1:]:
            assert torch.equal(result, results[0])
    check_softmax(lambda z: results[0], z)


@DEVICES
def test_a_thread_of_its_own(device):
    """A new thread has no CUDA context until somebody makes one current."""
    x = random(5, 257).to(device)
    cuda.softmax(x)
    with ThreadPoolExecutor(1) as pool:
        check_softmax(lambda x: pool.submit(cuda.softmax, x).result(), x)


@DEVICES
def test_output_dtype_does_not_follow_torch_s_default(device):
    torch.set_default_dtype(torch.float16)
    try:
        assert cuda.logsumexp(torch.zeros(2, 3, device=device, dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@DEVICES
@pytest.mark.parametrize("rung", ["three_pass", "online", "cluster"])
def test_a_long_row_of_equal_terms(rung, device):
    """The rounding errors of the additions all go the same way."""
    x = torch.full((2, 250_007), -2.7, device=device)
    x[:, 0] = 0
    check(rung, x)


@GPU
def test_rows_beyond_32_bit_offsets():
    """2^31 + M elements: the last row starts where a 32-bit offset has wrapped around."""
    M = 4096
    x = torch.zeros(2**31 // M + 1, M, device="cuda")
    x[-1, 0] = 5
    for rung in cuda.KERNELS:
        y = cuda.softmax(x, rung=rung)
        check_softmax(lambda row, y=y: y[-1:], x[-1:])
        assert y[0, 0] == 1 / M
        del y
