# SPDX-License-Identifier: Apache-2.0
"""A job never dies of the compiler: every failure runs in eager, is counted and is said once."""

from __future__ import annotations

import gc
import logging
import time
import warnings
import weakref

import grpc
import pytest
import tensord
import torch
from fake_daemon import BridgeError
from tensord.errors import ExportError
from tensord.fallback import TensordWarning


def f(x):
    return (x * 2).relu() + x.sum()


def run_in_eager(function=f, training=False):
    x = torch.randn(5, requires_grad=training)
    result = torch.compile(function, backend="tensord")(x)
    torch.testing.assert_close(result, function(x))
    if training:
        result.sum().backward()
        assert x.grad is not None


def reasons():
    return tensord.stats()["fallback_reasons"]


@pytest.fixture
def lenient(daemon, monkeypatch):
    monkeypatch.setenv("TENSORD_STRICT", "0")
    return daemon


def test_no_daemon(clean, caplog):
    with caplog.at_level(logging.WARNING, "tensord"), pytest.warns(TensordWarning, match="eager"):
        run_in_eager()
    assert reasons() == {"daemon unavailable": 1}
    assert "TENSORD_AUTOSTART=0" in caplog.text
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TensordWarning)  # once is enough
        run_in_eager(training=True)
    assert reasons() == {"daemon unavailable": 2}


def test_no_daemon_in_strict_mode(clean, monkeypatch):
    monkeypatch.setenv("TENSORD_STRICT", "1")
    with pytest.raises(Exception, match="no daemon listens"):
        run_in_eager()


def test_socket_that_nobody_serves(clean):
    import socket

    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(clean / "s"))
        s.listen(8)  # accepts, and never answers
        start = time.monotonic()
        with pytest.warns(TensordWarning):
            run_in_eager()
        assert time.monotonic() - start < 10
    assert reasons() == {"daemon silent": 1}


def test_other_protocol(lenient):
    lenient.protocol = 99
    with pytest.warns(TensordWarning, match="protocol 99"):
        run_in_eager()
    assert reasons() == {"daemon version": 1}


def test_a_first_greeting_of_a_daemon_that_stops(daemon):
    """The next one is greeted, as after a daemon that this process had."""
    daemon.stopping_hellos = 3
    run_in_eager()
    assert daemon.hellos == 4
    assert reasons() == {} and tensord.stats()["compiled"] == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.INTERNAL, "compiler failed"),
        (grpc.StatusCode.INVALID_ARGUMENT, "graph rejected"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "daemon overloaded"),
        (grpc.StatusCode.FAILED_PRECONDITION, "daemon not ready"),
        (grpc.StatusCode.UNAVAILABLE, "daemon unavailable"),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_compile_fails(lenient, code, reason, training):
    lenient.fail = lambda request: (code, "node 'mul' (aten::mul.Tensor): too hot")
    with pytest.warns(TensordWarning, match="too hot"):
        run_in_eager(training=training)
    assert reasons() == {reason: 2 if training else 1}


def test_only_the_backward_fails(lenient):
    lenient.fail = lambda r: (grpc.StatusCode.INTERNAL, "crash") if r.label == "backward" else None
    with pytest.warns(TensordWarning, match="backward graph runs in eager"):
        run_in_eager(training=True)
    assert tensord.stats()["compiled"] == 1 and reasons() == {"compiler failed": 1}


def test_compile_failure_in_strict_mode(daemon):
    daemon.fail = lambda request: (grpc.StatusCode.INTERNAL, "crash")
    with pytest.raises(tensord.TensordError, match="INTERNAL: crash"):
        run_in_eager()


def test_deadline(lenient, monkeypatch):
    monkeypatch.setenv("TENSORD_TIMEOUT_S", "0.2")
    lenient.delay_s = 1.0
    with pytest.warns(TensordWarning, match="TENSORD_TIMEOUT_S"):
        run_in_eager()
    assert reasons() == {"timeout": 1}


def test_daemon_dies_between_greeting_and_compile(lenient):
    run_in_eager()
    torch._dynamo.reset()
    lenient.stop()
    with pytest.warns(TensordWarning):
        run_in_eager(lambda x: x + 3)
    assert reasons() == {"daemon unavailable": 1}


def test_load_fails(lenient):
    lenient.bridge.load_codes = [1]
    with pytest.warns(TensordWarning, match="runtime"):
        run_in_eager()
    assert reasons() == {"runtime load": 1}


def test_bridge_is_missing(lenient, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tensord.bridge.runtime", None)
    monkeypatch.delattr(tensord.bridge, "runtime")
    with pytest.warns(TensordWarning, match="bridge"):
        run_in_eager()


@pytest.mark.parametrize("code", [2, 3])
def test_corrupt_blob_is_asked_for_once_more(lenient, code):
    lenient.bridge.load_codes = [code]
    run_in_eager()
    assert (lenient.bridge.loads, len(lenient.requests), reasons()) == (2, 2, {})
    assert tensord.stats()["recompiled"] == 1


def test_blob_that_stays_corrupt(lenient):
    lenient.bridge.load_codes = [2, 2]
    with pytest.warns(TensordWarning):
        run_in_eager()
    assert reasons() == {"runtime load": 1}


def test_mismatched_call_runs_in_eager(lenient):
    lenient.bridge.run_codes = [1]
    g = torch.compile(f, backend="tensord")
    x = torch.randn(5)
    with pytest.warns(TensordWarning):
        torch.testing.assert_close(g(x), f(x))
    torch.testing.assert_close(g(x), f(x))
    assert lenient.bridge.runs == 1
    assert tensord.stats()["calls_in_eager"] == 1


def test_operators_errors_are_the_users(lenient):
    lenient.bridge.run_codes = [4]
    with pytest.raises(BridgeError):
        torch.compile(f, backend="tensord")(torch.randn(5))
    assert reasons() == {}


@pytest.mark.parametrize("code", [2, 3])
def test_what_cannot_be_loaded_at_the_first_call_stays_in_eager(lenient, code):
    """A GPU program is given to the driver when it first runs: a cubin for another architecture, or
    a driver that is older than the toolkit, shows only then."""
    lenient.bridge.run_codes = [code, 4]
    g = torch.compile(f, backend="tensord")
    x = torch.randn(5)
    with pytest.warns(TensordWarning, match="runtime load"):
        torch.testing.assert_close(g(x), f(x))
    torch.testing.assert_close(g(x), f(x))  # does not ask the program again
    assert lenient.bridge.run_codes == [4] and lenient.bridge.runs == 0
    assert reasons() == {"runtime load": 1}


@pytest.mark.parametrize("training", [False, True])
def test_out_of_memory_in_mid_plan(lenient, training):
    """torch's own error; the next call works, and nothing of the failed one stays."""
    lenient.bridge.run_codes = [torch.OutOfMemoryError("CUDA out of memory: told to fail")]
    g = torch.compile(f, backend="tensord")
    x = torch.randn(5, requires_grad=training)
    with pytest.raises(torch.OutOfMemoryError):
        g(x)
    kept = weakref.ref(x)
    torch.testing.assert_close(g(x), f(x))
    assert reasons() == {} and tensord.stats()["calls_in_eager"] == 0
    del x
    gc.collect()
    assert kept() is None


def test_a_device_that_is_lost_stays_lost(lenient):
    lenient.bridge.run_codes = [4, 4, 4]
    g = torch.compile(f, backend="tensord")
    for _ in range(3):  # each call says so: eager would only fail otherwise
        with pytest.raises(BridgeError):
            g(torch.randn(5))
    assert reasons() == {} and lenient.bridge.runs == 0


def test_kernels_that_did_not_compile_are_in_the_statistics(lenient):
    lenient.kernel_failures = ["kernel of gelu: error: no_such_name is undefined"]
    run_in_eager()
    stats = tensord.stats()
    assert stats["kernels_failed"] == 1
    assert stats["kernel_failures"] == lenient.kernel_failures
    assert reasons() == {}


def test_export_error_leaves_the_rest_compiled(lenient, monkeypatch):
    from tensord.capture import compile_graph

    def g(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y.sin()

    whole = compile_graph.export.export

    def refusing(module, static=(), donated=()):
        if any("sin" in node.name for node in module.graph.nodes):
            raise ExportError("sin has no form on the wire")
        return whole(module, static, donated)

    monkeypatch.setattr(compile_graph.export, "export", refusing)
    x = torch.randn(4, 2)
    with pytest.warns(TensordWarning, match="export"):
        torch.testing.assert_close(torch.compile(g, backend="tensord")(x), g(x))
    assert tensord.stats()["compiled"] == 1 and reasons() == {"export": 1}


def test_unknown_option_lists_the_known_ones(daemon):
    with pytest.raises(Exception, match=r"unknown option.*'speed'.*'mode', 'deterministic'"):
        torch.compile(f, backend="tensord", options={"speed": 11})(torch.randn(2))
    with pytest.raises(Exception, match="deterministic"):
        torch.compile(f, backend="tensord", options={"deterministic": 1})(torch.randn(2))
    with pytest.raises(Exception, match="reduce-overhead"):
        torch.compile(f, backend="tensord", mode="fastest")(torch.randn(2))


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("default", 0),
        ("reduce-overhead", 1),
        ("max-autotune", 2),
        ("max-autotune-no-cudagraphs", 2),
    ],
)
def test_modes(daemon, mode, number):
    torch.compile(f, backend="tensord", mode=mode)(torch.randn(2))
    assert daemon.requests[-1].options.mode == number


def test_deterministic(daemon):
    torch.compile(f, backend="tensord", options={"deterministic": True})(torch.randn(2))
    assert daemon.requests[-1].options.deterministic


def test_statistics(daemon):
    torch.compile(f, backend="tensord")(torch.randn(2))
    torch._dynamo.reset()
    torch.compile(f, backend="tensord")(torch.randn(2))
    stats = tensord.stats()
    assert (stats["graphs"], stats["compiled"], stats["hits"]) == (2, 1, 1)
    assert stats["kernels"] > 0 and stats["capture_seconds"] > stats["export_seconds"] > 0
    assert tensord.daemon_stats()["requests"] == 2
    assert callable(tensord.stats)
