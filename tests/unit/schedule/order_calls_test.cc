// SPDX-License-Identifier: Apache-2.0
// In which order neighbouring library calls run, and what memory that takes.
#include "compiler/schedule/order_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/library_scratch.h"
#include "compiler/schedule/verify_schedule.h"

namespace tensord::testing {
namespace order_calls_test {

using compiler::BufferId;
using compiler::BufferKind;
using compiler::BufferView;
using compiler::Expr;
using compiler::ExternOp;
using compiler::LibraryScratch;
using compiler::Program;
using compiler::Rejection;
using compiler::Schedule;
using ::testing::ElementsAre;

// A program of library calls alone, each a step.
class Calls {
 public:
  BufferId Input(int64_t bytes, bool released) {
    released_.push_back(released);
    return Add(BufferKind::kInput, bytes, static_cast<int>(released_.size()) - 1);
  }

  // The buffer that a call of these writes.
  BufferId Call(const std::vector<BufferId>& reads, int64_t bytes, bool ordered = false,
                const std::string& op = "aten::mm") {
    const BufferId result = Add(BufferKind::kComputed, bytes, -1);
    ExternOp call{.op = op, .overload = "out", .results = {result}, .ordered = ordered};
    for (BufferId id : reads) {
      call.args.push_back({compiler::ViewOfBuffer(id, program.buffers[id])});
    }
    call.outs = {compiler::ViewOfBuffer(result, program.buffers[result])};
    schedule.steps.push_back({static_cast<int>(program.operations.size())});
    program.operations.emplace_back(std::move(call));
    return result;
  }

  // Operations in the order of their steps.
  std::vector<int> Order() {
    OrderCalls(program, released_, &schedule);
    EXPECT_TRUE(VerifySchedule(program, schedule).ok());
    std::vector<int> order;
    for (const auto& step : schedule.steps) order.push_back(std::get<int>(step.work));
    return order;
  }

  Program program;
  Schedule schedule;

 private:
  BufferId Add(BufferKind kind, int64_t bytes, int number) {
    program.buffers.push_back({.kind = kind,
                               .number = number,
                               .dtype = v1::DTYPE_UINT8,
                               .device = v1::DEVICE_TYPE_CUDA,
                               .sizes = {Expr(bytes)},
                               .strides = {Expr(1)}});
    return static_cast<BufferId>(program.buffers.size()) - 1;
  }

  std::vector<bool> released_;
};

// The gradient times the weight makes an image; times what was saved it makes little, and that
// goes.
TEST(OrderCallsTest, WhatFreesMemoryRunsFirst) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), weight = calls.Input(10, false);
  const BufferId saved = calls.Input(400, true);
  const BufferId image = calls.Call({gradient, weight}, 400);
  calls.Call({gradient, saved}, 10);
  calls.Call({image}, 1);
  calls.schedule.rejections = {Rejection{.a = 0, .b = 2, .why = "a call"}};
  EXPECT_THAT(calls.Order(), ElementsAre(1, 0, 2));
  EXPECT_EQ(calls.schedule.rejections[0].a, 1);
  EXPECT_EQ(calls.schedule.rejections[0].b, 2);
}

TEST(OrderCallsTest, OverSeveral) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), saved = calls.Input(400, true);
  calls.Call({gradient}, 100);
  calls.Call({gradient}, 200);
  calls.Call({gradient, saved}, 10);
  EXPECT_THAT(calls.Order(), ElementsAre(2, 0, 1));
}

TEST(OrderCallsTest, NotWhereWhatWasSavedStays) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), saved = calls.Input(400, false);
  calls.Call({gradient}, 400);
  calls.Call({gradient, saved}, 10);
  EXPECT_THAT(calls.Order(), ElementsAre(0, 1));
}

TEST(OrderCallsTest, NotWhereALaterCallReadsItAgain) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), saved = calls.Input(400, true);
  calls.Call({gradient}, 400);
  const BufferId product = calls.Call({gradient, saved}, 10);
  calls.Call({product, saved}, 10);
  EXPECT_THAT(calls.Order(), ElementsAre(0, 1, 2));
}

TEST(OrderCallsTest, NotOverWhatItNeeds) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), saved = calls.Input(400, true);
  const BufferId image = calls.Call({gradient}, 400);
  calls.Call({image, saved}, 10);
  EXPECT_THAT(calls.Order(), ElementsAre(0, 1));
}

TEST(OrderCallsTest, EffectsStayInOrder) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), saved = calls.Input(400, true);
  calls.Call({gradient}, 400, /*ordered=*/true);
  calls.Call({gradient, saved}, 10, /*ordered=*/true);
  EXPECT_THAT(calls.Order(), ElementsAre(0, 1));
}

TEST(OrderCallsTest, WaitsAreNotEarlier) {
  Calls calls;
  const BufferId gradient = calls.Input(100, true), begun = calls.Input(400, true);
  calls.Call({gradient}, 400);
  calls.Call({begun}, 10, false, "_c10d_functional::wait_tensor");
  EXPECT_THAT(calls.Order(), ElementsAre(0, 1));
}

// Of a layer of Swin: 768 windows and heads of 49 queries, 32 features.
TEST(LibraryScratchTest, OfAttentionsBackward) {
  const BufferView view{.buffer = 0, .sizes = {64, 12, 49, 32}, .strides = {18816, 1568, 32, 1}};
  ExternOp call{.op = "aten::_scaled_dot_product_efficient_attention_backward"};
  for (int i = 0; i < 4; ++i) call.args.push_back({view});
  EXPECT_EQ(LibraryScratch(call), 768 * (64 * 64 * 4 + 16));
  call.op = "aten::_scaled_dot_product_flash_attention_backward";
  EXPECT_EQ(LibraryScratch(call), 768 * 128 * 32 * 4);
  call.op = "aten::mm";
  EXPECT_EQ(LibraryScratch(call), 0);
}

// Of ConvNeXt's last images; not of smaller ones, of other convolutions with a weight of such a
// shape (of images of one channel, transposed), nor where the weight is frozen.
TEST(LibraryScratchTest, OfDepthwiseConvolutions) {
  const auto boolean = [](bool value) {
    v1::Argument argument;
    argument.set_boolean(value);
    return compiler::ExternArg{argument};
  };
  const auto scratch_of = [&](std::vector<Expr> image, bool transposed, bool is_wanted) {
    ExternOp call{.op = "aten::convolution_backward"};
    const BufferView pixels{.buffer = 0, .sizes = std::move(image)};
    call.args = {{pixels}, {pixels}, {BufferView{.buffer = 1, .sizes = {768, 1, 7, 7}}}};
    for (int i = 3; i < 10; ++i) call.args.push_back(boolean(i == 7 && transposed));
    call.args.push_back({compiler::ExternArgList{boolean(true), boolean(is_wanted)}});
    return LibraryScratch(call);
  };
  EXPECT_EQ(scratch_of({16, 768, 7, 7}, false, true), 768 * 49 * 128 * 4);
  EXPECT_EQ(scratch_of({16, 768, 6, 6}, false, true), 0);
  EXPECT_EQ(scratch_of({16, 1, 32, 32}, false, true), 0);
  EXPECT_EQ(scratch_of({16, 768, 7, 7}, true, true), 0);
  EXPECT_EQ(scratch_of({16, 768, 7, 7}, false, false), 0);
  EXPECT_EQ(scratch_of({16, 768, 7}, false, true), 0);
}

}  // namespace order_calls_test
}  // namespace tensord::testing
