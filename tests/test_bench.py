"""The benchmark: what it refuses to time, in which order it times, and what its record says."""

import json
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
import torch

from camp_softmax import stamp
from camp_softmax.bench import attention, measure, peers, report, traffic
from camp_softmax.bench.__main__ import RESULTS, arguments, main
from camp_softmax.bench.measure import Case

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CASE = Case("softmax", torch.float32, 40, 100, "cpu")
SMALL = ["--device", "cpu", "--elements", "2^12", "--lengths", "64", "100", "--rounds", "3"]


def softmax(rows):
    return torch.softmax(rows, -1)


@pytest.fixture
def candidate(monkeypatch):
    """Adds a candidate: candidate("half", lambda rows: …)."""
    monkeypatch.setattr(peers, "LOADERS", dict(peers.LOADERS))
    monkeypatch.setattr(report, "LOADERS", peers.LOADERS)

    def add(name, call):
        peers.LOADERS[name] = lambda operator, device: call

    return add


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run on the CPU with every kind of candidate: (record, its text, the plot)."""
    folder = tmp_path_factory.mktemp("bench")
    files = ["--output", str(folder / "new" / "a.json"), "--plot", str(folder / "a.svg")]
    names = ["--candidates", "torch", "tilelang.online", "quack", "cuda.online", "tilelang.cluster"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMMIT", "c0ffee")
        assert main([*SMALL, *names, "--dtypes", "bfloat16", "float32", *files]) == 0
    text = (folder / "new" / "a.json").read_text("utf-8")
    return json.loads(text), text, (folder / "a.svg").read_text("utf-8")


def test_a_record_says_what_ran_where_and_how(small):
    record, text, _ = small
    assert (record["schema"], record["kind"], record["operator"]) == (1, "bandwidth", "softmax")
    assert (record["gpu"], record["note"]) == (False, "CPU: no GPU figure")
    assert record["stamp"] == stamp.stamp("cpu") | {"commit": "c0ffee"}
    assert record["stamp"]["device"] == "CPU"
    assert record["method"]["rounds"] == 3
    assert record["missing"] == dict.fromkeys(
        ["cuda.online", "quack", "tilelang.cluster"], "needs a CUDA device"
    )
    assert record["failures"] == []
    keys = [(m["dtype"], m["N"], m["M"], m["candidate"]) for m in record["measurements"]]
    assert keys == [
        (dtype, N, M, name)
        for dtype in ("float32", "bfloat16")
        for N, M in ((64, 64), (40, 100))
        for name in ("copy", "torch", "tilelang.online")
    ]
    assert text.count("\n  {") == len(keys)  # a line each
    assert json.loads(report.dump(record)) == record


def test_ratios_are_of_the_copy_of_the_same_case(small):
    measurements = small[0]["measurements"]
    copies = {(m["dtype"], m["M"]): m["us"] for m in measurements if m["candidate"] == "copy"}
    for m in measurements:
        assert m["low"] <= m["us"] <= m["high"]
        assert m["ratio"] == pytest.approx(copies[m["dtype"], m["M"]] / m["us"], abs=1e-4)
        assert (m["candidate"] == "copy") == ("error" not in m)
        assert m.get("error", 0.5) < 1
        assert m["first_s"] >= 0


@pytest.mark.parametrize(
    ("operator", "ratio"),
    [("softmax", 0.5), ("logsumexp", 0.5 * 101 / 200), ("softmax_backward", 0.5 * 3 / 4)],
)
def test_what_is_not_written_is_not_counted(monkeypatch, operator, ratio):
    times = {"copy": [9.0, 10.0, 11.0], "torch": [19.0, 20.0, 90.0]}
    monkeypatch.setattr(measure, "timed", lambda *_: times)
    outcome = measure.measure(Case(operator, torch.float32, 40, 100, "cpu"), list(times), 3)
    assert [m.ratio for m in outcome.measurements] == [1.0, ratio]
    assert [m.us for m in outcome.measurements] == [10.0, 20.0]


def test_a_candidate_that_is_wrong_or_raises_is_left_out(candidate, capsys, tmp_path):
    calls = Counter()

    def late(rows):
        calls["late"] += 1
        if calls["late"] == 5:
            raise RuntimeError("enough")
        return softmax(rows)

    def broken(rows):
        raise ValueError("no such\nlength")

    def hole(rows):
        return softmax(rows).index_fill(0, torch.tensor([rows.shape[0] - 1]), torch.nan)

    candidate("half", lambda rows: 0.5 * softmax(rows))
    candidate("naive", lambda rows: rows.exp() / rows.exp().sum(-1, keepdim=True))
    candidate("last row", lambda rows: torch.cat([softmax(rows[:-1]), 1.001 * softmax(rows[-1:])]))
    candidate("hole", hole)
    candidate("wide", lambda rows: softmax(rows).double())
    candidate("broken", broken)
    candidate("late", late)
    names = ["half", "naive", "last row", "hole", "wide", "broken", "late"]
    output = tmp_path / "a.json"
    given = ["--candidates", "torch", *names, "--lengths", "100", "--dtypes", "float32"]
    assert main([*SMALL, *given, "--output", str(output)]) == 0
    record = json.loads(output.read_text("utf-8"))
    reasons = {failure["candidate"]: failure["reason"] for failure in record["failures"]}
    assert sorted(reasons) == sorted(names)
    assert re.match(r"wrong in row \d+: [\d.e+]+ times the tolerance off float64", reasons["half"])
    assert reasons["naive"].endswith("elements are NaN or were never written")
    assert reasons["last row"].startswith("wrong in row 39")
    assert reasons["hole"].startswith("100 of 4000")
    assert "torch.float64" in reasons["wide"]
    assert (reasons["broken"], reasons["late"]) == ("no such length", "enough")
    assert [m["candidate"] for m in record["measurements"]] == ["copy", "torch"]
    assert "half, float32, 40 x 100: wrong in row" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("operator", peers.OPERATORS)
def test_the_check_takes_what_is_right_and_nothing_else(operator, dtype):
    case = Case(operator, dtype, 40, 100, "cpu")
    (x, *_), rows = measure.make_inputs(case)
    if operator == "softmax_backward":
        dy, y = x.float()
        y = (y * (dy - (y * dy).sum(-1, keepdim=True))).to(dtype)
    else:
        y = getattr(torch, operator)(x.float(), -1).to(dtype)
    assert measure.check(case, y, x, rows) <= 1
    with pytest.raises(measure.WrongError, match="times the tolerance"):
        measure.check(case, y * (1 + 8 * torch.finfo(dtype).eps) + y.abs().max() / 50, x, rows)


def test_every_round_launches_each_candidate_once(candidate):
    log, inputs, outputs = [], [], []

    def recording(name):
        def call(rows):
            y = softmax(rows)
            log.append(name)
            inputs.append(rows.data_ptr())
            outputs.append(y.data_ptr())
            return y

        return call

    names = ["a", "b", "copy"]
    for name in names:
        candidate(name, recording(name))
    measure.measure(CASE, names, 8)
    launches = log[len(names) :]  # without the first calls
    rounds = [launches[i : i + 3] for i in range(0, len(launches), 3)]
    assert len(rounds) == measure.WARM_UP + 8
    assert all(sorted(order) == names for order in rounds)
    assert len({tuple(order) for order in rounds}) > 1  # not always behind the same neighbour
    assert len(set(inputs)) == measure.INPUTS
    timed = outputs[-24:]
    assert all(len({*timed[i : i + 3]}) == 3 for i in range(22))  # the last two outputs are still alive


def test_the_first_and_the_last_row_are_checked():
    for N in (10**6, 10**6 + 1):
        rows = measure.sample(N, 128)
        assert (rows[0], rows[-1]) == (0, N - 1)
        assert 8000 < len(rows) <= 8192


def test_a_lost_device_ends_the_run_and_keeps_what_was_measured(candidate, monkeypatch, tmp_path):
    def lost(device):
        raise RuntimeError("context is gone")

    def dies(rows):
        if rows.shape[1] == 100:
            monkeypatch.setattr(measure, "_synchronize", lost)
            raise RuntimeError("misaligned address")
        return softmax(rows)

    candidate("killer", dies)
    output = tmp_path / "a.json"
    given = ["--candidates", "killer", "--dtypes", "float32", "bfloat16", "--output", str(output)]
    assert main([*SMALL, *given]) == 1
    record = json.loads(output.read_text("utf-8"))
    assert {(m["dtype"], m["M"]) for m in record["measurements"]} == {("float32", 64)}
    (failure,) = record["failures"]
    assert (failure["candidate"], failure["shapes"]) == ("killer", [[40, 100]])
    assert failure["reason"] == "lost the device (context is gone): nothing after it was measured"


def test_a_plot_names_every_line_and_the_copy(small):
    svg = ElementTree.fromstring(small[2])
    texts = ["".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"torch", "tilelang.online", "copy 1.0", "float32", "bfloat16"} <= set(texts)
    assert any("CPU: no GPU figure" in text for text in texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}polyline"))) == 4


def test_labels_do_not_overlap():
    places = [
        float(match)
        for label in report._labels([(50.0, "a", "red"), (51.0, "b", "red"), (90.0, "c", "red")], 0, 100)
        for match in re.findall(r' y="([\d.]+)"', label)
    ]
    assert places == [95.0, 56.0, 41.0]


def test_calls_and_first_calls(tmp_path, monkeypatch, capsys):
    """The children start from empty caches and find them filled the second time."""
    output = tmp_path / "a.json"
    monkeypatch.setattr(measure, "BURST", 2)
    given = ["--device", "cpu", "--overhead", "--candidates", "tilelang.online", "--rounds", "2"]
    assert main([*given, "--output", str(output)]) == 0
    record = json.loads(output.read_text("utf-8"))
    torchs, ours = record["measurements"]
    assert [record["kind"], torchs["N"], torchs["M"]] == ["overhead", 16, 256]
    assert [torchs["candidate"], ours["candidate"]] == ["torch", "tilelang.online"]
    assert ours["ratio"] == pytest.approx(ours["us"] / torchs["us"], abs=1e-4)
    assert ours["first_s"] > 2 * ours["cached_s"]
    assert "microseconds of a call" in capsys.readouterr().out


def test_a_first_call_that_fails_leaves_the_time_of_a_call(candidate, capsys, tmp_path):
    candidate("here only", softmax)  # a child does not know it
    given = ["--device", "cpu", "--overhead", "--candidates", "here only", "--rounds", "2"]
    output = tmp_path / "a.json"
    assert main([*given, "--output", str(output)]) == 0
    record = json.loads(output.read_text("utf-8"))
    assert ["first_s" in m for m in record["measurements"]] == [True, False]
    assert record["failures"][0]["reason"] == "its first call fails in a process with empty caches"


def test_attention_beside_torch_s(monkeypatch, tmp_path, capsys):
    """Of each mask, ours as a fraction of torch's; what is wrong is left out."""
    found = attention.candidates()
    found["nearly.causal"] = lambda x: 1.01 * found["sdpa.causal"](x)
    found["not.causal"] = found["sdpa"]
    found["hole"] = lambda x: found["sdpa"](x).index_fill(2, torch.tensor([63]), torch.nan)
    monkeypatch.setattr(attention, "candidates", lambda: found)
    output = tmp_path / "a.json"
    assert main(["--device", "cpu", "--attention", "--rounds", "3", "--output", str(output)]) == 0
    record = json.loads(output.read_text("utf-8"))
    assert (record["kind"], record["operator"], record["missing"]) == ("attention", "attention", {})
    times = {m["candidate"]: m["us"] for m in record["measurements"]}
    assert list(times) == ["sdpa", "tilelang", "sdpa.causal", "tilelang.causal"]
    for m in record["measurements"]:
        theirs = "sdpa.causal" if m["candidate"].endswith("causal") else "sdpa"
        assert m["ratio"] == pytest.approx(times[theirs] / m["us"], abs=1e-4)
        scores = 64 * 65 / 2 if theirs == "sdpa.causal" else 64 * 64
        assert m["tflops"] == pytest.approx(2 * scores * 4 * 64 / m["us"] / 1e6, rel=1e-3)
        assert (m["N"], m["M"]) == (64, 64)
        assert 0 < m["error"] <= 1
    reasons = {failure["candidate"]: failure["reason"] for failure in record["failures"]}
    assert reasons.keys() == {"nearly.causal", "not.causal", "hole"}
    assert reasons["nearly.causal"].endswith("times the tolerance off float64")
    assert reasons["hole"] == "128 of 8192 elements are NaN or were never written"
    assert "speed as a fraction of torch's" in capsys.readouterr().out


@GPU
def test_attention_on_a_gpu(monkeypatch, tmp_path):
    """In the record's own file, at a small size."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        attention, "cases", lambda device: [Case("attention", torch.bfloat16, 300, 128, device)]
    )
    assert main(["--attention", "--rounds", "3", "--record"]) == 0
    (path,) = (tmp_path / RESULTS).glob("*-attention.json")
    record = json.loads(path.read_text("utf-8"))
    assert (record["gpu"], len(record["measurements"]), record["failures"]) == (True, 4, [])


def test_first_calls_of_children_go_into_the_record():
    seconds = measure.compile_all([(CASE, ["torch", "cuda.online"])], 2, lambda text: None)
    assert list(seconds[CASE]) == ["torch"]
    outcome = measure.measure(CASE, ["copy", "torch"], 2, first={"torch": 12.5})
    assert [m.first_s for m in outcome.measurements if m.candidate == "torch"] == [12.5]


def test_random_lengths_come_from_the_seed():
    def lengths(seed):
        options = arguments([*SMALL[:4], "--lengths", "--random", "5", "--seed", seed])
        return [M for _, M in options.shapes]

    assert lengths("1") == lengths("1") != lengths("2")
    assert all(128 <= M <= 4096 for M in lengths("1"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--candidates", "torhc"], "--candidates torhc: expected some of copy, torch, torch.compile"),
        (["--dtypes", "float64"], "invalid choice: 'float64'"),
        (["--lengths", "0"], "expected a positive integer or a power such as 2^27, got '0'"),
        (["--elements", "2**27"], "got '2**27'"),
        (["--lengths", "4096", "--elements", "1000"], "--lengths 4096: a tensor has 1000 elements"),
        (["--lengths"], "nothing to time: give --lengths, --shapes or --random"),
        (["--shapes", "16,256"], "expected rows x columns such as 16x256, got '16,256'"),
        (["--rounds", "1"], "--rounds: expected 2 or more"),
        (["--graph"], "--graph: CUDA graphs need a CUDA device"),
        (["--overhead", "--plot", "a.svg"], "--overhead times calls on 16 x 256"),
        (["--variants"], "--variants: needs a CUDA device"),
        (["--variants", "--lengths", "4096"], "--variants come with their own lengths"),
        (["--attention", "--lengths", "4096"], "--attention comes with its own shapes"),
        (["--attention", "--overhead"], "--attention comes with its own shapes"),
        (["--record"], f"--record: {RESULTS} holds what ran on a GPU; name a file with --output"),
        (["--record", "--output", "a.json"], "--record names the file itself"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(given, message, capsys):
    with pytest.raises(SystemExit):
        main(["--device", "cpu", *given])
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_no_device_to_run_on(capsys):
    with pytest.raises(SystemExit):
        main(["--device", "cuda"])
    assert "torch sees no CUDA device" in capsys.readouterr().err


# What ncu would do: run the program, and write counters of as many kernels as $KERNELS says.
NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
echo '==PROF== Connected' > "$2"
echo '"ID","Metric Name","Metric Unit","Metric Value"' >> "$2"
for i in $KERNELS; do
  echo "\\"$i\\",\\"dram__bytes_read.sum\\",\\"byte\\",\\"3,221,225,472\\"" >> "$2"
  echo "\\"$i\\",\\"dram__bytes_write.sum\\",\\"byte\\",\\"1,073,741,824\\"" >> "$2"
done
while [ "$1" != --launch ]; do shift; done
echo '[["cuda.online", 4096], ["torch", 131072]]' > "$2"
exit $STATUS
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    (tmp_path / "ncu").write_text(NCU)
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    def tells(kernels: str, status: int = 0) -> list[dict]:
        monkeypatch.setenv("KERNELS", kernels)
        monkeypatch.setenv("STATUS", str(status))
        return traffic.measure()

    return tells


def test_the_counters_of_each_kernel_go_to_the_candidate_that_launched_it(ncu):
    found = ncu("0 1")
    assert [(line["candidate"], line["N"], line["M"]) for line in found] == [
        ("cuda.online", 65536, 4096),
        ("torch", 2048, 131072),
    ]
    assert [(line["read"], line["written"]) for line in found] == [(3.0, 1.0), (3.0, 1.0)]


def test_a_kernel_that_nobody_asked_for_is_an_error(ncu):
    with pytest.raises(RuntimeError, match="2 calls launched 3 kernels"):
        ncu("0 1 2")


def test_ncu_that_fails_is_quoted(ncu):
    with pytest.raises(RuntimeError, match="ncu failed: ==PROF== Connected"):
        ncu("0 1", status=1)


@GPU
@pytest.mark.filterwarnings("ignore")  # Inductor's own
@pytest.mark.parametrize("launch", [[], ["--graph"]], ids=["events", "graphs"])
@pytest.mark.parametrize("operator", peers.OPERATORS)
def test_every_candidate_on_a_gpu(operator, launch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [
        "--operator",
        operator,
        "--elements",
        "2^16",
        "--lengths",
        "1000",
        "--rounds",
        "3",
        "--jobs",
        "1",
    ]
    assert main([*given, *launch, "--dtypes", "float32", "bfloat16", "--record"]) == 0
    (path,) = (tmp_path / RESULTS).iterdir()
    record = json.loads(path.read_text("utf-8"))
    assert record["gpu"] is True
    assert record["stamp"]["device"] == torch.cuda.get_device_name()
    ours = {m["candidate"] for m in record["measurements"]} | record["missing"].keys()
    wanted = {name for name in peers.LOADERS if name not in peers.PEERS}
    if operator == "softmax_backward":
        wanted &= set(peers.OF_GRADIENT)
    assert wanted <= ours
    assert not [f for f in record["failures"] if f["candidate"] in wanted and f["dtype"] == "float32"]


@GPU
def test_an_unwritten_output_is_nan_on_a_gpu(candidate):
    candidate("nothing", torch.empty_like)
    case = Case("softmax", torch.float32, 1 << 10, 1 << 12, "cuda")
    torch.use_deterministic_algorithms(False)  # without what fills torch.empty for the other tests
    outcome = measure.measure(case, ["copy", "nothing"], 2)
    assert "never written" in outcome.failures[0][2]
