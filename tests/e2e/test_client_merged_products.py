# SPDX-License-Identifier: Apache-2.0
"""Linear layers of one input become one product, where autocast casts their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import client_passes
import models
import pytest
import tensord
import torch
import torch.nn.functional as F
from tensord.passes.captured import dynamo, merged_products
from torch import Tensor, fx, nn

BATCH, TIME, WIDTH = 2, 5, 16


class Passes:
    """A backend of Dynamo that runs the pass and then the graph in eager."""

    def __init__(self) -> None:
        self.merged = 0
        self.sizes: list[list[int]] = []

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.merged += merged_products.merged_products(module)
        module.graph.lint()
        module.recompile()
        for node in module.graph.nodes:
            if dynamo.name_of(node) == "linear":
                self.sizes.append(list(node.meta["example_value"].shape))
        return module.forward


class Layers(nn.Module):
    """Layers of one input, and what is done with their results."""

    def __init__(
        self, after: Callable[..., Any], widths: tuple[int, ...] = (16, 8, 8), bias: bool = True
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, n, bias=bias) for n in widths)
        self.after = after

    def forward(self, x: Tensor) -> Any:
        return self.after(*(layer(x) for layer in self.layers))


def _added(*results: Tensor) -> Tensor:
    return torch.stack([r.float().square().sum(-1) for r in results])


def _heads(*results: Tensor) -> list[Tensor]:
    return [r.view(BATCH, TIME, -1, 4).transpose(1, 2) for r in results]


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(*_heads(q, k, v), enable_gqa=True).float()


def _rotated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _attention(q * 0.5, k.cos(), v)


def _input() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(BATCH, TIME, WIDTH, requires_grad=True)


def _run(module: nn.Module, training: bool = True, dtype: Any = torch.bfloat16) -> Passes:
    """Results and gradients as in eager. The products round alike: one column is one sum."""
    torch._dynamo.reset()
    passes = Passes()
    compiled = torch.compile(module, backend=passes, fullgraph=True, dynamic=False)

    def results(call: Any) -> list[Tensor]:
        module.zero_grad()
        x = _input()
        with torch.set_grad_enabled(training), torch.autocast("cpu", dtype, enabled=bool(dtype)):
            out = call(x)
        tensors = [out] if isinstance(out, Tensor) else list(out)
        if training:
            sum((t.float() * t.detach().float()).sum() for t in tensors).backward()
            tensors += [x.grad, *(p.grad for p in module.parameters() if p.requires_grad)]
        return [t.detach().clone() for t in tensors]

    for ours, eager in zip(results(compiled), results(module), strict=True):
        assert ours.stride() == eager.stride()
        torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)
    return passes


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_layers_of_one_input_are_one_product(bias: bool, training: bool) -> None:
    passes = _run(Layers(_added, bias=bias), training)
    assert passes.merged == 2
    assert passes.sizes == [[BATCH, TIME, 32]]


def test_heads_are_views_of_the_one_result() -> None:
    assert _run(Layers(_rotated)).merged == 2


def test_attentions_own_gradients_are_not_copied_together() -> None:
    """Of queries, keys and values that attention reads as they are."""
    module = Layers(_attention)
    assert _run(module, training=True).merged == 0
    assert _run(module, training=False).merged == 2


def test_without_autocast_weights_stay_where_they_are() -> None:
    assert _run(Layers(_added), dtype=None).merged == 0


def test_results_of_the_graph_keep_their_strides() -> None:
    def some_leave(*results: Tensor) -> tuple[Tensor, ...]:
        return results[0].transpose(0, 1), results[1] + 1, results[2] * 2

    assert _run(Layers(some_leave)).sizes == [[BATCH, TIME, 16], [BATCH, TIME, 16]]


def test_a_view_that_needs_rows_that_follow_on_one_another() -> None:
    def flat(*results: Tensor) -> Tensor:
        return torch.cat([r.view(-1) for r in results])

    assert _run(Layers(flat)).merged == 0


def _strides_as_numbers(r: Tensor) -> Tensor:
    return r.as_strided((BATCH, TIME, 4), (r.stride(0), r.stride(1), 1)) * 2


def _a_cast_that_gives_its_argument(r: Tensor) -> Tensor:
    return r.to(torch.bfloat16).view(-1) * 2


def _checkpointed(r: Tensor) -> Tensor:
    def body(t: Tensor) -> Tensor:
        return t.view(-1).sin()

    return torch.utils.checkpoint.checkpoint(body, r, use_reentrant=False)


@torch.library.custom_op("tensord_tests::dense_only", mutates_args=())
def _dense_only(x: Tensor) -> Tensor:
    assert x.is_contiguous()
    return x * 2


@_dense_only.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _parts_leave(r: Tensor) -> tuple[Tensor, ...]:
    return (*torch.chunk(r, 2, 1), *torch.unbind(r, 1), *r.split(4, -1))


def _turned_product(r: Tensor) -> Tensor:
    return torch.matmul(torch.ones(3, TIME, dtype=r.dtype), r)


def _written(r: Tensor) -> Tensor:
    return F.dropout(r, 0.0, True, True).float()


@pytest.mark.parametrize(
    ("reader", "training"),
    [
        (_strides_as_numbers, True),
        (_a_cast_that_gives_its_argument, True),
        (_checkpointed, True),
        (_dense_only, False),
        (_parts_leave, True),
        (_turned_product, False),
        (_written, True),
    ],
)
def test_a_layer_whose_reader_may_see_strides_stays_apart(reader: Any, training: bool) -> None:
    """The others are merged. That all do as in eager is what `_run` compares."""

    def after(first: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
        read = reader(first)
        return *((read,) if isinstance(read, Tensor) else read), _added(*results)

    passes = _run(Layers(after), training)
    assert passes.sizes == [[BATCH, TIME, 16], [BATCH, TIME, 16]]


def _copied(r: Tensor) -> tuple[Tensor, ...]:
    """What leaves are copies that lie as in eager."""
    return r[:1].contiguous(), r.float() / 8, r.clone() / 8, r.transpose(0, 1).reshape(-1) / 8


def _parts_read(r: Tensor) -> tuple[Tensor, ...]:
    first, second = torch.chunk(r, 2, -1)
    swap = torch.cat((-second, first), -1)
    return swap / 8, torch.stack([t.cos() for t in torch.unbind(r, 1)]), F.silu(r) @ r.mT / 8


@pytest.mark.parametrize("reader", [_copied, _parts_read])
def test_readers_that_do_not_see_strides(reader: Any) -> None:
    def after(first: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
        return *reader(first), _added(*results)

    assert _run(Layers(after)).merged == 2


def test_a_layer_that_comes_again_behind_another() -> None:
    """The product stands where the first layer stood, before what reads that one."""

    class Module(Layers):
        def forward(self, x: Tensor) -> Tensor:
            first = self.layers[0](x).sin()
            return _added(first, self.layers[1](x), self.layers[0](x))

    assert _run(Module(_added, (16, 16))).merged == 1


def test_one_bias_for_all_columns() -> None:
    module = Layers(_added)
    module.layers[1].bias = nn.Parameter(torch.full((1,), 0.1))
    assert _run(module).sizes == [[BATCH, TIME, 24], [BATCH, TIME, 8]]


def test_results_that_are_written_stay_apart() -> None:
    def written(*results: Tensor) -> Tensor:
        return _added(results[0].mul_(2), *results[1:])

    assert _run(Layers(written)).merged == 1


def test_an_input_that_is_written_between_them() -> None:
    class Module(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = x + 1
            first = self.layers[0](x)
            x.mul_(2)
            return _added(first, self.layers[1](x))

    assert _run(Module(_added), training=False).merged == 0


def test_layers_far_from_each_other_stay_apart() -> None:
    """Their results would all have to live from the first one on."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)) for _ in range(2)
            )

        def forward(self, memory: Tensor) -> Tensor:
            x = memory.sin()
            for query, key, value in self.blocks:
                x = x + query(x) * key(memory).cos() * value(memory).sin()
            return x.float()

    passes = _run(Decoder())
    assert passes.merged == 2
    assert passes.sizes == 2 * [[BATCH, TIME, 16], [BATCH, TIME, 32]]


def test_frozen_layers_stay_apart_from_learned_ones() -> None:
    module = Layers(_added)
    module.layers[0].requires_grad_(False)
    passes = _run(module)
    assert passes.merged == 1
    assert passes.sizes == [[BATCH, TIME, 16], [BATCH, TIME, 16]]


def test_layers_with_and_without_bias_stay_apart() -> None:
    module = Layers(_added)
    module.layers[1].bias = None
    assert _run(module).sizes == [[BATCH, TIME, 24], [BATCH, TIME, 8]]


def test_one_layer_called_twice_is_no_pair() -> None:
    module = Layers(_added)
    module.layers[1] = module.layers[0]
    assert _run(module).sizes == [[BATCH, TIME, 24], [BATCH, TIME, 16]]


def test_llama_end_to_end(daemon: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per layer two of the three of attention and one of the gated ones go; gradients stay."""
    client_passes.on_any_device(monkeypatch)
    model, inputs = models.build("llama")
    model.train()
    layers = model.config.num_hidden_layers

    def gradients(call: Any) -> dict[str, Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            call(**inputs).logits.float().square().mean().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    torch._dynamo.reset()
    tensord.reset_stats()
    ours = gradients(torch.compile(model, backend="tensord", dynamic=False))
    stats = tensord.stats()
    assert stats["products_merged"] == 3 * layers
    assert stats["calls_in_eager"] == 0
    for name, eager in gradients(model).items():
        assert ours[name].is_contiguous(), name
        scale = eager.abs().max().item()
        torch.testing.assert_close(ours[name], eager, rtol=0, atol=0.05 * scale, msg=name)
