# SPDX-License-Identifier: Apache-2.0
"""Python processes that begin with torch imported, for tests that start many.

    subprocess.run([*warm_python.command(), path, "argument"])
    subprocess.run([*warm_python.command(warm_python.CAPTURE), "-c", "import torch; ..."])

A server imports torch, or what else is named, once; each process is a fork of it, with the
environment, folder and open files that it was started with. What is started stands for the
fork: signals go through, and it ends as the fork ended, whose number is another. A variable that
decides how Python or torch begin has it begin afresh.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import random
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from typing import Any

# What torch.compile imports when it first captures something.
CAPTURE = ("torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor.decomposition")

# Variables that are read before a program's first line, or when torch is imported. It sets the
# folder of TorchInductor itself.
_AT_START = re.compile(
    r"^(PYTHON(?!DONTWRITEBYTECODE$)|TORCH(?!INDUCTOR_CACHE_DIR$)|PYTORCH|OMP_|GOMP_|KMP_"
    r"|MKL_|OPENBLAS|LD_|MALLOC_|CUDA_|NVIDIA_|LC_|LANG|GLIBC)"
)
_MOST_FILES = 253  # that one message of a Unix socket takes
_HEADER = struct.Struct("!I")
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@functools.cache
def _server(modules: tuple[str, ...]) -> str:
    """Starts a server, which ends with this process; its address."""
    folder = tempfile.TemporaryDirectory(prefix="tdwarm")
    address = os.path.join(folder.name, "s")
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", address, *modules],
        stdin=subprocess.PIPE,  # whose end ends it
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("TENSORD_")},
    )
    assert process.stdout is not None and process.stdin is not None
    if not process.stdout.readline():
        raise RuntimeError(f"the server of warm Pythons did not start: {process.wait()}")
    own = os.getpid()

    def end() -> None:
        if os.getpid() == own:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            folder.cleanup()

    atexit.register(end)
    return address


def command(modules: tuple[str, ...] = ("torch",)) -> list[str]:
    """What a command line begins with, in place of `sys.executable`; modules: are imported."""
    return [sys.executable, "-IS", __file__, _server(modules)]


def _decisive(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _AT_START.match(name)}


# -- the process that stands for a fork -----------------------------------------------------------


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _open_files() -> list[int]:
    """What this process was given, by their numbers."""
    return sorted(int(name) for name in os.listdir("/proc/self/fd") if _is_open(int(name)))


def _is_open(number: int) -> bool:  # the folder itself is listed, and is not any more
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


def _signals_to_a_socket() -> socket.socket:
    """Where each signal from now on can be read as a byte: one that comes just before a read begins
    ends that read, which it would not as a handler of Python's."""
    sent, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.detach())
    for number in _FORWARDED:
        signal.signal(number, lambda *_: None)
    return sent


def _stand_for(address: str, arguments: list[str]) -> int:
    """Has the server run it, and says how it ended; begins it afresh where that is not possible."""
    environment, files = dict(os.environ), _open_files()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(address)
            theirs = json.loads(_receive(connection, *_HEADER.unpack(_receive(connection, 4))))
        except (OSError, EOFError):
            theirs = None
        if theirs != _decisive(environment):
            os.execv(sys.executable, [sys.executable, *arguments])
        sent = _signals_to_a_socket()
        request = {
            "arguments": arguments,
            "environment": environment,
            "folder": os.getcwd(),
            "files": files,
        }
        body = json.dumps(request).encode()
        socket.send_fds(connection, [_HEADER.pack(len(body))], files)
        connection.sendall(body)
        for number in files:  # the fork's alone, so that a reader sees its end
            os.close(number)
        while connection not in select.select([connection, sent], [], [])[0]:
            connection.sendall(sent.recv(64))
        (status,) = struct.unpack("!i", _receive(connection, 4))
    if status < 0:  # of a signal, as it did
        with contextlib.suppress(OSError):  # of SIGKILL nothing can be said
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        signal.pause()
    return int(status)


# -- the server -----------------------------------------------------------------------------------


def _requested(
    connection: socket.socket, began_with: dict[str, str]
) -> tuple[dict[str, Any], list[int]] | None:
    """A request and its open files; None where who asked begins afresh."""
    mine = json.dumps(began_with).encode()
    connection.sendall(_HEADER.pack(len(mine)) + mine)
    data, files, _, _ = socket.recv_fds(connection, 4, _MOST_FILES)
    if len(data) != 4:
        return None
    return json.loads(_receive(connection, *_HEADER.unpack(data))), list(files)


class _Server:
    """Forks for who asks; `serve` returns in each fork, with what it is to be.

    began_with: the decisive variables of the server's start; torch sets some itself.
    """

    def __init__(self, address: str, began_with: dict[str, str]) -> None:
        self._began_with = began_with
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address)
        self._listener.listen(64)
        self._woken, wakes = socket.socketpair()
        for end in (self._woken, wakes):
            end.setblocking(False)
        self._wakes = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        self._asked: dict[int, socket.socket] = {}  # by the fork's number

    def serve(self) -> dict[str, Any] | None:
        while True:
            waited = [sys.stdin, self._listener, self._woken, *self._asked.values()]
            ready, _, _ = select.select(waited, [], [])
            if sys.stdin in ready:
                return None
            if self._woken in ready:
                self._reap()
            for number, connection in list(self._asked.items()):
                if connection in ready:
                    self._forward(number, connection)
            if self._listener in ready:
                request = self._fork(self._listener.accept()[0])
                if request is not None:
                    return request

    def _fork(self, connection: socket.socket) -> dict[str, Any] | None:
        found = _requested(connection, self._began_with)
        if found is None:
            connection.close()
            return None
        request, files = found
        number = os.fork()
        if number != 0:
            self._asked[number] = connection
            for file in files:
                os.close(file)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (connection, self._listener, self._woken, self._wakes, *self._asked.values()):
            other.close()
        aside = [fcntl.fcntl(file, fcntl.F_DUPFD, max(request["files"]) + 1) for file in files]
        for file in files:
            os.close(file)
        for file, target in zip(aside, request["files"], strict=True):
            os.dup2(file, target)
            os.close(file)
        return request

    def _reap(self) -> None:
        self._woken.recv(4096)
        while self._asked:
            number, status = os.waitpid(-1, os.WNOHANG)
            if number == 0:
                return
            connection = self._asked.pop(number)
            with contextlib.suppress(OSError):  # who asked has been killed
                connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
            connection.close()

    def _forward(self, number: int, connection: socket.socket) -> None:
        """Signals to the fork; who asked has been killed where there is nothing."""
        if number not in self._asked:
            return
        try:
            data = connection.recv(64)
        except OSError:
            data = b""
        for one in data or [signal.SIGKILL]:
            os.kill(number, one)
        if not data:
            os.waitpid(number, 0)
            self._asked.pop(number).close()


def _become(request: dict[str, Any]) -> None:
    """Runs a command line of Python, as `python3 ARGUMENTS...` would."""
    environment = request["environment"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["folder"])
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    random.seed()
    tempfile.tempdir = None
    arguments = request["arguments"]
    main = sys.modules["__main__"].__dict__
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if arguments[0] == "-c":
        source, name, sys.argv = arguments[1], "<string>", ["-c", *arguments[2:]]
        sys.path[0] = ""
    else:
        name, sys.argv = arguments[0], arguments
        sys.path[0] = os.path.dirname(os.path.abspath(name))
        with open(name, encoding="utf-8") as file:
            source = file.read()
    code = compile(source, name, "exec", dont_inherit=True)
    kept = {key: main[key] for key in ("__builtins__", "__loader__", "__spec__")}
    main.clear()
    main.update(kept, __name__="__main__", __doc__=None, __package__=None)
    if name != "<string>":
        main["__file__"] = name
    exec(code, main)


def _main() -> None:
    if sys.argv[1:2] != ["--serve"]:
        os._exit(_stand_for(sys.argv[1], sys.argv[2:]))
    began_with = _decisive(dict(os.environ))
    for module in sys.argv[3:]:
        importlib.import_module(module)
    # A fork has one thread. OpenBLAS, which begins its own with NumPy, begins them anew there.
    if threading.active_count() > 1:
        raise RuntimeError(f"a thread of {sys.argv[3:]} would be missing in the forks")
    server = _Server(sys.argv[2], began_with)
    gc.freeze()
    print("ready", flush=True)
    request = server.serve()
    if request is not None:
        del server
        _become(request)


if __name__ == "__main__":
    _main()
