// tensorctl: asks a running daemon.
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "base/sha256.h"
#include "base/version.h"
#include "server/ctl/compile.h"
#include "server/address.h"
#include "server/status_codes.h"
#include "server/table.h"
#include "tensord/v1/service.grpc.pb.h"

namespace tensord::server {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr int kExitUnreachable = 3;

struct Ctl {
  std::unique_ptr<v1::Compiler::Stub> stub;
  std::string address;
  bool json = false;
};

using Method = std::function<grpc::Status(grpc::ClientContext*)>;

// Makes one call. Prints what went wrong and returns the exit code.
int Ask(const Ctl& ctl, const Method& method) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const grpc::Status status = method(&context);
  if (status.ok()) return kExitOk;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    std::fprintf(stderr, "tensorctl: no daemon answers at %s (%s)\n", ctl.address.c_str(),
                 status.error_message().c_str());
    return kExitUnreachable;
  }
  std::fprintf(stderr, "tensorctl: %s\n", status.error_message().c_str());
  return kExitError;
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string out;
  if (const auto status = google::protobuf::util::MessageToJsonString(message, &out, options);
      !status.ok()) {
    std::fprintf(stderr, "tensorctl: %s\n", status.ToString().c_str());
  }
  std::fputs(out.c_str(), stdout);
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

int GetStats(const Ctl& ctl, v1::Stats* stats) {
  return Ask(ctl, [&](grpc::ClientContext* context) {
    return ctl.stub->GetStats(context, v1::GetStatsRequest(), stats);
  });
}

// When it cannot be told (every worker is busy), the one row says why.
v1::ToolchainList GetToolchains(const Ctl& ctl) {
  v1::ToolchainList list;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  const grpc::Status status =
      ctl.stub->ListToolchains(&context, v1::ListToolchainsRequest(), &list);
  if (!status.ok()) {
    v1::ToolchainState* state = list.add_toolchains();
    state->set_name("compilers");
    state->set_problem(status.error_message());
  }
  return list;
}

std::string Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * part / whole);
}

int Status(const Ctl& ctl) {
  v1::Stats s;
  if (const int code = GetStats(ctl, &s); code != kExitOk) return code;
  if (ctl.json) return PrintJson(s), kExitOk;
  Table table({"tensord " + s.version(), "running"});
  table.Add({"pid", absl::StrCat(s.pid())});
  table.Add({"up", HumanAge(static_cast<int64_t>(s.uptime_seconds()))});
  table.Add({"address", ctl.address});
  table.Add({"memory", HumanBytes(s.resident_bytes())});
  table.Add({"workers", fmt::format("{} running", s.workers())});
  table.Add({"in flight", absl::StrCat(s.in_flight())});
  table.Add({"store", s.store()});
  table.Add(
      {"stored",
       fmt::format("{} programs, {} of {}", s.programs_stored(), HumanBytes(s.bytes_stored()),
                   s.store_limit_bytes() == 0 ? "no limit" : HumanBytes(s.store_limit_bytes()))});
  if (!s.store_problem().empty()) {
    table.Add({"WARNING", "the configured store is not in use: " + s.store_problem()});
  }
  const v1::ToolchainList toolchains = GetToolchains(ctl);
  for (const v1::ToolchainState& toolchain : toolchains.toolchains()) {
    table.Add({toolchain.name(),
               toolchain.found().empty() ? "not usable: " + toolchain.problem() : toolchain.found()});
  }
  Print(table.ToString());
  return kExitOk;
}

int Stats(const Ctl& ctl) {
  v1::Stats s;
  if (const int code = GetStats(ctl, &s); code != kExitOk) return code;
  if (ctl.json) return PrintJson(s), kExitOk;
  Table counts({"requests", ">count", ">share"});
  counts.Add({"all", absl::StrCat(s.requests()), ""});
  const std::pair<const char*, uint64_t> kinds[] = {
      {"found", s.hits()},    {"compiled", s.compiled()}, {"joined", s.joined()},
      {"failed", s.failed()}, {"rejected", s.rejected()},
  };
  for (const auto& [name, count] : kinds) {
    counts.Add({name, absl::StrCat(count), Ratio(count, s.requests())});
  }
  Table rest({"", ""});
  const uint64_t kernels = s.kernels_compiled() + s.kernels_reused();
  rest.Add(
      {"mean look-up", s.hits() == 0 ? "-" : HumanNanoseconds(s.lookup_nanoseconds() / s.hits())});
  rest.Add({"kernels made", absl::StrCat(s.kernels_compiled())});
  rest.Add({"kernels reused",
            fmt::format("{} ({})", s.kernels_reused(), Ratio(s.kernels_reused(), kernels))});
  rest.Add({"kernels failed", absl::StrCat(s.kernels_failed())});
  rest.Add({"worker CPU", HumanNanoseconds(s.worker_cpu_nanoseconds())});
  rest.Add({"worker restarts", absl::StrCat(s.worker_restarts())});
  rest.Add({"damaged files", absl::StrCat(s.blobs_corrupt())});
  rest.Add({"evicted", absl::StrCat(s.programs_evicted())});
  Table stages({"stage", ">total", ">per compile"});
  for (const v1::StageTime& stage : s.stages()) {
    stages.Add({stage.stage(), HumanNanoseconds(stage.nanoseconds()),
                HumanNanoseconds(stage.nanoseconds() / std::max<uint64_t>(1, s.compiled()))});
  }
  Print(counts.ToString() + rest.ToString() + "\n" + stages.ToString());
  return kExitOk;
}

int List(const Ctl& ctl, uint32_t limit) {
  v1::ListProgramsRequest request;
  request.set_limit(limit);
  v1::ListProgramsReply reply;
  const int code = Ask(ctl, [&](grpc::ClientContext* context) {
    return ctl.stub->ListPrograms(context, request, &reply);
  });
  if (code != kExitOk) return code;
  if (ctl.json) return PrintJson(reply), kExitOk;
  const int64_t now = time(nullptr);
  Table table({"KEY", "LABEL", "TARGET", ">NODES", ">KERNELS", ">EXTERNS", ">SIZE", ">HITS",
               ">COMPILE", ">USED"});
  for (const v1::ProgramSummary& p : reply.programs()) {
    table.Add({ToHex(p.key()).substr(0, 12), p.label(), p.target(), absl::StrCat(p.nodes()),
               absl::StrCat(p.kernels()), absl::StrCat(p.externs()), HumanBytes(p.bytes()),
               absl::StrCat(p.hits()), HumanNanoseconds(p.compile_nanoseconds()),
               HumanAge(now - p.used_unix())});
  }
  Print(table.ToString());
  return kExitOk;
}

int GetProgram(const Ctl& ctl, const std::string& hex, bool with_sources,
               v1::ProgramDetail* detail) {
  // An odd number of digits: the last half byte cannot be asked for.
  v1::GetProgramRequest request;
  request.set_key_prefix(FromHex(hex.substr(0, hex.size() / 2 * 2)));
  request.set_with_sources(with_sources);
  if (request.key_prefix().size() < 4) {
    std::fprintf(stderr, "tensorctl: '%s' is not a key: at least 8 hex digits are needed\n",
                 hex.c_str());
    return kExitUsage;
  }
  return Ask(ctl, [&](grpc::ClientContext* context) {
    return ctl.stub->GetProgram(context, request, detail);
  });
}

std::string Describe(const v1::Step& step) {
  if (step.has_launch()) {
    return fmt::format("launch {} ({})", step.launch().function(), step.launch().description());
  }
  if (step.has_call()) {
    return fmt::format("call   {}{}{}", step.call().op(), step.call().overload().empty() ? "" : ".",
                       step.call().overload());
  }
  if (step.has_zero_fill()) return "zero   a part of the workspace";
  return fmt::format("free   buffer {}", step.free());
}

// Of a CUDA kernel: "  [32 registers, 4.0 KiB shared]".
std::string Resources(const v1::Module& module) {
  if (module.registers() == 0) return "";
  std::string text = fmt::format("  [{} registers", module.registers());
  if (module.shared_bytes() > 0) text += fmt::format(", {} shared", HumanBytes(module.shared_bytes()));
  if (module.spill_bytes() > 0) text += fmt::format(", {} spilled", HumanBytes(module.spill_bytes()));
  return text + "]";
}

int Show(const Ctl& ctl, const std::string& key) {
  v1::ProgramDetail detail;
  if (const int code = GetProgram(ctl, key, false, &detail); code != kExitOk) return code;
  if (ctl.json) return PrintJson(detail), kExitOk;
  const v1::ProgramSummary& s = detail.summary();
  const v1::Artifact& a = detail.artifact();
  Table head({"program", ToHex(s.key())});
  head.Add({"label", s.label()});
  head.Add({"target", s.target()});
  head.Add({"captured", fmt::format("{} operators", s.nodes())});
  head.Add({"plan", fmt::format("{} kernels, {} library calls, {} inputs, {} outputs, {} buffers",
                                s.kernels(), s.externs(), a.inputs_size(), a.outputs_size(),
                                a.buffers_size())});
  head.Add({"size", HumanBytes(s.bytes())});
  head.Add({"used", fmt::format("{} times", s.hits())});
  head.Add({"compile", HumanNanoseconds(s.compile_nanoseconds())});
  Print(head.ToString());
  Print("\nsteps\n");
  for (int i = 0; i < a.steps_size(); ++i) {
    Print(fmt::format("  {:>3}  {}\n", i, Describe(a.steps(i))));
  }
  Print("\nkernels\n");
  for (int i = 0; i < detail.sources_size(); ++i) {
    const v1::KernelSource& k = detail.sources(i);
    Print(fmt::format("  {:>3}  {}  {}{}\n", i, k.function(), k.description(),
                      i < a.modules_size() ? Resources(a.modules(i)) : ""));
  }
  Print("\ncompile time\n");
  for (const v1::StageTime& stage : detail.stages()) {
    Print(fmt::format("  {:<16} {}\n", stage.stage(), HumanNanoseconds(stage.nanoseconds())));
  }
  if (detail.fusion_notes_size() > 0) Print("\nfusion\n");
  for (const std::string& note : detail.fusion_notes()) Print("  " + note + "\n");
  return kExitOk;
}

int Kernel(const Ctl& ctl, const std::string& key, int number) {
  v1::ProgramDetail detail;
  if (const int code = GetProgram(ctl, key, true, &detail); code != kExitOk) return code;
  if (number < 0 || number >= detail.sources_size()) {
    std::fprintf(stderr, "tensorctl: the program has %d kernels, numbered from 0\n",
                 detail.sources_size());
    return kExitError;
  }
  const v1::KernelSource& kernel = detail.sources(number);
  if (ctl.json) return PrintJson(kernel), kExitOk;
  Print(fmt::format("// {}: {}\n{}\n", kernel.function(), kernel.description(), kernel.source()));
  return kExitOk;
}

// `count` 0: until Ctrl-C.
int Top(const Ctl& ctl, int count) {
  v1::Stats before;
  if (const int code = GetStats(ctl, &before); code != kExitOk) return code;
  const bool live = isatty(STDOUT_FILENO) && !ctl.json;
  for (int i = 0; count == 0 || i < count; ++i) {
    sleep(1);
    v1::Stats s;
    if (const int code = GetStats(ctl, &s); code != kExitOk) return code;
    if (ctl.json) {
      PrintJson(s);
      std::fflush(stdout);
      before = s;
      continue;
    }
    const auto busy =
        static_cast<double>(s.worker_cpu_nanoseconds() - before.worker_cpu_nanoseconds());
    const uint64_t hits = s.hits() - before.hits();
    Table table({"", ">last second", ">total"});
    const auto line = [&](const char* name, uint64_t now, uint64_t then) {
      table.Add({name, absl::StrCat(now - then), absl::StrCat(now)});
    };
    line("requests", s.requests(), before.requests());
    line("found", s.hits(), before.hits());
    line("compiled", s.compiled(), before.compiled());
    line("joined", s.joined(), before.joined());
    line("failed", s.failed(), before.failed());
    line("kernels made", s.kernels_compiled(), before.kernels_compiled());
    line("kernels reused", s.kernels_reused(), before.kernels_reused());
    if (live) Print("\033[H\033[2J");
    Print(fmt::format(
        "tensord {} pid {}  up {}  memory {}  store {} in {} programs\n"
        "in flight {}  workers {}  worker CPU {:.0f} %  look-up {}\n\n{}",
        s.version(), s.pid(), HumanAge(static_cast<int64_t>(s.uptime_seconds())),
        HumanBytes(s.resident_bytes()), HumanBytes(s.bytes_stored()), s.programs_stored(),
        s.in_flight(), s.workers(), busy / 1e7,
        hits == 0 ? "-"
                  : HumanNanoseconds((s.lookup_nanoseconds() - before.lookup_nanoseconds()) / hits),
        table.ToString()));
    std::fflush(stdout);
    before = s;
  }
  return kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App app("Asks a running tensord.\nExit codes: 0 ok, 1 error, 2 usage, 3 no daemon answers.",
               "tensorctl");
  Ctl ctl;
  ctl.address = DefaultAddress();
  app.set_version_flag("--version", Version());
  app.add_option("--address", ctl.address, "the daemon's socket")->envname("TENSORD_ADDRESS");
  app.add_flag("--json", ctl.json, "for programs");
  app.fallthrough();
  app.require_subcommand(1);

  std::function<int()> command;
  app.add_subcommand("status", "is it up, where is its store")->callback([&] {
    command = [&] { return Status(ctl); };
  });
  app.add_subcommand("stats", "counters and compile time by stage")->callback([&] {
    command = [&] { return Stats(ctl); };
  });
  uint32_t limit = 0;
  CLI::App* list = app.add_subcommand("ls", "stored programs, last used first");
  list->add_option("--limit,-n", limit, "at most so many");
  list->callback([&] { command = [&] { return List(ctl, limit); }; });
  std::string key;
  CLI::App* show = app.add_subcommand("show", "one program: plan, kernels, fusion notes");
  show->add_option("KEY", key, "the key's first 8 or more hex digits")->required();
  show->callback([&] { command = [&] { return Show(ctl, key); }; });
  int number = 0;
  CLI::App* kernel = app.add_subcommand("kernel", "the source of one kernel");
  kernel->add_option("KEY", key, "the program's key")->required();
  kernel->add_option("N", number, "the kernel's number, as `show` gives it")->required();
  kernel->callback([&] { command = [&] { return Kernel(ctl, key, number); }; });
  int count = 0;
  CLI::App* top = app.add_subcommand("top", "live view, once a second until Ctrl-C");
  top->add_option("--count", count, "end after so many seconds");
  top->callback([&] { command = [&] { return Top(ctl, count); }; });
  CompileCommand compile;
  CLI::App* compiles = app.add_subcommand("compile", "what each pass makes of a graph; no daemon");
  compiles->add_option("GRAPH", compile.file, "a job of <store>/repros/, or a graph")->required();
  compiles->add_option("--dump-after", compile.dump_after, "of this pass, instead of all");
  compiles->add_option("--target", compile.target, "scalar, avx2, avx512 or sm_NN");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (compiles->parsed()) return Compile(compile);
  const auto path = SocketPath(ctl.address);
  if (!path.ok()) {
    std::fprintf(stderr, "tensorctl: %s\n", std::string(path.status().message()).c_str());
    return kExitUsage;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  ctl.stub = v1::Compiler::NewStub(
      grpc::CreateCustomChannel("unix:" + *path, grpc::InsecureChannelCredentials(), arguments));
  return command();
}

}  // namespace
}  // namespace tensord::server

int main(int argc, char** argv) { return tensord::server::Main(argc, argv); }
