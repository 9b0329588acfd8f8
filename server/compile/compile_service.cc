// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_service.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <google/protobuf/arena.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/version.h"
#include "server/compile/compile_call.h"
#include "server/compile/request_bytes.h"
#include "server/fleet/programs.h"
#include "server/pool/stopping.h"
#include "server/program/keys.h"
#include "server/statistics/metrics.h"
#include "server/traces/span_log.h"

namespace tensord::server {
namespace {

constexpr size_t kMostMisses = 1024;
constexpr size_t kMaxConstantBytes = 64 << 10;

// Threads beside those of flights: for questions to workers, which no flight should wait behind.
constexpr int kQuestionThreads = 2;

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

}  // namespace

CompileService::CompileService(ServiceOptions options, std::unique_ptr<store::Store> store,
                               std::string store_problem, fleet::Fleet* fleet)
    : options_(std::move(options)),
      store_problem_(std::move(store_problem)),
      metrics_(std::make_unique<Metrics>()),
      store_(std::move(store)),
      fleet_(fleet),
      jobs_(store_.get(), fleet_),
      pool_(options_.pool, metrics_.get()),
      facts_(options_.pool.command.path, options_.cxx, options_.jit_settings, &pool_, store_.get()),
      misses_(kMostMisses),
      flow_(&pool_, store_.get(), fleet_, metrics_.get(), &board_, options_.units_per_job),
      memory_(options_.request_memory),
      flights_(std::max(1, options_.pool.workers), options_.max_waiting),
      executor_(std::max(1, options_.pool.workers) + kQuestionThreads),
      late_([this] { RefuseLate(); }) {}

CompileService::~CompileService() {
  if (fleet_ != nullptr) fleet_->Stop();
  flights_.Stop();
  late_.join();
}

void CompileService::Compile(std::string request, RequestMemory::Share share,
                             v1::CompileReply* reply, Done done, uint64_t came) {
  auto call = std::make_shared<Call>();
  if (came != 0) {
    call->marks.push_back({"receive", came, call->came});
    call->came = came;
  }
  call->task.input.job = std::move(request);
  call->task.share = std::move(share);
  call->reply = reply;
  call->done = std::move(done);
  call->id = next_id_++;
  ++metrics_->requests;
  reply->set_request_id(call->id);
  if (call->task.input.job.size() <= RequestMemory::kSmall) return Begin(call);
  // Others' look-ups do not wait until it is parsed.
  Wait(call);
  executor_.Run([this, call] { Begin(call); });
}

void CompileService::Begin(const CallPtr& call) {
  if (const absl::Status status = Read(call, nullptr); !status.ok()) return Finish(call, status);
  if (!call->key.empty()) return Start(call);
  // The first request for a target asks a worker, which takes too long for an RPC thread.
  Wait(call);
  if (KeepWhileStopping(call)) return;
  if (++asking_ > options_.max_waiting) {
    --asking_;
    return Refuse(call);
  }
  executor_.Run([this, call, asked = MonotonicNanoseconds()] {
    const auto toolchain = facts_.GetToolchain(call->task.input.target);
    --asking_;
    call->Mark("toolchain", asked);
    absl::Status status = toolchain.status();
    if (status.ok()) status = Read(call, &*toolchain);
    if (!status.ok()) return Finish(call, status);
    Start(call);
  });
}

// Fills in what the bytes of the request say, and its key once the toolchain is known. A parsed
// request takes ten times its bytes, so it is gone after this, and of large ones there is one at a
// time.
absl::Status CompileService::Read(const CallPtr& call, const WorkerFacts::Toolchain* toolchain) {
  FlowInput& input = call->task.input;
  uint64_t begun = MonotonicNanoseconds();
  const bool large = input.job.size() > RequestMemory::kSmall;
  {
    absl::MutexLockMaybe lock(large ? &large_ : nullptr);
    google::protobuf::Arena arena;
    auto& request = *google::protobuf::Arena::CreateMessage<v1::CompileRequest>(&arena);
    if (!request.ParseFromString(input.job)) {
      return absl::InvalidArgumentError("the request is not a CompileRequest");
    }
    if (toolchain == nullptr) {
      call->caller = request.caller();
      call->label = request.label();
      call->nodes = request.graph().nodes_size();
      input.target = request.target();
      TENSORD_RETURN_IF_ERROR(CheckRequest(request));
      TENSORD_RETURN_IF_ERROR(MakeJob(&input.job));
    }
    begun = call->Mark("parse", begun);
    const auto known =
        toolchain != nullptr ? std::optional(*toolchain) : facts_.CachedToolchain(input.target);
    if (known.has_value()) {
      call->key = MakeProgramKey(request.graph(), request.target(), request.options(), known->id,
                                 known->compiler_build)
                      .Digest();
      input.toolchain = known->id;
      input.compiler_build = known->compiler_build;
      call->Mark("key", begun);
    }
  }
  if (large) malloc_trim(0);
  return absl::OkStatus();
}

void CompileService::Start(const CallPtr& call) {
  if (TryStored(call, metrics_->hits_store)) return;
  if (const auto failure = failures_.Find(call->key)) return Finish(call, *failure);
  if (fleet_ == nullptr) return StartFlight(call);
  Wait(call);
  call->joined = MonotonicNanoseconds();  // before others see it
  if (flights_.JoinOther(call->key, call->Queue(), call)) {
    call->task = Task();
    return;
  }
  // Before it queues: what another host has made takes no worker's turn.
  const absl::Time asked = SteadyNow();
  const uint64_t begun = MonotonicNanoseconds();
  fleet::Fleet::Query query = fleet::ProgramQuery(store_.get(), call->key);
  query.around = board_.steps().OnDisk(call->key);
  fleet_->Find(std::move(query), [this, call, asked, begun](absl::Status found) {
    call->Mark("look-up in the fleet", begun, found.ok() ? "found" : "not found");
    if (found.ok() && TryStored(call, metrics_->hits_fleet)) return;
    // A tier that answers is asked for the kernels too, in what is left of the time for a miss.
    if (absl::IsNotFound(found)) {
      call->task.input.fleet_time =
          std::max(absl::ZeroDuration(), fleet_->options().answer - (SteadyNow() - asked));
    }
    StartFlight(call);
  });
}

void CompileService::StartFlight(const CallPtr& call) {
  Task task = std::move(call->task);
  task.input.label = call->label;
  task.input.nodes = call->nodes;
  task.caller = call->caller;
  task.input.cost = CostOf(call->nodes, task.input.job.size());
  task.input.program_key = call->key;
  const Cost cost = task.input.cost;
  // Who waits for another's flight needs no room, and gives back what its request took.
  Wait(call);
  call->joined = MonotonicNanoseconds();
  if (flights_.JoinOther(call->key, call->Queue(), call)) return;
  if (KeepWhileStopping(call)) return;
  const auto displaced = flights_.JoinOrAdd(call->key, call->Queue(), cost, std::move(task), call);
  if (!displaced) return Refuse(call);
  for (const CallPtr& other : *displaced) Refuse(other);
  RunFlights();
}

void CompileService::RunFlights() {
  while (auto turn = flights_.Next()) {
    executor_.Run([this, turn = std::make_shared<Flights::Turn>(*std::move(turn))] {
      Fly(std::move(*turn));
      RunFlights();
    });
  }
}

void CompileService::RefuseLate() {
  while (true) {
    const std::vector<CallPtr> late = flights_.AwaitLate(options_.queue_limit);
    if (late.empty()) return;
    for (const CallPtr& call : late) {
      ++metrics_->waited_too_long;
      GiveUpLease(call);
      call->Mark("queue", call->joined);
      Finish(call, absl::ResourceExhaustedError(absl::StrCat(
                       "waited ", absl::FormatDuration(options_.queue_limit),
                       " for a worker, which is as long as a request may (queue_seconds)")));
    }
  }
}

void CompileService::Wait(const CallPtr& call) {
  if (!call->waiting) ++metrics_->in_flight;
  call->waiting = true;
  if (!call->key.empty()) {
    board_.Join(call->key, call->id, call->caller, call->label, call->nodes);
  }
}

// False: the daemon is not stopping.
bool CompileService::KeepWhileStopping(const CallPtr& call) {
  if (!draining_) return false;
  GiveUpLease(call);
  {
    absl::MutexLock lock(&kept_mutex_);
    if (!aborted_) {
      kept_.push_back(call);
      return true;
    }
  }
  Finish(call, Stopping());
  return true;
}

uint64_t CompileService::Kept() const {
  absl::MutexLock lock(&kept_mutex_);
  return kept_.size();
}

void CompileService::Refuse(const CallPtr& call) {
  ++metrics_->rejected;
  GiveUpLease(call);
  Finish(call, absl::ResourceExhaustedError(
                   absl::StrCat(options_.max_waiting, " requests wait already; try again later")));
}

void CompileService::GiveUpLease(const CallPtr& call) {
  if (fleet_ != nullptr && !call->key.empty()) fleet_->GiveUp(fleet::ProgramName(call->key));
}

bool CompileService::TryStored(const CallPtr& call, std::atomic<uint64_t>& hits) {
  const uint64_t begun = MonotonicNanoseconds();
  const auto stored = [&] {
    const auto step = board_.steps().Begin(ProcessOf(call->caller), absl::ZeroDuration());
    return store_->Lookup(call->key);
  }();
  const bool found =
      stored.ok() && call->reply->mutable_artifact()->ParseFromString((*stored)->payload);
  call->Mark("look-up in the store", begun, found ? "found" : "not found");
  if (!found) {
    call->reply->clear_artifact();
    return false;
  }
  call->reply->set_outcome(v1::CompileReply::HIT);
  ++hits;
  metrics_->lookup_nanoseconds += NanosecondsSince(call->start);
  metrics_->saved_nanoseconds += store::CompileNanosecondsOf((*stored)->facts);
  Finish(call, absl::OkStatus());
  return true;
}

void CompileService::Fly(Flights::Turn turn) {
  absl::StatusOr<FlowOutput> output = Stopping();
  bool stored = false;
  const char* miss = nullptr;
  const uint64_t up = MonotonicNanoseconds();
  SpanLog spans("compile " + ToHex(turn.key).substr(0, kShownDigits), up);
  if (!aborted_) {
    // Another flight may have landed between this request's look-up and its joining.
    FlowOutput found;
    const auto record = [&] {
      const auto step = board_.steps().Begin(turn.key, kUsualDiskStep);
      return LookupPatiently(*store_, turn.key);
    }();
    if (record.ok() && found.artifact.ParseFromString((*record)->payload)) {
      stored = true;
      output = std::move(found);
    } else {
      turn.task.input.spans = &spans;
      const auto noted = NoteMiss(turn);
      miss = noted.value_or(nullptr);
      output = noted.ok() ? flow_.Run(turn.task.input) : noted.status();
    }
  }
  turn.task = Task();
  if (output.ok() && !stored) {
    google::protobuf::RepeatedPtrField<v1::StageTime> stages(output->stages.begin(),
                                                             output->stages.end());
    metrics_->AddStages(stages);
  }
  if (!output.ok()) failures_.Add(turn.key, output.status());
  if (fleet_ != nullptr) {
    if (output.ok() && !stored) {
      fleet::PutProgram(*fleet_, store_.get(), turn.key, output->kernels_made);
    } else {
      fleet_->GiveUp(fleet::ProgramName(turn.key));
    }
  }

  const auto compile = stored ? nullptr : std::make_shared<const CompileSpans>(spans.TakeSpans());
  const uint64_t landed = MonotonicNanoseconds();
  bool leader = true;
  for (const CallPtr& waiter : flights_.Finish(turn.key)) {
    if (output.ok()) {
      v1::CompileReply& reply = *waiter->reply;
      *reply.mutable_artifact() = output->artifact;
      reply.set_outcome(stored   ? v1::CompileReply::HIT
                        : leader ? v1::CompileReply::COMPILED
                                 : v1::CompileReply::JOINED);
      ++(stored ? metrics_->hits_store : leader ? metrics_->compiled : metrics_->joined);
      if (!stored) {
        for (const v1::StageTime& stage : output->stages) *reply.add_stages() = stage;
      }
      if (leader) reply.set_kernels_compiled(static_cast<uint32_t>(output->kernels_made.size()));
      for (const std::string& log : output->kernel_failures) reply.add_kernel_failures(log);
    }
    leader = false;
    if (waiter->joined < landed) {
      const uint64_t boarded = std::max(up, waiter->joined);
      waiter->marks.push_back({"queue", waiter->joined, boarded});
      waiter->marks.push_back({"flight", boarded, landed});
    }
    waiter->compile = compile;
    waiter->miss = miss;
    Finish(waiter, output.status());
  }
  // A compile's large, short-lived messages would otherwise stay with the allocator.
  malloc_trim(0);
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
    reply->set_has_compile_large(true);
    reply->set_frame_format(kFrameFormat);
    reply->set_takes_spans(true);
    reply->set_takes_profiles(true);
    reply->set_tells_silence(true);
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

void CompileService::PrepareGreeting() {
  executor_.Run([this] { facts_.GetOperators().IgnoreError(); });
}

void CompileService::ListToolchains(v1::ToolchainList* reply, Done done) {
  executor_.Run([this, reply, done = std::move(done)] {
    auto list = facts_.GetToolchainList();
    if (list.ok()) *reply = *std::move(list);
    done(list.status());
  });
}

void CompileService::Abort() {
  Drain();
  std::vector<CallPtr> kept;
  {
    absl::MutexLock lock(&kept_mutex_);
    aborted_ = true;
    kept.swap(kept_);
  }
  memory_.Stop();
  pool_.Stop();
  if (fleet_ != nullptr) fleet_->Stop();
  for (const CallPtr& call : kept) Finish(call, Stopping());
}

}  // namespace tensord::server
