// SPDX-License-Identifier: Apache-2.0
// What a worker of a build farm does with an action of the Remote Execution API: it has nothing but
// the action's digest and the content-addressed storage.
#ifndef TENSORD_TESTS_UNIT_SERVER_REMOTE_RUNNER_H_
#define TENSORD_TESTS_UNIT_SERVER_REMOTE_RUNNER_H_

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "server/fleet/remote/blobs.h"
#include "server/fleet/remote/session.h"
#include "server/store/blobs.h"

namespace tensord::fleet {

class RemoteRunner {
 public:
  // Runs in `folder`, which is empty.
  RemoteRunner(const RemoteSession* session, std::string folder)
      : session_(*session), folder_(std::move(folder)) {}

  // Returns what the command printed, and puts its outputs and its result.
  std::string Run(const reapi::Digest& action_digest) {
    const auto action = Get<reapi::Action>(action_digest);
    const auto command = Get<reapi::Command>(action.command_digest());
    Lay(Get<reapi::Directory>(action.input_root_digest()), folder_);
    Command started;
    started.argv = {command.arguments().begin(), command.arguments().end()};
    started.folder = folder_;
    started.environment.emplace();
    for (const auto& variable : command.environment_variables()) {
      started.environment->push_back(absl::StrCat(variable.name(), "=", variable.value()));
    }
    const auto ran = RunProcess(std::move(started));
    EXPECT_TRUE(ran.ok()) << ran.status();
    reapi::ActionResult result;
    result.set_exit_code(ran->exit_code);
    for (const std::string& path : command.output_paths()) Collect(path, &result);
    Put(action_digest, result);
    return ran->output;
  }

 private:
  static absl::Time Soon() { return absl::Now() + absl::Minutes(1); }

  std::string Bytes(const reapi::Digest& digest) {
    const auto blobs = ReadBlobs(session_, {digest}, Soon());
    EXPECT_TRUE(blobs.ok()) << blobs.status();
    EXPECT_EQ(blobs->count(digest.hash()), 1u) << "it is not in the storage";
    return blobs->at(digest.hash());
  }
  template <class Message>
  Message Get(const reapi::Digest& digest) {
    Message message;
    EXPECT_TRUE(message.ParseFromString(Bytes(digest)));
    return message;
  }

  // Puts a directory's files where the command finds them.
  void Lay(const reapi::Directory& directory, const std::string& path) {
    std::filesystem::create_directories(path);
    for (const reapi::FileNode& file : directory.files()) {
      const std::string to = absl::StrCat(path, "/", file.name());
      std::ofstream(to, std::ios::binary) << Bytes(file.digest());
      using std::filesystem::perms;
      std::filesystem::permissions(
          to, perms::owner_read | (file.is_executable() ? perms::owner_exec : perms::none));
    }
    for (const reapi::DirectoryNode& node : directory.directories()) {
      Lay(Get<reapi::Directory>(node.digest()), absl::StrCat(path, "/", node.name()));
    }
  }

  // Puts the files below an output's path, each of which the result names.
  void Collect(const std::string& path, reapi::ActionResult* result) {
    const std::string from = absl::StrCat(folder_, "/", path);
    if (!std::filesystem::is_directory(from)) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = *store::ReadFile(entry.path());
      reapi::OutputFile& file = *result->add_output_files();
      file.set_path(std::filesystem::relative(entry.path(), folder_));
      *file.mutable_digest() = DigestOf(bytes);
      const absl::Status put = WriteBlobs(session_, {{file.digest(), bytes}}, Soon());
      EXPECT_TRUE(put.ok()) << put;
    }
    std::sort(result->mutable_output_files()->begin(), result->mutable_output_files()->end(),
              [](const auto& one, const auto& other) { return one.path() < other.path(); });
  }

  void Put(const reapi::Digest& action, const reapi::ActionResult& result) {
    reapi::UpdateActionResultRequest request;
    request.set_instance_name(session_.instance());
    *request.mutable_action_digest() = action;
    *request.mutable_action_result() = result;
    reapi::ActionResult taken;
    const grpc::Status status =
        session_.results().UpdateActionResult(session_.Context(Soon()).get(), request, &taken);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  const RemoteSession& session_;
  const std::string folder_;
};

}  // namespace tensord::fleet

#endif  // TENSORD_TESTS_UNIT_SERVER_REMOTE_RUNNER_H_
