"""The operator against the float64 oracle, on every backend.

pytest tests/test_softmax.py -v --backend tilelang
pytest tests/test_softmax.py -v --backend cuda
"""

import functools

import pytest
import torch

import camp_softmax
from cases import BOUNDARIES, CASES, CHECKS, ODD_LENGTHS, TUTORIAL_SHAPES, M, random

SIXTEEN_BIT = [torch.float16, torch.bfloat16]


@pytest.fixture
def softmax(backend):
    return functools.partial(camp_softmax.softmax, backend=backend)


@pytest.fixture
def check(backend):
    """Holds softmax, log_softmax and logsumexp to the oracle."""

    def check_all(x, dim=-1):
        for name, check_one in CHECKS.items():
            check_one(functools.partial(getattr(camp_softmax, name), backend=backend, dim=dim), x, dim)

    return check_all


@pytest.mark.parametrize("shape", TUTORIAL_SHAPES, ids=str)
def test_tutorial_shapes(check, device, shape):
    check(random(*shape).to(device))


@pytest.mark.parametrize("length", BOUNDARIES + ODD_LENGTHS)
def test_lengths_around_tiles_and_odd_ones(check, device, length):
    check(random(17, length).to(device))


@pytest.mark.parametrize("case", CASES)
def test_values(check, device, case):
    check(CASES[case]().to(device))


@pytest.mark.parametrize("dtype", SIXTEEN_BIT, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_16_bit_values(check, device, case, dtype):
    check(CASES[case]().to(device, dtype))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_any_dimension(check, device, dim):
    x = random(30, 7).view(5, 6, 7).to(device)
    check(x, dim)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3), (2, 3, 0)], ids=str)
def test_empty(backend, device, shape):
    x = torch.empty(shape, device=device)
    for dim in range(x.dim()):
        for name in CHECKS:
            got, want = getattr(camp_softmax, name)(x, dim, backend=backend), getattr(torch, name)(x, dim)
            assert got.equal(want), f"{name}: expected {want}, got {got}"  # equal compares shapes too


VIEWS = {
    "misaligned": lambda x: x.flatten()[1 : 1 + 3 * M].view(3, M),
    "transposed": lambda x: x.T[:7],
    "every other column": lambda x: x[:, ::2],
    "every other row": lambda x: x[::2],
    "expanded": lambda x: x[:1].expand(4, M),
    "one dimension": lambda x: x[0],
    "offset by two": lambda x: x[1:, 2:],
    "the first columns": lambda x: x[:, : M - 8],
}


@pytest.mark.parametrize("view", VIEWS)
def test_views(check, device, view):
    x = VIEWS[view](random(6, M).to(device))
    before = x.clone()
    check(x)
    assert x.equal(before), "the input was changed"


def test_result_is_contiguous_as_in_torch(softmax, device):
    assert softmax(random(3, 7).to(device).T, 0).is_contiguous()


@pytest.mark.parametrize("lazy", [lambda x: torch.complex(x, x).conj().imag, torch._neg_view], ids=[0, 1])
def test_negative_bit(check, device, lazy):
    x = lazy(random(2, 7).to(device))
    assert x.is_neg()
    check(x)


@pytest.mark.gpu
def test_runs_on_the_current_stream(softmax, device):
    """The input is written late on a side stream: a launch on any other stream would read zeros."""
    x, source = torch.zeros(64, M, device=device), random(64, M).to(device)
    softmax(source)  # compiled
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(source)
        y = softmax(x)
    stream.synchronize()
    assert y.equal(softmax(source))


@pytest.mark.gpu
def test_auto_is_the_cuda_kernel_where_there_is_one(device):
    """TileLang's for rows that no fast CUDA kernel holds."""
    for length, backend in ((4096, "cuda"), (524_289, "tilelang")):
        x = random(2, length).to(device, torch.bfloat16)
        assert camp_softmax.softmax(x).equal(camp_softmax.softmax(x, backend=backend))
