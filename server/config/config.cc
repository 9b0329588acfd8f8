// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "server/rpc/address.h"
#include "server/rpc/host_and_port.h"

namespace tensord::server {
namespace {

constexpr uint64_t kAny = std::numeric_limits<int64_t>::max();
// Less than a request may have: what is refused is received, and says which capture ends.
constexpr uint64_t kLargestFrame = 63 << 20;
constexpr uint64_t kYear = 366ULL * 24 * 3600;

// Beside this binary.
std::string DefaultWorker() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  if (size <= 0) return "tensord-worker";
  const std::string self(path, static_cast<size_t>(size));
  return self.substr(0, self.rfind('/') + 1) + "tensord-worker";
}

// Half of the host's, so that one job that takes all it may leaves the others the rest.
uint64_t DefaultJobMemory() {
  constexpr uint64_t kLeast = 4ULL << 30, kMost = 16ULL << 30;
  const uint64_t host =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::clamp(host / 2, kLeast, kMost);
}

std::vector<std::string> DefaultFiles() {
  return {HomeFolder("XDG_CONFIG_HOME", ".config") + "/tensord/tensord.toml",
          "/etc/tensord/tensord.toml"};
}

absl::Status Invalid(const Option& option, const std::string& value, const std::string& source,
                     const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(option.key, " = '", value, "' (from ", source, "): ", why));
}

absl::Status Set(Config& config, const Option& option, const std::string& value,
                 const std::string& source) {
  if (option.text != nullptr) {
    config.*option.text = value;
  } else {
    uint64_t number = 0;
    if (option.kind == Option::kBytes) {
      const auto bytes = ParseBytes(value);
      if (!bytes.ok()) return Invalid(option, value, source, std::string(bytes.status().message()));
      number = *bytes;
    } else if (!absl::SimpleAtoi(value, &number)) {
      return Invalid(option, value, source,
                     option.kind == Option::kSeconds ? "a whole number of seconds is needed"
                                                     : "a whole number is needed");
    }
    if (number < option.min || number > option.max) {
      return Invalid(option, value, source,
                     absl::StrCat("it must be from ", option.min, " to ", option.max));
    }
    config.*option.number = number;
  }
  config.sources[option.key] = source;
  return absl::OkStatus();
}

absl::Status ReadToml(Config& config, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const Option* found = nullptr;
    for (const Option& option : Options()) {
      if (name == option.key) found = &option;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", node.source().begin.line,
                                                     ": there is no key '", name,
                                                     "'; tensord --print-config lists them all"));
    }
    std::string value;
    if (const auto text = node.value_exact<std::string>()) {
      value = *text;
    } else if (const auto number = node.value_exact<int64_t>()) {
      value = absl::StrCat(*number);
    } else {
      return Invalid(*found, "", path, "a text or a whole number is needed");
    }
    TENSORD_RETURN_IF_ERROR(Set(config, *found, value, path));
  }
  return absl::OkStatus();
}

// "redis://user:***@host"
std::string WithoutPassword(std::string url) {
  const size_t begin = url.find("://"), end = url.rfind('@');
  if (begin == std::string::npos || end == std::string::npos || url[begin + 3] == '/') return url;
  const size_t colon = url.find(':', begin + 3);
  if (colon < end) url.replace(colon + 1, end - colon - 1, "***");
  return url;
}

// A port without either kind of proof would let every process that reaches it make jobs run code.
absl::Status CheckListen(const Config& config) {
  const auto wrong = [&](const char* key, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " (from ", config.sources.at(key), "): ", why));
  };
  const std::pair<const char*, const std::string&> files[] = {
      {"listen_cert", config.listen_cert},
      {"listen_key", config.listen_key},
      {"listen_ca", config.listen_ca},
      {"listen_token_file", config.listen_token_file}};
  if (config.listen_tls.empty()) {
    for (const auto& [key, file] : files) {
      if (!file.empty()) return wrong(key, "nothing uses it: set listen_tls too, a host and port");
    }
    return absl::OkStatus();
  }
  if (const auto where = ParseNetworkAddress(config.listen_tls); !where.ok()) {
    return wrong("listen_tls", where.status().message());
  }
  if (config.listen_cert.empty() || config.listen_key.empty()) {
    return wrong("listen_tls",
                 "set listen_cert and listen_key too, the files of a certificate for the name by "
                 "which clients call the daemon and of its private key");
  }
  if (config.listen_ca.empty() && config.listen_token_file.empty()) {
    return wrong("listen_tls",
                 "nobody would be kept out: set listen_ca, the file of the authority whose client "
                 "certificates let in, or listen_token_file, the file of a token, or both");
  }
  return absl::OkStatus();
}

absl::Status Check(const Config& config) {
  const auto at = [&](const char* key) { return config.sources.at(key); };
  if (const auto path = SocketPath(config.address); !path.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address (from ", at("address"), "): ", path.status().message(),
        IsTlsAddress(config.address) ? "; where to listen with TLS says listen_tls" : ""));
  }
  TENSORD_RETURN_IF_ERROR(CheckListen(config));
  if (config.store.empty() || config.store[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("store = '", config.store, "' (from ",
                                                   at("store"), "): an absolute path is needed"));
  }
  if (const auto where = HostAndPort(config.metrics_address);
      !config.metrics_address.empty() && !where.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("metrics_address (from ", at("metrics_address"),
                                                   "): ", where.status().message()));
  }
  if (const auto where = LoopbackAndPort(config.ui); !config.ui.empty() && !where.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ui (from ", at("ui"), "): ", where.status().message()));
  }
  if (config.confine != "auto" && config.confine != "off") {
    return absl::InvalidArgumentError(absl::StrCat("confine = '", config.confine, "' (from ",
                                                   at("confine"), "): auto or off is needed"));
  }
  for (const char* level : {"trace", "debug", "info", "warn", "error"}) {
    if (config.log_level == level) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log_level = '", config.log_level, "' (from ", at("log_level"),
                   "): one of trace, debug, info, warn, error is needed"));
}

}  // namespace

std::string Option::Flag() const {
  return absl::StrCat("--", absl::StrReplaceAll(key, {{"_", "-"}}));
}

const std::vector<Option>& Options() {
  using C = Config;
  static const auto* const options = new std::vector<Option>{
      {"address", "TENSORD_ADDRESS", Option::kText, &C::address, nullptr, 0, 0,
       "Unix socket to listen on: unix:/folder/name.sock"},
      {"store", "TENSORD_STORE", Option::kText, &C::store, nullptr, 0, 0,
       "folder of compiled programs"},
      {"store_limit", "TENSORD_STORE_LIMIT", Option::kBytes, nullptr, &C::store_limit, 0, kAny,
       "size at which old programs are evicted (0: never)"},
      {"cxx", "TENSORD_CXX", Option::kText, &C::cxx, nullptr, 0, 0, "the host's C++ compiler"},
      {"cxx_flags", "TENSORD_CXX_FLAGS", Option::kText, &C::cxx_flags, nullptr, 0, 0,
       "flags appended to the C++ compiler's"},
      {"nvrtc", "TENSORD_NVRTC", Option::kText, &C::nvrtc, nullptr, 0, 0,
       "NVRTC's library or its folder, for CUDA kernels (none: looked for)"},
      {"worker", "TENSORD_WORKER", Option::kText, &C::worker, nullptr, 0, 0,
       "path of tensord-worker"},
      {"workers", "TENSORD_WORKERS", Option::kNumber, nullptr, &C::workers, 0, 256,
       "worker processes at most (0: one per core, up to 8)"},
      {"worker_idle", nullptr, Option::kSeconds, nullptr, &C::worker_idle, 1, kYear,
       "seconds after which an idle worker is ended"},
      {"job_seconds", "TENSORD_JOB_SECONDS", Option::kSeconds, nullptr, &C::job_seconds, 1, 86400,
       "time limit of one job"},
      {"job_memory", "TENSORD_JOB_MEMORY", Option::kBytes, nullptr, &C::job_memory, 0, kAny,
       "memory of a worker and the compilers that it runs (0: no limit)"},
      {"confine", "TENSORD_CONFINE", Option::kText, &C::confine, nullptr, 0, 0,
       "walls around workers: auto or off"},
      {"max_waiting", nullptr, Option::kNumber, nullptr, &C::max_waiting, 1, 1'000'000,
       "compiles that may wait or be under way"},
      {"queue_seconds", "TENSORD_QUEUE_SECONDS", Option::kSeconds, nullptr, &C::queue_seconds, 1,
       86400, "how long a request may wait for its turn"},
      {"request_memory", nullptr, Option::kBytes, nullptr, &C::request_memory, 1 << 20, kAny,
       "bytes of requests held at once, beyond which large ones wait to be received"},
      {"frame_limit", nullptr, Option::kBytes, nullptr, &C::frame_limit, 1024, kLargestFrame,
       "size beyond which a frame is not kept"},
      {"frame_lease_seconds", nullptr, Option::kSeconds, nullptr, &C::frame_lease_seconds, 1, 3600,
       "how long processes wait for one that captures the same code"},
      {"stop_seconds", nullptr, Option::kSeconds, nullptr, &C::stop_seconds, 0, 3600,
       "time for work in flight when the daemon is told to stop"},
      {"idle_exit", "TENSORD_IDLE_EXIT", Option::kSeconds, nullptr, &C::idle_exit, 0, kYear,
       "end after this many seconds without a call (0: never)"},
      {"fleet", "TENSORD_FLEET", Option::kUrl, &C::fleet, nullptr, 0, 0,
       "what hosts share: file:///folder, redis[s]://user:password@host:port/database, "
       "grpc[s]://host:port/instance (none: nothing)"},
      {"fleet_sign_key", "TENSORD_FLEET_SIGN_KEY", Option::kText, &C::fleet_sign_key, nullptr, 0, 0,
       "file of the key that signs what is shared (none: nothing is given)"},
      {"fleet_trust", "TENSORD_FLEET_TRUST", Option::kText, &C::fleet_trust, nullptr, 0, 0,
       "file of the keys whose signatures are accepted (none: its own)"},
      {"fleet_password_file", "TENSORD_FLEET_PASSWORD_FILE", Option::kText, &C::fleet_password_file,
       nullptr, 0, 0, "file of the tier's password or token (none: the URL's)"},
      {"fleet_ca", "TENSORD_FLEET_CA", Option::kText, &C::fleet_ca, nullptr, 0, 0,
       "file of the authorities whose certificates count (none: the system's)"},
      {"fleet_expiry_seconds", nullptr, Option::kSeconds, nullptr, &C::fleet_expiry_seconds, 0,
       kYear, "how long Redis keeps what is given (0: for ever)"},
      {"fleet_answer_ms", nullptr, Option::kNumber, nullptr, &C::fleet_answer_ms, 1, 60'000,
       "milliseconds that a miss waits for the fleet's first answer"},
      {"fleet_lease_seconds", nullptr, Option::kSeconds, nullptr, &C::fleet_lease_seconds, 0, 3600,
       "how long hosts wait for one that compiles the same program (0: not)"},
      {"listen_tls", "TENSORD_LISTEN_TLS", Option::kText, &C::listen_tls, nullptr, 0, 0,
       "host and port to listen on with TLS beside the socket: 127.0.0.1:7464 (none: nowhere)"},
      {"listen_cert", "TENSORD_LISTEN_CERT", Option::kText, &C::listen_cert, nullptr, 0, 0,
       "file of the certificate for listen_tls, with those between it and its authority"},
      {"listen_key", "TENSORD_LISTEN_KEY", Option::kText, &C::listen_key, nullptr, 0, 0,
       "file of the certificate's private key"},
      {"listen_ca", "TENSORD_LISTEN_CA", Option::kText, &C::listen_ca, nullptr, 0, 0,
       "file of the authority whose client certificates let in (none: not asked for)"},
      {"listen_token_file", "TENSORD_LISTEN_TOKEN_FILE", Option::kText, &C::listen_token_file,
       nullptr, 0, 0, "file of the tokens, one a line, that let clients in (none: not asked for)"},
      {"metrics_address", "TENSORD_METRICS_ADDRESS", Option::kText, &C::metrics_address, nullptr, 0,
       0, "where Prometheus scrapes /metrics: 127.0.0.1:9464 (none: nowhere)"},
      {"ui", "TENSORD_UI", Option::kText, &C::ui, nullptr, 0, 0,
       "where a browser finds the daemon's page: 127.0.0.1:9465 (none: when tensorctl ui asks)"},
      {"log_file", "TENSORD_LOG_FILE", Option::kText, &C::log_file, nullptr, 0, 0,
       "rotating log file (none: standard error)"},
      {"log_level", "TENSORD_LOG_LEVEL", Option::kText, &C::log_level, nullptr, 0, 0,
       "trace, debug, info, warn or error"},
  };
  return *options;
}

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isdigit(text[end]) || text[end] == '.')) ++end;
  double number = 0;
  const std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(end)));
  static const std::map<std::string, double> kUnits = {
      {"", 1},         {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10}, {"kib", 0x1p10},
      {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},  {"gb", 0x1p30},
      {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40}};
  const auto scale = kUnits.find(unit);
  if (end == 0 || scale == kUnits.end() || !absl::SimpleAtod(text.substr(0, end), &number) ||
      number * scale->second > 0x1p62) {
    return absl::InvalidArgumentError("a size is needed, such as 512MB or 20GB");
  }
  return static_cast<uint64_t>(number * scale->second);
}

absl::StatusOr<Config> LoadConfig(const std::map<std::string, std::string>& flags,
                                  const std::string& file) {
  Config config;
  config.address = DefaultAddress();
  config.store = DefaultStore();
  config.worker = DefaultWorker();
  config.job_memory = DefaultJobMemory();
  for (const Option& option : Options()) config.sources[option.key] = "default";

  if (!file.empty()) {
    if (access(file.c_str(), R_OK) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read the configuration ", file));
    }
    TENSORD_RETURN_IF_ERROR(ReadToml(config, file));
  } else {
    for (const std::string& path : DefaultFiles()) {
      if (access(path.c_str(), R_OK) != 0) continue;
      TENSORD_RETURN_IF_ERROR(ReadToml(config, path));
      break;
    }
  }
  for (const Option& option : Options()) {
    const char* value = option.env == nullptr ? nullptr : std::getenv(option.env);
    if (value != nullptr && *value != '\0') {
      TENSORD_RETURN_IF_ERROR(Set(config, option, value, option.env));
    }
  }
  for (const Option& option : Options()) {
    if (const auto given = flags.find(option.key); given != flags.end()) {
      TENSORD_RETURN_IF_ERROR(Set(config, option, given->second, "flag " + option.Flag()));
    }
  }
  TENSORD_RETURN_IF_ERROR(Check(config));
  return config;
}

std::string PrintConfig(const Config& config) {
  std::string out;
  for (const Option& option : Options()) {
    std::string value =
        option.text != nullptr ? config.*option.text : absl::StrCat(config.*option.number);
    if (option.kind == Option::kUrl) value = WithoutPassword(value);
    if (option.text != nullptr) value = absl::StrCat("\"", value, "\"");
    absl::StrAppendFormat(&out, "%-20s = %-50s # %s\n", option.key, value,
                          config.sources.at(option.key));
  }
  return out;
}

}  // namespace tensord::server
