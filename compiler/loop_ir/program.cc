// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/program.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>

namespace tensord::compiler {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), buffers_(static_cast<int>(program.buffers.size())) {}

  absl::Status Run() {
    for (const Operation& operation : program_.operations) {
      const auto* call = std::get_if<ExternOp>(&operation);
      if (call == nullptr || call->attention == nullptr) continue;
      products_.insert(call->attention->products.begin(), call->attention->products.end());
    }
    for (const Operation& operation : program_.operations) {
      if (const auto* op = std::get_if<LoopOp>(&operation)) {
        for (const Inst& inst : op->block.insts) {
          if (inst.kind == InstKind::kLoad && products_.count(inst.buffer) > 0) {
            return Broken(op->origin, "loads products that are never in memory");
          }
        }
        TENSORD_RETURN_IF_ERROR(Loops(*op));
      } else {
        TENSORD_RETURN_IF_ERROR(Call(std::get<ExternOp>(operation)));
      }
    }
    for (const ProgramOutput& output : program_.outputs) {
      if (output.kind == ProgramOutput::kTensor && !IsBuffer(output.view.buffer)) {
        return Broken("an output", "is of buffer ", output.view.buffer, ", which does not exist");
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Parts>
  static absl::Status Broken(const std::string& origin, const Parts&... parts) {
    return absl::InternalError(absl::StrCat(origin, ": ", parts...));
  }

  bool IsBuffer(BufferId id) const { return id >= 0 && id < buffers_; }

  // The first loop of an index that is none of `loops`, or -1.
  static int UnknownLoop(const Expr& index, int loops) {
    int unknown = -1;
    sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
      if (atom.kind == sym::AtomKind::kLoop && atom.id >= loops) unknown = atom.id;
    });
    return unknown;
  }

  static absl::Status Index(const LoopOp& op, const Expr& index, int loops) {
    const int unknown = UnknownLoop(index, loops);
    if (unknown < 0) return absl::OkStatus();
    return Broken(op.origin, "an index counts loop ", unknown, " of ", loops);
  }

  // Of what loops read and write, and of the memory that is planned for the call.
  absl::Status OneDevice(const std::string& origin, BufferId id) {
    const v1::DeviceType device = program_.buffers[id].device;
    if (device_ == v1::DEVICE_TYPE_UNSPECIFIED) device_ = device;
    if (device == device_) return absl::OkStatus();
    return Broken(origin, "buffer ", id, " is on another device than what loops read and write");
  }

  absl::Status Instruction(const LoopOp& op, int i, int loops) {
    const Inst& inst = op.block.insts[i];
    for (const int arg : inst.args) {
      if (arg < 0 || arg >= i) return Broken(op.origin, "%", i, " reads %", arg);
    }
    if (inst.guard >= i) return Broken(op.origin, "%", i, " is guarded by %", inst.guard);
    if (inst.kind == InstKind::kCompute) TENSORD_RETURN_IF_ERROR(Types(op, inst, i));
    if (inst.kind == InstKind::kLoad) {
      if (!IsBuffer(inst.buffer)) return Broken(op.origin, "%", i, " loads from no buffer");
      if (inst.storage != program_.buffers[inst.buffer].dtype) {
        return Broken(op.origin, "%", i, " loads another type than its buffer's");
      }
      TENSORD_RETURN_IF_ERROR(OneDevice(op.origin, inst.buffer));
    }
    if (inst.kind == InstKind::kScan && (!Scans(op) || !MayScan(inst.op))) {
      return Broken(op.origin, "%", i, " scans outside of a scan, or what cannot be");
    }
    return Index(op, inst.index, loops);
  }

  // Operands are of one type, which the operation takes; of `where` behind a truth value.
  absl::Status Types(const LoopOp& op, const Inst& inst, int i) {
    const size_t first = inst.op == Op::k_where ? 1 : 0;
    const auto type_of = [&](size_t arg) { return op.block.insts[inst.args[arg]].dtype; };
    if (first == 1 && type_of(0) != kBool) return Broken(op.origin, "%", i, " chooses by no truth");
    for (size_t arg = first; arg < inst.args.size(); ++arg) {
      if (type_of(arg) == type_of(first) && Takes(inst.op, type_of(arg))) continue;
      return Broken(op.origin, "%", i, ": ", InfoOf(inst.op).name, " does not take ",
                    DTypeName(type_of(arg)),
                    type_of(arg) == type_of(first) ? "" : " beside another");
    }
    return absl::OkStatus();
  }

  absl::Status Loops(const LoopOp& op) {
    const int outer = static_cast<int>(op.sizes.size());
    const int loops = outer + static_cast<int>(op.reduce_sizes.size());
    const int insts = static_cast<int>(op.block.insts.size());
    for (int i = 0; i < insts; ++i) TENSORD_RETURN_IF_ERROR(Instruction(op, i, loops));
    if (!op.reductions.empty() && op.reduce_sizes.empty()) {
      return Broken(op.origin, "reduces without reduced loops");
    }
    const bool has_scan =
        std::any_of(op.block.insts.begin(), op.block.insts.end(),
                    [](const Inst& inst) { return inst.kind == InstKind::kScan; });
    if (Scans(op) != has_scan) {
      return Broken(op.origin, "has reduced loops for nothing");
    }
    if (op.stores.empty() == op.reductions.empty()) {
      return Broken(op.origin, "must either store or reduce");
    }
    for (const Store& store : op.stores) {
      if (!IsBuffer(store.buffer)) return Broken(op.origin, "stores to no buffer");
      TENSORD_RETURN_IF_ERROR(OneDevice(op.origin, store.buffer));
      if (store.value < 0 || store.value >= insts) return Broken(op.origin, "stores no value");
      TENSORD_RETURN_IF_ERROR(Index(op, store.index, loops));
    }
    for (const Reduction& reduction : op.reductions) {
      if (reduction.value < 0 || reduction.value >= insts) {
        return Broken(op.origin, "reduces no value");
      }
      if (reduction.results.size() != reduction.indices.size()) {
        return Broken(op.origin, "a result of a reduction has no index");
      }
      for (const BufferId result : reduction.results) {
        if (IsBuffer(result)) TENSORD_RETURN_IF_ERROR(OneDevice(op.origin, result));
      }
      for (const Expr& index : reduction.indices) {
        TENSORD_RETURN_IF_ERROR(Index(op, index, outer));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Call(const ExternOp& op) {
    if (!op.outs.empty() && op.outs.size() != op.results.size()) {
      return Broken(op.origin, "a result has no place");
    }
    for (size_t i = 0; i < op.outs.size(); ++i) {
      if (op.outs[i].buffer != op.results[i] || !IsBuffer(op.results[i]) ||
          program_.buffers[op.results[i]].kind != BufferKind::kComputed) {
        return Broken(op.origin, "result ", i, " is not filled where it is computed");
      }
      TENSORD_RETURN_IF_ERROR(OneDevice(op.origin, op.results[i]));
    }
    const bool overwrites = op.overwrites >= 0;
    if (overwrites && (op.outs.size() != 1 ||
                       !std::holds_alternative<BufferView>(op.args[op.overwrites].value))) {
      return Broken(op.origin, "overwrites what is no tensor, or for several results");
    }
    return op.attention == nullptr ? absl::OkStatus() : Functions(op);
  }

  // Of one score each: what they load is that score's products, or an argument.
  absl::Status Functions(const ExternOp& op) {
    const Attention& attention = *op.attention;
    std::set<BufferId> arguments;
    ForEachView(op.args, [&](const BufferView& view) { arguments.insert(view.buffer); });
    for (const LoopOp& function : attention.functions) {
      TENSORD_RETURN_IF_ERROR(Loops(function));
      if (function.sizes.size() != 4 || function.stores.size() != 1) {
        return Broken(op.origin, "a function is not of one score");
      }
      for (const Inst& inst : function.block.insts) {
        if (inst.kind != InstKind::kLoad) continue;
        if (std::ranges::count(attention.products, inst.buffer) == 0) {
          if (arguments.count(inst.buffer) == 0) {
            return Broken(op.origin, "a function loads what is no argument");
          }
        } else if (inst.index != function.stores[0].index) {
          return Broken(op.origin, "a function loads another score's product");
        }
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const int buffers_;
  v1::DeviceType device_ = v1::DEVICE_TYPE_UNSPECIFIED;  // of the loops, once one is known
  std::set<BufferId> products_;                          // that stand for what is never in memory
};

}  // namespace

void ForEachView(const ExternArgList& args, const std::function<void(const BufferView&)>& visit) {
  for (const ExternArg& arg : args) {
    if (const auto* view = std::get_if<BufferView>(&arg.value)) visit(*view);
    if (const auto* list = std::get_if<ExternArgList>(&arg.value)) ForEachView(*list, visit);
  }
}

bool IsTrue(const ExternArgList& args, size_t place) {
  if (args.size() <= place) return false;
  const auto* argument = std::get_if<v1::Argument>(&args[place].value);
  return argument != nullptr && argument->boolean();
}

BufferView ViewOfParts(BufferView view) {
  if (!view.is_complex) return view;
  for (Expr& stride : view.strides) stride *= Expr(2);
  view.offset = view.offset * 2;
  view.sizes.push_back(Expr(2));
  view.strides.push_back(Expr(1));
  view.is_complex = false;
  return view;
}

BufferView ViewOfBuffer(BufferId id, const BufferInfo& buffer) {
  BufferView view{.buffer = id,
                  .sizes = buffer.sizes,
                  .strides = buffer.strides,
                  .offset = Expr(0),
                  .is_complex = buffer.is_complex};
  if (!buffer.is_complex) return view;
  view.sizes.pop_back();
  view.strides.pop_back();
  for (Expr& stride : view.strides) stride = *sym::ExactDiv(stride, Expr(2));
  return view;
}

Expr StorageElements(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  Expr last(0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Is(0)) return Expr(0);
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

int64_t BufferBytes(const BufferInfo& buffer) {
  int64_t elements = 1;
  for (const Expr& size : buffer.sizes) elements *= sym::Hint(size);
  return elements * ItemSize(buffer.dtype);
}

absl::Status VerifyProgram(const Program& program) { return Verifier(program).Run(); }

std::string ToString(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferInfo& buffer = program.buffers[i];
    static constexpr const char* kKinds[] = {"input", "constant", "computed", "extern"};
    absl::StrAppend(&text, "b", i, ": ", kKinds[static_cast<int>(buffer.kind)], " ",
                    DTypeName(buffer.dtype), sym::ToString(buffer.sizes), " strides ",
                    sym::ToString(buffer.strides), buffer.is_complex ? " complex" : "",
                    buffer.returned ? " returned" : "", "  # ", buffer.name, "\n");
  }
  for (const Operation& operation : program.operations) {
    if (const auto* op = std::get_if<LoopOp>(&operation)) {
      absl::StrAppend(&text, "loop ", sym::ToString(op->sizes));
      if (!op->reduce_sizes.empty())
        absl::StrAppend(&text, Scans(*op) ? " scan " : " reduce ", sym::ToString(op->reduce_sizes));
      absl::StrAppend(&text, "  # ", op->origin, "\n", ToString(op->block));
      for (const Store& store : op->stores) {
        static constexpr const char* kModes[] = {"=", "+=", "*=", "min=", "max="};
        absl::StrAppend(&text, "store b", store.buffer, "[", sym::ToString(store.index), "] ",
                        kModes[static_cast<int>(store.mode)], " %", store.value, "\n");
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
      if (call.attention == nullptr) continue;
      for (const LoopOp& function : call.attention->functions) {
        absl::StrAppend(&text, "function ", sym::ToString(function.sizes), "\n",
                        ToString(function.block), "score %", function.stores[0].value, "\n");
      }
    }
  }
  return text;
}

}  // namespace tensord::compiler
