// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/verify_memory.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/memory/life_index.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/workspace_bytes.h"

namespace tensord::compiler {
namespace {

class Verifier {
 public:
  explicit Verifier(const MemoryPlan& plan) : plan_(plan) {}

  // A buffer, or the scratch of a step where that is -1.
  absl::Status Add(BufferId buffer, const Lifetime& life, const Place& place, const Expr& bytes) {
    const int64_t begin = sym::Hint(place.offset), end = begin + sym::Hint(bytes);
    const bool common = place.block < 0;
    if (place.block >= static_cast<int>(plan_.blocks.size())) {
      return Broken(buffer, life, "is in no block");
    }
    const int64_t at = common ? 0 : sym::Hint(plan_.blocks[place.block].offset);
    const int64_t most =
        common ? sym::Hint(plan_.workspace_bytes) : plan_.blocks[place.block].bytes;
    if (begin < 0 || begin % kMemoryAlignment != 0 || end > most) {
      return Broken(buffer, life, "has a place outside its memory");
    }
    const Tenancy tenancy{buffer, life, at + begin, at + end};
    const Tenancy* overlapped = nullptr;
    lives_.ForEachMeeting(life, [&](int other) {
      if (Overlap(tenancy, tenancies_[other])) overlapped = &tenancies_[other];
    });
    if (overlapped != nullptr) {
      return Broken(buffer, life, "shares memory with ", NameOf(*overlapped),
                    ", which lives at the same time");
    }
    lives_.Add(life, static_cast<int>(tenancies_.size()));
    tenancies_.push_back(tenancy);
    return absl::OkStatus();
  }

 private:
  struct Tenancy {
    BufferId buffer;
    Lifetime life;
    int64_t begin, end;  // in one allocation for all
  };

  static std::string NameOf(const Tenancy& tenancy) {
    return tenancy.buffer < 0 ? absl::StrCat("the scratch of step ", tenancy.life.first)
                              : absl::StrCat("buffer ", tenancy.buffer);
  }

  template <typename... Parts>
  static absl::Status Broken(BufferId buffer, const Lifetime& life, const Parts&... parts) {
    return absl::InternalError(absl::StrCat(NameOf({buffer, life, 0, 0}), " ", parts...));
  }

  // Of two that meet.
  static bool Overlap(const Tenancy& a, const Tenancy& b) {
    if (a.end <= b.begin || b.end <= a.begin) return false;
    const bool takes_over = a.life.last == b.life.first || b.life.last == a.life.first;
    return a.buffer < 0 || b.buffer < 0 || a.begin != b.begin || !takes_over;
  }

  const MemoryPlan& plan_;
  std::vector<Tenancy> tenancies_;
  LifeIndex lives_;
};

// Nothing reads an input behind the first step that writes over it.
absl::Status VerifyDonors(const Program& program, const std::vector<Lifetime>& lifetimes,
                          const MemoryPlan& plan) {
  std::map<int, int> last_read;  // by the input's number
  for (size_t id = 0; id < lifetimes.size(); ++id) {
    const BufferInfo& buffer = program.buffers[id];
    if (buffer.kind != BufferKind::kInput) continue;
    int& last = last_read.try_emplace(buffer.number, -1).first->second;
    last = std::max(last, lifetimes[id].last);
  }
  for (size_t id = 0; id < lifetimes.size(); ++id) {
    const Place& place = plan.places[id];
    if (place.kind != Place::kWorkspace || place.block < 0) continue;
    const int donor = plan.blocks[place.block].donor;
    if (donor == MemoryBlock::kNoDonor) continue;
    const auto read = last_read.find(donor);
    if (read == last_read.end() || read->second > lifetimes[id].first) {
      return absl::InternalError(
          absl::StrCat("buffer ", id, " writes over input ", donor, ", which is read behind it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyMemory(const Program& program, const Schedule& schedule,
                          const std::vector<LaunchInterface>& launches, const MemoryPlan& plan) {
  Verifier verifier(plan);
  const std::vector<Lifetime> lifetimes =
      LifetimesOf(program, TouchedBuffers(program, schedule, launches));
  for (size_t id = 0; id < lifetimes.size(); ++id) {
    if (plan.places[id].kind != Place::kWorkspace) continue;
    TENSORD_RETURN_IF_ERROR(verifier.Add(static_cast<BufferId>(id), lifetimes[id], plan.places[id],
                                         AlignedBytes(program.buffers[id])));
  }
  TENSORD_RETURN_IF_ERROR(VerifyDonors(program, lifetimes, plan));
  for (const Scratch& s : ScratchOf(launches)) {
    if (plan.scratch[s.step].kind != Place::kWorkspace) {
      return absl::InternalError(absl::StrCat("the scratch of step ", s.step, " has no place"));
    }
    TENSORD_RETURN_IF_ERROR(verifier.Add(-1, {s.step, s.step}, plan.scratch[s.step], s.bytes));
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler
