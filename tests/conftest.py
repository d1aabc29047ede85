"""Options and fixtures of the kernel tests."""

import hypothesis
import pytest
import torch

# A busy machine is slow, and no result depends on how slow.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

BACKENDS = {"tilelang": "tilelang", "cuda": "cuda", "nvidia": "cuda"}  # nvidia: the camp's name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", choices=BACKENDS, help="run the kernel tests of one backend only (default: all)"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    chosen = BACKENDS.get(config.getoption("--backend"), "tilelang and cuda")
    if torch.cuda.is_available():
        return [f"kernels: {chosen} on {torch.cuda.get_device_name()}"]
    where = {
        "tilelang": "tilelang on the CPU (no CUDA device)",
        "cuda": "cuda needs a CUDA device: its tests are skipped here",
    }
    return ["kernels: " + where.get(chosen, "; ".join(where.values()))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        chosen = BACKENDS.get(metafunc.config.getoption("--backend"))
        metafunc.parametrize("backend", [chosen] if chosen else ["tilelang", "cuda"], scope="session")


@pytest.fixture(scope="session")
def device(backend: str) -> str:
    """Where this backend's kernels run here; cuda without a device is skipped."""
    if torch.cuda.is_available():
        return "cuda"
    if backend == "cuda":
        pytest.skip("the CUDA kernels need a CUDA device; test_cuda.py compiles them here")
    return "cpu"


@pytest.fixture(autouse=True)
def poisoned_outputs():
    """torch.empty gives NaN: an element that a kernel forgets to write is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
