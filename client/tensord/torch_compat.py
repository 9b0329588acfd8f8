# SPDX-License-Identifier: Apache-2.0
"""Everything private of torch that this package touches, with the versions it was seen in.

Seen: 2.11, 2.13. Each function says what it does where a version lacks the thing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

# What AOTAutograd calls: it takes the arguments in a list, which it empties, and gives results.
Boxed = Callable[[list[Any]], Any]

# Operators that are better whole, as one library call, than as the small operators that torch would
# make of them; the daemon runs what it does not lower through torch's dispatcher.
KEEP_WHOLE = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_scaled_dot_product_flash_attention_backward",
        "aten::_scaled_dot_product_efficient_attention_backward",
        "aten::_scaled_dot_product_cudnn_attention_backward",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::embedding_dense_backward",
        "aten::_embedding_bag",
        "aten::upsample_bilinear2d.vec",
        "aten::upsample_bicubic2d.vec",
        "aten::grid_sampler_2d",
        "aten::max_pool2d_with_indices_backward",
        "aten::addmm",
        "aten::baddbmm",
        "aten::mm",
        "aten::bmm",
        "aten::cumsum",
        "aten::cumprod",
    }
)


def operator_name(op: torch._ops.OpOverload) -> str:
    """The name as the daemon has it: aten::sum.dim_IntList; the default overload has no suffix."""
    name = op._schema.name
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def target_name(node: fx.Node) -> str:
    """What a node calls, for people."""
    if isinstance(node.target, torch._ops.OpOverload):
        return operator_name(node.target)
    return getattr(node.target, "__name__", str(node.target))


def attribute_of(module: torch.nn.Module, path: str) -> Any:
    """What a get_attr node of a graph reads; None where there is nothing."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions to core ATen, {OpOverload: function}."""
    try:  # 2.11 to 2.13: the table without composite operators, which autograd decomposes anyway
        from torch._decomp import _core_aten_decompositions_post_autograd

        table = dict(_core_aten_decompositions_post_autograd())
    except ImportError:
        from torch._decomp import core_aten_decompositions

        table = dict(core_aten_decompositions().items())
    return {**table, torch.ops.aten.take.default: _take}


def _take(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """As torch's, which asks an index of 0 dimensions for its value."""
    return torch.ops.aten.index.Tensor(self.reshape(-1), [index])


@functools.cache
def let_partitioner_recompute(ops: tuple[Any, ...], only_fused: tuple[Any, ...] = ()) -> None:
    """Tells the min-cut partitioner that `ops` (overload packets) are cheap to compute again, and
    that `only_fused` fuse as they do, but are not.

    2.11 to 2.13: get_default_op_list() makes the lists anew for every graph, so it is wrapped once.
    Where it is missing, the partitioner saves the random tensors instead: correct, but larger.
    """
    from torch._functorch import partitioners

    original = getattr(partitioners, "get_default_op_list", None)
    if original is None:
        return

    @functools.wraps(original)
    def extended() -> Any:
        types = original()
        types.recomputable_ops.update(ops)
        types.fusible_ops.update(ops, only_fused)
        return types

    partitioners.get_default_op_list = extended


def subexpressions_are_kept() -> bool:
    """True where the partitioner does not merge common subexpressions: the user switched it off, or
    torch no longer has the setting."""
    from torch._functorch import config

    return not getattr(config, "cse", False)


def keep_subexpressions() -> contextlib.AbstractContextManager[Any]:
    """A block in which the partitioner leaves common subexpressions as they are."""
    from torch._functorch import config

    return config.patch(cse=False)


def must_save(node: fx.Node) -> None:
    """Marks a node of a joint graph: its value is saved for backward, never computed again."""
    from torch.utils.checkpoint import CheckpointPolicy

    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def autograd(**compilers: Any) -> Callable[[fx.GraphModule, Any], Any]:
    """AOTAutograd as a backend of Dynamo, with the arguments of torch's aot_autograd.

    2.11 to 2.13: that imports TorchInductor's scheduler to write files under TORCH_COMPILE_DEBUG=1,
    a tenth of a second and more of a process's first graph. What it does otherwise is done here but
    for inputs that are not flat.
    """
    from torch._dynamo import disable
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis
    from torch._dynamo.utils import counters
    from torch._functorch.aot_autograd import aot_module_simplified

    def backward(*arguments: Any, **named: Any) -> Any:
        """Neither the compiler nor what it returns is for Dynamo to trace."""
        return disable(disable(compilers["bw_compiler"])(*arguments, **named))

    def run(module: fx.GraphModule, inputs: Any) -> Any:
        nested = any(isinstance(x, (list, tuple, dict)) for x in inputs)
        if nested or os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1":
            return aot_autograd(**compilers)(module, inputs)
        count = counters["aot_autograd"]
        count["total"] += 1
        try:
            done = aot_module_simplified(module, inputs, **{**compilers, "bw_compiler": backward})
        except TensorifyScalarRestartAnalysis:
            raise  # Dynamo begins again
        except Exception:
            count["not_ok"] += 1
            raise
        count["ok"] += 1
        return disable(done)

    return run


def around_compiles(begins: Callable[..., None], ends: Callable[..., None]) -> bool:
    """Has Dynamo call `begins` before and `ends` after its compilations, those within others left
    out, whatever the backend; once, however often this is called. True when it was not so before.

    2.11 to 2.13: torch._dynamo.reset() drops both. Where it is missing nothing is called.
    """
    handler = getattr(torch._dynamo, "callback_handler", None)
    if handler is None or begins in handler.start_callbacks:
        return False
    handler.register_end_callback(ends)
    handler.register_start_callback(begins)
    return True


def told_of_resets(backend: Any) -> None:
    """Has the next torch._dynamo.reset() call `backend.reset()`, once, even if asked several times.

    A reset forgets all backends, and torch.compile notes the one that it is given.
    Where that is missing nothing is called.
    """
    backends = getattr(torch._dynamo.eval_frame, "cached_backends", None)
    if isinstance(backends, dict):
        backends[id(backend)] = backend


def errors_for_dynamo() -> tuple[type[BaseException], ...]:
    """What a backend may raise to tell Dynamo that a graph cannot be traced: sizes or values that
    depend on data, and the like."""
    return tuple(getattr(torch._dynamo.exc, "exceptions_allowed_to_be_fallback", ()))


def lower_backward_early() -> contextlib.AbstractContextManager[Any]:
    """Has AOTAutograd hand over the backward graph together with the forward one.

    Without the setting (before 2.7) the backward graph comes at the first backward call.
    """
    from torch._functorch import config

    if hasattr(config, "force_non_lazy_backward_lowering"):
        return config.patch(force_non_lazy_backward_lowering=True)
    return contextlib.nullcontext()


def _of_forward(name: str) -> Sequence[Any]:
    """What AOTAutograd notes of the forward graph of the capture under way; nothing where it does
    not."""
    context = torch._guards.TracingContext.try_get()
    return getattr(getattr(context, "fw_metadata", None), name, None) or ()


def gradients_may_be_absent(count: int) -> bool:
    """True when the backward graph under way, which takes `count` gradients, can be called with
    None for one: 2.11 to 2.13 pass None on as it is, where AOTAutograd takes no subclasses of
    tensors apart."""
    kinds = _of_forward("subclass_tangent_meta")
    return len(kinds) == count and all(type(kind).__name__ == "PlainTensorMeta" for kind in kinds)


def backward_node(tensor: Any) -> Any:
    """The autograd node of a graph that AOTAutograd compiled, where the tensor is its result and
    the graph takes no subclasses of tensors; else None."""
    node = getattr(tensor, "grad_fn", None)
    if type(node).__name__ != "CompiledFunctionBackward":
        return None
    function = getattr(type(node), "_forward_cls", None)
    return node if getattr(function, "maybe_subclass_metadata", function) is None else None


# Nodes whose backward is called with None, while they live: number to weak reference. Each change
# is one operation of a dict, for they go in any thread.
_WITHOUT_ZEROS: dict[int, weakref.ref[Any]] = {}


def make_no_zeros(node: Any) -> None:
    """Has autograd call such a node's backward with None for a gradient that does not come."""
    node.materialize_grads = False
    key = id(node)
    _WITHOUT_ZEROS[key] = weakref.ref(node, lambda _: _WITHOUT_ZEROS.pop(key, None))


def make_zeros_for_compiled_autograd() -> None:
    """From now on compiled autograd, which traces AOTAutograd's own backward, gets zeros again."""
    from torch._dynamo.compiled_autograd import AutogradCompilerInstance as Tracer

    begin = Tracer.begin_capture
    if getattr(begin, "_makes_zeros", False):
        return

    @functools.wraps(begin)
    def begin_capture(*arguments: Any, **named: Any) -> Any:
        for reference in list(_WITHOUT_ZEROS.values()):
            if (node := reference()) is not None:
                node.materialize_grads = True
        return begin(*arguments, **named)

    begin_capture._makes_zeros = True  # type: ignore[attr-defined]
    Tracer.begin_capture = begin_capture  # type: ignore[method-assign]


# The orders in which torch itself tries its attention kernels: SDPBackend's numbers.
_MATH, _FLASH, _EFFICIENT, _CUDNN, _OVERRIDEABLE = range(5)
_ORDERS = (
    [_FLASH, _EFFICIENT, _MATH, _CUDNN, _OVERRIDEABLE],
    [_FLASH, _EFFICIENT, _MATH, _CUDNN],
    [_CUDNN, _FLASH, _EFFICIENT, _MATH],
)


@contextlib.contextmanager
def fastest_attention_first() -> Iterator[None]:
    """A block in which scaled_dot_product_attention takes cuDNN's kernel first, from Hopper on.

    torch chooses while a graph is traced, so the choice is in the graph. Where cuDNN does not serve
    a case, or is switched off, torch goes on to the next; an order that the user set is kept.
    """
    read = getattr(torch._C, "_get_sdp_priority_order", None)
    write = getattr(torch._C, "_set_sdp_priority_order", None)
    if read is None or write is None or not torch.cuda.is_available():
        yield
        return
    before = list(read())
    hopper = torch.cuda.get_device_capability() >= (9, 0)
    if not hopper or before not in _ORDERS:
        yield
        return
    rest = [kernel for kernel in before if kernel != _CUDNN]
    write([_CUDNN, *rest])
    try:
        yield
    finally:
        write(before)


def storage_over(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Another storage over the same memory, which does not own it.

    2.11 to 2.13, as torch's own CUDA graph trees do.
    """
    make: Any = torch._C._construct_storage_from_data_pointer  # typed as another kind of storage
    over: torch.UntypedStorage = make(storage.data_ptr(), storage.device, storage.nbytes())
    return over


# A tensor's dtype, size, stride and offset, in elements.
Layout = tuple[Any, tuple[int, ...], tuple[int, ...], int]


def layout_of(tensor: torch.Tensor) -> Layout:
    """What `tensor_over` takes to make it again."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())


def tensor_over(
    storage: torch.UntypedStorage,
    dtype: Any,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """A tensor on a storage.

    2.11 to 2.13, built with CUDA: in one call, as torch's own CUDA graph trees do.
    """
    make = getattr(torch._C, "_construct_CUDA_Tensor_From_Storage_And_Metadata", None)
    if make is not None and storage.device.type == "cuda":
        metadata = {
            "dtype": dtype,
            "device": storage.device,
            "size": size,
            "stride": stride,
            "storage_offset": offset,
        }
        return make(metadata, storage)
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    return tensor.set_(storage, offset, size, stride)


@contextlib.contextmanager
def without_product_workspaces() -> Iterator[None]:
    """A block around a capture whose products leave nothing behind.

    2.11 to 2.13: torch keeps a workspace for each stream and library handle. One that is made in a
    capture lies in the capture's pool, and would be that of later captures too. torch can only drop
    all of them, as it does for its own CUDA graph trees.
    """
    try:
        yield
    finally:
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()


def end_broken_capture(index: int, pool: tuple[int, int]) -> None:
    """Has device `index` no longer allocate from `pool` after a capture whose end raised.

    2.11 to 2.13: torch leaves that undone where the driver refuses to end the capture. Where it was
    done, this raises at its first step and changes nothing. Other graphs in the pool keep it.
    """
    with contextlib.suppress(Exception):
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)


def recorded(graph: fx.Graph) -> Callable[[], fx.Graph]:
    """What makes the graph anew as it is now, with its nodes' `meta`, and what Dynamo keeps on
    inputs beside that (2.11 to 2.13). What nodes name is shared. The record itself costs little:
    nodes' arguments are immutable, so it only refers to them.
    """
    nodes = [
        (n, (n.op, n.target), n.args, n.kwargs, (n.name, n.type), dict(n.meta)) for n in graph.nodes
    ]
    tracer, codegen = graph._tracer_cls, graph._codegen

    def make() -> fx.Graph:
        new = fx.Graph(tracer_cls=tracer)
        copies: dict[fx.Node, fx.Node] = {}
        for old, call, args, kwargs, name, meta in nodes:
            args, kwargs = fx.node.map_arg((args, kwargs), copies.__getitem__)
            copies[old] = copy = new.create_node(*call, args, kwargs, *name)
            copy.meta = dict(meta)
            if hasattr(old, "_dynamo_source"):
                copy._dynamo_source = old._dynamo_source
        new.set_codegen(codegen)
        return new

    return make


def depends_on_data(value: Any) -> bool:
    """True for fake values with a size, or that are a number, which only the data tells."""
    try:
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    except ImportError:
        return False
    leaves = torch.utils._pytree.tree_leaves(value)
    known = [x for x in leaves if isinstance(x, (torch.Tensor, torch.SymInt, torch.SymFloat))]
    return any(free_unbacked_symbols(x) for x in known)


def symbols_of(values: Iterable[Any]) -> set[Any]:
    """The symbols in the sizes of fake values; empty where torch cannot tell."""
    try:
        from torch.fx.experimental.symbolic_shapes import free_symbols
    except ImportError:
        return set()
    found: set[Any] = set()
    for leaf in torch.utils._pytree.tree_leaves(list(values)):
        if isinstance(leaf, (torch.Tensor, torch.SymInt)):
            found.update(free_symbols(leaf))
    return found


def is_symbol(value: Any, symbols: set[Any]) -> bool:
    """True for a SymInt that is one of `symbols` and nothing else."""
    return isinstance(value, torch.SymInt) and value.node.expr in symbols


def effect_operators() -> frozenset[Any]:
    """What a graph calls an operator with effects by: with_effects(token, operator, ...)."""
    try:
        from torch._higher_order_ops.effects import with_effects
    except ImportError:
        return frozenset()
    return frozenset({with_effects})


def is_random(node: fx.Node) -> bool:
    """True for operators that draw from a generator."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def storage_reference(storage: torch.UntypedStorage) -> Any:
    """A weak reference: expired() is True once no tensor uses the storage."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(storage)


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """A block in which real tensors can be read although a graph is being captured."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def fake_mode_of(value: Any) -> contextlib.AbstractContextManager[Any]:
    """A block in which new tensors are fake as `value` is; an empty one for a real tensor."""
    return getattr(value, "fake_mode", None) or contextlib.nullcontext()


def static_input_indices() -> set[int]:
    """Inputs of the forward or inference graph that keep their address (parameters, buffers)."""
    return {index for index in _of_forward("static_input_indices") if index >= 0}


def takes_list(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Marks a function as one that AOTAutograd calls with a list of arguments, which it may empty.
    On a function: wrappers of Dynamo lose the attributes of any other callable."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def boxed(module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The module as a function of a list that it empties, so that inputs are freed on the way."""
    codegen = getattr(fx.graph, "_BoxedCodeGen", None)  # 2.9 and later
    if codegen is not None:
        module.graph.set_codegen(codegen())
        module.recompile()
        return module.forward

    def call(arguments: list[Any]) -> Any:
        values = tuple(arguments)
        arguments.clear()
        return module(*values)

    return call


_VIEW_TRACKING = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """A block whose operators run below autograd, autocast and view tracking: a view of a parameter
    would say that it requires a gradient."""
    with (
        torch._C._DisableAutocast(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_VIEW_TRACKING),
    ):
        yield


def shape_env_of(values: Iterable[Any]) -> Any:
    """The ShapeEnv behind the first symbolic size among fake tensors and SymInts, or None."""
    for value in values:
        if isinstance(value, torch.SymInt):
            return value.node.shape_env
        if isinstance(value, torch.Tensor):
            for size in (*value.shape, *value.stride()):
                if isinstance(size, torch.SymInt):
                    return size.node.shape_env
    return None


def symbol_hint(shape_env: Any, symbol: Any) -> int | None:
    """The value of a symbol at capture, or None (data-dependent)."""
    for table in ("backed_var_to_val", "var_to_val"):  # 2.11 and later; before
        value = getattr(shape_env, table, {}).get(symbol)
        if value is not None:
            return int(value)
    return None


def is_positive(shape_env: Any, expression: Any) -> bool:
    """True for a sympy expression that is at least 1, whatever its symbols are in their ranges."""
    return bool(shape_env.bound_sympy(expression).lower >= 1)


def symbol_range(shape_env: Any, symbol: Any) -> tuple[Any, Any]:
    """The inclusive range of a symbol as sympy numbers; infinite where nothing is known."""
    bounds = shape_env.var_to_range[symbol]
    return bounds.lower, bounds.upper
