// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "graph_call.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph_node.h"
#include "program.h"
#include "reference.h"

namespace tensord::native {
namespace {

// What a result is a view of.
struct View {
  bool of_result = false;  // else of an argument
  size_t number = 0;
  bool requires_grad = false;
};

struct Graph {
  Reference set_callback;
  GraphProgram program;
  std::vector<size_t> changed;
  std::vector<size_t> arguments_among_results;
  std::vector<std::optional<View>> views;  // by result
  size_t hidden = 0;                       // results at the end that views alone need
  std::shared_ptr<Training> training;
};

struct GraphCallObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Graph* graph;
};

// A function of one argument, in each call: one of C without the way through Python's calls.
PyObject* CallWith(PyObject* function, PyObject* argument) {
  if (PyCFunction_CheckExact(function) && PyCFunction_GET_FLAGS(function) == METH_O) {
    return PyCFunction_GET_FUNCTION(function)(PyCFunction_GET_SELF(function), argument);
  }
  return PyObject_CallOneArg(function, argument);
}

// A block in which torch's hook calls no callback. An exception that is set stays.
class WithoutHook {
 public:
  explicit WithoutHook(PyObject* set_callback)
      : set_callback_(set_callback), before_(CallWith(set_callback, Py_None)) {}
  ~WithoutHook() {
    if (before_.get() == nullptr || before_.get() == Py_None) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!Reference(CallWith(set_callback_, before_.get()))) PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
  WithoutHook(const WithoutHook&) = delete;
  WithoutHook& operator=(const WithoutHook&) = delete;
  // False with an exception set.
  bool is_set() const { return static_cast<bool>(before_); }

 private:
  PyObject* set_callback_;
  Reference before_;
};

// What a program made: a tensor, a number, or neither.
struct Made {
  TensordKind kind = TENSORD_NONE;
  at::Tensor tensor;
  int64_t number = 0;
};
using AllMade = c10::SmallVector<Made, 4>;  // of a small graph no allocation

// False with an exception set.
bool RunForward(const GraphProgram& graph, PyObject* const* arguments, AllMade* made) {
  ProgramObject* program = graph.object();
  const size_t num_inputs = graph.inputs.size();
  const auto num_outputs = static_cast<size_t>(program->num_outputs);
  Room<TensordValue, 64> inputs(num_inputs);
  Room<TensordValue, 32> outputs(num_outputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    inputs[i].size = 0;
    if (!Convert(arguments[graph.inputs[i]], &inputs[i])) return false;
  }
  PyThreadState* thread = PyEval_SaveThread();
  const int code =
      runtime.run(program->program, inputs.data(), num_inputs, outputs.data(), num_outputs);
  PyEval_RestoreThread(thread);
  if (code != TENSORD_OK) {
    RaiseLastError(code);
    return false;
  }
  made->resize(num_outputs);
  for (size_t i = 0; i < num_outputs; ++i) {
    Made& one = (*made)[i];
    one.kind = outputs[i].kind;
    if (one.kind == TENSORD_TENSOR) one.tensor = TakeTensor(outputs[i]);
    if (one.kind == TENSORD_INT) one.number = outputs[i].integer;
  }
  return true;
}

// A view of a tensor that lies as what the program made of it does, which is found by its address:
// the storage of what a program makes need not begin where that of its base does.
at::Tensor ViewOf(const at::Tensor& base, const at::Tensor& made, bool requires_grad) {
  TORCH_CHECK(base.defined() && made.defined() && base.scalar_type() == made.scalar_type(),
              "a result is no view of what its frame says");
  int64_t offset = made.storage_offset();
  if (made.numel() != 0) {
    const auto* start = static_cast<const char*>(made.data_ptr());
    offset = (start - static_cast<const char*>(base.storage().data())) /
             static_cast<int64_t>(made.element_size());
  }
  at::Tensor view = base.as_strided(made.sizes(), made.strides(), offset);
  if (base.requires_grad() && !requires_grad) return view.detach();
  if (requires_grad && !base.requires_grad()) view.requires_grad_(true);
  return view;
}

bool IsView(const Graph& graph, size_t result) {
  return result < graph.views.size() && graph.views[result].has_value();
}

// Puts views of arguments, and of results, in the places of what the program made of them.
void MakeViews(const Graph& graph, AllMade& made, PyObject* const* arguments) {
  for (size_t i = 0; i < graph.views.size(); ++i) {
    if (!IsView(graph, i)) continue;
    const View& view = *graph.views[i];
    at::Tensor base;
    if (view.of_result) {
      base = made[view.number].tensor;
    } else if (THPVariable_Check(arguments[view.number])) {
      base = THPVariable_Unpack(arguments[view.number]);
    }
    made[i].tensor = ViewOf(base, made[i].tensor, view.requires_grad);
  }
}

// The results, and arguments among them, as a list; null with an exception set.
PyObject* Results(const Graph& graph, AllMade& made, size_t count, PyObject* const* arguments) {
  MakeViews(graph, made, arguments);
  count -= graph.hidden;
  Reference list(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    const size_t number =
        i < graph.arguments_among_results.size() ? graph.arguments_among_results[i] : 0;
    PyObject* item = nullptr;
    if (number != 0) {
      item = Py_NewRef(arguments[number - 1]);
    } else if (made[i].kind == TENSORD_TENSOR) {
      item = THPVariable_Wrap(std::move(made[i].tensor));
    } else if (made[i].kind == TENSORD_INT) {
      item = PyLong_FromLongLong(made[i].number);
    } else {
      item = Py_NewRef(Py_None);
    }
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return Py_NewRef(list.get());
}

void NoteChanges(const Graph& graph, PyObject* const* arguments) {
  for (const size_t number : graph.changed) {
    if (!THPVariable_Check(arguments[number])) continue;
    const at::Tensor& tensor = THPVariable_Unpack(arguments[number]);
    if (!tensor.is_inference()) torch::autograd::impl::bump_version(tensor);
  }
}

// One edge for each argument; whether one leads anywhere.
bool Edges(PyObject* const* arguments, size_t count, torch::autograd::edge_list* edges) {
  bool any = false;
  edges->reserve(count);
  for (size_t i = 0; i < count; ++i) {
    edges->emplace_back();
    if (!THPVariable_Check(arguments[i])) continue;
    const at::Tensor& tensor = THPVariable_Unpack(arguments[i]);
    if (!tensor.requires_grad()) continue;
    edges->back() = torch::autograd::impl::gradient_edge(tensor);
    any = true;
  }
  return any;
}

// Autograd would take a result that is an argument, or another result, for that tensor itself: it
// gets one of its own, on the same memory.
void MakeOneOfItsOwn(AllMade& made, size_t place, PyObject* const* arguments, size_t count) {
  const c10::TensorImpl* impl = made[place].tensor.unsafeGetTensorImpl();
  bool known = false;
  for (size_t i = 0; i < place; ++i) {
    known =
        known || (made[i].kind == TENSORD_TENSOR && made[i].tensor.unsafeGetTensorImpl() == impl);
  }
  for (size_t i = 0; i < count && !known; ++i) {
    known = THPVariable_Check(arguments[i]) &&
            THPVariable_Unpack(arguments[i]).unsafeGetTensorImpl() == impl;
  }
  if (known) made[place].tensor = made[place].tensor.tensor_data();
}

// Puts the node behind the results, and has it keep what backward takes.
void Connect(const Graph& graph, AllMade& made, GraphNode* node, const NodePointer& pointer) {
  const Training& training = *graph.training;
  std::vector<at::Tensor> results(training.results);
  for (size_t i = 0; i < training.results; ++i) {
    const bool is_argument =
        i < graph.arguments_among_results.size() && graph.arguments_among_results[i] != 0;
    const at::Tensor& tensor = made[i].tensor;
    if (!is_argument && !IsView(graph, i)) results[i] = tensor;
    const bool edge = results[i].defined() && training.requires_grad[i] &&
                      torch::autograd::isDifferentiableType(tensor.scalar_type());
    torch::autograd::set_history(edge ? tensor : at::Tensor(), pointer);
  }
  node->NoteResults(results);
  const size_t first_number = training.results + training.saved_tensors;
  std::vector<at::Tensor> saved;
  std::vector<int64_t> numbers;
  for (size_t i = training.results; i < made.size(); ++i) {
    if (i < first_number) {
      saved.push_back(made[i].tensor);
    } else {
      numbers.push_back(made[i].number);
    }
  }
  node->Save(std::move(numbers), saved);
}

PyObject* CallTraining(const Graph& graph, PyObject* const* arguments, size_t count) {
  const Training& training = *graph.training;
  torch::autograd::edge_list edges;
  const bool any = Edges(arguments, count, &edges);
  AllMade made;
  {
    const at::AutoGradMode no_grad(false);
    if (!RunForward(graph.program, arguments, &made)) return nullptr;
  }
  for (size_t i = 0; i < training.results; ++i) {
    if (made[i].kind == TENSORD_TENSOR) MakeOneOfItsOwn(made, i, arguments, count);
  }
  if (any) {
    const at::AutoGradMode grad(true);
    const NodePointer pointer = MakeNode<GraphNode>(graph.training);
    pointer->set_next_edges(std::move(edges));
    Connect(graph, made, static_cast<GraphNode*>(pointer.get()), pointer);
  }
  return Results(graph, made, training.results, arguments);
}

PyObject* CallGraph(const Graph& graph, PyObject* const* arguments, size_t count) {
  const WithoutHook without_hook(graph.set_callback.get());
  if (!without_hook.is_set()) return nullptr;
  NoteChanges(graph, arguments);
  if (graph.training) return CallTraining(graph, arguments, count);
  AllMade made;
  if (!RunForward(graph.program, arguments, &made)) return nullptr;
  return Results(graph, made, made.size(), arguments);
}

PyObject* CallGraph(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  const Graph& graph = *reinterpret_cast<GraphCallObject*>(callable)->graph;
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  if (count != graph.program.arguments || (names != nullptr && PyTuple_GET_SIZE(names) != 0)) {
    return PyErr_Format(PyExc_TypeError, "the graph takes %zu arguments, not %zu",
                        graph.program.arguments, count);
  }
  HANDLE_TH_ERRORS
  return CallGraph(graph, args, count);
  END_HANDLE_TH_ERRORS
}

// Numbers below `limit`. False with an exception set.
bool ReadNumbers(PyObject* tuple, size_t limit, std::vector<size_t>* numbers) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    numbers->push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(tuple, i)));
    if (PyErr_Occurred() != nullptr) return false;
    if (numbers->back() < limit) continue;
    PyErr_SetString(PyExc_ValueError, "the graph has no such argument");
    return false;
  }
  return true;
}

// None or (of a result, number, requires_grad) for each of `results`, or nothing at all. False with
// an exception set.
bool ReadViews(PyObject* tuple, size_t arguments, size_t results,
               std::vector<std::optional<View>>* views) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(tuple, i);
    views->emplace_back();
    if (item == Py_None) continue;
    int of_result = 0, requires_grad = 0;
    Py_ssize_t number = 0;
    if (!PyArg_ParseTuple(item, "pnp", &of_result, &number, &requires_grad)) return false;
    views->back() = {of_result != 0, static_cast<size_t>(number), requires_grad != 0};
  }
  bool fits = views->empty() || views->size() == results;
  for (const std::optional<View>& view : *views) {
    if (!view) continue;
    fits = fits && view->number < (view->of_result ? results : arguments);
    fits = fits && !(view->of_result && view->number < results && (*views)[view->number]);
  }
  if (!fits) PyErr_SetString(PyExc_ValueError, "views are of what the graph does not have");
  return fits;
}

PyObject* NewGraphCall(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *set_callback, *program, *changed, *among, *views, *training;
  Py_ssize_t hidden = 0;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!nO", &set_callback, &PyTuple_Type, &program, &PyTuple_Type,
                        &changed, &PyTuple_Type, &among, &PyTuple_Type, &views, &hidden,
                        &training)) {
    return nullptr;
  }
  auto graph = std::make_unique<Graph>();
  graph->set_callback = Reference::To(set_callback);
  if (!ReadGraphProgram(program, &graph->program) ||
      !ReadNumbers(changed, graph->program.arguments, &graph->changed) ||
      !ReadNumbers(among, graph->program.arguments + 1, &graph->arguments_among_results)) {
    return nullptr;
  }
  const auto outputs = static_cast<size_t>(graph->program.object()->num_outputs);
  size_t results = outputs, made = outputs;
  if (training != Py_None) {
    graph->training = ReadTraining(training);
    if (!graph->training) return nullptr;
    const Training& read = *graph->training;
    results = read.results;
    made = read.results + read.backward.arguments - read.tangents.size();
  }
  const size_t among_results = graph->arguments_among_results.size();
  if (made != outputs || (among_results != 0 && among_results != results) || hidden < 0 ||
      static_cast<size_t>(hidden) > results) {
    PyErr_SetString(PyExc_ValueError, "the program gives other results than its graph says");
    return nullptr;
  }
  if (!ReadViews(views, graph->program.arguments, results, &graph->views)) return nullptr;
  graph->hidden = static_cast<size_t>(hidden);
  auto* self = reinterpret_cast<GraphCallObject*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = CallGraph;
  self->graph = graph.release();
  return reinterpret_cast<PyObject*>(self);
}

void DeallocateGraphCall(PyObject* object) {
  delete reinterpret_cast<GraphCallObject*>(object)->graph;
  Py_TYPE(object)->tp_free(object);
}

}  // namespace

PyTypeObject* GraphCallType() {
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "_tensord_native.GraphCall";
  type.tp_doc = "A captured graph of a frame, forward and backward.";
  type.tp_basicsize = sizeof(GraphCallObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = offsetof(GraphCallObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_new = NewGraphCall;
  type.tp_dealloc = DeallocateGraphCall;
  return &type;
}

}  // namespace tensord::native
