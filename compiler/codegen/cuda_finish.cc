// The functions that combine what the blocks of a nest have left: of CudaAccumulators.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/codegen/cuda_accumulators.h"

namespace tensord::compiler {
namespace {

// Lanes that take neighbouring columns when copies are combined; the others take other copies.
constexpr int kFinishColumns = 8;

std::string Lines(const std::vector<std::string>& lines, const std::string& indent) {
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, indent, line, "\n");
  return text;
}

}  // namespace

FinishText CudaAccumulators::FinishTotal(const Accumulator& acc, const std::string& name) {
  const int threads = FinishThreads();
  CudaPlan plan;
  CudaBody body(program_, nest_, interface_, plan);
  const std::string copies = body.ExtentText(Copies());
  const std::string combine = CombineFunction(acc.reduction->kind), saved = SavedAt(acc, &body);
  EmitState(acc, "result", &body);
  const std::string store = Lines(body.lines(0), "    ");
  FinishText finish{.name = name, .blocks = Expr(1)};
  finish.text = absl::StrCat(
      "static __device__ void ", name,
      "(const Args& args, [[maybe_unused]] int block, char* shared) {\n", body.Declarations(),
      "  auto total = ", Start(acc, "1"), ";\n  for (int copy = threadIdx.x; copy < ", copies,
      "; copy += ", threads, ")\n    total = ", combine, "(total, tk::broadcast<1>(", saved,
      "[copy]));\n  const auto result = tk::broadcast<1>(",
      CombineGroup(acc, absl::StrCat(ReduceFunction(acc.reduction->kind), "(total)"), threads),
      ");\n  if (threadIdx.x == 0) {\n", store, "  }\n}\n");
  return finish;
}

// The copies of all columns, then the column statements: of a nest whose rows are the columns.
FinishText CudaAccumulators::FinishColumns(const std::vector<const Accumulator*>& columns,
                                           const std::string& name) {
  CudaPlan plan;
  Nest nest = nest_;
  nest.outer.insert(nest.outer.end(), nest.inner.begin(), nest.inner.end());
  nest.inner.clear();
  CudaBody body(program_, nest, interface_, plan);
  const Expr extent = sym::Product(nest_.inner);
  const std::string count = body.ExtentText(extent), copies = body.ExtentText(Copies());
  std::string start, add, combine;
  for (const Accumulator* acc : columns) {
    const std::string function = CombineText(acc->reduction->kind);
    std::vector<std::string> saved;
    const size_t parts = ColumnParts(acc->reduction->kind).size();
    for (size_t part = 0; part < parts; ++part) {
      saved.push_back(
          absl::StrCat("tk::broadcast<1>((", ColumnAt(*acc, part, "copy", &body), ")[column])"));
    }
    std::string value = absl::StrJoin(saved, ", ");
    if (parts > 1) value = absl::StrCat("decltype(", acc->name, "){", value, "}");
    absl::StrAppend(&start, "  auto ", acc->name, " = ", Start(*acc, "1"), ";\n");
    absl::StrAppend(&add, "      ", acc->name, " = ", function, "(", acc->name, ", ", value,
                    ");\n");
    absl::StrAppend(&combine, "  ", acc->name, " = tk::combine_groups<", kFinishColumns, ", ",
                    kFinishThreads, ">(", acc->name, ", [](auto a, auto b) { return ", function,
                    "(a, b); }, shared);\n");
    EmitState(*acc, acc->name, &body);
  }
  for (const NestMember& member : nest_.after) {
    body.SetMember(&member);
    for (const Store& store : member.loops.stores) body.EmitStore(store, false);
  }
  const std::string decode =
      DecodeLoops(&body, nest_.inner, static_cast<int>(nest_.outer.size()), "column", "    ");
  const std::string lines = Lines(body.lines(0), "    ");
  FinishText finish{.name = name, .blocks = sym::CeilDiv(extent, Expr(kFinishColumns))};
  finish.text = absl::StrCat(
      "static __device__ void ", name, "(const Args& args, int block, char* shared) {\n",
      body.Declarations(), "  const int x = threadIdx.x % ", kFinishColumns, ", y = threadIdx.x / ",
      kFinishColumns, ";\n  const index column = block * ", kFinishColumns, " + x;\n", start,
      "  if (column < ", count, ") {\n#pragma unroll 8\n    for (int copy = y; copy < ", copies,
      "; copy += ", kFinishThreads / kFinishColumns, ") {\n", add, "    }\n  }\n", combine,
      "  if (y == 0 && column < ", count, ") {\n", decode, lines, "  }\n}\n");
  return finish;
}

// The parts of row `block`, then the row's statements: always in the row's last block.
FinishText CudaAccumulators::FinishSplit(const std::string& name) {
  const int threads = plan_.threads, parts = plan_.As<CudaSplit>()->parts;
  CudaPlan plan{.threads = threads, .kind = CudaRows{.group = {.threads = threads}}};
  CudaBody body(program_, nest_, interface_, plan);
  const std::string decode = DecodeLoops(&body, nest_.outer, 0, "row", "  ");
  std::string combine;
  body.BeginPass(false);
  for (const Accumulator& acc : all_) {
    const StateText* state = StateOf(acc.reduction->kind);
    const std::string function = CombineText(acc.reduction->kind);
    const std::string saved = absl::StrCat(SavedAt(acc, &body), "[row * ", parts, " + part]");
    absl::StrAppend(
        &combine, "  auto ", acc.name, " = ", Start(acc, "1"), ";\n  for (int part = lane; part < ",
        parts, "; part += ", threads, ")\n    ", acc.name, " = ", function, "(", acc.name, ", ",
        state == nullptr ? absl::StrCat("tk::broadcast<1>(", saved, ")") : saved, ");\n");
    std::string result = acc.name;
    if (state == nullptr)
      result = absl::StrCat(ReduceFunction(acc.reduction->kind), "(", result, ")");
    result = CombineGroup(acc, result, threads);
    if (state == nullptr) result = absl::StrCat("tk::broadcast<1>(", result, ")");
    EmitState(acc, body.Define(0, result), &body);
  }
  for (const NestMember& member : nest_.members) {
    if (member.has_inner) continue;
    body.SetMember(&member);
    for (const Store& store : member.loops.stores) body.EmitStore(store, false);
  }
  const std::string lines = Lines(body.lines(0), "  ");
  FinishText finish{.name = name, .blocks = sym::Product(nest_.outer)};
  finish.text = absl::StrCat("static __device__ void ", name,
                             "(const Args& args, int block, [[maybe_unused]] char* shared) {\n",
                             body.Declarations(),
                             "  const index row = block;\n  const int lane = threadIdx.x;\n",
                             decode, combine, lines, "}\n");
  return finish;
}

std::vector<FinishText> CudaAccumulators::Finish(const std::string& name) {
  std::vector<FinishText> finishes;
  if (finished_.empty()) return finishes;
  if (plan_.Is<CudaSplit>()) {
    finishes.push_back(FinishSplit(absl::StrCat(name, "_finish")));
    return finishes;
  }
  std::vector<const Accumulator*> columns;
  for (const Accumulator* acc : finished_) {
    for (BufferId id : acc->reduction->results) interface_->MarkWritten(id);
    if (IsColumns(*acc)) {
      columns.push_back(acc);
    } else {
      finishes.push_back(FinishTotal(*acc, absl::StrCat(name, "_finish_", acc->name)));
    }
  }
  if (!columns.empty()) finishes.push_back(FinishColumns(columns, absl::StrCat(name, "_finish")));
  return finishes;
}

std::string CudaAccumulators::FinishInLastBlock(const std::vector<FinishText>& finishes) {
  TENSORD_CHECK(plan_.column_tiles() == nullptr,
                "the last block would have many copies of its columns to combine");
  // The counter that the block shares, and with how many.
  const bool split = plan_.Is<CudaSplit>();
  const std::string number = split ? "row" : "0",
                    sharers = split ? absl::StrCat(plan_.As<CudaSplit>()->parts) : "blocks";
  const Expr first = interface_->ReserveCounters(split ? sym::Product(nest_.outer) : Expr(1));
  std::string text =
      absl::StrCat("  if (!tk::is_last_block(args.counters + ", body_->ScalarText(first), " + ",
                   number, ", ", sharers, ")) return;\n");
  for (const FinishText& finish : finishes) {
    absl::StrAppend(&text, "  ", finish.name, "(args, ", number,
                    ", static_cast<char*>(shared.shared));\n");
  }
  return text;
}

}  // namespace tensord::compiler
