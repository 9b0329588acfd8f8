// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/top.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "server/ctl/terminal.h"
#include "server/ctl/view/top_view.h"

namespace tensord::server {
namespace {

constexpr size_t kPipeWidth = 80;
constexpr int kLinesPerHead = 20;

int Live(StatsWatch& watch) {
  TopView view;
  {
    Terminal terminal([&] { watch.Stop(); });
    for (v1::StatsUpdate update; watch.Read(&update);) {
      view.Add(update);
      terminal.Draw(view.Screen(terminal.width()));
    }
  }
  return watch.Finish();
}

// `count` 0: without end.
int Lines(const Client& client, StatsWatch& watch, int count, bool screen) {
  TopView view;
  int shown = 0;
  for (v1::StatsUpdate update; watch.Read(&update);) {
    if (!update.has_growth()) continue;
    view.Add(update);
    if (client.json) {
      PrintJsonLine(update);
    } else if (screen) {
      for (const std::string& line : view.Screen(kPipeWidth)) Print(line + "\n");
    } else {
      if (shown % kLinesPerHead == 0) Print(TopView::LineHead() + "\n");
      Print(view.Line() + "\n");
    }
    std::fflush(stdout);
    if (++shown == count) break;
  }
  if (shown == count) watch.Stop();
  for (v1::StatsUpdate rest; watch.Read(&rest);) continue;
  return watch.Finish();
}

}  // namespace

int Top(const Client& client, const TopCommand& command) {
  // A daemon that says nothing is found within the time of a call.
  v1::Stats stats;
  if (const int code = Ask(client, v1::GetStatsRequest(), &stats); code != kExitOk) return code;
  v1::WatchStatsRequest request;
  request.set_interval_milliseconds(
      static_cast<uint32_t>(std::lround(command.interval_seconds * 1000)));
  StatsWatch watch(client, request);
  const bool lines = client.json || command.once || command.lines >= 0;
  if (!lines && isatty(STDOUT_FILENO)) return Live(watch);
  return Lines(client, watch, command.once ? 1 : std::max(0, command.lines), command.once);
}

}  // namespace tensord::server
