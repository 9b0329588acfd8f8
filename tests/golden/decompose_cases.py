#!/usr/bin/env python3
"""Writes decompose_cases.json: one-node graphs with inputs and the results that eager gives.

    .venv/bin/python tests/golden/decompose_cases.py

decompose_golden_test lowers each graph and runs it with the reference interpreter. Run
this again after adding an operator to the tables of compiler/decompose.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from torch._decomp.decompositions import _fused_rms_norm_backward

aten = torch.ops.aten
torch.manual_seed(0)
OUT = Path(__file__).with_name("decompose_cases.json")
INF = float("inf")


def dtype_name(dtype: torch.dtype) -> str:
    return "DTYPE_" + str(dtype).removeprefix("torch.").upper()


def ints(values) -> list[dict]:
    return [{"constant": int(v)} for v in values]


def meta(t: torch.Tensor) -> dict:
    return {
        "dtype": dtype_name(t.dtype),
        "device": "DEVICE_TYPE_CPU",
        "sizes": ints(t.shape),
        "strides": ints(t.stride()),
        "storageOffset": {"constant": 0},
    }


def argument(value, schema_type: str, inputs: list) -> dict:
    if value is None:
        return {"none": True}
    if isinstance(value, torch.Tensor):
        inputs.append(value)
        return {"value": {"value": len(inputs) - 1}}
    if isinstance(value, (list, tuple)):
        return {"list": {"items": [argument(v, schema_type, inputs) for v in value]}}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, torch.device):
        return {"device": "DEVICE_TYPE_" + value.type.upper()}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, int) and schema_type != "float":
        return {"integer": {"constant": value}}
    number = float(value)
    if math.isinf(number):
        return {"real": "Infinity" if number > 0 else "-Infinity"}
    return {"real": number}


def data(t: torch.Tensor) -> dict:
    values = t.detach().double().reshape(-1).tolist()
    if t.dtype != torch.float64:
        values = [float(f"{v:.9g}") for v in values]  # nine digits name a float32 exactly
    whole = [int(v) if v.is_integer() and abs(v) < 2**53 else v for v in values]
    text = [v if math.isfinite(v) else str(v) for v in whole]
    return {
        "sizes": list(t.shape),
        "strides": list(t.stride()),
        "dtype": dtype_name(t.dtype),
        "values": text,
    }


CASES: list[dict] = []


def case(
    op, *args, tolerance: float | None = None, reference=None, device: str = "CPU", **kwargs
) -> None:
    """Records one call; `reference` stands in where eager has no kernel. device: that the graph is
    said to be on, for what is lowered on one kind alone."""
    schema = op._schema
    # Eager first, on copies: some operators write their arguments.
    full = list(args)
    for parameter in schema.arguments[len(args) :]:
        if parameter.name in kwargs:
            full.append(kwargs.pop(parameter.name))
        else:
            full.append(parameter.default_value)
    assert not kwargs, kwargs
    inputs: list[torch.Tensor] = []
    arguments = []
    for value, parameter in zip(full, schema.arguments, strict=True):
        real = str(getattr(parameter, "real_type", parameter.type))
        if "ScalarType" in real and isinstance(value, int):
            raise ValueError("dtypes go by keyword as torch.dtype")
        arguments.append(argument(value, str(parameter.type), inputs))
    before = [data(t) for t in inputs]
    # Keyword-only parameters must be passed by name.
    positional = [v for v, p in zip(full, schema.arguments, strict=True) if not p.kwarg_only]
    named = {p.name: v for v, p in zip(full, schema.arguments, strict=True) if p.kwarg_only}
    results = (reference or op)(*positional, **named)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    outputs = [{"dtype": "DTYPE_UNSPECIFIED"} if r is None else meta(r) for r in results]
    node_value = len(inputs)
    name = op.name().partition(".")
    graph = {
        "inputs": [{"tensor": meta(t), "name": f"x{i}"} for i, t in enumerate(inputs)],
        "nodes": [
            {"op": name[0], "overload": name[2], "args": arguments, "outputs": outputs, "name": "n"}
        ],
        "outputs": [
            {"none": True} if r is None else {"value": {"value": node_value, "output": i}}
            for i, r in enumerate(results)
        ],
    }
    for tensor in [i["tensor"] for i in graph["inputs"]] + outputs:
        tensor.update({"device": f"DEVICE_TYPE_{device}"} if "device" in tensor else {})
    narrow = any(
        t is not None and t.dtype in (torch.bfloat16, torch.float16) for t in inputs + results
    )
    CASES.append(
        {
            "graph": graph,
            "inputs": before,
            "results": [None if r is None else data(r) for r in results],
            "tolerance": tolerance or (2e-2 if narrow else 2e-5),
        }
    )


def rand(*sizes, dtype=torch.float32, scale=2.0) -> torch.Tensor:
    return (torch.randn(*sizes) * scale).to(dtype)


def special() -> torch.Tensor:
    x = rand(4, 5)
    x.view(-1)[:6] = torch.tensor([0.0, INF, -INF, math.nan, 3.0, -3.0])
    return x


def channels_last(*sizes) -> torch.Tensor:
    return rand(*sizes).contiguous(memory_format=torch.channels_last)


def activations() -> None:
    unary = [
        (aten.gelu, ()),
        (aten.silu, ()),
        (aten.relu, ()),
        (aten.relu6, ()),
        (aten.leaky_relu, (0.1,)),
        (aten.elu, (0.7, 1.3, 1.0)),
        (aten.celu, (1.7,)),
        (aten.selu, ()),
        (aten.hardtanh, (-0.5, 0.8)),
        (aten.hardswish, ()),
        (aten.hardsigmoid, ()),
        (aten.softplus, (2.0, 3.0)),
        (aten.mish, ()),
        (aten.sigmoid, ()),
        (aten.log_sigmoid, ()),
        (aten.softshrink, (0.5,)),
        (aten.hardshrink, (0.5,)),
        (aten.threshold, (0.1, 20.0)),
    ]
    for op, args in unary:
        case(op.default, rand(3, 5), *args)
        case(op.default, rand(3, 5, dtype=torch.bfloat16), *args)
        # Vectorised eager gives NaN for gelu of infinity.
        if op is not aten.gelu:
            case(op.default, special(), *args)
    case(aten.gelu.default, rand(3, 5), approximate="tanh")
    case(aten.gelu.default, rand(5, 3).t())
    case(aten.sigmoid.default, torch.arange(-3, 4))
    case(aten.relu.default, torch.arange(-3, 4))
    case(aten.logit.default, torch.rand(7))
    case(aten.logit.default, torch.rand(7), 0.2)
    case(aten.log_sigmoid_forward.default, rand(3, 5))
    case(aten._prelu_kernel.default, rand(2, 3, 4), rand(1, 3, 1))
    case(aten._prelu_kernel_backward.default, rand(2, 3, 4), rand(2, 3, 4), rand(1, 3, 1))
    case(aten.glu.default, rand(3, 6), 1)
    case(aten.glu.default, rand(4, 3), 0)
    case(aten.glu_backward.default, rand(3, 3), rand(3, 6), -1)
    case(aten.native_dropout.default, rand(3, 4), 0.5, False)
    case(aten.dropout.default, rand(3, 4), 0.5, False)
    case(aten.native_dropout_backward.default, rand(3, 4), torch.rand(3, 4) > 0.5, 2.0)

    backward = [
        (aten.threshold_backward, (0.3,)),
        (aten.gelu_backward, ()),
        (aten.silu_backward, ()),
        (aten.tanh_backward, ()),
        (aten.sigmoid_backward, ()),
        (aten.leaky_relu_backward, (0.1, False)),
        (aten.hardtanh_backward, (-0.5, 0.8)),
        (aten.hardswish_backward, ()),
        (aten.hardsigmoid_backward, ()),
        (aten.softplus_backward, (2.0, 3.0)),
        (aten.mish_backward, ()),
        (aten.softshrink_backward, (0.5,)),
        (aten.hardshrink_backward, (0.5,)),
    ]
    for op, args in backward:
        case(op.default, rand(3, 5), rand(3, 5), *args)
        case(op.default, rand(3, 5, dtype=torch.bfloat16), rand(3, 5, dtype=torch.bfloat16), *args)
    case(aten.gelu_backward.default, rand(3, 5), rand(3, 5), approximate="tanh")
    case(aten.elu_backward.default, rand(9), 0.7, 1.3, 1.1, False, rand(9))
    case(aten.elu_backward.default, rand(9), 0.7, 1.3, 1.1, True, rand(9))
    x = rand(9)
    case(aten.log_sigmoid_backward.default, rand(9), x, aten.log_sigmoid_forward(x)[1])


def reductions() -> None:
    x = rand(3, 4, 5)
    case(aten.sum.default, x)
    case(aten.sum.default, torch.tensor(2.5))
    case(aten.sum.default, torch.tensor([True, False, True]))
    case(aten.sum.default, rand(3, 300, dtype=torch.bfloat16, scale=0.1))
    case(aten.sum.dim_IntList, x, [1], False)
    case(aten.sum.dim_IntList, x, [0, -1], True)
    case(aten.sum.dim_IntList, x, [], False)
    case(aten.sum.dim_IntList, x, None, True)
    case(aten.sum.dim_IntList, torch.arange(12).view(3, 4), [0], False)
    case(aten.sum.dim_IntList, x, [1], False, dtype=torch.float64)
    case(aten.sum.dim_IntList, torch.empty(0, 3), [0], False)
    case(aten.mean.default, x)
    case(aten.mean.dim, x, [1, 2], True)
    case(aten.mean.dim, x.bfloat16(), [1], False, dtype=torch.float32)
    case(aten.mean.dim, x.transpose(0, 2), [0], False)
    case(aten.prod.default, x)
    case(aten.prod.dim_int, torch.arange(1, 7).view(2, 3), 1, False)
    case(aten.nansum.default, special(), [1], False)
    nans = special()
    for op in (aten.amax, aten.amin):
        case(op.default, x, [1], False)
        case(op.default, nans, [1], True)
        case(op.default, x, [], False)
        case(op.default, torch.arange(6).view(2, 3), [0], False)
        case(op.default, torch.rand(3, 4) > 0.5, [1], False)
    for op in (aten.max, aten.min):
        case(op.default, x)
        case(op.default, torch.tensor(3))
        case(op.dim, x, 1, False)
        case(op.dim, nans, 0, True)
        case(op.dim, torch.tensor([[1, 3, 3], [2, 2, 1]]), 1, False)
        case(op.dim, torch.rand(3, 4) > 0.5, 1, False)
    for op in (aten.argmax, aten.argmin):
        case(op.default, x)
        case(op.default, x, 2, False)
        case(op.default, x, None, True)
        case(op.default, nans, 1, True)
        case(op.default, x.transpose(0, 1))
    case(aten.aminmax.default, x, dim=1, keepdim=False)
    for op in (aten.any, aten.all):
        case(op.default, x > 1)
        case(op.dim, x > 1, 1, False)
        case(op.dim, x, -1, True)
        case(op.dims, x > 1, [0, 2], False)
        case(op.default, torch.tensor([0, 1, 2], dtype=torch.uint8))
    case(aten.count_nonzero.dim_IntList, x > 0, [1])
    case(aten.count_nonzero.default, torch.arange(5))
    for op in (aten.var, aten.std, aten.var_mean, aten.std_mean):
        case(op.correction, x, [2], correction=0, keepdim=False)
        case(op.correction, x + 100, [0, 1], correction=1, keepdim=True, tolerance=1e-4)
        case(op.correction, x, None)
        case(op.correction, x.bfloat16(), [0])
        case(op.default, x, True)
        case(op.dim, x, [1], False, True)
    case(aten.var.correction, x[:, :1], [1])
    for p in (0, 1, 2, 3, 2.5, INF, -INF):
        case(aten.linalg_vector_norm.default, x, p, [1], False)
    case(aten.linalg_vector_norm.default, x, 2, None, True)
    case(aten.linalg_vector_norm.default, x.bfloat16(), 2, [0], False, dtype=torch.float32)
    case(aten.norm.Scalar, x, 2)
    case(aten.norm.ScalarOpt_dim, x, 2, [1], True)
    case(aten.norm.ScalarOpt_dtype, x, 3, dtype=torch.float64)
    case(aten.norm.ScalarOpt_dim_dtype, x.bfloat16(), 2, [1], False, dtype=torch.float32)
    case(aten._foreach_norm.Scalar, [x, rand(7)], 2)
    case(aten.logsumexp.default, x * 50, [1], False)
    case(aten.logsumexp.default, torch.tensor([[-INF, -INF], [INF, 1.0], [2.0, -INF]]), [1], False)


def softmaxes() -> None:
    x = rand(3, 4, 5)
    masked = torch.tensor([[1.0, -INF, 2.0], [-INF, -INF, -INF], [1.0, math.nan, 0.0]])
    for dim in (0, 1, 2, -1):
        case(aten._softmax.default, x, dim, False)
        case(aten._log_softmax.default, x, dim, False)
    for t in (
        masked,
        x * 100,
        x.bfloat16(),
        torch.tensor(1.5),
        x.transpose(0, 2),
        torch.empty(2, 0),
    ):
        case(aten._softmax.default, t, -1, False)
        case(aten._log_softmax.default, t, -1, False)
    case(aten._safe_softmax.default, masked, -1)
    case(aten._safe_softmax.default, x, 1)
    case(aten.softmax.int, x.bfloat16(), 1, torch.float32)
    case(aten.softmax.int, torch.arange(6).view(2, 3), 1, torch.float32)
    case(aten.log_softmax.int, x, 1)
    y = torch.softmax(x, 1)
    case(aten._softmax_backward_data.default, rand(3, 4, 5), y, 1, torch.float32)
    case(aten._log_softmax_backward_data.default, rand(3, 4, 5), y.log(), 1, torch.float32)


def norms() -> None:
    x = rand(3, 4, 6) + 5
    w, c = rand(6), rand(6)
    yes, no = [True, True, True], [True, False, False]
    for args in (
        (x, [6], w, c),
        (x, [6], None, None),
        (x, [6], w, None),
        (x, [4, 6], rand(4, 6), None),
        (x.bfloat16(), [6], w.bfloat16(), c.bfloat16()),
        (x[0, 0], [6], w, c),
    ):
        case(
            aten.native_layer_norm.default,
            *args,
            1e-5,
            tolerance=3e-2 if args[0].dtype == torch.bfloat16 else 1e-4,
        )
    case(aten.layer_norm.default, x, [6], w, c, tolerance=1e-4)
    _, mean, rstd = aten.native_layer_norm(x, [6], w, c, 1e-5)
    for mask in (yes, no, [False, True, True]):
        case(
            aten.native_layer_norm_backward.default,
            rand(3, 4, 6),
            x,
            [6],
            mean,
            rstd,
            w,
            c,
            mask,
            tolerance=1e-4,
        )
    case(
        aten.native_layer_norm_backward.default,
        rand(3, 4, 6),
        x,
        [6],
        mean,
        rstd,
        None,
        None,
        [True, False, False],
        tolerance=1e-4,
    )
    case(aten._fused_rms_norm.default, x, [6], w, 1e-6)
    case(aten._fused_rms_norm.default, x, [6], None, None)
    rrms = aten._fused_rms_norm(x, [6], w, 1e-6)[1]
    case(
        aten._fused_rms_norm_backward.default,
        rand(3, 4, 6),
        x,
        [6],
        rrms,
        w,
        [True, True],
        reference=_fused_rms_norm_backward,
    )
    case(
        aten._fused_rms_norm_backward.default,
        rand(3, 4, 6),
        x,
        [6],
        rrms,
        None,
        [True, False],
        reference=_fused_rms_norm_backward,
    )
    case(aten.rms_norm.default, x, [4, 6], rand(4, 6), 1e-6)

    image = rand(2, 6, 3, 4) + 1
    cw, cb = rand(6), rand(6)
    case(aten.native_group_norm.default, image, cw, cb, 2, 6, 12, 3, 1e-5, tolerance=1e-4)
    case(aten.native_group_norm.default, image, None, None, 2, 6, 12, 1, 1e-5, tolerance=1e-4)
    case(
        aten.native_group_norm.default,
        channels_last(2, 6, 3, 4),
        cw,
        cb,
        2,
        6,
        12,
        2,
        1e-5,
        tolerance=1e-4,
    )
    case(aten.group_norm.default, rand(4, 6), 3, cw, cb, 1e-5, tolerance=1e-4)
    _, mean, rstd = aten.native_group_norm(image, cw, cb, 2, 6, 12, 3, 1e-5)
    for mask in (yes, no):
        case(
            aten.native_group_norm_backward.default,
            rand(2, 6, 3, 4),
            image,
            mean,
            rstd,
            cw,
            2,
            6,
            12,
            3,
            mask,
            tolerance=1e-4,
        )
    case(
        aten.native_group_norm_backward.default,
        rand(2, 6, 3, 4),
        image,
        mean,
        rstd,
        None,
        2,
        6,
        12,
        3,
        no,
        tolerance=1e-4,
    )

    rm, rv = rand(6), torch.rand(6) + 0.5
    for t in (image, rand(5, 6), channels_last(2, 6, 3, 4), rand(3, 6, 4)):
        case(
            aten._native_batch_norm_legit_functional.default,
            t,
            cw,
            cb,
            rm,
            rv,
            True,
            0.1,
            1e-5,
            tolerance=1e-4,
        )
        case(
            aten._native_batch_norm_legit_no_training.default,
            t,
            cw,
            cb,
            rm,
            rv,
            0.1,
            1e-5,
            tolerance=1e-4,
        )
    case(
        aten._native_batch_norm_legit_functional.default,
        image,
        cw,
        cb,
        rm,
        rv,
        False,
        0.1,
        1e-5,
        tolerance=1e-4,
    )
    case(
        aten._native_batch_norm_legit.default,
        image,
        cw,
        cb,
        rm,
        rv,
        False,
        0.1,
        1e-5,
        tolerance=1e-4,
    )
    case(aten.native_batch_norm.default, image, cw, cb, None, None, True, 0.1, 1e-5, tolerance=1e-4)
    case(aten._native_batch_norm_legit.no_stats, image, cw, None, True, 0.1, 1e-5, tolerance=1e-4)
    case(
        aten._batch_norm_with_update_functional.default,
        image,
        cw,
        cb,
        rm,
        rv,
        0.1,
        1e-5,
        tolerance=1e-4,
    )
    case(aten._batch_norm_no_update.default, image, cw, cb, rm, rv, 0.1, 1e-5, tolerance=1e-4)
    _, mean, rstd, _, _ = aten._native_batch_norm_legit_functional(
        image, cw, cb, rm, rv, True, 0.1, 1e-5
    )
    for mask in (yes, no, [False, True, True]):
        for train in (True, False):
            case(
                aten.native_batch_norm_backward.default,
                rand(2, 6, 3, 4),
                image,
                cw,
                rm,
                rv,
                mean,
                rstd,
                train,
                1e-5,
                mask,
                tolerance=1e-4,
            )
    case(
        aten.batch_norm_backward.default,
        rand(2, 6, 3, 4),
        image,
        cw,
        rm,
        rv,
        mean,
        rstd,
        True,
        1e-5,
        yes,
        torch.empty(0, dtype=torch.uint8),
        tolerance=1e-4,
    )
    case(
        aten.native_batch_norm_backward.default,
        rand(2, 6, 3, 4),
        image,
        None,
        None,
        None,
        mean,
        rstd,
        True,
        1e-5,
        no,
        tolerance=1e-4,
    )


def losses() -> None:
    x, y = rand(4, 5), rand(4, 5)
    for reduction in (0, 1, 2):
        g = rand(4, 5) if reduction == 0 else torch.tensor(1.7)
        case(aten.mse_loss.default, x, y, reduction)
        case(aten.mse_loss_backward.default, g, x, y, reduction)
        case(aten.smooth_l1_loss.default, x, y, reduction, 0.7)
        case(aten.smooth_l1_loss_backward.default, g, x, y, reduction, 0.7)
        case(aten.huber_loss.default, x, y, reduction, 0.7)
        case(aten.huber_loss_backward.default, g, x, y, reduction, 0.7)
        case(aten.l1_loss.default, x, y, reduction)
        case(aten.kl_div.default, x, torch.rand(4, 5).round(decimals=0) * y.abs(), reduction)
        p, t = torch.rand(4, 5), torch.rand(4, 5)
        p[0, 0] = 0
        case(aten.binary_cross_entropy.default, p, t, rand(5), reduction, tolerance=1e-4)
        case(
            aten.binary_cross_entropy_backward.default,
            g,
            torch.rand(4, 5),
            t,
            None,
            reduction,
            tolerance=1e-4,
        )
        case(
            aten.binary_cross_entropy_with_logits.default,
            x * 20,
            t,
            rand(4, 5),
            rand(5),
            reduction,
            tolerance=1e-4,
        )
        case(aten.binary_cross_entropy_with_logits.default, x, t, None, None, reduction)
        target = torch.tensor([1, 4, -100, 0])
        scores = torch.log_softmax(x, 1)
        for w in (None, torch.rand(5)):
            case(aten.nll_loss_forward.default, scores, target, w, reduction, -100)
            total = aten.nll_loss_forward(scores, target, w, reduction, -100)[1]
            g1 = rand(4) if reduction == 0 else torch.tensor(1.7)
            case(aten.nll_loss_backward.default, g1, scores, target, w, reduction, -100, total)
        case(aten.nll_loss_forward.default, scores[0], torch.tensor(2), None, reduction, -100)
        pixels, labels = rand(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5))
        labels[0, 0, 0] = 1
        case(aten.nll_loss2d_forward.default, pixels, labels, torch.rand(3), reduction, 1)
        total = aten.nll_loss2d_forward(pixels, labels, None, reduction, 1)[1]
        g2 = rand(2, 4, 5) if reduction == 0 else torch.tensor(1.7)
        case(aten.nll_loss2d_backward.default, g2, pixels, labels, None, reduction, 1, total)
    case(aten.mse_loss.default, x.bfloat16(), y.bfloat16(), 1)


def indexing() -> None:
    x = rand(4, 5, 6)
    i, j = torch.tensor([3, 0, -1, 2]), torch.tensor([[1], [-2]])
    case(aten.embedding.default, rand(7, 3), torch.tensor([[1, 6], [0, 1]]))
    case(aten.embedding.default, rand(7, 3), torch.tensor(2))
    for padding in (-1, 1):
        case(
            aten.embedding_dense_backward.default,
            rand(2, 2, 3),
            torch.tensor([[1, 6], [0, 1]]),
            7,
            padding,
            False,
        )
    case(
        aten.embedding_dense_backward.default,
        rand(4, 3, dtype=torch.bfloat16),
        torch.tensor([1, 1, 2, 1]),
        4,
        -1,
        False,
    )
    for indices in ([i], [None, i], [i, j], [i, None, j], [None, i, j], [None, None, i]):
        case(aten.index.Tensor, x, indices)
        sizes = aten.index.Tensor(x, indices).shape
        case(aten.index_put.default, x, indices, rand(*sizes), True)
    case(
        aten.index.Tensor,
        x,
        [torch.tensor(2), None, torch.tensor([1, 0], dtype=torch.int32).long()],
    )
    case(aten._unsafe_index_put.default, x, [i], rand(4, 5, 6), True)
    case(aten._unsafe_index.Tensor, x, [None, torch.tensor([[0], [2]]), torch.tensor([1, 3])])
    unique = torch.tensor([2, 0])
    case(aten.index_put.default, x, [None, unique], rand(6))
    case(aten.index_put.default, x, [unique], torch.tensor(3.0), False)
    case(
        aten.index_put.default,
        rand(5, dtype=torch.bfloat16),
        [torch.tensor([1, 1, 0])],
        rand(3, dtype=torch.bfloat16),
        True,
    )
    along = torch.tensor([[0, 3, 1], [2, 2, 0]])
    case(aten.gather.default, rand(2, 4), 1, along)
    case(aten.gather.default, rand(4, 3), 0, along)
    distinct = torch.tensor([[0, 3, 1], [2, 1, 0]])
    case(aten.scatter.src, rand(2, 4), 1, distinct, rand(2, 3))
    case(aten.scatter.src, rand(2, 4), 1, distinct, rand(3, 5))
    case(aten.scatter.value, rand(2, 4), 1, distinct, 2.5)
    case(aten.scatter.value, torch.zeros(2, 4, dtype=torch.long), -1, distinct, 1)
    case(aten.scatter_add.default, rand(2, 4), 1, along, rand(2, 3))
    case(aten.index_select.default, x, 1, torch.tensor([3, 0, 3]))
    case(aten.index_select.default, x, -1, torch.tensor(2))
    case(aten.index_add.default, x, 1, torch.tensor([3, 0, 3]), rand(4, 3, 6), alpha=2)
    case(aten.index_copy.default, x, 1, torch.tensor([3, 0]), rand(4, 2, 6))
    case(aten.index_fill.int_Scalar, x, 1, torch.tensor([3, 0]), -1.5)


def poolings() -> None:
    ties = torch.randint(-2, 2, (2, 3, 6, 7)).float()
    holes = ties.clone()
    holes.view(-1)[::5] = -INF
    holes.view(-1)[::17] = math.nan
    holes[0, 0] = -INF
    # image, kernel, stride, padding, dilation, ceil_mode
    table = [
        (ties, [3, 3], [2, 2], [1, 1], [1, 1], False),
        (holes, [3, 3], [2, 2], [1, 1], [1, 1], False),
        (holes, [2], [], [0], [1], True),
        (holes.double(), [3, 2], [1, 3], [1, 0], [2, 1], False),
        (holes.bfloat16(), [5], [1], [2], [1], False),
        (ties.half(), [2, 3], [3, 1], [1, 1], [2, 2], True),
        (ties.to(memory_format=torch.channels_last), [3], [2], [0], [1], True),
        (holes.transpose(2, 3), [3], [2], [1], [1], True),
        (ties[0], [3], [2], [1], [1], False),
        (rand(1, 2, 5, 4), [1], [2], [0], [1], False),
        (torch.empty(0, 2, 4, 4), [2], [2], [0], [1], False),
    ]
    for image, *window in table:
        case(aten.max_pool2d_with_indices.default, image, *window)
        values, indices = aten.max_pool2d_with_indices(image, *window)
        grad = torch.randn(values.shape).to(image.dtype)
        if not values.is_contiguous():
            grad = grad.contiguous(memory_format=torch.channels_last)
        backward = aten.max_pool2d_with_indices_backward.default
        case(backward, grad, image, *window, indices, device="CUDA")
    case(aten.max_pool2d_with_indices.default, ties.long(), [3], [2], [1], [1], False)
    case(aten.max_pool2d_with_indices.default, (ties + 2).byte(), [3], [2], [1], [1], False)


def main() -> None:
    for group in (activations, reductions, softmaxes, norms, losses, indexing, poolings):
        group()
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES)
    OUT.write_text("[\n" + lines + "\n]\n")
    print(f"{len(CASES)} cases in {OUT.name}, {OUT.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
