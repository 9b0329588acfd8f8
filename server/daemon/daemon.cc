// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/daemon.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <fcntl.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/process.h"
#include "base/version.h"
#include "server/config/fleet_settings.h"
#include "server/config/service_options.h"
#include "server/daemon/activation.h"
#include "server/daemon/fill_stats.h"
#include "server/daemon/large_rpc.h"
#include "server/daemon/last_resort.h"
#include "server/daemon/network_port.h"
#include "server/daemon/page_questions.h"
#include "server/daemon/rpc_service.h"
#include "server/fleet/open.h"
#include "server/monitoring/endpoint.h"
#include "server/rpc/address.h"
#include "server/rpc/host_and_port.h"

namespace tensord::server {
namespace {

constexpr int kMaxReplyBytes = 256 << 20;
// Folders of one daemon's alone, beside its socket, begin so, and end with its process's number:
// where kernels are made while the store's disk is full, and a store in place of one of no use. Of
// daemons that have died they are removed: no other folder may have such a name.
constexpr char kSpare[] = "jit-";
constexpr char kPrivate[] = "private-store-";
constexpr absl::Duration kFlush = absl::Seconds(5);
// What a stop may take beside these: writing down what jobs used, ending threads.
constexpr absl::Duration kRestOfStop = absl::Seconds(10);

absl::Status SetUpLog(const Config& config) {
  try {
    auto log = config.log_file.empty()
                   ? spdlog::stderr_logger_mt("tensord")
                   : spdlog::rotating_logger_mt("tensord", config.log_file, 16 << 20, 3);
    log->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e level=%l %v");
    log->set_level(spdlog::level::from_str(config.log_level));
    log->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(log));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::InvalidArgumentError(absl::StrCat("log_file: ", error.what()));
  }
  return absl::OkStatus();
}

// Holds the right to serve one socket: a lock on <socket>.lock, which stays when the daemon ends
// (removing a lock file lets two processes lock two files of one name).
class SocketLock {
 public:
  // AlreadyExists: another daemon has it.
  static absl::StatusOr<SocketLock> Take(const std::string& socket) {
    const std::string path = socket + ".lock";
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      if (error == EWOULDBLOCK) {
        return absl::AlreadyExistsError(absl::StrCat("another daemon serves ", socket));
      }
      return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", path));
    }
    const std::string pid = absl::StrCat(getpid(), "\n");
    if (ftruncate(fd, 0) != 0 || write(fd, pid.data(), pid.size()) < 0) {
      // The number is for people; the lock is what counts.
    }
    return SocketLock(fd);
  }
  SocketLock(SocketLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~SocketLock() {
    if (fd_ >= 0) close(fd_);
  }
  // Another daemon may serve the socket, although this process still has the file open.
  void Release() const { flock(fd_, LOCK_UN); }

 private:
  explicit SocketLock(int fd) : fd_(fd) {}
  int fd_;
};

// The socket's folder, ours and closed to others. A folder that was there before (one that a
// service manager made) only has to be ours and not writable by others.
absl::Status PrepareFolder(const std::string& socket) {
  const std::string folder = socket.substr(0, socket.rfind('/'));
  TENSORD_RETURN_IF_ERROR(store::MakeFolder(folder));
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        folder, " must be a folder of this user that others cannot write to: chmod 700 it"));
  }
  return absl::OkStatus();
}

struct OpenedStore {
  std::unique_ptr<store::Store> store;
  std::string problem;   // why it is not the configured one
  std::string private_;  // its folder, to be removed at the end; or empty
};

// The configured store, or a private one that ends with the daemon: compiling still works, only
// nothing is kept.
absl::StatusOr<OpenedStore> OpenStore(const Config& config, const std::string& runtime_folder) {
  OpenedStore opened;
  store::StoreOptions options;
  options.root = config.store;
  options.limit_bytes = config.store_limit;
  options.background = true;
  options.warn = [](const std::string& text) { spdlog::warn("event=store text=\"{}\"", text); };
  auto store = store::Store::Open(options);
  if (store.ok()) {
    opened.store = *std::move(store);
    return opened;
  }
  opened.problem = absl::StrCat("the configured store is not in use: ", store.status().message());
  opened.private_ = absl::StrCat(runtime_folder, "/", kPrivate, getpid());
  spdlog::warn(
      "event=store_fallback configured=\"{}\" using=\"{}\" why=\"{}\" "
      "effect=\"programs are lost when this daemon ends\"",
      config.store, opened.private_, opened.problem);
  options.root = opened.private_;
  TENSORD_ASSIGN_OR_RETURN(opened.store, store::Store::Open(options));
  return opened;
}

// Null: none is configured.
absl::StatusOr<std::unique_ptr<fleet::Fleet>> OpenFleet(const Config& config) {
  if (config.fleet.empty()) return nullptr;
  return fleet::OpenFleet(FleetSettings(config));
}

// Null: none is wanted.
absl::StatusOr<std::unique_ptr<NetworkPort>> OpenNetworkPort(const Config& config,
                                                             Metrics* metrics) {
  if (config.listen_tls.empty()) return nullptr;
  return NetworkPort::Open(config, metrics);
}

// Null: none is wanted, or its place is taken, which is no reason not to compile.
std::unique_ptr<MetricsEndpoint> ServeMetrics(const Config& config, CompileService& service,
                                              FrameService& frames) {
  if (config.metrics_address.empty()) return nullptr;
  const std::string address = *HostAndPort(config.metrics_address);
  auto endpoint = MetricsEndpoint::Listen(
      address, [&](v1::Stats* stats) { FillStats(service, frames, stats); });
  if (!endpoint.ok()) {
    spdlog::error("event=metrics_failed error=\"{}\" effect=\"Prometheus finds nothing here\"",
                  std::string(endpoint.status().message()));
    return nullptr;
  }
  spdlog::info("event=metrics address={} port={}", address, (*endpoint)->port());
  return *std::move(endpoint);
}

// A place that is taken is no reason not to compile. Who may read the page asks tensorctl for its
// token: logs are read by others.
void ServePage(Page& page, const std::string& address) {
  if (const auto url = page.Open(); !url.ok()) {
    spdlog::error("event=page_failed error=\"{}\" effect=\"there is no page\"",
                  std::string(url.status().message()));
    return;
  }
  spdlog::info("event=page address={}", address);
}

// A client takes a descriptor; the soft limit is often lower than what a thousand need.
void RaiseDescriptorLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Sleeps until a signal, or until nobody has called for `idle_exit` seconds (0: for ever).
std::string WaitForEnd(const sigset_t& signals, uint64_t idle_exit, const CallCounts& calls) {
  while (true) {
    if (idle_exit == 0) {
      const int signal = sigwaitinfo(&signals, nullptr);
      if (signal > 0) return strsignal(signal);
      continue;
    }
    const auto end = calls.last.load() + std::chrono::seconds(idle_exit);
    const absl::Duration left = absl::FromChrono(end - CallCounts::Clock::now());
    if (left <= absl::ZeroDuration() && calls.open == 0) return "idle";
    // What is open when the time is up is looked at each second.
    const timespec wait = absl::ToTimespec(left > absl::ZeroDuration() ? left : absl::Seconds(1));
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0) return strsignal(signal);
  }
}

// Finishes what is in flight, up to the limit or the next signal; then fails it. What is stored is
// still served meanwhile. New work waits and is refused at the end, when its client can ask the
// next daemon.
void StopGracefully(grpc::Server& server, std::unique_ptr<Acceptor> acceptor,
                    std::unique_ptr<OwnSocket> own, CompileService& service, FrameService& frames,
                    fleet::Fleet* fleet, const CallCounts& calls, const sigset_t& signals,
                    uint64_t stop_seconds) {
  // Who asks for the daemon's health learns it at once; who calls is still answered.
  server.GetHealthCheckService()->SetServingStatus(false);
  service.Drain();
  frames.Stop();
  const auto limit = CallCounts::Clock::now() + std::chrono::seconds(stop_seconds);
  constexpr timespec kTick{0, 20'000'000};
  while (calls.open > service.Kept() && CallCounts::Clock::now() < limit) {
    if (sigtimedwait(&signals, nullptr, &kTick) > 0) break;
  }
  // Who calls from now on waits for the next daemon, in the queue of a socket that was passed.
  if (own == nullptr) acceptor.reset();
  if (calls.open > service.Kept()) spdlog::warn("event=abort calls={}", calls.open.load());
  service.jobs()->Flush();
  // What was compiled a moment ago is worth a moment to others.
  if (fleet != nullptr) fleet->Flush(absl::Now() + std::min(absl::Seconds(stop_seconds), kFlush));
  service.Abort();
  acceptor.reset();
  own.reset();
  // Time for the last answers to leave. A client that only keeps its connection open does not
  // notice a polite goodbye, so this is not the place to wait long.
  server.Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
}

int Fail(const char* event, const absl::Status& status) {
  spdlog::error("event={} error=\"{}\"", event, status.ToString());
  return kExitError;
}

// Listens on `network`, unless it is null; a socket's connections are handed to it (Acceptor).
// Unavailable: it cannot.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(NetworkPort* network, grpc::Service& rpc,
                                                          LargeRpc& large) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (network != nullptr) network->AddTo(builder);
  builder.RegisterService(&rpc);
  builder.RegisterCallbackGenericService(&large);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetMaxSendMessageSize(kMaxReplyBytes);
  // Clients ask once a second whether a call's daemon still lives (HelloReply.answers_pings).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // Only reflection is synchronous: one thread for it, which need not look up often.
  using Sync = grpc::ServerBuilder::SyncServerOption;
  builder.SetSyncServerOption(Sync::NUM_CQS, 1)
      .SetSyncServerOption(Sync::MIN_POLLERS, 1)
      .SetSyncServerOption(Sync::MAX_POLLERS, 1)
      .SetSyncServerOption(Sync::CQ_TIMEOUT_MSEC, 3600 * 1000);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr) return server;
  return absl::UnavailableError(network == nullptr
                                    ? "gRPC cannot start a server"
                                    : absl::StrCat("cannot listen on ", network->ToString(),
                                                   " (listen_tls): is the port taken?"));
}

}  // namespace

int RunDaemon(const Config& config) {
  // Few threads allocate much: more arenas would only hold memory.
  mallopt(M_ARENA_MAX, 2);
  umask(077);
  RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();
  if (const absl::Status status = SetUpLog(config); !status.ok()) {
    return Fail("log_failed", status);
  }
  const auto passed = TakePassedSocket();
  if (!passed.ok()) return Fail("start_failed", passed.status());
  const std::string socket = passed->has_value() ? (*passed)->path : *SocketPath(config.address);
  if (const absl::Status status = PrepareFolder(socket); !status.ok()) {
    return Fail("start_failed", status);
  }
  const auto lock = SocketLock::Take(socket);
  if (absl::IsAlreadyExists(lock.status())) {
    spdlog::error("event=already_running socket={} exit={}", socket, kExitAlreadyRunning);
    return kExitAlreadyRunning;
  }
  if (!lock.ok()) return Fail("start_failed", lock.status());

  std::optional<LastResort> last_resort;  // of a stop, which ends with everything below
  const std::string runtime_folder = socket.substr(0, socket.rfind('/'));
  auto opened = OpenStore(config, runtime_folder);
  if (!opened.ok()) return Fail("store_failed", opened.status());
  const std::string store_root = opened->store->root();
  const std::string work_folder = WorkFolder(*opened->store);
  for (const char* prefix : {kSpare, kPrivate}) RemoveFoldersOfTheDead(runtime_folder, prefix);
  const std::string spare_folder = absl::StrCat(runtime_folder, "/", kSpare, getpid());
  const absl::Cleanup remove_folders = [&] {
    std::error_code ignored;
    std::filesystem::remove_all(spare_folder, ignored);
    if (!opened->private_.empty()) std::filesystem::remove_all(opened->private_, ignored);
  };
  for (const std::string& folder : {work_folder, spare_folder}) {
    const absl::Status status = store::MakeFolder(folder);
    if (!status.ok() && !absl::IsResourceExhausted(status)) return Fail("store_failed", status);
  }

  const auto fleet = OpenFleet(config);
  if (!fleet.ok()) return Fail("fleet_failed", fleet.status());

  CallCounts calls;
  {
    const ServiceOptions options = MakeServiceOptions(config, *opened->store, spare_folder);
    CompileService service(options, std::move(opened->store), opened->problem, fleet->get());
    FrameService frames({.lease = absl::Seconds(config.frame_lease_seconds),
                         .most_bytes = config.frame_limit,
                         .max_waiting = config.max_waiting,
                         .most_waiting_bytes = options.request_memory / 4},
                        service.store(), service.metrics(), fleet->get(), service.jobs(),
                        service.processes());
    const auto metrics = ServeMetrics(config, service, frames);
    Page page(AskServices(&service, &frames), config.ui);
    if (!config.ui.empty()) ServePage(page, config.ui);
    const auto rpc = MakeRpcService(&service, &frames, &page, &calls);
    LargeRpc large(&service, &calls, options.queue_limit);
    const auto network = OpenNetworkPort(config, service.metrics());
    if (!network.ok()) return Fail("start_failed", network.status());
    const auto server = StartServer(network->get(), *rpc, large);
    if (!server.ok()) return Fail("start_failed", server.status());
    std::unique_ptr<OwnSocket> own;
    if (!passed->has_value()) {
      auto listening = OwnSocket::Listen(socket);
      if (!listening.ok()) return Fail("start_failed", listening.status());
      own = *std::move(listening);
    } else if (chmod(socket.c_str(), 0600) != 0) {
      return Fail("start_failed", absl::ErrnoToStatus(errno, "chmod " + socket));
    }
    auto acceptor =
        std::make_unique<Acceptor>(server->get(), own == nullptr ? (*passed)->fd : own->fd());
    if (*network != nullptr) {
      spdlog::info("event=listening address={} asks_for=\"{}\"", (*network)->ToString(),
                   (*network)->asks_for());
    }
    spdlog::info("event=started version={} pid={} socket={} store=\"{}\" workers={} cxx=\"{}\"",
                 Version(), getpid(), socket, store_root, options.pool.workers, config.cxx);
    calls.Called();  // nobody could before
    service.PrepareGreeting();
    const std::string why = WaitForEnd(signals, config.idle_exit, calls);
    last_resort.emplace(absl::Seconds(config.stop_seconds) + kFlush + kRestOfStop,
                        [&lock, listener = own == nullptr ? -1 : own->fd()] {
                          if (listener >= 0) shutdown(listener, SHUT_RDWR);
                          lock->Release();
                        });
    spdlog::info("event=stopping why=\"{}\" calls={}", why, calls.open.load());
    StopGracefully(**server, std::move(acceptor), std::move(own), service, frames, fleet->get(),
                   calls, signals, config.stop_seconds);
  }
  spdlog::info("event=stopped");
  return kExitOk;
}

}  // namespace tensord::server
