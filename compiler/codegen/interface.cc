#include "compiler/codegen/interface.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>

#include <algorithm>

namespace tensord::compiler {

int KernelInterface::Buffer(BufferId id) {
  auto it = std::find(buffers_.begin(), buffers_.end(), id);
  if (it != buffers_.end()) return static_cast<int>(it - buffers_.begin());
  buffers_.push_back(id);
  return static_cast<int>(buffers_.size()) - 1;
}

void KernelInterface::MarkWritten(BufferId id) {
  if (std::find(written_.begin(), written_.end(), id) == written_.end()) written_.push_back(id);
}

int KernelInterface::Integer(const Expr& value) {
  // Symbolic sizes are found again; plain numbers are not shared, lest two extents that happen to
  // be equal give another text than two that differ.
  if (!value.IsConstant()) {
    auto it = std::find(integers_.begin(), integers_.end(), value);
    if (it != integers_.end()) return static_cast<int>(it - integers_.begin());
  }
  integers_.push_back(value);
  return static_cast<int>(integers_.size()) - 1;
}

int KernelInterface::AppendBuffers(const std::vector<BufferId>& ids) {
  buffers_.insert(buffers_.end(), ids.begin(), ids.end());
  return static_cast<int>(buffers_.size() - ids.size());
}

int KernelInterface::AppendIntegers(const std::vector<Expr>& values) {
  integers_.insert(integers_.end(), values.begin(), values.end());
  return static_cast<int>(integers_.size() - values.size());
}

std::string KernelInterface::DeclareInteger(int slot) const {
  return absl::StrCat("const ", style_.index, " n", slot, " = ",
                      absl::Substitute(style_.integer, slot), ";\n");
}

std::string KernelInterface::DeclarePointer(int slot, const std::string& type, bool written) const {
  const std::string to = absl::StrCat(written ? "" : "const ", type, "*");
  return absl::StrCat(to, style_.restrict, " const b", slot, " = static_cast<", to, ">(",
                      absl::Substitute(style_.pointer, slot), ");\n");
}

Expr KernelInterface::ReserveScratch(const Expr& bytes) {
  const Expr offset = scratch_bytes_;
  scratch_bytes_ += sym::CeilDiv(bytes, Expr(64)) * 64;
  return offset;
}

Expr KernelInterface::ReserveCounters(const Expr& count) {
  const Expr first = counters_;
  counters_ += count;
  return first;
}

std::string KernelInterface::Scratch(const Expr& bytes) {
  return sym::ToCpp(ReserveScratch(bytes), [this](const sym::Atom& atom) {
    return absl::StrCat("n", Integer(Expr::Size(atom.id, atom.min, atom.hint)));
  });
}

}  // namespace tensord::compiler
