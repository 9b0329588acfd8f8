# SPDX-License-Identifier: Apache-2.0
"""The backend that torch.compile(..., backend="tensord") calls, found by its entry point.

A graph goes from here through passes (passes/) and AOTAutograd (capture/) to the daemon (wire/),
and comes back as a program that runs in this process (bridge/).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from . import fallback, passes, torch_compat
from . import options as known_options
from .capture import garbage_collection
from .capture.autograd import autograd
from .counters import STATS
from .errors import TensordError
from .frames import entry, recorded_graphs
from .wire import rpc, spans


def compile_fx(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **extra: Any,
) -> Callable[..., Any]:
    """Compiles a Dynamo graph; the graph's own forward when that cannot be.

    Raises ValueError or TypeError for options that are not known (options.py).
    """
    chosen = known_options.parse(mode, options, extra)
    garbage_collection.watch_dynamo()
    start = time.perf_counter()
    exporting = STATS.seconds("export_seconds")
    before = passes.Snapshot()
    try:
        with garbage_collection.waits(), spans.capturing():
            with spans.timed("greeting"):
                greeting = rpc.client().hello()
            off = known_options.switched_off(chosen)
            before = passes.run("captured", module, off).before
            with recorded_graphs.recording() as record, spans.timed("autograd"):
                run = autograd(chosen, greeting.operators, off)(module, example_inputs)
            return recorded_graphs.attach(run, record)
    except Exception as error:
        if _is_for_dynamo(error):
            raise
        fallback.note(error, f"a graph of {len(module.graph.nodes)} nodes")
        before.restore()  # what failed may have failed because of a pass
        return module.forward
    finally:
        exported = STATS.seconds("export_seconds") - exporting
        STATS.add_seconds("capture_seconds", time.perf_counter() - start - exported)


def _is_for_dynamo(error: Exception) -> bool:
    """True for what Dynamo raises through a backend to itself (restart the analysis, break
    here), and for what it wants to see to break the graph there or to run the frame in eager."""
    if isinstance(error, TensordError):
        return False
    expected = torch_compat.errors_for_dynamo()
    return type(error).__module__.startswith("torch._dynamo") or isinstance(error, expected)


# The package is imported when torch.compile is called: before any capture.
garbage_collection.watch_dynamo()
entry.watch_dynamo(compile_fx)
