// SPDX-License-Identifier: Apache-2.0
// `tensorctl top`: what the daemon does, live.
#ifndef TENSORD_SERVER_CTL_TOP_H_
#define TENSORD_SERVER_CTL_TOP_H_

#include "server/ctl/client.h"

namespace tensord::server {

struct TopCommand {
  double interval_seconds = 1;
  bool once = false;  // the screen of one interval
  int lines = -1;     // so many lines, one an interval; 0: until it is ended
};

// On a terminal a screen, until q or Ctrl-C; elsewhere lines. With --json each is what the
// daemon sends. Returns the exit code.
int Top(const Client& client, const TopCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_TOP_H_
