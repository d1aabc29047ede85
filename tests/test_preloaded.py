"""A script that is forked is to see what it would see on its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from preloaded import Server

TELLS = """
import os, sys
print(sys.argv[1:], __name__, __file__, sys.path[0], os.environ["WORD"], os.getcwd(), sys.stdin.read() == "")
print(os.getsid(0) == os.getpid(), sys.modules["__main__"].__dict__ is globals(), file=sys.stderr)
"""
FAILS = """
import atexit
atexit.register(print, "the end")
def inner():
    raise KeyError("lost")
inner()
"""


@pytest.fixture(scope="module")
def server():
    server = Server(dict(os.environ))
    yield server
    server.close()


@pytest.fixture
def run(server, tmp_path, monkeypatch):
    """The exit code of a script and what it wrote to both streams: of a fork, and of its own process."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "folder" / "script.py"
    script.parent.mkdir()
    env = os.environ | {"WORD": "of this run"}

    def run_both(text: str, *arguments: str):
        script.write_text(text, "utf-8")
        words = ["folder/script.py", *arguments]
        with open("out", "wb") as out, open("err", "wb") as err:
            forked = server.start(words, env, out, err).wait(60)
        yield forked, Path("out").read_text("utf-8"), Path("err").read_text("utf-8")
        command = [sys.executable, *words]
        alone = subprocess.run(
            command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True
        )
        yield alone.returncode, alone.stdout, alone.stderr

    return run_both


def test_a_fork_sees_what_a_process_of_its_own_sees(run):
    forked, alone = run(TELLS, "a", "b")
    assert forked == alone
    assert alone[0] == 0


@pytest.mark.parametrize("text", ["import sys\nsys.exit(7)\n", "import sys\nsys.exit('no')\n", FAILS])
def test_a_fork_ends_as_a_process_of_its_own_does(run, text):
    (code, out, err), alone = run(text)
    assert (code, out, err.splitlines()[-3:]) == (alone[0], alone[1], alone[2].splitlines()[-3:])
    assert code


def test_the_next_script_knows_nothing_of_the_last(run):
    change = "import os, torch\nos.environ['WORD'] = torch.left = 'behind'\n"
    for _ in run(change):
        pass
    (_, out, _), _ = run("import os, torch\nprint(os.environ['WORD'], hasattr(torch, 'left'))\n")
    assert out == "of this run False\n"


def test_a_script_that_hangs_can_be_waited_for_and_ended(server, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("while True: pass\n", "utf-8")
    with open(tmp_path / "out", "wb") as out:
        hanging = server.start([str(script)], dict(os.environ), out, out)
    with pytest.raises(subprocess.TimeoutExpired):
        hanging.wait(0.2)
    os.killpg(hanging.pid, 9)
    assert hanging.wait(10) == -9


def test_a_server_that_cannot_start_says_so(tmp_path, capfd):
    (tmp_path / "tilelang.py").write_text("raise ImportError('broken')", "utf-8")
    server = Server(os.environ | {"PYTHONPATH": str(tmp_path)})
    with pytest.raises(RuntimeError, match="ended with 1"):
        server.read()
    server.close()
    assert "broken" in capfd.readouterr().err
