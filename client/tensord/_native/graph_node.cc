// SPDX-License-Identifier: Apache-2.0
#define PY_SSIZE_T_CLEAN
// clang-format off: torch's header comes before every other of Python, which it configures.
#include <torch/csrc/autograd/python_variable.h>
// clang-format on

#include "graph_node.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <mutex>

#include "tuples.h"

namespace tensord::native {
namespace {

using torch::autograd::variable_list;

// Throws the exception of Python that is set. Requires the GIL.
[[noreturn]] void ThrowPythonError() {
  python_error error;
  error.persist();
  throw error;
}

bool ReadLayout(PyObject* item, TangentLayout* layout) {
  if (item == Py_None) return true;
  if (THPMemoryFormat_Check(item)) {
    layout->format = reinterpret_cast<THPMemoryFormat*>(item)->memory_format;
    return true;
  }
  PyObject *sizes = nullptr, *strides = nullptr;
  layout->sizes_and_strides.emplace();
  return PyArg_ParseTuple(item, "OO", &sizes, &strides) != 0 &&
         ReadAll(sizes, &layout->sizes_and_strides->first, PyLong_AsLongLong) &&
         ReadAll(strides, &layout->sizes_and_strides->second, PyLong_AsLongLong);
}

// As the backward program wants it.
at::Tensor Arranged(const at::Tensor& gradient, const TangentLayout& layout) {
  if (layout.format) return gradient.contiguous(*layout.format);
  if (!layout.sizes_and_strides) return gradient;
  const auto& [sizes, strides] = *layout.sizes_and_strides;
  if (gradient.strides() == at::IntArrayRef(strides)) return gradient;
  return at::empty_strided(sizes, strides, gradient.options()).copy_(gradient);
}

// The program with all gradients. Takes the GIL.
const GraphProgram& WithAll(Training& training) {
  const pybind11::gil_scoped_acquire gil;
  if (!training.with_all.program) {
    const Reference made(PyObject_CallNoArgs(training.make_with_all.get()));
    GraphProgram program;
    if (!made || !ReadGraphProgram(made.get(), &program)) ThrowPythonError();
    // Another thread may have been here while this one waited.
    if (!training.with_all.program) training.with_all = std::move(program);
  }
  return training.with_all;
}

// Runs the program; what it drops on its way goes with `given`.
variable_list RunProgram(const GraphProgram& graph, std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& numbers, bool gives) {
  ProgramObject* program = graph.object();
  std::vector<TensordValue> inputs(graph.inputs.size());
  const auto results = static_cast<size_t>(program->num_outputs);
  std::vector<TensordValue> outputs(results);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensordValue& value = inputs[i];
    const size_t number = graph.inputs[i];
    value.size = 0;
    value.kind = number < numbers.size() ? TENSORD_INT : TENSORD_TENSOR;
    if (number < numbers.size()) {
      value.integer = numbers[number];
      continue;
    }
    at::Tensor& tensor = tensors[number - numbers.size()];
    if (!tensor.defined()) value.kind = TENSORD_NONE;
    value.tensor = &tensor;
  }
  if (gives) {
    for (size_t i = 0; i < program->num_released; ++i) {
      const uint32_t place = program->released[i];
      TensordValue& value = inputs[place];
      if (value.kind != TENSORD_TENSOR) continue;
      at::Tensor& tensor = tensors[graph.inputs[place] - numbers.size()];
      if (tensor.layout() != at::kStrided) continue;
      GiveTensor(tensor, &value);
      tensor = at::Tensor();
      Donate(&value);
    }
  }
  const int code =
      runtime.run(program->program, inputs.data(), inputs.size(), outputs.data(), outputs.size());
  for (TensordValue& value : inputs) {
    if (IsGiven(value)) TakeTensor(value);
  }
  if (code != TENSORD_OK) {
    const pybind11::gil_scoped_acquire gil;
    RaiseLastError(code);
    ThrowPythonError();
  }
  variable_list gradients(results);
  for (size_t i = 0; i < results; ++i) {
    if (outputs[i].kind == TENSORD_TENSOR) gradients[i] = TakeTensor(outputs[i]);
  }
  return gradients;
}

}  // namespace

bool ReadGraphProgram(PyObject* argument, GraphProgram* program) {
  PyObject *object = nullptr, *inputs = nullptr;
  Py_ssize_t arguments = 0;
  if (!PyArg_ParseTuple(argument, "O!On", ProgramType(), &object, &inputs, &arguments) ||
      !ReadAll(inputs, &program->inputs, PyLong_AsSize_t)) {
    return false;
  }
  program->program = Reference::To(object);
  program->arguments = static_cast<size_t>(arguments);
  bool fits = arguments >= 0 && program->object()->num_inputs == PyTuple_GET_SIZE(inputs);
  for (const size_t number : program->inputs) fits = fits && number < program->arguments;
  if (!fits) PyErr_SetString(PyExc_ValueError, "the program takes other inputs");
  return fits;
}

std::shared_ptr<Training> ReadTraining(PyObject* argument) {
  const std::shared_ptr<Training> training(new Training, [](Training* one) {
    if (!Py_IsInitialized()) return;  // its objects are gone
    const pybind11::gil_scoped_acquire gil;
    delete one;
  });
  PyObject *backward, *requires_grad, *tangents, *layouts, *absent, *make_with_all;
  Py_ssize_t results = 0, saved = 0;
  if (!PyArg_ParseTuple(argument, "OnnOOOOO", &backward, &results, &saved, &requires_grad,
                        &tangents, &layouts, &absent, &make_with_all) ||
      !ReadGraphProgram(backward, &training->backward) ||
      !ReadAll(requires_grad, &training->requires_grad,
               [](PyObject* item) { return PyObject_IsTrue(item) == 1; }) ||
      !ReadAll(tangents, &training->tangents, PyLong_AsSize_t) ||
      !ReadAll(absent, &training->absent,
               [](PyObject* item) { return PyObject_IsTrue(item) == 1; })) {
    return nullptr;
  }
  bool fits = results >= 0 && saved >= 0 && PyTuple_Check(layouts);
  fits = fits && PyTuple_GET_SIZE(layouts) == static_cast<Py_ssize_t>(training->tangents.size());
  fits = fits && training->absent.size() == training->tangents.size();
  fits = fits && static_cast<Py_ssize_t>(training->requires_grad.size()) == results;
  for (const size_t result : training->tangents) {
    fits = fits && result < static_cast<size_t>(results);
  }
  fits = fits &&
         static_cast<size_t>(saved) + training->tangents.size() <= training->backward.arguments;
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "backward takes other gradients than its graph says");
    return nullptr;
  }
  training->results = static_cast<size_t>(results);
  training->saved_tensors = static_cast<size_t>(saved);
  training->layouts.resize(training->tangents.size());
  for (size_t i = 0; i < training->layouts.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(layouts, static_cast<Py_ssize_t>(i));
    if (!ReadLayout(item, &training->layouts[i])) return nullptr;
  }
  if (make_with_all != Py_None) training->make_with_all = Reference::To(make_with_all);
  return training;
}

void GraphNode::Save(std::vector<int64_t> numbers, const std::vector<at::Tensor>& tensors) {
  numbers_ = std::move(numbers);
  tensors_.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    const bool is_result = tensor.defined() && tensor.grad_fn().get() == this;
    tensors_.emplace_back(tensor, is_result);
  }
}

void GraphNode::NoteResults(const std::vector<at::Tensor>& results) {
  for (const size_t result : training_->tangents) {
    const at::Tensor& tensor = results[result];
    zeros_.emplace_back();
    if (!tensor.defined()) continue;
    zeros_.back() = {tensor.sizes().vec(), tensor.options()};
  }
}

std::vector<at::Tensor> GraphNode::Unpacked() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
  std::vector<at::Tensor> tensors;
  tensors.reserve(tensors_.size() + training_->tangents.size());
  for (const torch::autograd::SavedVariable& saved : tensors_) {
    tensors.push_back(saved.unpack(getptr()));
  }
  return tensors;
}

void GraphNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  released_ = true;
  for (torch::autograd::SavedVariable& saved : tensors_) saved.reset_data();
}

at::Tensor GraphNode::Zeros::As(const TangentLayout& layout) const {
  if (layout.sizes_and_strides) {
    const auto& [wanted_sizes, strides] = *layout.sizes_and_strides;
    return at::empty_strided(wanted_sizes, strides, options).zero_();
  }
  return at::empty(sizes, options, layout.format.value_or(at::MemoryFormat::Contiguous)).zero_();
}

bool GraphNode::Arrange(variable_list& gradients, std::vector<at::Tensor>* tangents) const {
  const Training& training = *training_;
  bool with_all = false;
  for (size_t i = 0; i < training.tangents.size(); ++i) {
    with_all = with_all || (training.make_with_all && training.absent[i] &&
                            gradients[training.tangents[i]].defined());
  }
  for (size_t i = 0; i < training.tangents.size(); ++i) {
    const at::Tensor& gradient = gradients[training.tangents[i]];
    if (gradient.defined()) {
      tangents->push_back(Arranged(gradient, training.layouts[i]));
    } else if (training.make_with_all && !with_all && training.absent[i]) {
      tangents->emplace_back();
    } else {
      TORCH_CHECK(zeros_[i].has_value(), "a result that has a gradient is no tensor");
      tangents->push_back(zeros_[i]->As(training.layouts[i]));
    }
  }
  gradients.clear();
  return with_all;
}

variable_list GraphNode::Run(variable_list& gradients) {
  std::vector<at::Tensor> tensors = Unpacked();
  const bool with_all = Arrange(gradients, &tensors);
  const GraphProgram& program = with_all ? WithAll(*training_) : training_->backward;
  TORCH_CHECK(program.arguments == numbers_.size() + tensors.size(),
              "the backward program takes other arguments than the forward program saved");
  const bool gives = last_time_;
  if (gives) release_variables();  // so that the program has what it drops for itself
  variable_list results = RunProgram(program, tensors, numbers_, gives);
  TORCH_CHECK(results.size() == num_outputs(), "the backward program gives ", results.size(),
              " gradients, for ", num_outputs(), " arguments");
  return results;
}

variable_list GraphNode::apply(variable_list&& gradients) {
  // What was saved may need a gradient where those that come need none.
  const bool again = at::GradMode::is_enabled();
  variable_list results;
  {
    const at::AutoGradMode no_grad(false);
    results = Run(gradients);
  }
  if (!again) return results;
  for (at::Tensor& result : results) {
    if (result.defined()) result = result.detach().set_requires_grad(true);
  }
  const auto error = MakeNode<torch::autograd::DelayedError>(
      "a function compiled by tensord does not support double backward",
      static_cast<int64_t>(results.size()));
  return (*error)(std::move(results));
}

}  // namespace tensord::native
