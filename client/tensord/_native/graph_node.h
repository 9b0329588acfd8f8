// SPDX-License-Identifier: Apache-2.0
// The backward half of a captured graph: a node of autograd that runs its program.
#ifndef TENSORD_NATIVE_GRAPH_NODE_H_
#define TENSORD_NATIVE_GRAPH_NODE_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "program.h"
#include "reference.h"

namespace tensord::native {

// A program of a graph, which takes some of the graph's arguments.
struct GraphProgram {
  Reference program;           // a ProgramObject
  std::vector<size_t> inputs;  // numbers of arguments, by input
  size_t arguments = 0;

  ProgramObject* object() const { return reinterpret_cast<ProgramObject*>(program.get()); }
};

// Reads (Program, tuple of numbers, arguments). False with an exception set.
bool ReadGraphProgram(PyObject* argument, GraphProgram* program);

// How a gradient is to lie. Nothing set: any way serves.
struct TangentLayout {
  std::optional<at::MemoryFormat> format;
  std::optional<std::pair<std::vector<int64_t>, std::vector<int64_t>>> sizes_and_strides;
};

// What GraphCall.forward, .backward and their tangents say of training.
struct Training {
  GraphProgram backward;  // its arguments: saved numbers, saved tensors, tangents
  size_t results = 0;
  size_t saved_tensors = 0;
  std::vector<bool> requires_grad;  // by result
  std::vector<size_t> tangents;     // results
  std::vector<TangentLayout> layouts;
  std::vector<bool> absent;  // by tangent: not among the inputs of `backward`
  // () -> (Program, inputs, arguments), asked once where an absent gradient came. Null: none is
  // absent. Both under the GIL.
  Reference make_with_all;
  GraphProgram with_all;
};

// Reads (backward, results, saved tensors, requires_grad, tangents, layouts, absent,
// make_with_all): layouts: by tangent None, a torch.memory_format or (sizes, strides);
// make_with_all: or None. What is made lets go of its Python objects under the GIL, whoever drops
// it. Null with an exception set.
std::shared_ptr<Training> ReadTraining(PyObject* argument);

// torch's pointer to a node: a shared pointer in some versions, an intrusive one in others.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename Node, typename Pointer = NodePointer, typename... Arguments>
Pointer MakeNode(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new Node(std::forward<Arguments>(arguments)...),
                   [](auto* node) { deleteNode(node); });  // torch's, which does not recurse
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

// Gradients of a graph's arguments from those of its results. Runs without the GIL, in any thread.
// A gradient that does not come is zeros. What it returns has no graph of its own: a second
// derivative raises a RuntimeError when it is asked for.
class GraphNode : public torch::autograd::Node {
 public:
  explicit GraphNode(std::shared_ptr<Training> training) : training_(std::move(training)) {}

  // Once, after the results have their edges. `numbers` and `tensors` are what the backward program
  // gets.
  void Save(std::vector<int64_t> numbers, const std::vector<at::Tensor>& tensors);
  // Once: `results` as the forward program made them, undefined where there is no tensor.
  void NoteResults(const std::vector<at::Tensor>& results);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  void release_variables() override;
  void will_release_variables() override { last_time_ = true; }
  std::string name() const override { return "GraphBackward"; }

 private:
  // In place of a gradient that does not come. They lie as backward wants them, which need not be
  // how the result lies that they are of: of a slice with symbolic sizes it is contiguous.
  struct Zeros {
    std::vector<int64_t> sizes;
    at::TensorOptions options;
    at::Tensor As(const TangentLayout& layout) const;
  };

  torch::autograd::variable_list Run(torch::autograd::variable_list& gradients);
  std::vector<at::Tensor> Unpacked();
  // False where the program without absent gradients serves.
  bool Arrange(torch::autograd::variable_list& gradients, std::vector<at::Tensor>* tangents) const;

  std::shared_ptr<Training> training_;
  std::vector<int64_t> numbers_;
  std::vector<torch::autograd::SavedVariable> tensors_;
  std::vector<std::optional<Zeros>> zeros_;  // by tangent
  bool last_time_ = false;                   // nothing asks for what is saved after this run
  bool released_ = false;
};

}  // namespace tensord::native

#endif  // TENSORD_NATIVE_GRAPH_NODE_H_
