"""What the operator refuses, and what importing it does not do."""

import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import camp_softmax
from camp_softmax import log_softmax, logsumexp, softmax

OPERATORS = pytest.mark.parametrize("operator", [softmax, log_softmax, logsumexp])
x = torch.zeros(2, 3)


@OPERATORS
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, 2.0],), TypeError, "expected a tensor, got list"),
        ((x, 1.0), TypeError, "expected dim to be an int, got 1.0"),
        ((x, True), TypeError, "expected dim to be an int, got True"),
        ((x, None), TypeError, "expected dim to be an int, got None"),
        ((x, 2), IndexError, r"expected dim in \[-2, 1\], got 2"),
        ((x, -3), IndexError, r"expected dim in \[-2, 1\], got -3"),
        ((torch.tensor(1.0), 0), ValueError, "rank >= 1"),
        ((x.long(),), TypeError, "expected a floating tensor, got torch.int64"),
        ((x.bool(),), TypeError, "got torch.bool"),
        ((x.double(),), TypeError, "got torch.float64"),
        ((x.to(torch.complex64),), TypeError, "got torch.complex64"),
        ((x.to(torch.float8_e4m3fn),), TypeError, "got torch.float8_e4m3fn"),
        ((x.to_sparse(),), TypeError, "got layout torch.sparse_coo"),
        ((torch.nested.nested_tensor([x], layout=torch.jagged),), TypeError, "expected a dense tensor"),
        ((torch._efficientzerotensor(2, 3),), ValueError, "without storage"),
        ((x.to("meta"),), ValueError, "got a tensor on meta"),
        ((torch.zeros(2, 3, requires_grad=True),), RuntimeError, "no derivative yet"),
    ],
)
def test_bad_input_is_refused(operator, arguments, error, message):
    with pytest.raises(error, match=message):
        operator(*arguments)


@OPERATORS
@pytest.mark.parametrize("name", ["tilelang", "cuda", "nvidia"])
def test_other_devices_are_refused(operator, name):
    with pytest.raises(ValueError, match="runs on cpu and cuda, got a tensor on meta"):
        operator(x.to("meta"), backend=name)


@OPERATORS
@pytest.mark.parametrize("name", ["triton", None, ["cuda"]])
def test_unknown_backend(operator, name):
    with pytest.raises(ValueError, match="one of auto, tilelang, cuda, torch, nvidia, got "):
        operator(x, backend=name)


@OPERATORS
def test_integers_are_refused_by_every_backend(operator):
    with pytest.raises(TypeError, match=r"expected a floating tensor, got torch\.int64"):
        operator(x.long(), backend="torch")


@OPERATORS
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, in make_dual
def test_forward_derivative_is_refused_too(operator):
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="no derivative yet"):
        operator(forward_ad.make_dual(x, torch.ones_like(x)))


@OPERATORS
def test_fake_tensors_are_refused(operator):
    with FakeTensorMode(), pytest.raises(ValueError, match="without storage"):
        operator(torch.empty(3, 8))


@OPERATORS
def test_grad_is_refused_only_where_it_would_be_lost(operator):
    leaf = torch.zeros(2, 3, requires_grad=True)
    with torch.no_grad():
        assert not operator(leaf).requires_grad
    assert operator(leaf, backend="torch").requires_grad


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


def test_without_a_compiler(tmp_path):
    """On a machine without CUDA the kernels are compiled by g++; main says so and goes on."""
    if torch.cuda.is_available():
        pytest.skip("with a CUDA device no compiler is needed")
    done = run("import runpy; runpy.run_module('camp_softmax', run_name='__main__')", PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "tilelang: not here. TileLang's CPU target needs a C++ compiler" in done.stdout
    assert "cuda: not here. CUDA kernels on the CPU need a C++ compiler" in done.stdout


@OPERATORS
def test_more_rows_than_the_kernels_can_count_are_refused(operator):
    with pytest.raises(ValueError, match="expected up to 2147483647 rows"):
        operator(torch.zeros(1, 1).expand(2**31, 1))


@pytest.mark.parametrize("cache", ["TILELANG_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_unwritable_cache_folder(cache):
    """/dev/null/x can be made by nobody, root included."""
    code = "import camp_softmax as c, torch; print(c.softmax(torch.zeros(1, 2)).tolist())"
    done = run(code, **{cache: "/dev/null/x"})
    assert done.stdout == "[[0.5, 0.5]]\n", done.stderr


def test_backends_names_every_backend():
    assert list(camp_softmax.backends()) == ["tilelang", "cuda", "torch"]
