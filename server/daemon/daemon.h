// SPDX-License-Identifier: Apache-2.0
// The daemon's life: lock, listen, serve, stop.
#ifndef TENSORD_SERVER_DAEMON_DAEMON_H_
#define TENSORD_SERVER_DAEMON_DAEMON_H_

#include "server/config/config.h"

namespace tensord::server {

// Exit codes of `tensord`.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;           // flags, environment or configuration file
inline constexpr int kExitAlreadyRunning = 3;  // another daemon serves this socket

// Runs until SIGTERM, SIGINT or the idle limit. Returns the exit code. Call from the main thread
// before any other is started: signals are blocked for all of them.
int RunDaemon(const Config& config);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_DAEMON_H_
