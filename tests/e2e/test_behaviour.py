# SPDX-License-Identifier: Apache-2.0
"""What users of torch.compile rely on, with the real daemon: shapes, mutation, threads, forks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from compare import check, wide
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", **options)


def _check(what: str, run: Any, function: Any, *inputs: Tensor) -> None:
    """Compares with eager and with float64."""
    check(what, run(*inputs), function(*inputs), function(*wide(inputs)))


# -- indexing -------------------------------------------------------------------------------------


def test_writes_of_one_element() -> None:
    def put(x: Tensor) -> Tensor:
        y = x.clone()
        y[torch.tensor([2])] = 3.0
        return y

    def scattered(x: Tensor) -> Tensor:
        return x.scatter_add(0, torch.tensor([3]), x[:1])

    for function in (put, scattered):
        x = torch.rand(5)
        _check(function.__name__, compiled(function), function, x)


@pytest.mark.parametrize("index", [torch.tensor(4), torch.tensor([[-1], [0]])], ids=["one", "two"])
def test_take(index: Tensor) -> None:
    run = compiled(torch.take, fullgraph=True)
    for x in (torch.arange(6).reshape(2, 3), torch.rand(3, 2).t()):
        assert torch.equal(run(x, index), torch.take(x, index))


@pytest.mark.parametrize("name", ["max", "min", "median", "mode", "kthvalue", "topk"])
def test_gradients_of_a_choice_among_the_elements_of_a_vector(name: str) -> None:
    choice = getattr(torch, name)
    options: dict[str, int] = {"k": 1} if name in ("kthvalue", "topk") else {}

    def function(x: Tensor) -> Tensor:
        return (choice(x * 2, dim=0, **options)[0] * 3).sum()

    x = torch.rand(7, requires_grad=True)
    compiled(function)(x).backward()
    mine, x.grad = x.grad, None
    function(x).backward()
    torch.testing.assert_close(mine, x.grad)


def test_a_part_is_put_into_an_expanded_tensor_as_in_eager() -> None:
    def function(x: Tensor, part: Tensor) -> Tensor:
        return torch.as_strided_scatter(x.expand(3, 4), part, (2, 2), (1, 2))

    x, part = torch.rand(4), torch.rand(2, 2)
    torch.testing.assert_close(compiled(function)(x, part), function(x, part))


def test_a_part_is_put_among_the_gaps_of_a_tensor_as_in_eager() -> None:
    def function(x: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
        put = torch.as_strided_scatter(x[:, 0], part, (2, 2), (3, 1))
        return put * 2, put.as_strided((19,), (1,), 0) + 1

    x, part = torch.arange(20.0).view(10, 2), torch.rand(2, 2)
    _check("as_strided_scatter", compiled(function), function, x, part)


@pytest.mark.parametrize("of", [lambda x: x, lambda x: x[2:]])
def test_a_part_is_put_before_what_an_input_begins_with(of: Callable[[Tensor], Tensor]) -> None:
    def function(x: Tensor, part: Tensor) -> Tensor:
        return torch.as_strided_scatter(of(x), part, (2, 2), (3, 1), storage_offset=1)

    for x in (torch.rand(20), torch.rand(20)[3:]):
        part = torch.rand(2, 2)
        assert torch.equal(compiled(function)(x, part), function(x, part))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "part_of",
    [lambda x: x[:, ::2], lambda x: x.unfold(1, 2, 1), lambda x: x[:, 1:].unfold(1, 2, 1)],
    ids=["gaps", "windows", "windows behind the first column"],
)
def test_a_part_counts_from_where_what_it_is_put_into_has_its_memory_in_eager(
    part_of: Callable[[Tensor], Tensor], dynamic: bool
) -> None:
    """What the program itself computes lies somewhere in its workspace."""

    def function(x: Tensor, part: Tensor) -> tuple[Tensor, ...]:
        other = torch.sin(x) @ torch.ones(x.shape[1], 3)
        target = part_of(torch.nn.functional.pad(x * 2, (1, -1, 0, 1)))
        put = torch.as_strided_scatter(target, part, (2, 2), (2, 1), 1)
        return other, put, torch.cat([torch.selu(target)] * 2)

    run = compiled(function, dynamic=dynamic)
    for columns in (7, 9) if dynamic else (7,):
        x, part = torch.rand(1, columns), torch.rand(2, 2)
        for got, wanted in zip(run(x, part), function(x, part), strict=True):
            torch.testing.assert_close(got, wanted)


def test_an_identity_of_complex_numbers_is_real() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.eye(3, 2, dtype=torch.complex64), torch.linalg.matrix_power(x, 0) + x

    _check("eye", compiled(function), function, torch.rand(2, 2, dtype=torch.complex128))


def test_groups_of_as_many_channels_as_a_call_has() -> None:
    def function(x: Tensor) -> Tensor:
        return F.group_norm(x, 2) * 2

    run = compiled(function, dynamic=True)
    for channels in (6, 10):
        _check("group_norm", run, function, torch.rand(2, channels, 3))


def test_moments_of_nothing_are_not_numbers() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.std_mean(x, dim=0)

    x = torch.empty(0, 5)
    torch.testing.assert_close(compiled(function)(x), function(x), equal_nan=True)


def test_windows_of_a_number() -> None:
    x = torch.tensor(3.0)
    for function in (lambda x: x.unfold(0, 1, 1) + 1, lambda x: (x * 2).unfold(0, 1, 1) + 1):
        _check("unfold", compiled(function), function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.gelu(x),
        lambda x: x.float() & x,
        lambda x: x.view(2, 2) @ x.view(2, 2).float(),
    ],
)
def test_what_eager_rejects_is_eagers_error(function: Any) -> None:
    x = torch.arange(4)
    with pytest.raises(Exception) as theirs:
        function(x)
    with pytest.raises(type(theirs.value)) as mine:
        compiled(function)(x)
    assert str(mine.value).startswith(str(theirs.value))


def test_narrow_running_statistics() -> None:
    """torch declares the new ones wide."""

    def function(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.instance_norm(x, mean, var, use_input_stats=True)

    x = torch.randn(3, 5, 6).half()
    start = [torch.zeros(5).half(), torch.ones(5).half()]
    mine, eager, exact = ([s.clone() for s in kind] for kind in (start, start, wide(start)))
    results = compiled(function)(x, *mine), function(x, *eager), function(wide(x), *exact)
    check("result", *results)
    check("statistics", mine, eager, exact)


@pytest.mark.parametrize("returned", [False, True])
def test_gradients_of_the_largest_of_narrow_numbers(returned: bool) -> None:
    def function(x: Tensor) -> Tensor:
        y = x.cos()
        return torch.cat([y.flatten(), y.amax(1)]) if returned else y.amax(1)

    torch.manual_seed(0)
    x = torch.randn(3, 7, dtype=torch.bfloat16)
    gradients = []
    for run in (compiled(function), function):
        leaf = x.clone().requires_grad_()
        run(leaf).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def test_an_addend_of_a_size_that_is_found_to_be_one() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.addmm(x.chunk(11, 0)[-1], y, y.t())

    x, y = torch.randn(17), torch.randn(3, 17)
    check("result", compiled(function, dynamic=True)(x, y), function(x, y))


# -- shapes ---------------------------------------------------------------------------------------


def _normalised(x: Tensor, w: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, x.shape[-1:]) * 2 + x.mean(-1, keepdim=True)) @ w


def test_dynamic_true_compiles_once_for_all_sizes() -> None:
    run = compiled(_normalised, dynamic=True, fullgraph=True)
    for rows, columns in ((5, 33), (8, 64), (130, 17), (64, 64), (3, 2), (1000, 7)):
        x, w = torch.randn(rows, columns), torch.randn(columns, 6)
        _check(f"{rows}x{columns}", run, _normalised, x, w)
    assert tensord.stats()["graphs"] == 1


def test_sizes_that_are_quotients_of_others() -> None:
    def function(x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1) // 2, 2, x.size(2)) * 2

    run = compiled(function, dynamic=True, fullgraph=True)
    for rows in (8, 4, 12):
        _check(f"{rows} rows", run, function, torch.rand(3, rows, 5))


def test_a_size_that_was_none_when_captured() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.stack([x, x, x], 0)
        part = y[y.size(0) // 2 :, 0:, y.size(2) // 2 :]
        return torch.nn.functional.pad(part[..., 1::2], (-1, 0, 1, -1))

    run = compiled(function, dynamic=True, fullgraph=True)
    for sizes in ((7, 3), (5, 9), (4, 12)):
        x = torch.rand(sizes).t()
        torch.testing.assert_close(run(x), function(x))


def test_sizes_become_dynamic_by_themselves() -> None:
    run = compiled(_normalised, fullgraph=True)
    w = torch.randn(33, 6)
    for rows in (5, 9, 12, 40, 77):
        x = torch.randn(rows, 33)
        _check(f"{rows} rows", run, _normalised, x, w)
    assert tensord.stats()["graphs"] == 2


def test_dynamic_training() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 3))
    run = compiled(model, dynamic=True)
    for rows in (4, 7, 31):
        x = torch.randn(rows, 16)
        results = []
        for forward in (run, model):
            model.zero_grad()
            F.cross_entropy(forward(x), torch.arange(rows) % 3).backward()
            results.append([p.grad.clone() for p in model.parameters()])
        check(f"gradients of {rows} rows", *results)
    assert tensord.stats()["graphs"] <= 3


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(-1, 2).sum(1), lambda x: torch.cat([x, x * 2]), lambda x: x[1:] - x[:-1],
    lambda x: x.flip(0), lambda x: x.view(x.shape[0] * x.shape[1]).cumsum(0),
    lambda x: x.sum(0) / x.shape[0], lambda x: torch.arange(x.shape[0]) + x[:, 0],
    lambda x: x.softmax(0), lambda x: F.pad(x, (1, 1)), lambda x: x.new_ones(x.shape[1]) * x,
    lambda x: x.transpose(0, 1).contiguous() + 1, lambda x: x.repeat(2, 1), lambda x: x.max(0),
    lambda x: x.shape[0] * x.mean(), lambda x: x.unfold(0, 2, 1).sum(-1), lambda x: x.var(1),
    lambda x: (x, x.shape[0] + 1), lambda x: x.chunk(2, 1)[0] * 2, lambda x: x.argmax(1),
])  # fmt: skip
def test_operators_of_dynamic_size(function: Any) -> None:
    run = compiled(function, dynamic=True, fullgraph=True)
    for rows in (4, 9, 30):
        x = torch.randn(rows, 6)
        check(f"{rows} rows", run(x), function(x))
    assert tensord.stats()["graphs"] == 1


def test_empty_and_single() -> None:
    run = compiled(lambda x: (x.sum(), x + 1, x.sum(0), F.softmax(x, -1)), dynamic=False)
    for sizes in ((0, 4), (4, 0), (1, 1), (1, 4)):
        x = torch.randn(sizes)
        check(str(sizes), run(x), (x.sum(), x + 1, x.sum(0), F.softmax(x, -1)))


def test_inputs_of_other_strides_are_compiled_anew() -> None:
    run = compiled(lambda x: torch.tanh(x) * 2 + x)
    base = torch.randn(12, 20)
    for x in (base, base.t(), base[::2], base[:, 1:], base[:, ::3], base.expand(3, 12, 20)):
        check(str(x.stride()), run(x), torch.tanh(x) * 2 + x)


def test_inputs_that_share_memory() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    base, other = torch.randn(20), None
    other = base.clone()
    for _ in range(2):
        ours = compiled(function)(base[:10], base[5:15])
        check("result", ours, function(other[:10], other[5:15]))
        check("memory", base, other)


# -- mutation -------------------------------------------------------------------------------------


def test_batch_norm_statistics() -> None:
    torch.manual_seed(0)
    make = lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())  # noqa: E731
    ours, eager = make(), make()
    eager.load_state_dict(ours.state_dict())
    run = compiled(ours)
    for step in range(3):
        x = torch.randn(4, 3, 9, 7)
        a, b = run(x), eager(x)
        check(f"step {step}", a, b)
        a.sum().backward()
        b.sum().backward()
        check(
            f"state after {step}",
            list(ours.state_dict().values()),
            list(eager.state_dict().values()),
        )
    ours.eval(), eager.eval()
    check("evaluation", run(x), eager(x))


def test_inputs_changed_in_place() -> None:
    def function(x: Tensor, y: Tensor, count: Tensor) -> Tensor:
        x.mul_(2).add_(y)
        y[1:3] = 7
        count += 1
        return (x.sum() + y).relu_()

    ours = [torch.randn(4, 5), torch.randn(4, 5), torch.zeros((), dtype=torch.long)]
    eager = [t.clone() for t in ours]
    check("result", compiled(function, fullgraph=True)(*ours), function(*eager))
    check("inputs", ours, eager)


def test_buffer_of_a_module() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.total.lerp_(x, 0.25)
            return x - self.total

    ours, eager = Counter(), Counter()
    run = compiled(ours)
    for _ in range(3):
        x = torch.randn(3)
        check("result", run(x), eager(x))
    check("buffer", ours.total, eager.total)


def test_results_that_alias() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return x, x[1:], y, y.t(), y

    x = torch.randn(4, 4)
    ours = compiled(function)(x)
    check("results", ours, function(x))
    assert ours[0] is x
    assert ours[1].data_ptr() == x[1:].data_ptr()
    assert ours[2].data_ptr() == ours[3].data_ptr()
    ours[2][0, 0] = 5
    assert ours[3][0, 0] == 5


def test_a_result_stays_when_the_next_call_runs() -> None:
    run = compiled(lambda x: torch.sin(x).cumsum(0) + 1)
    first = run(torch.ones(1000))
    kept = first.clone()
    run(torch.zeros(1000))
    assert torch.equal(first, kept)


# -- ways to call ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
)
def test_modes(mode: str) -> None:
    x = torch.randn(17, 19)
    run = compiled(lambda x: x.softmax(-1) * x.sigmoid(), mode=mode, fullgraph=True)
    check(mode, run(x), x.softmax(-1) * x.sigmoid())


def test_an_unknown_option_is_the_users_error() -> None:
    with pytest.raises(Exception, match="no_such_option"):
        compiled(lambda x: x + 1, options={"no_such_option": True})(torch.ones(2))


def test_graph_breaks() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin() + 1
        if y.sum() > 0:  # Dynamo cannot know
            return y.cos() * 2
        return y.exp()

    x = torch.ones(5)
    check("result", compiled(function)(x), function(x))
    check("result", compiled(function)(-5 * x), function(-5 * x))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(function, fullgraph=True)(x)


def test_numbers_and_containers() -> None:
    def function(values: dict[str, Any], scale: float, *, flag: bool = False) -> dict[str, Any]:
        x = values["x"] * scale
        return {"sum": x.sum(), "list": [x + 1, (x, 3)], "flag": not flag, "none": None}

    values = {"x": torch.randn(4, 3)}
    run = compiled(function)
    for scale in (2.0, 0.5, 3.0):
        check(f"scale {scale}", run(values, scale, flag=True), function(values, scale, flag=True))


def test_several_threads() -> None:
    def prefixes(x: Tensor) -> Tensor:
        return F.layer_norm(x.sin(), (64,)).cumsum(-1)

    def function(x: Tensor) -> Tensor:
        return prefixes(x) @ x.t()

    run = compiled(function)
    run(torch.randn(64, 64))
    problems: list[str] = []

    def work() -> None:
        try:
            for _ in range(10):
                x = torch.randn(64, 64)
                largest = (prefixes(x).abs().max() * x.abs().max()).item()  # term of the sums
                exact = function(x.double())
                check("result", run(x), function(x), exact, magnitude=largest)
        except Exception as error:
            problems.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


class _Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((4,), float(index)) * 2


def test_forked_data_loader_beside_compiling() -> None:
    run = compiled(lambda x: x.cos() * 2 + x.mean(), dynamic=False)
    loader = torch.utils.data.DataLoader(_Rows(), batch_size=5, num_workers=2)
    for _ in range(2):
        for batch in loader:  # the last batch is smaller: a compile while workers live
            check("batch", run(batch), batch.cos() * 2 + batch.mean())


def test_errors_of_torch_pass_through() -> None:
    solve = compiled(lambda x: torch.linalg.cholesky(x) * 2)
    check("result", solve(torch.eye(3) * 4), torch.linalg.cholesky(torch.eye(3) * 4) * 2)
    with pytest.raises(RuntimeError, match=r"positive-definite|cholesky"):
        solve(-torch.eye(3))
    check("after", solve(torch.eye(3)), torch.linalg.cholesky(torch.eye(3)) * 2)


def test_shapes_that_do_not_fit_raise_as_in_eager() -> None:
    with pytest.raises(Exception, match=r"size|shape"):
        compiled(lambda x, y: x + y)(torch.ones(3), torch.ones(4))


def test_the_same_graph_is_found_again() -> None:
    x = torch.randn(21, 23)
    check("first", compiled(lambda x: x.erf() * 3)(x), x.erf() * 3)
    torch._dynamo.reset()
    tensord.reset_stats()
    check("second", compiled(lambda x: x.erf() * 3)(x), x.erf() * 3)
    stats = tensord.stats()
    assert (stats["hits"], stats["compiled"], stats["kernels_compiled"]) == (1, 0, 0)


def test_explain_and_run_only() -> None:
    run = compiled(lambda x: x.tan() + 1)
    x = torch.randn(5)
    run(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        check("result", run(x), x.tan() + 1)
    report = torch._dynamo.explain(lambda x: x.tan() + 1)(x)
    assert report.graph_count == 1


def test_tensors_made_under_inference_mode() -> None:
    run = compiled(lambda x: x.square() + 1)
    with torch.inference_mode():
        x = torch.randn(9)
        check("result", run(x), x.square() + 1)
