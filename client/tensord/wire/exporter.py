# SPDX-License-Identifier: Apache-2.0
"""The parts of a graph, one by one, to Graph of graph.proto (export.py)."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..errors import ExportError
from ..v1 import graph_pb2
from .arguments import Converter, device_of, dtype_of
from .call_backs import DISGUISED, CallBack, CallBackExporter, is_call_back, leaves
from .operators import operator_of
from .source_lines import place_of
from .symbols import Symbols

MAX_CONSTANT_BYTES = 64 << 10
# meta of a get_attr node: the device where the program has the constant, whatever it is on here.
CONSTANT_DEVICE = "tensord_device"
# What holds once a graph is traced: nothing runs for it.
_FACTS = (
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
)


@dataclass
class Exported:
    """A graph and how the program's inputs come from the call's arguments.

    graph.inputs are, in order, the call's arguments numbered `kept`, then `extra`.
    cuda_index: the device that it runs on; None on the CPU.
    call_backs: the plan's steps that run in the job, by number. opaque: the slot of each argument
    that only they take, by its number. returns: the graph's results in order: the slot of an opaque
    one, or None for the next of the program's outputs.
    """

    graph: graph_pb2.Graph
    kept: list[int]
    num_arguments: int
    extra: list[torch.Tensor] = field(default_factory=list)
    cuda_index: int | None = None
    call_backs: list[CallBack] = field(default_factory=list)
    opaque: dict[int, int] = field(default_factory=dict)
    returns: list[int | None] = field(default_factory=list)


class Exporter:
    """One way through a graph; export.py says what comes out."""

    def __init__(
        self,
        module: fx.GraphModule,
        static_inputs: Collection[int] = (),
        donated_inputs: Collection[int] = (),
        opaque_inputs: Collection[int] = (),
    ) -> None:
        self.module = module
        self.static_inputs = static_inputs
        self.opaque_inputs = opaque_inputs
        self.nodes = list(module.graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.donated = {self.placeholders[index] for index in donated_inputs}
        values = [node.meta.get("val") for node in self.nodes]
        self.symbols = Symbols(torch_compat.shape_env_of(leaves(values)), self.nodes)
        self.graph = graph_pb2.Graph()
        self.numbers: dict[fx.Node, int] = {}
        self.cuda: tuple[int, fx.Node | None] | None = None  # its index, and who brought it
        self.node: fx.Node | None = None  # exported now
        self.sources: set[str] = set()  # those whose lines are said
        self.converter = Converter(self.reference, self.symbols.convert)
        self.next_value = 0
        self.call_backs = CallBackExporter(self)

    def run(self) -> Exported:
        placeholders = self.placeholders
        live = live_nodes(self.nodes)
        kept = [
            i
            for i, node in enumerate(placeholders)
            if i not in self.opaque_inputs and self.is_wanted(node)
        ]
        opaque = {
            i: self.call_backs.slot_of(placeholders[i])
            for i in self.opaque_inputs
            if placeholders[i] in live
        }
        attributes = [n for n in self.nodes if n.op == "get_attr" and n in live]
        tensors = {node: self.attribute(node) for node in attributes}
        large = [node for node in attributes if _is_large(tensors[node])]

        self.number_symbols([placeholders[i].meta.get("val") for i in kept])
        for index in kept:
            with blame(placeholders[index]):
                self.add_input(placeholders[index], index)
        extra: list[torch.Tensor] = []
        for node in large:
            with blame(node):
                self.add_large(node, tensors[node], extra)
        for node in attributes:
            if node not in self.numbers:
                with blame(node):
                    self.add_constant(node, tensors[node])
        self.next_value = len(self.graph.inputs) + len(self.graph.constants)
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr", "output") or node not in live:
                continue
            with blame(node):
                self.add_node(node)
        returns = self.add_outputs()
        self.graph.symbols.extend(self.symbols.protos())
        self.check_bound()
        return Exported(
            self.graph,
            kept,
            len(placeholders),
            extra,
            self.cuda[0] if self.cuda is not None else None,
            self.call_backs.finished(returns),
            opaque,
            returns,
        )

    # -- parts of the graph -------------------------------------------------------------------

    def is_wanted(self, node: fx.Node) -> bool:
        """True for arguments that the program takes: all but unused ones of no known kind."""
        value = node.meta.get("val")
        if DISGUISED in node.meta:
            if not node.users:
                return False
            with blame(node):
                raise ExportError(f"an input that {node.meta[DISGUISED]} has no form on the wire")
        if isinstance(value, (torch.Tensor, torch.SymInt)):
            return True
        if isinstance(value, int) and not isinstance(value, bool):
            return True
        if node.users:
            with blame(node):
                raise ExportError(
                    f"an input of type {type(value).__name__} has no form on the wire"
                )
        return False

    def number_symbols(self, values: list[Any]) -> None:
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        sizes = [s for v in values for s in (v.shape if isinstance(v, torch.Tensor) else (v,))]
        rest = [s for v in tensors for s in (*v.stride(), v.storage_offset())]
        for size in sizes:
            self.symbols.show(size)
        for size in (*sizes, *rest):
            self.symbols.add(size)

    def add_input(self, node: fx.Node, index: int) -> None:
        self.node = node
        value = node.meta["val"]
        entry = self.graph.inputs.add(
            name=node.name,
            is_parameter=index in self.static_inputs,
            is_donated=node in self.donated,
        )
        if isinstance(value, torch.Tensor):
            entry.tensor.CopyFrom(self.meta(value))
        else:
            entry.size.CopyFrom(self.symbols.convert(value))
        self.numbers[node] = len(self.graph.inputs) - 1

    def add_large(self, node: fx.Node, tensor: torch.Tensor, extra: list[torch.Tensor]) -> None:
        self.node = node
        for position, known in enumerate(extra):
            if known is tensor:
                self.numbers[node] = len(self.graph.inputs) - len(extra) + position
                return
        extra.append(tensor)
        self.numbers[node] = len(self.graph.inputs)
        entry = self.graph.inputs.add(name=str(node.target), is_parameter=True)
        entry.tensor.CopyFrom(self.meta(tensor))

    def add_constant(self, node: fx.Node, tensor: torch.Tensor) -> None:
        self.node = node
        with torch_compat.without_modes():
            dense = tensor.detach().contiguous()
            # view() wants at least one dimension; numpy has no bfloat16.
            data = dense.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
            meta = self.meta(dense, node.meta.get(CONSTANT_DEVICE))
        meta.storage_offset.constant = 0  # the bytes are dense, whatever they were part of
        for number, known in enumerate(self.graph.constants):
            if known.meta == meta and known.data == data:
                self.numbers[node] = len(self.graph.inputs) + number
                return
        self.numbers[node] = len(self.graph.inputs) + len(self.graph.constants)
        self.graph.constants.add(meta=meta, data=data, name=str(node.target))

    def add_node(self, node: fx.Node) -> None:
        self.node = node
        if is_call_back(node):
            self.number(node, self.call_backs.export(node))
            return
        if node.target is operator.getitem:
            return  # vanishes into a result's number
        if not has_tensor(node.meta.get("val")) and not acts(node):
            return  # vanishes into an expression
        op = operator_of(node)
        where = place_of(node)
        entry = graph_pb2.Node(
            op=op._schema.name,
            overload=op._schema.overload_name,
            name=node.name,
            source=where.source,
            line="" if where.source in self.sources else where.line,
        )
        self.sources.add(where.source)
        entry.args.extend(self.converter.call(node))
        if op._schema.returns:
            entry.outputs.extend(self.results(node))
        self.number(node, entry)

    def number(self, node: fx.Node, entry: graph_pb2.Node) -> None:
        self.graph.nodes.append(entry)
        self.numbers[node] = self.next_value
        self.next_value += 1

    def add_outputs(self) -> list[int | None]:
        """What each result of the graph is: an opaque value's slot, or None for a program's
        output."""
        node = self.nodes[-1]
        returns: list[int | None] = []
        with blame(node):
            results = node.args[0]
            for result in results if isinstance(results, (list, tuple)) else [results]:
                slot = self.call_backs.slots.get(result) if isinstance(result, fx.Node) else None
                returns.append(slot)
                if slot is None:
                    self.graph.outputs.append(self.converter.plain(result))
        return returns

    # -- values -------------------------------------------------------------------------------

    def reference(self, node: fx.Node) -> graph_pb2.ValueRef:
        """The number of a tensor. Results within results (a list within a tuple) count flat."""
        path = list[Any]()
        source: Any = node
        while source.target is operator.getitem:
            path.append(source.args[1])
            source = source.args[0]
        if source not in self.numbers:
            raise ExportError(f"{source.name!r} has no form on the wire")
        output, value = 0, source.meta.get("val")
        for index in reversed(path):
            output += sum(len(leaves(item)) for item in value[:index])
            value = value[index]
        return graph_pb2.ValueRef(value=self.numbers[source], output=output)

    def results(self, node: fx.Node) -> list[graph_pb2.TensorMeta]:
        """The types of an operator's results, absent ones without a dtype."""
        views = any(r.alias_info is not None for r in operator_of(node)._schema.returns)
        return [
            (self.meta if views else self.new_meta)(item)
            if isinstance(item, torch.Tensor)
            else graph_pb2.TensorMeta()
            for item in leaves(node.meta["val"])
        ]

    def new_meta(self, tensor: torch.Tensor) -> graph_pb2.TensorMeta:
        """TensorMeta of a result with memory of its own. torch may say that its elements share it
        where eager's do not (as_strided_scatter into an expanded tensor), and where they do, a
        write to one is one to the others (slice_scatter, whose base is as_strided)."""
        if torch_compat.share_memory(tensor.shape, tensor.stride()):
            raise ExportError("a new tensor whose elements share memory has no form on the wire")
        return self.meta(tensor)

    def meta(
        self, tensor: torch.Tensor, device: torch.device | None = None
    ) -> graph_pb2.TensorMeta:
        """TensorMeta of a fake or real tensor; device: where it will be, if not where it is."""
        device = device or tensor.device
        self.check_plain(tensor, device)
        convert = self.symbols.convert
        meta = graph_pb2.TensorMeta(
            dtype=dtype_of(tensor.dtype),
            device=device_of(device),
            sizes=[convert(s) for s in tensor.shape],
            strides=[convert(s) for s in tensor.stride()],
            storage_offset=convert(tensor.storage_offset()),
        )
        return meta

    def check_plain(self, tensor: torch.Tensor, device: torch.device) -> None:
        """ExportError for what is not a strided tensor of a known type on the graph's device."""
        if tensor.layout is not torch.strided:
            raise ExportError(f"a tensor with {tensor.layout} has no form on the wire")
        if tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            raise ExportError("a quantized, conjugated or negated tensor has no form on the wire")
        if torch.utils._python_dispatch.is_traceable_wrapper_subclass(tensor):
            raise ExportError(f"a {type(tensor).__name__} has no form on the wire")
        dtype_of(tensor.dtype)
        device_of(device)
        if device.type == "cuda":
            self.check_cuda(device.index or 0)

    def attribute(self, node: fx.Node) -> torch.Tensor:
        value = torch_compat.attribute_of(self.module, str(node.target))
        with blame(node):
            if not isinstance(value, torch.Tensor):
                raise ExportError(f"the attribute is {type(value).__name__}, not a tensor")
            if isinstance(value, torch._subclasses.FakeTensor) or _is_subclass(value):
                raise ExportError(f"the attribute is a {type(value).__name__}")
        return value

    # -- checks -------------------------------------------------------------------------------

    def check_bound(self) -> None:
        """Every symbol without a definition must be a size of an input by itself: that is where a
        call finds it."""
        bound = {i for i, one in enumerate(self.graph.symbols) if one.HasField("definition")}
        for entry in self.graph.inputs:
            sizes = [entry.size] if entry.HasField("size") else entry.tensor.sizes
            bound.update(s.symbol for s in sizes if s.HasField("symbol"))
        missing = set(range(len(self.graph.symbols))) - bound
        if missing:
            raise ExportError(f"{len(missing)} symbolic size(s) only occur within expressions")

    def check_cuda(self, index: int) -> None:
        """A program runs on one device."""
        if self.cuda is None:
            self.cuda = (index, self.node)
        elif self.cuda[0] != index:
            first = f" as {self.cuda[1].name!r} is" if self.cuda[1] is not None else ""
            raise ExportError(
                f"it is on cuda:{index}, not on cuda:{self.cuda[0]}{first}: one graph on several "
                "CUDA devices has no form on the wire"
            )


class blame:
    """Puts the node's name and operator before an ExportError's message, as the daemon does."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, ExportError) and not str(error).startswith("node '"):
            what = torch_compat.target_name(self.node)
            where = place_of(self.node).source
            suffix = f" [{where}]" if where else ""
            raise ExportError(f"node {self.node.name!r} ({what}): {error}{suffix}") from error


def live_nodes(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Those of a graph's nodes that an output or an effect needs."""
    live: set[fx.Node] = set()
    pending = [n for n in nodes if n.op == "output" or acts(n)]
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending.extend(node.all_input_nodes)
    return live


def has_tensor(value: Any) -> bool:
    return any(isinstance(item, torch.Tensor) for item in leaves(value))


def acts(node: fx.Node) -> bool:
    """True for what is run for more than its results: it changes something, or may raise."""
    if is_call_back(node):
        return True
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        # A higher-order operator without users may still act; functions on sizes do not.
        return isinstance(node.target, torch._ops.HigherOrderOperator)
    if node.target._schema.name in _FACTS:
        return False
    return node.target._schema.is_mutable or not node.target._schema.returns


def _is_large(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() > MAX_CONSTANT_BYTES


def _is_subclass(tensor: torch.Tensor) -> bool:
    return type(tensor) not in (torch.Tensor, torch.nn.Parameter)
