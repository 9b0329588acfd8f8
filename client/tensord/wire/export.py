# SPDX-License-Identifier: Apache-2.0
"""A captured FX graph to Graph of graph.proto.

Canonical: the same program gives the same bytes in every process, but for `name` and `source`.
Nodes that only compute sizes vanish into expressions; nodes that nothing needs are left out; nodes
without a form on the wire become call-backs (call_backs.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from ..errors import ExportError
from .call_backs import FORMLESS, separate
from .exporter import Exported, Exporter
from .forms import forms_of


def export(
    module: fx.GraphModule, static_inputs: Iterable[int] = (), donated_inputs: Iterable[int] = ()
) -> Exported:
    """Exports an AOTAutograd graph whose nodes carry fake values in meta["val"].

    static_inputs: arguments that keep their address from call to call. donated_inputs: those that
    the call may overwrite (Input of graph.proto).
    Raises ExportError, naming the node, for what not even a call-back can do: a graph whose results
    are neither tensors nor numbers.
    """
    static, donated = frozenset(static_inputs), frozenset(donated_inputs)
    try:
        return Exporter(module, static, donated).run()
    except ExportError:
        forms = forms_of(module)
        if not forms.formless and not forms.opaque_inputs:
            raise
    for node, reason in forms.formless.items():
        node.meta[FORMLESS] = reason
    separated = separate(module, forms.live, forms.formless)
    return Exporter(separated, static, donated, forms.opaque_inputs).run()
