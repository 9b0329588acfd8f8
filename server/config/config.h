// SPDX-License-Identifier: Apache-2.0
// Configuration: a flag beats an environment variable beats the file beats the default. One table
// in config.cc lists every key.
#ifndef TENSORD_SERVER_CONFIG_CONFIG_H_
#define TENSORD_SERVER_CONFIG_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace tensord::server {

struct Config {
  std::string address;                  // of the Unix socket
  std::string store;                    // folder
  uint64_t store_limit = 20ULL << 30;   // bytes; 0: none
  std::string cxx = "c++";              // the host's C++ compiler
  std::string cxx_flags;                // appended to the JIT's own, separated by spaces
  std::string nvrtc;                    // NVRTC's library or its folder; empty: looked for
  std::string worker;                   // path of tensord-worker
  uint64_t workers = 0;                 // 0: the number of cores, at most 8
  uint64_t worker_idle = 60;            // seconds after which an idle worker is ended
  uint64_t job_seconds = 300;           // wall and CPU time of one job
  uint64_t job_memory = 0;              // of a worker and those below it, bytes; 0: no limit
  std::string confine = "auto";         // walls around workers; or "off"
  uint64_t max_waiting = 512;           // compiles
  uint64_t queue_seconds = 300;         // for a compile's turn
  uint64_t request_memory = 256 << 20;  // bytes of requests that are held
  uint64_t frame_limit = 63 << 20;      // bytes of a frame
  uint64_t frame_lease_seconds = 30;    // that other processes wait for one process's capture
  uint64_t stop_seconds = 20;           // for work in flight, when the daemon is told to stop
  uint64_t idle_exit = 0;           // seconds without a call after which the daemon ends; 0: never
  std::string fleet;                // URL of the tier that hosts share; empty: none
  std::string fleet_sign_key;       // file of the private key; empty: nothing is put
  std::string fleet_trust;          // file of accepted public keys
  std::string fleet_password_file;  // or of a token; empty: the URL has it
  std::string fleet_ca;             // file of authorities; empty: the system's
  uint64_t fleet_expiry_seconds = 30 * 24 * 3600;  // of what is put; 0: never
  uint64_t fleet_answer_ms = 200;                  // that a miss waits for the tier's first answer
  uint64_t fleet_lease_seconds = 30;  // that hosts wait for one that compiles the same; 0: never
  std::string listen_tls;             // host and port beside the Unix socket; empty: none
  std::string listen_cert;            // files of the daemon's certificate,
  std::string listen_key;             // of its private key,
  std::string listen_ca;          // of the authority of clients' certificates; empty: not asked for
  std::string listen_token_file;  // of tokens that clients bring; empty: not asked for
  std::string metrics_address;    // where Prometheus scrapes, host and port; empty: nowhere
  std::string ui;                 // where the page is, host and port; empty: when asked for
  std::string log_file;           // rotating; empty: standard error
  std::string log_level = "info";  // trace, debug, info, warn, error

  // Where each value came from, by key: "default", "flag --store", "TENSORD_STORE", "/etc/...toml".
  std::map<std::string, std::string> sources;
};

struct Option {
  enum Kind { kText, kUrl, kNumber, kBytes, kSeconds };  // a URL is shown without its password
  const char* key;  // in the file; the flag is --key with dashes
  const char* env;  // or null
  Kind kind;
  std::string Config::*text;
  uint64_t Config::*number;
  uint64_t min, max;  // of numbers
  const char* help;

  std::string Flag() const;
};
const std::vector<Option>& Options();

// `flags`: values given on the command line, by key. `file`: path, or empty for the default places,
// where it may be missing. InvalidArgument names the key, where the value came from and what would
// do.
absl::StatusOr<Config> LoadConfig(const std::map<std::string, std::string>& flags,
                                  const std::string& file);

// One line a key: "store = /srv/tensord   # default".
std::string PrintConfig(const Config& config);

// "512", "20GB", "1.5 GiB" (all powers of 1024).
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CONFIG_CONFIG_H_
