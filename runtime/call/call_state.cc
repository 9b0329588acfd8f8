// SPDX-License-Identifier: Apache-2.0
#include "runtime/call/call_state.h"

#include <cstdlib>
#include <utility>

#include "runtime/call/workspace.h"

namespace tensord::runtime {
namespace {

// A thread keeps no workspace beyond this between calls.
constexpr int64_t kMaxKeptWorkspace = int64_t{256} << 20;

std::vector<std::unique_ptr<CallState>>& FreeStates() {
  thread_local std::vector<std::unique_ptr<CallState>> states;
  return states;
}

}  // namespace

CallState::~CallState() {
  DropWorkspace(*this);
  std::free(scratch);
}

CallLease::CallLease(const TensordProgram& program) {
  auto& states = FreeStates();
  if (states.empty()) {
    state_ = std::make_unique<CallState>();
  } else {
    state_ = std::move(states.back());
    states.pop_back();
  }
  CallState& state = *state_;
  state.program = &program;
  state.torch = program.torch;
  state.addresses.resize(program.buffers.size());
  state.handles.assign(program.buffers.size(), nullptr);
  state.device_index = -1;
  state.has_standalone_room = false;
  if (state.words.size() < program.max_launch_words) state.words.resize(program.max_launch_words);
  if (state.pointers.size() < program.max_launch_buffers) {
    state.pointers.resize(program.max_launch_buffers);
  }
  if (state.arguments.size() < program.max_arguments) state.arguments.resize(program.max_arguments);
}

CallLease::~CallLease() {
  for (Handle handle : state_->handles) {
    if (handle != nullptr) state_->torch->delete_tensor(handle);
  }
  state_->handles.clear();
  for (const AlignedCopy& copy : state_->realigned) {
    if (copy.tensor != nullptr) state_->torch->delete_tensor(copy.tensor);
  }
  state_->realigned.clear();
  if (!state_->program->reuses_workspace || state_->workspace_size > kMaxKeptWorkspace) {
    DropWorkspace(*state_);
  }
  state_->program = nullptr;
  FreeStates().push_back(std::move(state_));
}

}  // namespace tensord::runtime
