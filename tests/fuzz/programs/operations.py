# SPDX-License-Identifier: Apache-2.0
"""What a node can be: templates (draw.py says what their placeholders are), and functions for
those whose arguments depend on shapes (shaped.py).

Arguments keep away from poles and from where rounding decides, so that a difference is a bug.
"""

from __future__ import annotations

from . import shaped
from .draw import Draw

UNARY = """
torch.tanh({f}) | torch.sigmoid({f}) | torch.relu({f}) | torch.exp(-{f}.abs()) | torch.sin({f})
torch.cos({f}) | F.gelu({f}) | F.gelu({f}, approximate='tanh') | F.silu({f}) | F.softplus({f})
torch.erf({f}) | {n}.abs() | -{n} | torch.square({n}) | torch.sqrt({f}.abs() + 0.1)
torch.log1p({f}.abs()) | torch.rsqrt({f}.abs() + 0.5) | torch.reciprocal({f}.abs() + 0.5)
F.leaky_relu({f}, 0.1) | F.elu({f}) | F.hardtanh({f}) | F.mish({f}) | torch.atan({f})
torch.log({f}.abs() + 0.5) | F.hardswish({f}) | F.selu({f}) | torch.expm1({f}.clamp(-2, 2))
torch.tan({f}.clamp(-1, 1)) | torch.asinh({f}) | torch.exp2({f}.clamp(-3, 3)) | F.logsigmoid({f})
{n}.clamp(-1, 2) | {n}.clamp(min=0) | {f}.clamp(max={k}) | ~{b} | ~{i} | {x}.logical_not()
torch.sign({e}) | torch.floor({e}) | torch.round({e}) | torch.trunc({e}) | {e} % 1.5
torch.nan_to_num({f}) | torch.signbit({e}) | torch.isnan({f}) | torch.deg2rad({f})
"""
BINARY = """
{n} + {m} | {n} - {m} | {n} * {m} | {x} * {m} | {f} / ({g}.abs() + 0.5) | {x} + {m} | {f} + {k}
{f} * {k} | {k} - {f} | {i} + {p} | {i} * {p} | {i} % {p} | {i} // {p} | {i} & {j} | {i} | {j}
{i} ^ {j} | {b} & {c} | {b} | {c} | {b} ^ {c} | {i} << 1 | {i} >> 1 | torch.maximum({n}, {m})
torch.minimum({n}, {m}) | torch.add({n}, {m}, alpha=2) | torch.sub({n}, {m}, alpha=3)
torch.lerp({f}, {s}, 0.3) | torch.addcmul({f}, {f}, {s}, value=0.5) | torch.logaddexp({f}, {s})
torch.addcdiv({f}, {s}, {f}.abs() + 1.0) | torch.where({b}, {n}, {m}) | torch.where({b}, {f}, {k})
torch.where({e} > {k}, {e}, {g}) | {e} < {k} | {e} >= {g} | {i} == {j} | {i} != {j} | {i} > {p}
torch.logical_and({x}, {y}) | torch.logical_or({x}, {y}) | torch.pow({f}.abs() + 0.5, 1.5)
{n} ** 2 | {f} ** 3 | torch.hypot({f} + 3, {g}) | torch.atan2({f}, {g}.abs() + 0.5)
torch.true_divide({i}, {p}) | torch.div({e}, {k}, rounding_mode='floor') | torch.fmod({e}, 1.5)
torch.copysign({f}, {g}.detach()) | {f} * {i} | {f} + {b} | {f}.masked_fill({b}, {k})
torch.rsub({n}, {m}) | torch.heaviside({e}, {s}) | F.threshold({e}, 0.3, -0.5)
"""
REDUCTIONS = """
{n}.sum({d}) | {f}.mean({d}) | {f}.mean({d}, keepdim=True) | {n}.sum() | {f}.mean() | {x}.sum({d})
{n}.amax({d}) | {n}.amin({d}, keepdim=True) | {n}.max() | {n}.min() | {f}.var({d}, correction=0)
{f}.var() | ({f} + 0).std({d}, correction=0) + 1.0 | torch.logsumexp({f}, {d}) | {b}.any({d})
{b}.all({d}) | {b}.any() | torch.count_nonzero({b}, {d}) | torch.softmax({f}, {d})
torch.log_softmax({f}, {d}) | torch.cumsum({n}, {d}) | {e}.argmax({d}) | {e}.argmin({d})
({f} * 0.5).tanh().prod({d}) | {e}.sort({d}, stable=True)[0] | {e}.sort({d}, stable=True)[1]
{e}.max({d})[0] | {e}.max({d})[1] | {e}.cummax({d})[0] | torch.linalg.vector_norm({f} + 2, dim={d})
{f}.softmax({d}).mul({k}) | {x}.sum({d}, dtype=torch.float32) | {f}.abs().sum({d}, keepdim=True)
F.normalize({f} + 1.0, dim={d}) | torch.var_mean({f}, {d}, correction=0)[1]
{f} - {f}.mean({d}, True)
torch.cumprod({f}.sigmoid(), {d}) | torch.logcumsumexp({f}, {d}) | {f}.aminmax(dim={d})[0]
{e}.median({d})[0] | {x}.argsort({d}, stable=True) | torch.diff({n}, dim={d})
"""
INPLACE = """
{n}.add_({m}) | {n}.mul_({m}) | {f}.sub_({g}) | {f}.relu_() | {f}.clamp_(-1, 1) | {f}.tanh_()
{n}.copy_({m}) | {n}.fill_({p}) | {x}.zero_() | {f}.mul_({k}) | {i}.add_({p}) | {f}.sigmoid_()
{f}.masked_fill_({b}, {k}) | {b}.logical_not_() | {f}.add_({g}, alpha=0.5) | {f}.div_(2.0)
{f}.neg_() | {f}.lerp_({s}, 0.25) | {i}.bitwise_and_({j}) | {f}.exp_().clamp_(max=2.0)
"""
CONVERSIONS = """
{n}.to({t}) | {x}.float() | {x}.double() | {f}.half() | {f}.bfloat16() | {x}.to(torch.int64)
{x}.bool() | {n}.to({t}).float() | {n}.type_as({m}) | {x}.int() | {f}.detach() | {x}.clone()
{x}.contiguous()
"""
VIEWS = """
{x}.unsqueeze({d}) | {x}.squeeze() | {x}.squeeze({d}) | {x}.flatten() | {x}.mT | {x}.flip({d})
{x}[None] | {x}[..., None] | {x}[..., 0] | {x}[::2] | {x}[1:] | {x}[..., :-1] | {x}[..., 1::2]
{x}.view_as({s}) | {x}.expand_as({y}) | {x}.movedim({d}, 0) | {x}.select({d}, 0) | {x}.T
{x}.diagonal(0, -2, -1) | torch.broadcast_tensors({x}, {y})[0] | {x}.tril() | {x}.triu(1)
{x}.swapaxes({d}, 0) | {x}.unflatten({d}, (-1, 1)) | {x}.detach() | {x}.ravel() | {x}[-1]
"""
CREATIONS = """
torch.zeros_like({x}) | torch.ones_like({f}) | torch.full_like({f}, {k}) | {x}.new_zeros({p}, 2)
torch.tensor({k}) | torch.ones({p}, dtype={t}) | torch.eye({p}) | torch.linspace(-1, 1, {p})
torch.arange({p}, dtype={t}) | torch.full((2, {p}), {k}) | torch.tensor([{k}, {k}, {p}])
"""
# Data decides the sizes inside, which are known again behind: what meets such a tensor otherwise is
# mostly what torch refuses to trace.
DATA = """
{e}[{e} > {k}].sum() | ({e}[{e} > {k}] * 2).tanh().sum() | {b}.nonzero().sum(0)
torch.masked_select({e}, {b}).abs().sum() | {i}.unique().sum() | {n}.flatten()[{b}.any().nonzero()]
({f}[{f} > {k}].exp().abs() + 1).log().sum() | {x}.nonzero().size(0) * {f}
torch.repeat_interleave({e}, 2, dim={d}) | {e}[{e} < {k}].sin().cumsum(0).sum()
"""


def _templates(text: str) -> list[str]:
    return [part.strip() for line in text.split("\n") for part in _split(line) if part.strip()]


def _split(line: str) -> list[str]:
    """At " | " between templates, and not at the operator: its left side ends with a placeholder
    alone."""
    parts: list[str] = []
    for part in line.split(" | "):
        if parts and parts[-1] in ("{i}", "{b}"):
            parts[-1] += f" | {part}"
        else:
            parts.append(part)
    return parts


# Weight, and the templates or functions of a family.
FAMILIES = [
    (16, _templates(UNARY)),
    (20, _templates(BINARY)),
    (14, _templates(REDUCTIONS)),
    (9, _templates(INPLACE)),
    (7, _templates(CONVERSIONS)),
    (9, _templates(VIEWS)),
    (12, shaped.VIEWS),
    (2, shaped.NUMBERS),
    (12, shaped.INDEXING),
    (8, shaped.COMBINATIONS),
    (9, shaped.PRODUCTS),
    (6, shaped.LAYERS),
    (4, shaped.MUTATIONS),
    (3, _templates(CREATIONS)),
    (2, _templates(DATA)),
    (3, shaped.CREATIONS),
]


def draw_text(draw: Draw) -> str:
    """The text of a node; raises UnfitError when there is no operand for what was drawn."""
    family = draw.rng.choices([f for _, f in FAMILIES], [weight for weight, _ in FAMILIES])[0]
    made = draw.rng.choice(family)
    return draw.fill(made) if isinstance(made, str) else made(draw)
