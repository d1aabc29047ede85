"""What the operator refuses, and what importing it does not do."""

import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import camp_softmax
from camp_softmax import log_softmax, logsumexp, softmax

OPERATORS = pytest.mark.parametrize("operator", [softmax, log_softmax, logsumexp])
x = torch.zeros(2, 3)


@OPERATORS
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, 2.0], 0), TypeError, "expected a tensor, got list"),
        ((x, 1.0), TypeError, "expected dim to be an int.*, got 1.0"),
        ((x, True), TypeError, "expected dim to be an int.*, got True"),
        ((x, None), TypeError, "expected dim to be an int.*, got None"),
        ((x, 2), IndexError, r"expected dim in \[-2, 1\], got 2"),
        ((x, -3), IndexError, r"expected dim in \[-2, 1\], got -3"),
        ((torch.tensor(1.0), 1), IndexError, r"expected dim in \[-1, 0\], got 1"),
        ((x.to(torch.float8_e4m3fn), 0), NotImplementedError, r"got torch\.float8_e4m3fn; convert"),
        ((x.to_sparse(), 0), NotImplementedError, r"got layout torch\.sparse_coo"),
    ],
)
def test_bad_input_is_refused_as_torch_refuses_it(operator, arguments, error, message):
    with pytest.raises(error, match=message):
        operator(*arguments)
    with pytest.raises(error):
        getattr(torch, operator.__name__)(*arguments)


@pytest.mark.parametrize("operator", [softmax, log_softmax])
@pytest.mark.parametrize("named", ["auto", "cuda", "torch"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_weights_of_integers_need_a_dtype(operator, named, dtype):
    with pytest.raises(NotImplementedError, match=f"expected a floating tensor, got {dtype}; convert with"):
        operator(x.to(dtype), backend=named)
    with pytest.raises(NotImplementedError):
        getattr(torch, operator.__name__)(x.to(dtype), -1)
    with pytest.raises(NotImplementedError, match=r"expected a floating tensor, got torch\.int64"):
        operator(x, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"expected dtype to be a torch\.dtype, got 'float32'"):
        operator(x, dtype="float32")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (((0, 1.0),), TypeError, "expected dim to be ints, got"),
        (((0, -2),), RuntimeError, "expected each dim once"),
        (((0, 2),), IndexError, r"expected dim in \[-2, 1\], got 2"),
        ((0, 1), TypeError, "expected keepdim to be True or False, got 1"),
    ],
)
def test_bad_dimensions_of_logsumexp(arguments, error, message):
    with pytest.raises(error, match=message):
        logsumexp(x, *arguments)
    with pytest.raises(error):
        torch.logsumexp(x, *arguments)


def test_logsumexp_over_dimensions_of_no_tensor():
    with pytest.raises(TypeError, match="expected a tensor, got list"):
        logsumexp([1.0, 2.0], (0,))


@OPERATORS
@pytest.mark.parametrize("name", ["tilelang", "cuda", "nvidia"])
def test_other_dtypes_are_refused_by_the_kernels(operator, name):
    with pytest.raises(NotImplementedError, match=r"takes torch\.float32.*, got torch\.float64"):
        operator(x.double(), backend=name)


@OPERATORS
def test_other_devices_are_refused(operator):
    with FakeTensorMode(), pytest.raises(NotImplementedError, match="on cpu or cuda, got one on xpu"):
        operator(torch.empty(3, 8, device="xpu"))


@OPERATORS
def test_nested_tensors_are_refused(operator):
    with pytest.raises(NotImplementedError, match="expected a dense tensor"):
        operator(torch.nested.nested_tensor([x], layout=torch.jagged))


@OPERATORS
@pytest.mark.parametrize("name", ["triton", None, ["cuda"]])
def test_unknown_backend(operator, name):
    with pytest.raises(ValueError, match="one of auto, tilelang, cuda, torch, nvidia, got "):
        operator(x, backend=name)


def test_torch_backend_is_torch():
    y = torch.randn(3, 5, dtype=torch.float64)
    assert softmax(y, 0, backend="torch").equal(torch.softmax(y, 0))
    assert logsumexp(y, 0, backend="torch").equal(torch.logsumexp(y, 0))


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_import_is_silent_and_starts_no_cuda():
    code = "import camp_softmax, sys, torch; assert not torch.cuda.is_initialized(); " + (
        "assert not {'tilelang', 'cuda.core', 'camp_softmax.cuda'} & set(sys.modules)"
    )
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


HIDE_TILELANG = "import sys; sys.modules['tilelang'] = None; "


def test_without_tilelang():
    done = run(
        HIDE_TILELANG + "import camp_softmax as c, torch; x = torch.zeros(1, 2); "
        "print(c.softmax(x, backend='torch').tolist()); print(c.backends()['tilelang']); c.softmax(x)"
    )
    assert "[[0.5, 0.5]]\nbackend 'tilelang' does not work here: tilelang cannot be imported" in done.stdout
    assert "RuntimeError: backend 'tilelang' does not work here" in done.stderr


def test_main_says_why_a_backend_does_not_work():
    done = run(HIDE_TILELANG + "import runpy; runpy.run_module('camp_softmax', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert "tilelang: not here. backend 'tilelang' does not work here" in done.stdout
    assert "torch: [0.09, 0.245, 0.665]" in done.stdout


@OPERATORS
def test_more_rows_than_the_kernels_can_count_are_refused(operator):
    with pytest.raises(ValueError, match="expected up to 2147483647 rows"):
        operator(torch.zeros(1, 1).expand(2**31, 1))


def test_backends_names_every_backend():
    assert list(camp_softmax.backends()) == ["tilelang", "cuda", "torch"]
