# SPDX-License-Identifier: Apache-2.0
"""Single operators for test_ops.py: what runs, on which inputs, in which dtypes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import op_inputs as given
import torch
import torch.nn.functional as F
from op_inputs import BOOL, FLOATS, INTS, REALS

# fmt: off
ALL = FLOATS + INTS + BOOL
NUMBERS = FLOATS + INTS


@dataclass(frozen=True)
class Case:
    """One operator. `grad`: its gradient is checked too. `reduces`: results add up many inputs.
    `dynamic`: a graph that leaves sizes open is checked too."""

    name: str
    function: Callable[..., Any]
    inputs: given.Inputs
    dtypes: tuple[torch.dtype, ...]
    grad: bool = False
    reduces: bool = False
    dynamic: bool = False


def _named(inputs: given.Inputs, dtypes: Any, names: str, grad: bool = False) -> list[Case]:
    """Functions of torch, by their names."""
    return [Case(name, getattr(torch, name), inputs, dtypes, grad) for name in names.split()]


def _cases(inputs: given.Inputs, dtypes: Any, grad: bool = False, **functions: Any) -> list[Case]:
    return [Case(name, function, inputs, dtypes, grad) for name, function in functions.items()]


POINTWISE = [
    *_named(given.unary, FLOATS, "exp sin cos tanh sigmoid erf expm1 atan", grad=True),
    *_named(given.unary, FLOATS, "exp2 erfc tan sinh cosh asinh ceil floor round trunc frac"),
    *_named(given.unary, FLOATS, "log log2 log10 log1p sqrt rsqrt acos asin acosh atanh"),
    *_named(given.unary, FLOATS, "isnan isinf isfinite signbit reciprocal"),
    *_named(given.positive, FLOATS, "lgamma digamma"),
    *_named(given.unit, REALS, "erfinv", grad=True),
    *_named(given.unary, NUMBERS, "abs neg sign square"),
    *_named(given.unary, INTS + BOOL, "bitwise_not"),
    *_named(given.unary, ALL, "logical_not"),
    *_cases(given.unary, FLOATS, grad=True,
            relu=F.relu, gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"),
            silu=F.silu, mish=F.mish, softplus=F.softplus, elu=F.elu, selu=F.selu, celu=F.celu,
            hardtanh=F.hardtanh, hardswish=F.hardswish,
            leaky_relu=lambda x: F.leaky_relu(x, 0.1), logsigmoid=F.logsigmoid,
            relu6=F.relu6, tanhshrink=F.tanhshrink, softshrink=F.softshrink, softsign=F.softsign,
            hardshrink=F.hardshrink, threshold=lambda x: F.threshold(x, 0.5, -1.0)),
    # Eager divides by six in float32 even for float64.
    *_cases(given.unary, REALS, grad=True, hardsigmoid=F.hardsigmoid),
    *_cases(given.unary, NUMBERS,
            clamp=lambda x: x.clamp(1, 2), clamp_min=lambda x: x.clamp(min=1),
            add_number=lambda x: x + 3, subtract_from=lambda x: 5 - x, twice=lambda x: x * 2,
            quotient=lambda x: x / 3, mixed=lambda x: x * 1.5, less=lambda x: x < 1,
            power_two=lambda x: x ** 2, power_three=lambda x: x ** 3),
    *_cases(given.unary, REALS,
            power_half=lambda x: x.abs() ** 0.5, power_odd=lambda x: x.abs() ** 1.7,
            base_two=lambda x: 2.0 ** x, clamp_none=lambda x: x.clamp(max=0.5),
            nan_to_num=torch.nan_to_num,
            chain=lambda x: torch.tanh(torch.sin(x).exp() * 0.5 + x.abs().log1p()) - x.cos()),
    *_cases(given.finite, REALS,
            floor_quotient=lambda x: x // 0.7, remainder_number=lambda x: x % 0.7),
    *_cases(given.finite, ALL,
            to_float=lambda x: x.float(), to_double=lambda x: x.double(),
            to_bool=lambda x: x.bool(),
            to_bfloat16=lambda x: x.bfloat16(), to_half=lambda x: x.half(),
            to_long=lambda x: x.long(), to_int=lambda x: x.int(),
            zeros_like=torch.zeros_like, ones_like=torch.ones_like,
            full_like=lambda x: torch.full_like(x, 1), clone=torch.clone),
    *_cases(given.finite, INTS,
            shift_left=lambda x: x << 2, shift_right=lambda x: x >> 1, floor_div=lambda x: x // 3,
            modulo=lambda x: x % 3, truncated=lambda x: torch.div(x, 3, rounding_mode="trunc")),
]

BINARY = [
    *_named(given.binary, NUMBERS, "add sub mul maximum minimum"),
    *_named(given.binary, ALL, "eq ne lt le gt ge logical_and logical_or logical_xor"),
    *_named(given.binary, INTS + BOOL, "bitwise_and bitwise_or bitwise_xor"),
    *_named(given.binary, FLOATS, "div atan2 fmax fmin copysign hypot", grad=False),
    *_named(given.divisors, (torch.float32, torch.float64, *INTS), "remainder fmod floor_divide"),
    *_named(given.binary, REALS, "xlogy logaddexp"),
    *_cases(given.powers, FLOATS, power=torch.pow),
    *_cases(given.divisors, INTS, true_division=torch.div),
    *_cases(given.divisors, (torch.float32, torch.int64),
            add_alpha=lambda x, y: torch.add(x, y, alpha=3),
            mixed_dtypes=lambda x, y: x * y.float() + x.to(torch.int32),
            isclose=lambda x, y: x == y),
    *_cases(given.ternary, REALS, grad=True,
            addcmul=lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
            addcdiv=lambda x, y, z: torch.addcdiv(x, y, z.abs() + 1, value=0.5),
            lerp=lambda x, y, z: torch.lerp(x.expand_as(x + y), y.expand_as(x + y), 0.3),
            lerp_tensor=lambda x, y, z: torch.lerp(x.expand_as(x + y), y.expand_as(x + y), z)),
    *_cases(given.chosen, NUMBERS, where=torch.where,
            masked_fill=lambda c, x, y: x.expand_as(c & (x == x)).masked_fill(c, 2)),
]

REDUCTIONS = [
    *_cases(given.odd_rows, FLOATS,
            odd_columns_sum=lambda x: x.sum(0), odd_rows_sum=lambda x: x.sum(-1)),
    *_cases(given.finite, (*FLOATS, torch.int64), sum=torch.sum),
    *_cases(given.finite, (torch.float32, torch.int64), prod=lambda x: (x * 0.25).prod()),
    *_cases(given.finite, ALL, any=torch.any, all=torch.all),
    *_cases(given.matrices, FLOATS, grad=True,
            mean=torch.mean, mean_last=lambda x: x.mean(-1), sum_first=lambda x: x.sum(0),
            sum_keep=lambda x: x.sum((0, -1), keepdim=True), var=torch.var,
            var_last=lambda x: x.var(-1, correction=0), std_first=lambda x: x.std(0, correction=0),
            norm=lambda x: x.norm(), norm_last=lambda x: x.norm(dim=-1),
            logsumexp=lambda x: x.logsumexp(-1), softmax=lambda x: x.softmax(-1),
            softmax_first=lambda x: x.softmax(0), log_softmax=lambda x: x.log_softmax(-1),
            rms=lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)),
    *_cases(given.matrices, NUMBERS,
            amax=torch.amax, amin_last=lambda x: x.amin(-1), amax_first=lambda x: x.amax(0),
            argmax=torch.argmax, argmax_last=lambda x: x.argmax(-1),
            argmin_first=lambda x: x.argmin(0), max_dim=lambda x: x.max(-1),
            min_dim=lambda x: x.min(0), sum_dims=lambda x: x.sum((0, 1))),
    *_cases(given.matrices, REALS,
            prod_last=lambda x: x.prod(-1), aminmax=lambda x: (x.amin(), x.amax()),
            var_mean=lambda x: torch.var_mean(x, dim=-1), normalize=lambda x: F.normalize(x,
            dim=-1),
            cumsum=lambda x: x.cumsum(-1), cumsum_first=lambda x: x.cumsum(0),
            cumprod=lambda x: x.cumprod(-1), logcumsumexp=lambda x: x.logcumsumexp(-1),
            cummax=lambda x: x.cummax(-1), cummin_first=lambda x: x.cummin(0),
            cumsum_inside=lambda x: (x.sigmoid() * 2).cumsum(-1) - x,
            cumsum_of_softmax=lambda x: x.softmax(-1).cumsum(-1) < 0.9,
            cumsum_back=lambda x: x.flip(-1).cumsum(-1).flip(-1),
            logcumsumexp_first=lambda x: x.logcumsumexp(0),
            trapezoids=lambda x: torch.cumulative_trapezoid(x, dim=-1),
            topk=lambda x: x.reshape(-1).topk(3), sort=lambda x: x.sort(-1)[0],
            median=lambda x: x.median(), count=lambda x: x.count_nonzero(),
            three=lambda x: ((x * x).sum(), x.amax(0), x.mean(-1)),
            sum_as_double=lambda x: x.sum(dtype=torch.float64), to_one=lambda x: x / x.sum()),
    *_cases(given.stacked, NUMBERS,
            sum_inside=lambda x: x.sum(1), amax_inside=lambda x: x.amax(1),
            amin_inside=lambda x: x.amin(1), sums_inside=lambda x: (x.sum(1), (x * x).sum(1)),
            sum_inside_apart=lambda x: x[:, : x.shape[1] // 4 * 4].reshape(
                x.shape[0], -1, 4, x.shape[2])[:, :, 1:3].sum((1, 2))),
    *_cases(given.stacked, REALS, grad=True, mean_inside=lambda x: x.mean(1),
            norm_inside=lambda x: F.layer_norm(x.mT, x.shape[1:2]).mT),
    *_cases(given.stacked, BOOL, any_inside=lambda x: x.any(1), all_inside=lambda x: x.all(1)),
    *_cases(given.unary, REALS, sum_special=torch.sum,
            max_special=lambda x: x.reshape(-1, 1).amax(-1)),
    *_cases(given.matrices, BOOL, any_last=lambda x: x.any(-1), all_first=lambda x: x.all(0),
            sum_of_bools=lambda x: x.sum(-1)),
]

SCANS = [
    *_cases(given.scanned, NUMBERS,
            cumsum_rows=lambda x: x.cumsum(-1), cumsum_columns=lambda x: x.cumsum(0),
            cumprod_rows=lambda x: x.cumprod(-1), cumprod_columns=lambda x: x.cumprod(0),
            cummax_rows=lambda x: x.cummax(-1), cummax_columns=lambda x: x.cummax(0),
            cummin_rows=lambda x: x.cummin(-1),
            cumsum_around=lambda x: ((x * 2).cumsum(-1) - x).abs(),
            cumsum_columns_around=lambda x: ((x * 2).cumsum(0) - x).abs(),
            cumsum_of_sums=lambda x: (x + x.sum(-1, True)).cumsum(-1).amax(-1),
            cummax_of_cumsum=lambda x: x.cumsum(-1).cummax(-1)[0]),
    *_cases(given.scanned, FLOATS,
            logcumsumexp_rows=lambda x: x.logcumsumexp(-1),
            logcumsumexp_columns=lambda x: x.logcumsumexp(0),
            most_probable=lambda x: x.softmax(-1).cumsum(-1)),
    *_cases(given.scanned, BOOL, count_rows=lambda x: x.cumsum(-1), count=lambda x: x.cumsum(0),
            places=lambda x: x.cumsum(-1).sub(1).clamp(min=0), first=lambda x: x.cummax(-1)),
    *_cases(given.matrices, FLOATS, grad=True,
            cumsum_both=lambda x: x.cumsum(-1) * x.cumsum(0), cumprod_last=lambda x: x.cumprod(-1),
            logcumsumexp_both=lambda x: x.logcumsumexp(-1) + x.logcumsumexp(0),
            cummax_values=lambda x: x.cummax(-1)[0]),
]

VIEWS = [
    *_cases(given.matrices, (torch.float32, torch.bfloat16, torch.int64, torch.bool),
            transpose=lambda x: x.transpose(0, 1) | x.transpose(0, 1)
            if x.dtype is torch.bool else x.transpose(0, 1) * 2,
            reshape=lambda x: x.reshape(-1), flatten_copy=lambda x: x.transpose(0, -1).reshape(-1),
            contiguous=lambda x: x.transpose(0, -1).contiguous(), flip=lambda x: x.flip(0, -1),
            roll=lambda x: x.roll(2, -1), cat=lambda x: torch.cat([x, x[:1], x[1:]]),
            cat_last=lambda x: torch.cat([x, x, x], -1), stack=lambda x: torch.stack([x, x], 1),
            repeat=lambda x: x.repeat(*[2] * x.dim()), tile=lambda x: x.tile(3),
            pad=lambda x: F.pad(x, (1, 2)), pad_negative=lambda x: F.pad(x, (-1, 3)),
            narrow=lambda x: x[..., :1], split=lambda x: x.split(2, -1),
            chunk=lambda x: x.chunk(2, 0), unbind=lambda x: [t.clone() for t in x.unbind(0)],
            tril=lambda x: x.tril(), triu=lambda x: x.triu(1),
            diagonal=lambda x: x.diagonal(0, 0, -1).clone(), slices=lambda x: x[::2, ::3].clone(),
            select=lambda x: x[0].clone(), unfold=lambda x: x[..., :1].unfold(-1, 1, 1).clone(),
            squeeze=lambda x: x.unsqueeze(0).squeeze(), expand=lambda x: x.expand(2,
            *x.shape).clone(),
            repeat_interleave=lambda x: x.repeat_interleave(2, 0),
            as_view=lambda x: x.transpose(0, 1), two_views=lambda x: (x[:1], x.transpose(0, 1))),
    *_cases(given.matrices, REALS, grad=True,
            transpose_sum=lambda x: x.transpose(0, 1) * x.sum(),
            cat_grad=lambda x: torch.cat([x.sin(), x * 2], 0),
            slice_grad=lambda x: x[::2].exp() if x.shape[0] > 1 else x.exp(),
            pad_grad=lambda x: F.pad(x, (2, 1), value=1.5) ** 2,
            repeat_grad=lambda x: x.repeat(*[2] * x.dim()).cos()),
    *_cases(given.images, REALS,
            to_channels_last=lambda x: (x + 1).to(memory_format=torch.channels_last),
            permute=lambda x: x.permute(0, 2, 3, 1) * 2, reflect=lambda x: F.pad(x, (2, 2, 1, 3),
            "reflect"),
            replicate=lambda x: F.pad(x, (2, 2, 1, 1), "replicate"),
            pixel_shuffle=lambda x: F.pixel_shuffle(x, 2), fold=lambda x: x.flatten(2).transpose(1,
            2)),
]

INDEXING = [
    *_cases(given.indexed, (*REALS, torch.int64),
            index=lambda x, i: x[i], index_select=lambda x, i: x.index_select(0,
            i.reshape(-1) % 11),
            index_last=lambda x, i: x.t()[:, i], take=lambda x, i: x.take(i),
            one_hot=lambda x, i: F.one_hot(i % 11, 11),
            index_put=lambda x, i: x.index_put((i,), x.new_ones(()), accumulate=True),
            index_add=lambda x, i: x.index_add(0, i.reshape(-1) % 11, x[i.reshape(-1)] * 2),
            index_fill=lambda x, i: x.index_fill(0, i.reshape(-1) % 11, 3),
            isin=lambda x, i: torch.isin(i, torch.arange(4, device=i.device))),
    *_cases(given.indexed, REALS, grad=True,
            embedding=lambda x, i: F.embedding(i % 11, x), index_grad=lambda x, i: x[i] * 2),
    *_cases(given.gathered, (*REALS, torch.int64), gather=lambda x, i: x.gather(1, i)),
    *_cases(given.gathered, REALS, grad=True, gather_grad=lambda x, i: x.gather(1, i).exp(),
            take_along=lambda x, i: x.take_along_dim(i, 1) * 3),
    *_cases(given.scattered, (*REALS, torch.int64),
            scatter=lambda x, i, y: x.scatter(1, i, y), scatter_add=lambda x, i,
            y: x.scatter_add(1, i, y),
            scatter_value=lambda x, i, y: x.scatter(1, i, 7),
            scatter_reduce=lambda x, i, y: x.scatter_reduce(1, i, y, "amax"),
            scatter_prod=lambda x, i, y: x.scatter_reduce(1, i, y, "prod", include_self=False),
            masked_scatter=lambda x, i, y: x.masked_scatter(x > 0, y.expand(x.numel(), *y.shape)),
            put=lambda x, i, y: x.put(i, y, accumulate=True)),
    *_cases(given.finite, (torch.float32,),
            arange=lambda x: torch.arange(37, device=x.device) + x.sum(),
            arange_step=lambda x: torch.arange(1, 20, 3, device=x.device),
            linspace=lambda x: torch.linspace(0, 1, 13, device=x.device),
            eye=lambda x: torch.eye(5, device=x.device) * 2,
            full=lambda x: torch.full((3, 4), 2.5), scalar=lambda x: torch.tensor(3.5) + x,
            zeros=lambda x: torch.zeros(5, dtype=torch.int64), nonfinite=lambda x: x / 0.0),
]

LIBRARY = [
    *_named(given.products, (torch.float32, torch.float64, torch.bfloat16), "matmul", grad=True),
    *_cases(given.products, REALS, grad=True,
            matmul_gelu=lambda x, y: F.gelu(x @ y + 1),
            product_of_sum=lambda x, y: (x + 1) @ (y * 2)),
    *_cases(given.products, (torch.float32,),
            linear=lambda x, y: F.linear(x, y.flatten(0, -2).t(), x.new_ones(y.shape[-1]))
            if y.dim() == 2 else F.linear(x, y[0].t()),
            addmm=lambda x, y: torch.addmm(x[0, 0], x, y) if x.dim() == 2 and x.numel() else x @ y,
            outer=lambda x, y: torch.outer(x.flatten(), y.flatten()),
            einsum=lambda x, y: torch.einsum("...ij,...jk->...ik", x, y),
            vector=lambda x, y: x @ y[..., 0].unsqueeze(-1), inner=lambda x, y: x @ x.mT),
    *_cases(given.odd_rows, FLOATS, grad=True,
            odd_scaled=lambda x: x * 2 + x[:, :1], odd_columns_spread=lambda x: x.var(0),
            odd_logarithm=lambda x: x.log_softmax(-1), odd_padded=lambda x: F.pad(x * 3, (0, 7))),
    *_cases(given.images, REALS, grad=True,
            max_pool=lambda x: F.max_pool2d(x, 2), avg_pool=lambda x: F.avg_pool2d(x, 3, 2, 1),
            adaptive=lambda x: F.adaptive_avg_pool2d(x, 1), group_norm=lambda x: F.group_norm(x, 2),
            instance_norm=F.instance_norm,
            layer_norm=lambda x: F.layer_norm(x, x.shape[-1:]),
            layer_norm_two=lambda x: F.layer_norm(x, x.shape[-2:]),
            rms_norm=lambda x: F.rms_norm(x, x.shape[-1:])),
    *_cases(given.ties, REALS, grad=True,
            max_pool_overlap=lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
            max_pool_values=lambda x: F.max_pool2d(x, 3, 2, 1) * 2,
            max_pool_apart=lambda x: F.max_pool2d(x, 2, (3, 2), return_indices=True),
            max_pool_ceil=lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True, return_indices=True),
            max_pool_dilated=lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2, return_indices=True),
            max_pool_wide=lambda x: F.max_pool2d(x, 5, 1, 2),
            max_pool_large=lambda x: F.max_pool2d(x, 7, 2, 3, return_indices=True),
            max_pool_of_relu=lambda x: F.max_pool2d(F.relu(x), 3, 2, 1).exp(),
            max_pool_line=lambda x: F.max_pool1d(x.flatten(0, -2), 3, 2, 1)),
    *_cases(given.images, (torch.float32,), grad=True,
            conv=lambda x: F.conv2d(x, x.new_ones(6, 4, 3, 3) * 0.1, x.new_ones(6), padding=1),
            conv_relu=lambda x: F.conv2d(x, x.new_ones(4, 1, 3, 3) * 0.1, groups=4).relu(),
            attention=lambda x: F.scaled_dot_product_attention(x, x, x),
            attention_causal=lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
            nearest=lambda x: F.interpolate(x, scale_factor=2),
            bilinear=lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            local_response=lambda x: F.local_response_norm(x, 2),
            cosine=lambda x: F.cosine_similarity(x[..., :5], x[..., 5:10], -1),
            fft=lambda x: torch.fft.rfft(x).abs(),
            spectrum=lambda x: torch.view_as_real(torch.fft.fft(x)[..., 1:4] * 2),
            glu=lambda x: F.glu(x, 1)),
    *_cases(given.pictures, (torch.bfloat16, torch.float16),
            first_layer=lambda x, w, s: F.conv2d(x, w * 0.1, s, stride=2, padding=3).relu(),
            first_layers=lambda x, w, s: F.max_pool2d(F.batch_norm(
                F.conv2d(x, w * 0.1, stride=2, padding=3), s, s, s, s).relu(), 3, 2, 1)),
    *_cases(given.matrices, REALS, grad=True,
            mse=lambda x: F.mse_loss(x, x.detach() * 0.5), smooth=lambda x: F.smooth_l1_loss(x,
            x * 0),
            huber=lambda x: F.huber_loss(x, torch.zeros_like(x)), l1=lambda x: F.l1_loss(x, x * 2),
            bce=lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x) * 0.3),
            kl=lambda x: F.kl_div(x.log_softmax(-1), torch.ones_like(x).softmax(-1)),
            nll=lambda x: F.cross_entropy(x.flatten(1), x.new_zeros(x.shape[0], dtype=torch.long)),
            smoothed=lambda x: F.cross_entropy(
                x.flatten(1), x.new_zeros(x.shape[0], dtype=torch.long), label_smoothing=0.1),
            ignored=lambda x: F.cross_entropy(
                x.flatten(1), torch.arange(x.shape[0], device=x.device) % 2 - 1, ignore_index=-1,
                reduction="sum")),
]

_REDUCING = [replace(case, reduces=True) for case in REDUCTIONS]
_DYNAMIC = "cumsum_rows cummax_columns cumsum_around most_probable count_rows".split()
_SCANNING = [replace(case, reduces=True, dynamic=case.name in _DYNAMIC) for case in SCANS]
CASES = [*POINTWISE, *BINARY, *_REDUCING, *_SCANNING, *VIEWS, *INDEXING, *LIBRARY]
