// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace tensord::server {

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = WithoutControls(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> right(columns);
  for (size_t c = 0; c < columns; ++c) right[c] = rows_.front()[c].substr(0, 1) == ">";
  const auto text = [&](size_t r, size_t c) {
    return r == 0 && right[c] ? rows_[r][c].substr(1) : rows_[r][c];
  };
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], text(r, c).size());
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const char* separator = c == 0 ? "" : "  ";
      line += separator;
      line += right[c] ? fmt::format("{:>{}}", text(r, c), widths[c])
                       : fmt::format("{:<{}}", text(r, c), widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string HumanBytes(uint64_t bytes) { return HumanMeanBytes(static_cast<double>(bytes)); }

std::string HumanMeanBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string HumanNanoseconds(uint64_t nanoseconds) {
  const double value = static_cast<double>(nanoseconds);
  if (value < 1e6) return fmt::format("{:.1f} µs", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string HumanAge(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", std::max<int64_t>(seconds, 0));
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

}  // namespace tensord::server
