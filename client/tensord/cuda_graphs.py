"""mode="reduce-overhead": a compiled program's work is captured as a CUDA graph and replayed.

A replay costs the host one launch, whatever the program does. In exchange a graph reads and writes
the same memory at each replay, and all of this file is about that:

- Inputs that keep their address (parameters, buffers, results of another graph) are read where they
  lie; a graph serves the addresses that it was captured with. Others are copied to a place of the
  graph's own first, and copied back where the program writes into them.
- Results are handed out without a copy, as tensors over the graph's memory that do not own it.
  While one of them is alive the graph is not replayed. A result that is still held at the next call
  (a loss in a list, accumulated gradients) makes the program be captured anew, and from then on is
  given out as a copy.
- Each graph has a memory pool of its own: in a shared one the workspace of one graph would lie
  where the results of another still live.
- Random numbers: torch registers its generator with each capture, so a replay draws new ones, and
  torch.manual_seed determines them.

Where a capture is not possible the program runs as ever, and the reason is counted and said once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import fx

from . import torch_compat
from .counters import STATS

log = logging.getLogger("tensord")

Boxed = Callable[[list[Any]], list[Any]]

# Calls before a capture: libraries choose algorithms, modules are loaded, tensors find their place.
WARM_UP = 2
# Captures of one program for one set of shapes: addresses change, or results are held.
MAX_VARIANTS = 4
# Shapes that a program may have captured, as a multiple of those that it keeps.
_MAX_TURNOVER = 4
_DEFAULT_LIMIT = 16

# Operators whose results depend on data, which the host must wait for.
_WAITING = ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::masked_select",
            "aten::_unique2", "aten::unique_dim", "aten::equal", "aten::is_nonzero")  # fmt: skip


class Device(Protocol):
    """What captures and replays; CUDA, or a stand-in for tests."""

    def capture(self, run: Callable[[], list[Any]]) -> tuple[Any, list[Any]]:
        """A graph with a method replay() of what `run` does, and run's results in its memory."""
        ...

    def stream(self) -> int | None:
        """The stream that work goes to now; None while somebody else captures it."""
        ...


class CudaDevice:
    """torch.cuda, one device of it."""

    def __init__(self, index: int) -> None:
        self._index = index

    def capture(self, run: Callable[[], list[Any]]) -> tuple[Any, list[Any]]:
        with torch.cuda.device(self._index):
            graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
            try:
                # Other threads of the job may do as they like meanwhile.
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    results = run()
            except BaseException:
                torch.cuda.set_stream(stream)  # torch leaves its own when a capture fails
                raise
            return graph, results

    def stream(self) -> int | None:
        if torch.cuda.is_current_stream_capturing():
            return None
        return torch.cuda.current_stream(self._index).cuda_stream


@dataclass(frozen=True)
class Plan:
    """What is known of a program before it runs.

    static: arguments that keep their address. written: arguments that the program writes into.
    keyed: arguments whose sizes or value may differ from call to call. obstacle: why it cannot be
    captured; "" when nothing is known against it. index: the device.
    """

    static: frozenset[int]
    written: frozenset[int]
    keyed: tuple[int, ...] = ()
    obstacle: str = ""
    index: int = 0


def plan_of(module: fx.GraphModule, static: Iterable[int], index: int = 0) -> Plan:
    """Reads an AOTAutograd graph whose nodes carry fake values in meta["val"]."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    number = {node: i for i, node in enumerate(placeholders)}
    keyed = tuple(i for node, i in number.items() if _may_differ(node.meta.get("val")))
    written, obstacle = set(), ""
    for node in _live(module.graph):
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            on_device = not isinstance(value, torch.Tensor) or value.device.type == "cuda"
            # A constant on the CPU is part of the program.
            if not on_device and node.op != "get_attr":
                obstacle = obstacle or f"{node.name} is on the {value.device.type.upper()}"
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if node.target._schema.name in _WAITING:
            obstacle = obstacle or f"{torch_compat.operator_name(node.target)} waits for the GPU"
        if node.target is torch.ops.aten.copy_.default and node.args[0] in number:
            written.add(number[node.args[0]])
    return Plan(frozenset(static), frozenset(written), keyed, obstacle, index)


def _live(graph: fx.Graph) -> list[fx.Node]:
    """Nodes that a result or a write into an argument needs, in order."""
    copy = torch.ops.aten.copy_.default
    pending = [n for n in graph.nodes if n.op == "output" or n.target is copy]
    live: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending.extend(node.all_input_nodes)
    return [node for node in graph.nodes if node in live]


def _may_differ(value: Any) -> bool:
    """True for arguments whose sizes, or that themselves, are not part of the graph."""
    if not isinstance(value, torch.Tensor):
        return True
    return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))


@dataclass
class _Output:
    """How to make one result after a replay. storage: its number; None for what is no tensor of the
    graph's. argument: the argument that it is, or whose memory it views."""

    value: Any = None
    storage: int | None = None
    argument: int | None = None
    dtype: torch.dtype | None = None
    offset: int = 0
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    copied: bool = False


@dataclass
class _Captured:
    """One graph and its memory."""

    graph: Any
    # Arguments that must lie where they lay, and their addresses.
    fixed: list[int]
    addresses: list[int]
    # Arguments that are copied to the graph's own places.
    places: dict[int, torch.Tensor]
    outputs: list[_Output]
    # The one that it is replayed on: what is in flight on another might still use its memory.
    stream: int | None
    storages: list[torch.UntypedStorage]
    # What the last replay handed out, by storage.
    handed: list[Any] = field(default_factory=list)

    def fits(self, arguments: Sequence[Any]) -> bool:
        """True when the fixed arguments lie where the graph reads them."""
        return all(
            arguments[i].data_ptr() == address
            for i, address in zip(self.fixed, self.addresses, strict=True)
        )

    def held(self) -> set[int]:
        """Storages whose tensors are still used from the last replay."""
        return {i for i, ref in enumerate(self.handed) if ref is not None and not ref.expired()}


# Storages of live graphs' results, by address: what lies there keeps its address.
_GRAPH_MEMORY: Counter[int] = Counter()
# Graphs that were given up while their results were still held; freed once those are gone.
_GIVEN_UP: list[_Captured] = []
_said: set[str] = set()


def _refuse(reason: str) -> None:
    STATS.add_graph_reason(reason)
    if reason not in _said:
        _said.add(reason)
        log.warning("tensord: no CUDA graph: %s", reason)


def _limit() -> int:
    text = os.environ.get("TENSORD_CUDA_GRAPHS_LIMIT", "")
    return int(text) if text.isdigit() else _DEFAULT_LIMIT


@dataclass
class _Shape:
    """What a program knows about one set of shapes."""

    calls: int = 0
    captures: int = 0
    variants: list[_Captured] = field(default_factory=list)
    # Results that were held across calls, by their number.
    copied: set[int] = field(default_factory=set)
    given_up: bool = False


class GraphedProgram:
    """A program that is captured once it is warm. Called as the program is."""

    def __init__(self, program: Boxed, plan: Plan, device: Device | None = None) -> None:
        self._program = program
        self._plan = plan
        self._device = device or CudaDevice(plan.index)
        self._busy = threading.Lock()
        self._shapes: OrderedDict[Any, _Shape] = OrderedDict()
        self._evicted = 0
        self._limit = _limit()
        if plan.obstacle:
            _refuse(plan.obstacle)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self._plan.obstacle or self._limit == 0:
            return self._program(arguments)
        # Two threads at once would share a graph's memory.
        if not self._busy.acquire(blocking=False):
            return self._program(arguments)
        try:
            return self._call(arguments)
        finally:
            self._busy.release()

    def _call(self, arguments: list[Any]) -> list[Any]:
        stream = self._device.stream()
        shape = self._shape_of(arguments)
        if stream is None or shape is None or shape.given_up:
            return self._program(arguments)
        if shape.calls < WARM_UP:
            shape.calls += 1
            return self._program(arguments)
        captured = next((c for c in shape.variants if c.fits(arguments)), None)
        if captured is not None and captured.stream != stream:
            return self._program(arguments)
        if captured is not None and (held := captured.held()):
            self._learn(shape, captured, held)
            captured = None
        if captured is None:
            captured = self._capture(shape, arguments, stream)
            if captured is None:
                return self._program(arguments)
        return self._replay(captured, arguments)

    # -- shapes ---------------------------------------------------------------------------------

    def _shape_of(self, arguments: Sequence[Any]) -> _Shape | None:
        key = tuple(
            (tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a
            for a in map(arguments.__getitem__, self._plan.keyed)
        )
        shape = self._shapes.get(key)
        if shape is not None:
            self._shapes.move_to_end(key)
            return shape
        if self._evicted >= _MAX_TURNOVER * self._limit:
            _refuse("more shapes than TENSORD_CUDA_GRAPHS_LIMIT keeps")
            return None
        shape = self._shapes[key] = _Shape()
        if len(self._shapes) > self._limit:
            _, oldest = self._shapes.popitem(last=False)
            for captured in oldest.variants:
                self._evicted += 1
                STATS.add("cuda_graphs_evicted")
                _give_up(captured)
        return shape

    def _learn(self, shape: _Shape, captured: _Captured, held: set[int]) -> None:
        """Results that are held across calls will be copies, and the graph is captured anew."""
        STATS.add("cuda_graphs_held")
        for number, output in enumerate(captured.outputs):
            if output.storage in held:
                shape.copied.add(number)
        shape.variants.remove(captured)
        _give_up(captured)

    # -- capture --------------------------------------------------------------------------------

    def _capture(self, shape: _Shape, arguments: Sequence[Any], stream: int) -> _Captured | None:
        if shape.captures >= MAX_VARIANTS:
            shape.given_up = True
            _refuse("addresses change or results are held at every call")
            return None
        shape.captures += 1
        _free_given_up()
        fixed, places = [], {}
        for i, argument in enumerate(arguments):
            if not isinstance(argument, torch.Tensor):
                continue
            address = argument.untyped_storage().data_ptr()
            if i in self._plan.static or address in _GRAPH_MEMORY:
                fixed.append(i)
            else:
                places[i] = _place_like(argument)
                _fill(places[i], argument)
        inputs = [places.get(i, argument) for i, argument in enumerate(arguments)]
        try:
            graph, results = self._device.capture(lambda: self._program(list(inputs)))
        except Exception as error:  # whatever it was: the program itself still runs
            shape.given_up = True
            _refuse(f"the capture failed: {type(error).__name__}: {str(error)[:200]}")
            return None
        addresses = [arguments[i].data_ptr() for i in fixed]
        captured = _Captured(graph, fixed, addresses, places, [], stream, [])
        _describe(captured, inputs, results, shape.copied)
        for storage in captured.storages:
            _GRAPH_MEMORY[storage.data_ptr()] += 1
        shape.variants.append(captured)
        STATS.add("cuda_graphs")
        return captured

    # -- replay ---------------------------------------------------------------------------------

    def _replay(self, captured: _Captured, arguments: list[Any]) -> list[Any]:
        for i, place in captured.places.items():
            _fill(place, arguments[i])
        captured.graph.replay()
        for i in self._plan.written:
            if i in captured.places:
                arguments[i].copy_(captured.places[i])
        results = _results(captured, arguments)
        arguments.clear()
        STATS.add("cuda_graph_replays")
        return results


def _place_like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a tensor of this shape and strides."""
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def _fill(place: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copies, an expanded dimension once."""
    if 0 in tensor.stride():
        size = [1 if t == 0 else n for n, t in zip(tensor.shape, tensor.stride(), strict=True)]
        place, tensor = (x.as_strided(size, x.stride()) for x in (place, tensor))
    place.copy_(tensor, non_blocking=True)


def _describe(
    captured: _Captured, inputs: Sequence[Any], results: Sequence[Any], copied: set[int]
) -> None:
    """How to make each result again after a replay."""
    owners = {
        argument.untyped_storage().data_ptr(): i
        for i, argument in enumerate(inputs)
        if isinstance(argument, torch.Tensor) and argument.numel()
    }
    numbers: dict[int, int] = {}
    for number, result in enumerate(results):
        if not isinstance(result, torch.Tensor):
            captured.outputs.append(_Output(value=result))
            continue
        storage = result.untyped_storage()
        output = _Output(
            dtype=result.dtype,
            offset=result.storage_offset(),
            size=tuple(result.shape),
            stride=result.stride(),
            copied=number in copied,
        )
        if result.numel() and storage.data_ptr() in owners:
            output.argument = owners[storage.data_ptr()]
            # Relative to the argument, which may lie elsewhere next time.
            output.offset -= inputs[output.argument].storage_offset()
        else:
            output.storage = numbers.setdefault(storage.data_ptr(), len(numbers))
            if output.storage == len(captured.storages):
                captured.storages.append(storage)
        captured.outputs.append(output)


def _results(captured: _Captured, arguments: Sequence[Any]) -> list[Any]:
    """Fresh tensors over the graph's memory, which do not own it, and copies where they are due."""
    lent = [torch_compat.storage_over(storage) for storage in captured.storages]
    results = []
    for output in captured.outputs:
        if output.argument is not None:
            results.append(_of_argument(output, arguments[output.argument]))
            continue
        if output.storage is None:
            results.append(output.value)
            continue
        storage = lent[output.storage]
        tensor = torch.empty(0, dtype=output.dtype, device=storage.device)
        tensor.set_(storage, output.offset, output.size, output.stride)
        results.append(tensor.clone() if output.copied else tensor)
    captured.handed = [torch_compat.storage_reference(storage) for storage in lent]
    return results


def _of_argument(output: _Output, argument: torch.Tensor) -> torch.Tensor:
    """An argument itself, or a view of it."""
    if (
        output.offset == 0
        and output.size == tuple(argument.shape)
        and output.stride == argument.stride()
        and output.dtype == argument.dtype
    ):
        return argument
    tensor = torch.empty(0, dtype=output.dtype, device=argument.device)
    offset = argument.storage_offset() + output.offset
    return tensor.set_(argument.untyped_storage(), offset, output.size, output.stride)


# -- the end of a graph --------------------------------------------------------------------------


def _give_up(captured: _Captured) -> None:
    """Drops a graph, once nothing that it handed out is held any more."""
    for storage in captured.storages:
        _GRAPH_MEMORY[storage.data_ptr()] -= 1
        if not _GRAPH_MEMORY[storage.data_ptr()]:
            del _GRAPH_MEMORY[storage.data_ptr()]
    captured.places.clear()
    _GIVEN_UP.append(captured)
    _free_given_up()


def _free_given_up() -> None:
    _GIVEN_UP[:] = [captured for captured in _GIVEN_UP if captured.held()]
