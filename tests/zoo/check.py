# SPDX-License-Identifier: Apache-2.0
"""Compiles one architecture, and compares inference and a training step with eager."""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensord
import torch
from tensord.debug.judge import SHAKEN_RUNS, Shake
from torch import Tensor

from .catalogue import Built, UnsupportedError, build, loss_of, tensors_of
from .report import group_of

# Error that is allowed whatever eager's own is, as a fraction of a tensor's largest value, and as
# one of the largest value of all gradients (what cancels has noise for a gradient).
TOLERANCE = 3e-5
OVERALL = 2e-6
EAGER_FACTOR = 3.0
MOST_SHAKEN_RUNS = 48
Json = dict[str, Any]


class DifferentError(Exception):
    """A result that is not eager's."""


def _infer(built: Built, run: Callable[..., Any], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    with torch.no_grad():
        return {n: t.clone() for n, t in tensors_of(built.call(run, inputs)).items()}


def train_once(
    built: Built, run: Callable[..., Any], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    model = built.model
    model.zero_grad()
    output = built.call(run, inputs)
    loss = loss_of(output)
    found = {"loss": loss.detach()}
    found |= {name: t.detach().clone() for name, t in tensors_of(output).items()}
    if loss.requires_grad:
        loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad
    return found


def _exact(built: Built, work: Callable[..., dict[str, Tensor]]) -> dict[str, Tensor] | None:
    """In float64; None where the model cannot be run so."""
    try:
        wide = Built(copy.deepcopy(built.model).double(), built.inputs)
        inputs = {n: t.double() if t.is_floating_point() else t for n, t in built.inputs.items()}
        return work(wide, wide.model, inputs)
    except Exception:
        return None


def compare_with_shaken(
    ours: dict[str, Tensor],
    eager: dict[str, Tensor],
    exact: dict[str, Tensor] | None,
    shake: Callable[[int], dict[str, Tensor]],
) -> None:
    """Compares with eager whose values are rounded at random too: what roundings make of results.

    shake: such a run, by its seed. Where a rounding decides on which side of a kink a value lies,
    few of the runs have it on ours, so that what differs from a few is compared with more.
    """
    shaken: list[dict[str, Tensor]] = []
    for runs in (SHAKEN_RUNS, MOST_SHAKEN_RUNS // 2, MOST_SHAKEN_RUNS):
        shaken += [shake(seed) for seed in range(len(shaken), runs)]
        try:
            return compare(ours, eager, exact, shaken)
        except DifferentError:
            if runs == MOST_SHAKEN_RUNS:
                raise


def _shake(built: Built, work: Callable[..., dict[str, Tensor]], seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    with Shake():
        return work(built, built.model, built.inputs)


def _where_all_are_finite(*runs: Tensor) -> list[Tensor]:
    """In float64, and 0 where a run is not finite: how far others are off there says nothing."""
    finite = torch.stack([torch.isfinite(run) for run in runs]).all(0)
    return [run.double().where(finite, 0) for run in runs]


def compare(
    ours: dict[str, Tensor],
    eager: dict[str, Tensor],
    exact: dict[str, Tensor] | None,
    shaken: Sequence[dict[str, Tensor]] = (),
) -> None:
    """Raises DifferentError, which names the worst. shaken: eager's results, rounded otherwise."""
    missing = sorted(set(eager) ^ set(ours))
    if missing:
        raise DifferentError(f"only one has: {', '.join(missing[:8])}")
    grads = [t.abs().max().item() for n, t in eager.items() if n.startswith("grad") and t.numel()]
    overall = OVERALL * max(grads, default=0.0)
    problems = []
    for name, theirs in eager.items():
        mine = ours[name]
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            raise DifferentError(f"{name}: {mine.dtype} {tuple(mine.shape)}, eager has "
                                 f"{theirs.dtype} {tuple(theirs.shape)}")  # fmt: skip
        if theirs.numel() == 0:
            continue
        truth = exact[name] if exact and name in exact else theirs
        if truth.shape != theirs.shape:
            truth = theirs
        if not theirs.is_floating_point():
            if not torch.equal(mine, theirs):
                problems.append((float((mine != theirs).sum()), f"{name}: other integers"))
            continue
        if not torch.equal(torch.isfinite(mine), torch.isfinite(theirs)):
            problems.append((float("inf"), f"{name}: not finite where eager is, or the reverse"))
            continue
        mine, truth, theirs, *others = _where_all_are_finite(
            mine, truth, theirs, *(run[name] for run in shaken)
        )
        scale = max(theirs.abs().max().item(), 1e-30)
        error, *usuals = ((t - truth).abs().max().item() for t in (mine, theirs, *others))
        usual = max(usuals)
        limit = max(TOLERANCE * scale, EAGER_FACTOR * usual, overall if "grad" in name else 0.0)
        if error > limit:
            text = (
                f"{name}: off by {error / scale:.3g} of its largest, eager by {usual / scale:.3g}"
            )
            problems.append((error / limit, text))
    if problems:
        worst = max(problems)
        raise DifferentError(f"{worst[1]}; {len(problems)} of {len(eager)} tensors are off")


def cause_of(error: BaseException) -> str:
    """The innermost message on a line, for people; worded alike for one cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}"
    text = re.sub(r" \(the graph was kept as [^)]*\)", "", text)
    return text.split("raised:\n", 1)[-1].strip().split("\n")[0][:400]


def run_once(
    built: Built, work: Callable[..., dict[str, Tensor]], backend: str
) -> tuple[Json, dict[str, Tensor]]:
    """Compiles one way of calling; gives status, cause and figures, and the results, if any."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    tensord.reset_stats()
    eager = work(built, built.model, built.inputs)
    exact = _exact(built, work)
    state = copy.deepcopy(built.model.state_dict())
    result: Json = {"status": "right", "cause": ""}
    ours: dict[str, Tensor] = {}
    start = time.perf_counter()
    try:
        compiled = torch.compile(built.model, backend=backend)
        ours = work(built, compiled, built.inputs)
        result["seconds"] = round(time.perf_counter() - start, 1)
        try:
            compare(ours, eager, exact)
        except DifferentError:  # unless roundings matter as much in eager
            compare_with_shaken(ours, eager, exact, functools.partial(_shake, built, work))
    except DifferentError as error:
        result |= {"status": "wrong", "cause": str(error)}
    except Exception as error:
        result |= {"status": "failed", "cause": cause_of(error)}
        result["trace"] = "".join(traceback.format_exception(error))[-2500:]
    built.model.load_state_dict(state)
    stats = tensord.stats()
    result["graphs"] = stats["graphs"]
    result["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
    result["kernels"] = stats["kernels"]
    result["call_backs"] = stats.get("call_backs", 0)
    for name in ("frames_served", "frames_captured", "frames_unrecorded", "frames_unfit"):
        result[name] = stats[name]
    if result["status"] == "right" and (stats["fallbacks"] or stats["calls_in_eager"]):
        result |= {"status": "failed", "cause": f"in eager: {stats['fallback_reasons']}"}
    return result, ours


def is_upstream(
    built: Built,
    work: Callable[..., dict[str, Tensor]],
    result: Json,
    ours: dict[str, Tensor],
) -> bool:
    """True where torch's own backend aot_eager does the same: it fails for the same cause, or
    differs from eager too and gives what we give. (A model may ask whether it is being compiled,
    and leave out its mask in eager alone.) Where aot_eager fails and we do not, the graphs that
    were captured, run in eager, say whether they are another program. Notes in `result` what the
    others do."""
    status, same = _does_the_same(built, work, result, ours, "aot_eager")
    if status == "failed" and result["status"] == "wrong":
        _, same = _does_the_same(built, work, result, ours, "eager")
    return same


def _does_the_same(
    built: Built,
    work: Callable[..., dict[str, Tensor]],
    result: Json,
    ours: dict[str, Tensor],
    backend: str,
) -> tuple[str, bool]:
    """The status of another backend, and whether it ends as we do."""
    other, theirs = run_once(built, work, backend)
    status = other["status"]
    result[backend] = f"{status} {other['cause']}".strip()
    if status != result["status"]:
        return status, False
    if status == "failed":
        return status, group_of(other["cause"]) == group_of(result["cause"])
    try:
        compare(ours, theirs, None)
    except DifferentError as error:
        result[backend] += f"; from its results: {error}"
        return status, False
    return status, True


def check(name: str, device: str = "cpu", note: Callable[[Json], None] = lambda said: None) -> Json:
    """A line of the table: status, and the figures of inference and training.

    status: "right", "wrong" or "failed"; "upstream" where torch's own backend aot_eager does the
    same; "unsupported" where eager cannot run the architecture here.
    """
    place = torch.device(device) if device != "cpu" else contextlib.nullcontext()
    with warnings.catch_warnings(), place:
        warnings.simplefilter("ignore")
        try:
            built = build(name)
        except UnsupportedError as error:
            return {"status": "unsupported", "cause": str(error)}
        line: Json = {"status": "right", "cause": "", "what": built.what}
        note(line)
        works = {"inference": _infer, "training": train_once}
        for kind, work in works.items():
            built.model.train(kind == "training")
            if kind == "training" and not any(p.requires_grad for p in built.model.parameters()):
                continue
            result, ours = run_once(built, work, "tensord")
            bad = result["status"] in ("wrong", "failed")
            if bad and is_upstream(built, work, result, ours):
                result["status"] = "upstream"
            line[kind] = result
            note({kind: result})
        order = ["right", "upstream", "failed", "wrong"]
        worst = max((line[k] for k in works if k in line), key=lambda r: order.index(r["status"]))
        line["status"], line["cause"] = worst["status"], worst["cause"]
        torch._dynamo.reset()
        return line
