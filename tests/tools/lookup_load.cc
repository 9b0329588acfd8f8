// SPDX-License-Identifier: Apache-2.0
// Asks a daemon for one stored program over and over, from many connected clients:
//
//   lookup_load ADDRESS REQUEST [--clients N] [--threads N] [--seconds S]
//
// REQUEST is a file with a serialised CompileRequest whose program is stored. Every client has a
// connection of its own, and all stay connected; each thread makes one call after the other, with
// the next client each; without threads the clients are connected and do nothing. Prints one line
// of JSON: calls, their rate, and the microseconds of a call in the median and the 99th percentile.
// Exit status: 0; 1 where a call fails or is no hit; 2 usage.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensord/v1/service.grpc.pb.h"

namespace {

namespace v1 = tensord::v1;
using Clock = std::chrono::steady_clock;

std::unique_ptr<v1::Compiler::Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  constexpr std::chrono::seconds kPatience(30);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kPatience)) return nullptr;
  return v1::Compiler::NewStub(channel);
}

bool Ask(v1::Compiler::Stub& stub, const v1::CompileRequest& request) {
  grpc::ClientContext context;
  v1::CompileReply reply;
  const grpc::Status status = stub.Compile(&context, request, &reply);
  if (status.ok() && reply.outcome() == v1::CompileReply::HIT) return true;
  std::fprintf(stderr, "lookup_load: %s\n",
               status.ok() ? "the program is not stored" : status.error_message().c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Asks a daemon for one stored program over and over.", "lookup_load");
  std::string address, file;
  size_t clients = 1000, threads = 1;
  double seconds = 5;
  app.add_option("address", address, "unix:PATH")->required();
  app.add_option("request", file, "a serialised CompileRequest")->required();
  app.add_option("--clients", clients, "connected at once");
  app.add_option("--threads", threads, "calls at once");
  app.add_option("--seconds", seconds, "to go on for");
  CLI11_PARSE(app, argc, argv);

  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  v1::CompileRequest request;
  if (!in || !request.ParseFromString(bytes)) {
    std::fprintf(stderr, "lookup_load: %s is no CompileRequest\n", file.c_str());
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::vector<std::unique_ptr<v1::Compiler::Stub>> stubs;
  for (size_t i = 0; i < clients; ++i) {
    stubs.push_back(Connect(address));
    if (stubs.back() == nullptr) {
      std::fprintf(stderr, "lookup_load: client %zu cannot connect\n", i);
      return 1;
    }
  }

  std::atomic<bool> failed{false};
  std::vector<std::vector<double>> micros(threads);
  std::vector<std::thread> running;
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (size_t i = t; Clock::now() < end && !failed; i += threads) {
        const auto begin = Clock::now();
        if (!Ask(*stubs[i % clients], request)) failed = true;
        micros[t].push_back(
            std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      }
    });
  }
  if (threads == 0) std::this_thread::sleep_until(end);
  for (std::thread& thread : running) thread.join();
  if (failed || threads == 0) return failed ? 1 : 0;
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> all;
  for (const auto& some : micros) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  std::printf(
      "{\"clients\": %zu, \"threads\": %zu, \"calls\": %zu, \"per_second\": %.0f, "
      "\"median_us\": %.0f, \"p99_us\": %.0f}\n",
      clients, threads, all.size(), all.size() / elapsed, all[all.size() / 2],
      all[all.size() * 99 / 100]);
  return 0;
}
