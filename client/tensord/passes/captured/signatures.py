# SPDX-License-Identifier: Apache-2.0
"""The parameters of torch's functions that passes ask for by name, in their order.

Names are those of `dynamo.name_of`; a method's object is the first. torch's own functions of C++
have no signature that Python could ask for.
"""

from __future__ import annotations

_OPERATORS = "mul truediv"
_ACTIVATIONS = "hardsigmoid hardswish mish relu relu6 selu silu"

PARAMETERS: dict[str, tuple[str, ...]] = {
    "baddbmm": ("input", "batch1", "batch2"),
    "dropout": ("input", "p", "training", "inplace"),
    "elu": ("input", "alpha", "inplace"),
    "hardtanh": ("input", "min_val", "max_val", "inplace"),
    "leaky_relu": ("input", "negative_slope", "inplace"),
    "linear": ("input", "weight", "bias"),
    "masked_fill": ("input", "mask", "value"),
    "repeat_interleave": ("input", "repeats", "dim"),
    "scaled_dot_product_attention": (
        "query", "key", "value", "attn_mask", "dropout_p", "is_causal",
    ),
    "softmax": ("input", "dim"),
    "transpose": ("input", "dim0", "dim1"),
    "unsqueeze": ("input", "dim"),
    **dict.fromkeys(_OPERATORS.split(), ("input", "other")),
    **dict.fromkeys(_ACTIVATIONS.split(), ("input", "inplace")),
}  # fmt: skip
