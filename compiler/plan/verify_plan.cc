// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/verify_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tensord::compiler {
namespace {

class Verifier {
 public:
  explicit Verifier(const v1::CompileResult& result)
      : plan_(result.artifact()), units_(result), storage_(plan_.buffers_size()) {}

  absl::Status Run() {
    if (plan_.modules_size() != units_.units_size()) return Broken("a module has no unit");
    for (const v1::SymbolBinding& binding : plan_.bindings()) {
      TENSORD_RETURN_IF_ERROR(Binding(binding));
    }
    TENSORD_RETURN_IF_ERROR(EachSymbolHasAValue());
    for (int i = 0; i < plan_.buffers_size(); ++i) TENSORD_RETURN_IF_ERROR(Buffer(i));
    for (int i = 0; i < plan_.steps_size(); ++i) {
      if (!IsOfLastKernel(i)) EndOverwritten();
      const absl::Status status = Step(plan_.steps(i));
      if (!status.ok()) return Broken("step ", i, ": ", status.message());
    }
    EndOverwritten();
    for (const v1::ProgramOutput& output : plan_.outputs()) {
      if (output.kind_case() == v1::ProgramOutput::kBuffer) {
        TENSORD_RETURN_IF_ERROR(Read(output.buffer()));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Of a buffer that is no view.
  struct Storage {
    uint32_t root = 0;  // of a view: what it is part of; otherwise its own number
    bool written = false, freed = false;
    int donor = -1;  // the input whose memory it overwrites
  };

  template <typename... Parts>
  static absl::Status Broken(const Parts&... parts) {
    return absl::InternalError(absl::StrCat(parts...));
  }

  absl::Status Binding(const v1::SymbolBinding& binding) const {
    if (binding.symbol() >= static_cast<uint32_t>(plan_.symbols_size())) {
      return Broken("a binding of symbol ", binding.symbol(), ", which does not exist");
    }
    if (binding.input() >= static_cast<uint32_t>(plan_.inputs_size())) {
      return Broken("symbol ", binding.symbol(), " is bound by no input");
    }
    const v1::Input& input = plan_.inputs(static_cast<int>(binding.input()));
    const bool exists = binding.has_dim()
                            ? static_cast<int>(binding.dim()) < input.tensor().sizes_size()
                            : input.kind_case() == v1::Input::kSize;
    return exists ? absl::OkStatus()
                  : Broken("symbol ", binding.symbol(), " is bound by what its input lacks");
  }

  absl::Status EachSymbolHasAValue() const {
    std::set<uint32_t> bound;
    for (const v1::SymbolBinding& binding : plan_.bindings()) bound.insert(binding.symbol());
    for (int i = 0; i < plan_.symbols_size(); ++i) {
      if (plan_.symbols(i).has_definition() == bound.contains(static_cast<uint32_t>(i))) {
        return Broken("symbol ", i, " is neither read from an input nor defined, or both");
      }
    }
    return absl::OkStatus();
  }

  // ---- Buffers

  bool Exists(uint32_t id) const { return id < storage_.size(); }

  static bool IsEmpty(const v1::Buffer& buffer) {
    return std::any_of(buffer.meta().sizes().begin(), buffer.meta().sizes().end(),
                       [](const v1::SymExpr& size) {
                         return size.kind_case() == v1::SymExpr::kConstant && size.constant() == 0;
                       });
  }

  absl::Status Buffer(int id) {
    const v1::Buffer& buffer = plan_.buffers(id);
    storage_[id].root = static_cast<uint32_t>(id);
    switch (buffer.storage_case()) {
      case v1::Buffer::kInput:
        storage_[id].written = true;
        if (buffer.input() < static_cast<uint32_t>(plan_.inputs_size())) return absl::OkStatus();
        return Broken("buffer ", id, " is no input");
      case v1::Buffer::kConstant:
        storage_[id].written = true;
        if (buffer.constant() < static_cast<uint32_t>(plan_.constants_size())) {
          return absl::OkStatus();
        }
        return Broken("buffer ", id, " is no constant");
      case v1::Buffer::kViewOf:
        return View(id);
      case v1::Buffer::kWorkspace:
        if (buffer.has_donor() &&
            (!buffer.standalone() || buffer.donor() >= static_cast<uint32_t>(plan_.inputs_size()) ||
             !plan_.inputs(buffer.donor()).is_donated())) {
          return Broken("buffer ", id, " has the memory of no input that is donated");
        }
        [[fallthrough]];
      case v1::Buffer::kOwned:
      case v1::Buffer::kExternResult:
        storage_[id].written = IsEmpty(buffer);
        return absl::OkStatus();
      case v1::Buffer::STORAGE_NOT_SET:
        break;
    }
    return Broken("buffer ", id, " lies nowhere");
  }

  // A part of a block is a buffer of its own: others share the block.
  absl::Status View(int id) {
    uint32_t root = static_cast<uint32_t>(id);
    for (int links = 0; links <= plan_.buffers_size(); ++links) {
      const v1::Buffer& buffer = plan_.buffers(static_cast<int>(root));
      if (buffer.storage_case() != v1::Buffer::kViewOf) {
        storage_[id].root = root;
        return absl::OkStatus();
      }
      if (!Exists(buffer.view_of())) {
        return Broken("buffer ", id, " is a view of ", buffer.view_of(), ", which does not exist");
      }
      const v1::Buffer& of = plan_.buffers(static_cast<int>(buffer.view_of()));
      if (of.standalone()) {
        storage_[id].root = root;
        if (root == static_cast<uint32_t>(id)) {
          storage_[id].written = IsEmpty(buffer);
          if (of.has_donor()) storage_[id].donor = static_cast<int>(of.donor());
        }
        return absl::OkStatus();
      }
      root = buffer.view_of();
    }
    return Broken("buffer ", id, " is a view of itself");
  }

  // The storage that a step uses.
  absl::StatusOr<Storage*> Use(uint32_t id) {
    if (!Exists(id)) return Broken("uses buffer ", id, ", which does not exist");
    Storage& storage = storage_[storage_[id].root];
    if (storage.freed) return Broken("uses buffer ", id, ", which is freed");
    return &storage;
  }
  absl::Status Read(uint32_t id) {
    TENSORD_ASSIGN_OR_RETURN(const Storage* storage, Use(id));
    const bool is_empty = IsEmpty(plan_.buffers(static_cast<int>(id)));
    if (storage->written || is_empty) return absl::OkStatus();
    return Broken("reads buffer ", id, ", which nothing has written");
  }
  absl::Status Write(uint32_t id) {
    TENSORD_ASSIGN_OR_RETURN(Storage * storage, Use(id));
    storage->written = true;
    if (storage->donor >= 0) overwritten_.insert(static_cast<uint32_t>(storage->donor));
    return absl::OkStatus();
  }
  // What was in the memory of inputs that the last kernel wrote over is gone.
  void EndOverwritten() {
    if (overwritten_.empty()) return;
    for (int id = 0; id < plan_.buffers_size(); ++id) {
      const v1::Buffer& buffer = plan_.buffers(id);
      if (buffer.has_input() && overwritten_.count(buffer.input()) > 0) storage_[id].freed = true;
    }
    overwritten_.clear();
  }
  // All functions of a kernel are passed the same.
  bool IsOfLastKernel(int step) const {
    if (step == 0 || !plan_.steps(step).has_launch() || !plan_.steps(step - 1).has_launch()) {
      return false;
    }
    const v1::KernelLaunch &one = plan_.steps(step - 1).launch(),
                           &next = plan_.steps(step).launch();
    return one.module() == next.module() &&
           std::equal(one.buffers().begin(), one.buffers().end(), next.buffers().begin(),
                      next.buffers().end());
  }

  // ---- Steps

  absl::Status Step(const v1::Step& step) {
    switch (step.kind_case()) {
      case v1::Step::kLaunch:
        return Launch(step.launch());
      case v1::Step::kCall:
        return Call(step.call());
      case v1::Step::kFree:
        return Free(step.free());
      case v1::Step::kZeroFill:
        return absl::OkStatus();
      case v1::Step::KIND_NOT_SET:
        break;
    }
    return Broken("does nothing");
  }

  absl::Status Launch(const v1::KernelLaunch& launch) {
    if (launch.module() >= static_cast<uint32_t>(units_.units_size())) {
      return Broken("launches from module ", launch.module(), ", which does not exist");
    }
    const auto& functions = units_.units(static_cast<int>(launch.module())).functions();
    if (std::find(functions.begin(), functions.end(), launch.function()) == functions.end()) {
      return Broken("launches ", launch.function(), ", which its module lacks");
    }
    const auto& written = launch.written();
    for (const uint32_t id : launch.buffers()) {
      if (std::find(written.begin(), written.end(), id) != written.end()) continue;
      TENSORD_RETURN_IF_ERROR(Read(id));
    }
    for (const uint32_t id : written) {
      if (std::find(launch.buffers().begin(), launch.buffers().end(), id) ==
          launch.buffers().end()) {
        return Broken("writes buffer ", id, ", which is no argument");
      }
      TENSORD_RETURN_IF_ERROR(Write(id));
    }
    return absl::OkStatus();
  }

  absl::Status Arguments(const v1::Argument& arg, const v1::ExternCall& call) {
    if (arg.kind_case() == v1::Argument::kList) {
      for (const v1::Argument& item : arg.list().items()) {
        TENSORD_RETURN_IF_ERROR(Arguments(item, call));
      }
    }
    if (arg.kind_case() != v1::Argument::kValue) return absl::OkStatus();
    // Those that it fills are its last arguments.
    const uint32_t id = arg.value().value();
    const bool is_filled =
        call.into_out() &&
        std::find(call.results().begin(), call.results().end(), id) != call.results().end();
    return is_filled ? absl::OkStatus() : Read(id);
  }

  absl::Status Call(const v1::ExternCall& call) {
    for (const v1::Argument& arg : call.args()) TENSORD_RETURN_IF_ERROR(Arguments(arg, call));
    for (const uint32_t id : call.results()) TENSORD_RETURN_IF_ERROR(Write(id));
    return absl::OkStatus();
  }

  absl::Status Free(uint32_t id) {
    TENSORD_ASSIGN_OR_RETURN(Storage * storage, Use(id));
    const auto kind = plan_.buffers(static_cast<int>(id)).storage_case();
    if (kind != v1::Buffer::kOwned && kind != v1::Buffer::kExternResult) {
      return Broken("frees buffer ", id, ", which is not the call's own");
    }
    storage->freed = true;
    return absl::OkStatus();
  }

  const v1::Artifact& plan_;
  const v1::CompileResult& units_;
  std::vector<Storage> storage_;    // by buffer
  std::set<uint32_t> overwritten_;  // inputs, by the last kernel or call
};

}  // namespace

absl::Status VerifyPlan(const v1::CompileResult& result) { return Verifier(result).Run(); }

}  // namespace tensord::compiler
