// SPDX-License-Identifier: Apache-2.0
// Many hosts of a fleet in one process, without daemons: they ask one tier at once for one program,
// which whoever is told to makes in a while. Prints one line of JSON. For tests/fleet.
#include <absl/synchronization/blocking_counter.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "server/fleet/open.h"
#include "tensord/v1/stats.pb.h"

namespace {

using tensord::Sha256;
using tensord::fleet::Blob;
using tensord::fleet::Fleet;
using tensord::fleet::FleetConfig;
using tensord::fleet::Name;
using tensord::fleet::Parcel;

// Blobs that hardly shrink, as kernels' binaries that are compressed already.
Parcel Program(size_t bytes, int blobs) {
  std::minstd_rand random(1);
  Parcel parcel;
  parcel.content = "a plan";
  for (int i = 0; i < blobs; ++i) {
    std::string blob(bytes / static_cast<size_t>(blobs), '\0');
    for (char& byte : blob) byte = static_cast<char>(random() >> 8);
    parcel.blobs.push_back({Sha256(blob), "", blob});
  }
  return parcel;
}

struct Tally {
  absl::Mutex mutex;
  int found = 0, compiled = 0, failed = 0;
  std::vector<double> seconds;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Hosts of a fleet that ask for one program at once.");
  FleetConfig config;
  int hosts = 50, blobs = 8, compile_ms = 1000, answer_ms = 200;
  size_t bytes = 1 << 20;
  app.add_option("url", config.url)->required();
  app.add_option("--key", config.sign_key)->required();
  app.add_option("--ca", config.ca);
  app.add_option("--password-file", config.password_file);
  app.add_option("--hosts", hosts);
  app.add_option("--bytes", bytes, "of the program");
  app.add_option("--blobs", blobs);
  app.add_option("--compile-ms", compile_ms);
  app.add_option("--answer-ms", answer_ms);
  CLI11_PARSE(app, argc, argv);
  signal(SIGPIPE, SIG_IGN);
  config.options.threads = 1;
  config.options.answer = absl::Milliseconds(answer_ms);

  const Parcel program = Program(bytes, blobs);
  const Name name{"program", Sha256(std::to_string(absl::ToUnixNanos(absl::Now())))};
  std::vector<std::unique_ptr<Fleet>> fleets;
  for (int i = 0; i < hosts; ++i) {
    auto fleet = tensord::fleet::OpenFleet(config);
    if (!fleet.ok()) {
      std::fprintf(stderr, "%s\n", std::string(fleet.status().message()).c_str());
      return 1;
    }
    fleets.push_back(*std::move(fleet));
  }
  Tally tally;
  absl::BlockingCounter left(hosts);
  std::vector<std::thread> compiling;
  const absl::Time start = absl::Now();
  for (const auto& fleet : fleets) {
    Fleet::Query query;
    query.name = name;
    query.lease = name;
    query.take = [](const Parcel& parcel) {
      return parcel.complete ? absl::OkStatus() : absl::NotFoundError("gone");
    };
    fleet->Find(query, [&, host = fleet.get()](const absl::Status& status) {
      absl::MutexLock lock(&tally.mutex);
      tally.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
      tally.found += status.ok();
      tally.failed += !status.ok() && !absl::IsNotFound(status);
      if (!status.ok()) {
        ++tally.compiled;
        compiling.emplace_back([&, host] {
          absl::SleepFor(absl::Milliseconds(compile_ms));
          host->Put(name, [&] { return program; });
        });
      }
      left.DecrementCount();
    });
  }
  left.Wait();
  for (std::thread& one : compiling) one.join();
  for (const auto& fleet : fleets) fleet->Flush(absl::Now() + absl::Seconds(30));
  uint64_t in = 0, out = 0, most = 0;
  for (const auto& fleet : fleets) {
    tensord::v1::Stats stats;
    fleet->FillStats(&stats);
    in += stats.fleet_bytes_in();
    out += stats.fleet_bytes_out();
    most = std::max<uint64_t>(most, stats.fleet_bytes_in());
  }
  std::sort(tally.seconds.begin(), tally.seconds.end());
  std::printf(
      "{\"hosts\": %d, \"program_bytes\": %zu, \"compiled\": %d, \"found\": %d, \"failed\": %d, "
      "\"median_s\": %.3f, \"last_s\": %.3f, \"bytes_in_each\": %.0f, \"bytes_in_most\": %llu, "
      "\"bytes_out\": %llu}\n",
      hosts, bytes, tally.compiled, tally.found, tally.failed,
      tally.seconds[tally.seconds.size() / 2], tally.seconds.back(),
      static_cast<double>(in) / hosts, static_cast<unsigned long long>(most),
      static_cast<unsigned long long>(out));
  for (const auto& fleet : fleets) fleet->Stop();
  return 0;
}
