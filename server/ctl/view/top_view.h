// SPDX-License-Identifier: Apache-2.0
// What `tensorctl top` shows of the statistics, as text. Knows neither a daemon nor a terminal.
#ifndef TENSORD_SERVER_CTL_VIEW_TOP_VIEW_H_
#define TENSORD_SERVER_CTL_VIEW_TOP_VIEW_H_

#include <deque>
#include <string>
#include <vector>

#include "tensord/v1/service.pb.h"

namespace tensord::server {

// A character a value, of eight heights; the highest value has the highest one, and what is not a
// number a blank.
std::string Sparkline(const std::vector<double>& values);

// The text in `width` characters at most.
std::string Shortened(const std::string& line, size_t width);

class TopView {
 public:
  void Add(const v1::StatsUpdate& update);

  // The latest in full, and what was before as sparklines. Lines without a newline, of at most
  // `width` characters.
  std::vector<std::string> Screen(size_t width) const;

  // One line a time, for pipes: the columns' names, and the latest under them.
  static std::string LineHead();
  std::string Line() const;

 private:
  std::vector<std::string> Head() const;

  v1::StatsUpdate latest_;
  std::vector<std::deque<double>> values_;  // of each row, the latest last
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_TOP_VIEW_H_
