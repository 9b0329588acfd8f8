// SPDX-License-Identifier: Apache-2.0
// `tensord-worker --action`, with the compiler: what it makes of a job is what a daemon publishes,
// wherever it runs.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <map>

#include "base/process.h"
#include "base/sha256.h"
#include "server/config/service_options.h"
#include "server/program/keys.h"
#include "tests/unit/server/remote_runner.h"
#include "tests/unit/server/remote_server.h"
#include "tests/unit/server/service_testing.h"
#include "tests/unit/testing/cuda_tests.h"

namespace tensord::server {
namespace action_test {

using ::testing::HasSubstr;
namespace reapi = fleet::reapi;

// y = tanh(x) and its sums, of 64 rows.
constexpr char kGraph[] = R"(
  inputs { name: "x" tensor { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CPU
    sizes { constant: 64 } sizes { constant: 48 } strides { constant: 48 } strides { constant: 1 }
    storage_offset { constant: 0 } } }
  nodes { name: "tanh" op: "aten::tanh" args { value { value: 0 } }
    outputs { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CPU
      sizes { constant: 64 } sizes { constant: 48 } strides { constant: 48 } strides { constant: 1 }
      storage_offset { constant: 0 } } }
  nodes { name: "sum" op: "aten::sum" overload: "dim_IntList" args { value { value: 1 } }
    args { list { items { integer { constant: 1 } } } } args { boolean: false } args { none: true }
    outputs { dtype: DTYPE_FLOAT32 device: DEVICE_TYPE_CPU
      sizes { constant: 64 } strides { constant: 1 } storage_offset { constant: 0 } } }
  outputs { value { value: 1 } }
  outputs { value { value: 2 } })";

void PutOnGpu(v1::TensorMeta* tensor) { tensor->set_device(v1::DEVICE_TYPE_CUDA); }

v1::CompileJob Job(bool on_gpu) {
  v1::CompileJob job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kGraph, job.mutable_graph()));
  if (!on_gpu) {
    job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_SCALAR);
    return job;
  }
  for (v1::Input& input : *job.mutable_graph()->mutable_inputs()) PutOnGpu(input.mutable_tensor());
  for (v1::Node& node : *job.mutable_graph()->mutable_nodes()) {
    for (v1::TensorMeta& output : *node.mutable_outputs()) PutOnGpu(&output);
  }
  v1::CudaTarget& cuda = *job.mutable_target()->mutable_cuda();
  cuda.set_sm(90);
  cuda.set_multiprocessors(132);
  cuda.set_shared_bytes_per_block(227 << 10);
  cuda.set_l2_bytes(50 << 20);
  cuda.set_registers_per_multiprocessor(65536);
  return job;
}

// Files below a folder, by their path there.
using Files = std::map<std::string, std::string>;
Files FilesIn(const std::string& folder) {
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), folder)] = *store::ReadFile(entry.path());
  }
  return files;
}

// Read before any test: those of the configuration change the environment.
const std::string kNvrtc = [] {
  const char* nvrtc = std::getenv("TENSORD_NVRTC");
  return std::string(nvrtc == nullptr ? "" : nvrtc);
}();

class ActionTest : public ServerTest {
 protected:
  // In a folder of its own with nothing but the job, and without this process's environment.
  ProcessResult Run(const std::string& name, const std::string& input,
                    const std::vector<std::string>& more = {}) {
    const std::string folder = folder_ + "/" + name;
    std::filesystem::create_directories(folder + "/tmp");
    std::ofstream(folder + "/job", std::ios::binary) << input;
    Command command;
    command.argv = {TENSORD_WORKER, "--action", "job", "out"};
    if (!kNvrtc.empty()) command.argv.push_back("--nvrtc=" + kNvrtc);
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    command.folder = folder;
    command.environment = {"PATH=/usr/bin:/bin", "TMPDIR=" + folder + "/tmp"};
    const auto result = RunProcess(std::move(command));
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(std::filesystem::is_empty(folder + "/tmp")) << "it leaves nothing behind";
    return *result;
  }
  Files Out(const std::string& name) { return FilesIn(folder_ + "/" + name + "/out"); }

  // What a daemon publishes of a job: its reply, and the binaries that its artifact names.
  struct Published {
    v1::CompileReply reply;
    std::map<std::string, std::string> binaries;  // by digest in hex
  };
  Published Publish(const v1::CompileJob& job) {
    Config config;
    config.worker = TENSORD_WORKER;
    config.nvrtc = kNvrtc;
    auto store = store::Store::Open({folder_ + "/store"});
    EXPECT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE(store::MakeFolder(WorkFolder(**store)).ok());
    const ServiceOptions options = MakeServiceOptions(config, **store, "");
    CompileService service(options, *std::move(store), "");
    v1::CompileRequest request;
    *request.mutable_graph() = job.graph();
    *request.mutable_target() = job.target();
    request.set_label("forward");
    Published published;
    absl::Notification done;
    service.Compile(request.SerializeAsString(), {}, &published.reply, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
    for (const v1::Module& module : published.reply.artifact().modules()) {
      const auto bytes = service.ReadBlob(module.sha256());
      EXPECT_TRUE(bytes.ok()) << bytes.status();
      published.binaries[ToHex(module.sha256())] = *bytes;
    }
    service.Abort();
    return published;
  }

  // Both are one program: the artifact to the last byte, and each binary.
  static void ExpectEqual(const Files& out, const Published& published) {
    v1::ActionProgram program;
    ASSERT_EQ(out.count("program"), 1u);
    ASSERT_TRUE(program.ParseFromString(out.at("program")));
    EXPECT_EQ(program.artifact().SerializeAsString(),
              published.reply.artifact().SerializeAsString());
    EXPECT_GE(program.artifact().modules_size(), 1);
    ASSERT_EQ(program.units_size(), program.artifact().modules_size());
    EXPECT_EQ(out.size(), 1 + published.binaries.size());
    for (const auto& [digest, binary] : published.binaries) {
      ASSERT_EQ(out.count("blobs/" + digest), 1u);
      EXPECT_EQ(out.at("blobs/" + digest), binary);
    }
    // Who takes it can tell that each kernel has the key of its source.
    for (int i = 0; i < program.units_size(); ++i) {
      EXPECT_EQ(MakeKernelKey(program.units(i), program.artifact().target(), program.toolchain())
                    .Digest(),
                program.artifact().modules(i).kernel_key());
    }
  }
};

TEST_F(ActionTest, MakesWhatADaemonPublishes) {
  for (const bool on_gpu : {false, true}) {
    if (on_gpu && tensord::testing::CudaTestsAreOff()) continue;
    const v1::CompileJob job = Job(on_gpu);
    const std::string name = on_gpu ? "gpu" : "cpu";
    const ProcessResult result = Run(name, job.SerializeAsString());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(result.output, "");
    ExpectEqual(Out(name), Publish(job));
  }
}

TEST_F(ActionTest, EqualInputsGiveEqualFiles) {
  for (const bool on_gpu : {false, true}) {
    if (on_gpu && tensord::testing::CudaTestsAreOff()) continue;
    v1::CompileJob job = Job(on_gpu);
    const std::string name = on_gpu ? "gpu" : "cpu";
    ASSERT_EQ(Run(name, job.SerializeAsString()).exit_code, 0);
    // What a daemon keeps of a failure is no input.
    job.set_failure("of a repro");
    job.add_library_nodes("tanh");
    ASSERT_EQ(Run("elsewhere/" + name, job.SerializeAsString()).exit_code, 0);
    EXPECT_EQ(Out(name), Out("elsewhere/" + name));
  }
}

TEST_F(ActionTest, WhatIsWrongIsSaidAndNothingIsMade) {
  v1::CompileJob job = Job(false);
  const ProcessResult rubbish = Run("rubbish", "\xff\xff");
  EXPECT_EQ(rubbish.exit_code, 2);
  EXPECT_THAT(rubbish.output, HasSubstr("job: INVALID_ARGUMENT: neither a CompileJob"));
  const ProcessResult bare = Run("bare", job.graph().SerializeAsString());
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_THAT(bare.output, HasSubstr("for which target"));
  const ProcessResult no_compiler = Run("none", job.SerializeAsString(), {"--cxx=/none"});
  EXPECT_EQ(no_compiler.exit_code, 1);
  EXPECT_THAT(no_compiler.output, HasSubstr("FAILED_PRECONDITION"));
  job.mutable_graph()->mutable_nodes(0)->set_op("aten::none");
  job.mutable_graph()->mutable_nodes(1)->mutable_args(0)->mutable_value()->set_value(7);
  const ProcessResult malformed = Run("malformed", job.SerializeAsString());
  EXPECT_EQ(malformed.exit_code, 1);
  EXPECT_THAT(malformed.output, HasSubstr("INVALID_ARGUMENT: node "));
  for (const char* name : {"rubbish", "bare", "none", "malformed"}) {
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + name + "/out")) << name;
  }
  std::filesystem::create_directories(folder_ + "/full/out/before");
  const ProcessResult full = Run("full", Job(false).SerializeAsString());
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_THAT(full.output, HasSubstr("out: INVALID_ARGUMENT: it is there already"));
}

// The whole way: input tree, command and action into a content-addressed storage, run by who knows
// no more than the action's digest, and back as its result.
TEST_F(ActionTest, RunsAsAnActionOfTheRemoteExecutionApi) {
  const v1::CompileJob job = Job(false);
  fleet::RemoteServer server;
  server.capabilities.mutable_cache_capabilities()->set_max_batch_total_size_bytes(1 << 20);
  const auto options = fleet::ParseRemoteUrl(absl::StrCat("grpc://127.0.0.1:", server.port));
  ASSERT_TRUE(options.ok()) << options.status();
  const auto soon = [] { return absl::Now() + absl::Minutes(1); };
  const auto session = fleet::RemoteSession::Open(*options, soon());
  ASSERT_TRUE(session.ok()) << session.status();

  std::vector<std::string> bytes;  // of what is put
  bytes.reserve(5);
  std::vector<fleet::RemoteBlob> blobs;
  const auto add = [&](std::string blob) {
    bytes.push_back(std::move(blob));
    blobs.push_back({fleet::DigestOf(bytes.back()), bytes.back()});
    return blobs.back().digest;
  };
  reapi::Directory root;  // files in the order of their names, as the API wants it
  reapi::FileNode& in = *root.add_files();
  in.set_name("job");
  *in.mutable_digest() = add(job.SerializeAsString());
  reapi::FileNode& worker = *root.add_files();
  worker.set_name("tensord-worker");
  worker.set_is_executable(true);
  *worker.mutable_digest() = add(*store::ReadFile(TENSORD_WORKER));
  reapi::Command command;
  for (const char* word : {"./tensord-worker", "--action", "job", "out"}) {
    command.add_arguments(word);
  }
  reapi::Command::EnvironmentVariable& path = *command.add_environment_variables();
  path.set_name("PATH");
  path.set_value("/usr/bin:/bin");
  command.add_output_paths("out");
  reapi::Action action;
  *action.mutable_input_root_digest() = add(root.SerializeAsString());
  *action.mutable_command_digest() = add(command.SerializeAsString());
  const reapi::Digest digest = add(action.SerializeAsString());
  const absl::Status put = fleet::WriteMissingBlobs(**session, blobs, soon());
  ASSERT_TRUE(put.ok()) << put;

  const std::string printed = fleet::RemoteRunner(session->get(), folder_ + "/runner").Run(digest);
  EXPECT_EQ(printed, "");

  reapi::GetActionResultRequest request;
  *request.mutable_action_digest() = digest;
  reapi::ActionResult result;
  ASSERT_TRUE((*session)
                  ->results()
                  .GetActionResult((*session)->Context(soon()).get(), request, &result)
                  .ok());
  EXPECT_EQ(result.exit_code(), 0);
  Files out;
  for (const reapi::OutputFile& file : result.output_files()) {
    const auto read = fleet::ReadBlobs(**session, {file.digest()}, soon());
    ASSERT_TRUE(read.ok()) << read.status();
    out[file.path().substr(std::string("out/").size())] = read->at(file.digest().hash());
    // A kernel has one digest in the storage, in the artifact and in a daemon's store.
    if (file.path() != "out/program") {
      EXPECT_EQ(file.path(), "out/blobs/" + file.digest().hash());
    }
  }
  ExpectEqual(out, Publish(job));
}

}  // namespace action_test
}  // namespace tensord::server
