// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/interface.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace tensord::compiler {
namespace {

std::string NameOf(const char* letter, int position) { return absl::StrCat(letter, position); }

// Its position in a list; its length where it is not in it.
template <class T>
int Find(const std::vector<T>& list, const T& value) {
  return static_cast<int>(std::find(list.begin(), list.end(), value) - list.begin());
}

}  // namespace

int KernelInterface::Buffer(BufferId id) {
  const int position = Find(launch_.buffers, id);
  if (position == static_cast<int>(launch_.buffers.size())) launch_.buffers.push_back(id);
  return position;
}

void KernelInterface::MarkWritten(BufferId id) {
  if (Find(launch_.written, id) == static_cast<int>(launch_.written.size())) {
    launch_.written.push_back(id);
  }
}

int KernelInterface::Integer(const Expr& value) {
  // Symbolic sizes are found again; plain numbers are not shared, lest two extents that happen to
  // be equal give another text than two that differ.
  if (!value.IsConstant()) {
    const int position = Find(launch_.integers, value);
    if (position < static_cast<int>(launch_.integers.size())) return position;
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

ir::Value KernelInterface::IntegerNamed(int position) {
  return ir::IndexVar(NameOf("n", position));
}

ir::Value KernelInterface::PointerNamed(int position, DType storage, bool written) {
  return ir::Var(NameOf("b", position), ir::PointerTo(ir::ScalarType(storage), !written));
}

ir::Statement KernelInterface::BindInteger(int position) const {
  return {ir::BindInteger{NameOf("n", position),
                          shared_function_ ? ir::IntVar("first_integer") + position : position}};
}

ir::Statement KernelInterface::BindPointer(int position, DType storage, bool written) const {
  return {ir::BindPointer{NameOf("b", position), ir::PointerTo(ir::ScalarType(storage), !written),
                          shared_function_ ? ir::IntVar("first_buffer") + position : position}};
}

ir::Value KernelInterface::OfSizes(const Expr& e) {
  std::map<sym::SymbolKey, ir::Value> symbols;
  sym::ForEachSymbol(e, [&](const sym::Atom& atom) {
    const int position = Integer(Expr::Size(atom.id, atom.min, atom.hint));
    symbols[{atom.kind, atom.id}] = IntegerNamed(position);
  });
  return ir::Index(e, std::move(symbols));
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

void KernelInterface::Describe(ir::Kernel* kernel) const {
  kernel->buffers = static_cast<int>(launch_.buffers.size());
  kernel->integers = static_cast<int>(launch_.integers.size());
  for (BufferId id : launch_.written) {
    for (size_t i = 0; i < launch_.buffers.size(); ++i) {
      if (launch_.buffers[i] == id) kernel->written.push_back(static_cast<int>(i));
    }
  }
  kernel->has_scratch = !launch_.scratch_bytes.Is(0);
  kernel->has_counters = !launch_.counters.Is(0);
}

}  // namespace tensord::compiler
