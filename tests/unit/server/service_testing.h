// SPDX-License-Identifier: Apache-2.0
// A CompileService with a fake worker, and requests to it.
#ifndef TENSORD_TESTS_UNIT_SERVER_SERVICE_TESTING_H_
#define TENSORD_TESTS_UNIT_SERVER_SERVICE_TESTING_H_

#include <absl/synchronization/notification.h>

#include <memory>
#include <string>
#include <utility>

#include "server/compile/compile_service.h"
#include "tests/unit/server/testing.h"

namespace tensord::server {

class ServiceTest : public ServerTest {
 protected:
  std::unique_ptr<CompileService> Open(PoolOptions pool = Pool(), uint64_t max_waiting = 100,
                                       absl::Duration queue_limit = absl::Seconds(60)) {
    ServiceOptions options;
    options.pool = std::move(pool);
    options.cxx = "c++";
    options.max_waiting = max_waiting;
    options.queue_limit = queue_limit;
    auto store = store::Store::Open({folder_ + "/store"});
    EXPECT_TRUE(store.ok()) << store.status();
    return std::make_unique<CompileService>(options, *std::move(store), "");
  }

  struct Answer {
    v1::CompileReply reply;
    absl::Status status;
    absl::Notification done;
  };
  static std::unique_ptr<Answer> Send(CompileService& service, const v1::CompileRequest& request) {
    auto answer = std::make_unique<Answer>();
    service.Compile(request.SerializeAsString(), {}, &answer->reply,
                    [a = answer.get()](absl::Status status) {
                      a->status = std::move(status);
                      a->done.Notify();
                    });
    return answer;
  }
  static std::unique_ptr<Answer> Compile(CompileService& service,
                                         const v1::CompileRequest& request) {
    auto answer = Send(service, request);
    answer->done.WaitForNotification();
    return answer;
  }
};

}  // namespace tensord::server

#endif  // TENSORD_TESTS_UNIT_SERVER_SERVICE_TESTING_H_
