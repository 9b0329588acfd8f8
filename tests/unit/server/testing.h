// SPDX-License-Identifier: Apache-2.0
// What the server's tests share: a temporary folder, the fake worker, small requests.
#ifndef TENSORD_TESTS_UNIT_SERVER_TESTING_H_
#define TENSORD_TESTS_UNIT_SERVER_TESTING_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "server/compile/compile_service.h"

namespace tensord::server {

// A sanitizer's shadow is address space, which no limit leaves room for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryCanBeLimited = false;
#else
inline constexpr bool kMemoryCanBeLimited = true;
#endif

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    char folder[] = "/tmp/tensord-server-test.XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("FAKE_WORKER_LOG", LogPath().c_str(), 1);
    unsetenv("FAKE_NO_CXX");
  }
  ~ServerTest() override { std::filesystem::remove_all(folder_); }

  std::string LogPath() const { return folder_ + "/worker.log"; }
  // Jobs that workers have done, in order.
  std::vector<std::string> Jobs() const {
    std::ifstream file(LogPath());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  int Jobs(const std::string& prefix) const {
    int count = 0;
    for (const std::string& job : Jobs()) count += job.rfind(prefix, 0) == 0;
    return count;
  }

  static PoolOptions Pool(int workers = 2) {
    PoolOptions options;
    options.command.path = FAKE_WORKER;
    options.workers = workers;
    options.job_limit = absl::Seconds(20);
    return options;
  }

  // A graph of one node for each operator; `order` tells the fake worker what to do.
  static v1::CompileRequest Request(const std::vector<std::string>& ops,
                                    const std::string& order = "") {
    v1::CompileRequest request;
    request.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
    for (const std::string& op : ops) request.mutable_graph()->add_nodes()->set_op(op);
    if (!ops.empty()) request.mutable_graph()->mutable_nodes(0)->set_name(order);
    request.set_label("test");
    return request;
  }

  // A request that looks expensive.
  static v1::CompileRequest ExpensiveRequest(const std::string& op, const std::string& order = "") {
    v1::CompileRequest request = Request({op}, order);
    for (int i = 1; i < kExpensiveNodes; ++i) request.mutable_graph()->add_nodes()->set_op(op);
    return request;
  }

  std::string folder_;
};

}  // namespace tensord::server

#endif  // TENSORD_TESTS_UNIT_SERVER_TESTING_H_
