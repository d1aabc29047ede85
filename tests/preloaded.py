"""Runs `python FILE ARGUMENT...` in a fork of a process that has imported torch and tilelang already.

Nearly every script of a page imports both, which takes longer than the rest of it. The script still has a
process, a session, streams, an environment and a `__main__` of its own. A server runs one at a time:

    server = Server(env)
    script = server.start(["snippets/online/merge.py"], env, stdout, stderr)  # has .pid
    code = script.wait(timeout)
"""

import gc
import json
import os
import runpy
import select
import subprocess
import sys
from pathlib import Path
from typing import IO


class Server:
    """A process that forks for each script."""

    def __init__(self, env: dict[str, str]) -> None:
        # Unbuffered: select() has to see whatever was not read yet.
        command = [sys.executable, __file__]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, bufsize=0, env=env, stdin=pipe, stdout=pipe)

    def start(self, words: list[str], env: dict[str, str], stdout: IO[bytes], stderr: IO[bytes]) -> "Script":
        request = {"words": words, "env": env, "cwd": os.getcwd(), "out": [stdout.name, stderr.name]}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        return Script(self, self.read())

    def close(self) -> None:
        self.process.communicate()  # the end of its requests is its own

    def read(self, timeout: float | None = None) -> int:
        """The next number that it tells.

        Raises:
            subprocess.TimeoutExpired: it told none in that many seconds.
            RuntimeError: it has ended; it said why on stderr.
        """
        pipe = self.process.stdout
        assert pipe is not None
        if timeout is not None and not select.select([pipe], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.process.args, timeout)
        line = pipe.readline()
        if not line:
            raise RuntimeError(
                f"the process that imports torch and tilelang ended with {self.process.wait()}"
            )
        return int(line)


class Script:
    """A script that runs, with as much of subprocess.Popen as its user needs."""

    def __init__(self, server: Server, pid: int) -> None:
        self.server, self.pid = server, pid
        self.code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.code is None:
            self.code = self.server.read(timeout)
        return self.code


def fork_for_each_request() -> dict:
    """Returns the request in the fork that is to serve it; ends the server when its user has gone."""
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            return json.loads(line)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    import tilelang  # noqa: F401
    import torch  # noqa: F401

    gc.freeze()  # a fork that looked through all these objects would copy them, and take a second to end

    request = fork_for_each_request()
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for stream, path in enumerate([os.devnull, *request["out"]]):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, stream)
        os.close(opened)
    sys.argv = request["words"]
    path = Path(sys.argv[0]).resolve()
    sys.path[0] = str(path.parent)
    runpy.run_path(str(path), run_name="__main__")
