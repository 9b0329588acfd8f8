// SPDX-License-Identifier: Apache-2.0
// What a worker may say: the input is its side of the socket, and the daemon compiles with it. A
// worker that compiles hostile graphs may have become anybody's.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/sha256.h"
#include "server/compile/compile_flow.h"
#include "server/statistics/metrics.h"
#include "tests/fuzz/targets/folder.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

// A daemon without RPC, whose workers say what a file has.
class Daemon {
 public:
  Daemon() {
    folder_ = MakeFolder();
    server::PoolOptions options;
    options.command.path = TENSORD_FUZZ_WORKER;
    options.command.args = {SaidPath()};
    options.job_limit = absl::Seconds(5);
    pool_ = std::make_unique<server::WorkerPool>(options, &metrics_);
    auto store = store::Store::Open({.root = folder_ + "/store", .limit_bytes = 8 << 20});
    TENSORD_CHECK(store.ok(), store.status().ToString());
    store_ = *std::move(store);
    flow_ = std::make_unique<server::CompileFlow>(pool_.get(), store_.get(), /*fleet=*/nullptr,
                                                  &metrics_, &board_, 4);
  }
  ~Daemon() {
    pool_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  absl::StatusOr<server::FlowOutput> Compile(std::string_view said) {
    std::string number;
    store::AppendU64(number, ++runs_);
    std::ofstream(SaidPath(), std::ios::binary | std::ios::trunc) << number << said;
    server::SpanLog spans("compile");
    server::FlowInput input;
    input.spans = &spans;
    input.target.mutable_cpu()->set_isa(v1::ISA_SCALAR);
    v1::CompileJob job;
    *job.mutable_target() = input.target;
    // Nodes that library calls may take the place of.
    for (const char* name : {"n0", "n1", "n2"}) {
      v1::Node& node = *job.mutable_graph()->add_nodes();
      node.set_name(name);
      node.set_op("aten::relu");
    }
    input.job = job.SerializeAsString();
    // Neither a program nor a kernel of an input before is this one's.
    input.program_key = key_ = Sha256(number);
    input.toolchain = number;
    return flow_->Run(input);
  }
  // What the store has of the last input.
  auto Stored() { return store_->Lookup(key_); }

 private:
  std::string SaidPath() const { return folder_ + "/said"; }

  std::string folder_;
  uint64_t runs_ = 0;
  std::string key_;
  server::Metrics metrics_;
  server::CompileBoard board_;
  std::unique_ptr<server::WorkerPool> pool_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<server::CompileFlow> flow_;
};

void Run(std::string_view input) {
  static Daemon daemon;
  const auto output = daemon.Compile(input);
  if (!output.ok()) {
    TENSORD_CHECK(!output.status().message().empty(), "an error without a word");
    return;
  }
  // What is answered is what the next one finds, with the blobs that it names.
  const auto record = daemon.Stored();
  TENSORD_CHECK(record.ok(), record.status().ToString());
  TENSORD_CHECK((*record)->payload == output->artifact.SerializeAsString());
  TENSORD_CHECK((*record)->blobs.size() == static_cast<size_t>(output->artifact.modules_size()));
  for (int i = 0; i < output->artifact.modules_size(); ++i) {
    TENSORD_CHECK(output->artifact.modules(i).sha256() == (*record)->blobs[i]);
  }
}

}  // namespace

const Target kWorkerTarget = {
    .name = "worker",
    .run = Run,
    .message = []() -> const google::protobuf::Message* {
      return &v1::WorkerReply::default_instance();
    },
    .framed = true,
};

}  // namespace tensord::fuzz
