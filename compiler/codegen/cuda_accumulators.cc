#include "compiler/codegen/cuda_accumulators.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

// Floats that a warp's slot has room for (kernels/cuda/group.cuh).
constexpr size_t kMostSumsAtOnce = 6;
// Shared memory through which groups combine their columns, unless one vector of each thread needs
// more: it saves barriers.
constexpr int64_t kCombineBytes = 16 << 10;

// The prelude's function that combines the threads of a group.
const char* GroupFunction(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "tk::group_add";
    case ReduceKind::kProd:
      return "tk::group_mul";
    case ReduceKind::kMin:
      return "tk::group_min";
    case ReduceKind::kMax:
      return "tk::group_max";
    case ReduceKind::kAny:
      return "tk::group_any";
    case ReduceKind::kAll:
      return "tk::group_all";
    case ReduceKind::kWelford:
      return "tk::group_welford";
    case ReduceKind::kOnlineSoftmax:
      return "tk::group_softmax";
    case ReduceKind::kArgMax:
      return "tk::group_argmax";
    case ReduceKind::kArgMin:
      return "tk::group_argmin";
  }
  return "";
}

// The type of a saved state, and its size in bytes.
std::pair<std::string, int64_t> SavedType(ReduceKind kind, DType dtype, const std::string& type) {
  const int64_t size = ItemSize(ComputeType(dtype));
  switch (kind) {
    case ReduceKind::kWelford:
      return {absl::StrCat("tk::Welford<", type, ", 1>"), 3 * size};
    case ReduceKind::kOnlineSoftmax:
      return {"tk::OnlineSoftmax<1>", 2 * size};
    case ReduceKind::kArgMax:
    case ReduceKind::kArgMin:
      return {absl::StrCat("tk::ArgVec<", type, ", 1>"), 16};
    default:
      return {type, size};
  }
}

}  // namespace

std::string DecodeLoops(BodyEmitter* body, const std::vector<Expr>& extents, int first_loop,
                        const std::string& number, const std::string& indent, int last_width) {
  std::string text, rest = number;
  Expr inside(1);
  const int count = static_cast<int>(extents.size());
  for (int d = count - 1; d >= 0; --d) {
    const Expr extent =
        d == count - 1 && last_width > 1 ? sym::FloorDiv(extents[d], Expr(last_width)) : extents[d];
    std::string value =
        inside.Is(1) ? number : absl::StrCat(number, " / (", body->ScalarText(inside), ")");
    if (d > 0) value = absl::StrCat("(", value, ") % ", body->ExtentText(extent));
    if (d == count - 1 && last_width > 1) value = absl::StrCat("(", value, ") * W");
    absl::StrAppend(&text, indent, "[[maybe_unused]] const index i", first_loop + d, " = ", value,
                    ";\n");
    inside *= extent;
  }
  return text;
}

CudaAccumulators::CudaAccumulators(const Program& program, const Nest& nest, const CudaPlan& plan,
                                   CudaBody* body, KernelInterface* interface)
    : program_(program), nest_(nest), plan_(plan), body_(body), interface_(interface) {
  for (const NestMember& member : nest_.members) {
    for (const Reduction& reduction : member.loops.reductions) {
      Accumulator acc{.member = &member, .reduction = &reduction};
      acc.dtype = member.loops.block.insts[reduction.value].dtype;
      acc.type = ComputeTypeText(acc.dtype);
      acc.name = absl::StrCat("acc", all_.size());
      const auto [saved, size] = SavedType(reduction.kind, acc.dtype, acc.type);
      acc.saved = saved;
      acc.bytes = size;
      if (IsPrivate(acc)) {
        const Expr count = IsColumns(acc) ? ColumnStride() : Expr(1);
        acc.offset = interface_->ReserveScratch(count * size * Copies());
      } else if (plan_.Is<CudaSplit>()) {
        acc.offset = interface_->ReserveScratch(plan_.blocks * size);
      }
      all_.push_back(acc);
    }
  }
  for (const Accumulator& acc : all_) {
    if (acc.offset) finished_.push_back(&acc);
  }
}

int CudaAccumulators::CombinedAtOnce(const Accumulator& acc) const {
  return static_cast<int>(
      std::clamp<int64_t>(kCombineBytes / HandedBytes(acc), 1, plan_.register_vectors()));
}

int CudaAccumulators::SharedBytes() const {
  int64_t bytes = 0;
  for (const Accumulator& acc : all_) {
    if (!IsPrivate(acc) || !IsColumns(acc) || plan_.register_vectors() == 0 || plan_.groups() == 1)
      continue;
    bytes = std::max(bytes, CombinedAtOnce(acc) * HandedBytes(acc));
  }
  return static_cast<int>(bytes);
}

std::vector<std::string> CudaAccumulators::ColumnParts(ReduceKind kind) {
  if (kind == ReduceKind::kWelford) return {".mean", ".m2", ".weight"};
  return {""};
}

std::string CudaAccumulators::Start(const Accumulator& acc, const std::string& lanes) const {
  if (const StateText* state = StateOf(acc.reduction->kind)) {
    // The state of online softmax is always float32.
    const bool is_float = acc.reduction->kind == ReduceKind::kOnlineSoftmax;
    return absl::StrCat("tk::", state->name, "_start<", is_float ? "float" : acc.type, ", ", lanes,
                        ">()");
  }
  return absl::StrCat("tk::broadcast<", lanes, ">(", Identity(acc.reduction->kind, acc.dtype), ")");
}

std::string CudaAccumulators::CombineGroup(const Accumulator& acc, const std::string& value,
                                           int group) const {
  return absl::StrCat(GroupFunction(acc.reduction->kind), "<", group, ">(", value,
                      HasParts(group) ? ", tk::groups_of(shared))" : ", shared)");
}

bool CudaAccumulators::HasParts(int group) const {
  return !plan_.Is<CudaSplit>() && group == plan_.G() && group > 32 && plan_.groups() > 1;
}

std::string CudaAccumulators::DeclareRow(int position) const {
  std::string text;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || IsPrivate(acc)) continue;
    absl::StrAppend(&text, "    auto ", acc.name, " = ",
                    Start(acc, nest_.inner.empty() ? "1" : "W"), ";\n");
  }
  return text;
}

void CudaAccumulators::Accumulate(const NestMember& member) {
  const int level = body_->vector_level();
  std::vector<std::string>& out = body_->lines(level);
  for (const Accumulator& acc : all_) {
    if (acc.member != &member) continue;
    const ReduceKind kind = acc.reduction->kind;
    const std::string value = body_->Use(body_->Emit(acc.reduction->value), level);
    const bool tail = body_->tail();
    if (const StateText* state = StateOf(kind)) {
      const std::string target = absl::StrCat(acc.name, IsPrivate(acc) ? "[k]" : "");
      out.push_back(absl::StrCat(target, " = tk::", state->name, tail ? "_add_masked(" : "_add(",
                                 target, ", ", value, tail ? ", tk::mask_first<W>(left)" : "",
                                 IsArg(kind) ? absl::StrCat(", ", body_->InnerPosition()) : "",
                                 ");"));
      continue;
    }
    std::string target = acc.name;
    if (IsPrivate(acc) && IsColumns(acc)) {
      if (plan_.register_vectors() == 0) {  // too many columns for registers
        const std::string at = absl::StrCat(acc.name, " + ", body_->InnerPosition());
        out.push_back(absl::StrCat("tk::store<", acc.type, ", W>(", at, ", ", CombineFunction(kind),
                                   "(tk::load<", acc.type, ", W>(", at, "), ", value, "));"));
        continue;
      }
      target += "[k]";
    }
    const std::string added = tail ? absl::StrCat("tk::where(tk::mask_first<W>(left), ", value,
                                                  ", ", Start(acc, "W"), ")")
                                   : value;
    out.push_back(
        absl::StrCat(target, " = ", CombineFunction(kind), "(", target, ", ", added, ");"));
  }
}

void CudaAccumulators::AccumulateRow(const NestMember& member) {
  for (const Accumulator& acc : all_) {
    if (acc.member != &member) continue;
    const std::string value = body_->Use(body_->Emit(acc.reduction->value), 0);
    body_->lines(0).push_back(absl::StrCat(acc.name, " = ", CombineFunction(acc.reduction->kind),
                                           "(", acc.name, ", ", value, ");"));
  }
}

// The results of a finished state or value, as scalars of the row.
void CudaAccumulators::EmitState(const Accumulator& acc, const std::string& state_name,
                                 BodyEmitter* body) const {
  const Reduction& r = *acc.reduction;
  body->SetMember(acc.member);
  const StateText* state = StateOf(r.kind);
  for (size_t part = 0; part < r.results.size(); ++part) {
    if (r.results[part] < 0) continue;
    const std::string value =
        state == nullptr ? state_name
                         : body->Define(0, absl::StrCat(state_name, ".", state->parts[part]));
    body->EmitRowResult(r.results[part], r.indices[part],
                        {.name = value, .dtype = IsArg(r.kind) ? kInt64 : acc.dtype});
  }
}

void CudaAccumulators::EmitRowResults(int position) {
  // Where a group has a barrier of its own, sums of one type share it.
  std::vector<const Accumulator*> sums;
  for (const Accumulator& acc : all_) {
    if (acc.member->position == position && !IsPrivate(acc) && HasParts(plan_.G()) &&
        acc.reduction->kind == ReduceKind::kSum && acc.type == "float" &&
        sums.size() < kMostSumsAtOnce) {
      sums.push_back(&acc);
    }
  }
  if (sums.size() > 1) {
    std::vector<std::string> lanes;
    for (const Accumulator* acc : sums) {
      lanes.push_back(absl::StrCat("tk::reduce_sum(", acc->name, ")"));
    }
    const std::string all = body_->Define(
        0, absl::StrCat("tk::group_add_each<", plan_.G(), ">(tk::Vec<float, ", sums.size(), ">{{",
                        absl::StrJoin(lanes, ", "), "}}, tk::groups_of(shared))"));
    for (size_t i = 0; i < sums.size(); ++i) {
      EmitState(*sums[i], body_->Define(0, absl::StrCat("tk::broadcast<1>(", all, ".at[", i, "])")),
                body_);
    }
  } else {
    sums.clear();
  }
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || IsPrivate(acc)) continue;
    if (std::count(sums.begin(), sums.end(), &acc) > 0) continue;
    const StateText* state = StateOf(acc.reduction->kind);
    const std::string lanes =
        state != nullptr ? absl::StrCat("tk::", state->name, "_reduce(", acc.name, ")")
                         : absl::StrCat(ReduceFunction(acc.reduction->kind), "(", acc.name, ")");
    std::string group = CombineGroup(acc, lanes, plan_.G());
    if (plan_.Is<CudaSplit>()) {
      const std::string value = body_->Define(0, group);
      body_->lines(0).push_back(
          absl::StrCat("if (lane == 0) ", SavedAt(acc, body_), "[block] = ", value, ";"));
      continue;
    }
    if (state == nullptr) group = absl::StrCat("tk::broadcast<1>(", group, ")");
    EmitState(acc, body_->Define(0, group), body_);
  }
}

void CudaAccumulators::EmitColumnResults() {
  for (const Accumulator& acc : all_) {
    body_->SetMember(acc.member);
    if (nest_.inner.empty()) {
      EmitState(acc, acc.name, body_);
    } else {
      body_->EmitColumns(acc.reduction->results[0], acc.reduction->indices[0], acc.name);
    }
  }
}

// ---- What outlives units

std::string CudaAccumulators::SavedAt(const Accumulator& acc, BodyEmitter* body) const {
  return absl::StrCat("reinterpret_cast<", acc.saved, "*>(args.scratch + ",
                      body->ExtentText(*acc.offset), ")");
}

Expr CudaAccumulators::ColumnStride() const {
  return sym::CeilDiv(sym::Product(nest_.inner), Expr(kWidestVector)) * kWidestVector;
}

std::string CudaAccumulators::ColumnAt(const Accumulator& acc, size_t part, const std::string& copy,
                                       BodyEmitter* body) const {
  const Expr count = ColumnStride();
  const std::string first = absl::StrCat("reinterpret_cast<", acc.type, "*>(args.scratch + ",
                                         body->ExtentText(*acc.offset), ") + static_cast<int64_t>(",
                                         copy, ") * ", body->ExtentText(count));
  if (part == 0) return first;
  return absl::StrCat(first, " + ", part, " * static_cast<int64_t>(",
                      body->ExtentText(Copies() * count), ")");
}

std::string CudaAccumulators::DeclarePrivate() {
  std::string text;
  for (const Accumulator& acc : all_) {
    if (!IsPrivate(acc)) continue;
    const std::string identity = Identity(acc.reduction->kind, acc.dtype);
    if (!IsColumns(acc)) {
      const bool vector = acc.member->has_inner && !nest_.inner.empty();
      absl::StrAppend(&text, "  auto ", acc.name, " = ", Start(acc, vector ? "W" : "1"), ";\n");
    } else if (plan_.register_vectors() > 0) {
      const std::string start = Start(acc, "W");
      absl::StrAppend(&text, "  decltype(", start, ") ", acc.name, "[", plan_.register_vectors(),
                      "];\n#pragma unroll\n  for (int k = 0; k < ", plan_.register_vectors(),
                      "; ++k) ", acc.name, "[k] = ", start, ";\n");
    } else {
      absl::StrAppend(&text, "  ", acc.type, "* const ", acc.name, " = ", SavedAt(acc, body_),
                      " + static_cast<int64_t>(block) * ", body_->ExtentText(ColumnStride()),
                      ";\n  for (index q = lane; q < vectors; q += G) tk::store<", acc.type,
                      ", W>(", acc.name, " + q * W, ", Start(acc, "W"), ");\n");
    }
  }
  return text;
}

std::string CudaAccumulators::SavePrivate() {
  std::string text;
  for (const Accumulator& acc : all_) {
    if (!IsPrivate(acc)) continue;
    const ReduceKind kind = acc.reduction->kind;
    if (!IsColumns(acc)) {
      std::string value = absl::StrCat(ReduceFunction(kind), "(", acc.name, ")");
      if (!acc.member->has_inner && plan_.G() > 1) {
        // Every thread of a group has the rows' value.
        value = absl::StrCat("lane == 0 ? ", value, " : ", Identity(kind, acc.dtype));
      }
      absl::StrAppend(
          &text, "  {\n    const auto total = ", CombineGroup(acc, value, plan_.threads),
          ";\n    if (threadIdx.x == 0) ", SavedAt(acc, body_), "[copy] = total;\n  }\n");
      continue;
    }
    if (plan_.register_vectors() == 0) continue;  // it lies there
    const std::string count = body_->ExtentText(sym::Product(nest_.inner));
    if (plan_.groups() > 1) {
      absl::StrAppend(&text, "  tk::combine_groups<G, T, ", CombinedAtOnce(acc), ">(", acc.name,
                      ", [](auto a, auto b) { return ", CombineText(kind), "(a, b); }, tile);\n");
    }
    absl::StrAppend(&text, "#pragma unroll\n  for (int k = 0; k < ", plan_.register_vectors(),
                    "; ++k) {\n");
    const std::string value = absl::StrCat(acc.name, "[k]");
    const std::string mine = plan_.groups() > 1 ? "threadIdx.x < G && " : "";
    const std::vector<std::string> parts = ColumnParts(kind);
    if (plan_.is_interleaved()) {
      absl::StrAppend(&text,
                      "    const index column = (first_vector + k * G) * W + lane;\n    if (", mine,
                      "column < ", count, ") {\n");
    } else {
      absl::StrAppend(&text, "    const index q = first_vector + lane + k * G;\n    if (", mine,
                      "q < vectors) {\n");
    }
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::string at = ColumnAt(acc, part, "copy", body_), of = value + parts[part];
      if (plan_.is_interleaved()) {
        absl::StrAppend(&text, "      tk::store_strided_masked<", acc.type, ", W>(", at,
                        " + column, G, ", of, ", tk::mask_first<W>((", count,
                        " - column + G - 1) / G));\n");
      } else {
        absl::StrAppend(
            &text, "      tk::store", plan_.is_partial() ? "_tail<" : "<", acc.type, ", W>(", at,
            " + q * W, ", of,
            plan_.is_partial() ? absl::StrCat(", tk::min_index(W, ", count, " - q * W)") : "",
            ");\n");
      }
    }
    text += "    }\n  }\n";
  }
  return text;
}

}  // namespace tensord::compiler
