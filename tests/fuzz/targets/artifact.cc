// SPDX-License-Identifier: Apache-2.0
// An artifact as a job is handed it: it loads or is refused, and what loads runs or fails by an
// error, on inputs as it says them. Its kernels do nothing; torch is the unit tests' fake.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sha256.h"
#include "tensord/runtime.h"
#include "tensord/v1/artifact.pb.h"
#include "tests/fuzz/targets/folder.h"
#include "tests/fuzz/targets/target.h"
#include "tests/unit/runtime/fake_torch.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr double kMostElements = 1 << 16;  // of an input that is made
constexpr int kMostSteps = 1000;           // of a program that is run

// Of operators, of which nothing is known here: results like the first tensor that they take.
int CallOperator(void*, const TensordOperatorCall* call) {
  const TensordValue* end = call->args + call->num_args;
  const TensordValue* like = std::find_if(
      call->args, end, [](const TensordValue& value) { return value.kind == TENSORD_TENSOR; });
  for (size_t i = 0; i < call->num_results; ++i) {
    call->results[i] =
        like != end ? testing::CloneFake(like->tensor) : testing::NewFake({2, 3}, testing::kCpu);
  }
  return 0;
}

// What a job has: the blobs of a store, which are a shared object with the function "nothing", and
// a bridge to torch.
class Job {
 public:
  Job() {
    std::ifstream file(TENSORD_FUZZ_KERNELS, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    TENSORD_CHECK(!content.empty(), TENSORD_FUZZ_KERNELS);
    digest_ = Sha256(content);
    folder_ = MakeFolder();
    const std::string hex = ToHex(digest_);
    fs::create_directory(folder_ + "/" + hex.substr(0, 2));
    const std::string blob = folder_ + "/" + hex.substr(0, 2) + "/" + hex;
    std::ofstream(blob, std::ios::binary) << content;
    fs::permissions(blob, fs::perms::owner_read);
    tensord_set_operator_caller(CallOperator, nullptr);
  }
  ~Job() { fs::remove_all(folder_); }

  const std::string& folder() const { return folder_; }
  const std::string& digest() const { return digest_; }

 private:
  std::string folder_, digest_;
};

// Kernels and operators that there are: what an artifact says of its own cannot be had.
void ReplaceWork(const Job& job, v1::Artifact* artifact) {
  for (v1::Module& module : *artifact->mutable_modules()) {
    if (module.sha256().empty()) continue;  // seeds have digests; mutations leave them out
    module.set_sha256(job.digest());
    module.set_size(0);
  }
  for (v1::Step& step : *artifact->mutable_steps()) {
    if (step.has_launch()) step.mutable_launch()->set_function("nothing");
    // Not by torch's stable interface, which the fake torch has not.
    if (step.has_call() && !step.call().into_out()) step.mutable_call()->set_overload("fuzzed");
  }
}

// At the symbols' hints; -1: by an operation.
int64_t ValueOf(const v1::Artifact& artifact, const v1::SymExpr& size) {
  if (size.kind_case() == v1::SymExpr::kConstant) return size.constant();
  if (size.kind_case() != v1::SymExpr::kSymbol) return -1;
  if (size.symbol() >= static_cast<uint32_t>(artifact.symbols_size())) return -1;
  return artifact.symbols(static_cast<int>(size.symbol())).hint();
}

int32_t DTypeOf(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_INT64:
      return testing::kInt64;
    case v1::DTYPE_BFLOAT16:
      return testing::kBfloat16;
    default:
      return testing::kFloat32;
  }
}

// Inputs as they are declared, as far as such can be made; false: they cannot.
bool MakeInputs(const v1::Artifact& artifact, std::vector<TensordValue>* inputs) {
  for (const v1::Input& input : artifact.inputs()) {
    TensordValue value = {.kind = TENSORD_INT, .integer = 0, .size = 0};
    if (!input.has_tensor()) {
      value.integer = ValueOf(artifact, input.size());
    } else {
      std::vector<int64_t> sizes;
      double count = 1;
      for (const v1::SymExpr& size : input.tensor().sizes()) {
        sizes.push_back(ValueOf(artifact, size));
        if (sizes.back() < 0) return false;
        count *= static_cast<double>(sizes.back());
      }
      if (count > kMostElements) return false;
      value.kind = TENSORD_TENSOR;
      value.tensor =
          testing::NewFake(sizes, testing::kCpu, 0, {}, 0, DTypeOf(input.tensor().dtype()));
    }
    inputs->push_back(value);
  }
  return true;
}

// A program's inputs are its to drop where they were given; these are not.
void Delete(const std::vector<TensordValue>& values) {
  for (const TensordValue& value : values) {
    if (value.kind == TENSORD_TENSOR && value.tensor != nullptr) testing::Delete(value.tensor);
  }
}

void RunProgram(const v1::Artifact& artifact, TensordProgram* program) {
  std::vector<TensordValue> inputs;
  if (MakeInputs(artifact, &inputs)) {
    int64_t whole = 0, least = 0;
    tensord_program_workspace(program, inputs.data(), inputs.size(), &whole, &least);
    std::vector<TensordValue> outputs(tensord_program_num_outputs(program));
    if (tensord_program_run(program, inputs.data(), inputs.size(), outputs.data(),
                            outputs.size()) == TENSORD_OK) {
      Delete(outputs);
    } else {
      TENSORD_CHECK(*tensord_last_error() != '\0', "an error without a word");
    }
  }
  Delete(inputs);
}

void Run(std::string_view input) {
  static const Job job;
  TensordProgram* program = nullptr;
  v1::Artifact artifact;
  if (!artifact.ParseFromArray(input.data(), static_cast<int>(input.size()))) {
    TENSORD_CHECK(tensord_program_load(input.data(), input.size(), job.folder().c_str(),
                                       &program) != TENSORD_OK);
    return;
  }
  ReplaceWork(job, &artifact);
  const std::string bytes = artifact.SerializeAsString();
  if (tensord_program_load(bytes.data(), bytes.size(), job.folder().c_str(), &program) !=
      TENSORD_OK) {
    TENSORD_CHECK(program == nullptr && *tensord_last_error() != '\0');
  } else {
    if (artifact.steps_size() <= kMostSteps) RunProgram(artifact, program);
    tensord_program_release(program);
  }
  // The thread keeps its last workspace.
  TENSORD_CHECK(testing::Fake().live_tensors <= 1, "tensors are left");
}

}  // namespace

const Target kArtifactTarget = {
    .name = "artifact",
    .run = Run,
    .message = []() -> const google::protobuf::Message* {
      return &v1::Artifact::default_instance();
    },
};

}  // namespace tensord::fuzz
