// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/ctl/view/quantile.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// More than the widest screen shows.
constexpr size_t kKept = 512;

using Update = v1::StatsUpdate;

double PerSecond(const Update& update, uint64_t grown) {
  const auto elapsed = static_cast<double>(update.elapsed_nanoseconds());
  return elapsed == 0 ? kNone : static_cast<double>(grown) * 1e9 / elapsed;
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? kNone : static_cast<double>(part) / static_cast<double>(whole);
}

std::string ShowCount(double value) {
  return value < 9.95 && value != std::floor(value) ? fmt::format("{:.1f}", value)
                                                    : fmt::format("{:.0f}", value);
}
std::string ShowShare(double value) { return fmt::format("{:.1f} %", 100 * value); }
std::string ShowBytes(double value) { return HumanMeanBytes(value); }

struct Row {
  const char* name;
  const char* column;  // of lines; null: only on the screen
  double (*value)(const Update& update);
  std::string (*show)(double value);
  bool fleet = false;  // only where there is one
};

double Requests(const Update& u) { return PerSecond(u, u.growth().requests()); }
double Found(const Update& u) {
  const v1::Stats& grown = u.growth();
  return Share(grown.hits(), grown.hits() + grown.compiled() + grown.joined() + grown.failed());
}
double LookUp(const Update& u) { return Quantile(u.growth(), "hit", 0.99); }
double Compile(const Update& u) { return Quantile(u.growth(), "compiled", 0.99); }
double Compiled(const Update& u) { return PerSecond(u, u.growth().compiled()); }
double Failed(const Update& u) { return PerSecond(u, u.growth().failed()); }
double Waiting(const Update& u) { return static_cast<double>(u.stats().in_flight()); }
double Queued(const Update& u) { return static_cast<double>(u.stats().queued()); }
double KernelsMade(const Update& u) { return PerSecond(u, u.growth().kernels_compiled()); }
double KernelsFound(const Update& u) { return PerSecond(u, u.growth().kernels_reused()); }
double Workers(const Update& u) { return static_cast<double>(u.stats().workers()); }
double WorkerCpu(const Update& u) {
  return PerSecond(u, u.growth().worker_cpu_nanoseconds()) / 1e9;
}
double FrameHits(const Update& u) { return PerSecond(u, u.growth().frame_hits()); }
double Captures(const Update& u) { return PerSecond(u, u.growth().captures()); }
double FleetHits(const Update& u) { return PerSecond(u, u.growth().fleet_hits()); }
double FleetErrors(const Update& u) { return PerSecond(u, u.growth().fleet_errors()); }
double Memory(const Update& u) { return static_cast<double>(u.stats().resident_bytes()); }
double Stored(const Update& u) { return static_cast<double>(u.stats().bytes_stored()); }

constexpr Row kRows[] = {
    {"requests/s", "req/s", Requests, ShowCount},
    {"found", "found", Found, ShowShare},
    {"found within (p99)", "look-up", LookUp, HumanSeconds},
    {"compiled/s", "comp/s", Compiled, ShowCount},
    {"compiled within (p99)", nullptr, Compile, HumanSeconds},
    {"failed/s", "fail/s", Failed, ShowCount},
    {"requests waiting", "waiting", Waiting, ShowCount},
    {"compiles queued", "queued", Queued, ShowCount},
    {"kernels made/s", nullptr, KernelsMade, ShowCount},
    {"kernels reused/s", nullptr, KernelsFound, ShowCount},
    {"workers", "workers", Workers, ShowCount},
    {"worker CPU", "CPU", WorkerCpu, ShowShare},
    {"frames served/s", "frames/s", FrameHits, ShowCount},
    {"captures/s", nullptr, Captures, ShowCount},
    {"fleet hits/s", nullptr, FleetHits, ShowCount, true},
    {"fleet errors/s", nullptr, FleetErrors, ShowCount, true},
    {"memory", "memory", Memory, ShowBytes},
    {"store", "store", Stored, ShowBytes},
};

std::string Show(const Row& row, double value) { return std::isnan(value) ? "-" : row.show(value); }

constexpr int kColumn = 10;

}  // namespace

std::string Sparkline(const std::vector<double>& values) {
  constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kHighest = std::size(kHeights) - 1;
  double most = 0;
  for (const double value : values) {
    if (std::isfinite(value)) most = std::max(most, value);
  }
  std::string line;
  for (const double value : values) {
    if (std::isnan(value)) {
      line += " ";
    } else {
      const double share = most == 0 ? 0 : std::clamp(value / most, 0.0, 1.0);
      line += kHeights[static_cast<size_t>(std::lround(share * kHighest))];
    }
  }
  return line;
}

std::string Shortened(const std::string& line, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = (line[i] & 0xc0) != 0x80;  // of UTF-8
    if (begins && ++characters > width) return line.substr(0, i);
  }
  return line;
}

void TopView::Add(const v1::StatsUpdate& update) {
  latest_ = update;
  values_.resize(std::size(kRows));
  for (size_t i = 0; i < std::size(kRows); ++i) {
    values_[i].push_back(kRows[i].value(update));
    if (values_[i].size() > kKept) values_[i].pop_front();
  }
}

std::vector<std::string> TopView::Head() const {
  const v1::Stats& s = latest_.stats();
  std::vector<std::string> head = {
      fmt::format("tensord {}  pid {}  up {}  {} programs and {} frames in {}", s.version(),
                  s.pid(), HumanAge(static_cast<int64_t>(s.uptime_seconds())), s.programs_stored(),
                  s.frames_stored(), s.store()),
      fmt::format("{} requests: {} found, {} compiled, {} joined, {} failed; {} of compiling saved",
                  s.requests(), s.hits(), s.compiled(), s.joined(), s.failed(),
                  HumanAge(static_cast<int64_t>(s.saved_nanoseconds() / 1'000'000'000)))};
  for (const std::string& problem : {s.store_problem(), s.fleet_problem()}) {
    if (!problem.empty()) head.push_back("WARNING  " + problem);
  }
  head.emplace_back();
  return head;
}

std::vector<std::string> TopView::Screen(size_t width) const {
  constexpr size_t kBeside = 22 + 2 + kColumn + 2;
  const size_t shown = width > kBeside ? width - kBeside : 0;
  std::vector<std::string> lines = Head();
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::deque<double>& values = values_[i];
    if (kRows[i].fleet && latest_.stats().fleet().empty()) continue;
    const auto from = values.end() - static_cast<ptrdiff_t>(std::min(shown, values.size()));
    lines.push_back(fmt::format("{:<22}  {:>{}}  {}", kRows[i].name, Show(kRows[i], values.back()),
                                kColumn, Sparkline({from, values.end()})));
  }
  for (std::string& line : lines) {
    line = Shortened(line, width);
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

std::string TopView::LineHead() {
  std::string line;
  for (const Row& row : kRows) {
    if (row.column != nullptr) line += fmt::format("{:>{}}", row.column, kColumn);
  }
  return line;
}

std::string TopView::Line() const {
  std::string line;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (kRows[i].column == nullptr) continue;
    line += fmt::format("{:>{}}", Show(kRows[i], values_[i].back()), kColumn);
  }
  return line;
}

}  // namespace tensord::server
