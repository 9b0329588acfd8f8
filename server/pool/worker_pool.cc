// SPDX-License-Identifier: Apache-2.0
#include "server/pool/worker_pool.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "server/pool/stopping.h"
#include "server/statistics/metrics.h"

namespace tensord::server {
namespace {

// What the reply says, who may no longer be a worker of ours: a code that there is, and some word.
// `own_limit`: it had no more memory because it may not have more.
absl::Status ErrorOf(const v1::WorkerReply& reply, bool own_limit) {
  if (reply.out_of_memory() && own_limit) return OverBudget(reply.message());
  constexpr int kLast = static_cast<int>(absl::StatusCode::kUnauthenticated);
  const bool is_code = reply.code() > 0 && reply.code() <= kLast;
  return absl::Status(
      is_code ? static_cast<absl::StatusCode>(reply.code()) : absl::StatusCode::kInternal,
      reply.message().empty() ? "the worker failed without a word" : reply.message());
}

}  // namespace

WorkerPool::WorkerPool(PoolOptions options, Metrics* metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      slots_(static_cast<size_t>(std::max(1, options_.workers))),
      keeper_([this] { Keep(); }) {}

WorkerPool::~WorkerPool() {
  Stop();
  keeper_.join();
}

void WorkerPool::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  for (Slot& slot : slots_) {
    if (slot.process != nullptr) slot.process->Kill();
  }
}

int WorkerPool::Free(Cost cost) const {
  absl::MutexLock lock(&mutex_);
  return FreeLocked(cost);
}

int WorkerPool::FreeLocked(Cost cost) const {
  int free = 0, expensive = 0;
  for (const Slot& slot : slots_) {
    const bool works = slot.state == State::kWanted || slot.state == State::kBusy;
    free += !works;
    expensive += works && slot.cost == Cost::kExpensive;
  }
  if (cost == Cost::kCheap) return free;
  return std::min(free, PlacesFor(cost, static_cast<int>(slots_.size())) - expensive);
}

int WorkerPool::Running() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(),
                                        [](const Slot& slot) { return slot.process != nullptr; }));
}

bool WorkerPool::IsTurnOf(const Waiting& waiting) const {
  if (stopping_) return true;
  if (FreeLocked(waiting.cost) <= 0) return false;
  // Those who asked before and may have a place, too.
  for (const Waiting& other : waiting_) {
    if (&other == &waiting) return true;
    if (FreeLocked(other.cost) > 0) return false;
  }
  return false;
}

absl::StatusOr<WorkerPool::Slot*> WorkerPool::Acquire(Cost cost) {
  absl::MutexLock lock(&mutex_);
  const auto self = waiting_.insert(waiting_.end(), Waiting{this, cost});
  const auto is_my_turn = [](Waiting* waiting) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return waiting->pool->IsTurnOf(*waiting);
  };
  mutex_.Await(absl::Condition(+is_my_turn, &*self));
  waiting_.erase(self);
  if (stopping_) return Stopping();
  // The one used last, so that the others grow old and are ended.
  Slot* slot = nullptr;
  for (Slot& candidate : slots_) {
    if (candidate.state != State::kIdle) continue;
    if (!candidate.process->Alive()) {
      ++metrics_->worker_restarts;
      candidate.process.reset();
      candidate.state = State::kEmpty;
    } else if (slot == nullptr || candidate.idle_since > slot->idle_since) {
      slot = &candidate;
    }
  }
  if (slot != nullptr) {
    slot->state = State::kBusy;
    slot->cost = cost;
    return slot;
  }
  slot = &*std::find_if(slots_.begin(), slots_.end(),
                        [](const Slot& empty) { return empty.state == State::kEmpty; });
  slot->state = State::kWanted;
  slot->cost = cost;
  slot->start_error = absl::OkStatus();
  mutex_.Await(
      absl::Condition(+[](Slot* wanted) { return wanted->state != State::kWanted; }, slot));
  if (slot->process != nullptr) return slot;  // the keeper has made it busy
  slot->state = State::kEmpty;
  return slot->start_error;
}

void WorkerPool::Release(Slot* slot) {
  const bool healthy = slot->process->healthy();
  const bool is_kept = healthy && slot->process->IsSlim();
  std::unique_ptr<WorkerProcess> dead;  // reaped after the lock
  absl::MutexLock lock(&mutex_);
  if (is_kept && !stopping_) {
    slot->state = State::kIdle;
    slot->idle_since = absl::Now();
    return;
  }
  if (!healthy && !stopping_) ++metrics_->worker_restarts;
  dead = std::move(slot->process);
  slot->state = State::kEmpty;
}

absl::StatusOr<v1::WorkerReply> WorkerPool::Call(const v1::WorkerRequest& request) {
  absl::Duration budget = options_.job_limit;
  return Call(request, Cost::kCheap, budget);
}

absl::StatusOr<v1::WorkerReply> WorkerPool::Call(const v1::WorkerRequest& request, Cost cost,
                                                 absl::Duration& budget, const OnUnit& on_unit) {
  const std::string bytes = request.SerializeAsString();
  const std::string_view piece = bytes;
  return Call({&piece, 1}, cost, budget, on_unit);
}

absl::StatusOr<v1::WorkerReply> WorkerPool::Call(absl::Span<const std::string_view> request,
                                                 Cost cost, absl::Duration& budget,
                                                 const OnUnit& on_unit) {
  TENSORD_ASSIGN_OR_RETURN(Slot * slot, Acquire(cost));
  const absl::Time start = SteadyNow();
  absl::StatusOr<v1::WorkerReply> reply = slot->process->Call(request, budget, on_unit);
  if (reply.ok()) reply->set_pid(static_cast<uint32_t>(slot->process->pid()));
  budget -= SteadyNow() - start;
  const bool own_limit = slot->process->HasOwnLimitOnly();
  Release(slot);
  if (!reply.ok()) {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return Stopping();
    return reply;
  }
  metrics_->worker_cpu_nanoseconds += reply->cpu_nanoseconds();
  if (reply->code() != 0) return ErrorOf(*reply, own_limit);
  return reply;
}

absl::Time WorkerPool::NextExpiry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Slot& slot : slots_) {
    if (slot.state == State::kIdle) next = std::min(next, slot.idle_since + options_.idle);
  }
  return next;
}

bool WorkerPool::KeeperHasWork() const {
  return stopping_ || std::any_of(slots_.begin(), slots_.end(),
                                  [](const Slot& slot) { return slot.state == State::kWanted; });
}

void WorkerPool::Keep() {
  std::vector<std::unique_ptr<WorkerProcess>> ended;
  absl::Time wake = absl::InfiniteFuture();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      // Woken by a wish for a worker, or when the oldest idle one may have expired. A worker that
      // becomes idle meanwhile expires later than `idle` from now, so that bounds the sleep; with
      // no process at all the sleep has no end.
      const bool any = std::any_of(slots_.begin(), slots_.end(),
                                   [](const Slot& slot) { return slot.process != nullptr; });
      wake = std::min(NextExpiry(), any ? absl::Now() + options_.idle : absl::InfiniteFuture());
      mutex_.AwaitWithDeadline(absl::Condition(this, &WorkerPool::KeeperHasWork), wake);
      if (stopping_) {
        // Those who wait for a start get an answer; those at work find their process killed.
        for (Slot& slot : slots_) {
          if (slot.state != State::kWanted) continue;
          slot.start_error = Stopping();
          slot.state = State::kEmpty;
        }
        return;
      }
      for (Slot& slot : slots_) {
        if (slot.state == State::kIdle && slot.idle_since + options_.idle <= absl::Now()) {
          ended.push_back(std::move(slot.process));
          slot.state = State::kEmpty;
        }
      }
    }
    ended.clear();
    while (true) {
      Slot* wanted = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        for (Slot& slot : slots_) {
          if (slot.state == State::kWanted) wanted = &slot;
        }
      }
      if (wanted == nullptr) break;
      auto process = WorkerProcess::Start(options_.command);
      absl::MutexLock lock(&mutex_);
      if (process.ok()) {
        wanted->process = *std::move(process);
        if (stopping_) wanted->process->Kill();
      } else {
        wanted->start_error = process.status();
      }
      wanted->state = State::kBusy;
    }
  }
}

}  // namespace tensord::server
