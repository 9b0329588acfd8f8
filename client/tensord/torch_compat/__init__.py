# SPDX-License-Identifier: Apache-2.0
"""Everything private of torch that this package touches, with the versions it was seen in: a topic
a module.

Seen: 2.11, 2.13. Each function says what it does where a version lacks the thing.
"""

from .aot_autograd import (
    ForwardResults,
    autograd,
    backward_node,
    below_autograd,
    gradients_may_be_absent,
    lower_backward_early,
    make_no_zeros,
    make_zeros_for_compiled_autograd,
    results_of_forward,
    static_input_indices,
)
from .attention import (
    fastest_attention_first,
)
from .dynamo import (
    around_compiles,
    errors_for_dynamo,
    told_of_resets,
)
from .fake import (
    data_symbols_of,
    depends_on_data,
    fake_mode_of,
    is_symbol,
    least_of,
    shape_env_of,
    symbol_hint,
    symbol_range,
    symbols_of,
    without_modes,
)
from .graphs import (
    Boxed,
    attribute_of,
    boxed,
    recorded,
    takes_list,
)
from .memory import (
    Layout,
    end_broken_capture,
    layout_of,
    memory_format_of,
    storage_over,
    storage_reference,
    tensor_over,
    without_product_workspaces,
)
from .operators import (
    KEEP_WHOLE,
    change_in_place,
    changed_in_place,
    changed_tensors,
    core_decompositions,
    effect_operators,
    functionalized_operators,
    is_random,
    operator_name,
    target_name,
)
from .partitioner import (
    keep_subexpressions,
    let_partitioner_recompute,
    must_save,
    subexpressions_are_kept,
)

__all__ = [
    "Boxed",
    "ForwardResults",
    "KEEP_WHOLE",
    "Layout",
    "around_compiles",
    "attribute_of",
    "autograd",
    "backward_node",
    "below_autograd",
    "boxed",
    "change_in_place",
    "changed_in_place",
    "changed_tensors",
    "core_decompositions",
    "data_symbols_of",
    "depends_on_data",
    "effect_operators",
    "end_broken_capture",
    "errors_for_dynamo",
    "fake_mode_of",
    "fastest_attention_first",
    "functionalized_operators",
    "gradients_may_be_absent",
    "is_random",
    "is_symbol",
    "keep_subexpressions",
    "layout_of",
    "least_of",
    "let_partitioner_recompute",
    "lower_backward_early",
    "make_no_zeros",
    "make_zeros_for_compiled_autograd",
    "memory_format_of",
    "must_save",
    "operator_name",
    "recorded",
    "results_of_forward",
    "shape_env_of",
    "static_input_indices",
    "storage_over",
    "storage_reference",
    "subexpressions_are_kept",
    "symbol_hint",
    "symbol_range",
    "symbols_of",
    "takes_list",
    "target_name",
    "tensor_over",
    "told_of_resets",
    "without_modes",
    "without_product_workspaces",
]
