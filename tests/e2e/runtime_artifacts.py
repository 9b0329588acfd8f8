# SPDX-License-Identifier: Apache-2.0
"""Artifacts made by hand, for tests of the runtime: a builder, a blob folder, a few kernels."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import torch
from tensord.v1 import artifact_pb2 as a
from tensord.v1 import graph_pb2 as g

REPO = Path(__file__).resolve().parents[2]

DTYPES = {
    torch.uint8: g.DTYPE_UINT8,
    torch.float32: g.DTYPE_FLOAT32,
    torch.float64: g.DTYPE_FLOAT64,
    torch.complex64: g.DTYPE_COMPLEX64,
    torch.int32: g.DTYPE_INT32,
    torch.int64: g.DTYPE_INT64,
    torch.bool: g.DTYPE_BOOL,
}

KERNELS = r"""
#include "tensord/kernel_abi.h"
// out[i] = a[i] * b[i] + c[i] over integers[0] elements
extern "C" void fma3(const TensordKernelArgs* k) {
  const float *x = (const float*)k->buffers[0], *y = (const float*)k->buffers[1],
              *z = (const float*)k->buffers[2];
  float* out = (float*)k->buffers[3];
  for (int64_t i = 0; i < k->integers[0]; ++i) out[i] = x[i] * y[i] + z[i];
}
// out[i] = a[i] + 1 in parallel, through scratch
struct Range { const float* in; float* out; float* scratch; };
extern "C" void plus1(const TensordKernelArgs* k) {
  Range r = {(const float*)k->buffers[0], (float*)k->buffers[1], (float*)k->scratch};
  if (r.scratch) r.scratch[k->host->threads * 16 - 1] = 0;
  k->host->parallel_for(0, k->integers[0], 64, [](int64_t begin, int64_t end, void* p) {
    Range* r = (Range*)p;
    for (int64_t i = begin; i < end; ++i) r->out[i] = r->in[i] + 1;
  }, &r);
}
"""


class Store:
    """A blob folder with one module."""

    def __init__(self, folder: Path, kernels: str = KERNELS) -> None:
        self.folder = folder
        source = folder / "kernels.cc"
        source.write_text(kernels)
        binary = folder / "kernels.so"
        flags = ["-O2", "-shared", "-fPIC", f"-I{REPO}/runtime/include"]
        subprocess.run(["c++", *flags, str(source), "-o", str(binary)], check=True)
        self.content = binary.read_bytes()
        self.digest = self.add(self.content)

    def path(self, digest: bytes) -> Path:
        return self.folder / digest.hex()[:2] / digest.hex()

    def add(self, content: bytes) -> bytes:
        digest = hashlib.sha256(content).digest()
        path = self.path(digest)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.write_bytes(content)
        path.chmod(0o400)
        return digest


def expr(value):
    if isinstance(value, g.SymExpr):
        return value
    return g.SymExpr(constant=value)


def sym(number):
    return g.SymExpr(symbol=number)


def mul(*args):
    return g.SymExpr(op=g.SymOp(kind=g.SymOp.MUL, args=[expr(x) for x in args]))


def meta(sizes, strides=None, dtype=torch.float32, offset=0):
    if strides is None:
        strides, step = [], 1
        for size in reversed(sizes):
            strides.insert(0, step)
            step *= size
    return g.TensorMeta(
        dtype=DTYPES[dtype],
        device=g.DEVICE_TYPE_CPU,
        sizes=[expr(x) for x in sizes],
        strides=[expr(x) for x in strides],
        storage_offset=expr(offset),
    )


def meta_of(tensor):
    return meta(tensor.shape, tensor.stride(), tensor.dtype, tensor.storage_offset())


def arg(value):
    """An Argument: B(n) for buffers, Python values otherwise."""
    if isinstance(value, B):
        return g.Argument(value=g.ValueRef(value=value.number))
    if value is None:
        return g.Argument(none=True)
    if isinstance(value, bool):
        return g.Argument(boolean=value)
    if isinstance(value, int | g.SymExpr):
        return g.Argument(integer=expr(value))
    if isinstance(value, float):
        return g.Argument(real=value)
    if isinstance(value, str):
        return g.Argument(text=value)
    if isinstance(value, torch.dtype):
        return g.Argument(dtype=DTYPES[value])
    if isinstance(value, list):
        return g.Argument(list=g.ArgumentList(items=[arg(x) for x in value]))
    raise TypeError(value)


class B:
    def __init__(self, number):
        self.number = number


class Builder:
    def __init__(self, store):
        self.a = a.Artifact(format_version=6, target=a.Target(cpu=a.CpuTarget(isa=a.ISA_SCALAR)))
        self.a.modules.add(
            kind=a.Module.SHARED_OBJECT, sha256=store.digest, size=len(store.content)
        )

    def buffer(self, **kwargs):
        self.a.buffers.add(**kwargs)
        return B(len(self.a.buffers) - 1)

    def input(self, tensor_meta, name=""):
        self.a.inputs.add(tensor=tensor_meta, name=name or f"x{len(self.a.inputs)}")
        return self.buffer(meta=tensor_meta, input=len(self.a.inputs) - 1)

    def constant(self, tensor):
        self.a.constants.add(meta=meta_of(tensor), data=tensor.numpy().tobytes())
        return self.buffer(meta=meta_of(tensor), constant=len(self.a.constants) - 1)

    def launch(self, function, buffers, integers, written=None, scratch=None):
        launch = a.KernelLaunch(
            module=0,
            function=function,
            buffers=[b.number for b in buffers],
            integers=[expr(x) for x in integers],
            written=[b.number for b in (written or buffers[-1:])],
        )
        if scratch is not None:
            launch.scratch_bytes_per_thread.CopyFrom(expr(scratch))
        self.a.steps.add(launch=launch)

    def call(self, op, args, results, into_out=False, node="n"):
        name, _, overload = op.partition(".")
        self.a.steps.add(
            call=a.ExternCall(
                op=name, overload=overload, args=[arg(x) for x in args],
                results=[b.number for b in results], into_out=into_out, node=node,
            )
        )  # fmt: skip

    def output(self, *buffers):
        for b in buffers:
            self.a.outputs.add(buffer=b.number)


def fma_artifact(store, size=8):
    b = Builder(store)
    x, y, z = (b.input(meta([size])) for _ in range(3))
    out = b.buffer(meta=meta([size]), owned=True)
    b.launch("fma3", [x, y, z, out], [size])
    b.output(out)
    return b.a


def symbolic_artifact(store):
    b = Builder(store)
    b.a.symbols.add(hint=8, min=2, max=1 << 40)
    b.a.symbols.add(hint=3, min=2, max=100)
    product = g.RealOp(
        kind=g.RealOp.MUL, args=[g.RealExpr(constant=1.7), g.RealExpr(integer=sym(0))]
    )
    scaled = g.Definition(rounding=g.Definition.TRUNC, real=g.RealExpr(op=product))
    b.a.symbols.add(hint=13, min=2, max=1700, definition=scaled)
    b.a.inputs.add(size=sym(1), name="k")
    b.a.bindings.add(symbol=0, input=1, dim=0)
    b.a.bindings.add(symbol=1, input=0)
    x = b.input(meta([sym(0), sym(1)], [sym(1), 1]), "x")
    total = mul(sym(0), sym(1))
    t = b.buffer(meta=meta([total], [1]), workspace=expr(64))
    b.a.workspace_bytes.CopyFrom(
        g.SymExpr(op=g.SymOp(kind=g.SymOp.ADD, args=[expr(64), mul(4, total)]))
    )
    out = b.buffer(meta=meta([sym(1), sym(0)], [sym(0), 1]), owned=True)
    b.launch("plus1", [x, t], [total])
    b.launch("plus1", [t, out], [total])
    b.call("aten::add_.Scalar", [out, sym(0), 1], [out])
    b.output(out)
    b.a.outputs.add(integer=total)
    b.a.outputs.add(integer=sym(2))
    return b.a
