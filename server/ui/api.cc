// SPDX-License-Identifier: Apache-2.0
#include "server/ui/api.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sha256.h"
#include "server/rpc/to_json.h"
#include "server/ui/shortened.h"

namespace tensord::server {
namespace {

constexpr uint32_t kMostListed = 500;
constexpr char kJson[] = "application/json";

struct Context {
  const PageSource& source;
  const History& history;
  const HttpRequest& request;
};

// A whole number of the query; `otherwise` where there is none.
template <class Number>
absl::StatusOr<Number> NumberOf(const HttpRequest& request, const char* name, Number otherwise) {
  const std::string text = request.Parameter(name);
  Number number = otherwise;
  if (!text.empty() && !absl::SimpleAtoi(text, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(name, "=", text, " is not a number"));
  }
  return number;
}

// The bytes of a key's first hex digits; an odd one at the end cannot be asked for.
absl::StatusOr<std::string> KeyOf(const HttpRequest& request) {
  const std::string text = request.Parameter("key");
  std::string key = FromHex(text.substr(0, text.size() / 2 * 2));
  if (key.empty() && !text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a key in hex digits"));
  }
  return key;
}

template <class List>
absl::Status ReadPage(const HttpRequest& request, List* list) {
  TENSORD_ASSIGN_OR_RETURN(const uint32_t skip, NumberOf<uint32_t>(request, "skip", 0));
  TENSORD_ASSIGN_OR_RETURN(const uint32_t limit, NumberOf<uint32_t>(request, "limit", 100));
  list->set_skip(skip);
  list->set_limit(std::clamp<uint32_t>(limit, 1, kMostListed));
  list->set_search(request.Parameter("search"));
  return absl::OkStatus();
}

using Answer = absl::StatusOr<std::string>;

template <class Request, class Reply>
Answer Ask(const Question<Request, Reply>& question, const Request& request) {
  Reply reply;
  TENSORD_RETURN_IF_ERROR(question(request, &reply));
  return ToJson(reply);
}

Answer Stats(const Context& context) {
  v1::Stats stats;
  context.source.stats(&stats);
  return ToJson(stats);
}

Answer Past(const Context& context) {
  TENSORD_ASSIGN_OR_RETURN(const int64_t since, NumberOf<int64_t>(context.request, "since", 0));
  return context.history.ToJson(since);
}

Answer Programs(const Context& context) {
  v1::ListProgramsRequest request;
  TENSORD_RETURN_IF_ERROR(ReadPage(context.request, &request));
  v1::ListProgramsRequest::Order order = v1::ListProgramsRequest::USED;
  const std::string named = absl::AsciiStrToUpper(context.request.Parameter("order"));
  if (!named.empty() && !v1::ListProgramsRequest::Order_Parse(named, &order)) {
    return absl::InvalidArgumentError(absl::StrCat("there is no order ", named));
  }
  request.set_order(order);
  return Ask(context.source.programs, request);
}

absl::StatusOr<v1::ProgramDetail> FindProgram(const Context& context, bool with_sources) {
  v1::GetProgramRequest request;
  TENSORD_ASSIGN_OR_RETURN(*request.mutable_key_prefix(), KeyOf(context.request));
  request.set_with_sources(with_sources);
  v1::ProgramDetail detail;
  TENSORD_RETURN_IF_ERROR(context.source.program(request, &detail));
  return detail;
}

Answer Program(const Context& context) {
  TENSORD_ASSIGN_OR_RETURN(v1::ProgramDetail detail, FindProgram(context, false));
  Shorten(detail.mutable_artifact());
  return ToJson(detail);
}

Answer Kernel(const Context& context) {
  TENSORD_ASSIGN_OR_RETURN(const int number, NumberOf<int>(context.request, "number", 0));
  TENSORD_ASSIGN_OR_RETURN(const v1::ProgramDetail detail, FindProgram(context, true));
  if (number < 0 || number >= detail.sources_size()) {
    return absl::NotFoundError(
        absl::StrCat("the program has ", detail.sources_size(), " kernels, numbered from 0"));
  }
  return ToJson(detail.sources(number));
}

Answer Frames(const Context& context) {
  v1::ListFramesRequest request;
  TENSORD_RETURN_IF_ERROR(ReadPage(context.request, &request));
  return Ask(context.source.frames, request);
}

Answer Frame(const Context& context) {
  v1::GetFrameRequest request;
  TENSORD_ASSIGN_OR_RETURN(*request.mutable_key_prefix(), KeyOf(context.request));
  v1::StoredFrame stored;
  TENSORD_RETURN_IF_ERROR(context.source.frame(request, &stored));
  Shorten(stored.mutable_frame());
  return ToJson(stored);
}

Answer Misses(const Context& context) {
  v1::ListMissesRequest request;
  TENSORD_ASSIGN_OR_RETURN(const uint32_t limit,
                           NumberOf<uint32_t>(context.request, "limit", kMostListed));
  request.set_limit(std::clamp<uint32_t>(limit, 1, kMostListed));
  TENSORD_ASSIGN_OR_RETURN(*request.mutable_key_prefix(), KeyOf(context.request));
  request.set_job(context.request.Parameter("job"));
  return Ask(context.source.misses, request);
}

Answer Jobs(const Context& context) { return Ask(context.source.jobs, v1::ListJobsRequest()); }

Answer Job(const Context& context) {
  v1::GetJobRequest request;
  request.set_job(context.request.Parameter("name"));
  return Ask(context.source.job, request);
}

Answer ProfileList(const Context& context) {
  v1::GetProfilesRequest request;
  request.set_job(context.request.Parameter("job"));
  request.set_limit(kMostListed);
  request.set_without_rows(true);
  v1::Profiles profiles;
  const absl::Status status = context.source.profiles(request, &profiles);
  if (!status.ok() && !absl::IsNotFound(status)) return status;  // a list may be empty
  return ToJson(profiles);
}

Answer OneProfile(const Context& context) {
  v1::GetProfilesRequest request;
  TENSORD_ASSIGN_OR_RETURN(const uint64_t id, NumberOf<uint64_t>(context.request, "id", 0));
  if (id == 0) return absl::InvalidArgumentError("profiles are numbered from 1");
  request.set_id(id);
  return Ask(context.source.profiles, request);
}

constexpr std::pair<const char*, Answer (*)(const Context&)> kAnswers[] = {
    {"stats", Stats},   {"history", Past},  {"programs", Programs},    {"program", Program},
    {"kernel", Kernel}, {"frames", Frames}, {"frame", Frame},          {"misses", Misses},
    {"jobs", Jobs},     {"job", Job},       {"profiles", ProfileList}, {"profile", OneProfile},
};

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

HttpReply JsonError(int status, const std::string& message) {
  const nlohmann::json error = {{"error", message}};
  return {status, kJson, error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

HttpReply AnswerApi(const PageSource& source, const History& history, const HttpRequest& request) {
  for (const auto& [name, answer] : kAnswers) {
    if (request.path != absl::StrCat("/api/", name)) continue;
    const Answer json = answer({source, history, request});
    if (json.ok()) return {200, kJson, *json};
    return JsonError(HttpStatusOf(json.status()), std::string(json.status().message()));
  }
  return JsonError(404, "there is no such question");
}

}  // namespace tensord::server
