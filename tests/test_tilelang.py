"""The TileLang kernels beside the operator: their arguments, the guards before a launch, the CPU target."""

import functools

import pytest
import tilelang
import tilelang.language as T
import torch
from tvm.target import Target

from camp_softmax.tilelang import build, cpu, online
from cases import CASES, LOWEST, check_logsumexp, check_softmax, random

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    "blocks",
    [
        {"block_n": 1, "block_m": 1024, "threads": 128},
        {"block_n": 4, "block_m": 32, "threads": 64},
        {"block_n": 2, "block_m": 1, "threads": 32},
        {"block_n": 32, "block_m": 128, "threads": 256},
    ],
    ids=str,
)
def test_other_blocks_give_the_same_result(blocks):
    for case in ("random", "descending tiles", "middle tile -inf"):
        x = CASES[case]().to(DEVICE)
        check_softmax(functools.partial(online.softmax, **blocks), x)
        check_logsumexp(functools.partial(online.logsumexp, **blocks), x)


def test_rows_are_dynamic():
    """One compiled kernel serves every number of rows."""
    online._kernel.cache_clear()
    for rows in (1, 15, 16, 17, 40):
        check_softmax(online.softmax, random(rows, 513).to(DEVICE))
    assert online._kernel.cache_info().misses == 1


def test_a_long_row_of_equal_terms():
    """The rounding errors of the additions all go the same way."""
    x = torch.full((2, 250_007), -2.7, device=DEVICE)
    x[:, 0] = 0
    check_softmax(online.softmax, x)
    check_logsumexp(online.logsumexp, x)


@pytest.fixture(scope="module")
def kernel():
    return build(online.softmax_kernel(513, "float32"), DEVICE)


def good() -> torch.Tensor:
    return torch.zeros(17, 513, device=DEVICE)


@pytest.mark.parametrize(
    ("tensors", "error", "message"),
    [
        (lambda: (good(),), TypeError, "expected 2 tensors, got 1"),
        (lambda: (good(), 3), TypeError, "argument B: expected a tensor, got int"),
        (
            lambda: (good().double(), good()),
            TypeError,
            "argument A: expected torch.float32, got torch.float64",
        ),
        (lambda: (good()[:, :512], good()), ValueError, r"argument A: expected shape \(17, 513\)"),
        (lambda: (good()[0], good()), ValueError, r"argument A: expected shape \(N, 513\), got \(513,\)"),
        (
            lambda: (good(), good()[:16]),
            ValueError,
            r"argument B: expected shape \(17, 513\), got \(16, 513\)",
        ),
        (lambda: (good()[:0], good()[:0]), ValueError, "got an empty tensor"),
        (lambda: (good()[::2], good()[::2]), ValueError, "contiguous tensor"),
        (lambda: (good()[1:], good()[1:]), ValueError, "multiple of 16 bytes, got .* at offset 4"),
        (lambda: (good().to("meta"), good()), ValueError, "built for .*, got a tensor on meta"),
    ],
)
def test_nothing_is_launched_on_bad_tensors(kernel, tensors, error, message):
    with pytest.raises(error, match=message):
        kernel(*tensors())


def test_cpu_refuses_bfloat16():
    with pytest.raises(TypeError, match=r"cannot store bfloat16 \(argument A\): pass float32"):
        cpu.compile(online.softmax_kernel(8, "bfloat16"))


def test_cpu_refuses_what_only_a_gpu_has():
    @T.prim_func
    def warp_sum(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            B[lane] = T.warp_reduce_sum(A[lane])

    with pytest.raises(TypeError, match=r"warp_sum: .* exists on a GPU only"):
        cpu.compile(warp_sum)


def test_cpu_refuses_bfloat16_inside_a_program():
    @T.prim_func
    def rounded(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(T.cast(A[i], "bfloat16"), "float32")

    with pytest.raises(TypeError, match="rounded: the CPU target has no bfloat16"):
        cpu.compile(rounded)


def test_cpu_says_what_it_could_not_compile():
    @T.prim_func
    def per_thread(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            B[lane] = A[lane]

    with pytest.raises(TypeError, match=r"per_thread: the CPU target cannot compile it .* use a CUDA device"):
        cpu.compile(per_thread)


def test_cpu_runs_shared_tiles_pipelines_and_gemm():
    @T.prim_func
    def product(
        A: T.Tensor((32, 64), "float32"), B: T.Tensor((64, 32), "float32"), C: T.Tensor((32, 32), "float32")
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((32, 16), "float32")
            b = T.alloc_shared((16, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    A, B, C = random(32, 64), random(64, 32), torch.full((32, 32), torch.nan)
    cpu.compile(product)(A, B, C)
    torch.testing.assert_close(C.double(), A.double() @ B.double(), rtol=1e-5, atol=1e-3)


def test_programs_take_tensors_of_plain_sizes():
    N = T.dynamic("N")

    @T.prim_func
    def twice(A: T.Tensor((N,), "float32"), B: T.Tensor((N * 2,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i]

    with pytest.raises(TypeError, match=r"twice: expected sizes that are numbers or names, got N \* 2"):
        build(twice, DEVICE)


def test_cpu_keeps_every_bit_of_a_constant():
    """The C target prints seven digits of a literal; the lowest float has nine."""

    @T.prim_func
    def constants(A: T.Tensor((3,), "float32"), B: T.Tensor((3,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(3):
                B[i] = A[i] + T.if_then_else(
                    i == 0, T.min_value("float32"), T.if_then_else(i == 1, T.float32(0.123456789), -0.0)
                )

    out = torch.empty(3)
    cpu.compile(constants)(torch.zeros(3), out)
    assert out.tolist() == [LOWEST, torch.tensor(0.123456789).item(), 0.0]


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ({"block_m": 0}, ValueError, "block_m to be a power of two, got 0"),
        ({"block_m": 3}, ValueError, "block_m to be a power of two, got 3"),
        ({"block_m": -4}, ValueError, "block_m to be a power of two, got -4"),
        ({"block_m": True}, TypeError, "block_m to be an int, got True"),
        ({"block_m": None}, TypeError, "block_m to be an int, got None"),
        ({"block_m": 2**18}, ValueError, "a tile of 1 to 32768 elements"),
        ({"block_n": 0}, ValueError, "a tile of 1 to 32768 elements"),
        ({"block_n": -1}, ValueError, "a tile of 1 to 32768 elements"),
        ({"threads": 100}, ValueError, "threads to be a multiple of 32"),
    ],
    ids=str,
)
def test_bad_blocks_are_refused(blocks, error, message):
    """The CPU target would take some of these; a GPU reduces a row between 2^k threads, in registers."""
    for operator in (online.softmax, online.logsumexp):
        with pytest.raises(error, match=f"expected {message}"):
            operator(good(), **blocks)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), TypeError, r"bfloat16 rows, got torch\.int64"),
        (torch.zeros(2, 3, dtype=torch.float64), TypeError, r"bfloat16 rows, got torch\.float64"),
        (torch.zeros(3), ValueError, r"expected rows \(N, M\), got shape \(3,\)"),
        ([[1.0]], TypeError, "expected a tensor of rows, got list"),
        (torch._neg_view(torch.zeros(2, 4)), TypeError, "a sparse one or a lazy view"),
        (torch.zeros(2, 4).to_sparse(), TypeError, "a sparse one or a lazy view"),
        (torch._efficientzerotensor(2, 4), ValueError, "without storage"),
    ],
    ids=str,
)
def test_bad_rows_are_refused(rows, error, message):
    for operator in (online.softmax, online.logsumexp):
        with pytest.raises(error, match=message):
            operator(rows)


def lower(program) -> str:
    """The CUDA that TileLang emits for an H100 or H200, without one."""
    target = Target({"kind": "cuda", "arch": "sm_90"})
    with target:
        return tilelang.lower(program, target=target).kernel_source


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_generated_cuda_loads_vectors_where_rows_are_aligned(dtype):
    """And each store is spread over the threads: with m and s as the only fragments, one in 64 stored."""
    assert "*(uint4*)(A" in lower(online.softmax_kernel(512, dtype)) or dtype == "float32"
    assert "*(float4*)(A" in lower(online.softmax_kernel(512, dtype)) or dtype != "float32"
    ragged = lower(online.softmax_kernel(513, dtype))
    assert "(int)threadIdx.x) % " not in ragged[ragged.index("for (int k_1") :]
