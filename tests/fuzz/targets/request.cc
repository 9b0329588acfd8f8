// SPDX-License-Identifier: Apache-2.0
// A CompileRequest as it arrives: what a worker gets of it is what the program's key was made of.
#include <google/protobuf/arena.h>

#include <string>

#include "base/check.h"
#include "server/compile/request_bytes.h"
#include "server/program/keys.h"
#include "server/worker/framing.h"
#include "tensord/v1/requests.pb.h"
#include "tensord/v1/worker.pb.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

template <class Message>
std::string KeyOf(const Message& message) {
  return server::MakeProgramKey(message.graph(), message.target(), message.options(), "", "")
      .Digest();
}

void Run(std::string_view input) {
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<v1::CompileRequest>(&arena);
  const bool is_request = request.ParseFromArray(input.data(), static_cast<int>(input.size()));
  std::string job(input);
  const absl::Status made = server::MakeJob(&job);
  if (!is_request) return;
  TENSORD_CHECK(made.ok(), made.ToString());
  server::ArchOf(request.target());

  // As the worker gets it, with what is added on the way.
  v1::CompileJob more;
  more.add_library_nodes("a node");
  job += more.SerializeAsString();
  v1::WorkerRequest received;
  TENSORD_CHECK(server::ParseFrame(server::WorkerRequestHead(job.size()) + job, &received));
  TENSORD_CHECK(received.has_compile());
  TENSORD_CHECK(KeyOf(received.compile()) == KeyOf(request), "another program than the key's");
  TENSORD_CHECK(received.compile().library_nodes_size() == 1 &&
                received.compile().failure().empty());
}

}  // namespace

const Target kRequestTarget = {
    .name = "request",
    .run = Run,
    .message = []() -> const google::protobuf::Message* {
      return &v1::CompileRequest::default_instance();
    },
};

}  // namespace tensord::fuzz
