# SPDX-License-Identifier: Apache-2.0
"""What frames need of the native extension (_native/guard_tree.h), in Python, for a host that has
none: the same guards with the same numbers, so that frames go from one to the other.

Nothing of torch's own guards could stand in for it: what builds their tree
(`torch._C._dynamo.guards.GuardManager`) imports Dynamo for each of its nodes.

Built-in functions are bound when a module here is imported: a program that puts others in their
place is told so by its guards, which are checked by Python's own.
"""

from .class_versions import type_version
from .guard_tree import GuardTree
from .tensors import dispatch_keys
from .thread_state import thread_state

__all__ = ["GuardTree", "dispatch_keys", "thread_state", "type_version"]
