// SPDX-License-Identifier: Apache-2.0
// A captured graph as the function that a frame's code calls, without a frame of Python:
//
//   GraphCall(set_callback, (program, inputs, arguments), changed, arguments_among_results,
//             views, hidden, training or None)
//   call(*arguments) -> list of results
//
// set_callback: torch's, of the hook of frames; while the graph runs there is none. inputs: tuple
// of int, the arguments that the Program takes, in its order. changed: tuple of int, the arguments
// that it changes, as autograd is to see. arguments_among_results: tuple of int by result, of which
// argument it is the same tensor plus one, or 0; empty for none. views: by result None, or (of a
// result, number, requires_grad) for what is a view of that result of the program, which is none
// itself, or of that argument, and lies as the program's result does; empty for none. hidden: how
// many of the results, the last ones, the call does not give: others are views of them. training:
// see graph_node.h; the program then gives results, saved tensors and saved numbers.
//
// frames/graph_calls.py says the same in Python, for other programs.
#ifndef TENSORD_NATIVE_GRAPH_CALL_H_
#define TENSORD_NATIVE_GRAPH_CALL_H_

#include <Python.h>

namespace tensord::native {

// GraphCall's type, to be made ready once.
PyTypeObject* GraphCallType();

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GRAPH_CALL_H_
