// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_service.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>

#include "base/sha256.h"
#include "base/version.h"
#include "server/compile/clock.h"
#include "server/compile/keys.h"

namespace tensord::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxConstantBytes = 64 << 10;

// What the daemon can say by itself; the compiler, in a worker, verifies the rest.
absl::Status CheckRequest(const v1::CompileRequest& request) {
  if (request.target().kind_case() == v1::Target::KIND_NOT_SET) {
    return absl::InvalidArgumentError("the request names no target");
  }
  for (const v1::Constant& constant : request.graph().constants()) {
    if (constant.data().size() > kMaxConstantBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("constant '", constant.name(), "' has ", constant.data().size(),
                       " bytes; at most 64 KiB may be part of a graph: pass it as an input"));
    }
  }
  return absl::OkStatus();
}

const char* NameOf(v1::CompileReply::Outcome outcome) {
  switch (outcome) {
    case v1::CompileReply::HIT:
      return "hit";
    case v1::CompileReply::JOINED:
      return "joined";
    case v1::CompileReply::COMPILED:
      return "compiled";
    default:
      return "failed";
  }
}

// Text from outside, safe between the quotes of one log line.
std::string Quoted(const std::string& text) {
  constexpr size_t kLongest = 1000;
  return absl::Utf8SafeCEscape(text.substr(0, kLongest));
}

uint32_t CountLaunches(const v1::Artifact& artifact) {
  uint32_t launches = 0;
  for (const v1::Step& step : artifact.steps()) launches += step.has_launch();
  return launches;
}

// What the machine cannot read now (no descriptors, no memory) it may a moment later; a look-up is
// cheaper than a compile. Sleeps up to 0.3 s.
absl::StatusOr<std::shared_ptr<const store::Record>> LookupPatiently(store::Store& store,
                                                                     const std::string& key) {
  auto record = store.Lookup(key);
  for (const int64_t milliseconds : {20, 80, 200}) {
    if (!absl::IsUnavailable(record.status())) break;
    absl::SleepFor(absl::Milliseconds(milliseconds));
    record = store.Lookup(key);
  }
  return record;
}

void FillSummary(const store::ProgramRow& row, v1::ProgramSummary* summary) {
  summary->set_key(row.key);
  summary->set_label(row.facts.label);
  summary->set_target(row.facts.target);
  summary->set_nodes(row.facts.nodes);
  summary->set_kernels(row.facts.kernels);
  summary->set_externs(row.facts.externs);
  summary->set_bytes(row.bytes);
  summary->set_hits(row.hits);
  summary->set_created_unix(row.created_ms / 1000);
  summary->set_used_unix(row.used_ms / 1000);
  summary->set_compile_nanoseconds(row.facts.compile_nanoseconds);
}

}  // namespace

// One request on its way.
struct CompileService::Call {
  const v1::CompileRequest* request;
  v1::CompileReply* reply;
  Done done;
  uint64_t id;
  Clock::time_point start = Clock::now();
  std::string key;
  std::string toolchain;
  bool admitted = false;
};

CompileService::CompileService(ServiceOptions options, std::unique_ptr<store::Store> store,
                               std::string store_problem)
    : options_(std::move(options)),
      store_problem_(std::move(store_problem)),
      store_(std::move(store)),
      pool_(options_.pool, &metrics_),
      facts_(options_.pool.command.path, options_.cxx, options_.jit_settings, &pool_, store_.get()),
      flow_(&pool_, store_.get(), &metrics_, options_.units_per_job),
      executor_(std::max(2, options_.pool.workers)) {}

CompileService::~CompileService() = default;

void CompileService::Compile(const v1::CompileRequest* request, v1::CompileReply* reply,
                             Done done) {
  auto call = std::make_shared<Call>();
  call->request = request;
  call->reply = reply;
  call->done = std::move(done);
  call->id = next_id_++;
  ++metrics_.requests;
  reply->set_request_id(call->id);
  if (const absl::Status status = CheckRequest(*request); !status.ok()) return Finish(call, status);
  if (const auto toolchain = facts_.CachedToolchain(request->target())) {
    return Start(call, *toolchain, /*may_block=*/false);
  }
  // The first request for a target asks a worker, which takes too long for an RPC thread.
  if (!Admit(call)) return;
  executor_.Run([this, call] {
    const auto toolchain = facts_.GetToolchain(call->request->target());
    if (!toolchain.ok()) return Finish(call, toolchain.status());
    Start(call, *toolchain, /*may_block=*/true);
  });
}

bool CompileService::Admit(const CallPtr& call) {
  if (call->admitted) return true;
  absl::Status refused;
  if (++metrics_.in_flight > options_.max_waiting) {
    ++metrics_.rejected;
    refused = absl::ResourceExhaustedError(
        absl::StrCat(options_.max_waiting, " requests wait already; try again later"));
  } else if (draining_) {
    refused = absl::UnavailableError("the daemon is stopping");
  }
  if (refused.ok()) {
    call->admitted = true;
    return true;
  }
  --metrics_.in_flight;
  Finish(call, refused);
  return false;
}

void CompileService::Start(const CallPtr& call, const WorkerFacts::Toolchain& toolchain,
                           bool may_block) {
  const v1::CompileRequest& request = *call->request;
  call->key = MakeProgramKey(request.graph(), request.target(), request.options(), toolchain.id,
                             toolchain.compiler_build)
                  .Digest();
  call->toolchain = toolchain.id;
  if (TryStored(call)) return;
  if (const auto failure = failures_.Find(call->key)) return Finish(call, *failure);
  // Who waits for a flight costs nothing, and is not counted among those who wait.
  if (flights_.JoinOther(call->key, call)) return;
  if (!Admit(call)) return;
  if (!flights_.Join(call->key, call)) return;
  if (may_block) return Fly(call);
  executor_.Run([this, call] { Fly(call); });
}

bool CompileService::TryStored(const CallPtr& call) {
  const auto stored = store_->Lookup(call->key);
  if (!stored.ok()) return false;
  if (!call->reply->mutable_artifact()->ParseFromString((*stored)->payload)) {
    call->reply->clear_artifact();
    return false;
  }
  call->reply->set_outcome(v1::CompileReply::HIT);
  ++metrics_.hits;
  metrics_.lookup_nanoseconds += NanosecondsSince(call->start);
  Finish(call, absl::OkStatus());
  return true;
}

void CompileService::Fly(const CallPtr& call) {
  absl::StatusOr<FlowOutput> output = absl::UnavailableError("the daemon is stopping");
  bool stored = false;
  if (!aborted_) {
    // Another flight may have landed between this request's look-up and its joining.
    FlowOutput found;
    if (const auto record = LookupPatiently(*store_, call->key);
        record.ok() && found.artifact.ParseFromString((*record)->payload)) {
      stored = true;
      output = std::move(found);
    } else {
      output = flow_.Run({call->request, call->key, call->toolchain});
    }
  }
  if (output.ok() && !stored) {
    google::protobuf::RepeatedPtrField<v1::StageTime> stages(output->stages.begin(),
                                                             output->stages.end());
    metrics_.AddStages(stages);
  }
  if (!output.ok()) failures_.Add(call->key, output.status());

  for (const CallPtr& waiter : flights_.Finish(call->key)) {
    if (output.ok()) {
      v1::CompileReply& reply = *waiter->reply;
      *reply.mutable_artifact() = output->artifact;
      const bool leader = waiter == call;
      reply.set_outcome(stored   ? v1::CompileReply::HIT
                        : leader ? v1::CompileReply::COMPILED
                                 : v1::CompileReply::JOINED);
      ++(stored ? metrics_.hits : leader ? metrics_.compiled : metrics_.joined);
      if (!stored) {
        for (const v1::StageTime& stage : output->stages) *reply.add_stages() = stage;
      }
      if (leader) reply.set_kernels_compiled(output->kernels_compiled);
      for (const std::string& log : output->kernel_failures) reply.add_kernel_failures(log);
    }
    Finish(waiter, output.status());
  }
  // A compile's large, short-lived messages would otherwise stay with the allocator.
  malloc_trim(0);
}

void CompileService::Finish(const CallPtr& call, const absl::Status& status) {
  if (call->admitted) --metrics_.in_flight;
  if (status.ok()) {
    call->reply->set_program_key(call->key);
    call->reply->set_blob_folder(store_->blob_folder());
    call->reply->set_kernels(CountLaunches(call->reply->artifact()));
  } else {
    ++metrics_.failed;
  }
  const auto level = !status.ok()                                      ? spdlog::level::warn
                     : call->reply->outcome() == v1::CompileReply::HIT ? spdlog::level::debug
                                                                       : spdlog::level::info;
  if (spdlog::should_log(level)) {
    const v1::Caller& caller = call->request->caller();
    spdlog::log(level,
                "event=compile request={} outcome={} key={} label=\"{}\" nodes={} kernels={} "
                "made={} ms={:.2f} caller={} job=\"{}\" rank={}{}",
                call->id, NameOf(call->reply->outcome()), ToHex(call->key).substr(0, 12),
                Quoted(call->request->label()), call->request->graph().nodes_size(),
                call->reply->kernels(), call->reply->kernels_compiled(),
                static_cast<double>(NanosecondsSince(call->start)) / 1e6, caller.pid(),
                Quoted(caller.job()), caller.rank(),
                status.ok() ? "" : absl::StrCat(" error=\"", Quoted(status.ToString()), "\""));
  }
  // The request and the reply may be gone as soon as this returns.
  call->done(status);
}

void CompileService::Hello(v1::HelloReply* reply, Done done) {
  const auto fill = [this, reply](const WorkerFacts::Operators& operators) {
    reply->set_daemon_version(Version());
    reply->set_protocol(kProtocolVersion);
    reply->set_operator_table(operators.table);
    for (const std::string& name : operators.names) reply->add_operators(name);
    reply->set_store(store_->root());
    reply->set_pid(static_cast<uint32_t>(getpid()));
    reply->set_answers_pings(true);
  };
  if (const auto cached = facts_.CachedOperators()) {
    fill(*cached);
    return done(absl::OkStatus());
  }
  executor_.Run([this, fill, done = std::move(done)] {
    const auto operators = facts_.GetOperators();
    if (operators.ok()) fill(*operators);
    done(operators.status());
  });
}

void CompileService::ListToolchains(v1::ToolchainList* reply, Done done) {
  executor_.Run([this, reply, done = std::move(done)] {
    auto list = facts_.GetToolchainList();
    if (list.ok()) *reply = *std::move(list);
    done(list.status());
  });
}

void CompileService::FillStats(v1::Stats* stats) {
  metrics_.Fill(stats);
  stats->set_workers(static_cast<uint64_t>(pool_.Running()));
  stats->set_blobs_corrupt(store_->counters().corrupt);
  stats->set_programs_evicted(store_->counters().evicted);
  stats->set_store(store_->root());
  std::string problem = store_problem_;
  if (const std::string full = store_->problem(); problem.empty() && !full.empty()) {
    problem = "what is compiled is kept in memory: " + full;
  }
  stats->set_store_problem(problem);
  stats->set_store_limit_bytes(store_->limit_bytes());
  if (const auto totals = store_->Count(); totals.ok()) {
    stats->set_programs_stored(totals->programs);
    stats->set_bytes_stored(totals->bytes);
  }
}

absl::Status CompileService::ListPrograms(uint32_t limit, v1::ListProgramsReply* reply) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<store::ProgramRow> rows, store_->List(limit));
  for (const store::ProgramRow& row : rows) FillSummary(row, reply->add_programs());
  return absl::OkStatus();
}

absl::Status CompileService::GetProgram(const v1::GetProgramRequest& request,
                                        v1::ProgramDetail* reply) {
  constexpr size_t kMinPrefix = 4;
  if (request.key_prefix().size() < kMinPrefix) {
    return absl::InvalidArgumentError("a key's prefix has at least 4 bytes (8 hex digits)");
  }
  TENSORD_ASSIGN_OR_RETURN(const store::ProgramRow row, store_->Find(request.key_prefix()));
  TENSORD_ASSIGN_OR_RETURN(const std::string detail, store_->Detail(row.key));
  TENSORD_ASSIGN_OR_RETURN(const auto manifest, store_->Peek(row.key));
  if (!reply->ParseFromString(detail) ||
      !reply->mutable_artifact()->ParseFromString(manifest->payload)) {
    return absl::DataLossError("the stored program cannot be read");
  }
  FillSummary(row, reply->mutable_summary());
  if (!request.with_sources()) return absl::OkStatus();
  for (v1::KernelSource& source : *reply->mutable_sources()) {
    source.set_source(store_->KernelSource(source.kernel_key()).value_or(""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CompileService::ReadBlob(const std::string& sha256) {
  if (sha256.size() != kSha256Bytes) {
    return absl::InvalidArgumentError("a digest has 32 bytes");
  }
  return store_->ReadBlob(sha256);
}

void CompileService::Abort() {
  draining_ = true;
  aborted_ = true;
  pool_.Stop();
}

}  // namespace tensord::server
