# SPDX-License-Identifier: Apache-2.0
"""Nodes whose arguments depend on the shapes of their operands."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .draw import Draw, UnfitError, is_integer

Maker = Callable[[Draw], str]


def _permute(d: Draw) -> str:
    x = d.any(2)
    order = list(range(d.values[x].dim()))
    d.rng.shuffle(order)
    return f"{x}.permute({', '.join(map(str, order))})"


def _transpose(d: Draw) -> str:
    x = d.any(2)
    return f"{x}.transpose({d.dim(x)}, {d.dim(x)})"


def _reshape(d: Draw) -> str:
    """Neighbouring dimensions merged, one split in two, or one left to torch."""
    x = d.any(1)
    sizes = d.sizes(x)
    at = d.rng.randrange(len(sizes))
    kind = d.rng.choice(["merge", "split", "infer"])
    if kind == "merge" and at + 1 < len(sizes):
        sizes[at : at + 2] = [f"{sizes[at]} * {sizes[at + 1]}"]
    elif kind == "split":
        factor = d.rng.choice([1, 2, 3])
        if d.values[x].size(at) % factor:
            raise UnfitError
        sizes[at : at + 1] = [f"{sizes[at]} // {factor}", str(factor)]
    else:
        sizes[at] = "-1"
    return f"{x}.{d.rng.choice(['reshape', 'view'])}({', '.join(sizes)})"


def _expand(d: Draw) -> str:
    x = d.any()
    value = d.values[x]
    sizes = [
        str(d.rng.randint(2, 5)) if n == 1 and d.rng.random() < 0.7 else "-1" for n in value.shape
    ]
    if d.rng.random() < 0.4 or not sizes:
        sizes.insert(0, str(d.rng.randint(1, 3)))
    return f"{x}.expand({', '.join(sizes)})"


def _narrow(d: Draw) -> str:
    x = d.any(1)
    dim = d.dim(x)
    size = d.values[x].size(dim)
    start = d.rng.randint(0, max(0, size - 1))
    if d.rng.random() < d.symbolic:
        return f"{x}.narrow({dim}, {start}, {x}.size({dim}) - {start})"
    return f"{x}.narrow({dim}, {start}, {d.rng.randint(0, size - start)})"


def _slice(d: Draw) -> str:
    x = d.any(1)
    value = d.values[x]
    parts = []
    for dim in range(value.dim()):
        size = value.size(dim)
        kind = d.rng.choice(["all", "all", "from", "to", "step", "item", "half"])
        parts.append(
            {
                "all": ":",
                "from": f"{d.rng.randint(-2, 3)}:",
                "to": f":{d.rng.randint(-2, max(1, size))}",
                "step": f"{d.rng.randint(0, 1)}::{d.rng.randint(1, 3)}",
                "item": str(d.rng.randint(-size, size - 1)) if size else ":",
                "half": f"{x}.size({dim}) // 2:",
            }[kind]
        )
    return f"{x}[{', '.join(parts)}]"


# Each part of an unbound dimension is a tensor, which torch traces for 30 ms where sizes change.
_MOST_UNBOUND = 100


def _part(d: Draw) -> str:
    """One of the results of a split."""
    x = d.any(1)
    dim = d.dim(x)
    size = d.values[x].size(dim)
    piece = d.rng.randint(1, max(1, size))
    kind = d.rng.choice(["split", "chunk", "unbind", "tensor_split", "sizes"])
    if kind == "unbind" and size > _MOST_UNBOUND:
        kind = "split"
    if kind in ("chunk", "tensor_split"):
        piece = min(piece, _MOST_UNBOUND)
    elif kind == "split":
        piece = max(piece, size // _MOST_UNBOUND)
    if kind == "sizes":
        return f"{x}.split([{piece}, {size - piece}], {dim})[{d.rng.randint(0, 1)}]"
    argument = {"unbind": ""}.get(kind, f"{piece}, ")
    if kind == "unbind":
        return f"{x}.unbind({dim})[{d.rng.randint(-1, 0)}]"
    return f"{x}.{kind}({argument}{dim})[{d.rng.randint(-1, 0)}]"


def _unfold(d: Draw) -> str:
    x = d.any(1)
    dim = d.dim(x)
    size = d.rng.randint(1, max(1, min(3, d.values[x].size(dim))))
    return f"{x}.unfold({dim}, {size}, {d.rng.randint(1, 2)})"


def _diagonal(d: Draw) -> str:
    x = d.any(2)
    return f"{x}.diagonal({d.rng.randint(-1, 1)}, {d.dim(x)}, {d.dim(x)})"


def _as_strided(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.is_contiguous() and t.numel() >= 6)
    rows, columns = d.rng.choice([(2, 3), (3, 2), (2, 2)])
    strides = d.rng.choice([(columns, 1), (1, rows), (1, 1), (0, 1)])
    return f"torch.as_strided({x}, ({rows}, {columns}), {strides})"


def _as_strided_elsewhere(d: Draw) -> str:
    """Of a part of memory, what lies before it or beside."""
    x = d.name(lambda t: t._base is not None and _is_all_of_its_memory(t._base))
    base = d.values[x]._base
    assert base is not None
    rows, columns = d.rng.choice([(2, 3), (3, 2), (2, 2)])
    if base.dtype != d.values[x].dtype or base.numel() < rows * columns:
        raise UnfitError
    first = d.rng.randint(0, base.numel() - rows * columns)
    if d.rng.random() < 0.5:
        return f"torch.as_strided({x}, ({rows}, {columns}), ({columns}, 1), {first})"
    part = f"({rows}, {columns}), ({columns}, 1), {first}"
    return f"torch.as_strided_scatter({x}, torch.ones({rows}, {columns}, dtype={x}.dtype), {part})"


def _is_all_of_its_memory(x: Tensor) -> bool:
    return x.is_contiguous() and x.untyped_storage().nbytes() == x.numel() * x.element_size()


def _scaled(d: Draw) -> str:
    """Cut to a size that is a rounded real number."""
    x = d.any(1)
    dim = d.values[x].dim() - 1
    size = f"{x}.size({dim})"
    length = d.rng.choice(
        [f"int({size} * 0.7)", f"round({size} * 0.4)", f"int({size} ** 0.5)", f"int({size} / 1.6)"]
    )
    return f"{x}[..., :{length}]"


VIEWS: list[Maker] = [
    _permute, _transpose, _reshape, _reshape, _expand, _narrow, _slice, _slice, _part, _unfold,
    _diagonal, _as_strided, _as_strided_elsewhere, _scaled,
]  # fmt: skip


def _by_size(d: Draw) -> str:
    """With a real number that is made of a size."""
    x = d.float(1)
    size = f"{x}.size({d.dim(x)})"
    return d.rng.choice(
        [f"{x} * (1 / ({size} + 1))", f"{x} + {size} / 3", f"{x} / ({size} + 2) ** 0.5",
         f"{x} - torch.full((1,), 0.5 * {size}, dtype={x}.dtype)"]
    )  # fmt: skip


NUMBERS: list[Maker] = [_by_size]


def _index(d: Draw, x: str, dim: int, shape: str) -> str:
    """The text of an index tensor that is within bounds whatever the sizes are."""
    return f"(torch.arange({shape}) * {d.rng.choice([1, 3, 7])} % {x}.size({dim}))"


def _select(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.numel() > 0)
    dim = d.dim(x)
    return f"{x}.index_select({dim}, {_index(d, x, dim, str(d.rng.randint(1, 6)))})"


def _advanced(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.numel() > 0)
    count = d.rng.randint(1, 5)
    first = _index(d, x, 0, str(count))
    if d.values[x].dim() > 1 and d.rng.random() < 0.6:
        second = _index(d, x, 1, str(count))
        middle = d.rng.choice([f"{first}[:, None], {second}", f"{first}, {second}", f":, {second}"])
        return f"{x}[{middle}]"
    return f"{x}[{d.rng.choice([first, f'{first}.reshape(-1, 1)', f'..., {first[:-1]} * 0)'])}]"


def _by_value(d: Draw) -> str:
    """Indexed with an integer value of the program."""
    x = d.name(lambda t: t.dim() > 0 and t.size(0) > 0 and t.dim() < 4)
    i = d.name(lambda t: is_integer(t) and t.dim() < 3 and t.numel() <= 64)
    return f"{x}[{i}.long().abs() % {x}.size(0)]"


def _gather(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.numel() > 0)
    dim = d.dim(x)
    index = f"(torch.arange({x}.numel()).reshape({x}.shape) * 5 % {x}.size({dim}))"
    kind = d.rng.choice(["gather", "take_along_dim"])
    if kind == "take_along_dim":
        return f"torch.take_along_dim({x}, {index}, {dim})"
    return f"{x}.gather({dim}, {index})"


def _scatter(d: Draw) -> str:
    """Sums into rows, or writes to rows that differ."""
    x = d.name(lambda t: t.dim() > 0 and t.numel() > 0 and t.is_floating_point())
    dim = d.dim(x)
    sizes = f"{x}.size({dim})"
    if d.rng.random() < 0.5:
        return f"{x}.index_add({dim}, torch.arange({sizes}) // 2, {x} * 0.5)"
    like = f"torch.arange({x}.numel()).reshape({x}.shape) * 3 % {sizes}"
    how = d.rng.choice(["scatter_add", "reduce"])
    if how == "reduce":
        mode = d.rng.choice(["sum", "amax", "mean"])
        return f"{x}.scatter_reduce({dim}, {like}, {x}.tanh(), '{mode}')"
    return f"{x}.scatter_add({dim}, {like}, {x}.sin())"


def _put(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.size(0) > 0 and t.is_floating_point())
    index = _index(d, x, 0, "1")
    accumulate = d.rng.choice(["", ", accumulate=True"])
    return f"{x}.index_put(({index},), torch.tensor({d.constant()}, dtype={x}.dtype){accumulate})"


def _embedding(d: Draw) -> str:
    x = d.name(lambda t: t.dim() == 2 and t.is_floating_point() and t.size(0) > 0)
    i = d.name(lambda t: is_integer(t) and t.dim() < 3 and t.numel() <= 64)
    return f"F.embedding({i}.long().abs() % {x}.size(0), {x})"


def _one_hot(d: Draw) -> str:
    i = d.name(lambda t: is_integer(t) and t.dim() < 3 and t.numel() <= 64)
    return f"F.one_hot({i}.long().abs() % 4, 4)"


def _topk(d: Draw) -> str:
    x = d.name(lambda t: t.dtype is torch.float32 and t.dim() > 0 and t.size(-1) > 0)
    return f"{x}.topk({d.rng.randint(1, min(3, d.values[x].size(-1)))})[0]"


INDEXING: list[Maker] = [
    _select, _advanced, _advanced, _by_value, _gather, _scatter, _put, _embedding, _one_hot, _topk,
]  # fmt: skip


def _cat(d: Draw) -> str:
    x = d.any(1)
    first, dim = d.values[x], d.dim(x)

    def fits(t: Tensor) -> bool:
        if t.dim() != first.dim():
            return False
        return all(a == b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=True))
                   if i != dim % first.dim())  # fmt: skip

    others = [d.name(fits) for _ in range(d.rng.randint(1, 3))]
    return f"torch.cat([{', '.join([x, *others])}], {dim})"


def _stack(d: Draw) -> str:
    x = d.any(0, 3)
    shape = d.values[x].shape
    others = [d.name(lambda t: t.shape == shape) for _ in range(d.rng.randint(1, 2))]
    return f"torch.stack([{', '.join([x, *others])}], {d.rng.randint(-1, 0)})"


def _pad(d: Draw) -> str:
    x = d.any(1)
    amounts = [d.rng.randint(-1, 2) for _ in range(2 * d.rng.randint(1, d.values[x].dim()))]
    mode = d.rng.choice(["constant", "constant", "reflect", "replicate", "circular"])
    if mode == "constant":
        return f"F.pad({x}, {tuple(amounts)}, value={d.rng.randint(0, 2)})"
    return f"F.pad({d.float(2)}, (1, {d.rng.randint(0, 1)}), mode='{mode}')"


def _repeat(d: Draw) -> str:
    x = d.any(1)
    kind = d.rng.choice(["repeat", "tile", "repeat_interleave", "roll"])
    if kind in ("repeat", "tile"):
        return f"{x}.{kind}({', '.join(str(d.rng.randint(1, 2)) for _ in d.values[x].shape)})"
    return f"{x}.{kind}({d.rng.randint(1, 3)}, {d.dim(x)})"


COMBINATIONS: list[Maker] = [_cat, _cat, _stack, _pad, _repeat]


def _float32(d: Draw, dims: int, fits: Callable[[Tensor], bool] = lambda t: True) -> str:
    return d.name(lambda t: t.is_floating_point() and t.dim() == dims and fits(t))


def _matmul(d: Draw) -> str:
    """Two matrices, batched or not; with itself transposed where nothing else fits."""
    x = d.float(1)
    a = d.values[x]
    scale = f"* {1 / max(1, a.size(-1)) ** 0.5:.3g}"
    try:
        y = d.name(lambda t: t.dtype == a.dtype and t.dim() >= 2 and t.size(-2) == a.size(-1))
        return f"({x} @ {y}) {scale}"
    except UnfitError:
        if a.dim() < 2:
            return f"torch.outer({x}, {x})"
        return f"({x} @ {x}.mT) {scale}"


def _linear(d: Draw) -> str:
    x = d.float(1)
    a = d.values[x]
    y = d.name(lambda t: t.dtype == a.dtype and t.dim() == 2 and t.size(1) == a.size(-1))
    return f"F.linear({x}, {y}) * {1 / max(1, a.size(-1)) ** 0.5:.3g}"


def _addmm(d: Draw) -> str:
    x = _float32(d, 2)
    rows, columns = d.values[x].shape
    scale = f"alpha={1 / max(1, columns) ** 0.5:.3g}"
    bias = d.name(
        lambda t: t.dtype == d.values[x].dtype and t.dim() < 3 and t.shape[-1:] in ((rows,), (1,))
    )
    return f"torch.addmm({bias}, {x}, {x}.t(), beta=0.5, {scale})"


def _einsum(d: Draw) -> str:
    x = _float32(d, 3)
    form = d.rng.choice(["bij,bkj->bik", "bij,bij->b", "bij,bik->bjk", "bij,bij->ij"])
    return f"torch.einsum('{form}', {x}, {x}) * 0.3"


def _attention(d: Draw) -> str:
    x = _float32(d, 4, lambda t: t.numel() > 0)
    causal = d.rng.choice(["", ", is_causal=True"])
    return f"F.scaled_dot_product_attention({x}, {x} * 0.5, {x}.sin(){causal})"


PRODUCTS: list[Maker] = [_matmul, _matmul, _matmul, _linear, _addmm, _einsum, _attention]


def _norm(d: Draw) -> str:
    x = d.name(lambda t: t.is_floating_point() and t.dim() > 0 and t.size(-1) > 1)
    size = d.size(x, -1)
    return d.rng.choice(
        [f"F.layer_norm({x}, ({size},), eps=0.1)", f"F.rms_norm({x}, ({size},), eps=0.1)"]
    )


def _images(d: Draw) -> str:
    x = _float32(d, 4, lambda t: min(t.shape) > 0)
    height, width = d.values[x].shape[-2:]
    factor = d.rng.choice([2.0, 0.5, 1.5, 1.7])
    texts = [f"F.interpolate({{x}}, scale_factor={factor})", "F.adaptive_avg_pool2d({x}, 1)",
             f"F.interpolate({{x}}, scale_factor={factor}, mode='bilinear')",
             "F.group_norm({x}, 1, eps=0.1)"]  # fmt: skip
    if min(height, width) >= 2:
        texts += ["F.avg_pool2d({x}, 2)", "F.max_pool2d({x}, 2, 1)",
                  "F.conv2d({x}, {x}[:1, :, :2, :2] * 0.3)",
                  "F.conv2d({x}, {x}[:2, :, :1, :2] * 0.3, stride=2, padding=1)"]  # fmt: skip
    return d.rng.choice(texts).replace("{x}", x)


def _loss(d: Draw) -> str:
    x = d.float()
    y = d.name(lambda t: (t.shape, t.dtype) == (d.values[x].shape, d.values[x].dtype))
    return d.rng.choice(
        [f"F.mse_loss({x}, {y})", f"F.smooth_l1_loss({x}, {y})", f"F.l1_loss({x}, {y} + 3)",
         f"F.kl_div({x}, {y}.sigmoid().detach(), reduction='sum')"]
    )  # fmt: skip


def _cross_entropy(d: Draw) -> str:
    x = _float32(d, 2, lambda t: t.numel() > 0)
    return f"F.cross_entropy({x}, torch.arange({x}.size(0)) % {x}.size(1))"


LAYERS: list[Maker] = [_norm, _norm, _images, _images, _loss, _cross_entropy]


def _assign(d: Draw) -> str:
    """Writes a constant or another value into a part."""
    x = d.any(1)
    part = d.rng.choice([f"{x}[0]", f"{x}[..., -1]", f"{x}[1:]", f"{x}[::2]", f"{x}.select(-1, 0)"])
    if d.rng.random() < 0.5:
        return f"{part}.fill_({d.rng.randint(0, 2)})"
    source = d.name(lambda t: t.dim() < 2)
    return f"{part}.copy_({source})"


def _put_inplace(d: Draw) -> str:
    x = d.name(lambda t: t.dim() > 0 and t.numel() > 0)
    index = _index(d, x, 0, str(d.rng.randint(1, 3)))
    kind = d.rng.choice(["index_fill_", "index_put_", "index_copy_"])
    if kind == "index_fill_":
        return f"{x}.index_fill_(0, {index}, 1)"
    if kind == "index_copy_":
        if torch._debug_has_internal_overlap(d.values[x]) != 0:
            raise UnfitError  # eager's order decides
        return f"{x}.index_copy_(0, torch.arange({x}.size(0)), {x}.flip(0))"
    return f"{x}.index_put_(({index},), torch.ones((), dtype={x}.dtype))"


MUTATIONS: list[Maker] = [_assign, _assign, _put_inplace]


def _positions(d: Draw) -> str:
    x = d.any(1)
    dim = d.dim(x)
    return d.rng.choice(
        [f"torch.arange({x}.size({dim}))", f"torch.ones({x}.size({dim}), 2)",
         f"torch.zeros({x}.shape)", f"torch.arange({x}.size({dim})) / ({x}.size({dim}) + 1)",
         f"torch.full(({x}.size({dim}), 1), {d.constant()})",
         f"torch.ones({x}.size({dim}), {x}.size({dim}), dtype=torch.bool).tril()"]
    )  # fmt: skip


CREATIONS: list[Maker] = [_positions]
