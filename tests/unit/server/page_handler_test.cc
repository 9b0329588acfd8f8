// SPDX-License-Identifier: Apache-2.0
// Who may read the page, what answers which path, and what a browser is told besides.
#include "server/ui/page_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "server/ui/embedded.h"

namespace tensord::server {
namespace page_handler_test {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";

class PageHandlerTest : public ::testing::Test {
 protected:
  PageHandlerTest() {
    source_.stats = [](v1::Stats* stats) { stats->set_hits(7); };
    source_.programs = [this](const v1::ListProgramsRequest& request,
                              v1::ListProgramsReply* reply) {
      asked_programs_ = request;
      reply->add_programs()->set_label("<img src=x onerror=alert(1)>");
      reply->set_matching(1234);
      return absl::OkStatus();
    };
    source_.program = [this](const v1::GetProgramRequest& request, v1::ProgramDetail* detail) {
      asked_program_ = request;
      if (request.key_prefix() == "none") return absl::NotFoundError("no program has that key");
      detail->mutable_artifact()->add_constants()->set_data(std::string(1000, 'x'));
      detail->mutable_artifact()->add_steps()->mutable_launch()->set_function("k0");
      detail->mutable_artifact()->mutable_steps(0)->mutable_launch()->add_buffers(3);
      detail->add_sources()->set_source(request.with_sources() ? "the first" : "");
      detail->add_sources()->set_source(request.with_sources() ? "the second" : "");
      return absl::OkStatus();
    };
    source_.frames = [this](const v1::ListFramesRequest& request, v1::ListFramesReply*) {
      asked_frames_ = request;
      return absl::OkStatus();
    };
    source_.frame = [](const v1::GetFrameRequest&, v1::StoredFrame* stored) {
      v1::Frame& frame = *stored->mutable_frame();
      frame.mutable_result()->mutable_code()->set_bytecode("secret");
      frame.add_guards()->set_length(4);
      frame.add_guards()->set_text("x is a tensor");
      v1::Node& node = *frame.add_graphs()->mutable_forward()->mutable_graph()->add_nodes();
      node.set_line("y = x + 1");
      node.add_args()->set_boolean(true);
      return absl::OkStatus();
    };
    source_.misses = [](const v1::ListMissesRequest& request, v1::ListMissesReply* reply) {
      reply->add_misses()->set_guard(request.job());
      return absl::OkStatus();
    };
    source_.jobs = [](const v1::ListJobsRequest&, v1::ListJobsReply*) {
      return absl::UnavailableError("the daemon stops");
    };
    source_.profiles = [](const v1::GetProfilesRequest& request, v1::Profiles* reply) {
      if (request.job() == "nobody") return absl::NotFoundError("no such profile");
      v1::StoredProfile& stored = *reply->add_profiles();
      stored.set_id(request.id());
      stored.mutable_profile()->set_function(request.without_rows() ? "bare" : "whole");
      return absl::OkStatus();
    };
    source_.job = [](const v1::GetJobRequest& request, v1::JobDetail* detail) {
      detail->add_processes()->mutable_caller()->set_job(request.job());
      return absl::OkStatus();
    };
  }

  HttpReply Get(const std::string& path, const std::string& query = "",
                const std::string& host = "127.0.0.1:9465",
                const std::string& authorization = std::string("Bearer ") + kToken,
                const std::string& method = "GET") {
    if (handler_ == nullptr) handler_ = std::make_unique<PageHandler>(source_, kToken);
    return handler_->Answer({method, path, query, host, authorization});
  }
  json Ask(const std::string& path, const std::string& query = "") {
    const HttpReply reply = Get(path, query);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.type, "application/json");
    return json::parse(reply.body);
  }

  PageSource source_;
  v1::ListProgramsRequest asked_programs_;
  v1::GetProgramRequest asked_program_;
  v1::ListFramesRequest asked_frames_;
  std::unique_ptr<PageHandler> handler_;
};

TEST_F(PageHandlerTest, FilesAreForEveryoneAndAnswersForWhoBringsTheToken) {
  EXPECT_EQ(Get("/", "", "localhost:1", "").status, 200);
  EXPECT_EQ(Get("/app.js", "", "localhost:1", "").status, 200);
  for (const char* brought :
       {"", "Bearer", "Bearer ", "Bearer 0123456789abcdee", "Bearer 0123456789abcdef0",
        "Basic 0123456789abcdef", "0123456789abcdef"}) {
    EXPECT_EQ(Get("/api/stats", "", "localhost:1", brought).status, 401) << brought;
    EXPECT_EQ(Get("/api/nothing", "", "localhost:1", brought).status, 401) << brought;
  }
  EXPECT_EQ(Ask("/api/stats")["hits"], "7");
}

// A name that leads here is not enough: its owner could lead it here behind a page of his.
TEST_F(PageHandlerTest, OnlyThisHostsNamesAreAnswered) {
  for (const char* host :
       {"127.0.0.1:9465", "localhost:9465", "localhost:1", "localhost", "127.0.0.2:9465"}) {
    EXPECT_EQ(Get("/", "", host).status, 200) << host;
  }
  for (const char* host : {"", "evil.example", "evil.example:9465", "127.0.0.1.evil.example:9465",
                           "localhost.evil.example", "10.0.0.1:9465", "0.0.0.0:9465"}) {
    EXPECT_EQ(Get("/", "", host).status, 403) << host;
    EXPECT_EQ(Get("/api/stats", "", host).status, 403) << host;
  }
}

TEST_F(PageHandlerTest, NothingIsChanged) {
  for (const char* method : {"POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get", ""}) {
    EXPECT_EQ(Get("/api/stats", "", "localhost:1", "", method).status, 405) << method;
  }
}

TEST_F(PageHandlerTest, TheFilesAreThoseOfTheFolder) {
  EXPECT_EQ(Get("/").body, Get("/index.html").body);
  EXPECT_THAT(Get("/").body, HasSubstr("<!doctype html>"));
  EXPECT_THAT(Get("/").type, HasSubstr("text/html"));
  EXPECT_THAT(Get("/app.js").type, HasSubstr("text/javascript"));
  EXPECT_THAT(Get("/style.css").type, HasSubstr("text/css"));
  EXPECT_EQ(Get("/icon.svg").type, "image/svg+xml");
  for (const char* path :
       {"/nothing.js", "/../etc/passwd", "//etc/passwd", "/app.js/", "", "/api"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
  size_t bytes = 0;
  for (const PageFile& file : PageFiles()) bytes += file.contents.size();
  EXPECT_LT(bytes, 256u << 10);
}

TEST_F(PageHandlerTest, TheBrowserLoadsNothingFromElsewhere) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : PageHeaders()) headers[name] = value;
  EXPECT_THAT(headers["Content-Security-Policy"], HasSubstr("default-src 'self'"));
  EXPECT_THAT(headers["Content-Security-Policy"], Not(HasSubstr("unsafe")));
  EXPECT_EQ(headers["X-Content-Type-Options"], "nosniff");
  EXPECT_THAT(headers, Not(Contains(Key("Access-Control-Allow-Origin"))));
  for (const PageFile& file : PageFiles()) {
    for (const char* risk :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"}) {
      EXPECT_THAT(std::string(file.contents), Not(HasSubstr(risk))) << file.path;
    }
  }
}

TEST_F(PageHandlerTest, ListsArePaged) {
  const json reply = Ask("/api/programs", "search=cpu%20avx&order=hits&skip=300&limit=100");
  EXPECT_EQ(reply["matching"], "1234");
  EXPECT_EQ(asked_programs_.search(), "cpu avx");
  EXPECT_EQ(asked_programs_.order(), v1::ListProgramsRequest::HITS);
  EXPECT_EQ(asked_programs_.skip(), 300u);
  EXPECT_EQ(asked_programs_.limit(), 100u);
  Ask("/api/programs");
  EXPECT_EQ(asked_programs_.limit(), 100u);
  EXPECT_EQ(asked_programs_.order(), v1::ListProgramsRequest::USED);
  // None is all to the RPC, which a page is not to ask.
  Ask("/api/programs", "limit=0");
  EXPECT_EQ(asked_programs_.limit(), 1u);
  Ask("/api/frames", "limit=1000000&search=forward");
  EXPECT_EQ(asked_frames_.limit(), 500u);
  EXPECT_EQ(asked_frames_.search(), "forward");
}

TEST_F(PageHandlerTest, WhatIsAskedWronglyIsSaid) {
  for (const auto& [path, query] :
       std::map<std::string, std::string>{{"/api/programs", "skip=-1"},
                                          {"/api/frames", "limit=many"},
                                          {"/api/program", "key=xyz"},
                                          {"/api/kernel", "key=0011&number=one"},
                                          {"/api/history", "since=now"}}) {
    const HttpReply reply = Get(path, query);
    EXPECT_EQ(reply.status, 400) << path << "?" << query;
    EXPECT_FALSE(json::parse(reply.body)["error"].get<std::string>().empty());
  }
  EXPECT_EQ(Get("/api/programs", "order=sideways").status, 400);
  EXPECT_EQ(Get("/api/program", "key=" + ToHex("none")).status, 404);
  EXPECT_EQ(Get("/api/kernel", "key=00112233&number=2").status, 404);
  EXPECT_EQ(Get("/api/jobs").status, 503);
  EXPECT_EQ(Get("/api/nothing").status, 404);
}

TEST_F(PageHandlerTest, TextOfGraphsIsData) {
  const std::string body = Get("/api/programs").body;
  EXPECT_EQ(json::parse(body)["programs"][0]["label"], "<img src=x onerror=alert(1)>");
  EXPECT_THAT(body, Not(HasSubstr("<")));
  const HttpReply reply = Get("/api/program", "key=\xff<b>");
  EXPECT_EQ(reply.type, "application/json");
  EXPECT_TRUE(json::accept(reply.body)) << reply.body;
}

TEST_F(PageHandlerTest, OfMessagesComesWhatIsShown) {
  const json program = Ask("/api/program", "key=001122334");
  EXPECT_EQ(asked_program_.key_prefix(), std::string("\x00\x11\x22\x33", 4));
  EXPECT_FALSE(asked_program_.with_sources());
  EXPECT_EQ(program["artifact"]["steps"][0]["launch"]["function"], "k0");
  EXPECT_TRUE(program["artifact"]["steps"][0]["launch"]["buffers"].empty());
  EXPECT_TRUE(program["artifact"]["constants"].empty());
  EXPECT_EQ(Ask("/api/kernel", "key=00112233&number=1")["source"], "the second");
  const json frame = Ask("/api/frame", "key=00112233")["frame"];
  EXPECT_FALSE(frame.contains("result"));
  EXPECT_EQ(frame["guards"][0]["text"], "length");
  EXPECT_EQ(frame["guards"][1]["text"], "x is a tensor");
  const json node = frame["graphs"][0]["forward"]["graph"]["nodes"][0];
  EXPECT_EQ(node["line"], "y = x + 1");
  EXPECT_TRUE(node["args"].empty());
  EXPECT_EQ(Ask("/api/misses", "job=a")["misses"][0]["guard"], "a");
  EXPECT_EQ(Ask("/api/job", "name=a%2Fb")["processes"][0]["caller"]["job"], "a/b");
  EXPECT_EQ(Ask("/api/profiles")["profiles"][0]["profile"]["function"], "bare");
  EXPECT_EQ(Ask("/api/profiles", "job=nobody")["profiles"].size(), 0u);
  EXPECT_EQ(Ask("/api/profile", "id=7")["profiles"][0]["profile"]["function"], "whole");
  EXPECT_EQ(Ask("/api/profile", "id=7")["profiles"][0]["id"], "7");
  EXPECT_EQ(Get("/api/profile").status, 400);
  EXPECT_EQ(Get("/api/profile", "id=x").status, 400);
}

TEST_F(PageHandlerTest, ThePastIsOfTheStatistics) {
  json past;
  do {
    past = Ask("/api/history");  // the first sample is a thread's
  } while (past["times"].empty());
  size_t hits = 0;
  while (past["fields"].at(hits) != "hits") ++hits;
  EXPECT_EQ(past["values"][hits][0], 7);
  const auto last = past["times"].back().get<int64_t>();
  EXPECT_TRUE(Ask("/api/history", "since=" + std::to_string(last + 60'000))["times"].empty());
}

}  // namespace page_handler_test
}  // namespace tensord::server
