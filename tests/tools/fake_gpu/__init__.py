# SPDX-License-Identifier: Apache-2.0
"""A GPU that computes nothing, on which models are captured as on a real one.

A process that is started with environment() may make fake tensors on "cuda", run models on them
forward and backward, and so see the graphs that the client would send from a host with a GPU. The
daemon compiles these for a target that it is told (`tensorctl compile --target sm_90`). Kernels are
chosen by shapes alone; of attention, the fastest kernels that take its arguments.
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

ROOT = pathlib.Path(__file__).resolve().parents[3]
_aten = torch.ops.aten


@functools.cache
def environment() -> dict[str, str]:
    """What a process needs to have the device; builds its library once a version of torch.

    Raises subprocess.CalledProcessError where the C++ compiler fails.
    """
    library = ROOT / "build" / "fake-gpu" / torch.__version__ / "libfake_gpu.so"
    source = pathlib.Path(__file__).with_name("device.cc")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        home = pathlib.Path(torch.__file__).parent
        include, lib = home / "include", home / "lib"
        made = library.with_suffix(f".{os.getpid()}")
        command = [os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-O1", "-std=c++20"]
        command += [f"-I{include}", f"-I{include}/torch/csrc/api/include", str(source)]
        command += [f"-L{lib}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{lib}", "-o", str(made)]
        subprocess.run(command, check=True)
        made.replace(library)
    return {"LD_PRELOAD": str(library)}


def install(capability: tuple[int, int] = (9, 0)) -> None:
    """Tells this process's torch of the device; before anything is captured, and behind whatever
    is to run for real."""
    warnings.filterwarnings("ignore", message=".*other operators may also be overridden.*")
    answers: dict[str, Any] = {
        "_lazy_init": None,
        "current_device": 0,
        "get_device_capability": capability,
        "is_bf16_supported": True,
        "set_device": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, _answer=answer, **__: _answer)
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    _attention()


@functools.cache
def _attention() -> torch.library.Library:
    """Attention by the kernels that a GPU would choose, which this torch does not have."""
    library = torch.library.Library("aten", "IMPL")
    library.impl(
        "scaled_dot_product_attention", _attend, "CompositeImplicitAutograd", allow_override=True
    )
    return library


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    rest = dropout_p, is_causal
    math = _aten._scaled_dot_product_attention_math
    if query.shape[:-2] != key.shape[:-2]:  # no kernel takes heads that many queries share
        return math(query, key, value, attn_mask, *rest, scale=scale)[0]
    if attn_mask is None and query.dtype in (torch.bfloat16, torch.float16):
        flash = _aten._scaled_dot_product_flash_attention
        return flash(query, key, value, *rest, scale=scale)[0]
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -torch.inf).to(query.dtype)
        attn_mask = attn_mask.expand(*query.shape[:-1], key.size(-2))
        if attn_mask.stride(-1) != 1:  # no kernel takes rows in pieces
            return math(query, key, value, attn_mask, *rest, scale=scale)[0]
    wants_statistics = torch.is_grad_enabled() and query.requires_grad
    efficient = _aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, attn_mask, wants_statistics, *rest, scale=scale)[0]


def move(mode: FakeTensorMode, model: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
    """Puts a model's parameters and buffers on the device, and gives the inputs there. Parameters
    that modules share stay shared."""

    def moved(tensor: Tensor) -> Tensor:
        with mode:
            return torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda"
            )

    @functools.cache
    def parameter(old: nn.Parameter) -> nn.Parameter:
        return nn.Parameter(moved(old), requires_grad=old.requires_grad)

    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None:
                module._parameters[name] = parameter(old)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = moved(buffer)
    return {k: moved(v) if isinstance(v, Tensor) else v for k, v in inputs.items()}
