// SPDX-License-Identifier: Apache-2.0
// A loaded program: the artifact's plan, verified and laid out for the interpreter. Immutable after
// load; a call keeps its state in a CallState (call/tensors.h).
#ifndef TENSORD_RUNTIME_PROGRAM_PLAN_H_
#define TENSORD_RUNTIME_PROGRAM_PLAN_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/program/definition.h"
#include "runtime/program/device.h"
#include "runtime/program/expr.h"
#include "runtime/torch/torch_shim.h"
#include "tensord/kernel_abi.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::runtime {

// Sizes and strides are `ndim` consecutive slots each.
struct Layout {
  bool defined = false;  // false: an optional result that is absent
  int32_t dtype = 0;     // torch's ScalarType
  int32_t itemsize = 0;
  int32_t device = 0;  // torch's DeviceType
  int32_t ndim = 0;
  Slot sizes = 0, strides = 0, offset = 0;
};

// What a layout comes to once its slots have values.
struct Place {
  int64_t numel = 0;
  int64_t offset_bytes = 0;  // of the first element in its storage
  int64_t extent_bytes = 0;  // from the first element to the end of the last; 0 when empty
};

enum class Storage : uint8_t { kInput, kConstant, kWorkspace, kOwned, kExtern, kView };

struct BufferPlan {
  Layout layout;
  Storage storage = Storage::kOwned;
  // By storage: the input, the constant, the slot of the workspace offset, the buffer viewed.
  uint32_t source = 0;
  uint32_t root = 0;            // the buffer at the end of the chain of views; itself for others
  std::vector<uint32_t> views;  // of a root: every view of it, through any chain
  bool in_launch = false;       // of a root: a kernel takes it or a view of it
  bool standalone = false;      // in the workspace: may be allocated on its own
  // Of a standalone one: the input whose memory it may have.
  static constexpr uint32_t kNoDonor = UINT32_MAX;
  uint32_t donor = kNoDonor;
};

struct InputPlan {
  bool is_tensor = false;
  Layout layout;
  Slot size = 0;  // of an integer input
  std::string name;
  bool is_parameter = false;
  bool is_donated = false;
  bool in_launch = false;  // a kernel takes it
};

struct SymbolPlan {
  int64_t min, max;
  uint32_t input;  // of what has no definition
  int32_t dim;     // -1: the input is the integer
  std::optional<Definition> definition;
};

// The part of a launch that every kind of device has; the rest is the Device's.
struct LaunchPlan {
  std::string label;  // the function and the operators that it came from, for profiles
  std::vector<uint32_t> buffers;
  Slot integers = 0;  // consecutive
  uint32_t num_integers = 0;
};

// One entry of a call's arguments, in a flat array in which a list's items are consecutive.
struct ArgumentPlan {
  static constexpr uint32_t kNothing = UINT32_MAX;
  TensordValue value;          // ready but for what follows
  uint32_t buffer = kNothing;  // the tensor comes from there
  uint32_t slot = kNothing;    // the integer comes from there
  uint32_t items = kNothing;   // index of a list's first item
};

struct StableSignature;
struct DirectCall;

struct CallPlan {
  std::string op, overload, node;
  std::vector<ArgumentPlan> arguments;  // the first num_arguments are the operator's
  uint32_t num_arguments = 0;
  std::deque<std::string> texts;  // what string arguments point to; addresses stay
  std::vector<uint32_t> results;
  bool into_out = false;
  uint64_t spare_bytes = UINT64_MAX;           // see ExternCall; the most where it is not known
  const DirectCall* direct = nullptr;          // torch's function for this operator alone
  const StableSignature* signature = nullptr;  // how torch_call_dispatcher takes the arguments
  // Set when torch's stable interface refused the operator once: the bridge calls it from then on.
  mutable std::atomic<bool> use_caller{false};
};

// A part of the workspace that is filled with zeros.
struct ZeroFillPlan {
  Slot offset = 0, bytes = 0;
};

struct StepPlan {
  // kBeginWrite: before the first step that writes an input.
  enum Kind : uint8_t {
    kAllocate,
    kLaunch,
    kCall,
    kFree,
    kRelease,
    kZeroFill,
    kBeginWrite,
  } kind;
  // A buffer, a launch, a call, a buffer, an input's buffer, a filling, an input's buffer.
  uint32_t index;
};

struct OutputPlan {
  enum Kind : uint8_t { kNone, kInteger, kBuffer } kind = kNone;
  uint32_t index = 0;  // slot or buffer
  bool take = false;   // the buffer's handle is given away instead of shared
};

}  // namespace tensord::runtime

struct TensordProgram {
  TensordProgram();
  ~TensordProgram();
  TensordProgram(const TensordProgram&) = delete;
  TensordProgram& operator=(const TensordProgram&) = delete;

  const uint64_t number;  // another one for each program of the process
  const tensord::runtime::Torch* torch = nullptr;
  std::unique_ptr<tensord::runtime::Device> device;
  int32_t device_type = tensord::runtime::kTorchCpu;  // torch's, of `device`
  tensord::runtime::ExprTable exprs;
  std::vector<tensord::runtime::SymbolPlan> symbols;
  std::vector<tensord::runtime::InputPlan> inputs;
  std::vector<tensord::runtime::Layout> constant_layouts;
  // One per layout, once linked; in host memory whatever their device is.
  std::vector<tensord::runtime::Handle> constants;
  std::vector<tensord::runtime::BufferPlan> buffers;
  std::vector<tensord::runtime::Place> places;  // filled when the program has no symbols
  std::vector<tensord::runtime::LaunchPlan> launches;
  std::vector<std::unique_ptr<tensord::runtime::CallPlan>> calls;
  std::vector<tensord::runtime::ZeroFillPlan> zero_fills;
  std::vector<tensord::runtime::StepPlan> steps;
  std::vector<tensord::runtime::OutputPlan> outputs;
  tensord::runtime::Slot workspace_bytes = 0;
  tensord::runtime::Slot standalone_bytes = 0;  // behind the workspace, for standalone buffers
  std::vector<uint32_t> standalone;             // those buffers
  bool uses_workspace = false;
  // No operator can keep or return a part of the workspace, so the next call may have it.
  bool reuses_workspace = true;
  // Inputs that are released before the call's end where they are given (lifetimes.h).
  std::vector<uint32_t> released_inputs;
  // Buffers on inputs, or on views of them, that a step writes.
  std::vector<uint32_t> written_inputs;
  // Kernels want their inputs' addresses to be multiples of this.
  uintptr_t input_alignment = 1;
  uint32_t max_launch_buffers = 0;
  size_t max_launch_words = 0;  // of CUDA kernels' arguments
  uint32_t max_arguments = 0;
};

#endif  // TENSORD_RUNTIME_PROGRAM_PLAN_H_
