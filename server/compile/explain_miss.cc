// SPDX-License-Identifier: Apache-2.0
#include "server/compile/explain_miss.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tensord::server {
namespace {

// Candidates by each trait, those made last: what a job missed is most likely near to what was
// compiled lately.
constexpr uint32_t kCandidates = 16;

// Graphs that have less in common are not near.
constexpr double kNear = 0.5;

constexpr int kMostDifferences = 16;

struct Candidate {
  std::string key;
  KeyParts parts;
};

// Rising with the distance: another graph is farther than the same one for whatever else.
std::tuple<bool, double, int> Distance(const KeyParts& wanted, const KeyParts& stored) {
  int parts = 0;
  for (size_t i = 0; i < kKeyParts; ++i) parts += wanted.digests[i] != stored.digests[i];
  return {wanted[KeyPart::kOperators] != stored[KeyPart::kOperators],
          1 - Similarity(wanted, stored), parts};
}

bool IsNear(const KeyParts& wanted, const KeyParts& stored) {
  return wanted[KeyPart::kOperators] == stored[KeyPart::kOperators] ||
         Similarity(wanted, stored) >= kNear;
}

// Nothing: no program is near. An error: the index's.
absl::StatusOr<std::optional<Candidate>> FindNearest(store::Store& store, const KeyParts& wanted) {
  std::optional<Candidate> nearest;
  const store::ProgramTraits traits = wanted.ToTraits();
  for (size_t place = 0; place < traits.numbers.size(); ++place) {
    TENSORD_ASSIGN_OR_RETURN(const std::vector<store::ProgramRow> rows,
                             store.WithTrait(place, traits.numbers[place], kCandidates));
    for (const store::ProgramRow& row : rows) {
      const auto parts = KeyParts::FromTraits(row.facts.traits.compared);
      if (!parts.has_value() || !IsNear(wanted, *parts)) continue;
      if (!nearest.has_value() || Distance(wanted, *parts) < Distance(wanted, nearest->parts)) {
        nearest = {row.key, *parts};
      }
    }
  }
  return nearest;
}

// The part that decides what the miss is put down to, the first that differs.
constexpr std::pair<KeyPart, MissReason> kReasons[] = {
    {KeyPart::kOperators, MissReason::kGraph},   {KeyPart::kInputs, MissReason::kInputs},
    {KeyPart::kLiterals, MissReason::kGraph},    {KeyPart::kConstants, MissReason::kGraph},
    {KeyPart::kResults, MissReason::kGraph},     {KeyPart::kTarget, MissReason::kTarget},
    {KeyPart::kOptions, MissReason::kOptions},   {KeyPart::kToolchain, MissReason::kToolchain},
    {KeyPart::kCompiler, MissReason::kCompiler},
};

MissReason ReasonOf(const KeyParts& wanted, const KeyParts& stored) {
  for (const auto& [part, reason] : kReasons) {
    if (wanted[part] != stored[part]) return reason;
  }
  return MissReason::kUnknown;  // a key that differs in nothing: a collision, or damage
}

void AddNearest(store::Store& store, const DescribedKey& wanted, const Candidate& nearest,
                v1::ProgramMiss& miss) {
  miss.set_nearest(nearest.key);
  miss.set_similarity(Similarity(wanted.parts, nearest.parts));
  DescribedKey stored{nearest.parts, {}};
  // Without its detail the parts are named all the same.
  if (const auto detail = store.Detail(nearest.key); detail.ok()) {
    if (!stored.detail.ParseFromString(*detail)) stored.detail.Clear();
  }
  const std::vector<v1::KeyDifference> all = DifferencesOf(wanted, stored);
  const int listed = std::min(static_cast<int>(all.size()), kMostDifferences);
  for (int i = 0; i < listed; ++i) *miss.add_differences() = all[static_cast<size_t>(i)];
  miss.set_more_differences(static_cast<uint32_t>(all.size()) - static_cast<uint32_t>(listed));
}

MissReason Explain(store::Store& store, const std::string& key, const DescribedKey& wanted,
                   v1::ProgramMiss& miss) {
  const auto gone = store.WhyGone(key);
  if (gone.ok() && gone->has_value()) {
    return **gone == store::Gone::kEvicted ? MissReason::kEvicted : MissReason::kLost;
  }
  const auto nearest = FindNearest(store, wanted.parts);
  if (!nearest.ok()) return MissReason::kUnknown;
  if (nearest->has_value()) {
    AddNearest(store, wanted, **nearest, miss);
    return ReasonOf(wanted.parts, (*nearest)->parts);
  }
  return store.HasWithoutTraits().value_or(true) ? MissReason::kUnknown : MissReason::kNew;
}

}  // namespace

ExplainedMiss ExplainMiss(store::Store& store, const std::string& key, const DescribedKey& wanted) {
  ExplainedMiss explained;
  explained.miss.set_key(key);
  explained.reason = Explain(store, key, wanted, explained.miss);
  explained.miss.set_reason(NameOf(explained.reason));
  return explained;
}

}  // namespace tensord::server
