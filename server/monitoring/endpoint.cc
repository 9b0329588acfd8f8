// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/endpoint.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "server/monitoring/families.h"

namespace tensord::server {
namespace {

class Statistics : public prometheus::Collectable {
 public:
  explicit Statistics(MetricsEndpoint::ReadStats read) : read_(std::move(read)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    v1::Stats stats;
    read_(&stats);
    return ToFamilies(stats);
  }

 private:
  const MetricsEndpoint::ReadStats read_;
};

// Connects to a host in numbers, and leaves.
void Knock(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(const std::string& address,
                                                                         ReadStats read) {
  std::unique_ptr<MetricsEndpoint> endpoint(
      new MetricsEndpoint(address.substr(0, address.rfind(':'))));
  // Two threads: one caller that says nothing holds its own for five seconds, and no scrape.
  const std::vector<std::string> options = {"listening_ports",    address, "num_threads", "2",
                                            "request_timeout_ms", "5000"};
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(options);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", error.what()));
  }
  endpoint->statistics_ = std::make_shared<Statistics>(std::move(read));
  endpoint->exposer_->RegisterCollectable(endpoint->statistics_);
  return endpoint;
}

MetricsEndpoint::MetricsEndpoint(std::string host) : host_(std::move(host)) {}

MetricsEndpoint::~MetricsEndpoint() {
  if (exposer_ == nullptr) return;
  // The server looks every two seconds whether it is to end, and when somebody comes: a daemon that
  // is told to stop would not wait so long.
  std::atomic<bool> ended{false};
  std::thread knocker([&, port = port()] {
    while (!ended) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Knock(host_, port);
    }
  });
  exposer_.reset();  // before what it reads
  ended = true;
  knocker.join();
}

int MetricsEndpoint::port() const { return exposer_->GetListeningPorts().at(0); }

}  // namespace tensord::server
