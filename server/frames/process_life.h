// SPDX-License-Identifier: Apache-2.0
// Whether a process of this host still lives, by its number and the time when it started: a number
// that another process has since is no life.
#ifndef TENSORD_SERVER_FRAMES_PROCESS_LIFE_H_
#define TENSORD_SERVER_FRAMES_PROCESS_LIFE_H_

#include <cstdint>
#include <string>

namespace tensord::server {

struct ProcessLife {
  uint32_t pid = 0;  // 0: not known
  std::string host;
  uint64_t started = 0;  // in the kernel's ticks since the host's start; 0: not known

  // The process of that number. One that is not seen here (of another host, or of a container whose
  // numbers are its own) has no known start. `host`: its name; empty: this one.
  static ProcessLife Of(uint32_t pid, const std::string& host);
  // The same where all of them are of elsewhere, whatever their host's name.
  static ProcessLife NotHere(uint32_t pid, const std::string& host) { return {pid, host, 0}; }
  // False only of a process whose start is known and that has ended, reaped or not.
  bool MayLive() const;
  // Whether both are known to be the same.
  bool Is(const ProcessLife& other) const;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_PROCESS_LIFE_H_
