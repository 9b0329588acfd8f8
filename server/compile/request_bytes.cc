// SPDX-License-Identifier: Apache-2.0
#include "server/compile/request_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>

#include "tensord/v1/requests.pb.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {
namespace {

using google::protobuf::internal::WireFormatLite;

// The fields that both messages have are the first ones of the request.
static_assert(int{v1::CompileRequest::kGraphFieldNumber} == int{v1::CompileJob::kGraphFieldNumber});
static_assert(int{v1::CompileRequest::kTargetFieldNumber} ==
              int{v1::CompileJob::kTargetFieldNumber});
static_assert(int{v1::CompileRequest::kOptionsFieldNumber} ==
              int{v1::CompileJob::kOptionsFieldNumber});

bool BelongsToJob(uint32_t tag) {
  const int field = WireFormatLite::GetTagFieldNumber(tag);
  return field == v1::CompileJob::kGraphFieldNumber ||
         field == v1::CompileJob::kTargetFieldNumber ||
         field == v1::CompileJob::kOptionsFieldNumber;
}

}  // namespace

absl::Status MakeJob(std::string* request) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(request->data()),
                                            static_cast<int>(request->size()));
  size_t kept = 0;
  while (true) {
    const auto start = static_cast<size_t>(in.CurrentPosition());
    const uint32_t tag = in.ReadTag();
    if (tag == 0 && in.ConsumedEntireMessage()) break;
    if (tag == 0 || !WireFormatLite::SkipField(&in, tag)) {
      return absl::InvalidArgumentError("the request is not a CompileRequest");
    }
    const auto end = static_cast<size_t>(in.CurrentPosition());
    if (!BelongsToJob(tag)) continue;
    std::memmove(request->data() + kept, request->data() + start, end - start);
    kept += end - start;
  }
  request->resize(kept);
  return absl::OkStatus();
}

std::string WorkerRequestHead(size_t size) {
  std::string head;
  {
    google::protobuf::io::StringOutputStream stream(&head);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(WireFormatLite::MakeTag(v1::WorkerRequest::kCompileFieldNumber,
                                         WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out.WriteVarint64(size);
  }
  return head;
}

}  // namespace tensord::server
