#include "compiler/codegen/cpu_accumulators.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"

namespace tensord::compiler {
AccumulatorEmitter::AccumulatorEmitter(const Program& program, const Nest& nest,
                                       const CpuPlan& plan, BodyEmitter* body,
                                       KernelInterface* interface)
    : program_(program), nest_(nest), plan_(plan), body_(body), interface_(interface) {
  for (const NestMember& member : nest_.members) {
    for (const Reduction& reduction : member.loops.reductions) {
      Accumulator acc{.member = &member, .reduction = &reduction};
      acc.dtype = member.loops.block.insts[reduction.value].dtype;
      acc.type = ComputeTypeText(acc.dtype);
      acc.name = absl::StrCat("acc", row_.size() + private_.size());
      if (!member.reduces_outer) {
        row_.push_back(acc);
        continue;
      }
      const Expr count = IsColumns(acc) ? sym::Product(nest_.inner) : Expr(1);
      acc.offset = interface_->Scratch(count * ItemSize(ComputeType(acc.dtype)));
      private_.push_back(acc);
    }
  }
}

std::string AccumulatorEmitter::VectorLoop() const {
  return absl::StrCat("i", nest_.outer.size() + nest_.inner.size() - 1);
}

std::string AccumulatorEmitter::NameOf(const Accumulator& acc, int copy) {
  return copy == 0 ? acc.name : absl::StrCat(acc.name, "_", copy);
}

std::string AccumulatorEmitter::Start(const Accumulator& acc) const {
  const std::string lanes = HasVectorLoop() ? "W" : "1";
  if (const StateText* state = StateOf(acc.reduction->kind)) {
    return absl::StrCat("tk::", state->name, "_start<", acc.type, ", ", lanes, ">()");
  }
  return absl::StrCat("tk::broadcast<", lanes, ">(", Identity(acc.reduction->kind, acc.dtype), ")");
}

std::string AccumulatorEmitter::DeclareRow(int position, int copies) const {
  std::string text;
  for (const Accumulator& acc : row_) {
    if (acc.member->position != position) continue;
    if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
      absl::StrAppend(&text, "    alignas(64) ", acc.type, " ", acc.name, "[", blocks->columns,
                      "];\n    for (int64_t c = 0; c < ", blocks->columns, "; ++c) ", acc.name,
                      "[c] = ", Identity(acc.reduction->kind, acc.dtype), ";\n");
      continue;
    }
    for (int copy = 0; copy < copies; ++copy) {
      absl::StrAppend(&text, "    auto ", NameOf(acc, copy), " = ", Start(acc), ";\n");
    }
  }
  // Full reductions gather a unit's share apart, so that no long chain of additions builds up.
  for (const Accumulator& acc : private_) {
    if (acc.member->position != position || IsColumns(acc)) continue;
    for (int copy = 0; copy < copies; ++copy) {
      absl::StrAppend(&text, "    auto ", NameOf(acc, copy), " = ", Start(acc), ";\n");
    }
  }
  return text;
}

void AccumulatorEmitter::Accumulate(const NestMember& member, bool tail, int copy) {
  const int level = body_->vector_level();
  std::vector<std::string>& out = body_->lines(level);
  for (const auto* list : {&row_, &private_}) {
    for (const Accumulator& acc : *list) {
      if (acc.member != &member) continue;
      const ReduceKind kind = acc.reduction->kind;
      std::string value = body_->Use(body_->Emit(acc.reduction->value), level);
      const std::string name = NameOf(acc, copy);
      if (nest_.shape == NestShape::kBlocked || IsColumns(acc)) {
        const std::string at =
            absl::StrCat(acc.name, " + ",
                         nest_.shape == NestShape::kBlocked ? absl::StrCat(VectorLoop(), " - first")
                                                            : body_->InnerPosition());
        const std::string old = absl::StrCat(tail ? "tk::load_tail<" : "tk::load<", acc.type,
                                             ", W>(", at, tail ? ", left)" : ")");
        out.push_back(absl::StrCat(tail ? "tk::store_tail<" : "tk::store<", acc.type, ", W>(", at,
                                   ", ", CombineFunction(kind), "(", old, ", ", value,
                                   tail ? "), left);" : "));"));
        continue;
      }
      if (const StateText* state = StateOf(kind)) {
        out.push_back(absl::StrCat(name, " = tk::", state->name, tail ? "_add_tail(" : "_add(",
                                   name, ", ", value,
                                   IsArg(kind) ? absl::StrCat(", ", body_->InnerPosition()) : "",
                                   tail ? ", left);" : ");"));
        continue;
      }
      if (tail) {
        value = absl::StrCat("tk::where(tk::mask_first<W>(left), ", value, ", tk::broadcast<W>(",
                             Identity(kind, acc.dtype), "))");
      }
      out.push_back(absl::StrCat(name, " = ", CombineFunction(kind), "(", name, ", ", value, ");"));
    }
  }
}

void AccumulatorEmitter::EmitRowResults(int position, int copies) {
  std::vector<std::string>& out = body_->lines(0);
  const auto merge_copies = [&](const Accumulator& acc) {
    for (int copy = 1; copy < copies; ++copy) {
      out.push_back(absl::StrCat(acc.name, " = ", CombineText(acc.reduction->kind), "(", acc.name,
                                 ", ", NameOf(acc, copy), ");"));
    }
  };
  for (const Accumulator& acc : private_) {
    if (acc.member->position != position || IsColumns(acc)) continue;
    merge_copies(acc);
    out.push_back(absl::StrCat("total_", acc.name, " = ", CombineFunction(acc.reduction->kind),
                               "(total_", acc.name, ", ", acc.name, ");"));
  }
  if (nest_.shape == NestShape::kBlocked) return;
  for (const Accumulator& acc : row_) {
    if (acc.member->position != position) continue;
    merge_copies(acc);
    body_->SetMember(acc.member);
    const Reduction& r = *acc.reduction;
    if (const StateText* state = StateOf(r.kind)) {
      const std::string reduced =
          body_->Define(0, absl::StrCat("tk::", state->name, "_reduce(", acc.name, ")"));
      for (size_t part = 0; part < r.results.size(); ++part) {
        if (r.results[part] < 0) continue;
        const std::string value = body_->Define(0, absl::StrCat(reduced, ".", state->parts[part]));
        body_->EmitRowResult(r.results[part], r.indices[part],
                             {.name = value, .dtype = IsArg(r.kind) ? kInt64 : acc.dtype});
      }
      continue;
    }
    const std::string value = body_->Define(
        0, absl::StrCat("tk::broadcast<1>(", ReduceFunction(r.kind), "(", acc.name, "))"));
    body_->EmitRowResult(r.results[0], r.indices[0], {.name = value, .dtype = acc.dtype});
  }
}

std::string AccumulatorEmitter::StoreBlock(int position, const std::string& first,
                                           const std::string& last) {
  std::string text;
  const std::string loop = VectorLoop();
  for (const Accumulator& acc : row_) {
    if (acc.member->position != position) continue;
    body_->SetMember(acc.member);
    absl::StrAppend(&text, "    {\n      const int64_t first = ", first, ", last = ", last,
                    ";\n      for (int64_t ", loop, " = first; ", loop, " < last; ++", loop,
                    ") {\n");
    body_->EmitRowResult(
        acc.reduction->results[0], acc.reduction->indices[0],
        {.name = absl::StrCat("tk::broadcast<1>(", acc.name, "[", loop, " - first])"),
         .dtype = acc.dtype});
    for (const std::string& line : body_->lines(0)) absl::StrAppend(&text, "        ", line, "\n");
    body_->lines(0).clear();
    absl::StrAppend(&text, "      }\n    }\n");
  }
  return text;
}

void AccumulatorEmitter::AccumulateRow(const NestMember& member) {
  for (const Accumulator& acc : private_) {
    if (acc.member != &member) continue;
    const std::string value = body_->Use(body_->Emit(acc.reduction->value), 0);
    body_->lines(0).push_back(absl::StrCat(acc.name, " = ", CombineFunction(acc.reduction->kind),
                                           "(", acc.name, ", ", value, ");"));
  }
}

// ---- Accumulators that outlive units

std::string AccumulatorEmitter::DeclarePrivate() {
  std::string text;
  for (const Accumulator& acc : private_) {
    const std::string identity = Identity(acc.reduction->kind, acc.dtype);
    if (IsColumns(acc)) {
      absl::StrAppend(&text, "  ", acc.type, "* const ", acc.name, " = reinterpret_cast<", acc.type,
                      "*>(scratch + ", acc.offset, ");\n  for (int64_t c = 0; c < ",
                      body_->ExtentText(sym::Product(nest_.inner)), "; ++c) ", acc.name,
                      "[c] = ", identity, ";\n");
    } else if (acc.member->has_inner) {
      absl::StrAppend(&text, "  auto total_", acc.name, " = ", Start(acc), ";\n");
    } else {
      absl::StrAppend(&text, "  auto ", acc.name, " = tk::broadcast<1>(", identity, ");\n");
    }
  }
  return text;
}

std::string AccumulatorEmitter::SavePrivate() const {
  std::string text;
  for (const Accumulator& acc : private_) {
    if (IsColumns(acc)) continue;
    const std::string value =
        acc.member->has_inner
            ? absl::StrCat(ReduceFunction(acc.reduction->kind), "(total_", acc.name, ")")
            : absl::StrCat("tk::get(", acc.name, ", 0)");
    absl::StrAppend(&text, "  *reinterpret_cast<", acc.type, "*>(scratch + ", acc.offset,
                    ") = ", value, ";\n");
  }
  return text;
}

std::string AccumulatorEmitter::Finish(const std::string& name) {
  std::string text;
  for (const Accumulator& acc : private_) {
    const Reduction& r = *acc.reduction;
    const BufferId result = r.results[0];
    interface_->MarkWritten(result);
    const std::string storage = StorageType(program_.buffers[result].dtype);
    const std::string combine = CombineFunction(r.kind);
    body_->SetMember(acc.member);
    absl::StrAppend(
        &text, "  {\n    ", storage, "* const out = static_cast<", storage, "*>(args->buffers[",
        interface_->Buffer(result),
        "]);\n    const auto part = [&](int64_t task) {\n      return reinterpret_cast<const ",
        acc.type, "*>(scratch + task * stride + ", acc.offset, ");\n    };\n");
    if (!IsColumns(acc)) {
      absl::StrAppend(&text, "    auto total = tk::load<", acc.type, ", 1>(part(0));\n",
                      "    for (int64_t task = 1; task < tasks; ++task) total = ", combine,
                      "(total, tk::load<", acc.type, ", 1>(part(task)));\n    tk::store<", storage,
                      ", 1>(out + ", body_->ScalarText(r.indices[0]), ", total);\n  }\n");
      continue;
    }
    std::string pad = "    ";
    for (size_t q = 0; q + 1 < nest_.inner.size(); ++q) {
      const std::string loop = absl::StrCat("i", nest_.outer.size() + q);
      absl::StrAppend(&text, pad, "for (int64_t ", loop, " = 0; ", loop, " < ",
                      body_->ExtentText(nest_.inner[q]), "; ++", loop, ")\n");
      pad += "  ";
    }
    const std::string loop = VectorLoop(), at = body_->InnerPosition();
    const std::string extent = body_->ExtentText(nest_.inner.back());
    absl::StrAppend(&text, pad, "for (int64_t ", loop, " = 0; ", loop, " < ", extent, "; ", loop,
                    " += W) {\n", pad, "  const int64_t left = tk::min_index(W, ", extent, " - ",
                    loop, ");\n", pad, "  auto total = tk::load_tail<", acc.type, ", W>(part(0) + ",
                    at, ", left);\n", pad,
                    "  for (int64_t task = 1; task < tasks; ++task) total = ", combine,
                    "(total, tk::load_tail<", acc.type, ", W>(part(task) + ", at, ", left));\n");
    const auto step = sym::LinearCoefficient(
        r.indices[0],
        {sym::AtomKind::kLoop, static_cast<int>(nest_.outer.size() + nest_.inner.size()) - 1});
    TENSORD_CHECK(step.has_value(), "a column result without a step");
    const std::string index = body_->ScalarText(r.indices[0]);
    absl::StrAppend(
        &text, pad,
        step->Is(1)
            ? absl::StrCat("  tk::store_tail<", storage, ", W>(out + ", index, ", total, left);\n")
            : absl::StrCat("  tk::store_strided_tail<", storage, ", W>(out + ", index, ", ",
                           body_->ScalarText(*step), ", total, left);\n"),
        pad, "}\n  }\n");
  }
  std::string head =
      absl::StrCat("static void ", name,
                   "_finish(const TensordKernelArgs* args, int64_t tasks, int64_t stride) {\n"
                   "  [[maybe_unused]] constexpr int W = tk::kLanes;\n"
                   "  const char* const scratch = static_cast<const char*>(args->scratch);\n");
  for (size_t i = 0; i < interface_->integers().size(); ++i) {
    absl::StrAppend(&head, "  [[maybe_unused]] ", interface_->DeclareInteger(static_cast<int>(i)));
  }
  return head + text + "}\n";
}

}  // namespace tensord::compiler
