// SPDX-License-Identifier: Apache-2.0
// `tensorctl export | import | prefetch`: programs and frames of a store as one signed file, or
// from the fleet before a job starts. With or without a daemon.
#ifndef TENSORD_SERVER_CTL_ARCHIVE_H_
#define TENSORD_SERVER_CTL_ARCHIVE_H_

#include <string>
#include <vector>

#include "server/ctl/settings.h"

namespace tensord::server {

struct ArchiveCommand {
  std::string file;
  std::vector<std::string> keys;  // of programs, and for export of frames, in hex
  std::string job;                // what it used, instead of keys
  bool all = false;               // instead of keys
  bool check = false;             // the file is only looked at
  bool any_toolchain = false;     // also programs that this host would not find
  Settings settings;
  bool json = false;
};

// Each prints what it did, and returns the exit code.

// 1 too when something that was wanted is damaged or has gone; the file has the rest.
int ExportStore(const ArchiveCommand& command);
int ImportStore(const ArchiveCommand& command);
// 1 too when something is refused; the store has the rest.
int PrefetchFromFleet(const ArchiveCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_ARCHIVE_H_
