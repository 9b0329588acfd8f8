# SPDX-License-Identifier: Apache-2.0
"""The runtime in a process: threads, forks, nesting, leaks, the choice of a bridge, the cost."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
import torch
from runtime_artifacts import Builder, expr, fma_artifact, meta, symbolic_artifact
from tensord.bridge import runtime

pytest_plugins = ["runtime_fixtures"]


def test_threads(load, store):
    program = load(symbolic_artifact(store))
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for i in range(200):
            n = 2 + (seed + i) % 50
            x = torch.randn(n, 3, generator=generator)
            out, *_ = program(3, x)
            if not torch.allclose(out, (x + 2 + n).reshape(3, n)):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_program_inside_a_program(load, store):
    inner = load(fma_artifact(store))
    name = f"tensord_test_{load.name}"

    @torch.library.custom_op(f"{name}::inner", mutates_args=())
    def inner_op(x: torch.Tensor) -> torch.Tensor:
        return inner(x, x, x)[0]

    b = Builder(store)
    x = b.input(meta([8]))
    t = b.buffer(meta=meta([8]), workspace=expr(0))
    b.a.workspace_bytes.CopyFrom(expr(64))
    b.launch("plus1", [x, t], [8])
    out = b.buffer(meta=meta([8]), extern_result=True)
    b.call(f"{name}::inner", [t], [out])
    b.output(out)
    data = torch.randn(8)
    torch.testing.assert_close(load(b.a)(data)[0], (data + 1) ** 2 + data + 1)


def test_fork(load, store):
    program = load(fma_artifact(store))
    x = torch.ones(8)
    program(x, x, x)
    child = os.fork()
    if child == 0:
        ok = (
            torch.equal(program(x, x, x)[0], x + x) and len(load(fma_artifact(store))(x, x, x)) == 1
        )
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_nothing_leaks(load, store):
    b = Builder(store)
    n = 1 << 16
    x = b.input(meta([n]))
    t = b.buffer(meta=meta([n]), owned=True)
    b.launch("plus1", [x, t], [n])
    view = b.buffer(meta=meta([n // 2, 2]), view_of=t.number)
    s = b.buffer(meta=meta([n // 2, 2]), extern_result=True)
    b.call("aten::_softmax", [view, 1, False], [s])
    r = b.buffer(meta=meta([n // 2, 2]), extern_result=True)
    b.call("aten::add.Scalar", [s, 1, 1], [r])
    b.a.steps.add(free=s.number)
    b.output(r, x)
    program = load(b.a)
    data = torch.randn(n)

    def run(times):
        for _ in range(times):
            program([data])
            with pytest.raises(runtime.TensordRuntimeError):
                program(data[1:])

    run(100)
    before = rss()
    run(1000)
    assert rss() - before < 8 << 20  # a leak of one result a call would be 256 MiB

    reference = weakref.ref(out := program(data)[0])
    del out
    assert reference() is None
    count = sys.getrefcount(data)
    out = program(data)
    assert out[1] is data
    del out
    assert sys.getrefcount(data) == count


def test_programs_are_released(load, store):
    artifact = fma_artifact(store)
    load(artifact)
    before = rss()
    for _ in range(500):
        load(artifact)
    gc.collect()
    assert rss() - before < 8 << 20


def test_call_costs_little(load, store):
    """Host time of a call: at most 1.5 us by the native bridge when idle, tested loosely."""
    program = load(fma_artifact(store))
    x, y, z = torch.randn(3, 8).unbind()
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(1000):
            program(x, y, z)
        best = min(best, (time.perf_counter() - start) / 1000)
    print(f"{load.name}: {best * 1e6:.2f} us a call")
    assert best < (5e-6 if load.name == "native" else 200e-6)


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_lent_workspace_is_nothing_to_the_cpu(load, store, monkeypatch, native):
    monkeypatch.setenv("TENSORD_NATIVE", native)
    program = load(fma_artifact(store))
    x = torch.ones(8)
    assert program.workspace_bytes([x, x, x]) == (0, 0)
    with runtime.lent_workspace(torch.zeros(64, dtype=torch.uint8)):
        assert torch.equal(program(x, x, x)[0], x + x)
    with pytest.raises(runtime.TensordRuntimeError, match="3 inputs"):
        program.workspace_bytes([x])


def test_load_program_picks_a_bridge(store, native_built, monkeypatch):
    data = fma_artifact(store).SerializeToString()
    x = torch.ones(8)
    chosen = runtime.load_program(data, store.folder)
    assert torch.equal(chosen(x, x, x)[0], x + x)
    assert isinstance(chosen, runtime.Program) != native_built
    monkeypatch.setenv("TENSORD_NATIVE", "0")
    assert isinstance(runtime.load_program(data, store.folder), runtime.Program)


def test_ctypes_program_hands_over(store, native_built):
    if not native_built:
        pytest.skip("nothing to hand over to")
    data = fma_artifact(store).SerializeToString()
    program = runtime.Program(data, store.folder)
    program._upgrade = (data, str(store.folder))
    x = torch.ones(8)
    program._look_at = time.monotonic() + 60
    program(x, x, x)
    assert program._native is None
    program._look_at = 0.0
    program(x, x, x)
    assert program._native is not None
    assert torch.equal(program(x, x, x)[0], x + x)
