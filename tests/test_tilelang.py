"""The TileLang kernels beside the operator: their arguments, the guards before a launch, the CPU target."""

import functools
import re

import pytest
import tilelang
import tilelang.language as T
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from tvm.target import Target

from camp_softmax.limits import DTYPES
from camp_softmax.tilelang import backward, build, cluster, cpu, online, rows, single_read
from cases import CASES, CHECKS, LOWEST, check_log_softmax, check_softmax, random

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
GPU = pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")
READ_ONCE = [single_read, pytest.param(cluster, marks=GPU)]


def name(value) -> str:
    """Of a module or a dtype, for a test's id."""
    return getattr(value, "__name__", str(value)).rsplit(".", 1)[-1]


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("rung", READ_ONCE, ids=name)
def test_values(rung, dtype):
    for case, make in CASES.items():
        if case == "terms that round alike" and rung is single_read and not HAS_GPU:
            continue  # a lane of a GPU adds up 64 elements, the CPU target a whole group's, one by one
        for operator, check in CHECKS.items():
            check(getattr(rung, operator), make().to(DEVICE, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_online_log_softmax(dtype):
    for make in CASES.values():  # the other operators: test_softmax.py
        check_log_softmax(online.log_softmax, make().to(DEVICE, dtype))


def around_branches(rung, dtype: torch.dtype) -> list[int]:
    """Lengths where a tile changes its constants, and their neighbours; on a CPU only what differs there."""
    width = single_read.VECTOR // dtype.itemsize
    if not HAS_GPU:
        return [1, width + 1, 64 * width]
    counts = [1, 2, 16, 64, 65, 2048, 4097] if rung is single_read else [1, 8, 4096, 4097, 16385]
    around = {count * width + d for count in counts for d in (-1, 0, 1)}
    return sorted(around | {rung.CAPACITY - 1, rung.CAPACITY})


AROUND = [
    pytest.param(rung, dtype, M, marks=GPU if rung is cluster else ())
    for rung in (single_read, cluster)
    for dtype in DTYPES
    for M in around_branches(rung, dtype)
]


@pytest.mark.parametrize(("rung", "dtype", "M"), AROUND, ids=name)
def test_lengths_around_branches(rung, dtype, M):
    operator = list(CHECKS)[M % 3]  # each length is a compilation: all operators have all branches
    CHECKS[operator](getattr(rung, operator), random(5, M).to(DEVICE, dtype))


@pytest.mark.parametrize("N", [1, 65_535, 65_536])
@pytest.mark.parametrize("rung", READ_ONCE, ids=name)
def test_numbers_of_rows(rung, N):
    check_softmax(rung.softmax, random(N, 33).to(DEVICE))


@pytest.mark.parametrize("M", [3, 513])
@pytest.mark.parametrize("rung", READ_ONCE, ids=name)
def test_nothing_is_read_or_written_outside_the_rows(rung, M):
    """What surrounds the rows is NaN, and what surrounds the result is 7."""
    N, x = 5, random(5, M)
    around, memory = torch.full((N * M + 64,), torch.nan), torch.full((N * M + 64,), 7.0)
    around[32 : 32 + N * M] = x.flatten()
    around, memory = around.to(DEVICE), memory.to(DEVICE)
    out = memory[32 : 32 + N * M].view(N, M)
    run = rows.kernel(
        rung.kernel, M, "float32", "softmax", device=around.device, options=getattr(rung, "OPTIONS", ())
    )
    run(around[32 : 32 + N * M].view(N, M), out)
    check_softmax(lambda x: out, x.to(DEVICE))
    out.fill_(7)
    assert (memory == 7).all()


@GPU
@pytest.mark.parametrize(
    ("rung", "M"), [(single_read, 1000), (single_read, 20_001), (cluster, 65_536)], ids=name
)
def test_the_same_bits_in_every_run(rung, M):
    x = random(700, M).to(DEVICE)
    first = rung.softmax(x)
    assert all(torch.equal(rung.softmax(x), first) for _ in range(200))


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("rung", [single_read, cluster], ids=name)
def test_a_tile_has_room_for_every_vector(rung, dtype):
    width = single_read.VECTOR // dtype.itemsize
    lengths = {1, 2, 3, rung.CAPACITY - 1, rung.CAPACITY, *torch.randint(1, rung.CAPACITY, (2000,)).tolist()}
    for M in sorted(lengths | {2**k + d for k in range(1, 16) for d in (-1, 0, 1)}):
        tile, blocks = (
            (single_read.tile_for(M, name(dtype)), 1)
            if rung is single_read
            else rung.tile_for(M, name(dtype))
        )
        groups, length = tile.shape
        assert groups * tile.lanes <= 1024
        assert tile.rows in (1, groups)
        assert tile.rows > 1 or tile.lanes == single_read.WARP
        before = width - 1 if M % width else 0  # elements of the row before, in the first vector
        assert length * (1 if tile.rows > 1 else groups * blocks) >= before + M


@pytest.mark.parametrize(
    ("tile", "elements"),
    [
        (single_read.Tile(24, 4, 4, 2, 3, 3), 4),
        (single_read.Tile(70, 8, 2, 3, 2, 2), 8),
    ],
)
def test_the_lanes_of_a_group_take_turns(tile, elements):
    """A vector each, of which every element is beside the one before; no thread of another group has any."""
    assert places(tile.layout()) == [
        (group * tile.lanes + lane, item * elements + element)
        for group in range(tile.groups)
        for item in range(tile.items)
        for lane in range(tile.lanes)
        for element in range(elements)
    ]


def test_the_lanes_of_a_warp_take_turns_at_the_states():
    assert places(single_read.state_layout(2, 96)) == [
        (32 * warp + lane, item) for warp in range(2) for item in range(3) for lane in range(32)
    ]


def places(layout: T.Fragment) -> list[tuple[int, int]]:
    """The thread that has each element, and where; the CPU target drops layouts."""
    rows, columns = map(int, layout.get_input_shape())
    return [
        (int(layout.map_forward_thread([i, j])[0]), int(layout.map_forward_index([i, j])[0]))
        for i in range(rows)
        for j in range(columns)
    ]


def test_rows_that_are_too_long():
    with pytest.raises(ValueError, match="single_read: expected rows of up to 65536 elements, got 65537"):
        single_read.softmax(torch.zeros(1, 65_537))
    with pytest.raises(ValueError, match="cluster: expected rows of up to 524288 elements, got 524289"):
        cluster.tile_for(524_289, "float32")


@pytest.mark.skipif(HAS_GPU, reason="there is one")
def test_a_cluster_needs_a_gpu():
    for operator in CHECKS:
        with pytest.raises(ValueError, match="cluster: expected a tensor on a CUDA device, got one on cpu"):
            getattr(cluster, operator)(torch.zeros(2, 3))
    with pytest.raises(TypeError, match="expected a tensor of rows, got list"):
        cluster.softmax([[1.0]])


def test_a_cluster_needs_compute_capability_9(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cluster, "run", lambda *_, **__: "launched")
    with FakeTensorMode():
        x = torch.empty(2, 3, device="cuda")
    for capability in ((9, 0), (10, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, has=capability: has)
        assert cluster.softmax(x) == "launched"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    with pytest.raises(RuntimeError, match="cluster: needs a GPU with clusters"):
        cluster.softmax(x)


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
        for operator, check in CHECKS.items():
            check(functools.partial(getattr(online, operator), **blocks), x)


def test_rows_are_dynamic():
    """One compiled kernel serves every number of rows."""
    rows.kernel.cache_clear()
    for N in (1, 15, 16, 17, 40):
        check_softmax(online.softmax, random(N, 513).to(DEVICE))
    assert rows.kernel.cache_info().misses == 1


def test_a_long_row_of_equal_terms():
    """The rounding errors of the additions all go the same way."""
    x = torch.full((2, 250_007), -2.7, device=DEVICE)
    x[:, 0] = 0
    for operator, check in CHECKS.items():
        check(getattr(online, operator), x)


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
    for operator in CHECKS:
        with pytest.raises(error, match=f"expected {message}"):
            getattr(online, operator)(good(), **blocks)


def test_the_smallest_and_the_largest_tile():
    online._check_blocks(1, 1, 32)
    online._check_blocks(1024, 128, 1024)


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
    for rung in (online, single_read):
        for operator in CHECKS:
            with pytest.raises(error, match=message):
                getattr(rung, operator)(rows)


SM_90 = Target({"kind": "cuda", "arch": "sm_90"})


def lower(program, options=()) -> str:
    """The CUDA that TileLang emits for an H100 or H200, without one, its search for races switched on."""
    config = {"tl.disable_data_race_check": False, **dict.fromkeys(options, True)}
    with SM_90, tilelang.tvm.transform.PassContext(config=config):
        return tilelang.lower(program, target=SM_90).kernel_source


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_generated_cuda_loads_vectors_where_rows_are_aligned(dtype, capfd):
    """And each store is spread over the threads: with m and s as the only fragments, one in 64 stored."""
    vector = "float4" if dtype == "float32" else "uint4"
    assert f"*({vector}*)(A" in lower(online.softmax_kernel(512, dtype))
    ragged = lower(online.softmax_kernel(513, dtype))
    assert "(int)threadIdx.x) % " not in ragged[ragged.index("for (int k_1") :]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("factory", [online.log_softmax_kernel, online.logsumexp_kernel], ids=name)
def test_generated_cuda_fills_what_it_reads_first(factory, capfd):
    """On a CPU, what nobody has filled is often 0."""
    lower(factory(513, "float32"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rung", "M", "operator"),
    [
        (single_read, 64, "softmax"),
        (single_read, 1001, "log_softmax"),
        (single_read, 65_536, "logsumexp"),
        (cluster, 5, "softmax"),
        (cluster, 65_537, "softmax"),
        (cluster, 131_072, "log_softmax"),
        (cluster, 524_288, "logsumexp"),
    ],
    ids=name,
)
def test_generated_cuda_of_the_rungs_that_read_once(rung, M, operator, dtype, capfd):
    """Vectors, also where rows are not aligned; no array of a thread beyond 64 elements; the barriers."""
    source = lower(rung.kernel(M, dtype, operator), getattr(rung, "OPTIONS", ()))
    assert capfd.readouterr().err == ""
    vector = "float4" if dtype == "float32" else "uint4"
    assert f"*({vector}*)(A" in source or M == 5
    assert f"*({vector}*)(B" in source or M == 5 or operator == "logsumexp"
    arrays = re.findall(r"^ +(?:float|half_t|bfloat16_t) \w+\[(\d+)\];", source, re.MULTILINE)
    assert 0 < max(map(int, arrays)) <= 64
    if rung is single_read:
        assert source.count("__syncthreads") <= 1  # groups of a whole warp reduce without one
    if rung is cluster:
        kernel = source[source.rindex("cluster_kernel") :]
        order = ["cluster_arrive_relaxed", "__syncthreads", "cluster_wait", "map_shared_rank", "cluster_sync"]
        assert [kernel.index(call) for call in order] == sorted(kernel.index(call) for call in order)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("operator", ["softmax", "log_softmax"])
def test_generated_cuda_of_the_gradient(operator, dtype, capfd):
    """Vectors where rows are aligned, no race that the compiler can see."""
    source = lower(backward.backward_kernel(512, dtype, operator))
    assert capfd.readouterr().err == ""
    vector = "float4" if dtype == "float32" else "uint4"
    for tensor in ("DY", "Y", "DX"):
        assert f"*({vector}*)({tensor}" in source
    arrays = re.findall(r"^ +(?:float|half_t|bfloat16_t) \w+\[(\d+)\];", source, re.MULTILINE)
    assert 0 < max(map(int, arrays)) <= 64
