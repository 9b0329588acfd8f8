#include "compiler/memory/segments.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// A way to divide a call, with what it takes at its fullest step.
class Division {
 public:
  // Uncut, with blocks for those of `alone`.
  Division(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
           std::vector<size_t> alone)
      : others_(others), segments_{.alone = std::move(alone)} {
    auto next = segments_.alone.begin();
    for (size_t i = 0; i < tenants.size(); ++i) {
      if (next == segments_.alone.end() || *next != i) {
        tenants_.push_back(tenants[i]);
        continue;
      }
      ++next;
      for (int step = tenants[i].life.first; step <= tenants[i].life.last; ++step) {
        others_[step] += tenants[i].bytes;
      }
    }
    peak_ = PeakOf(tenants_, others_, {});
  }

  const Segments& segments() const { return segments_; }
  int64_t peak() const { return peak_; }

  // Where cuts lower the peak, each on average by `least`.
  void Cut(const SegmentCosts& costs, int64_t least) {
    const std::vector<int> places = Places(costs.least_bytes);
    // One cut alone may gain little that pays with the next: what is behind it is still as full.
    const int64_t uncut = peak_;
    std::vector<int> cuts;
    int64_t peak = uncut, most = 0;
    while (cuts.size() < costs.most_cuts) {
      int64_t best = peak;
      std::vector<int> best_cuts;
      for (int place : places) {
        std::vector<int> now = cuts;
        now.insert(std::upper_bound(now.begin(), now.end(), place), place);
        const int64_t with = PeakOf(tenants_, others_, now);
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
      peak_ = peak;
      segments_.cuts = cuts;
    }
  }

 private:
  // A cut pays behind the end of large lives, or before their beginning.
  std::vector<int> Places(int64_t least_bytes) const {
    std::vector<int64_t> begin(others_.size() + 1), end(others_.size() + 1);
    for (const Tenant& tenant : tenants_) {
      begin[tenant.life.first] += tenant.bytes;
      end[tenant.life.last + 1] += tenant.bytes;
    }
    std::vector<int> places;
    for (int place = 1; place < static_cast<int>(others_.size()); ++place) {
      if (std::max(begin[place], end[place]) >= least_bytes) places.push_back(place);
    }
    return places;
  }

  std::vector<Tenant> tenants_;  // but for those alone
  std::vector<int64_t> others_;
  Segments segments_;
  int64_t peak_ = 0;
};

}  // namespace

int SegmentOf(const Lifetime& life, const std::vector<int>& cuts) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), life.first);
  const auto last = std::upper_bound(cuts.begin(), cuts.end(), life.last);
  return first == last ? static_cast<int>(first - cuts.begin()) : -1;
}

Segments FindSegments(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
                      const SegmentCosts& costs) {
  if (others.empty()) return {};
  const int64_t uncut = PeakOf(tenants, others, {});
  const auto least = std::max<int64_t>(
      costs.least_bytes, static_cast<int64_t>(costs.least_gain * static_cast<double>(uncut)));
  Division best(tenants, others, {});
  best.Cut(costs, least);
  while (best.segments().alone.size() < costs.most_alone) {
    std::optional<Division> next;
    for (size_t i = 0; i < tenants.size(); ++i) {
      const auto bytes = static_cast<double>(tenants[i].bytes);
      if (bytes < costs.least_alone * static_cast<double>(uncut)) continue;
      if (tenants[i].life.first == tenants[i].life.last) continue;
      std::vector<size_t> alone = best.segments().alone;
      const auto place = std::lower_bound(alone.begin(), alone.end(), i);
      if (place != alone.end() && *place == i) continue;
      alone.insert(place, i);
      Division with(tenants, others, std::move(alone));
      with.Cut(costs, least);
      if (!next || with.peak() < next->peak()) next = std::move(with);
    }
    if (!next || best.peak() - next->peak() < least) break;
    best = *std::move(next);
  }
  return best.segments();
}

}  // namespace tensord::compiler
