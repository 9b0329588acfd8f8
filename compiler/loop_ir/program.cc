// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/program.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "base/check.h"

namespace tensord::compiler {
namespace {

void VerifyIndex(const Expr& index, int loops, const char* what) {
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    TENSORD_CHECK(atom.kind != sym::AtomKind::kLoop || atom.id < loops,
                  absl::StrCat(what, ": loop ", atom.id, " of ", loops));
  });
}

void VerifyLoopOp(const Program& program, const LoopOp& op) {
  const int outer = static_cast<int>(op.sizes.size());
  const int loops = outer + static_cast<int>(op.reduce_sizes.size());
  const int insts = static_cast<int>(op.block.insts.size());
  const int buffers = static_cast<int>(program.buffers.size());
  for (int i = 0; i < insts; ++i) {
    const Inst& inst = op.block.insts[i];
    for (int arg : inst.args) TENSORD_CHECK(arg >= 0 && arg < i, op.origin);
    TENSORD_CHECK(inst.guard < i, op.origin);
    if (inst.kind == InstKind::kLoad) {
      TENSORD_CHECK(inst.buffer >= 0 && inst.buffer < buffers, op.origin);
      TENSORD_CHECK(inst.storage == program.buffers[inst.buffer].dtype, op.origin);
    }
    VerifyIndex(inst.index, loops, op.origin.c_str());
  }
  TENSORD_CHECK(op.reductions.empty() == op.reduce_sizes.empty(), op.origin);
  TENSORD_CHECK(op.stores.empty() != op.reductions.empty(), op.origin);
  for (const Store& store : op.stores) {
    TENSORD_CHECK(store.buffer >= 0 && store.buffer < buffers, op.origin);
    TENSORD_CHECK(store.value >= 0 && store.value < insts, op.origin);
    VerifyIndex(store.index, loops, op.origin.c_str());
  }
  for (const Reduction& reduction : op.reductions) {
    TENSORD_CHECK(reduction.value >= 0 && reduction.value < insts, op.origin);
    TENSORD_CHECK(reduction.results.size() == reduction.indices.size(), op.origin);
    for (const Expr& index : reduction.indices) VerifyIndex(index, outer, op.origin.c_str());
  }
}

void VerifyCall(const Program& program, const ExternOp& op) {
  TENSORD_CHECK(op.outs.empty() || op.outs.size() == op.results.size(), op.origin);
  for (size_t i = 0; i < op.outs.size(); ++i) {
    TENSORD_CHECK(op.outs[i].buffer == op.results[i], op.origin);
    TENSORD_CHECK(program.buffers[op.results[i]].kind == BufferKind::kComputed, op.origin);
  }
  TENSORD_CHECK(op.overwrites < 0 || (op.outs.size() == 1 && std::holds_alternative<BufferView>(
                                                                 op.args[op.overwrites].value)),
                op.origin);
}

std::string SizesText(const std::vector<Expr>& sizes) {
  return absl::StrCat("[",
                      absl::StrJoin(sizes, ", ",
                                    [](std::string* out, const Expr& e) {
                                      absl::StrAppend(out, sym::ToString(e));
                                    }),
                      "]");
}

}  // namespace

void ForEachView(const ExternArgList& args, const std::function<void(const BufferView&)>& visit) {
  for (const ExternArg& arg : args) {
    if (const auto* view = std::get_if<BufferView>(&arg.value)) visit(*view);
    if (const auto* list = std::get_if<ExternArgList>(&arg.value)) ForEachView(*list, visit);
  }
}

Expr StorageElements(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  Expr last(0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Is(0)) return Expr(0);
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

void VerifyProgram(const Program& program) {
  for (const Operation& operation : program.operations) {
    if (const auto* op = std::get_if<LoopOp>(&operation)) {
      VerifyLoopOp(program, *op);
    } else {
      VerifyCall(program, std::get<ExternOp>(operation));
    }
  }
  for (const ProgramOutput& output : program.outputs) {
    TENSORD_CHECK(
        output.kind != ProgramOutput::kTensor ||
        (output.view.buffer >= 0 && output.view.buffer < static_cast<int>(program.buffers.size())));
  }
}

std::string ToString(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferInfo& buffer = program.buffers[i];
    static constexpr const char* kKinds[] = {"input", "constant", "computed", "extern"};
    absl::StrAppend(&text, "b", i, ": ", kKinds[static_cast<int>(buffer.kind)], " ",
                    DTypeName(buffer.dtype), SizesText(buffer.sizes), " strides ",
                    SizesText(buffer.strides), buffer.returned ? " returned" : "", "  # ",
                    buffer.name, "\n");
  }
  for (const Operation& operation : program.operations) {
    if (const auto* op = std::get_if<LoopOp>(&operation)) {
      absl::StrAppend(&text, "loop ", SizesText(op->sizes));
      if (!op->reduce_sizes.empty())
        absl::StrAppend(&text, " reduce ", SizesText(op->reduce_sizes));
      absl::StrAppend(&text, "  # ", op->origin, "\n", ToString(op->block));
      for (const Store& store : op->stores) {
        absl::StrAppend(&text, "store b", store.buffer, "[", sym::ToString(store.index), "] ",
                        store.mode == StoreMode::kAtomicAdd ? "+= " : "= ", "%", store.value, "\n");
      }
      for (const Reduction& reduction : op->reductions) {
        absl::StrAppend(&text, "reduce ", static_cast<int>(reduction.kind), " %", reduction.value);
        for (size_t r = 0; r < reduction.results.size(); ++r) {
          absl::StrAppend(&text, " -> b", reduction.results[r], "[",
                          sym::ToString(reduction.indices[r]), "]");
        }
        text += "\n";
      }
    } else {
      const auto& call = std::get<ExternOp>(operation);
      absl::StrAppend(&text, "extern ", call.op, ".", call.overload, " -> ",
                      absl::StrJoin(call.results, ", "), call.ordered ? " ordered" : "", "  # ",
                      call.origin, "\n");
    }
  }
  return text;
}

}  // namespace tensord::compiler
