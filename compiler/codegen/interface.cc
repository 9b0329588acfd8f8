#include "compiler/codegen/interface.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>

#include <algorithm>

namespace tensord::compiler {

int KernelInterface::Buffer(BufferId id) {
  auto it = std::find(launch_.buffers.begin(), launch_.buffers.end(), id);
  if (it != launch_.buffers.end()) return static_cast<int>(it - launch_.buffers.begin());
  launch_.buffers.push_back(id);
  return static_cast<int>(launch_.buffers.size()) - 1;
}

void KernelInterface::MarkWritten(BufferId id) {
  if (std::find(launch_.written.begin(), launch_.written.end(), id) == launch_.written.end())
    launch_.written.push_back(id);
}

int KernelInterface::Integer(const Expr& value) {
  // Symbolic sizes are found again; plain numbers are not shared, lest two extents that happen to
  // be equal give another text than two that differ.
  if (!value.IsConstant()) {
    auto it = std::find(launch_.integers.begin(), launch_.integers.end(), value);
    if (it != launch_.integers.end()) return static_cast<int>(it - launch_.integers.begin());
  }
  launch_.integers.push_back(value);
  return static_cast<int>(launch_.integers.size()) - 1;
}

int KernelInterface::AppendBuffers(const std::vector<BufferId>& ids) {
  launch_.buffers.insert(launch_.buffers.end(), ids.begin(), ids.end());
  return static_cast<int>(launch_.buffers.size() - ids.size());
}

int KernelInterface::AppendIntegers(const std::vector<Expr>& values) {
  launch_.integers.insert(launch_.integers.end(), values.begin(), values.end());
  return static_cast<int>(launch_.integers.size() - values.size());
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
  const Expr offset = launch_.scratch_bytes;
  launch_.scratch_bytes += sym::CeilDiv(bytes, Expr(64)) * 64;
  return offset;
}

Expr KernelInterface::ReserveCounters(const Expr& count) {
  const Expr first = launch_.counters;
  launch_.counters += count;
  return first;
}

std::string KernelInterface::Scratch(const Expr& bytes) {
  return sym::ToCpp(ReserveScratch(bytes), [this](const sym::Atom& atom) {
    return absl::StrCat("n", Integer(Expr::Size(atom.id, atom.min, atom.hint)));
  });
}

}  // namespace tensord::compiler
