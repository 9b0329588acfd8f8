// SPDX-License-Identifier: Apache-2.0
// GET /metrics over HTTP: what Prometheus scrapes.
#ifndef TENSORD_SERVER_MONITORING_ENDPOINT_H_
#define TENSORD_SERVER_MONITORING_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "tensord/v1/stats.pb.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace tensord::server {

class MetricsEndpoint {
 public:
  using ReadStats = std::function<void(v1::Stats*)>;

  // Serves what `read` says at each scrape until it is destroyed; `read` is called by threads of
  // its own. `address`: as HostAndPort gives it; of port 0 some free one is taken. Unavailable:
  // nothing can listen there.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const std::string& address,
                                                                 ReadStats read);
  ~MetricsEndpoint();
  int port() const;

 private:
  explicit MetricsEndpoint(std::string host);

  const std::string host_;
  std::shared_ptr<prometheus::Collectable> statistics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_MONITORING_ENDPOINT_H_
