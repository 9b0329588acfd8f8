// SPDX-License-Identifier: Apache-2.0
// The commands of tensorctl. Each asks the daemon, prints, and returns the exit code.
#ifndef TENSORD_SERVER_CTL_COMMANDS_H_
#define TENSORD_SERVER_CTL_COMMANDS_H_

#include <cstdint>
#include <string>

#include "server/ctl/client.h"

namespace tensord::server {

// The daemon's statistics (statistics.cc).
int Status(const Client& client);
int Stats(const Client& client);

// Compiles that somebody waits for (in_flight.cc).
int InFlight(const Client& client);

// Stored programs (programs.cc). `key`: its first 8 or more hex digits.
// `order`: used, hits, bytes, compile_time or created.
int List(const Client& client, uint32_t limit, const std::string& search,
         const std::string& order);  // 0: all
int Show(const Client& client, const std::string& key);
int Kernel(const Client& client, const std::string& key, int number);

// Stored frames, and why others were not recorded (frames.cc).
int Frames(const Client& client, uint32_t limit);  // 0: all
int ShowFrame(const Client& client, const std::string& key);

// Why frames did not serve and programs were compiled (misses.cc); `key`: of one frame or program,
// `job`: of one job, "": of all.
int ExplainMiss(const Client& client, const std::string& key, const std::string& job,
                uint32_t limit);

// Who asks for programs and frames (jobs.cc). `job`: its name; empty: processes without one.
int Jobs(const Client& client);
int ShowJob(const Client& client, const std::string& job);

// What requests waited for, as a trace for Perfetto (trace.cc). `key`: of one program, its first 8
// or more hex digits; `job`: of one job; "": of all. `limit`: the latest so many; 0: all that are
// kept. `file`: where it goes, or where it is empty to standard output.
struct TraceCommand {
  std::string key, job, file;
  uint32_t limit = 0;
};
int Trace(const Client& client, const TraceCommand& command);

// What jobs measured of their programs (profile.cc): the latest that fits, or where nothing in
// particular is asked for, a list. `key`: with this program; `job`, `pid`, `id`: of this job,
// process, with this number. `format`: table, json, speedscope or folded. `file`: as of a trace.
struct ProfileCommand {
  std::string key, job, file, format = "table";
  uint32_t pid = 0;
  uint64_t id = 0;
  bool last = false;

  bool AsksForAll() const { return key.empty() && job.empty() && pid == 0 && id == 0 && !last; }
};
int Profile(const Client& client, const ProfileCommand& command);

// The URL of the daemon's page (page.cc), which it serves from then on. `address`: where; empty: as
// configured, or at a port that is free.
int OpenPage(const Client& client, const std::string& address);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_COMMANDS_H_
