// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_service.h"

#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>

#include <thread>

#include "base/sha256.h"
#include "tensord/v1/stats.pb.h"
#include "tests/unit/server/service_testing.h"

namespace tensord::server {
namespace compile_service_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CompileServiceTest : public ServiceTest {
 protected:
  static v1::Stats Stats(CompileService& service) {
    v1::Stats stats;
    service.FillStats(&stats);
    return stats;
  }
};

TEST_F(CompileServiceTest, CompilesOnceThenFinds) {
  auto service = Open();
  const auto first = Compile(*service, Request({"a", "b"}));
  ASSERT_TRUE(first->status.ok()) << first->status;
  EXPECT_EQ(first->reply.outcome(), v1::CompileReply::COMPILED);
  EXPECT_EQ(first->reply.kernels(), 2u);
  EXPECT_EQ(first->reply.kernels_compiled(), 2u);
  EXPECT_EQ(first->reply.program_key().size(), 32u);
  EXPECT_EQ(first->reply.stages(0).stage(), "fake");
  for (const v1::Module& module : first->reply.artifact().modules()) {
    EXPECT_EQ(module.sha256().size(), 32u);
    EXPECT_EQ(module.kernel_key().size(), 32u);
    const std::string hex = ToHex(module.sha256());
    const std::string path = first->reply.blob_folder() + "/" + hex.substr(0, 2) + "/" + hex;
    EXPECT_EQ(std::filesystem::file_size(path), module.size());
  }
  auto again = Request({"a", "b"}, "another name");
  again.set_label("other");
  again.mutable_caller()->set_rank(3);
  const auto second = Compile(*service, again);
  EXPECT_EQ(second->reply.outcome(), v1::CompileReply::HIT);
  EXPECT_THAT(second->reply.stages(), IsEmpty());
  EXPECT_EQ(second->reply.artifact().SerializeAsString(),
            first->reply.artifact().SerializeAsString());
  EXPECT_EQ(Jobs("compile"), 1);
  EXPECT_EQ(Stats(*service).hits(), 1u);
}

TEST_F(CompileServiceTest, TheNextDaemonFindsWithoutAWorker) {
  Compile(*Open(), Request({"a"}));
  const size_t jobs = Jobs().size();
  auto service = Open();
  EXPECT_EQ(Compile(*service, Request({"a"}))->reply.outcome(), v1::CompileReply::HIT);
  EXPECT_EQ(Jobs().size(), jobs);
  EXPECT_EQ(Stats(*service).workers(), 0u);
}

TEST_F(CompileServiceTest, ReusesKernelsOfOtherPrograms) {
  auto service = Open();
  Compile(*service, Request({"a", "b"}));
  const auto other = Compile(*service, Request({"b", "c", "c"}));
  ASSERT_TRUE(other->status.ok()) << other->status;
  EXPECT_EQ(other->reply.kernels(), 3u);
  EXPECT_EQ(other->reply.kernels_compiled(), 1u);
  EXPECT_EQ(other->reply.artifact().modules(1).sha256(),
            other->reply.artifact().modules(2).sha256());
  EXPECT_EQ(Jobs("jit"), 3);
}

TEST_F(CompileServiceTest, OneFlightServesAll) {
  auto service = Open();
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(Send(*service, Request({"a"}, "slow")));
  int compiled = 0, joined = 0, found = 0;
  for (const auto& answer : answers) {
    answer->done.WaitForNotification();
    ASSERT_TRUE(answer->status.ok()) << answer->status;
    compiled += answer->reply.outcome() == v1::CompileReply::COMPILED;
    joined += answer->reply.outcome() == v1::CompileReply::JOINED;
    found += answer->reply.outcome() == v1::CompileReply::HIT;
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(joined + found, 19);
  EXPECT_GT(joined, 0);
  EXPECT_EQ(Jobs("compile"), 1);
  EXPECT_EQ(Stats(*service).in_flight(), 0u);
}

TEST_F(CompileServiceTest, TwoProgramsMakeASharedKernelOnce) {
  auto service = Open(Pool(4));
  Compile(*service, Request({"warm up"}));
  auto a = Send(*service, Request({"slow shared", "a"}));
  auto b = Send(*service, Request({"slow shared", "b"}));
  a->done.WaitForNotification();
  b->done.WaitForNotification();
  EXPECT_TRUE(a->status.ok() && b->status.ok());
  EXPECT_EQ(Jobs("jit // slow shared"), 1);
}

TEST_F(CompileServiceTest, SecondCrashIsRemembered) {
  auto service = Open();
  for (int i = 0; i < 5; ++i) {
    const auto answer = Compile(*service, Request({"a"}, "crash"));
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(answer->status.message()), HasSubstr("Segmentation fault"));
  }
  EXPECT_EQ(Jobs("compile"), 2);
  EXPECT_TRUE(Compile(*service, Request({"b"}))->status.ok());
}

TEST_F(CompileServiceTest, GraphThatTookTooLongIsRememberedAtOnce) {
  PoolOptions pool = Pool();
  pool.job_limit = absl::Milliseconds(600);
  auto service = Open(pool);
  for (int i = 0; i < 3; ++i) {
    const auto answer = Compile(*service, Request({"a"}, "hang"));
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(answer->status.message()), HasSubstr("left to the request"));
  }
  EXPECT_EQ(Jobs("compile"), 1);
}

TEST_F(CompileServiceTest, GraphThatTookTooMuchMemoryIsRememberedAtOnce) {
  if (!kMemoryCanBeLimited) GTEST_SKIP() << "under a sanitizer";
  PoolOptions pool = Pool();
  pool.command.memory_bytes = 512ull << 20;
  auto service = Open(pool);
  int jobs = 0;
  // By itself, and by what it starts.
  for (const char* order : {"hoard", "hoard_below"}) {
    for (int i = 0; i < 3; ++i) {
      const auto answer = Compile(*service, Request({order}, order));
      EXPECT_EQ(answer->status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(answer->status.message()), HasSubstr("job_memory"));
    }
    EXPECT_EQ(Jobs("compile"), ++jobs);
  }
  EXPECT_TRUE(Compile(*service, Request({"b"}))->status.ok());
}

// The kernel does so when the machine has no memory left, whoever took it.
TEST_F(CompileServiceTest, GraphWhoseWorkerWasKilledIsNotRemembered) {
  auto service = Open();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(Compile(*service, Request({"a"}, "killed"))->status.code(),
              absl::StatusCode::kInternal);
    EXPECT_EQ(Jobs("compile"), i);
  }
}

// Each job is well within the limit, all of them together are not: 0.3 s and four times 0.2 s.
TEST_F(CompileServiceTest, BudgetIsARequestsAndNotAJobs) {
  PoolOptions pool = Pool(1);
  pool.job_limit = absl::Milliseconds(800);
  auto service = Open(pool);
  const auto answer = Compile(*service, Request({"slow a", "slow b", "slow c", "slow d"}, "slow"));
  EXPECT_EQ(answer->status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(answer->status.message()), HasSubstr("left to the request"));
}

// The caller's thread is one of the few that receive everybody's requests.
TEST_F(CompileServiceTest, LargeRequestsAreNotReadByTheCallersThread) {
  auto service = Open();
  v1::CompileRequest large = Request({"a"});
  large.set_label(std::string(RequestMemory::kSmall, 'x'));
  for (const auto& [request, elsewhere] : {std::pair(Request({"a"}), false), {large, true}}) {
    Compile(*service, request);
    v1::CompileReply reply;
    absl::Notification done;
    std::thread::id answered_by;
    service->Compile(request.SerializeAsString(), {}, &reply, [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      answered_by = std::this_thread::get_id();
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_EQ(reply.outcome(), v1::CompileReply::HIT);
    EXPECT_EQ(answered_by != std::this_thread::get_id(), elsewhere);
  }
}

TEST_F(CompileServiceTest, WhoJoinsAFlightNeedsNoRoom) {
  auto service = Open(Pool(1), /*max_waiting=*/1);
  Compile(*service, Request({"warm up"}));
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(Send(*service, Request({"a"}, "slow")));
  for (const auto& answer : answers) {
    answer->done.WaitForNotification();
    EXPECT_TRUE(answer->status.ok()) << answer->status;
  }
  EXPECT_EQ(Stats(*service).rejected(), 0u);
  EXPECT_EQ(Stats(*service).joined(), 19u);
}

TEST_F(CompileServiceTest, CrashKeepsTheGraphAndIsNotRemembered) {
  auto service = Open();
  const auto first = Compile(*service, Request({"a"}, "crash"));
  EXPECT_EQ(first->status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(first->status.message()), HasSubstr("Segmentation fault"));
  EXPECT_THAT(std::string(first->status.message()), HasSubstr("/repros/"));
  v1::CompileJob job;
  int repros = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/store/repros")) {
    std::ifstream file(entry.path());
    EXPECT_TRUE(job.ParseFromIstream(&file));
    EXPECT_EQ(job.graph().nodes(0).op(), "a");
    ++repros;
  }
  EXPECT_EQ(repros, 1);
  EXPECT_EQ(Stats(*service).repros_kept(), 1u);
  EXPECT_TRUE(Compile(*service, Request({"a"}))->status.ok());
  EXPECT_EQ(Stats(*service).worker_restarts(), 1u);
  EXPECT_EQ(Stats(*service).failed(), 1u);
}

TEST_F(CompileServiceTest, FailedJitReachesEveryWaiter) {
  auto service = Open();
  Compile(*service, Request({"warm up"}));
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(Send(*service, Request({"a"}, "jit_fail")));
  for (const auto& answer : answers) {
    answer->done.WaitForNotification();
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(answer->status.message()), HasSubstr("does not compile"));
  }
  EXPECT_GE(Stats(*service).kernels_failed(), 1u);
  int repros = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_ + "/store/repros")) {
    v1::CompileJob job;
    std::ifstream stream(file.path(), std::ios::binary);
    ASSERT_TRUE(job.ParseFromIstream(&stream));
    EXPECT_THAT(job.failure(), HasSubstr("does not compile"));
    ++repros;
  }
  EXPECT_EQ(repros, 1);
}

TEST_F(CompileServiceTest, KernelsThatDoNotCompileBecomeLibraryCalls) {
  auto service = Open();
  v1::CompileRequest request = Request({"a", "b", "c"});
  for (int i = 0; i < 3; ++i) {
    request.mutable_graph()->mutable_nodes(i)->set_name(i == 1 ? "fails" : std::string(1, 'x' + i));
  }
  const auto answer = Compile(*service, request);
  ASSERT_TRUE(answer->status.ok()) << answer->status;
  const v1::Artifact& artifact = answer->reply.artifact();
  ASSERT_EQ(artifact.steps_size(), 3);
  EXPECT_EQ(artifact.modules_size(), 2);
  EXPECT_EQ(artifact.steps(1).call().op(), "b");
  ASSERT_EQ(answer->reply.kernel_failures_size(), 1);
  EXPECT_THAT(answer->reply.kernel_failures(0), HasSubstr("does not compile"));
  EXPECT_EQ(Stats(*service).kernels_failed(), 1u);
  EXPECT_EQ(Stats(*service).failed(), 0u);
  // The graph is kept for a report, and the program for the next request.
  EXPECT_FALSE(std::filesystem::is_empty(folder_ + "/store/repros"));
  EXPECT_EQ(Compile(*service, request)->reply.outcome(), v1::CompileReply::HIT);
  EXPECT_EQ(Jobs("compile"), 2);
}

// Where every kernel fails, the compiler itself is what is broken.
TEST_F(CompileServiceTest, ACompilerThatCompilesNothingIsAnError) {
  auto service = Open();
  v1::CompileRequest request = Request({"a", "b"});
  request.mutable_graph()->mutable_nodes(0)->set_name("fails");
  request.mutable_graph()->mutable_nodes(1)->set_name("fails_too");
  EXPECT_EQ(Compile(*service, request)->status.code(), absl::StatusCode::kInternal);
}

TEST(LibraryNodesTest, WidensToWhatTheNodesRead) {
  v1::Graph graph;
  graph.add_inputs();
  for (const char* name : {"a", "b", "c"}) graph.add_nodes()->set_name(name);
  graph.mutable_nodes(1)->add_args()->mutable_value()->set_value(1);  // b reads a
  v1::Argument* list = graph.mutable_nodes(2)->add_args();
  list->mutable_list()->add_items()->mutable_value()->set_value(2);  // c reads b,
  list->mutable_list()->add_items()->mutable_value()->set_value(0);  // and the input
  std::set<std::string> library;
  const std::vector<FailedUnit> failed = {{{"c"}, "log"}};
  EXPECT_TRUE(AddLibraryNodes(graph, failed, &library));
  EXPECT_THAT(library, ElementsAre("c"));
  EXPECT_TRUE(AddLibraryNodes(graph, failed, &library));
  EXPECT_THAT(library, ElementsAre("b", "c"));
  EXPECT_FALSE(AddLibraryNodes(graph, failed, &library));
  EXPECT_FALSE(AddLibraryNodes(graph, {{{"unknown"}, ""}, {{}, ""}}, &library) &&
               library.count("a") > 0);
}

// Its module says the same as that of the program that made the kernel.
TEST_F(CompileServiceTest, FoundKernelKeepsItsFacts) {
  auto service = Open();
  Compile(*service, Request({"a"}));
  const auto other = Compile(*service, Request({"a", "b"}));
  EXPECT_EQ(other->reply.kernels_compiled(), 1u);
  for (const v1::Module& module : other->reply.artifact().modules()) {
    EXPECT_EQ(module.kind(), v1::Module::SHARED_OBJECT);
    EXPECT_EQ(module.registers(), 7u);
  }
}

TEST_F(CompileServiceTest, ToolchainsAreTold) {
  auto service = Open();
  v1::ToolchainList list;
  absl::Notification done;
  service->ListToolchains(&list, [&](absl::Status status) {
    EXPECT_TRUE(status.ok()) << status;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_EQ(list.toolchains_size(), 1);
  EXPECT_EQ(list.toolchains(0).name(), "fake compiler");
}

TEST_F(CompileServiceTest, InvalidGraphIsRememberedForAWhile) {
  auto service = Open();
  for (int i = 0; i < 3; ++i) {
    const auto answer = Compile(*service, Request({"a"}, "invalid"));
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(answer->status.message()), HasSubstr("node 'invalid'"));
  }
  EXPECT_EQ(Jobs("compile"), 1);
}

TEST_F(CompileServiceTest, RefusesRequestsThatNoCompilerShouldSee) {
  auto service = Open();
  v1::CompileRequest request = Request({"a"});
  request.clear_target();
  EXPECT_EQ(Compile(*service, request)->status.code(), absl::StatusCode::kInvalidArgument);
  request = Request({"a"});
  v1::Constant* constant = request.mutable_graph()->add_constants();
  constant->set_name("table");
  constant->set_data(std::string((64 << 10) + 1, 'x'));
  const auto answer = Compile(*service, request);
  EXPECT_EQ(answer->status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer->status.message()), HasSubstr("'table' has 65537 bytes"));
  EXPECT_THAT(Jobs(), IsEmpty());
}

TEST_F(CompileServiceTest, RefusesWhatItHasNoRoomFor) {
  auto service = Open(Pool(1), /*max_waiting=*/2);
  Compile(*service, Request({"warm up"}));
  auto a = Send(*service, Request({"a"}, "slow"));
  auto b = Send(*service, Request({"b"}, "slow"));
  const auto c = Compile(*service, Request({"c"}));
  EXPECT_EQ(c->status.code(), absl::StatusCode::kResourceExhausted);
  // What is stored needs no room.
  EXPECT_EQ(Compile(*service, Request({"warm up"}))->reply.outcome(), v1::CompileReply::HIT);
  a->done.WaitForNotification();
  b->done.WaitForNotification();
  EXPECT_TRUE(a->status.ok() && b->status.ok());
  EXPECT_TRUE(Compile(*service, Request({"c"}))->status.ok());
  EXPECT_EQ(Stats(*service).rejected(), 1u);
}

v1::CompileRequest From(const std::string& job, uint32_t pid, v1::CompileRequest request) {
  request.mutable_caller()->set_job(job);
  request.mutable_caller()->set_pid(pid);
  return request;
}

TEST_F(CompileServiceTest, CallersCompileInTurn) {
  auto service = Open(Pool(1));
  Compile(*service, Request({"warm up"}));
  std::vector<std::unique_ptr<Answer>> answers;
  const auto send = [&](const std::string& job, uint32_t pid, const std::string& op,
                        const std::string& order = "") {
    answers.push_back(Send(*service, From(job, pid, Request({op}, order))));
  };
  send("", 1, "first", "slow");  // while it is compiled, the others come
  while (Jobs("compile") < 2) absl::SleepFor(absl::Milliseconds(1));
  for (const char* op : {"a1", "a2", "a3"}) send("a", 1, op);
  send("a", 2, "a4");  // another process of the job
  send("", 3, "b1");
  send("", 4, "c1");
  send("", 3, "b2");
  for (const auto& answer : answers) answer->done.WaitForNotification();
  std::vector<std::string> order;
  for (const std::string& job : Jobs()) {
    if (job.rfind("jit // ", 0) == 0) order.push_back(job.substr(7));
  }
  EXPECT_THAT(order, ElementsAre("warm up", "first", "a1", "b1", "c1", "a2", "b2", "a3", "a4"));
}

TEST_F(CompileServiceTest, ExpensiveRequestsLeaveAWorkerToTheCheap) {
  auto service = Open(Pool(2));
  Compile(*service, Request({"warm up"}));
  auto expensive = Send(*service, ExpensiveRequest("a", "hang"));
  auto more = Send(*service, ExpensiveRequest("b", "hang"));
  while (Jobs("compile") < 2) absl::SleepFor(absl::Milliseconds(1));
  for (const char* op : {"c", "d", "e"}) {
    EXPECT_TRUE(Compile(*service, Request({op}))->status.ok());
  }
  EXPECT_EQ(Stats(*service).queued(), 1u);
  service->Abort();
  expensive->done.WaitForNotification();
  more->done.WaitForNotification();
}

TEST_F(CompileServiceTest, RefusesWhatWaitedTooLong) {
  auto service = Open(Pool(1), /*max_waiting=*/100, absl::Milliseconds(300));
  Compile(*service, Request({"warm up"}));
  auto hangs = Send(*service, Request({"a"}, "hang"));
  const absl::Time start = absl::Now();
  const auto late = Compile(*service, Request({"b"}));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(290));
  EXPECT_EQ(late->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(late->status.message()), HasSubstr("waited 300ms"));
  EXPECT_FALSE(hangs->done.HasBeenNotified());  // who has a worker has job_seconds
  EXPECT_EQ(Stats(*service).waited_too_long(), 1u);
  EXPECT_EQ(Stats(*service).queued(), 0u);
  EXPECT_EQ(Stats(*service).in_flight(), 1u);
  service->Abort();
  hangs->done.WaitForNotification();
}

TEST_F(CompileServiceTest, NoHostCompilerSaysSoAndRecovers) {
  setenv("FAKE_NO_CXX", "1", 1);
  auto service = Open();
  const auto answer = Compile(*service, Request({"a"}));
  EXPECT_EQ(answer->status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(answer->status.message()), HasSubstr("install g++"));
}

TEST_F(CompileServiceTest, DamagedBlobIsCompiledAgain) {
  auto service = Open();
  const auto first = Compile(*service, Request({"a"}));
  const std::string hex = ToHex(first->reply.artifact().modules(0).sha256());
  const std::string path = first->reply.blob_folder() + "/" + hex.substr(0, 2) + "/" + hex;
  std::filesystem::remove(path);
  std::ofstream(path) << "something else";
  const auto second = Compile(*service, Request({"a"}));
  EXPECT_EQ(second->reply.outcome(), v1::CompileReply::COMPILED);
  EXPECT_EQ(second->reply.kernels_compiled(), 1u);
  EXPECT_EQ(Stats(*service).blobs_corrupt(), 1u);
  EXPECT_EQ(Compile(*service, Request({"a"}))->reply.outcome(), v1::CompileReply::HIT);
}

TEST_F(CompileServiceTest, DescribesPrograms) {
  auto service = Open();
  const auto compiled = Compile(*service, Request({"a", "b"}));
  Compile(*service, Request({"c"}));
  v1::ListProgramsReply list;
  ASSERT_TRUE(service->ListPrograms({}, &list).ok());
  EXPECT_EQ(list.programs_size(), 2);
  v1::GetProgramRequest request;
  request.set_key_prefix(compiled->reply.program_key().substr(0, 4));
  request.set_with_sources(true);
  v1::ProgramDetail detail;
  ASSERT_TRUE(service->GetProgram(request, &detail).ok());
  EXPECT_EQ(detail.summary().nodes(), 2u);
  EXPECT_EQ(detail.summary().target(), "cpu avx2");
  EXPECT_EQ(detail.summary().label(), "test");
  EXPECT_GT(detail.summary().compile_nanoseconds(), 0u);
  EXPECT_EQ(detail.sources(1).source(), "// b");
  EXPECT_EQ(detail.fusion_notes(0), "nothing fuses");
  EXPECT_EQ(detail.fusion().steps_size(), 1);
  EXPECT_EQ(detail.artifact().steps_size(), 2);
  EXPECT_EQ(detail.summary().kernels(), 2u);
  EXPECT_EQ(detail.compiler_build(), Sha256(*store::ReadFile(FAKE_WORKER)));
  EXPECT_FALSE(detail.toolchain().empty());
  request.set_key_prefix("abc");
  EXPECT_EQ(service->GetProgram(request, &detail).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CompileServiceTest, HelloAsksAWorkerOnce) {
  for (int i = 0; i < 2; ++i) {
    auto service = Open();
    for (int k = 0; k < 2; ++k) {
      v1::HelloReply reply;
      absl::Notification done;
      service->Hello(&reply, [&](absl::Status status) {
        EXPECT_TRUE(status.ok()) << status;
        done.Notify();
      });
      done.WaitForNotification();
      EXPECT_EQ(reply.operators_size(), 2);
      EXPECT_EQ(reply.operator_table().size(), 64u);
      EXPECT_EQ(reply.protocol(), 1u);
      EXPECT_EQ(reply.store(), folder_ + "/store");
    }
  }
  EXPECT_EQ(Jobs("operators"), 1);
}

TEST_F(CompileServiceTest, WhoComesWhileItStopsIsToldAtTheEnd) {
  auto service = Open(Pool(1));
  Compile(*service, Request({"warm up"}));
  auto a = Send(*service, Request({"a"}, "slow"));
  service->Drain();
  auto joined = Send(*service, Request({"a"}, "slow"));
  auto b = Send(*service, Request({"b"}));
  EXPECT_EQ(Compile(*service, Request({"warm up"}))->reply.outcome(), v1::CompileReply::HIT);
  a->done.WaitForNotification();
  joined->done.WaitForNotification();
  EXPECT_TRUE(a->status.ok() && joined->status.ok());
  EXPECT_FALSE(b->done.HasBeenNotified());
  EXPECT_EQ(service->Kept(), 1u);
  service->Abort();
  b->done.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(b->status)) << b->status;
  EXPECT_TRUE(absl::IsUnavailable(Compile(*service, Request({"c"}))->status));
  EXPECT_EQ(Stats(*service).in_flight(), 0u);
}

TEST_F(CompileServiceTest, AbortAnswersEverybody) {
  auto service = Open(Pool(1));
  Compile(*service, Request({"warm up"}));
  auto a = Send(*service, Request({"a"}, "hang"));
  auto joined = Send(*service, Request({"a"}, "hang"));
  while (Jobs("compile") < 2) absl::SleepFor(absl::Milliseconds(5));
  auto queued = Send(*service, Request({"b"}));  // behind the one that hangs
  service->Abort();
  for (const auto* answer : {a.get(), joined.get(), queued.get()}) {
    answer->done.WaitForNotification();
    EXPECT_EQ(answer->status.code(), absl::StatusCode::kUnavailable) << answer->status;
  }
}

}  // namespace compile_service_test
}  // namespace tensord::server
