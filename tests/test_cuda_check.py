"""The command line that checks a learner's kernel."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from camp_softmax.cuda import check

ROOT = Path(__file__).parents[1]
SAFE = """\
#include "reduce.cuh"
extern "C" __global__ void mine(float* out, const float* in, int rows, int cols) {
    __shared__ float scratch[BLOCK];
    const float* x = in + blockIdx.x * cols;
    float* y = out + blockIdx.x * cols;
    float m = x[0], s = 0;
    for (int j = threadIdx.x; j < cols; j += BLOCK) m = fmaxf(m, x[j]);
    m = block_reduce(m, scratch, [](float a, float b) { return fmaxf(a, b); });
    for (int j = threadIdx.x; j < cols; j += BLOCK) s += expf(x[j] - m);
    s = block_reduce(s, scratch, [](float a, float b) { return a + b; });
    for (int j = threadIdx.x; j < cols; j += BLOCK) y[j] = expf(x[j] - m) / s;
}
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """The exit code and the output for a source, of which some text is replaced."""
    monkeypatch.chdir(tmp_path)

    def run(old="", new="", *options, source=SAFE):
        assert old in source
        Path("mine.cuh").write_text(source.replace(old, new, 1) if old else source)
        code = check.main(["mine.cuh", "--shape", "5x300", *options])
        return code, capsys.readouterr().out

    return run


def test_a_right_kernel(run):
    code, output = run()
    assert (code, output) == (0, "mine: nothing found in 4 inputs of 5x300 under 3 schedules each\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "fmaxf(m, x[j]);",
            "m;",
            "mine.cuh:2: wrong value: mine gives nan where ",
        ),  # the first element for the maximum
        ("m = x[0]", "m = 0", "of negative rows; 1500 of 1500 elements are wrong"),
        ("expf(x[j] - m) / s", "x[j]", "mine.cuh:2: wrong value: "),
        ("y[j] =", "y[j + 1] =", "mine.cuh:11: out of bounds: "),
        ("m = block_reduce", "if (threadIdx.x < 128) m = block_reduce", "barrier divergence: "),
    ],
)
def test_what_is_found(run, old, new, message):
    code, output = run(old, new)
    assert code == 1
    assert message in output
    assert output.count("\n") == 1


def test_a_missing_barrier_is_found_although_the_numbers_are_right(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    code = check.main(["snippets/mistakes/missing_barrier.cuh", "--kernel", "on_time", "--shape", "2x300"])
    output = capsys.readouterr().out
    assert code == 1
    assert output.startswith("snippets/mistakes/missing_barrier.cuh:17: race: ")
    assert " snippets/mistakes/missing_barrier.cuh:9, " in output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("volatile int n = 1; while (n) n = 1;", "mine.cuh:2: no end: still running after 0.2 s"),
        ("while (y[0] != 7) continue;", "mine.cuh:6: no end: still running after 0.1"),
        ("(*(void (*)())cols)();", "mine.cuh:2: crash: the launch died of SIGSEGV"),
    ],
)
def test_no_end_and_a_crash_are_findings(run, monkeypatch, line, message):
    monkeypatch.setattr(check, "GRACE", 0.5)
    code, output = run("float m = x[0]", f"{line} float m = x[0]", "--seconds", "0.2")
    assert (code, output.startswith(message)) == (1, True), output


def test_other_operators_and_forms(capsys):
    path = str(ROOT / "camp_softmax" / "cuda" / "online.cuh")
    for operator in ("softmax", "logsumexp"):
        assert (
            check.main([path, "--kernel", f"{operator}_online", "--operator", operator, "--shape", "2x50"])
            == 0
        )
    assert check.main([path, "--kernel", "logsumexp_online", "--shape", "2x50"]) == 1
    assert "wrong value" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ("int rows, int cols", "int cols", (), "mine.cuh:2: expected the kernel to be mine(float* out"),
        ("fmaxf(m", "undefined(m", (), "mine.cuh does not compile for the CPU"),
        ("", "", ("--kernel", "yours"), "mine.cuh: expected a kernel yours (extern"),
        ("", "", ("--kernel", "mine", "--operator", "softmax", "--threads", "4096"), "up to 1024 threads"),
    ],
)
def test_what_cannot_be_run(run, old, new, options, message):
    code, output = run(old, new, *options)
    assert code == 2
    assert message in output


def test_more_than_one_kernel(run):
    second = 'extern "C" __global__ void __launch_bounds__(256) other() {}\n'
    assert check.find_kernel(ROOT / "camp_softmax" / "cuda" / "single_read.cuh", None)[1] == "single_read"
    code, output = run(source=SAFE + second)
    assert code == 2
    assert "expected one kernel, or --kernel NAME" in output
    assert "['mine', 'other']" in output


@pytest.mark.parametrize("shape", ["64", "0x5", "axb"])
def test_bad_shapes(capsys, shape):
    with pytest.raises(SystemExit):
        check.main(["mine.cuh", "--shape", shape])
    assert "expected ROWSxCOLUMNS such as 64x1000" in capsys.readouterr().err


def test_the_command(tmp_path):
    (tmp_path / "mine.cuh").write_text(SAFE.replace("y[j] =", "y[j + 1] ="))
    command = [
        sys.executable,
        "-m",
        "camp_softmax.cuda.check",
        "mine.cuh",
        "--kernel",
        "mine",
        "--shape",
        "64x1000",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("mine.cuh:11: out of bounds: ")
    assert not done.stderr


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_page_names_every_rule_and_option(language, capsys, monkeypatch):
    page = (ROOT / "docs" / language / "checker.md").read_text("utf-8")
    host = ROOT / "camp_softmax" / "cuda" / "host"
    engine = "".join((host / name).read_text() for name in ("engine.hpp", "engine.cpp", "checker.cpp"))
    rules = {*re.findall(r'"%s: ([a-z ]+): ', engine)}
    rules |= {*re.findall(r"\{place\}: ([a-z ]+): ", Path(check.__file__).read_text())}
    assert {*re.findall(r"^\| `([a-z ]+)` \|", page, re.MULTILINE)} == rules
    stack = re.search(r"STACK = (\d+) << 10;", engine)[1]
    assert f"{stack} KB" in page

    monkeypatch.setenv("COLUMNS", "200")  # no default is broken over two lines
    with pytest.raises(SystemExit):
        check.main(["--help"])
    options = dict(re.findall(r"^  (--\w+)(?s:.*?)default: (.+)$", capsys.readouterr().out, re.MULTILINE))
    rows = dict(re.findall(r"^\| `(--\w+)[^`]*` \| (.+?) \|", page, re.MULTILINE))
    assert rows.keys() == options.keys()
    assert {name: default.strip("`") for name, default in rows.items() if "`" in default} == {
        name: default for name, default in options.items() if name != "--kernel"
    }
