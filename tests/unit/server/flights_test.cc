// SPDX-License-Identifier: Apache-2.0
#include "server/compile/flights.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tensord::server {
namespace flights_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;

using Flights = ProgramFlights<int, std::string>;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
absl::Time At(int seconds) { return kStart + absl::Seconds(seconds); }

// A flight named `key`, whose first waiter has the same name.
void Add(Flights& flights, const std::string& caller, const std::string& key,
         Cost cost = Cost::kCheap, int at = 0) {
  EXPECT_TRUE(flights.JoinOrAdd(key, caller, cost, 0, key, At(at)));
}

std::string Next(Flights& flights) {
  const auto turn = flights.Next();
  return turn.has_value() ? turn->key : "none";
}

// The order in which one worker has them.
std::vector<std::string> Order(Flights& flights) {
  std::vector<std::string> order;
  while (const auto turn = flights.Next()) {
    order.push_back(turn->key);
    flights.Finish(turn->key);
  }
  return order;
}

TEST(ProgramFlightsTest, CallersTakeTurns) {
  Flights flights(1, 100);
  for (const char* key : {"a1", "a2", "a3", "a4"}) Add(flights, "a", key);
  for (const char* key : {"b1", "b2"}) Add(flights, "b", key);
  Add(flights, "c", "c1");
  EXPECT_THAT(Order(flights), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3", "a4"));
}

TEST(ProgramFlightsTest, WhoHasAThousandDelaysWhoHasOneByOne) {
  Flights flights(1, 2000);
  for (int i = 0; i < 1000; ++i) Add(flights, "a", "a" + std::to_string(i));
  EXPECT_EQ(Next(flights), "a0");
  Add(flights, "b", "b");
  flights.Finish("a0");
  EXPECT_EQ(Next(flights), "a1");  // who waited first
  flights.Finish("a1");
  EXPECT_EQ(Next(flights), "b");
}

TEST(ProgramFlightsTest, WhatAnotherWantsTooComesInItsTurn) {
  Flights flights(1, 100);
  for (const char* key : {"a1", "a2", "a3", "a4"}) Add(flights, "a", key);
  EXPECT_TRUE(flights.JoinOther("a4", "b", "joined"));
  EXPECT_EQ(Next(flights), "a1");
  flights.Finish("a1");
  EXPECT_EQ(Next(flights), "a4");
  EXPECT_THAT(flights.Finish("a4"), ElementsAre("a4", "joined"));
  EXPECT_THAT(Order(flights), ElementsAre("a2", "a3"));
}

TEST(ProgramFlightsTest, JoinsOnlyWhatThereIs) {
  Flights flights(1, 100);
  EXPECT_FALSE(flights.JoinOther("a", "b", "joined"));
  Add(flights, "a", "a");
  EXPECT_EQ(Next(flights), "a");
  EXPECT_TRUE(flights.JoinOther("a", "b", "joined"));  // while it is up
  EXPECT_THAT(flights.Finish("a"), ElementsAre("a", "joined"));
  EXPECT_EQ(Next(flights), "none");
}

TEST(ProgramFlightsTest, OneWorkerIsKeptForTheCheap) {
  Flights flights(3, 100);
  for (const char* key : {"d1", "d2", "d3"}) Add(flights, "a", key, Cost::kExpensive);
  Add(flights, "a", "c1");
  EXPECT_EQ(Next(flights), "d1");
  EXPECT_EQ(Next(flights), "d2");
  EXPECT_EQ(Next(flights), "c1");
  EXPECT_EQ(Next(flights), "none");
  flights.Finish("c1");
  EXPECT_EQ(Next(flights), "none");
  flights.Finish("d2");
  EXPECT_EQ(Next(flights), "d3");
}

TEST(ProgramFlightsTest, CheapOnesMayHaveEveryWorker) {
  Flights flights(2, 100);
  for (const char* key : {"c1", "c2", "c3"}) Add(flights, "a", key);
  EXPECT_EQ(Next(flights), "c1");
  EXPECT_EQ(Next(flights), "c2");
  EXPECT_EQ(Next(flights), "none");
}

TEST(ProgramFlightsTest, ASingleWorkerIsForAll) {
  Flights flights(1, 100);
  Add(flights, "a", "d1", Cost::kExpensive);
  EXPECT_EQ(Next(flights), "d1");
}

TEST(ProgramFlightsTest, RefusesMoreThanThereIsRoomFor) {
  Flights flights(1, 2);
  Add(flights, "a", "a1");
  EXPECT_EQ(Next(flights), "a1");
  Add(flights, "a", "a2");
  EXPECT_FALSE(flights.JoinOrAdd("b1", "b", Cost::kCheap, 0, "b1"));
  Add(flights, "b", "a2");  // joining needs none
  EXPECT_EQ(flights.waiting(), 1u);
  flights.Finish("a1");
  Add(flights, "b", "b1");
}

TEST(ProgramFlightsTest, WhoFillsTheRoomMakesPlaceForOthers) {
  Flights flights(1, 5);
  Add(flights, "a", "up");
  EXPECT_EQ(Next(flights), "up");
  for (const char* key : {"a1", "a2", "a3", "a4"}) Add(flights, "a", key);
  EXPECT_FALSE(flights.JoinOrAdd("a5", "a", Cost::kCheap, 0, "a5"));
  Add(flights, "c", "a4");  // which is not a's alone any more
  EXPECT_THAT(flights.JoinOrAdd("b1", "b", Cost::kCheap, 0, "b1"), Optional(ElementsAre("a3")));
  EXPECT_THAT(flights.JoinOrAdd("b2", "b", Cost::kCheap, 0, "b2"), Optional(ElementsAre("a2")));
  EXPECT_FALSE(flights.JoinOrAdd("b3", "b", Cost::kCheap, 0, "b3"));  // each has two
  flights.Finish("up");
  EXPECT_THAT(Order(flights), UnorderedElementsAre("a1", "a4", "b1", "b2"));
}

TEST(ProgramFlightsTest, WhoWaitedTooLongGoesAndOthersStay) {
  Flights flights(1, 100);
  Add(flights, "a", "up");
  EXPECT_EQ(Next(flights), "up");
  Add(flights, "a", "a1");
  Add(flights, "a", "a2");
  EXPECT_TRUE(flights.JoinOther("a1", "b", "later", At(10)));
  EXPECT_THAT(flights.TakeLate(At(-1)), IsEmpty());
  EXPECT_THAT(flights.TakeLate(At(5)), UnorderedElementsAre("a1", "a2"));
  EXPECT_EQ(flights.waiting(), 1u);
  // Nobody waits for a2, which may be asked for anew.
  Add(flights, "c", "a2", Cost::kCheap, 20);
  EXPECT_THAT(flights.Finish("up"), ElementsAre("up"));
  EXPECT_EQ(Next(flights), "a1");
  EXPECT_THAT(flights.Finish("a1"), ElementsAre("later"));
  EXPECT_THAT(Order(flights), ElementsAre("a2"));
}

TEST(ProgramFlightsTest, TellsOfLatenessInTime) {
  Flights flights(1, 100);
  std::vector<std::string> late;
  absl::Time told;
  std::thread thread([&] {
    late = flights.AwaitLate(absl::Milliseconds(200));
    told = absl::Now();
    EXPECT_THAT(flights.AwaitLate(absl::Milliseconds(200)), IsEmpty());  // until Stop
  });
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  EXPECT_TRUE(flights.JoinOrAdd("a", "a", Cost::kCheap, 0, "a"));
  absl::SleepFor(absl::Milliseconds(500));
  flights.Stop();
  thread.join();
  EXPECT_THAT(late, ElementsAre("a"));
  EXPECT_GE(told - start, absl::Milliseconds(190));
}

TEST(CostTest, ManyNodesOrManyBytesLookExpensive) {
  EXPECT_EQ(CostOf(kExpensiveNodes - 1, kExpensiveBytes - 1), Cost::kCheap);
  EXPECT_EQ(CostOf(kExpensiveNodes, 1), Cost::kExpensive);
  EXPECT_EQ(CostOf(1, kExpensiveBytes), Cost::kExpensive);
  EXPECT_EQ(PlacesFor(Cost::kExpensive, 1), 1);
  EXPECT_EQ(PlacesFor(Cost::kExpensive, 2), 1);
  EXPECT_EQ(PlacesFor(Cost::kExpensive, 8), 7);
  EXPECT_EQ(PlacesFor(Cost::kCheap, 8), 8);
}

}  // namespace flights_test
}  // namespace tensord::server
