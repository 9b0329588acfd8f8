// SPDX-License-Identifier: Apache-2.0
// Two hosts, each with a store of its own, and a folder between them.
#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "base/version.h"
#include "server/fleet/open.h"
#include "server/fleet/programs.h"
#include "server/frames/frame_service.h"
#include "tensord/v1/stats.pb.h"
#include "tests/unit/server/testing.h"

namespace tensord::server {
namespace fleet_service_test {

using ::testing::ElementsAre;

class FleetServiceTest : public ServerTest {
 protected:
  FleetServiceTest() {
    std::filesystem::create_directories(folder_ + "/shared");
    const auto line = fleet::Keys::Make(folder_ + "/key", "key");
    EXPECT_TRUE(line.ok()) << line.status();
  }

  struct Host {
    std::unique_ptr<fleet::Fleet> fleet;
    std::unique_ptr<CompileService> service;
    std::unique_ptr<FrameService> frames;
    ~Host() {
      if (service != nullptr) service->Abort();
    }
  };
  std::unique_ptr<Host> Open(const std::string& name, const std::string& jit_settings = "") {
    auto host = std::make_unique<Host>();
    fleet::FleetConfig config;
    config.url = "file://" + folder_ + "/shared";
    config.sign_key = folder_ + "/key";
    config.options.answer = absl::Seconds(5);  // on a machine under load, too
    auto fleet = fleet::OpenFleet(config);
    EXPECT_TRUE(fleet.ok()) << fleet.status();
    host->fleet = *std::move(fleet);
    ServiceOptions options;
    options.pool = Pool();
    options.cxx = "c++";
    options.jit_settings = jit_settings;
    auto store = store::Store::Open({folder_ + "/" + name});
    host->service =
        std::make_unique<CompileService>(options, *std::move(store), "", host->fleet.get());
    host->frames = std::make_unique<FrameService>(FrameOptions(), host->service->store(),
                                                  host->service->metrics(), host->fleet.get());
    return host;
  }

  static v1::CompileReply Compile(Host& host, const v1::CompileRequest& request) {
    v1::CompileReply reply;
    absl::Notification done;
    host.service->Compile(request.SerializeAsString(), {}, &reply, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
    return reply;
  }
  static v1::Stats Stats(Host& host) {
    v1::Stats stats;
    host.service->FillStats(&stats);
    return stats;
  }

  static v1::FrameEnvironment Environment() {
    v1::FrameEnvironment environment;
    environment.set_format(kFrameFormat);
    environment.set_python("3.11.2");
    environment.set_torch("2.13.0");
    environment.set_options(Sha256("options"));
    return environment;
  }
  static void PutFrame(Host& host, const std::string& code, const std::string& text,
                       uint64_t capture = 0) {
    v1::PutFrameRequest request;
    v1::Frame& frame = *request.mutable_frame();
    *frame.mutable_environment() = Environment();
    frame.mutable_code()->set_digest(Sha256(code));
    frame.mutable_code()->set_qualified_name(code);
    frame.mutable_result()->mutable_code()->set_bytecode(text);
    frame.mutable_result()->mutable_code()->set_name(code);
    request.set_behind(Sha256("before " + code));
    request.set_capture(capture);
    v1::PutFrameReply reply;
    absl::Notification done;
    host.frames->Put(request.SerializeAsString(), &reply, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
  }
  static v1::FindFramesReply FindFrames(Host& host, const std::string& code,
                                        uint64_t wait_milliseconds = 0) {
    v1::FindFramesRequest request;
    request.set_wait_milliseconds(wait_milliseconds);
    request.set_code(Sha256(code));
    *request.mutable_environment() = Environment();
    request.set_captures(true);
    v1::FindFramesReply reply;
    absl::Notification done;
    host.frames->Find(request, &reply, [&](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
    return reply;
  }
};

TEST_F(FleetServiceTest, TheSecondHostCompilesNothing) {
  const auto one = Open("one"), two = Open("two");
  const auto first = Compile(*one, Request({"a", "b"}));
  EXPECT_EQ(first.outcome(), v1::CompileReply::COMPILED);
  one->fleet->Flush(absl::InfiniteFuture());
  const auto second = Compile(*two, Request({"a", "b"}));
  EXPECT_EQ(second.outcome(), v1::CompileReply::HIT);
  EXPECT_EQ(second.artifact().SerializeAsString(), first.artifact().SerializeAsString());
  EXPECT_EQ(Stats(*two).compiled(), 0u);
  EXPECT_EQ(Stats(*two).fleet_hits(), 1u);
  EXPECT_EQ(Jobs("compile"), 1);
  EXPECT_EQ(Jobs("jit"), 2);
  // From now on it is its own, under its own signature, with all that people may ask for.
  EXPECT_EQ(two->service->store()->Verify().programs, 1u);
  EXPECT_EQ(two->service->store()->Verify().kernels, 2u);
  EXPECT_EQ(*two->service->store()->KernelSource(first.artifact().modules(0).kernel_key()),
            *one->service->store()->KernelSource(first.artifact().modules(0).kernel_key()));
  Compile(*two, Request({"a", "b"}));
  EXPECT_EQ(Stats(*two).fleet_hits(), 1u) << "the second time it is here";
  EXPECT_EQ(Stats(*two).hits_fleet(), 1u);
  EXPECT_EQ(Stats(*two).hits_store(), 1u);
  EXPECT_EQ(Stats(*two).hits(), 2u);
  // What its key was made of came along: from it a near miss is explained.
  v1::CompileRequest near = Request({"a", "b"});
  near.mutable_options()->set_unchecked(true);
  Compile(*two, near);
  v1::ListMissesReply misses;
  two->service->ListMisses({}, &misses);
  ASSERT_EQ(misses.programs_size(), 1);
  EXPECT_EQ(misses.programs(0).reason(), "options");
  EXPECT_EQ(misses.programs(0).nearest(), first.program_key());
  // Its kernels serve other programs.
  Compile(*two, Request({"b", "c"}));
  EXPECT_EQ(Stats(*two).kernels_compiled(), 1u);
}

TEST_F(FleetServiceTest, TheSecondHostMakesTheKernelsThatNobodyHas) {
  const auto one = Open("one"), two = Open("two");
  Compile(*one, Request({"a", "b"}));
  one->fleet->Flush(absl::InfiniteFuture());
  const auto reply = Compile(*two, Request({"b", "c"}));
  EXPECT_EQ(reply.outcome(), v1::CompileReply::COMPILED);
  EXPECT_EQ(reply.kernels_compiled(), 1u);
  EXPECT_EQ(Stats(*two).kernels_reused(), 1u);
  EXPECT_EQ(Jobs("jit // b"), 1);
  EXPECT_EQ(two->service->store()->Verify().kernels, 2u);
  // And so does the first, of what the second made.
  two->fleet->Flush(absl::InfiniteFuture());
  EXPECT_EQ(Compile(*one, Request({"c"})).kernels_compiled(), 0u);
}

TEST_F(FleetServiceTest, TracesHaveWhatTheFleetTook) {
  const auto last = [](Host& host) {
    v1::GetTracesRequest request;
    request.set_limit(1);
    v1::Traces traces;
    EXPECT_TRUE(host.service->GetTraces(request, &traces).ok());
    std::vector<std::string> said;
    for (const v1::Span& span : traces.requests(0).spans()) {
      if (span.name().find("fleet") == std::string::npos) continue;
      said.push_back(span.detail().empty() ? span.name() : span.name() + ": " + span.detail());
    }
    return said;
  };
  auto one = Open("one");
  Compile(*one, Request({"a"}));
  EXPECT_THAT(last(*one), ElementsAre("look-up in the fleet: not found", "kernels of the fleet"));
  one->fleet->Flush(absl::Now() + absl::Seconds(10));
  auto two = Open("two");
  Compile(*two, Request({"a"}));
  EXPECT_THAT(last(*two), ElementsAre("look-up in the fleet: found"));
}

TEST_F(FleetServiceTest, OneHostCapturesWhileTheOthersWait) {
  const auto one = Open("one"), two = Open("two"), three = Open("three");
  const auto first = FindFrames(*one, "code", 20'000);
  ASSERT_NE(first.capture(), 0u);
  v1::FindFramesReply waits;
  std::thread second([&] { waits = FindFrames(*two, "code", 20'000); });
  EXPECT_NE(FindFrames(*three, "code", 100).capture(), 0u) << "who does not wait captures";
  PutFrame(*one, "code", "text", first.capture());
  second.join();
  EXPECT_EQ(waits.capture(), 0u);
  EXPECT_EQ(waits.frames_size(), 1);
}

TEST_F(FleetServiceTest, ACaptureWithoutAFrameIsHandedOnToAnotherHost) {
  const auto one = Open("one"), two = Open("two");
  const auto first = FindFrames(*one, "code", 20'000);
  v1::FindFramesReply waits;
  std::thread second([&] { waits = FindFrames(*two, "code", 20'000); });
  absl::SleepFor(absl::Milliseconds(100));
  v1::EndCaptureRequest end;
  end.set_capture(first.capture());
  one->frames->EndCapture(end);
  second.join();
  EXPECT_NE(waits.capture(), 0u);
}

TEST_F(FleetServiceTest, WhatIsSpoiltIsCompiled) {
  const auto one = Open("one");
  Compile(*one, Request({"a"}));
  one->fleet->Flush(absl::InfiniteFuture());
  int spoilt = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/shared")) {
    if (!entry.is_regular_file() || entry.path().string().find("/blob/") == std::string::npos) {
      continue;
    }
    std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
    ++spoilt;
  }
  EXPECT_EQ(spoilt, 3) << "the content, a kernel's own and its binary";
  const auto two = Open("two");
  EXPECT_EQ(Compile(*two, Request({"a"})).outcome(), v1::CompileReply::COMPILED);
  EXPECT_EQ(Stats(*two).fleet_refused(), 2u) << "the program, and its kernel";
  two->fleet->Flush(absl::InfiniteFuture());
  EXPECT_EQ(Compile(*Open("three"), Request({"a"})).outcome(), v1::CompileReply::HIT)
      << "it was put over what was spoilt";
}

// A host whose toolchain differs asks under another key, so that it is never given the other's.
TEST_F(FleetServiceTest, AnotherToolchainNeverAsksForTheSame) {
  const auto one = Open("one");
  Compile(*one, Request({"a"}));
  one->fleet->Flush(absl::InfiniteFuture());
  setenv("FAKE_TOOLCHAIN", "another", 1);
  const auto two = Open("two", "another");
  EXPECT_EQ(Compile(*two, Request({"a"})).outcome(), v1::CompileReply::COMPILED);
  unsetenv("FAKE_TOOLCHAIN");
  EXPECT_EQ(Stats(*two).fleet_hits(), 0u);
  EXPECT_EQ(Stats(*two).fleet_misses(), 2u) << "of the program, and of its kernel";
}

TEST_F(FleetServiceTest, AFailedCompileGivesTheLeaseUp) {
  const auto one = Open("one"), two = Open("two");
  for (Host* host : {one.get(), two.get()}) {
    v1::CompileReply reply;
    absl::Notification done;
    absl::Status failed;
    host->service->Compile(Request({"a"}, "invalid").SerializeAsString(), {}, &reply,
                           [&](absl::Status status) {
                             failed = std::move(status);
                             done.Notify();
                           });
    EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
    EXPECT_FALSE(failed.ok());
  }
  EXPECT_EQ(Stats(*one).fleet_put(), 0u);
}

TEST_F(FleetServiceTest, WhatADaemonThatEndsWillNotMakeIsAnothersToMake) {
  const auto one = Open("one"), two = Open("two");
  for (Host* host : {one.get(), two.get()}) Compile(*host, Request({"warm up"}));
  one->service->Drain();
  v1::CompileReply kept;
  absl::Status status;
  one->service->Compile(Request({"a"}).SerializeAsString(), {}, &kept,
                        [&](absl::Status answer) { status = std::move(answer); });
  while (one->service->Kept() == 0) absl::SleepFor(absl::Milliseconds(5));
  const absl::Time start = absl::Now();
  EXPECT_EQ(Compile(*two, Request({"a"})).outcome(), v1::CompileReply::COMPILED);
  EXPECT_LT(absl::Now() - start, absl::Seconds(15)) << "half of a lease";
  one->service->Abort();
  EXPECT_TRUE(absl::IsUnavailable(status));
}

TEST_F(FleetServiceTest, HostsThatStartAtOnceCompileOnce) {
  const auto one = Open("one"), two = Open("two");
  std::vector<std::thread> threads;
  for (Host* host : {one.get(), two.get()}) {
    threads.emplace_back([host] { Compile(*host, Request({"a"}, "slow")); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Jobs("compile"), 1);
  EXPECT_EQ(Stats(*one).compiled() + Stats(*two).compiled(), 1u);
  EXPECT_EQ(Stats(*one).fleet_waited() + Stats(*two).fleet_waited(), 1u);
}

TEST_F(FleetServiceTest, TheSecondHostCapturesNothing) {
  const auto one = Open("one"), two = Open("two");
  const auto asked = FindFrames(*one, "f");
  ASSERT_NE(asked.capture(), 0u);
  PutFrame(*one, "f", "first", asked.capture());
  PutFrame(*one, "f", "second");
  one->fleet->Flush(absl::InfiniteFuture());
  const auto found = FindFrames(*two, "f");
  EXPECT_EQ(found.capture(), 0u);
  ASSERT_EQ(found.frames_size(), 2);
  const auto record = two->service->store()->PeekFrame(found.frames(0).key());
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(store::DecodeFrameFacts((*record)->facts)->behind,
            std::vector<std::string>{Sha256("before f")});
  EXPECT_EQ(two->service->store()->Verify().frames, 2u);
  EXPECT_NE(FindFrames(*two, "g").capture(), 0u);
}

// Signed by a host of the fleet, and no frame of the code that was asked for.
TEST_F(FleetServiceTest, AFrameOfAnotherCodeIsRefused) {
  const auto one = Open("one"), two = Open("two");
  PutFrame(*one, "f", "first");
  one->fleet->Flush(absl::InfiniteFuture());
  const auto rows = one->service->store()->ListFrames(1);
  const std::string place = Sha256("g") + rows->front().facts.environment;
  const auto record = one->service->store()->PeekFrame(rows->front().key);
  one->fleet->Add({"frames", Sha256(place)}, [&]() -> absl::StatusOr<fleet::Blob> {
    return fleet::Blob{rows->front().key, "", (*record)->payload};
  });
  one->fleet->Flush(absl::InfiniteFuture());
  EXPECT_NE(FindFrames(*two, "g").capture(), 0u);
  EXPECT_EQ(Stats(*two).fleet_refused(), 1u);
  EXPECT_EQ(two->service->store()->Verify().frames, 0u);
}

// Signed by a host of the fleet, and no program.
TEST_F(FleetServiceTest, WhatIsNoProgramIsRefused) {
  const auto one = Open("one");
  Compile(*one, Request({"a"}));
  one->fleet->Flush(absl::InfiniteFuture());
  const std::string key = one->service->store()->List(1)->front().key;
  const auto sound = fleet::PackProgram(*one->service->store(), key);
  ASSERT_TRUE(sound.ok());
  const auto two = store::Store::Open({folder_ + "/two"});
  const auto changed = [&](const std::function<void(v1::FleetProgram&, fleet::Parcel&)>& change) {
    fleet::Parcel parcel = *sound;
    v1::FleetProgram program;
    EXPECT_TRUE(program.ParseFromString(*parcel.content));
    change(program, parcel);
    parcel.content = program.SerializeAsString();
    return parcel;
  };
  const fleet::Parcel wrong[] = {
      changed([](auto& program, auto&) { program.clear_kernels(); }),
      changed([](auto& program, auto&) { program.mutable_kernels(0)->set_key("short"); }),
      changed([](auto& program, auto&) { program.mutable_kernels(0)->set_sha256(Sha256("x")); }),
      changed([](auto& program, auto&) { program.set_payload("\xff"); }),
      changed([](auto&, auto& parcel) { parcel.blobs.clear(); }),
  };
  for (const fleet::Parcel& parcel : wrong) {
    EXPECT_TRUE(absl::IsDataLoss(fleet::TakeProgram(**two, key, parcel)));
  }
  EXPECT_EQ((*two)->Verify().programs, 0u);
  EXPECT_TRUE(fleet::TakeProgram(**two, key, *sound).ok());
  EXPECT_EQ((*two)->Verify().programs, 1u);
}

}  // namespace fleet_service_test
}  // namespace tensord::server
