// SPDX-License-Identifier: Apache-2.0
#include "server/program/keys.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/sha256.h"
#include "server/program/encoder.h"

namespace tensord::server {
namespace {

void EncodeNode(const v1::Node& node, Encoder& out) {
  out.Text(node.op()).Text(node.overload()).WholeList(node.args()).WholeList(node.outputs());
}

template <class List, class EncodeOne>
void EncodeList(const List& items, EncodeOne encode, Encoder& out) {
  out.Number(static_cast<uint64_t>(items.size()));
  for (const auto& item : items) encode(item, out);
}

}  // namespace

std::string CanonicalGraph(const v1::Graph& graph) {
  Encoder out;
  out.WholeList(graph.symbols());
  EncodeList(graph.inputs(), EncodeInput, out);
  EncodeList(graph.constants(), EncodeConstant, out);
  EncodeList(graph.nodes(), EncodeNode, out);
  out.WholeList(graph.outputs());
  return out.Take();
}

std::string ProgramKey::Digest() const {
  return Sha256Fields()
      .Add("tensord program")
      .Add(std::to_string(kKeyVersion))
      .Add(graph)
      .Add(target)
      .Add(options)
      .Add(toolchain)
      .Add(compiler_build)
      .Add(std::to_string(compiler_version))
      .Add(std::to_string(artifact_format))
      .Finish();
}

std::string KernelKey::Digest() const {
  Sha256Fields fields;
  fields.Add("tensord kernel").Add(std::to_string(kKeyVersion)).Add(source);
  fields.Add(std::to_string(functions.size()));
  for (const std::string& function : functions) fields.Add(function);
  return fields.Add(arch).Add(toolchain).Finish();
}

std::string ArchOf(const v1::Target& target) {
  switch (target.kind_case()) {
    case v1::Target::kCpu: {
      // "ISA_AVX512" -> "avx512"
      const std::string isa = v1::Isa_Name(target.cpu().isa());
      return absl::StrCat("cpu ",
                          absl::AsciiStrToLower(isa.substr(std::min<size_t>(4, isa.size()))));
    }
    case v1::Target::kCuda:
      return absl::StrCat("cuda sm", target.cuda().sm());
    case v1::Target::KIND_NOT_SET:
      break;
  }
  return "none";
}

ProgramKey MakeProgramKey(const v1::Graph& graph, const v1::Target& target,
                          const v1::CompileOptions& options, std::string toolchain,
                          std::string compiler_build) {
  ProgramKey key;
  key.graph = CanonicalGraph(graph);
  key.target = target.SerializeAsString();
  key.options = options.SerializeAsString();
  key.toolchain = std::move(toolchain);
  key.compiler_build = std::move(compiler_build);
  return key;
}

KernelKey MakeKernelKey(const v1::KernelUnit& unit, const v1::Target& target,
                        std::string toolchain) {
  return {unit.source(),
          {unit.functions().begin(), unit.functions().end()},
          ArchOf(target),
          std::move(toolchain)};
}

}  // namespace tensord::server
