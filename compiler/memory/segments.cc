// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/segments.h"

#include <algorithm>
#include <map>
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
    // Uncut, all lie in the workspace.
    const int segment = cuts.empty() ? -1 : SegmentOf(tenant.life, cuts);
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

// The least that any division could take: everything is there only while it lives.
int64_t LeastPeak(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others) {
  Profile all(others.size());
  for (const Tenant& tenant : tenants) all.Add(tenant.life, tenant.bytes);
  for (int step = 0; step < static_cast<int>(others.size()); ++step) {
    all.Add({step, step}, others[step]);
  }
  all.SumUp();
  return all.Largest(0, others.size());
}

// A way to divide a call, with what it takes at its fullest step.
class Division {
 public:
  // Cut like that, with blocks for those of `alone`.
  Division(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
           Segments segments)
      : others_(others), segments_(std::move(segments)) {
    auto next = segments_.alone.begin();
    for (size_t i = 0; i < tenants.size(); ++i) {
      if (next == segments_.alone.end() || *next != i) {
        tenants_.push_back(tenants[i]);
        continue;
      }
      ++next;
      AddDuring(tenants[i].life, tenants[i].bytes, &others_);
    }
    peak_ = PeakOf(tenants_, others_, segments_.cuts);
  }

  const Segments& segments() const { return segments_; }
  int64_t peak() const { return peak_; }

  // Looks for cuts that lower the peak, each on average by `least`. Those that there are stay where
  // none are better.
  void Cut(const SegmentCosts& costs, int64_t least) {
    const std::vector<int> places = Places(costs);
    // One cut alone may gain little that pays with the next: what is behind it is still as full.
    const int64_t uncut = PeakOf(tenants_, others_, {});
    std::vector<int> cuts, chosen;
    int64_t peak = uncut, chosen_peak = uncut, most = 0;
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
      chosen = cuts;
      chosen_peak = peak;
    }
    if (chosen_peak >= peak_) return;
    peak_ = chosen_peak;
    segments_.cuts = std::move(chosen);
  }

 private:
  // A cut pays behind the end of large lives, or before their beginning: the steps where most
  // begins or ends, in order.
  std::vector<int> Places(const SegmentCosts& costs) const {
    std::vector<int64_t> begin(others_.size() + 1), end(others_.size() + 1);
    for (const Tenant& tenant : tenants_) {
      begin[tenant.life.first] += tenant.bytes;
      end[tenant.life.last + 1] += tenant.bytes;
    }
    const auto bytes = [&](int place) { return std::max(begin[place], end[place]); };
    std::vector<int> places;
    for (int place = 1; place < static_cast<int>(others_.size()); ++place) {
      if (bytes(place) >= costs.least_bytes) places.push_back(place);
    }
    std::stable_sort(places.begin(), places.end(),
                     [&](int a, int b) { return bytes(a) > bytes(b); });
    places.resize(std::min(places.size(), costs.most_places));
    std::sort(places.begin(), places.end());
    return places;
  }

  std::vector<Tenant> tenants_;  // but for those alone
  std::vector<int64_t> others_;
  Segments segments_;
  int64_t peak_ = 0;
};

// The largest tenants that may be alone, by their numbers.
std::vector<size_t> LargeTenants(const std::vector<Tenant>& tenants, const SegmentCosts& costs,
                                 int64_t peak) {
  std::vector<size_t> large;
  for (size_t i = 0; i < tenants.size(); ++i) {
    const auto bytes = static_cast<double>(tenants[i].bytes);
    if (bytes >= costs.least_alone * static_cast<double>(peak) &&
        tenants[i].life.first < tenants[i].life.last) {
      large.push_back(i);
    }
  }
  std::stable_sort(large.begin(), large.end(),
                   [&](size_t a, size_t b) { return tenants[a].bytes > tenants[b].bytes; });
  large.resize(std::min(large.size(), costs.most_tried));
  return large;
}

// Tenants by their bytes.
using TenantsBySize = std::map<int64_t, std::vector<size_t>>;

// Those that may be apart and that begin before a step: of each size all, or none where they are
// too many, the smallest sizes first.
TenantsBySize LargeTenantsBefore(int end, const std::vector<Tenant>& tenants,
                                 const SegmentCosts& costs) {
  TenantsBySize sizes;
  size_t count = 0;
  for (size_t i = 0; i < tenants.size(); ++i) {
    const auto& [life, bytes] = tenants[i];
    if (bytes < costs.least_apart || life.first == life.last || life.first >= end) continue;
    sizes[bytes].push_back(i);
    ++count;
  }
  while (count > costs.most_apart) {
    count -= sizes.begin()->second.size();
    sizes.erase(sizes.begin());
  }
  return sizes;
}

// Cut with blocks for all of these, of which sizes then lose theirs, those of most blocks first,
// while the peak rises by less than `least` in all and not above `most`. The cuts stay.
Division DivideApart(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
                     TenantsBySize sizes, const SegmentCosts& costs, int64_t least, int64_t most) {
  std::vector<int> cuts;
  const auto divide = [&] {
    Segments segments{.cuts = cuts};
    for (const auto& [bytes, ids] : sizes) {
      segments.alone.insert(segments.alone.end(), ids.begin(), ids.end());
    }
    std::sort(segments.alone.begin(), segments.alone.end());
    return Division(tenants, others, std::move(segments));
  };
  Division best = divide();
  best.Cut(costs, least);
  cuts = best.segments().cuts;
  const int64_t limit = std::min(best.peak() + least - 1, most);
  std::vector<std::pair<size_t, int64_t>> order;
  for (const auto& [bytes, ids] : sizes) order.emplace_back(ids.size(), bytes);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [count, bytes] : order) {
    auto size = sizes.extract(bytes);
    Division without = divide();
    if (without.peak() <= limit) {
      best = std::move(without);
    } else {
      sizes.insert(std::move(size));
    }
  }
  return best;
}

}  // namespace

int SegmentOf(const Lifetime& life, const std::vector<int>& cuts) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), life.first);
  const auto last = std::upper_bound(cuts.begin(), cuts.end(), life.last);
  return first == last ? static_cast<int>(first - cuts.begin()) : -1;
}

Segments FindSegments(const std::vector<Tenant>& tenants, const std::vector<int64_t>& others,
                      const SegmentCosts& costs) {
  if (others.empty()) return {};
  Division best(tenants, others, {});
  const int64_t uncut = best.peak();
  const auto least = std::max<int64_t>(
      costs.least_bytes, static_cast<int64_t>(costs.least_gain * static_cast<double>(uncut)));
  best.Cut(costs, least);
  const int64_t bound = LeastPeak(tenants, others);
  const std::vector<size_t> large = LargeTenants(tenants, costs, uncut);
  while (best.segments().alone.size() < costs.most_alone && best.peak() - bound >= least) {
    // First with the cuts that there are: only the best one's are sought anew.
    std::optional<Division> next;
    for (const size_t i : large) {
      Segments with = best.segments();
      const auto place = std::lower_bound(with.alone.begin(), with.alone.end(), i);
      if (place != with.alone.end() && *place == i) continue;
      with.alone.insert(place, i);
      Division division(tenants, others, std::move(with));
      if (!next || division.peak() < next->peak()) next = std::move(division);
    }
    if (!next) break;
    next->Cut(costs, least);
    if (best.peak() - next->peak() < least) break;
    best = *std::move(next);
  }
  // What backward is given goes as it goes on: its first steps may be all that matters.
  const int steps = static_cast<int>(others.size());
  TenantsBySize tried;  // none apart is what there is
  for (const int part : {8, 2, 1}) {
    if (best.peak() - bound < least) break;
    TenantsBySize sizes = LargeTenantsBefore(steps / part, tenants, costs);
    if (sizes == tried) continue;
    tried = sizes;
    const int64_t most = best.peak() - least;
    Division apart = DivideApart(tenants, others, std::move(sizes), costs, least, most);
    if (apart.peak() <= most) best = std::move(apart);
  }
  return best.segments();
}

}  // namespace tensord::compiler
