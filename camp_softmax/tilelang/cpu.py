"""The same TileLang kernel on a CPU: a rewrite of its TIR, so that a learner without a GPU runs what ships.

TileLang's C target knows local buffers and serial loops only. A kernel's fragments and shared tiles
become local buffers, its parallel loops serial ones, and its layout hints are dropped; what is computed,
and in which tiles, stays. One block after the other, one element after the other.

So it cannot show what only parallel hardware does: a race between threads, an uncoalesced access, a
missing barrier. Nor can it run what names a thread or a part of a GPU (warp shuffles, barriers, clusters,
TMA), which is refused with a TypeError, nor bfloat16, which the C target cannot store: widen to float32,
which is exact, and round the result once.
"""

import math
import shutil
import struct

import tilelang
from tilelang.contrib.cc import get_cplus_compiler
from tvm import ir, tirx
from tvm.tirx import PrimFunc

ON_CHIP = ("local", "local.fragment", "local.var", "shared", "shared.dyn")
TILE_OPERATIONS = {"tl.region", "tl.tileop.region", "tl.tileop.copy", "tl.tileop.fill", "tl.tileop.reduce",
                   "tl.tileop.gemm", "tl.tileop.gemm_py", "tl.infinity", "tl.launch_thread_idx"}  # fmt: skip


def compile(program: PrimFunc) -> tilelang.JITKernel:
    """Compiles a GPU program for this machine's CPU.

    Args:
        program: a PrimFunc of TileLang, as the functions of `camp_softmax.tilelang` return it.

    Returns:
        a kernel to be called with CPU tensors, inputs first, the outputs it fills last.

    Raises:
        TypeError: the program uses bfloat16 or an operation that exists on a GPU only.
        RuntimeError: there is no C++ compiler, or no room for its files.

    Example:
        >>> import torch
        >>> from camp_softmax.tilelang.online import softmax_kernel
        >>> x = torch.tensor([[0.0, 1.0, 2.0]])
        >>> y = torch.empty_like(x)
        >>> _ = compile(softmax_kernel(3, "float32"))(x, y)
        >>> y
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    require_compiler()
    check(program)
    try:
        return tilelang.compile(retarget(program), target="c", execution_backend="cython")
    except OSError as error:
        raise RuntimeError(
            f"{program.attrs['global_symbol']}: a file of the compiler cannot be written: {error}"
        ) from error
    except Exception as error:  # whatever of TVM or g++ trips over what `check` does not know
        name, reason = program.attrs["global_symbol"], str(error).strip().splitlines()[-1]
        raise TypeError(f"{name}: the CPU target cannot compile it ({reason}); use a CUDA device") from error


def require_compiler() -> None:
    """Raises the RuntimeError of `compile` where there is no C++ compiler."""
    if not shutil.which(get_cplus_compiler() or ""):
        raise RuntimeError("TileLang's CPU target needs a C++ compiler: install g++, clang++, or set CXX")


def check(program: PrimFunc) -> None:
    """Raises the TypeError of `compile` for what the rewrite cannot carry over."""
    name = program.attrs["global_symbol"]
    for buffer in program.buffer_map.values():
        if str(buffer.dtype) == "bfloat16":
            raise TypeError(
                f"{name}: the CPU target cannot store bfloat16 (argument {buffer.name}): "
                "pass float32, which holds every bfloat16 exactly, and round the result"
            )

    def visit(node: object) -> None:
        dtype = str(getattr(node, "dtype", "") or getattr(getattr(node, "buffer", None), "dtype", ""))
        if dtype.startswith(("bfloat16", "float8", "float4")):
            raise TypeError(f"{name}: the CPU target has no {dtype}; compute in float32 there")
        if (
            isinstance(node, tirx.FloatImm)
            and dtype == "float64"
            and float(f"{node.value:.6e}") != node.value
        ):
            raise TypeError(f"{name}: the CPU target keeps seven digits of the float64 {node.value!r}")
        operation = getattr(getattr(node, "op", None), "name", "")
        if operation.startswith(("tl.", "tirx.ptx", "tirx.cuda")) and operation not in TILE_OPERATIONS:
            raise TypeError(
                f"{name}: {operation} exists on a GPU only; run this kernel on a CUDA device, "
                "or use a kernel of tile operations (T.copy, T.fill, T.reduce_*, T.gemm, T.Parallel)"
            )

    tirx.stmt_functor.post_order_visit(program.body, visit)


def retarget(program: PrimFunc) -> PrimFunc:
    """The program with local buffers and serial loops: same arguments, same arithmetic."""
    return program.with_body(_ToLocal().visit_stmt(program.body))


def _float32(value: float) -> float:
    """The float32 nearest to `value`."""
    return struct.unpack("f", struct.pack("f", value))[0]


@tirx.functor.mutator
class _ToLocal(tirx.PyStmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.local: dict[tirx.Buffer, tirx.Buffer] = {}

    def visit_sblock_(self, op):
        for buffer in op.alloc_buffers:
            if buffer.scope() in ON_CHIP:
                pointer = ir.PointerType(ir.PrimType(buffer.dtype), "local")
                data = tirx.Var(buffer.data.name, pointer)
                self.local[buffer] = tirx.decl_buffer(
                    buffer.shape, buffer.dtype, buffer.name, data=data, scope="local"
                )
        body = self.visit_stmt(op.body)
        buffers = [self.local.get(buffer, buffer) for buffer in op.alloc_buffers]
        hints = {key: value for key, value in op.annotations.items() if key != "layout_map"}
        return tirx.SBlock(
            op.iter_vars, op.reads, op.writes, op.name_hint, body, op.init, buffers, op.match_buffers, hints
        )

    def visit_for_(self, op):
        parallel = op.kind == tirx.ForKind.PARALLEL
        kind, hints = (tirx.ForKind.SERIAL, {}) if parallel else (op.kind, op.annotations)
        body, extent = self.visit_stmt(op.body), op.extent
        if op.thread_binding is not None and isinstance(extent, tirx.FloorDiv):
            # A number of blocks is not negative, so both divisions are the same. This one would become a
            # shift, over which TileLang's prover takes most of the time that a kernel takes to compile.
            extent = tirx.Div(extent.a, extent.b)
        return tirx.For(op.loop_var, op.min, extent, kind, body, op.thread_binding, hints)

    def visit_call_(self, op):
        arguments = [self.visit_expr(argument) for argument in op.args]
        return tirx.Call(op.dtype, op.op, arguments, op.annotations)

    def visit_float_imm_(self, op):
        """The C target prints seven digits of a literal, too few for the lowest finite float32, so such a
        value becomes a sum of two that are printed whole: 22 and 2 bits of its 24."""
        value = _float32(op.value)
        if op.dtype != "float32" or not math.isfinite(value) or value == _float32(float(f"{value:.6e}")):
            return op
        mantissa, exponent = math.frexp(value)
        integer = int(mantissa * 2**24)
        low = int(math.fmod(integer, 4))  # of integer's sign, so that the sum cannot overflow on its way

        def exact(integer: int, exponent: int) -> tirx.PrimExpr:
            return tirx.call_pure_extern(
                "float32", "ldexpf", tirx.FloatImm("float32", integer), tirx.IntImm("int32", exponent)
            )

        return exact((integer - low) // 4, exponent - 22) + exact(low, exponent - 24)

    def visit_buffer_load_(self, op):
        indices = [self.visit_expr(index) for index in op.indices]
        return tirx.BufferLoad(self.local.get(op.buffer, op.buffer), indices)

    def visit_buffer_store_(self, op):
        value = self.visit_expr(op.value)
        indices = [self.visit_expr(index) for index in op.indices]
        return tirx.BufferStore(self.local.get(op.buffer, op.buffer), value, indices)
