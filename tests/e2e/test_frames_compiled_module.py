# SPDX-License-Identifier: Apache-2.0
"""What `tensord.compile` makes of a module is a module as torch.compile's is: the same keys,
attributes and copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from torch import Tensor, nn


class Model(nn.Module):
    """Parameters, buffers, an attribute and a method."""

    limit = 3

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.register_buffer("scale", torch.ones(1))
        self.label = "a"

    def forward(self, x: Tensor, *, twice: bool = False) -> Tensor:
        return self.layers(x) * self.scale * (2 if twice else 1)

    def describe(self) -> str:
        return f"{self.label}{self.limit}"


def _shapes(pairs: Any) -> Any:
    return [(name, tuple(value.shape)) for name, value in pairs]


def _set_attribute(m: Any, own: Any) -> Any:
    m.label = "b"
    return own.label, m.label, m.describe()


def _set_parameter(m: Any, own: Any) -> Any:
    m.extra = nn.Parameter(torch.ones(2))
    return sorted(name for name, _ in own.named_parameters()), "extra" in m.__dict__


def _delete(m: Any, own: Any) -> Any:
    del m.label
    return hasattr(own, "label"), hasattr(m, "label")


def _modes(m: Any, own: Any) -> Any:
    said = [m.training, own.training]
    m.eval()
    said += [m.training, own.training, own.layers[1].training]
    m.train()
    said += [m.training, own.training, own.layers[1].training]
    own.eval()
    return [*said, m.training]


def _load(m: Any, own: Any) -> Any:
    changed = {name: value + 1 for name, value in m.state_dict().items()}
    missing = m.load_state_dict(changed)
    return str(missing), own.layers[0].bias.sum().item()


def _copy(m: Any, own: Any) -> Any:
    other = copy.deepcopy(m)
    other.label = "c"
    return (type(other) is type(m), other._orig_mod is own, own.label, other.describe(),
            _shapes(other.state_dict().items()))  # fmt: skip


def _pickle(m: Any, own: Any) -> Any:
    other = pickle.loads(pickle.dumps(m))
    return type(other) is type(m), other.describe(), _shapes(other.state_dict().items())


def _saved(m: Any, own: Any) -> Any:
    file = io.BytesIO()
    torch.save(m.state_dict(), file)
    file.seek(0)
    return _shapes(torch.load(file).items())


def _moved(m: Any, own: Any) -> Any:
    back = m.to(torch.float64)
    return back is m, own.scale.dtype, [p.dtype for p in m.parameters()]


def _frozen(m: Any, own: Any) -> Any:
    back = m.requires_grad_(False)
    return back is m, [p.requires_grad for p in own.parameters()]


def _hooked(m: Any, own: Any) -> Any:
    called = []
    m.register_load_state_dict_post_hook(
        lambda module, keys: called.append(type(module) is type(m))
    )
    m.load_state_dict(m.state_dict())
    return called


def _error(m: Any, own: Any) -> Any:
    with pytest.raises(AttributeError) as raised:
        _ = m.not_there
    return "not_there" in str(raised.value)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "is a module": lambda m, own: (isinstance(m, nn.Module), m._orig_mod is own),
    "state_dict": lambda m, own: _shapes(m.state_dict().items()),
    "parameters": lambda m, own: _shapes(m.named_parameters()),
    "the same parameters": lambda m, own: [
        p is q for p, q in zip(m.parameters(), own.parameters(), strict=True)
    ],
    "buffers": lambda m, own: _shapes(m.named_buffers()),
    "modules": lambda m, own: [name for name, _ in m.named_modules()],
    "children": lambda m, own: [name for name, _ in m.named_children()],
    "attributes": lambda m, own: (m.label, m.limit, m.describe(), m.layers is own.layers),
    "submodule": lambda m, own: m.get_submodule("_orig_mod.layers.0") is own.layers[0],
    "attribute set": _set_attribute,
    "parameter set": _set_parameter,
    "attribute deleted": _delete,
    "train and eval": _modes,
    "load_state_dict": _load,
    "deepcopy": _copy,
    "pickle": _pickle,
    "torch.save": _saved,
    "to": _moved,
    "requires_grad_": _frozen,
    "zero_grad": lambda m, own: m.zero_grad(),
    "apply": lambda m, own: m.apply(lambda one: None) is m,
    "half": lambda m, own: (m.half() is m, own.scale.dtype),
    "hooks": _hooked,
    "no such attribute": _error,
    "dir": lambda m, own: {"label", "describe", "layers"} <= set(dir(m)),
}


@pytest.mark.parametrize("use", USES)
def test_as_torchs(clean: Any, use: str) -> None:
    said = []
    for compile in (tensord.compile, torch.compile):
        told = {} if compile is tensord.compile else {"backend": "tensord"}
        own = Model()
        said.append(USES[use](compile(own, **told), own))
    assert said[0] == said[1]


def test_sequence_of_layers(clean: Any) -> None:
    own = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    one, other = tensord.compile(own), torch.compile(own, backend="tensord")
    assert len(one) == len(other) == 2


def test_decorator(tensord_daemon: Any) -> None:
    @tensord.compile
    def plain(x: Tensor) -> Tensor:
        """Twice."""
        return x * 2

    @tensord.compile(dynamic=True, fullgraph=True)
    def told(x: Tensor) -> Tensor:
        return x * 3

    x = torch.randn(5)
    assert torch.equal(plain(x), x * 2) and torch.equal(told(x), x * 3)
    assert plain.__name__ == "plain" and plain.__doc__ == "Twice."


def test_unknown_options() -> None:
    with pytest.raises(ValueError, match="unknown option"):
        tensord.compile(Model(), options={"no_such": True})
    with pytest.raises(ValueError, match="mode"):
        tensord.compile(Model(), mode="no-such")
    with pytest.raises(TypeError, match="a function or a module"):
        tensord.compile(3)


def test_hooks_of_the_compiled_module(tensord_daemon: Any) -> None:
    model = Model().eval()
    compiled = tensord.compile(model)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x, twice=True), model(x, twice=True))
    compiled.register_forward_pre_hook(lambda m, arguments: (arguments[0] + 1,))
    compiled.register_forward_hook(lambda m, arguments, result: result * 3)
    torch.testing.assert_close(compiled(x), model(x + 1) * 3)
