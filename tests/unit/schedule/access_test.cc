// SPDX-License-Identifier: Apache-2.0
// Which operations must come before which: what follows from others is left out, and nothing else.
#include "compiler/schedule/access.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tensord::testing {
namespace access_test {

using compiler::AccessIndex;
using compiler::BufferId;
using compiler::Expr;
using compiler::LoopOp;
using compiler::OperationSet;
using compiler::Program;

// Four elements of a buffer: from `begin` on or, below 0, nobody knows which.
struct Four {
  BufferId buffer;
  int begin;
  Expr index() const {
    const Expr loop = Expr::Loop(0, Expr(4));
    return begin < 0 ? loop * loop : loop + begin;
  }
};

LoopOp Access(const std::vector<Four>& reads, const Four& written) {
  LoopOp op;
  op.sizes = {Expr(4)};
  for (const Four& read : reads) {
    op.block.insts.push_back(
        {.kind = compiler::InstKind::kLoad, .index = read.index(), .buffer = read.buffer});
  }
  op.block.insts.push_back({.kind = compiler::InstKind::kConstant});
  op.stores.push_back({written.buffer, written.index(), 0});
  return op;
}

Program ThreeBuffers() {
  Program program;
  for (int b = 0; b < 3; ++b) {
    program.buffers.push_back({.kind = compiler::BufferKind::kComputed,
                               .dtype = v1::DTYPE_FLOAT32,
                               .sizes = {Expr(64)},
                               .strides = {Expr(1)}});
  }
  return program;
}

// Every pair that must stay in order, looked at one by one. exact: what is read counts by its
// elements, else by its buffer, as it may where one operation alone has written it.
std::vector<OperationSet> AllPredecessors(const Program& program, bool exact) {
  const auto meet = [&](BufferId buffer, const Expr& a, const Expr& b) {
    return !compiler::AreDisjoint(compiler::AccessBoxOf(program.buffers[buffer], a),
                                  compiler::AccessBoxOf(program.buffers[buffer], b));
  };
  std::vector<OperationSet> all(program.operations.size());
  for (int j = 0; j < static_cast<int>(all.size()); ++j) {
    const auto& later = std::get<LoopOp>(program.operations[j]);
    for (int i = 0; i < j; ++i) {
      const auto& earlier = std::get<LoopOp>(program.operations[i]);
      const auto& store = earlier.stores[0];
      bool conflict = store.buffer == later.stores[0].buffer &&
                      meet(store.buffer, store.index, later.stores[0].index);
      for (const auto& inst : later.block.insts) {
        if (inst.kind != compiler::InstKind::kLoad || inst.buffer != store.buffer) continue;
        conflict |= !exact || meet(store.buffer, store.index, inst.index);
      }
      conflict |= compiler::AccessesOf(earlier).reads.count(later.stores[0].buffer) != 0;
      if (conflict) all[j].insert(i);
    }
  }
  return all;
}

// With what follows from others.
std::vector<OperationSet> Closed(std::vector<OperationSet> before) {
  for (OperationSet& of : before) {
    for (int i : OperationSet(of)) of.insert(before[i].begin(), before[i].end());
  }
  return before;
}

// How many of `wanted` are not in `found`.
int Missing(const std::vector<OperationSet>& wanted, const std::vector<OperationSet>& found) {
  int missing = 0;
  for (size_t j = 0; j < wanted.size(); ++j) {
    for (int i : wanted[j]) missing += found[j].count(i) == 0;
  }
  return missing;
}

TEST(PredecessorsTest, AreThoseOfAllPairs) {
  std::mt19937 random(11);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  const auto four = [&] { return Four{pick(3), pick(8) == 0 ? -1 : 2 * pick(30)}; };
  for (int round = 0; round < 500; ++round) {
    Program program = ThreeBuffers();
    for (int i = 0; i < 24; ++i) {
      std::vector<Four> reads;
      if (pick(3) == 0) reads.push_back(four());
      if (pick(9) == 0) reads.push_back(four());
      program.operations.push_back(Access(reads, four()));
    }
    const auto found = Closed(Predecessors(program, AccessIndex(program)));
    EXPECT_EQ(Missing(Closed(AllPredecessors(program, /*exact=*/true)), found), 0);
    EXPECT_EQ(Missing(found, Closed(AllPredecessors(program, /*exact=*/false))), 0);
  }
}

TEST(PredecessorsTest, ReaderOfOnePartDoesNotWaitForTheOther) {
  Program program = ThreeBuffers();
  program.operations = {Access({}, {0, 0}), Access({}, {0, 4}), Access({{0, 0}}, {1, 0}),
                        Access({{0, 4}, {0, 2}}, {2, 0}), Access({}, {0, 8})};
  const auto found = Predecessors(program, AccessIndex(program));
  EXPECT_EQ(found[2], OperationSet({0}));
  EXPECT_EQ(found[3], OperationSet({0, 1}));
  EXPECT_EQ(Closed(found)[4], OperationSet({0, 1, 2, 3}));
}

}  // namespace access_test
}  // namespace tensord::testing
