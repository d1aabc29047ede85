"""The operator inside a program: what torch does with its own softmax, it does with this one."""

import functools
import importlib
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import camp_softmax
from camp_softmax import cuda, kernels, reference
from camp_softmax.cuda import plan
from camp_softmax.limits import DTYPES, LARGEST
from camp_softmax.operators import OPERATORS as REGISTERED
from camp_softmax.tilelang import backward as tilelang_backward
from camp_softmax.tilelang import cpu
from cases import CASES, CHECKS, INF, NAN, M, check_gradient, compare, expected_gradient, random

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of numba, which torch's tests import where it is installed
    from torch.testing._internal.common_methods_invocations import op_db

ROOT = Path(__file__).parents[1]
NAMES = list(CHECKS)
NAME = pytest.mark.parametrize("name", NAMES)
KERNELS = ["tilelang", "cuda"]


def ours(name: str, backend: str = "cuda"):
    return functools.partial(getattr(camp_softmax, name), backend=backend)


def gradient_like(name: str, x: Tensor, dim: int = -1) -> Tensor:
    """Of the result's shape: neither constant nor small."""
    y = x.select(dim, 0) if name == "logsumexp" else x
    generator = torch.Generator().manual_seed(x.numel())
    return torch.randn(y.shape, generator=generator).to(y)


# --- values that torch promises ---------------------------------------------------------------------------


@NAME
@pytest.mark.parametrize("value", [3.0, INF, -INF, NAN])
@pytest.mark.parametrize("dim", [0, -1])
def test_a_scalar(name, value, dim, device):
    x = torch.tensor(value, device=device, requires_grad=True)
    y, want = ours(name)(x, dim), getattr(torch, name)(x, dim)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert y.allclose(want, equal_nan=True)
    for result in torch.autograd.grad(y, x), torch.autograd.grad(want, x):
        assert result[0].shape == ()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("given", [torch.int64, torch.float16, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float32, torch.float16, float])
def test_dtype(name, given, wanted, device):
    x = torch.tensor([[0, 3, 1], [5, 0, 2]], device=device).to(given)
    backend = "auto" if wanted is float else "cuda"
    y = getattr(camp_softmax, name)(x, 1, dtype=wanted, backend=backend)
    want = getattr(torch, name)(x, 1, dtype=wanted)
    assert y.dtype == want.dtype
    torch.testing.assert_close(y, want, rtol=2 * reference.UNIT_ROUNDOFF.get(y.dtype, 1e-15) * 8, atol=0)


@pytest.mark.parametrize("dim", [(0, 1), (2, 0), (-2,), 1, [1, 2], (), (0, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_several_dimensions(dim, keepdim, device):
    x = random(6, 20).view(4, 5, 6).to(device).requires_grad_()
    y = camp_softmax.logsumexp(x, dim, keepdim, backend="cuda")
    want = torch.logsumexp(x.double(), dim or (0, 1, 2), keepdim)  # torch refuses () without keepdim
    assert y.shape == want.shape
    torch.testing.assert_close(y.double(), want, rtol=1e-6, atol=1e-5)
    dy = torch.randn_like(y)
    (got,) = torch.autograd.grad(y, x, dy)
    torch.testing.assert_close(got, torch.autograd.grad(want, x, dy.double())[0], rtol=1e-5, atol=1e-7)


@NAME
def test_autocast_is_torch_s(name, monkeypatch):
    """On a CUDA device both give float32; on a CPU neither cares. Fake tensors need no device for that."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            for dtype in (*DTYPES, torch.float64):
                for device in ("cpu", "cuda"):
                    x = torch.empty(2, 3, dtype=dtype, device=device)
                    y, want = getattr(camp_softmax, name)(x), getattr(torch, name)(x, -1)
                    assert (y.shape, y.dtype, y.device) == (want.shape, want.dtype, want.device)
    finally:
        torch.set_autocast_enabled("cuda", False)


@NAME
def test_lazy_tensors(name, device):
    x = torch._efficientzerotensor(2, 3, device=device)
    assert ours(name)(x).equal(ours(name)(torch.zeros(2, 3, device=device)))


# --- gradients --------------------------------------------------------------------------------------------

GRADIENTS = ["random", "large", "descending tiles", "first tile -inf", "lowest", "underflow", "equal terms"]


@NAME
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients(name, dtype, backend, device):
    if (backend, name, dtype, device) == ("tilelang", "log_softmax", torch.float16, "cpu"):
        pytest.skip("softmax has the same loads and stores, and compiling takes seconds")
    for case in GRADIENTS:
        x = CASES[case]().to(device, dtype)
        check_gradient(name, ours(name, backend), x, gradient_like(name, x), -1)


@NAME
@pytest.mark.parametrize("value", [INF, NAN, -INF])
def test_where_a_gradient_is_nan(name, value, backend, device):
    """Where torch's is, but for logsumexp at +inf: DIFFERENCES has that."""
    x = random(3, M).to(device)
    x[1, 2 if value > 0 else slice(None)] = value
    x.requires_grad_()
    y = getattr(camp_softmax, name)(x, backend=backend)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert dx.isnan().all(1).tolist() == [False, True, False]
    assert dx[::2].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("length", [3, 100, 2000, None])
def test_the_cuda_kernel_of_the_gradient(length, dtype, device):
    """Rows of a warp, of a block, and scanned twice; y, dy or both begin between two vectors."""
    length = length or plan.LONGEST_BACKWARD[dtype] + 1
    for shift in ((0, 0), (1, 1), (0, 1)):
        x = random(3, length).to(device, dtype)
        for name in ("softmax", "log_softmax"):
            dy = gradient_like(name, x)
            moved = [torch.empty(3 * length + 1, device=device, dtype=dtype) for _ in shift]
            y_, dy_ = (m[s : s + 3 * length].view(3, length) for m, s in zip(moved, shift, strict=True))
            y_.copy_(getattr(torch, name)(x.double(), -1))
            dy_.copy_(dy)
            dx = cuda._launch_backward(name, dy_, y_)
            compare(dx, *expected_gradient(name, x.cpu(), dy.cpu(), -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_plan_of_the_gradient_has_room_for_every_vector(dtype):
    width, longest = plan.VECTOR // dtype.itemsize, plan.LONGEST_BACKWARD[dtype]
    for length in {*range(1, 600), *range(600, longest, 97), longest - 1, longest}:
        aligned = length % width == 0
        made = plan.backward(length, dtype, "SOFTMAX", aligned)
        sizes = {name: int(value) for name, value in made.constants if value.isdigit()}
        lanes = min(sizes["GROUP"], sizes["THREADS"])
        assert made.threads == sizes["THREADS"] <= 1024
        assert lanes * sizes["ITEMS"] >= length // width
        assert aligned or lanes >= width - 1
    for length in (longest + 1, LARGEST):
        made = plan.backward(length, dtype, "SOFTMAX", length % width == 0)
        assert dict(made.constants)["WHOLE_ROW"] == "false"
        assert made.threads <= 1024
    with pytest.raises(ValueError, match="backward: expected rows of up to 2147483647"):
        plan.backward(LARGEST + 1, dtype, "SOFTMAX", True)


@NAME
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradients_that_are_views(name, dim, device):
    """Of stride 0, as from sum(), transposed and negated; of an input that is a view; nothing is changed."""
    base = random(7, 24).view(7, 4, 6).to(device)
    for x in (base, base.transpose(0, 2), base[:, ::2], base[:1].expand(3, 4, 6)):
        y = ours(name)(x, dim)
        one = torch.ones((), device=device).expand(y.shape)
        turned = torch.randn(y.shape[::-1], device=device).permute(*reversed(range(y.dim())))
        for dy in (one, turned, torch._neg_view(turned)):
            before = x.clone(), dy.clone()
            check_gradient(name, lambda x: ours(name)(x, dim), x, dy, dim)
            assert x.equal(before[0])
            assert dy.equal(before[1])


@NAME
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)], ids=str)
def test_gradients_of_nothing(name, shape, device):
    x = torch.empty(shape, device=device, requires_grad=True)
    ours(name)(x).sum().backward()
    assert x.grad.shape == x.shape


@NAME
def test_the_same_bits_each_time(name, backend, device):
    x = random(9, M).to(device).requires_grad_()
    dy = gradient_like(name, x.detach())
    results = [torch.autograd.grad(ours(name, backend)(x), x, dy)[0] for _ in range(3)]
    assert all(result.equal(results[0]) for result in results)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("wanted", ["dy", "y"])
def test_derivatives_of_a_gradient_by_one_argument(name, wanted, device):
    tensors = {
        "dy": gradient_like(name, random(3, M)).to(device),
        "y": getattr(torch, name)(random(3, M), -1).to(device),
    }
    tensors[wanted].requires_grad_()
    dy, y = tensors.values()
    v = gradient_like(name, random(5, M)[:3]).to(device)
    (got,) = torch.autograd.grad(REGISTERED[f"{name}_backward"](dy, y, 1, "cuda"), tensors[wanted], v)
    dy, y = dy.double(), y.double()
    if name == "softmax":
        dx = y * (dy - (y * dy).sum(1, keepdim=True))
    else:
        dx = dy - y.exp() * dy.sum(1, keepdim=True)
    (want,) = torch.autograd.grad(dx, tensors[wanted], v.double())
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@NAME
def test_second_derivatives(name, backend, device):
    x = random(3, M).to(device).requires_grad_()
    dy = gradient_like(name, x.detach()).requires_grad_()
    v = torch.randn(3, M, device=device)

    def twice(f, x, dy):
        (dx,) = torch.autograd.grad(f(x, -1), x, dy, create_graph=True)
        return torch.autograd.grad(dx, (x, dy), v)

    want = twice(
        getattr(torch, name), x.detach().double().requires_grad_(), dy.detach().double().requires_grad_()
    )
    for got, right in zip(twice(ours(name, backend), x, dy), want, strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-4, atol=1e-6)


@NAME
def test_gradcheck_in_float64(name, device):
    x = random(3, 5).to(device).double().requires_grad_()
    assert torch.autograd.gradcheck(getattr(camp_softmax, name), x)
    assert torch.autograd.gradgradcheck(getattr(camp_softmax, name), x)


def test_grad_mode(device):
    x = torch.zeros(2, 3, device=device, requires_grad=True)
    assert ours("softmax")(x).requires_grad
    with torch.no_grad():
        assert not ours("softmax")(x).requires_grad
    with torch.inference_mode():
        assert ours("softmax")(x).is_inference()


# --- transformations --------------------------------------------------------------------------------------


def weighted(f, w):
    return lambda x: (f(x, 0) * w).sum()


@NAME
def test_derivatives_of_derivatives(name, device):
    """jvp, vjp and vmap in each other, as far as torch goes."""
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

    z, w, u = (random(3, 5)[i].to(device) for i in range(3))
    for transformed in (
        lambda f: grad(f)(z),
        lambda f: jvp(f, (z,), (u,))[1],
        lambda f: jvp(lambda v: jvp(f, (v,), (w,))[1], (z,), (u,))[1],
        lambda f: jvp(grad(f), (z,), (u,))[1],
        lambda f: grad(lambda v: jvp(f, (v,), (u,))[1])(z),
        lambda f: hessian(f)(z),
        lambda f: jacrev(jacfwd(f))(z),
        lambda f: vmap(grad(f))(torch.stack([z, u])),
    ):
        got, want = transformed(weighted(ours(name), w)), transformed(weighted(getattr(torch, name), w))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@NAME
def test_dual_numbers(name, device):
    """Forward mode by itself, without torch.func."""
    x, tangent = random(3, 5).to(device), random(5, 3).T.to(device)
    with forward_ad.dual_level():
        got, want = (f(forward_ad.make_dual(x, tangent), -1) for f in (ours(name), getattr(torch, name)))
        torch.testing.assert_close(*(forward_ad.unpack_dual(y).tangent for y in (got, want)))


@NAME
def test_vmap(name, device):
    x = random(12, 7).view(3, 4, 7).to(device)
    f, want = ours(name), getattr(torch, name)
    for in_dim in range(3):
        for dim in (0, 1, -1):
            got = torch.vmap(lambda v, dim=dim: f(v, dim), in_dims=in_dim)(x)
            right = torch.vmap(lambda v, dim=dim: want(v, dim), in_dims=in_dim)(x)
            torch.testing.assert_close(got, right)
    grad, y = torch.randn(4, 7, device=device), torch.rand(3, 4, 7, device=device)
    for operator in (REGISTERED["softmax_backward"], REGISTERED["log_softmax_backward"]):
        batched = torch.vmap(operator, in_dims=(None, 0, None, None))(grad, y, 1, "cuda")
        each = [operator(grad, one, 1, "cuda") for one in y]
        torch.testing.assert_close(batched, torch.stack(each))


@pytest.mark.parametrize("name", REGISTERED)
def test_opcheck(name, device):
    x = random(4, 5).to(device)
    tensors = [x.clone().requires_grad_() for _ in range(2 if "backward" in name else 1)]
    torch.library.opcheck(REGISTERED[name], (*tensors, 0, "cuda"))


@NAME
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_compiled(name, compiler, device):
    """One graph, from a function of the public operator, with its gradient, for any number of rows."""

    def loss(f, x):
        return f(2 * x, 0).square().sum()

    torch.compiler.reset()
    compiled = torch.compile(functools.partial(loss, ours(name)), backend=compiler, fullgraph=True)
    for rows in (3, 5):
        x = random(rows, 4).to(device)
        results = []
        for function in (compiled, functools.partial(loss, ours(name))):
            leaf = x.clone().requires_grad_()
            y = function(leaf)
            y.backward()
            results.append((y, leaf.grad))
        torch.testing.assert_close(*results)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), results[0][0])


def test_torch_may_use_what_it_deprecates():
    """On a GPU, torch.compiler.reset is the first to import this module, which warns. Others may not."""
    importlib.reload(importlib.import_module("torch.utils.mkldnn"))
    with pytest.raises(DeprecationWarning, match="ours"):
        warnings.warn("`torch.jit.script_method` is ours", DeprecationWarning, stacklevel=1)


@NAME
def test_traced_and_fake(name, device):
    """A trace records the operator, not the address of its first input."""
    x = random(3, 5).to(device)
    traced = torch.fx.experimental.proxy_tensor.make_fx(ours(name))(x)
    assert f"camp_softmax.{name}.default" in traced.code
    assert traced(2 * x).equal(ours(name)(2 * x))
    for fake in (x.to("meta"), FakeTensorMode().from_tensor(x)):
        y, want = ours(name)(fake, 0), getattr(torch, name)(x, 0)
        assert (y.shape, y.dtype, y.device, y.stride()) == (
            want.shape,
            want.dtype,
            fake.device,
            want.stride(),
        )


@NAME
def test_subclasses_and_modes(name, device):
    """Each sees the operator, and a subclass is handed on."""
    x, seen = random(3, 5).to(device), []

    def see(mode, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))

    class Tagged(Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return super().__torch_function__(function, types, args, kwargs)

    class FunctionMode(TorchFunctionMode):
        __torch_function__ = see

    class DispatchMode(TorchDispatchMode):
        __torch_dispatch__ = see

    want = ours(name)(x)
    y = ours(name)(x.as_subclass(Tagged))
    assert type(y) is Tagged
    assert y.as_subclass(Tensor).equal(want)
    assert f"camp_softmax.{name}.default" in seen
    for mode in (FunctionMode(), DispatchMode()):
        seen.clear()
        with mode:
            y = ours(name)(x)
        assert y.equal(want)
        assert f"camp_softmax.{name}.default" in seen


def test_a_plain_call_goes_straight_to_the_kernel(monkeypatch, device):
    """And every other one does not."""
    calls = []
    monkeypatch.setitem(camp_softmax.api.OPERATORS, "softmax", lambda *_: calls.append(1))
    x = torch.zeros(2, 3, device=device)
    ours("softmax")(x)
    ours("softmax")(torch.nn.Parameter(x, requires_grad=False))
    assert not calls
    ours("softmax")(x.requires_grad_())
    assert calls


# --- torch's own samples ----------------------------------------------------------------------------------

OPINFOS = [info for info in op_db if info.name in NAMES]


def of_info(info) -> str:
    return f"{info.name} {info.variant_test_name}".strip()


@pytest.mark.filterwarnings("ignore:Casting complex values to real:UserWarning")
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("info", OPINFOS, ids=of_info)
def test_torch_s_own_samples(info, device):
    """All dtypes that torch takes; shapes, dtypes and strides are torch's, values the float64 ones."""
    differences, count = [], 0
    torch.manual_seed(0)
    for dtype in sorted(info.supported_dtypes(device), key=str):
        # Not info.sample_inputs, which looks up the stack and its source for each sample.
        for sample in info.sample_inputs_func(info, device, dtype, False):
            x, args, kwargs = sample.input, sample.args, sample.kwargs
            want = info.op(x, *args, **kwargs)
            of_kernel = want.dtype in DTYPES
            if of_kernel:
                others = {key: value for key, value in kwargs.items() if key != "dtype"}
                right = info.op(x.cpu().to(want.dtype).double(), *args, **others)
                allowed = 2 * reference.UNIT_ROUNDOFF[want.dtype] * right.abs() + 40 * 2.0**-24
            backend = "cuda" if of_kernel else "auto"
            try:
                y = getattr(camp_softmax, info.name)(x, *args, **kwargs, backend=backend)
                assert (y.shape, y.dtype, y.device) == (want.shape, want.dtype, want.device)
                assert y.stride() == want.stride()
                if of_kernel:
                    compare(y, right, allowed)
                else:
                    assert y.equal(want)
            except (AssertionError, RuntimeError, IndexError, TypeError) as error:
                differences.append(
                    f"{dtype} {tuple(x.shape)} {args} {kwargs}: {type(error).__name__}: {error}"
                )
            count += 1
    assert not differences, "\n".join(differences)
    assert count > 20


# --- differences from torch, by their ids in docs/*/contract.md ------------------------------------------


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The shape or the layout of its result, or the name of its error."""
    try:
        y = function(*arguments, **named)
    except Exception as error:
        return type(error).__name__
    return tuple(y.shape) if y.layout is torch.strided and not y.is_nested else y.layout


def gradient_at_infinity(module: ModuleType, device: str) -> str:
    x = torch.tensor([1.0, 2.0, INF], device=device, requires_grad=True)
    module.logsumexp(x, -1).backward()
    return str(x.grad.tolist())


def gradient_in_16_bits(module: ModuleType, device: str) -> float:
    x = torch.linspace(100, 110, 1000, device=device).half().requires_grad_()
    module.logsumexp(x, -1).backward()
    return round(x.grad.float().sum().item(), 2)


def no_dimension(module: ModuleType, device: str) -> list[Any]:
    x = torch.zeros(2, 3, device=device)
    return [outcome(module.logsumexp, x, (), keepdim) for keepdim in (False, True)]


def default_dimension(module: ModuleType, device: str) -> list[Any]:
    x = torch.zeros(2, 3, device=device)
    return [outcome(getattr(module, name), x) for name in NAMES]


def arguments(module: ModuleType, device: str) -> list[Any]:
    x = torch.zeros(2, 3, device=device)
    return [
        outcome(module.softmax, input=x, dim=0),
        outcome(module.softmax, x, 0, out=x.clone()),
        outcome(module.softmax, x, 0, torch.float32),
    ]


def layouts(module: ModuleType, device: str) -> list[Any]:
    x = torch.zeros(2, 3)
    nested = torch.nested.nested_tensor([x, x[:1]], layout=torch.jagged)
    return [outcome(module.softmax, x, -1) for x in (nested, x.to_mkldnn(), x.to_sparse())]


def rows(module: ModuleType, device: str) -> Any:
    return outcome(module.softmax, torch.zeros(1, 1, device=device).expand(2**31, 1), -1)


REFUSED = "NotImplementedError"
DIFFERENCES: dict[Callable[[ModuleType, str], Any], tuple[Any, Any]] = {  # here, in torch
    gradient_at_infinity: ("[nan, nan, nan]", "[0.0, 0.0, nan]"),
    gradient_in_16_bits: (1.0, 0.98),
    no_dimension: ([(), (1, 1)], ["RuntimeError", (1, 1)]),
    default_dimension: ([(2, 3), (2, 3), (2,)], 3 * ["TypeError"]),
    arguments: (3 * ["TypeError"], 3 * [(2, 3)]),
    layouts: (3 * [REFUSED], [torch.jagged, torch._mkldnn, REFUSED]),
    rows: ("ValueError", None),  # not run: the result takes 8 GiB
}


@pytest.mark.parametrize("observe", DIFFERENCES)
def test_a_difference_from_torch(observe, device):
    here, there = DIFFERENCES[observe]
    assert observe(camp_softmax, device) == here
    if there is not None:
        assert observe(torch, device) == there


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_contract_lists_these_differences(language):
    page = (ROOT / "docs" / language / "contract.md").read_text("utf-8")
    (section,) = re.findall(r"^## .*\{#differences\}\n(.*?)^## ", page, re.M | re.S)
    ids = re.findall(r"^### .*\{#([\w-]+)\}$", section, re.M)
    assert ids == [observe.__name__.replace("_", "-") for observe in DIFFERENCES]


# --- laws -------------------------------------------------------------------------------------------------

LENGTHS = st.sampled_from([1, 5, 8, 33])  # of two together, only 16 is another kernel


@st.composite
def a_row(draw):
    """Of multiples of 1/8 up to 50, so that a shift by an integer is exact."""
    length = draw(LENGTHS)
    eighths = draw(st.lists(st.integers(-400, 400), min_size=length, max_size=length))
    return torch.tensor(eighths, dtype=torch.float32) / 8


LAW = settings(max_examples=25, deadline=None, derandomize=True)


@LAW
@given(a_row(), st.sampled_from(DTYPES))
def test_laws_of_softmax(x, dtype):
    x = x.to(dtype)
    y = ours("softmax")(x)
    CHECKS["softmax"](lambda _: y, x)
    assert (y >= 0).all()
    torch.testing.assert_close(
        y.double().sum(), torch.tensor(1.0).double(), rtol=reference.rtol(dtype, len(x)), atol=0
    )
    order = x.argsort(stable=True)
    assert (y[order].diff() >= 0).all()
    for name in ("log_softmax", "logsumexp"):
        CHECKS[name](ours(name), x)


@LAW
@given(a_row(), st.integers(-1000, 1000), st.randoms(use_true_random=False))
def test_shift_and_permutation(x, shift, shuffled):
    y = ours("softmax")(x)
    torch.testing.assert_close(ours("softmax")(x + shift), y, rtol=0, atol=0)
    assert (ours("logsumexp")(x + shift) - ours("logsumexp")(x) - shift).abs() <= 2e-4
    order = list(range(len(x)))
    shuffled.shuffle(order)
    torch.testing.assert_close(ours("softmax")(x[order]), y[order], rtol=2 * len(x) * 2.0**-24, atol=0)


@LAW
@given(a_row(), a_row())
def test_a_row_in_two_parts(a, b):
    """logsumexp of the parts' logsumexps, and weights that are rescaled by them."""
    whole, parts = ours("logsumexp")(torch.cat([a, b])), [ours("logsumexp")(part) for part in (a, b)]
    merged = ours("logsumexp")(torch.stack(parts))
    torch.testing.assert_close(merged, whole, rtol=4 * 2.0**-24, atol=1e-4)
    weights = torch.cat(
        [ours("softmax")(p) * (lse - whole).exp() for p, lse in zip((a, b), parts, strict=True)]
    )
    torch.testing.assert_close(weights, ours("softmax")(torch.cat([a, b])), rtol=1e-4, atol=1e-37)


def test_a_missing_backend_is_found_out_once(monkeypatch):
    """Then "auto" on a CUDA device is TileLang."""
    kernels._cuda.cache_clear()

    def missing(name):
        raise RuntimeError("no cuda-core")

    monkeypatch.setattr(kernels, "_backend", missing)
    try:
        assert kernels._cuda() is None
    finally:
        kernels._cuda.cache_clear()


def test_who_is_asked(monkeypatch, device):
    """The backend that is named, for the gradient too; "auto" is CUDA on a CUDA device, TileLang on a CPU."""
    asked, of = [], camp_softmax.api.kernels._backend
    monkeypatch.setattr(camp_softmax.api.kernels, "_backend", lambda name: asked.append(name) or of(name))
    auto = "cuda" if device == "cuda" else "tilelang"
    x = torch.zeros(2, 3, device=device, requires_grad=True)
    for named, wanted in {"auto": auto, "cuda": "cuda", "nvidia": "cuda", "tilelang": "tilelang"}.items():
        y = ours("softmax", named)(x)
        assert set(asked) == {wanted}
        asked.clear()
        y[0, 0].backward()
        assert set(asked) == {wanted}
        asked.clear()


def test_a_compiler_is_needed_on_a_cpu_only(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cpu, "require_compiler", lambda: pytest.fail("asked for a compiler"))
    kernels._backend.__wrapped__("tilelang")


def test_a_gpu_needs_its_runtime(monkeypatch):
    def missing(on_gpu):
        raise ImportError("no cuda-core")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "_runtime", missing)
    with pytest.raises(RuntimeError, match="backend 'cuda' does not work here: no cuda-core"):
        kernels._backend.__wrapped__("cuda")


def test_as_many_rows_as_the_kernels_count():
    kernels._check_count("softmax", torch.zeros(1, 2).expand(LARGEST, 2), 2)
    rows = torch.zeros(1, 2).expand(LARGEST + 1, 2)
    with pytest.raises(ValueError, match="expected up to 2147483647 rows"):
        kernels._check_count("softmax", rows, 2)
    with pytest.raises(ValueError, match="expected up to 2147483647 rows"):
        REGISTERED["softmax_backward"](rows, rows, 1, "cuda")


def test_the_tilelang_kernel_is_checked():
    with pytest.raises(ValueError, match=r"expected rows \(N, M\)"):
        tilelang_backward.softmax(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match=r"argument DX: expected shape|argument Y: expected shape"):
        tilelang_backward.log_softmax(torch.zeros(3, M), torch.zeros(2, M))
