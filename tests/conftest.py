"""Options and fixtures of the kernel tests."""

import pytest
import torch

BACKENDS = {"tilelang": "tilelang", "cuda": "cuda", "nvidia": "cuda"}  # nvidia: the camp's name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", choices=BACKENDS, help="run the kernel tests of one backend only (default: all)"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    chosen = BACKENDS.get(config.getoption("--backend"), "tilelang and cuda")
    if torch.cuda.is_available():
        return [f"kernels: {chosen} on {torch.cuda.get_device_name()}"]
    return [f"kernels: {chosen} on the CPU (no CUDA device)"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        chosen = BACKENDS.get(metafunc.config.getoption("--backend"))
        metafunc.parametrize("backend", [chosen] if chosen else ["tilelang", "cuda"], scope="session")


@pytest.fixture(scope="session")
def device() -> str:
    """Where the kernels of both backends run here."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned_outputs():
    """torch.empty gives NaN: an element that a kernel forgets to write is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
