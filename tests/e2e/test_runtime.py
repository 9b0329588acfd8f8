# SPDX-License-Identifier: Apache-2.0
"""The runtime and its two bridges, on artifacts made by hand: no daemon, no compiler of ours."""

from __future__ import annotations

import gc
import hashlib

import pytest
import torch
from runtime_artifacts import Builder, Store, expr, fma_artifact, meta, symbolic_artifact
from tensord.bridge import runtime
from tensord.v1 import artifact_pb2 as a

pytest_plugins = ["runtime_fixtures"]


def test_run(load, store):
    program = load(fma_artifact(store))
    x, y, z = torch.randn(3, 8).unbind()
    (out,) = program(x, y, z)
    torch.testing.assert_close(out, x * y + z)
    boxed = [x, y, z]
    (out,) = program(boxed)
    torch.testing.assert_close(out, x * y + z)
    assert boxed == []
    assert (program.num_inputs, program.num_outputs) == (3, 1)


def test_launches_show_in_torchs_profile(load, store):
    program = load(fma_artifact(store))
    inputs = torch.randn(3, 8).unbind()
    with torch.profiler.profile() as profile:
        program(*inputs)
    assert "fma3" in {event.name for event in profile.events()}


def test_outputs_own_their_memory(load, store):
    program = load(fma_artifact(store))
    x, y, z = torch.randn(3, 8).unbind()
    first = program(x, y, z)[0]
    kept = first.clone()
    for _ in range(100):
        program(torch.zeros(8), y, z)
    del program
    gc.collect()
    assert torch.equal(first, kept)
    assert first.untyped_storage().nbytes() == 32


def test_workspace_scratch_and_parallel_for(load, store):
    n = 1000
    b = Builder(store)
    x = b.input(meta([n]))
    t = b.buffer(meta=meta([n]), workspace=expr(64))
    out = b.buffer(meta=meta([n]), owned=True)
    b.a.workspace_bytes.CopyFrom(expr(64 + 4 * n))
    b.launch("plus1", [x, t], [n], scratch=64)
    b.launch("plus1", [t, out], [n])
    b.output(out)
    program = load(b.a)
    for _ in range(3):
        data = torch.randn(n)
        torch.testing.assert_close(program(data)[0], data + 1 + 1)


def test_views(load, store):
    """Views of an input, of an owned buffer, in another dtype, and an input given back."""
    b = Builder(store)
    x = b.input(meta([4, 6]))
    row = b.buffer(meta=meta([6], offset=6), view_of=x.number)
    out = b.buffer(meta=meta([4, 6]), owned=True)
    b.launch("plus1", [x, out], [24])
    transposed = b.buffer(meta=meta([6, 4], [1, 6]), view_of=out.number)
    bits = b.buffer(meta=meta([12], dtype=torch.int32, offset=12), view_of=transposed.number)
    b.output(row, out, transposed, bits, x)
    program = load(b.a)
    data = torch.randn(4, 6)
    got = program(data)
    torch.testing.assert_close(got[0], data[1])
    assert got[0].data_ptr() == data[1].data_ptr()
    torch.testing.assert_close(got[1], data + 1)
    torch.testing.assert_close(got[2], (data + 1).t())
    assert torch.equal(got[3], (data + 1).view(torch.int32).flatten()[12:])
    assert got[4].data_ptr() == data.data_ptr()
    # A view keeps its storage alive by itself.
    only = got[3]
    expected = only.clone()
    del got, data
    gc.collect()
    torch.randn(1000)
    assert torch.equal(only, expected)


def test_input_offset_is_not_compared(load, store):
    b = Builder(store)
    x = b.input(meta([4], offset=2))
    tail = b.buffer(meta=meta([2], offset=4), view_of=x.number)
    out = b.buffer(meta=meta([2]), owned=True)
    b.launch("plus1", [tail, out], [2])
    b.output(out)
    program = load(b.a)
    base = torch.arange(16.0)
    for start in (0, 2, 7):
        torch.testing.assert_close(
            program(base[start : start + 4])[0], base[start + 2 : start + 4] + 1
        )


def test_view_beyond_input_needs_its_storage(load, store):
    b = Builder(store)
    x = b.input(meta([2]))
    wide = b.buffer(meta=meta([6]), view_of=x.number)
    b.output(wide)
    program = load(b.a)
    base = torch.arange(8.0)
    assert torch.equal(program(base[:2])[0], base[:6])
    with pytest.raises(runtime.TensordRuntimeError, match="storage is smaller"):
        program(torch.zeros(2))


def test_constants(load, store):
    b = Builder(store)
    c = b.constant(torch.arange(8.0))
    x = b.input(meta([8]))
    out = b.buffer(meta=meta([8]), owned=True)
    b.launch("fma3", [x, x, c, out], [8])
    b.output(out, c)
    program = load(b.a)
    x = torch.randn(8)
    out, constant = program(x)
    torch.testing.assert_close(out, x * x + torch.arange(8.0))
    constant.zero_()  # the caller's own copy
    torch.testing.assert_close(program(x)[0], out)


def test_in_place_write_to_an_input_and_free(load, store):
    b = Builder(store)
    x, y = b.input(meta([4])), b.input(meta([4]))
    t = b.buffer(meta=meta([4]), owned=True)
    b.launch("plus1", [y, t], [4])
    b.call("aten::copy_", [x, t, False], [x])
    b.a.steps.add(free=t.number)
    b.a.outputs.add(none=True)
    b.a.outputs.add(integer=expr(7))
    program = load(b.a)
    x, y = torch.zeros(4, requires_grad=True), torch.randn(4)
    assert program(x, y) == [None, 7]
    torch.testing.assert_close(x.detach(), y + 1)


def test_symbolic_sizes(load, store):
    program = load(symbolic_artifact(store))
    for n, k in [(8, 3), (2, 2), (1000, 7)]:
        x = torch.randn(n, k)
        out, total, scaled = program(k, x)
        torch.testing.assert_close(out, (x + 2 + n).reshape(k, n))
        assert (total, scaled) == (n * k, int(1.7 * n))
    with pytest.raises(runtime.TensordRuntimeError, match="outside"):
        program(1, torch.randn(8, 1))
    with pytest.raises(runtime.TensordRuntimeError, match=r"computed from others: 1701 is outside"):
        program(3, torch.randn(1001, 3))
    with pytest.raises(runtime.TensordRuntimeError, match=r"'x': expected .*got") as caught:
        program(4, torch.randn(8, 3))
    assert caught.value.code == runtime.INVALID


def test_empty_tensors(load, store):
    b = Builder(store)
    x = b.input(meta([0, 4]))
    t = b.buffer(meta=meta([0, 4]), workspace=expr(0))
    out = b.buffer(meta=meta([0, 4]), owned=True)
    part = b.buffer(meta=meta([0], offset=0), view_of=x.number)
    b.launch("plus1", [x, t], [0])
    b.launch("plus1", [t, out], [0], scratch=0)
    b.output(out, part)
    out, part = load(b.a)(torch.empty(0, 4))
    assert out.shape == (0, 4) and part.shape == (0,)


def test_uncompared_strides(load, store):
    b = Builder(store)
    x = b.input(meta([1, 4], [4, 1]))
    b.output(x)
    program = load(b.a)
    program(torch.zeros(1, 4).as_strided((1, 4), (77, 1)))
    b = Builder(store)
    x = b.input(meta([0, 4], [4, 1]))
    b.output(x)
    load(b.a)(torch.empty(4, 0).t())


WRONG = [
    (lambda: torch.zeros(9), r"input 1 'x1': expected float32\[8\].*got float32\[9\]"),
    (lambda: torch.zeros(8, dtype=torch.float64), "float64"),
    (lambda: torch.zeros(16)[::2], r"strides \[2\]"),
    (lambda: torch.zeros(2, 4), "1 dimensions"),
    (lambda: 3, "expected a tensor"),
    (lambda: None, "expected a tensor"),
    (lambda: torch.zeros(8).to_sparse(), "x1"),
    (lambda: torch.zeros(8, device="meta"), "device"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_wrong_inputs(load, store, make, message):
    program = load(fma_artifact(store))
    with pytest.raises(runtime.TensordRuntimeError, match=message) as caught:
        program(torch.zeros(8), make(), torch.zeros(8))
    assert caught.value.code == runtime.INVALID


def test_wrong_number_of_inputs(load, store):
    program = load(fma_artifact(store))
    with pytest.raises((runtime.TensordRuntimeError, TypeError), match="3 inputs"):
        program(torch.zeros(8))


def test_bad_blobs(load, store, tmp_path):
    artifact = fma_artifact(store)
    flipped = bytearray(store.content + b"\0")
    # Another digest than any loaded module, so that nothing is taken from memory.
    digest = hashlib.sha256(flipped).digest()
    artifact.modules[0].sha256 = digest
    artifact.modules[0].size = len(flipped)

    def expect(code, message):
        with pytest.raises(runtime.TensordRuntimeError, match=message) as caught:
            load(artifact, tmp_path)
        assert caught.value.code == code

    expect(runtime.UNAVAILABLE, "cannot open")
    path = tmp_path / digest.hex()[:2] / digest.hex()
    path.parent.mkdir()
    flipped[len(flipped) // 2] ^= 1
    path.write_bytes(flipped)
    path.chmod(0o600)
    expect(runtime.CORRUPT, "another digest")
    path.write_bytes(flipped[:-1])
    expect(runtime.CORRUPT, "bytes, not")
    flipped[len(flipped) // 2] ^= 1
    path.write_bytes(flipped)
    path.chmod(0o666)
    expect(runtime.CORRUPT, "written by others")
    path.chmod(0o600)
    load(artifact, tmp_path)


def test_garbage_artifacts(load, store):
    with pytest.raises(runtime.TensordRuntimeError) as caught:
        load(a.Artifact())
    assert caught.value.code == runtime.CORRUPT
    missing = fma_artifact(store)
    missing.steps[0].launch.function = "nothing"
    with pytest.raises(runtime.TensordRuntimeError, match="no function 'nothing'"):
        load(missing)


def test_several_blobs_through_equal_descriptors(load, tmp_path):
    """Modules opened in turn get the same descriptor number, and must not be mixed up."""
    answers = []
    for value in (1, 2, 3):
        folder = tmp_path / str(value)
        folder.mkdir()
        one = Store(
            folder,
            '#include "tensord/kernel_abi.h"\n'
            'extern "C" void set(const TensordKernelArgs* k) {'
            f" *(float*)k->buffers[0] = {value}; }}",
        )
        b = Builder(one)
        out = b.buffer(meta=meta([1]), owned=True)
        b.launch("set", [out], [])
        b.output(out)
        answers.append(load(b.a, folder))
    assert [program()[0].item() for program in answers] == [1, 2, 3]
