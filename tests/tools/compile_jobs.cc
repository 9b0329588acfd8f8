// SPDX-License-Identifier: Apache-2.0
// Compiles stored jobs and says what came of each, to compare two builds of the compiler:
//
//   compile_jobs [--write FOLDER] [--stages] FILE...
//
// Each file is a serialised CompileJob (worker.proto), as the daemon keeps them in <store>/repros/.
// Prints a line a file: its name, a digest of the result without its times (or the error), and the
// milliseconds of the whole compile. With --stages the time of each stage over all jobs follows, in
// milliseconds. With --write the results are written as text, one file a job.
// Exit status: 0, or 2 where a file cannot be read; a graph that does not compile is no error here.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "compiler/compile.h"

namespace {

namespace v1 = tensord::v1;

// Equal messages have equal bytes.
std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  return bytes;
}

// The plan as text, then the sources as they are.
std::string Text(const v1::CompileResult& result) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(result.artifact(), &text);
  for (const std::string& note : result.fusion_notes()) text += note + "\n";
  for (const v1::KernelUnit& unit : result.units()) {
    text += "\n==== " + unit.description() + "\n" + unit.source();
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compiles stored jobs and says what came of each.", "compile_jobs");
  std::vector<std::string> files;
  std::string folder;
  bool with_stages = false;
  std::map<std::string, double> stages;
  app.add_option("files", files, "serialised CompileJobs")->required();
  app.add_option("--write", folder, "for the results as text");
  app.add_flag("--stages", with_stages, "print the time of each stage");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream content;
    content << in.rdbuf();
    v1::CompileJob job;
    if (!in || !job.ParseFromString(content.str())) {
      std::fprintf(stderr, "%s: not a serialised CompileJob\n", file.c_str());
      return 2;
    }
    const std::string name = std::filesystem::path(file).stem().string();
    const auto start = std::chrono::steady_clock::now();
    auto result = tensord::compiler::Compile(job);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    if (!result.ok()) {
      std::printf("%s %s %.1f\n", name.c_str(), result.status().ToString().c_str(), taken.count());
      continue;
    }
    for (const v1::StageTime& stage : result->stages()) {
      stages[stage.stage()] += static_cast<double>(stage.nanoseconds()) / 1e6;
    }
    result->clear_stages();
    std::printf("%s %s %.1f\n", name.c_str(),
                tensord::ToHex(tensord::Sha256(Bytes(*result))).c_str(), taken.count());
    if (!folder.empty())
      std::ofstream(std::filesystem::path(folder) / (name + ".txt")) << Text(*result);
  }
  for (const auto& [stage, time] : stages) {
    if (with_stages) std::printf("%-32s %10.1f\n", stage.c_str(), time);
  }
  return 0;
}
