"""Timing: candidates are checked, then take turns, the copy among them, so that drift hits all alike."""

import functools
import itertools
import math
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from camp_softmax import reference
from camp_softmax.bench import peers
from camp_softmax.bench.peers import Call

INPUTS = 3  # of a case, at least: they take turns, and so do the outputs
MOST_INPUTS = 64
WARM_UP = 3  # rounds
CLOCK = 2e9  # cycles a second, of a GPU that is not slow
BURST = 200  # calls; CUDA queues about 1000 launches, so the host never waits for the device

Launch = Callable[[], Tensor | None]
Held = deque[Tensor | None]


class WrongError(Exception):
    """A candidate's output is not what the float64 oracle says."""


class LostDeviceError(Exception):
    """A candidate killed the CUDA context: nothing more can be measured in this process."""

    def __init__(self, candidate: str, reason: str) -> None:
        super().__init__(f"lost the device ({reason})")
        self.candidate = candidate


@dataclass(frozen=True)
class Case:
    """One line of the table: the operator on (N, M) rows of a dtype, on "cuda" or "cpu"."""

    operator: str
    dtype: torch.dtype
    N: int
    M: int
    device: str

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.N,) if self.operator == "logsumexp" else (self.N, self.M)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (2, self.N, self.M) if self.operator == "softmax_backward" else (self.N, self.M)

    @property
    def input_bytes(self) -> int:
        return math.prod(self.input_shape) * self.dtype.itemsize

    @property
    def moved_bytes(self) -> int:
        """Read once and written once, whatever the candidate really moves.

        Example:
            >>> Case("softmax", torch.float32, 2, 8, "cpu").moved_bytes
            128
            >>> Case("logsumexp", torch.float32, 2, 8, "cpu").moved_bytes
            72
            >>> Case("softmax_backward", torch.float32, 2, 8, "cpu").moved_bytes
            192
        """
        return self.input_bytes + math.prod(self.output_shape) * self.dtype.itemsize

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def label(self) -> str:
        return f"{self.dtype_name} {self.N} x {self.M}"


@dataclass(frozen=True)
class Measurement:
    """A candidate's time on a case.

    us: median microseconds; low, high: quartiles; ratio: its bandwidth as a fraction of the copy's, or its
    time as a multiple of torch's where calls of the host are timed, or its speed as a fraction of torch's
    where it is attention; error: the largest of a sample, as a share of the tolerance; first_s: seconds of
    the first call, which compiles; cached_s: of the first call of a later process; tflops: of attention.
    """

    dtype: str
    N: int
    M: int
    candidate: str
    us: float
    low: float
    high: float
    ratio: float
    error: float | None
    first_s: float | None = None
    cached_s: float | None = None
    tflops: float | None = None


@dataclass
class Outcome:
    """What came of one or more cases. failures: (case, candidate, reason)."""

    measurements: list[Measurement] = field(default_factory=list)
    failures: list[tuple[Case, str, str]] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.measurements += other.measurements
        self.failures += other.failures


# --- inputs and the check -------------------------------------------------------------------------


def sample(N: int, M: int) -> Tensor:
    """The rows that are checked, in order: the first, the last and others, of 2^20 elements or 16 rows.

    Example:
        >>> sample(3, 8)
        tensor([0, 1, 2])
    """
    count = max(16, 2**20 // M)
    if count >= N:
        return torch.arange(N)
    some = torch.randint(N, (count - 2,), generator=torch.Generator().manual_seed(N))
    return torch.cat([some, torch.tensor([0, N - 1])]).unique()


def make_inputs(case: Case) -> tuple[list[Tensor], Tensor]:
    """Normal rows, so many tensors of them that none is in L2 when its turn comes, and which rows to check.

    Every other row that is checked is 100 higher, so that exp alone would overflow. For the gradient, each
    has a second half, the softmax of such rows.
    """
    rows = sample(case.N, case.M).to(case.device)
    generator = torch.Generator(case.device).manual_seed(case.N * case.M)
    count = INPUTS
    if case.device == "cuda":
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        count = max(INPUTS, min(MOST_INPUTS, 1 + 4 * cache // case.input_bytes))
    inputs = []
    for _ in range(count):
        x = torch.empty(case.input_shape, dtype=case.dtype, device=case.device)
        x.normal_(0, 3, generator=generator)
        x[..., rows[1::2], :] += 100
        if case.operator == "softmax_backward":
            x[1] = x[1].softmax(-1)
        inputs.append(x)
    return inputs, rows


def check_complete(y: Tensor, shape: tuple[int, ...], x: Tensor) -> None:
    """Raises a WrongError unless y has that shape and the dtype and device of x, and no NaN."""
    if tuple(y.shape) != shape or y.dtype != x.dtype or y.device != x.device:
        raise WrongError(
            f"expected {shape}, {x.dtype} on {x.device}, got {tuple(y.shape)}, {y.dtype} on {y.device}"
        )
    if holes := int(y.isnan().sum()):
        raise WrongError(f"{holes} of {y.numel()} elements are NaN or were never written")


def clock(device: str) -> str:
    """What the time of a launch is, in words."""
    if device == "cuda":
        return "microseconds between two CUDA events around a launch, the queue kept full"
    return "microseconds of a call, by the wall clock"


def check(case: Case, y: Tensor, x: Tensor, rows: Tensor) -> float:
    """The largest error of y on the sampled rows, as a share of what `reference.expected` allows.

    Raises:
        WrongError: that share exceeds 1, an element anywhere is NaN, or y has not the shape, dtype and
            device that it must have.
    """
    check_complete(y, case.output_shape, x)
    sampled = x[..., rows, :]
    if case.operator == "softmax_backward":
        want, allowed = reference.expected_backward(*sampled)
    else:
        want, allowed = reference.expected(case.operator, sampled)
    share = ((y[rows].double() - want).abs() / allowed).nan_to_num(torch.inf)
    worst = share.max().item()
    if worst > 1:
        where = int(share.flatten().argmax()) // (share[0].numel())
        raise WrongError(f"wrong in row {int(rows[where])}: {worst:.3g} times the tolerance off float64")
    return worst


def _poison(case: Case) -> None:
    """Frees a block of NaN as large as the output: CUDA's allocator hands it out next, a CPU's perhaps."""
    torch.full(case.output_shape, torch.nan, dtype=case.dtype, device=case.device)


# --- first calls ----------------------------------------------------------------------------------


def first_call(call: Call, x: Tensor) -> tuple[Tensor, float]:
    """The output of a candidate's first call and its seconds, until the device is done."""
    _synchronize(x.device.type)
    start = time.perf_counter()
    y = call(x)
    _synchronize(x.device.type)
    return y, time.perf_counter() - start


@torch.no_grad()
def first_calls(case: Case, names: Sequence[str]) -> dict[str, float]:
    """The seconds of the first call of each candidate that works; in a child, so that its cache is filled."""
    seconds: dict[str, float] = {}
    try:
        x = make_inputs(case)[0][0]
    except RuntimeError:  # no memory, or an earlier case cost this process its device
        return seconds
    for name in names:
        try:
            call = peers.load(name, case.operator, case.device)
            seconds[name] = first_call(call, x)[1]
        except Exception:  # the process that measures meets it again, and says so
            continue
    return seconds


def compile_all(
    cases: Sequence[tuple[Case, Sequence[str]]], jobs: int, say: Callable[[str], None]
) -> dict[Case, dict[str, float]]:
    """The first calls of all cases in `jobs` processes: what they compile is then found on disk."""
    seconds: dict[Case, dict[str, float]] = {}
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = {pool.submit(first_calls, case, names): case for case, names in cases}
            for done, future in enumerate(as_completed(futures), 1):
                seconds[futures[future]] = future.result()
                say(f"compiling {done}/{len(cases)} in {jobs} processes")
    except BrokenProcessPool as error:  # not a result: the cases left are compiled when their turn comes
        say(f"a compiling process died: {error}")
    return seconds


CACHES = (  # where compilers keep what they made: TileLang, cuda-core, Triton, Inductor, quack, the driver
    "TILELANG_CACHE_DIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "QUACK_CACHE_DIR",
    "CUDA_CACHE_PATH",
)  # fmt: skip


def cold_and_cached(case: Case, name: str) -> tuple[float, float]:
    """Seconds of a candidate's first call in a fresh process: with empty caches, then with those it left.

    Importing the candidate and starting CUDA come before; what it imports when it is called counts.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {cache: os.path.join(folder, cache) for cache in CACHES}
        seconds = []
        for _ in range(2):
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, context, _set_environment, (environment,)) as pool:
                seconds.append(pool.submit(first_calls, case, [name]).result()[name])
    cold, cached = seconds
    return cold, cached


def _set_environment(variables: Mapping[str, str]) -> None:
    for folder in variables.values():
        os.makedirs(folder, exist_ok=True)
    os.environ.update(variables)


# --- rounds ---------------------------------------------------------------------------------------


def orders(names: Sequence[str], rounds: int) -> Iterator[list[str]]:
    """Each round's order: every candidate once, behind another neighbour each time.

    Example:
        >>> [sorted(order) for order in orders(["a", "b"], 2)]
        [['a', 'b'], ['a', 'b']]
    """
    shuffle = random.Random(0).sample
    for _ in range(rounds):
        yield shuffle(names, len(names))


@torch.no_grad()
def measure(
    case: Case,
    names: Sequence[str],
    rounds: int,
    *,
    graph: bool = False,
    first: Mapping[str, float] | None = None,
) -> Outcome:
    """Checks the candidates on a case, then times one launch of each in every round.

    Args:
        case: the rows.
        names: candidates that can be loaded, "copy" among them.
        rounds: launches of each that count, 2 or more.
        graph: replay CUDA graphs instead of calling, so that the host does nothing between two events.
        first: seconds of first calls that were made elsewhere, by candidate.

    Raises:
        LostDeviceError: a candidate killed the CUDA context.
        RuntimeError: there is no time of the copy to compare with.
    """
    outcome, inputs, rows = Outcome(), *make_inputs(case)
    ready = _prepare(case, names, inputs[0], rows, outcome)
    held: Held = deque(maxlen=len(inputs) - 1)  # the last outputs live on, so that the next lies elsewhere
    launches: dict[str, list[Launch]] = {}
    capture = (
        functools.partial(_capture, torch.cuda.Stream(), torch.cuda.graph_pool_handle()) if graph else None
    )
    for name, (call, _, _) in ready.items():
        try:
            if capture:
                launches[name] = [capture(call, x, held) for x in inputs]
            else:
                launches[name] = [functools.partial(call, x) for x in inputs]
        except Exception as error:
            give_up(outcome, case, name, error)
    held.clear()
    timed(case, launches, WARM_UP, held, outcome)
    summaries = {name: summary(times) for name, times in timed(case, launches, rounds, held, outcome).items()}
    if "copy" not in summaries:
        raise RuntimeError(f"{case.label()}: the copy failed: {outcome.failures}")
    of_copy = 2 * case.input_bytes / summaries["copy"][0]
    for name, (us, low, high) in summaries.items():
        moved = 2 * case.input_bytes if name == "copy" else case.moved_bytes
        _, worst, seconds = ready[name]
        outcome.measurements.append(
            Measurement(
                case.dtype_name, case.N, case.M, name, us, low, high,
                ratio=round(moved / us / of_copy, 4),
                error=worst,
                first_s=round((first or {}).get(name, seconds), 3),
            )
        )  # fmt: skip
    return outcome


@torch.no_grad()
def overhead(case: Case, names: Sequence[str], rounds: int) -> Outcome:
    """Wall time of a call on the host: bursts of BURST calls, which the device need not keep up with.

    Args:
        case: rows so few that the device is done before the host.
        names: candidates that can be loaded, "torch" among them.
        rounds: bursts of each, 2 or more.

    Raises:
        LostDeviceError, RuntimeError: as for `measure`, with torch instead of the copy.
    """
    outcome, (x, *_), rows = Outcome(), *make_inputs(case)
    ready = _prepare(case, names, x, rows, outcome)
    bursts: dict[str, list[float]] = {name: [] for name in ready}
    for order in orders(list(ready), rounds):
        for name in order:
            call = ready[name][0]
            _synchronize(case.device)
            start = time.perf_counter()
            for _ in range(BURST):
                call(x)
            bursts[name].append((time.perf_counter() - start) / BURST * 1e6)
    _synchronize(case.device)
    if "torch" not in bursts:
        raise RuntimeError(f"{case.label()}: torch failed: {outcome.failures}")
    summaries = {name: summary(times) for name, times in bursts.items()}
    for name, (us, low, high) in summaries.items():
        outcome.measurements.append(
            Measurement(
                case.dtype_name, case.N, case.M, name, us, low, high,
                ratio=round(us / summaries["torch"][0], 4),
                error=ready[name][1],
            )
        )  # fmt: skip
    return outcome


def summary(times: Sequence[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile, to a nanosecond.

    Example:
        >>> summary([1.0, 2.0, 3.0, 4.0, 50.0])
        (3.0, 2.0, 4.0)
    """
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return round(median, 3), round(low, 3), round(high, 3)


def _prepare(
    case: Case, names: Sequence[str], x: Tensor, rows: Tensor, outcome: Outcome
) -> dict[str, tuple[Call, float | None, float]]:
    """The candidates that are right: each with its error and the seconds of its first call."""
    ready: dict[str, tuple[Call, float | None, float]] = {}
    for name in names:
        try:
            call = peers.load(name, case.operator, case.device)
            _poison(case)
            y, seconds = first_call(call, x)
            worst = None if name == "copy" else round(check(case, y, x, rows), 4)
            ready[name] = call, worst, seconds
        except Exception as error:
            give_up(outcome, case, name, error)
    return ready


def _capture(stream: torch.cuda.Stream, pool: Any, call: Call, x: Tensor, held: Held) -> Launch:
    """One call as a CUDA graph. All share the pool, so their outputs take turns as those of calls do."""
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(pool=pool)
        try:
            held.append(call(x))
        finally:
            graph.capture_end()
    return graph.replay


def timed(
    case: Case, launches: dict[str, list[Launch]], rounds: int, held: Held, outcome: Outcome
) -> dict[str, list[float]]:
    """Microseconds of each launch; what fails is taken out of `launches`.

    The host never waits for the device in between, and starts each round behind a kernel that idles as long
    as the host takes for a round: no event waits for a launch.
    """
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in launches}
    turns = itertools.count()
    lead = 1e-3  # seconds
    for order in orders(list(launches), rounds):
        if case.device == "cuda":
            torch.cuda._sleep(int(lead * CLOCK))
        start = time.perf_counter()
        for name in order:
            if name not in launches:
                continue
            launch = launches[name][next(turns) % len(launches[name])]
            try:
                before = _mark(case.device)
                output = launch()
                marks[name].append((before, _mark(case.device)))
                held.append(output)
            except Exception as error:
                give_up(outcome, case, name, error)
                del launches[name]
        lead = min(lead, time.perf_counter() - start)
    _synchronize(case.device)
    held.clear()
    return {name: [_between(*pair) for pair in marks[name]] for name in launches}


def _mark(device: str) -> Any:
    """Now: seconds on a CPU, else a CUDA event in the queue."""
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(before: Any, after: Any) -> float:
    """Microseconds between two marks."""
    return (after - before) * 1e6 if isinstance(before, float) else before.elapsed_time(after) * 1e3


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def give_up(outcome: Outcome, case: Case, name: str, error: Exception) -> None:
    """Notes why a candidate is left out of a case; raises if nothing can run after it."""
    try:
        _synchronize(case.device)
    except Exception as lost:
        raise LostDeviceError(name, peers.reason(lost)) from error
    outcome.failures.append((case, name, peers.reason(error)))
