// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "base/sha256.h"
#include "server/ctl/commands.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

// "transformers.models.bert.modeling_bert BertModel.forward".
std::string NameOf(const v1::CodeIdentity& code) {
  return absl::StrCat(code.module(), code.module().empty() ? "" : " ", code.qualified_name());
}

std::string NameOf(const v1::NamedObject& object) {
  return absl::StrCat(object.module(), object.qualified_name().empty() ? "" : ".",
                      object.qualified_name());
}

// A guard in words, or else what it checks.
std::string Describe(const v1::FrameGuard& guard) {
  if (!guard.text().empty()) return guard.text();
  const google::protobuf::FieldDescriptor* check =
      v1::FrameGuard::descriptor()->FindFieldByNumber(guard.check_case());
  return absl::StrCat(check == nullptr ? "nothing" : check->name(), " of source ", guard.source());
}

std::string Describe(const char* kind, const v1::FrameProgram& program) {
  return fmt::format("{:<9} {} operators, inputs {} of {} arguments", kind,
                     program.graph().nodes_size(), absl::StrJoin(program.inputs(), " "),
                     program.arguments());
}

std::string Describe(const v1::FrameGlobal& global) {
  switch (global.value_case()) {
    case v1::FrameGlobal::kModule:
      return "module " + global.module();
    case v1::FrameGlobal::kBuiltins:
      return "the builtins";
    case v1::FrameGlobal::kObject:
      return NameOf(global.object());
    case v1::FrameGlobal::kSplit:
      return fmt::format("a graph of {} parts", global.split().calls_size());
    case v1::FrameGlobal::kContinuation:
      return fmt::format("goes on behind a break: {}, {}", NameOf(global.continuation().of()),
                         HumanBytes(global.continuation().code().bytecode().size()));
    default:
      return "nothing";
  }
}

void PrintHead(const v1::StoredFrame& stored) {
  const v1::Frame& frame = stored.frame();
  const int64_t now = time(nullptr);
  Table head({"frame", ToHex(stored.key())});
  head.Add({"code", NameOf(frame.code())});
  head.Add({"digest", ToHex(frame.code().digest())});
  head.Add({"python", frame.environment().python()});
  head.Add({"torch", frame.environment().torch()});
  head.Add({"options", ToHex(frame.environment().options())});
  head.Add({"format", absl::StrCat(frame.environment().format())});
  head.Add({"size", HumanBytes(frame.ByteSizeLong())});
  head.Add({"served", fmt::format("{} times", stored.hits())});
  head.Add({"made", HumanAge(now - stored.created_unix()) + " ago"});
  head.Add({"used", HumanAge(now - stored.used_unix()) + " ago"});
  Print(head.ToString());
}

void PrintGraphs(const v1::Frame& frame) {
  Print("\nprograms\n");
  for (const v1::GraphCall& call : frame.graphs()) {
    Print(fmt::format("  {}  {} results\n", call.name(), call.results()));
    if (call.has_inference()) Print("    " + Describe("inference", call.inference()) + "\n");
    if (call.has_forward()) Print("    " + Describe("forward", call.forward()) + "\n");
    if (call.has_backward()) Print("    " + Describe("backward", call.backward()) + "\n");
    if (call.has_backward_with_all()) {
      Print("    " + Describe("backward with all gradients", call.backward_with_all()) + "\n");
    }
  }
}

}  // namespace

int Frames(const Client& client, uint32_t limit) {
  v1::ListFramesRequest request;
  request.set_limit(limit);
  v1::ListFramesReply reply;
  if (const int code = Ask(client, request, &reply); code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  const int64_t now = time(nullptr);
  Table table({"KEY", "CODE", ">GUARDS", ">GRAPHS", ">INLINED", ">HITS", ">SIZE", ">AGE", ">USED"});
  for (const v1::FrameSummary& f : reply.frames()) {
    table.Add({ToHex(f.key()).substr(0, 12), NameOf(f.code()), absl::StrCat(f.guards()),
               absl::StrCat(f.graphs()), absl::StrCat(f.inlined()), absl::StrCat(f.hits()),
               HumanBytes(f.bytes()), HumanAge(now - f.created_unix()),
               HumanAge(now - f.used_unix())});
  }
  Print(table.ToString());
  if (reply.unrecorded_size() == 0) return kExitOk;
  Table unrecorded({"captures without a frame", ">"});
  for (const v1::UnrecordedFrame& one : reply.unrecorded()) {
    unrecorded.Add({one.reason(), absl::StrCat(one.count())});
  }
  Print("\n" + unrecorded.ToString());
  return kExitOk;
}

int ShowFrame(const Client& client, const std::string& key) {
  v1::GetFrameRequest request;
  if (!ReadKey(key, request.mutable_key_prefix())) return kExitUsage;
  v1::StoredFrame stored;
  if (const int code = Ask(client, request, &stored); code != kExitOk) return code;
  if (client.json) return PrintJson(stored), kExitOk;
  const v1::Frame& frame = stored.frame();
  PrintHead(stored);
  Print("\ninlined functions\n");
  for (const v1::InlinedFunction& inlined : frame.inlined()) {
    Print("  " + NameOf(inlined.code()) + "\n");
  }
  Print("\nguards\n");
  for (int i = 0; i < frame.guards_size(); ++i) {
    Print(fmt::format("  {:>3}  {}\n", i, Describe(frame.guards(i))));
  }
  PrintGraphs(frame);
  if (!frame.result().has_code()) return Print("\nresult: left to Python\n"), kExitOk;
  Print(fmt::format("\nresult: {} of bytecode\n",
                    HumanBytes(frame.result().code().bytecode().size())));
  for (const v1::FrameGlobal& global : frame.result().globals()) {
    Print(fmt::format("  {} = {}\n", global.name(), Describe(global)));
  }
  return kExitOk;
}

}  // namespace tensord::server
