# SPDX-License-Identifier: Apache-2.0
"""What torch.compile promises beside numbers, for frame_runner.py: stances, limits, errors."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
from typing import Any

import torch
from served_functions import numbers
from tensord.torch_compat.settings import compile_keywords
from torch import Tensor, nn


def plain(x: Tensor) -> Tensor:
    return x.sin() * 2 + 1


def is_eager(function: Any, original: Any) -> bool:
    """Whether the runner has this case run in eager."""
    return function is original


def case_fail_on_recompile(compile: Any) -> Any:
    """What has run once runs; what has not, raises."""
    f = compile(plain)
    results = [f(numbers(5))]
    with torch.compiler.set_stance("fail_on_recompile"):
        results.append(f(numbers(5) * 2))
        raised = is_eager(f, plain)
        try:
            f(numbers(5).double())
        except RuntimeError as error:
            raised = "recompile" in str(error)
    return results, raised, f(numbers(5).double())


def case_eager_on_recompile(compile: Any) -> Any:
    f = compile(plain)
    results = [f(numbers(5))]
    with torch.compiler.set_stance("eager_on_recompile"):
        results += [f(numbers(5) * 2), f(numbers(5).double())]
    return results


def case_force_eager(compile: Any) -> Any:
    """Where the stance is set, the function's own code runs."""
    f = compile(told_who_runs)
    results = [f(numbers(5))]
    with torch.compiler.set_stance("force_eager"):
        eager = f(numbers(5))[1]
    return results[0][0], eager, f(numbers(5))[0]


def told_who_runs(x: Tensor) -> Any:
    return x * 2, torch.compiler.is_compiling()


@torch.compiler.disable
def not_captured(x: Tensor) -> Any:
    return x * 3, torch.compiler.is_compiling()


def calls_disabled(x: Tensor) -> Any:
    y, compiling = not_captured(x + 1)
    return y * 2, compiling


def case_disabled(compile: Any) -> Any:
    return compile(calls_disabled)(numbers(5))


def case_disabled_itself(compile: Any) -> Any:
    return compile(not_captured)(numbers(5))[0], compile(plain)(numbers(5))


def case_reset(compile: Any) -> Any:
    f = compile(plain)
    results = [f(numbers(5))]
    torch._dynamo.reset()
    return [*results, f(numbers(5) * 2)]


def of_many_types(x: Tensor, n: int) -> Tensor:
    return x * n if n % 2 else x + n


def case_recompile_limit(compile: Any) -> Any:
    with torch._dynamo.config.patch(recompile_limit=2):
        f = compile(of_many_types, dynamic=False)
        return [f(numbers(5), n) for n in range(6)]


def told_who_runs_with(x: Tensor, n: int) -> Any:
    return x * n, torch.compiler.is_compiling()


def who_ran(function: Any, counts: Any) -> Any:
    """By argument, whether it was torch.compile's code."""
    return [function(numbers(5), n)[1] for n in counts]


def case_limit_of_served_frames(compile: Any) -> Any:
    """More frames are recorded than one process may have of a code."""
    with torch._dynamo.config.patch(recompile_limit=2):
        for counts in ((2, 3), (4, 5)):  # of two processes
            who_ran(compile(told_who_runs_with, dynamic=False), counts)
            torch._dynamo.reset()
        f = compile(told_who_runs_with, dynamic=False)
        ran = who_ran(f, range(2, 6))
    return ran == [not is_eager(f, told_who_runs_with)] * 2 + [False] * 2 or ran


def case_limit_of_its_own(compile: Any) -> Any:
    if "recompile_limit" not in compile_keywords():  # before torch 2.13
        return compile(plain)(numbers(5))
    f = compile(told_who_runs_with, dynamic=False, recompile_limit=1, name="region")
    ran = who_ran(f, (2, 3))
    return ran == [not is_eager(f, told_who_runs_with), False] or ran


def case_entries_of_its_own(compile: Any) -> Any:
    if "isolate_recompiles" not in compile_keywords():  # before torch 2.13
        return compile(plain)(numbers(5))
    isolated = compile(plain, isolate_recompiles=True)
    return isolated(numbers(5)), compile(plain)(numbers(5))


def case_disabled_from_outside(compile: Any) -> Any:
    """As it was called before, and by torch.compiler.disable in eager."""
    results = []
    for target in (told_who_runs, Told()):
        f = compile(target)
        results += [f(numbers(5))[0], torch.compiler.disable(f)(numbers(5)), f(numbers(5))[0]]
    return results


def case_disabled_by_keyword(compile: Any) -> Any:
    f = compile(told_who_runs)
    return f(numbers(5))[0], compile(told_who_runs, disable=True)(numbers(5))


def case_run_only(compile: Any) -> Any:
    """What has run once runs; what has not, runs in eager."""
    results = []
    for target in (told_who_runs, Told()):
        f = compile(target)
        f(numbers(5))
        run_only = torch._dynamo.run(f)
        results += [run_only(numbers(5))[0], run_only(numbers(5).double())]
        compiled = run_only(numbers(5) * 2)[1]
        results.append(compiled != is_eager(f, target))
    return results


class Told(nn.Module):
    """Who runs it."""

    def forward(self, x: Tensor) -> Any:
        """As told_who_runs."""
        return told_who_runs(x)


def with_item(x: Tensor) -> Tensor:
    return x * x.sum().item()


def case_other_settings(compile: Any) -> Any:
    results = [compile(with_item)(numbers(5))]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        results.append(compile(with_item)(numbers(5)))
    return results


class Refused(Exception):
    """Of a test's user code."""


def raises(x: Tensor, n: int) -> Tensor:
    y = x * 2
    if n > 1:
        raise Refused(f"n is {n}")
    return y


def middle(x: Tensor, n: int) -> Tensor:
    return raises(x.sin(), n) + 1


def case_error_of_user(compile: Any) -> Any:
    """Type, text, and the lines of the user's file."""
    f, x = compile(middle), numbers(5)
    results: list[Any] = [f(x, 1)]
    try:
        f(x, 2)
    except Refused as error:
        here = [e for e in traceback.extract_tb(error.__traceback__) if e.filename == __file__]
        results += [str(error), [(e.name, e.line) for e in here if e.name in ("middle", "raises")]]
    return [*results, f(x, 1)]


def indexed(x: Tensor, values: list[int]) -> Tensor:
    y = x * 2
    print(end="")
    return y * values[3]


def case_error_behind_a_break(compile: Any) -> Any:
    f = compile(indexed)
    results: list[Any] = [f(numbers(5), [1, 2, 3, 4])]
    try:
        f(numbers(5), [1, 2])
    except IndexError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        results += [str(error), last.filename == __file__, last.line]
    return results


def caught(x: Tensor) -> Any:
    try:
        return raises(x, 3)
    except Refused:
        return x - 1


def case_error_caught_within(compile: Any) -> Any:
    return compile(caught)(numbers(5))


def wrong_sizes(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def case_wrong_sizes(compile: Any) -> Any:
    """An error of torch, and what follows it is right."""
    f = compile(wrong_sizes)
    results: list[Any] = [f(numbers(3, 4), numbers(4, 5))]
    try:
        f(numbers(3, 4), numbers(6, 5))
    except Exception:
        results.append("refused")
    return [*results, f(numbers(3, 4), numbers(4, 5) * 2)]


def case_threads(compile: Any) -> Any:
    f = compile(plain)
    results: list[Any] = [None] * 6

    def run(number: int) -> None:
        results[number] = [f(numbers(5) * number * i) for i in range(3)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Data(torch.utils.data.Dataset):
    """Whose items are made by a compiled function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> Tensor:
        return self.function(numbers(5) * number)


def case_data_loader_that_forks(compile: Any) -> Any:
    f = compile(plain)
    before = f(numbers(5))
    loader = torch.utils.data.DataLoader(
        Data(f), batch_size=2, num_workers=2, multiprocessing_context="fork"
    )
    return before, list(loader), f(numbers(5))


def in_child(function: Any, queue: Any) -> None:
    queue.put([function(numbers(5)).tolist(), function(numbers(5).double()).tolist()])


def case_child_that_is_first(compile: Any) -> Any:
    """A child captures or is served though its parent never was."""
    context = multiprocessing.get_context("fork")
    f, queue = compile(plain), context.Queue()
    child = context.Process(target=in_child, args=(f, queue))
    child.start()
    results = queue.get(timeout=120)
    child.join()
    return [torch.tensor(one) for one in results], child.exitcode, f(numbers(5))


def case_compiled_within_compiled(compile: Any) -> Any:
    inner = compile(plain)
    return compile(lambda x: inner(x) * 2)(numbers(5)), inner(numbers(5))


def case_two_of_one_function(compile: Any) -> Any:
    one, other = compile(plain), compile(plain, dynamic=False)
    return one(numbers(5)), other(numbers(5)), one(numbers(6)), other(numbers(6)), one(numbers(5))


class Layer(nn.Module):
    """Called by name of its own method."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight

    def encode(self, x: Tensor) -> Tensor:
        return self(x) + 1


def case_compile_method_of_module(compile: Any) -> Any:
    layer = Layer()
    layer.encode = compile(layer.encode)  # type: ignore[method-assign]
    layer.encode(numbers(5)).sum().backward()
    return layer.weight.grad


def case_modules_in_a_module(compile: Any) -> Any:
    """As people compile each layer of a model."""
    model = nn.Sequential(Layer(), Layer(), nn.Tanh())
    for i in range(2):
        model[i] = compile(model[i])
    model(numbers(5)).sum().backward()
    return [p.grad for p in model.parameters()], [
        name.count("weight") for name in model.state_dict()
    ]
