// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <iterator>
#include <string>
#include <vector>

#include "compiler/graph/dtype.h"

namespace tensord::compiler {
namespace {

std::string Text(const v1::SymExpr& e);
std::string Text(const v1::RealExpr& real);
std::string Text(const v1::Argument& arg);
std::string Text(const v1::ProgramOutput& output);

// The texts of all items, with `separator` between them.
template <class Items>
std::string TextsOf(const Items& items, const char* separator) {
  return absl::StrJoin(items, separator, [](std::string* out, const auto& item) {
    absl::StrAppend(out, Text(item));
  });
}

// How an operation is written around and between its operands; "?" of a kind that has no row.
struct Spelling {
  const char *before = nullptr, *between = nullptr, *after = nullptr;
};

template <class Op, size_t n>
std::string TextOfOperation(const Op& op, const Spelling (&by_kind)[n]) {
  const auto kind = static_cast<size_t>(op.kind());
  if (kind >= n || by_kind[kind].before == nullptr) return "?";
  const auto& [before, between, after] = by_kind[kind];
  return absl::StrCat(before, TextsOf(op.args(), between), after);
}

std::string Text(const v1::SymExpr& e) {
  static constexpr Spelling kByKind[] = {
      {},                  // unspecified
      {"(", " + ", ")"},   // ADD
      {"", " * ", ""},     // MUL
      {"(", " // ", ")"},  // FLOOR_DIV
      {"(", " % ", ")"},   // MOD
      {"min(", ", ", ")"},
      {"max(", ", ", ")"},
  };
  static_assert(std::size(kByKind) == v1::SymOp::Kind_ARRAYSIZE);
  if (e.has_symbol()) return absl::StrCat("s", e.symbol());
  return e.has_op() ? TextOfOperation(e.op(), kByKind) : absl::StrCat(e.constant());
}

std::string Text(const v1::RealExpr& real) {
  static constexpr Spelling kByKind[] = {
      {},                 // unspecified
      {"(", " + ", ")"},  // ADD
      {"", " * ", ""},    // MUL
      {"(", " / ", ")"},  // DIV
      {"pow(", ", ", ")"},
      {"sqrt(", ", ", ")"},
  };
  static_assert(std::size(kByKind) == v1::RealOp::Kind_ARRAYSIZE);
  if (real.has_integer()) return Text(real.integer());
  return real.has_op() ? TextOfOperation(real.op(), kByKind)
                       : absl::StrFormat("%.17g", real.constant());
}

std::string Text(const v1::Definition& definition) {
  static constexpr const char* kRoundings[] = {"?", "trunc", "floor", "ceil", "nearest"};
  const bool known = v1::Definition::Rounding_IsValid(definition.rounding());
  return absl::StrCat(known ? kRoundings[definition.rounding()] : "?", "(", Text(definition.real()),
                      ")");
}

std::string BufferName(uint32_t id) { return absl::StrCat("b", id); }

std::string Text(const v1::TensorMeta& meta) {
  std::string text = absl::StrCat(DTypeName(meta.dtype()), "[", TextsOf(meta.sizes(), ", "),
                                  "] strides [", TextsOf(meta.strides(), ", "), "]");
  const std::string offset = Text(meta.storage_offset());
  if (offset != "0") absl::StrAppend(&text, " offset ", offset);
  return text;
}

std::string Text(const v1::Argument& arg) {
  switch (arg.kind_case()) {
    case v1::Argument::kValue:
      return BufferName(arg.value().value());
    case v1::Argument::kInteger:
      return Text(arg.integer());
    case v1::Argument::kReal:
      return absl::StrCat(arg.real());
    case v1::Argument::kBoolean:
      return arg.boolean() ? "true" : "false";
    case v1::Argument::kText:
      return absl::StrCat("'", arg.text(), "'");
    case v1::Argument::kDtype:
      return DTypeName(arg.dtype());
    case v1::Argument::kDevice:
      return arg.device() == v1::DEVICE_TYPE_CUDA ? "cuda" : "cpu";
    case v1::Argument::kMemoryFormat:
      return v1::MemoryFormat_Name(arg.memory_format());
    case v1::Argument::kLayoutStrided:
      return "strided";
    case v1::Argument::kList:
      return absl::StrCat("[", TextsOf(arg.list().items(), ", "), "]");
    default:
      return "none";
  }
}

std::string StorageText(const v1::Artifact& artifact, const v1::Buffer& buffer) {
  switch (buffer.storage_case()) {
    case v1::Buffer::kInput:
      return absl::StrCat("input ", buffer.input(), "  # ", artifact.inputs(buffer.input()).name());
    case v1::Buffer::kConstant:
      return absl::StrCat("constant ", buffer.constant(), "  # ",
                          artifact.constants(buffer.constant()).name());
    case v1::Buffer::kWorkspace:
      return absl::StrCat("workspace at ", Text(buffer.workspace()),
                          buffer.standalone() ? ", standalone" : "",
                          buffer.has_donor() ? absl::StrCat(", in place of input ", buffer.donor())
                                             : std::string());
    case v1::Buffer::kOwned:
      return "owned";
    case v1::Buffer::kExternResult:
      return "library result";
    case v1::Buffer::kViewOf:
      return absl::StrCat("view of ", BufferName(buffer.view_of()));
    default:
      return "nowhere";
  }
}

// The arguments of a launch, what it writes of them, and how it is launched.
std::string Text(const v1::KernelLaunch& launch) {
  std::vector<std::string> arguments, written;
  for (const uint32_t id : launch.buffers()) arguments.push_back(BufferName(id));
  for (const v1::SymExpr& integer : launch.integers()) arguments.push_back(Text(integer));
  for (const uint32_t id : launch.written()) written.push_back(BufferName(id));
  std::string text =
      absl::StrCat("launch ", launch.function(), "(", absl::StrJoin(arguments, ", "), ") -> ",
                   absl::StrJoin(written, ", "), "; module ", launch.module());
  if (!launch.has_cuda()) {
    const std::string scratch = Text(launch.scratch_bytes_per_thread());
    if (scratch != "0") absl::StrAppend(&text, ", scratch ", scratch, " bytes a thread");
    return text;
  }
  const v1::CudaLaunch& cuda = launch.cuda();
  absl::StrAppend(&text, ", grid ", Text(cuda.grid()), ", block ", cuda.block());
  if (cuda.shared_bytes() > 0) absl::StrAppend(&text, ", shared ", cuda.shared_bytes(), " bytes");
  if (cuda.has_scratch()) absl::StrAppend(&text, ", scratch at ", Text(cuda.scratch()));
  if (cuda.has_counters()) absl::StrAppend(&text, ", counters at ", Text(cuda.counters()));
  if (cuda.waits_itself()) absl::StrAppend(&text, ", waits itself");
  return text;
}

std::string StepText(const v1::Artifact& artifact, const v1::Step& step) {
  switch (step.kind_case()) {
    case v1::Step::kLaunch:
      return absl::StrCat(Text(step.launch()), "  # ", step.launch().description());
    case v1::Step::kCall: {
      const v1::ExternCall& call = step.call();
      const auto append = [&](std::string* out, uint32_t id) {
        // An operator may leave a result out that nobody reads.
        const bool absent = artifact.buffers(id).meta().dtype() == v1::DTYPE_UNSPECIFIED;
        absl::StrAppend(out, absent ? "nothing" : BufferName(id));
      };
      return absl::StrCat("call ", call.op(), call.overload().empty() ? "" : ".", call.overload(),
                          "(", TextsOf(call.args(), ", "), ") -> ",
                          absl::StrJoin(call.results(), ", ", append), "  # ", call.node());
    }
    case v1::Step::kFree:
      return absl::StrCat("free ", BufferName(step.free()));
    case v1::Step::kZeroFill:
      return absl::StrCat("zero ", Text(step.zero_fill().bytes()), " bytes of the workspace at ",
                          Text(step.zero_fill().offset()));
    default:
      return "nothing";
  }
}

std::string Text(const v1::ProgramOutput& output) {
  if (output.has_buffer()) return BufferName(output.buffer());
  return output.has_integer() ? Text(output.integer()) : "none";
}

// "s0 = size 1 of input 0, from 2 to 64"
std::string SymbolText(const v1::Artifact& artifact, uint32_t number, const std::string& source) {
  const v1::Symbol& symbol = artifact.symbols(static_cast<int>(number));
  return absl::StrCat("s", number, " = ", source, ", from ", symbol.min(), " to ", symbol.max(),
                      "\n");
}

std::string SourceOf(const v1::SymbolBinding& binding) {
  return absl::StrCat(binding.has_dim() ? absl::StrCat("size ", binding.dim(), " of ") : "",
                      "input ", binding.input());
}

}  // namespace

std::string ToString(const v1::Artifact& artifact) {
  std::string text;
  for (int i = 0; i < artifact.buffers_size(); ++i) {
    const v1::Buffer& buffer = artifact.buffers(i);
    if (buffer.meta().dtype() == v1::DTYPE_UNSPECIFIED) continue;
    absl::StrAppend(&text, BufferName(i), ": ", Text(buffer.meta()), " ",
                    StorageText(artifact, buffer), "\n");
  }
  for (const v1::SymbolBinding& binding : artifact.bindings()) {
    text += SymbolText(artifact, binding.symbol(), SourceOf(binding));
  }
  for (int i = 0; i < artifact.symbols_size(); ++i) {
    if (!artifact.symbols(i).has_definition()) continue;
    text += SymbolText(artifact, static_cast<uint32_t>(i), Text(artifact.symbols(i).definition()));
  }
  absl::StrAppend(&text, "workspace: ", Text(artifact.workspace_bytes()), " bytes");
  if (artifact.has_standalone_bytes()) {
    absl::StrAppend(&text, ", standalone ", Text(artifact.standalone_bytes()), " bytes");
  }
  for (int i = 0; i < artifact.steps_size(); ++i) {
    absl::StrAppend(&text, "\nstep ", i, ": ", StepText(artifact, artifact.steps(i)));
  }
  return absl::StrCat(text, "\nreturn ", TextsOf(artifact.outputs(), ", "), "\n");
}

}  // namespace tensord::compiler
