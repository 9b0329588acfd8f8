# SPDX-License-Identifier: Apache-2.0
"""tensord: a torch.compile backend that compiles in a daemon which all jobs of a host share.

    torch.compile(model, backend="tensord")
    tensord.compile(model)  # the same, and Dynamo is imported only to capture
    tensord.explain(model, *args)         # graphs, breaks, guards, what a next process is served
    tensord.profile(step, *args)          # where its time goes, by kernel and line of the model
    tensord.debug.minify(function, args)  # where it differs from eager

Importing this package imports neither torch nor protobuf; torch finds the backend by its entry
point.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from ._version import VERSION as __version__
from .errors import TensordError

# The bundle's copies of h2 and protobuf, for a host that has none: last on the path, so that the
# host's own are preferred.
_VENDORED = os.path.join(os.path.dirname(__file__), "_vendor")
if os.path.isdir(_VENDORED) and _VENDORED not in sys.path:
    sys.path.append(_VENDORED)

__all__ = [
    "TensordError",
    "__version__",
    "compile",
    "daemon_stats",
    "explain",
    "profile",
    "profiling",
    "reset_stats",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name == "debug":  # imports torch
        return importlib.import_module(".debug", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(target: Any = None, **told: Any) -> Any:
    """torch.compile(target, backend="tensord", ...) that imports torch._dynamo only when a function
    is entered that no process has captured yet (frames/entry.py). Imports torch."""
    from .frames import entry

    return entry.compile(target, _backend, **told)


def explain(target: Any, *arguments: Any, **named: Any) -> Any:
    """What torch.compile makes of a call: graphs, breaks, guards, and what the next process would
    be served (debug/explain.py). Imports torch._dynamo."""
    from .debug.explain import explain

    return explain(target, *arguments, **named)


def profile(
    function: Any, /, *arguments: Any, steps: int = 5, warmup: int = 2, **named: Any
) -> Any:
    """Calls a compiled function, or one that calls some, and says where the time of `steps` calls
    went: kernels by operator and line of the model, library calls, gaps (profiles/measure.py).
    Imports torch."""
    from .profiles.measure import profile

    return profile(function, *arguments, steps=steps, warmup=warmup, **named)


def profiling(name: str = "block") -> Any:
    """`with tensord.profiling() as profile:`, a block that is measured in the same way;
    `profile.step()` in it ends a call. Imports torch."""
    from .profiles.measure import profiling

    return profiling(name)


def _backend() -> Any:
    from . import backend

    return backend.compile_fx


def stats() -> dict[str, Any]:
    """What this process compiled, found and ran in eager, and how long it took (counters.py), and
    its `bridge`: "native", or "python" and why. A notebook shows a table."""
    from . import _native
    from .counters import STATS
    from .notebook import Numbers

    return Numbers({**STATS.snapshot(), "bridge": _native.bridge()})


def reset_stats() -> None:
    """Sets this process's statistics to zero."""
    from .counters import STATS

    STATS.reset()


def daemon_stats() -> dict[str, Any]:
    """The daemon's statistics (stats.proto); never starts a daemon.

    Raises TensordError when none answers. `stages` maps a stage's name to nanoseconds,
    `frames_unrecorded` why captures gave no frame to how often, `misses` why programs were compiled
    to how often (server/statistics/miss_reasons.h), and `latencies` an outcome of
    requests to how many took at most so many seconds and more than the bound before. A notebook
    shows a table.
    """
    from .errors import DaemonUnavailableError
    from .notebook import Numbers
    from .v1 import service_pb2
    from .wire import address, rpc

    where = address.resolve()
    if not address.listens(where) or address.foreign_owner(where) is not None:
        raise DaemonUnavailableError(f"no daemon of this user listens on {where}")
    reply = rpc.client().call("GetStats", service_pb2.GetStatsRequest())
    result = {field.name: getattr(reply, field.name) for field in reply.DESCRIPTOR.fields}
    result["stages"] = {stage.stage: stage.nanoseconds for stage in reply.stages}
    result["latencies"] = {
        one.outcome: dict(zip([*one.bounds_seconds, float("inf")], one.counts, strict=True))
        for one in reply.latencies
    }
    for name in ("frames_unrecorded", "misses"):
        result[name] = {one.reason: one.count for one in getattr(reply, name)}
    return Numbers(result)
