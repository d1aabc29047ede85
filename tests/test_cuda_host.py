"""CUDA on the CPU: each rule of the checker broken once; nothing found in the kernels that ship."""

import dataclasses
import functools
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from camp_softmax import cuda
from camp_softmax.cuda import host, plan
from camp_softmax.cuda.host import Finding, Kernel, Memory
from cases import CHECKS, check_softmax, compare, expected_gradient, random

ROOT = Path(__file__).parents[1]
MISTAKES = ROOT / "snippets" / "mistakes"
HEAD = '#include "ptx.cuh"\nextern "C" __global__ void k(const float* x, float* y, long long M) {\n'


@pytest.fixture
def kernel(tmp_path):
    """Makes a kernel of a body, with x, y and M as its arguments."""

    def make(body: str) -> Kernel:
        (tmp_path / "k.cuh").write_text(HEAD + body + "}\n")
        return Kernel(tmp_path / "k.cuh", "k")

    return make


def run(kernel, x=None, y=None, *, blocks=1, threads=64, **options):
    """y after a launch; as long as a block, and so is x, unless they are given."""
    x = torch.arange(threads).float() if x is None else x
    y = torch.zeros(threads) if y is None else y
    kernel(blocks, threads, Memory.of(x), Memory.of(y), threads, **options)
    return y


# --- rules ----------------------------------------------------------------------------------------

# Each: what is said of it, the body, and how that is mended. `here` and `there` are the lines that are named,
# `perhaps` is one that another schedule names.
RULES = {
    "race on shared memory": (
        r"race: .* s\[\d+\] in shared memory here, and thread .*; put a __syncthreads",
        """
        __shared__ float s[64];
        s[threadIdx.x] = 0;
        __syncthreads();
        s[threadIdx.x] = x[threadIdx.x];  // there
        // missing
        y[threadIdx.x] = s[63 - threadIdx.x];  // here
        """,
        ("// missing", "__syncthreads();"),
    ),
    "race inside a warp, which a shuffle does not order": (
        "race: .*or a __syncwarp",
        """
        __shared__ float s[64];
        s[threadIdx.x] = x[threadIdx.x];  // there
        int other = __shfl_xor_sync(0xffffffff, threadIdx.x, 1);  // missing
        y[threadIdx.x] = s[other];  // here
        """,
        ("// missing", "__syncwarp();"),
    ),
    "write after read": (
        "race: .* s.* here, and thread .* it at ",
        """
        __shared__ float s[64];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = s[(threadIdx.x + 63) % 64];  // there
        // missing
        s[threadIdx.x] = 0;  // here
        """,
        ("// missing", "__syncthreads();"),
    ),
    "race on global memory": (
        "race: .* writes y.0. here.*let one thread alone write it, or use an atomic",
        "y[0] = x[threadIdx.x];  // here, there\n",
        ("y[0] =", "if (threadIdx.x == 0) y[0] ="),
    ),
    "race between an atomic operation and a plain one": (
        "race: .*y.0.",
        """
        atomicAdd(y, 1.0f);  // there
        // missing
        if (threadIdx.x == 40) y[0] = 0;  // here
        """,
        ("// missing", "__syncthreads();"),
    ),
    "barrier divergence": (
        "barrier divergence: .* waits in __syncthreads.* here, and .* in the one at",
        """
        if (threadIdx.x < 32) {
            __syncthreads();  // there
            y[threadIdx.x] = 1;
        } else {
            __syncthreads();  // here
        }
        """,
        ("threadIdx.x < 32", "M"),
    ),
    "a thread that has returned": (
        "barrier divergence: thread 0 of block 0 waits in __syncthreads.*, and thread 40 .* has returned",
        """
        if (threadIdx.x >= 40) return;
        __syncthreads();  // here
        """,
        ("40", "64"),
    ),
    "deadlock": (
        "deadlock: .* waits? in __syncwarp.*waits? in __syncthreads",
        """
        if (threadIdx.x != 3) __syncwarp();  // here
        __syncthreads();  // there
        """,
        ("threadIdx.x != 3", "M"),
    ),
    "uninitialised": (
        r"uninitialised: .* reads s\[5\] in shared memory",
        """
        __shared__ float s[64];
        if (threadIdx.x != 5) s[threadIdx.x] = 0;
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x];  // here
        """,
        ("threadIdx.x != 5", "M"),
    ),
    "out of bounds in global memory": (
        r"out of bounds: thread 63 of block 0 reads 4 bytes at x\[64\], and x has 64 elements",
        "y[threadIdx.x] = x[threadIdx.x + 1];  // here\n",
        ("threadIdx.x + 1", "threadIdx.x"),
    ),
    "out of bounds of another kind": (
        r"out of bounds: thread 0 of block 0 writes 4 bytes at y\[-1\]",
        "y[(long long)threadIdx.x - 1] = 0;  // here\n",
        (" - 1", ""),
    ),
    "out of bounds in shared memory": (
        r"out of bounds: thread 63 .* writes 4 bytes at s\[64\] in shared memory, and s has 64 elements",
        """
        __shared__ float s[64];
        float* p = s + 1;
        p[threadIdx.x] = 0;  // here
        __syncthreads();
        y[threadIdx.x] = p[0];
        """,
        ("s + 1", "s"),
    ),
    "out of bounds in dynamic shared memory": (
        r"out of bounds: .* writes 4 bytes at d\[64\] in shared memory, and d has 64 elements",
        """
        extern __shared__ float d[];
        d[threadIdx.x + 1] = 0;  // here
        __syncthreads();
        y[threadIdx.x] = d[threadIdx.x];
        """,
        ("threadIdx.x + 1", "threadIdx.x"),
    ),
    "out of bounds of a local array": (
        "out of bounds: .* uses an index that the array does not have",
        """
        float local[4];
        for (int i = 0; i < M / 8; ++i) local[i] = x[i];  // here
        y[threadIdx.x] = local[threadIdx.x % 4];
        """,
        ("M / 8", "M / 16"),
    ),
    "misaligned": (
        "misaligned: .* at an address that is no multiple of its size",
        """
        float4 v = *reinterpret_cast<const float4*>(x + 1);  // here
        y[threadIdx.x] = v.x + v.y + v.z + v.w;
        """,
        ("x + 1", "x"),
    ),
    "a mask without the lane that calls": (
        "shuffle mask: .* is lane 16 .* mask 0x0000ffff, which does not name it",
        "y[threadIdx.x] = __shfl_xor_sync(0x0000ffff, x[threadIdx.x], 1);  // here\n",
        ("0x0000ffff", "0xffffffff"),
    ),
    "a lane that takes no part": (
        "shuffle mask: thread 0 .* reads from lane 16 in __shfl_down_sync.*, but the mask does not name it",
        """
        if (threadIdx.x % 32 < 16)
            y[threadIdx.x] = __shfl_down_sync(0x0000ffff, x[threadIdx.x], 16);  // here
        """,
        (", 16)", ", 8, 16)"),
    ),
    "a lane that has returned": (
        "shuffle mask: .* reads from lane 31 in __shfl_sync.*, but it has returned",
        """
        if (threadIdx.x == 31) return;
        y[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], threadIdx.x | 16);  // here
        """,
        ("threadIdx.x | 16", "threadIdx.x & 16"),
    ),
    "masks that differ": (
        "shuffle mask: .* calls __syncwarp.* with mask 0x0000ffff, .* with mask 0xffffffff at",
        """
        if (threadIdx.x % 32 < 8)
            __syncwarp();  // there
        else if (threadIdx.x % 32 < 16)
            __syncwarp(0x0000ffff);  // here
        """,
        ("__syncwarp()", "__syncwarp(0x0000ffff)"),
    ),
    "different functions": (
        "shuffle mask: .* is in __any_sync.* while .* is in __syncwarp.* at",
        """
        if (threadIdx.x % 2)
            __any_sync(0xffffffff, 1);  // here
        else
            __syncwarp();  // there
        """,
        ("threadIdx.x % 2", "M"),
    ),
    "no end": (
        "no end: still running after 0.2 s",
        """
        volatile float* flag = y;
        while (*flag == 0 && M) continue;  // here
        """,
        ("&& M", "&& !M"),
    ),
    "assert": ("trap: .*assert.M < 64. failed", "assert(M < 64);  // here\n", ("< 64", "<= 64")),
    "a write through a pointer to const": (
        "const: .* writes to x",
        "const_cast<float*>(x)[threadIdx.x] = 0;  // here\n",
        ("const_cast<float*>(x)", "y"),
    ),
    "an mbarrier that nobody has initialised": (
        "mbarrier: .* calls barrier_arrive.* for one that nobody has initialised",
        """
        __shared__ u64 barrier;
        if (threadIdx.x == 0 && !M) barrier_init(&barrier, 64);
        __syncthreads();
        barrier_arrive(&barrier);  // here
        """,
        ("&& !M", "&& M"),
    ),
    "an mbarrier that may not be ready": (
        "mbarrier: .* calls barrier_arrive.*, and nothing orders that after barrier_init",
        """
        __shared__ u64 barrier;
        if (threadIdx.x == 0) barrier_init(&barrier, 64);
        // missing
        barrier_arrive(&barrier);  // here
        """,
        ("// missing", "__syncthreads();"),
    ),
    "more arrivals than were announced": (
        "mbarrier: .* calls barrier_arrive.*, but all 1 arrivals of this phase have come",
        """
        __shared__ u64 barrier;
        if (threadIdx.x == 0) barrier_init(&barrier, 1);
        __syncthreads();
        if (threadIdx.x == 0) barrier_arrive_expecting(&barrier, 4);
        __syncthreads();
        if (threadIdx.x == 0) barrier_arrive(&barrier);  // here
        """,
        ("expecting(&barrier, 4)", "expecting(&barrier, 0)"),
    ),
    "a bulk copy that is not waited for": (
        "uninitialised: .* reads d",
        """
        extern __shared__ float4 d[];
        __shared__ u64 barrier;
        if (threadIdx.x == 0) {
            barrier_init(&barrier, 1);
            barrier_init_fence();
            barrier_arrive_expecting(&barrier, 64);
            bulk_load(d, x, 64, &barrier);  // perhaps
        }
        __syncthreads();
        // missing
        y[threadIdx.x] = d[threadIdx.x % 4].y;  // here
        """,
        ("// missing", "barrier_wait(&barrier, 0);"),
    ),
    "a misaligned prefetch": (
        "misaligned: .* a prefetch takes a multiple of 16 bytes",
        "if (threadIdx.x == 0) prefetch(x + 1, 64);  // here\n",
        ("x + 1", "x"),
    ),
    "a prefetch beyond the end": (
        "out of bounds: thread 0 .* reads 64 bytes at .*x",
        "if (threadIdx.x == 0) prefetch(x + 52, 64);  // here\n",
        ("x + 52", "x + 48"),
    ),
    "a misaligned bulk copy": (
        "misaligned: .* a bulk copy takes a multiple of 16 bytes",
        """
        extern __shared__ float4 d[];
        __shared__ u64 barrier;
        if (threadIdx.x == 0) {
            barrier_init(&barrier, 1);
            barrier_init_fence();
            barrier_arrive_expecting(&barrier, 64);
            bulk_load(d, x + 1, 64, &barrier);  // here
        }
        __syncthreads();
        barrier_wait(&barrier, 0);
        """,
        ("x + 1", "x"),
    ),
    "the cluster's barrier, half": (
        "cluster barrier: .* calls cluster_arrive.* twice",
        """
        cluster_arrive();
        cluster_arrive();  // here
        cluster_wait();
        """,
        ("cluster_arrive();\n        cluster_arrive();", "cluster_arrive();"),
    ),
}


def places(body: str, word: str) -> set[str]:
    lines = (HEAD + body).splitlines()
    return {f"k.cuh:{number}" for number, line in enumerate(lines, 1) if re.search(rf"//.*\b{word}\b", line)}


@pytest.mark.parametrize("rule", RULES)
def test_rule(kernel, rule):
    """What is wrong is found, in one line and on the right one; once it is mended, nothing is found."""
    said, body, (wrong, right) = RULES[rule]
    assert wrong in body
    broken, mended = kernel(body), kernel(body.replace(wrong, right))
    for seed in (0, 1):
        options = {"seed": seed, "seconds": 0.2, "shared": 256}
        with pytest.raises(Finding) as caught:
            run(broken, **options)
        about(str(caught.value), body, said if seed == 0 else "")
        run(mended, **options)


def about(message: str, body: str, said: str) -> None:
    """The message names the lines of the body that it should, and says what it should."""
    assert "\n" not in message
    named = {*re.findall(r"k\.cuh:\d+", message)}  # in which order is up to the schedule
    wanted = places(body, "here") | places(body, "there")
    assert wanted <= named <= wanted | places(body, "perhaps")
    assert re.search(said, message), message


def test_a_race_between_blocks(kernel):
    body = "if (threadIdx.x == 0) y[0] = x[blockIdx.x];\n"
    with pytest.raises(
        Finding, match=r"k\.cuh:3: race: thread 0 of block 1 writes y\[0\].*a thread of block 0 wrote"
    ):
        run(kernel(body), blocks=2)
    run(kernel(body), blocks=1)
    run(kernel("if (threadIdx.x == 0) atomicAdd(y, x[blockIdx.x]);\n"), blocks=2)


def test_a_local_variable_of_another_thread(kernel):
    body = """
        __shared__ float* p;
        float local[2] = {x[0], x[1]};
        if (threadIdx.x == 0) p = local;
        __syncthreads();
        y[threadIdx.x] = p[threadIdx.x % 2];
        __syncthreads();
    """
    with pytest.raises(
        Finding, match=r"k\.cuh:8: out of bounds: thread 1 .* reads a local variable of another thread"
    ):
        run(kernel(body))


def test_a_pointer_from_nowhere(kernel):
    with pytest.raises(
        Finding, match=r"k\.cuh:3: out of bounds: .* at an address that belongs to no argument"
    ):
        run(kernel("y[M << 40] = 0;\n"))


def test_a_store_to_a_block_that_has_ended(kernel):
    body = """
        __shared__ u64 barrier;
        __shared__ int place;
        int rank = cluster_rank();
        if (threadIdx.x == 0) {
            barrier_init(&barrier, 1);
            barrier_init_fence();
            barrier_arrive_expecting(&barrier, 4);
        }
        cluster_arrive();
        cluster_wait();
        if (threadIdx.x == 0 && rank == 0) remote_store(&place, 5, &barrier, 1);
        if (rank == 1) barrier_wait(&barrier, 0), y[threadIdx.x] = place;
    """
    assert run(kernel(body), blocks=2, cluster=2).eq(5).all()
    with pytest.raises(
        Finding, match=r"k\.cuh:14: cluster: a copy .* block 1, whose threads have all returned"
    ):
        run(kernel(body.replace("rank == 1", "!M")), blocks=2, cluster=2)


def test_shared_memory_is_not_kept_from_block_to_block(kernel):
    body = """
        __shared__ float s;
        if (blockIdx.x == 0 && threadIdx.x == 0) s = 1;
        __syncthreads();
        y[threadIdx.x + 64 * blockIdx.x] = s;  // here
    """
    with pytest.raises(Finding, match="uninitialised: thread 0 of block 1"):
        run(kernel(body), y=torch.zeros(128), blocks=2)


@pytest.mark.parametrize("name", ["on_time", "late"])
@pytest.mark.parametrize("seed", range(4))
def test_the_missing_barrier_of_the_mistakes(name, seed):
    """Although the numbers are right where nobody is late: see test_cuda.py."""
    path = MISTAKES / "missing_barrier.cuh"
    lines = path.read_text().splitlines()
    read = next(n for n, line in enumerate(lines, 1) if "missing: __syncthreads()" in line)
    write = next(n for n, line in enumerate(lines, 1) if "scratch[t] = value" in line)
    with pytest.raises(Finding) as caught:
        host.run(path, name, random(1, 256), torch.empty(1, 256), seed=seed)
    found = [int(line) for line in re.findall(r"missing_barrier\.cuh:(\d+)", str(caught.value))]
    assert sorted(found) == sorted([read, write])


def test_the_unguarded_write_of_the_mistakes():
    with pytest.raises(
        Finding, match=r"unguarded_write\.cuh:10: out of bounds: .* writes .* y\[5\].* 5 elements"
    ):
        host.run(MISTAKES / "unguarded_write.cuh", "unguarded_write", torch.zeros(1, 5), torch.empty(1, 5))


# Of the cluster kernel: what is left out, and what is said of it.
LEFT_OUT = {
    "barrier_wait(&shared.full[stage], full_parity);": "uninitialised: .* reads .*ring",
    "barrier_wait(&shared.empty[stage], empty_parity);": "mbarrier: .*barrier_arrive_expecting|race: .*ring",
    "reads_before_bulk_load();": "race: .*ring.* may still be on their way; call reads_before_bulk_load",
    "            __syncwarp();": "race: .*ring",
    "            barrier_init_fence();\n": "mbarrier: .*call barrier_init_fence",
    "    barrier_wait_for_cluster(told, turn / 2 % 2);": "uninitialised: .* reads ",
    "barrier_arrive_expecting(&shared.told[turn % 2], sizeof(shared.states[0]));": "deadlock: ",
}


def cluster(M, folder=host.CUDA, **changes):
    made = dataclasses.replace(plan.cluster(M, torch.float32, "SOFTMAX", False), in_flight=2, **changes)
    return made, host.Launcher(made, folder=folder)


@pytest.mark.parametrize("line", LEFT_OUT, ids=range(len(LEFT_OUT)))
def test_a_line_left_out_of_the_cluster_kernel(tmp_path, line):
    """One of four schedules finds it at least: some faults show only where a block is ahead of the others."""
    for path in host.CUDA.glob("*.cuh"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    source = (tmp_path / "cluster.cuh").read_text()
    assert source.count(line) == 1
    (tmp_path / "cluster.cuh").write_text(source.replace(line, ";"))
    _, launch = cluster(1001, tmp_path)
    x = random(9, 1001)
    y = torch.empty_like(x)
    found = []
    for seed in range(4):
        try:
            launch(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0), seed=seed)
        except Finding as finding:
            found.append(str(finding))
    assert found, "nothing found"
    assert any(re.search(LEFT_OUT[line], message) for message in found), found


# --- no false alarms ------------------------------------------------------------------------------

KERNELS = {  # the kernel: rung, columns, dtype, operator; rows are made so that each block has several
    "three_pass": ("three_pass", 300, torch.float32, "softmax"),
    "online": ("online", 300, torch.float32, "softmax"),
    "online logsumexp": ("online", 300, torch.float32, "logsumexp"),
    "single_read, rows of a warp": ("single_read", 37, torch.float32, "softmax"),
    "single_read, aligned rows of a warp": ("single_read", 256, torch.float32, "softmax"),
    "single_read, bfloat16": ("single_read", 1000, torch.bfloat16, "log_softmax"),
    "single_read, rows of a block": ("single_read", 1001, torch.float32, "logsumexp"),
    "packed": ("packed", 5, torch.float32, "softmax"),
    "packed, bfloat16": ("packed", 33, torch.bfloat16, "log_softmax"),
    "packed, float16": ("packed", 129, torch.float16, "logsumexp"),
    "cluster": ("cluster", 1001, torch.float32, "softmax"),
    "cluster, float16": ("cluster", 2000, torch.float16, "log_softmax"),
}


def planned(rung, M, dtype, operator):
    aligned = M * dtype.itemsize % 16 == 0
    if rung == "packed":
        made = plan.single_read(M, dtype, operator.upper(), aligned, dense=True)
        assert made.rung == rung
        return asking_for_the_next_row(made)
    if rung in plan.READ_ONCE:
        return asking_for_the_next_row(plan.READ_ONCE[rung](M, dtype, operator.upper(), aligned))
    return plan.one_block_a_row(rung, operator)


def asking_for_the_next_row(made):
    """Few rows would not be asked for 3 MB ahead."""
    constants = tuple((name, "0" if name == "AHEAD" else value) for name, value in made.constants)
    assert constants != made.constants
    return dataclasses.replace(made, constants=constants)


@pytest.mark.parametrize("rung", ["single_read", "packed", "cluster"])
def test_no_row_beyond_the_last_is_asked_for(tmp_path, rung):
    """What is asked for there may belong to nobody."""
    for path in host.CUDA.glob("*.cuh"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    guard, wrong = {
        "single_read": ("first + ROWS > rows", "first >= rows + ROWS"),
        "packed": ("later + ROWS <= rows", "later <= rows"),
        "cluster": ("later < rows", "later <= rows"),
    }[rung]
    source = (tmp_path / f"{rung}.cuh").read_text()
    assert source.count(guard) == 1
    (tmp_path / f"{rung}.cuh").write_text(source.replace(guard, wrong))
    made = planned(rung, 12 if rung == "packed" else 2000, torch.float32, "softmax")
    launch = host.Launcher(dataclasses.replace(made, in_flight=2), folder=tmp_path)
    x = random(2 * made.rows + 3, 12 if rung == "packed" else 2000)
    y = torch.empty_like(x)
    with pytest.raises(Finding, match=r"out of bounds: thread .* reads \d+ bytes at .*x\["):
        launch(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0))


@pytest.mark.parametrize("M", [256, 1000])
def test_single_read_asks_for_nothing_behind_a_row_that_is_all(M):
    """Of a warp's rows or of a block's: a step of 0, and behind the row nothing is anybody's."""
    made = planned("single_read", M, torch.float32, "softmax")
    x = random(1, M).expand(2 * made.rows + 1, M)
    y = torch.empty(x.shape)
    host.Launcher(made)(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0))
    check_softmax(lambda x: y, x)


@pytest.mark.parametrize("different", [5, 1])
def test_cluster_rows_that_fill_their_pieces(different):
    """Two clusters take several rows each, and none of what is asked for 3 MB ahead is there."""
    made, launch = cluster(8192)
    sizes = dict(made.constants)
    assert 4 * made.blocks * int(sizes["THREADS"]) * int(sizes["ITEMS"]) == 8192
    x = random(different, 8192).expand(5, -1)
    y = torch.empty(x.shape)
    launch(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0))
    check_softmax(lambda x: y, x)


@pytest.mark.parametrize("case", KERNELS)
def test_nothing_is_found_under_any_schedule(case):
    """1000 launches in all, in 3 seconds."""
    rung, M, dtype, operator = KERNELS[case]
    made = planned(*KERNELS[case])
    x = random(3 * made.rows + 1 if rung == "packed" else 7, M).to(dtype)
    y = x.new_empty(len(x) if operator == "logsumexp" else x.shape)
    launch = host.Launcher(dataclasses.replace(made, in_flight=2))
    for seed in range(1, 1 + 1000 // len(KERNELS)):
        y.fill_(torch.nan)
        launch(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0), seed=seed)
        CHECKS[operator](lambda x: y, x)


@pytest.mark.parametrize("offset", [0, 1])
def test_packed_rows_that_fill_the_memory_of_a_block(offset):
    """Rows of 2 elements leave none of it over, and lie there as far from a multiple of 16 bytes as here."""
    made = planned("packed", 2, torch.float32, "softmax")
    assert made.rows * 2 * 4 == 4 * 16 * made.threads
    x = random(2 * made.rows + 1, 4).flatten()[offset : offset + 4 * made.rows + 6].view(-1, 2)
    y = torch.empty(x.numel() + 1)[offset : offset + x.numel()].view(x.shape)
    host.Launcher(made)(x.data_ptr(), y.data_ptr(), *x.shape, x.stride(0))
    check_softmax(lambda x: y, x)


BACKWARD = {  # columns, dtype, operator
    "rows of a warp": (37, torch.float32, "softmax"),
    "rows of a block": (1001, torch.bfloat16, "log_softmax"),
    "two scans": (20_001, torch.float32, "softmax"),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_nothing_is_found_in_the_gradient_under_any_schedule(case):
    M, dtype, operator = BACKWARD[case]
    x, dy = random(7, M).to(dtype), random(7, M).cos().to(dtype)
    y, dx = getattr(torch, operator)(x.double(), -1).to(dtype), torch.empty_like(x)
    launch = host.Launcher(plan.backward(M, dtype, operator.upper(), M % 8 == 0))
    for seed in range(1, 11):
        dx.fill_(torch.nan)
        launch(dy.data_ptr(), dx.data_ptr(), *x.shape, y.data_ptr(), seed=seed)
        compare(dx, *expected_gradient(operator, x, dy, -1))


def test_every_kernel_that_ships_is_launched():
    shipped = {
        name
        for path in host.CUDA.glob("*.cuh")
        for name in re.findall(r"(\w+)\(const \w+\* (?:x|dy),", path.read_text())
    }
    launched = {planned(*case).entry for case in KERNELS.values()} | {"backward"}
    kernels = re.compile(r'extern "C" __global__')
    assert sum(len(kernels.findall(path.read_text())) for path in host.CUDA.glob("*.cuh")) == len(launched)
    assert launched <= shipped


def test_three_passes_take_less_than_50_ms():
    """64 x 4096, checked, in CPU time; twice that on a machine that is busy."""
    x = random(64, 4096)
    y = torch.empty_like(x)

    def seconds() -> float:
        started = time.process_time()
        host.run(host.CUDA / "three_pass.cuh", "softmax_three_pass", x, y)
        return time.process_time() - started

    assert min(seconds() for _ in range(10)) < 0.1


# --- what CUDA C++ means --------------------------------------------------------------------------


def test_16_bit_floats_to_the_bit(kernel):
    body = """
    const u32* in = reinterpret_cast<const u32*>(x);
    u32* out = reinterpret_cast<u32*>(y);
    for (long long j = threadIdx.x; j < 65536; j += M) {
        float value = __uint_as_float(in[j]);
        out[j] = __float_as_uint(half_to_float(u16(j)));
        out[65536 + j] = floats_to_half2(value, 0);
        out[131072 + j] = floats_to_bfloat2(0, value) >> 16;
        out[196608 + j] = half2_max(in[j], in[65535 - j]);
        out[262144 + j] = bfloat2_max(in[j], in[65535 - j]);
    }
    """
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (65536,), generator=generator)
    bits[:40000] = (torch.randn(40000, generator=generator) * 10.0 ** torch.randint(-9, 6, (40000,))).view(
        torch.int32
    )
    bits[:65536:64] &= ~0x1FFF  # exact, and halfway between two
    bits[32:65536:64] = bits[32:65536:64] & ~0x1FFF | 0x1000
    x = bits.to(torch.int32).view(torch.float32)
    y = run(kernel(body), x, torch.zeros(5 * 65536)).view(torch.int32).view(5, 65536)

    def same(got, want):  # NaN where it is, else the same bits
        nan = want.isnan()
        assert got[nan].isnan().all()
        integer = {2: torch.int16, 4: torch.int32}[want.itemsize]
        assert got[~nan].view(integer).equal(want[~nan].view(integer))

    same(y[0].view(torch.float32), torch.arange(65536).to(torch.int16).view(torch.float16).float())
    same(y[1].to(torch.int16).view(torch.float16), x.half())
    same(y[2].to(torch.int16).view(torch.bfloat16), x.bfloat16())
    for row, dtype in ((3, torch.float16), (4, torch.bfloat16)):
        a, b = (v.contiguous().view(dtype).float() for v in (x, x.flip(0)))
        got = y[row].contiguous().view(dtype).float()
        want = torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))  # a NaN loses
        assert ((got == want) | (got.isnan() & want.isnan())).all()


def test_a_vector_is_loaded_by_one_instruction(tmp_path):
    """As it lies at a multiple of 16 bytes. Other groups of words lie where the last one ends."""
    (tmp_path / "k.cuh").write_text(
        '#include "row.cuh"\n'
        'extern "C" __global__ void k(int* y) { y[0] = alignof(Vector), y[1] = sizeof(Words<5>); }\n'
    )
    y = torch.zeros(2, dtype=torch.int32)
    Kernel(tmp_path / "k.cuh", "k", planned("single_read", 8, torch.float32, "softmax").constants)(
        1, 1, Memory.of(y)
    )
    assert y.tolist() == [16, 20]


def test_warps(kernel):
    body = """
    int t = threadIdx.x, lane = t % 32;
    unsigned all = 0xffffffff;
    y[t] = __shfl_sync(all, x[t], lane + 1, 8);
    y[64 + t] = __shfl_up_sync(all, x[t], 2);
    y[128 + t] = __shfl_down_sync(all, x[t], 2, 16);
    y[192 + t] = __shfl_xor_sync(all, x[t], 5);
    y[256 + t] = __popc(__ballot_sync(all, lane < 7));
    y[256 + t] += 100 * __any_sync(all, t == 40) + 1000 * __all_sync(all, t < 32);
    y[320 + t] = __reduce_add_sync(all, t) + __reduce_max_sync(all, t - 100) + __reduce_min_sync(all, t);
    y[384 + t] = warp_max(-x[t]);
    """
    got = run(kernel(body), y=torch.zeros(7 * 64)).view(7, 64).long()
    t = torch.arange(64)
    lane, warp = t % 32, t // 32 * 32
    want = [
        t // 8 * 8 + (lane + 1) % 8,
        torch.where(lane < 2, t, t - 2),
        torch.where(lane % 16 >= 14, t, t + 2),
        t ^ 5,
        7 + 100 * (warp == 32) + 1000 * (warp == 0),
        sum(range(32)) + 32 * warp + (warp + 31 - 100) + warp,
        -warp,
    ]
    assert got.tolist() == [row.tolist() for row in want]


def test_atomics(kernel):
    body = """
    atomicAdd(&y[0], 1.0f);
    atomicMax((int*)&y[1], int(threadIdx.x));
    atomicMin((int*)&y[2], -int(threadIdx.x));
    if (atomicCAS((unsigned*)&y[3], 0u, threadIdx.x + 1) == 0) atomicExch(&y[4], 7);
    while (atomicAdd(&y[5], 0) != threadIdx.x) continue;  // in turn
    atomicAdd(&y[5], 1);
    """
    for seed in range(3):
        y = run(kernel(body), seed=seed, seconds=20)
        assert (y[0], y[4], y[5]) == (64, 7, 64)
        assert y[:3].view(torch.int32)[1:].tolist() == [63, -63]


def test_the_order_is_the_seed_s(kernel):
    """Seed 0 is the order of the numbers; a seed always gives the same order, others another one."""
    first = kernel(
        """
        __shared__ int n;
        if (threadIdx.x == 0) n = 0;
        __syncthreads();
        y[atomicAdd(&n, 1)] = threadIdx.x;
        """
    )
    orders = [run(first, seed=seed).tolist() for seed in (0, 1, 1, 2)]
    assert orders[0] == list(range(64))
    assert orders[1] == orders[2]
    assert len({tuple(order) for order in orders}) == 3
    assert sorted(orders[1]) == orders[0]


@pytest.mark.parametrize("block", [(8, 4, 2), (64,)])
def test_threads_in_three_dimensions(kernel, block):
    body = """
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    y[b * 64 + t] = 100 * b + t;
    """
    y = torch.zeros(12, 64)
    kernel(body)((3, 2, 2), block, Memory.of(y), Memory.of(y), 0)
    assert y.equal(100 * torch.arange(12.0).view(12, 1) + torch.arange(64.0))


# --- compiling and launching ----------------------------------------------------------------------


@pytest.fixture
def cold_cache(tmp_path, monkeypatch):
    """An empty cache with the engine, which takes seconds."""
    engine = host._engine()
    folder = tmp_path / "camp_softmax" / "host"
    folder.mkdir(parents=True)
    (folder / engine.name).symlink_to(engine)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return folder


def test_compiled_once(cold_cache, monkeypatch):
    path = host.compile(host.CUDA / "online.cuh", "softmax_online")
    made = path.stat().st_mtime_ns
    assert path.parent == cold_cache
    assert host.compile(host.CUDA / "online.cuh", "softmax_online") == path
    assert path.stat().st_mtime_ns == made
    assert host.compile(host.CUDA / "online.cuh", "softmax_online", (("LATER", "1"),)) != path


def test_a_damaged_file_is_compiled_again(cold_cache):
    path = host.compile(host.CUDA / "online.cuh", "softmax_online")
    path.write_bytes(b"garbage")
    Kernel(host.CUDA / "online.cuh", "softmax_online")
    assert path.read_bytes().startswith(b"\x7fELF")


def test_a_changed_header_is_compiled(cold_cache, tmp_path):
    (tmp_path / "a.cuh").write_text('#pragma once\n#include "b.cuh"\n')
    (tmp_path / "k.cuh").write_text(
        '#include "a.cuh"\n#include "a.cuh"\nextern "C" __global__ void k(float* y) { *y = VALUE; }\n'
    )
    y = torch.zeros(1)
    for value in (1, 2):
        (tmp_path / "b.cuh").write_text(f"#define VALUE {value}\n")
        Kernel(tmp_path / "k.cuh", "k")(1, 1, Memory.of(y))
        assert y == value


def test_a_compile_error_shows_the_source_line(tmp_path):
    (tmp_path / "b.cuh").write_text("\nint a = undefined_name;\n")
    (tmp_path / "k.cuh").write_text('#include "b.cuh"\nextern "C" __global__ void k(float* y) {}\n')
    with pytest.raises(
        RuntimeError, match=r"(?s)k\.cuh does not compile for the CPU.*b\.cuh:2:.*undefined_name"
    ):
        host.compile(tmp_path / "k.cuh", "k")


@pytest.mark.parametrize(
    ("body", "name", "message"),
    [
        ('asm("ex2.approx.f32 %0, %1;" : "=f"(*y) : "f"(*x));\n', "k", r"the CPU knows no inline PTX: asm\("),
        ("", "other", 'k.cuh has no kernel other: expected extern "C"'),
        ('}\n#include "nowhere.cuh"\nvoid f() {\n', "k", "nowhere.cuh"),
    ],
)
def test_what_cannot_be_compiled(tmp_path, body, name, message):
    (tmp_path / "k.cuh").write_text(HEAD + body + "}\n")
    with pytest.raises(RuntimeError, match=message):
        host.compile(tmp_path / "k.cuh", name)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, 64, 1, 2, 3), TypeError, r"k takes \(a pointer, a pointer, a number\), got 3 arguments"),
        ((1, 2048, None, None, 1), ValueError, "up to 1024 threads"),
        ((0, 64, None, None, 1), ValueError, "at least one block"),
    ],
)
def test_bad_launches_are_refused(kernel, arguments, error, message):
    y = Memory.of(torch.zeros(64))
    with pytest.raises(error, match=message):
        kernel("")(*(y if argument is None else argument for argument in arguments))
    with pytest.raises(ValueError, match="clusters of 1 to 16 blocks that divide the grid, got 2"):
        kernel("")(3, 64, y, y, 1, cluster=2)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(RuntimeError, match="install g\\+\\+ or clang\\+\\+, or set CXX"):
        host.require_compiler()


@pytest.mark.parametrize(("platform", "machine"), [("darwin", "arm64"), ("linux", "riscv64")])
def test_other_machines(monkeypatch, platform, machine):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(RuntimeError, match=f"Linux on x86-64 or aarch64, and this is .* on {machine}"):
        host.require_compiler()


def test_unwritable_cache_is_reported_and_does_without(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/x")  # nobody can make it, root included
    with pytest.warns(RuntimeWarning, match="not kept on disk"):
        folder = host._writable(host._cache())
    assert folder.is_dir()
    assert host._writable(host._cache()) == folder


def test_no_warnings_in_the_engine(tmp_path):
    """In the half that is compiled for each kernel, too."""
    (tmp_path / "k.cpp").write_text("int unused;\n")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-nostdinc++"]
    headers = ["-include", str(host.HERE / "cuda.hpp"), "-include", str(host.HERE / "ptx.cuh")]
    for source, included in (
        (tmp_path / "k.cpp", headers),
        (host.HERE / "engine.cpp", []),
        (host.HERE / "checker.cpp", []),
    ):
        own = flags if included else flags[:-1]
        done = subprocess.run(
            [host.require_compiler(), *own, *included, str(source)], capture_output=True, text=True
        )
        assert not done.stderr


@pytest.mark.parametrize("rung", ["single_read", "packed", "cluster", "backward"])
def test_no_warnings_in_the_kernels(rung):
    """The checker does not see that an array of vectors is left by one; the optimizer does."""
    plans = plan.READ_ONCE | {"packed": plan._packed, "backward": plan.backward}
    constants = plans[rung](101 if rung == "packed" else 1001, torch.float32, "SOFTMAX", False).constants
    flags = ["-std=c++17", "-O2", "-S", "-o", "/dev/null", "-nostdinc++", "-x", "c++", "-"]
    flags += ["-include", str(host.HERE / "cuda.hpp"), *(f"-D{name}={value}" for name, value in constants)]
    source = "\n".join(host._lines(host.CUDA / f"{rung}.cuh", set()))
    done = subprocess.run([host.require_compiler(), *flags], input=source, capture_output=True, text=True)
    assert not done.stderr


def test_a_host_tensor_needs_no_cuda_core():
    code = (
        "import sys; sys.modules['cuda'] = None; import torch; from camp_softmax import cuda; "
        "print(cuda.softmax(torch.zeros(1, 2)).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[[0.5, 0.5]]\n", "")


def test_both_devices_have_one_interface():
    """What `cuda` asks of `host` and of `runtime`."""
    source = (host.CUDA / "runtime.py").read_text()
    for name in ("run", "launcher", "Launcher"):
        assert hasattr(host, name)
        assert re.search(rf"^(def |class )?{name}\b", source, re.M)


run_rows = functools.partial(cuda.run, host.CUDA / "three_pass.cuh", "softmax_three_pass")


def test_any_kernel_runs_on_the_device_of_its_rows():
    x = random(3, 100)
    y = torch.empty_like(x)
    run_rows(x, y)
    CHECKS["softmax"](lambda x: y, x)
