// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/endpoint.h"

#include <absl/strings/str_cat.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>
#include <vector>

#include "server/http/end_at_once.h"
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
  EndAtOnce(host_, port(), [this] { exposer_.reset(); });  // before what it reads
}

int MetricsEndpoint::port() const { return exposer_->GetListeningPorts().at(0); }

}  // namespace tensord::server
