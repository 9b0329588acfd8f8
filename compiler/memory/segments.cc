#include "compiler/memory/segments.h"

#include <algorithm>

namespace tensord::compiler {
namespace {

// The bytes of lives, by step: changes are added, then summed up.
class Profile {
 public:
  explicit Profile(size_t steps) : bytes_(steps + 1) {}
  void Add(const Lifetime& life, int64_t bytes) {
    bytes_[life.first] += bytes;
    bytes_[life.last + 1] -= bytes;
  }
  void SumUp() {
    for (size_t i = 1; i < bytes_.size(); ++i) bytes_[i] += bytes_[i - 1];
  }
  int64_t Largest(size_t begin, size_t end) const {
    return *std::max_element(bytes_.begin() + begin, bytes_.begin() + end);
  }

 private:
  std::vector<int64_t> bytes_;
};

// The most that is taken at a time: by what lives in several segments, by the block of one from the
// first step that needs it to the last, and by the rest.
int64_t PeakOf(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
               const std::vector<int>& cuts) {
  Profile common(others.size()), own(others.size());
  std::vector<Lifetime> blocks(cuts.size() + 1);
  for (const Tenant& tenant : tenants) {
    const int segment = SegmentOf(tenant.life, cuts);
    (segment < 0 ? common : own).Add(tenant.life, tenant.bytes);
    if (segment < 0) continue;
    Lifetime& block = blocks[segment];
    block = block.first < 0 ? tenant.life : block.With(tenant.life);
  }
  common.SumUp();
  own.SumUp();
  int64_t peak = *std::max_element(others.begin(), others.end());
  for (const Lifetime& block : blocks) {
    if (block.first < 0) continue;
    const int64_t rest =
        *std::max_element(others.begin() + block.first, others.begin() + block.last + 1);
    peak = std::max(peak, rest + own.Largest(block.first, block.last + 1));
  }
  return peak + common.Largest(0, others.size());
}

}  // namespace

int SegmentOf(const Lifetime& life, const std::vector<int>& cuts) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), life.first);
  const auto last = std::upper_bound(cuts.begin(), cuts.end(), life.last);
  return first == last ? static_cast<int>(first - cuts.begin()) : -1;
}

std::vector<int> FindSegments(const std::vector<Tenant>& tenants,
                              const std::vector<int64_t>& others, const SegmentCosts& costs) {
  std::vector<int> cuts;
  if (others.empty()) return cuts;
  // A cut pays behind the end of large lives, or before their beginning.
  std::vector<int64_t> begin(others.size() + 1), end(others.size() + 1);
  for (const Tenant& tenant : tenants) {
    begin[tenant.life.first] += tenant.bytes;
    end[tenant.life.last + 1] += tenant.bytes;
  }
  std::vector<int> places;
  for (int place = 1; place < static_cast<int>(others.size()); ++place) {
    if (std::max(begin[place], end[place]) >= costs.least_bytes) places.push_back(place);
  }
  const int64_t uncut = PeakOf(tenants, others, cuts);
  const auto least = std::max<int64_t>(
      costs.least_bytes, static_cast<int64_t>(costs.least_gain * static_cast<double>(uncut)));
  // One cut alone may gain little that pays with the next: what is behind it is still as full.
  std::vector<int> chosen;
  int64_t peak = uncut, most = 0;
  while (cuts.size() < costs.most_cuts) {
    int64_t best = peak;
    std::vector<int> best_cuts;
    for (int place : places) {
      std::vector<int> now = cuts;
      now.insert(std::upper_bound(now.begin(), now.end(), place), place);
      const int64_t with = PeakOf(tenants, others, now);
      if (with >= best) continue;
      best = with;
      best_cuts = std::move(now);
    }
    if (best == peak) break;
    peak = best;
    cuts = std::move(best_cuts);
    const int64_t gain = uncut - peak - static_cast<int64_t>(cuts.size() - 1) * least;
    if (gain < least || gain <= most) continue;
    most = gain;
    chosen = cuts;
  }
  return chosen;
}

}  // namespace tensord::compiler
