// SPDX-License-Identifier: Apache-2.0
#include "server/frames/check_frame.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "base/version.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {
namespace check_frame_test {

using ::testing::HasSubstr;
using v1::Frame;

const std::string kDigest(32, 'd');

// With something of everything that numbers refer to; digests and the format are filled in.
constexpr char kSound[] = R"pb(
  code { module: "m" qualified_name: "f" }
  environment { python: "3.11.2" torch: "2.13.0+cpu" }
  inlined {
    code { module: "m" qualified_name: "g" }
    path: "g"
    path: "()"
  }
  sources { step: LOCAL name: "x" }
  sources { step: ATTRIBUTE base: 1 name: "weight" }
  sources {
    step: ITEM
    base: 2
    constant { integer: "-3" }
  }
  sources { step: SIZE base: 2 number: 1 }
  sources { step: FUNCTION_MODE number: 0 }
  guards {
    source: 1
    type { name { module: "torch" qualified_name: "Tensor" } }
  }
  guards {
    source: 2
    tensor {
      type { module: "torch" }
      dtype: "float32"
      device: "cuda"
      has_sizes: true
      sizes { value: 3 }
      sizes {}
      strides { value: -1 }
      strides {}
    }
  }
  guards {
    source: 3
    equals {
      tuple {
        items { none: true }
        items { dtype: "float16" }
      }
    }
  }
  guards { distinct { sources: 1 sources: 2 } }
  guards { relation { expression: "s0 > 2" symbols: "s0" sources: 4 } }
  guards {
    state {
      default_dtype: "float32"
      autocast { device: "cpu" }
    }
  }
  guards { source: 1 same_as: 2 }
  guards {
    called {
      function { module: "torch.cuda" qualified_name: "current_device" }
      result { integer: "0" }
    }
  }
  graphs {
    name: "compiled"
    results: 2
    tangents: 1
    result_is_argument: 0
    result_is_argument: 3
    result_requires_grad: true
    result_requires_grad: false
    has_gradient: true
    has_gradient: false
    has_gradient: true
    tangent_layouts { strides: 1 }
    inference {
      graph {
        inputs { name: "x" }
        outputs { value {} }
        outputs { value {} }
      }
      inputs: 2
      arguments: 3
    }
    forward {
      graph {
        inputs { name: "x" }
        inputs { name: "y" }
        outputs { value {} }
        outputs { value {} }
        outputs { value {} }
      }
      inputs: 0
      inputs: 2
      arguments: 3
    }
    backward {
      graph {}
      arguments: 4
    }
  }
  result {
    code { bytecode: "bytes" name: "f" positional: 2 variables: "x" variables: "y" }
    globals { name: "torch" module: "torch" }
    globals {
      name: "resume"
      continuation {
        code { bytecode: "more" name: "resume" }
        of { qualified_name: "f" }
      }
    }
    globals {
      name: "split"
      split {
        arguments: 2
        calls { graph: "compiled" arguments: 0 arguments: 1 arguments: 0 }
        calls { graph: "compiled" arguments: 2 arguments: 3 arguments: 1 }
        results: 5
      }
    }
  }
)pb";

Frame Sound() {
  Frame frame;
  const bool parsed = google::protobuf::TextFormat::ParseFromString(kSound, &frame);
  EXPECT_TRUE(parsed);
  frame.mutable_environment()->set_format(kFrameFormat);
  frame.mutable_environment()->set_options(kDigest);
  frame.mutable_code()->set_digest(kDigest);
  frame.mutable_inlined(0)->mutable_code()->set_digest(kDigest);
  frame.mutable_result()->mutable_globals(1)->mutable_continuation()->mutable_of()->set_digest(
      kDigest);
  return frame;
}

TEST(CheckFrameTest, SoundFrameIsTaken) {
  const absl::Status status = CheckFrame(Sound());
  EXPECT_TRUE(status.ok()) << status;
}

// Whatever the bytes: refused, or with numbers that lead somewhere.
TEST(CheckFrameTest, MutatedFramesAreRefusedOrWhole) {
  const std::string sound = Sound().SerializeAsString();
  std::mt19937 draw(0);
  int parsed = 0, taken = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string data = sound;
    for (uint32_t edits = draw() % 3 + 1; edits > 0; --edits) {
      const size_t at = draw() % data.size();
      if (draw() % 2 == 0) {
        data[at] = static_cast<char>(draw());
      } else {
        data.replace(at, draw() % 6, sound.substr(draw() % sound.size(), draw() % 20));
      }
      if (data.empty()) data = sound;
    }
    Frame frame;
    if (!frame.ParseFromString(data)) continue;
    ++parsed;
    if (!CheckFrame(frame).ok()) continue;
    ++taken;
    for (int i = 0; i < frame.sources_size(); ++i) {
      ASSERT_LE(frame.sources(i).base(), static_cast<uint32_t>(i));
    }
    for (const v1::FrameGuard& guard : frame.guards()) {
      ASSERT_LE(guard.source(), static_cast<uint32_t>(frame.sources_size()));
    }
    for (const v1::GraphCall& call : frame.graphs()) {
      for (const uint32_t input : call.forward().inputs()) {
        ASSERT_LT(input, call.forward().arguments());
      }
    }
  }
  EXPECT_GT(parsed, taken);
  EXPECT_GT(taken, 0);
}

struct Case {
  const char* name;
  std::function<void(Frame&)> spoil;
  const char* message;
};

const Case kCases[] = {
    {"format", [](Frame& f) { f.mutable_environment()->set_format(9); }, "environment.format: 9"},
    {"python", [](Frame& f) { f.mutable_environment()->clear_python(); },
     "environment.python: it is missing"},
    {"torch", [](Frame& f) { f.mutable_environment()->clear_torch(); }, "environment.torch"},
    {"options", [](Frame& f) { f.mutable_environment()->set_options("x"); },
     "environment.options: a digest has 32 bytes, this has 1"},
    {"code", [](Frame& f) { f.mutable_code()->clear_digest(); }, "code.digest"},
    {"code_name", [](Frame& f) { f.mutable_code()->clear_qualified_name(); },
     "code.qualified_name"},
    {"inlined", [](Frame& f) { f.mutable_inlined(0)->mutable_code()->clear_digest(); },
     "inlined[0].code.digest"},
    {"inlined_path", [](Frame& f) { f.mutable_inlined(0)->set_path(1, ""); },
     "inlined[0].path[1]: it is missing"},
    {"step", [](Frame& f) { f.mutable_sources(0)->clear_step(); }, "sources[0].step: 0 is no step"},
    {"unknown_step",
     [](Frame& f) { f.mutable_sources(0)->set_step(static_cast<v1::FrameSource::Step>(99)); },
     "sources[0].step: 99"},
    {"own_base", [](Frame& f) { f.mutable_sources(1)->set_base(2); },
     "sources[1].base: 2 is past the 1 sources before this one"},
    {"no_base", [](Frame& f) { f.mutable_sources(1)->set_base(0); },
     "sources[1].base: it is missing"},
    {"local_base", [](Frame& f) { f.mutable_sources(0)->set_base(1); },
     "sources[0].base: LOCAL starts from the frame"},
    {"name", [](Frame& f) { f.mutable_sources(1)->clear_name(); }, "sources[1].name"},
    {"constant", [](Frame& f) { f.mutable_sources(2)->clear_constant(); },
     "sources[2].constant.kind"},
    {"integer", [](Frame& f) { f.mutable_sources(2)->mutable_constant()->set_integer("3x"); },
     "sources[2].constant.integer"},
    {"number", [](Frame& f) { f.mutable_sources(3)->set_number(-1); }, "sources[3].number"},
    {"guard_source", [](Frame& f) { f.mutable_guards(0)->set_source(77); },
     "guards[0].source: 77 is past the 5 sources"},
    {"guard_no_source", [](Frame& f) { f.mutable_guards(0)->set_source(0); },
     "guards[0].source: it is missing"},
    {"check", [](Frame& f) { f.mutable_guards(0)->clear_check(); },
     "guards[0].check: it is missing"},
    {"class", [](Frame& f) { f.mutable_guards(0)->mutable_type()->mutable_name()->clear_module(); },
     "guards[0].type.name.module"},
    {"class_digest", [](Frame& f) { f.mutable_guards(0)->mutable_type()->set_digest("x"); },
     "guards[0].type.digest"},
    {"device", [](Frame& f) { f.mutable_guards(1)->mutable_tensor()->set_device("cuda:0"); },
     "guards[1].tensor.device: it has an index"},
    {"size",
     [](Frame& f) { f.mutable_guards(1)->mutable_tensor()->mutable_sizes(0)->set_value(-1); },
     "guards[1].tensor.sizes[0].value"},
    {"strides", [](Frame& f) { f.mutable_guards(1)->mutable_tensor()->add_strides(); },
     "guards[1].tensor.strides: 3 entries for 2 dimensions"},
    {"nested",
     [](Frame& f) {
       f.mutable_guards(2)->mutable_equals()->mutable_tuple()->mutable_items(1)->clear_kind();
     },
     "guards[2].equals.tuple.items[1].kind"},
    {"slice", [](Frame& f) { f.mutable_guards(2)->mutable_equals()->mutable_slice()->add_items(); },
     "guards[2].equals.slice: start, stop and step are needed, not 1 items"},
    {"dictionary",
     [](Frame& f) { f.mutable_guards(2)->mutable_equals()->mutable_dictionary()->add_items(); },
     "guards[2].equals.dictionary: a key has no value"},
    {"distinct", [](Frame& f) { f.mutable_guards(3)->mutable_distinct()->set_sources(1, 6); },
     "guards[3].distinct.sources[1]: 6 is past the 5 sources"},
    {"relation", [](Frame& f) { f.mutable_guards(4)->mutable_relation()->set_sources(0, 0); },
     "guards[4].relation.sources[0]: it is missing"},
    {"symbols", [](Frame& f) { f.mutable_guards(4)->mutable_relation()->add_symbols("s1"); },
     "guards[4].relation.symbols: 2 for 1 sources"},
    {"state", [](Frame& f) { f.mutable_guards(5)->mutable_state()->clear_default_dtype(); },
     "guards[5].state.default_dtype"},
    {"same_as", [](Frame& f) { f.mutable_guards(6)->set_same_as(6); },
     "guards[6].same_as: 6 is past the 5 sources"},
    {"called",
     [](Frame& f) { f.mutable_guards(7)->mutable_called()->mutable_function()->clear_module(); },
     "guards[7].called.function.module"},
    {"mode", [](Frame& f) { f.mutable_sources(4)->set_number(-1); }, "sources[4].number"},
    {"function", [](Frame& f) { f.mutable_guards(6)->mutable_same_function(); },
     "guards[6].same_function.name.module: it is missing"},
    {"iterator", [](Frame& f) { f.mutable_guards(6)->set_iterator_length(-1); },
     "guards[6].iterator_length: it is negative"},
    {"range_left", [](Frame& f) { f.mutable_guards(6)->mutable_range_left(); },
     "guards[6].range_left: start, stop and step are needed, not 0 items"},
    {"own_device",
     [](Frame& f) { f.mutable_guards(2)->mutable_equals()->set_own_device("cuda:1"); },
     "guards[2].equals.own_device.device: it has an index"},
    {"numpy", [](Frame& f) { f.mutable_guards(2)->mutable_equals()->mutable_numpy(); },
     "guards[2].equals.numpy.dtype: it is missing"},
    {"graph_name", [](Frame& f) { f.mutable_graphs(0)->clear_name(); }, "graphs[0].name"},
    {"two_names", [](Frame& f) { *f.add_graphs() = f.graphs(0); },
     "graphs[1].name: another graph is called 'compiled'"},
    {"no_program",
     [](Frame& f) {
       f.mutable_graphs(0)->clear_inference();
       f.mutable_graphs(0)->clear_forward();
     },
     "graphs[0].inference: there is neither"},
    {"backward_alone", [](Frame& f) { f.mutable_graphs(0)->clear_forward(); },
     "graphs[0].forward: there is a program of forward and backward without it"},
    {"forward_alone", [](Frame& f) { f.mutable_graphs(0)->clear_backward(); },
     "graphs[0].backward: there is a program of forward and backward without it"},
    {"results", [](Frame& f) { f.mutable_graphs(0)->set_results(0xffffffff); },
     "graphs[0].results: 4294967295 of the 2 that its program gives"},
    {"saved",
     [](Frame& f) {
       f.mutable_graphs(0)->set_saved_tensors(0xffffffff);
       f.mutable_graphs(0)->set_saved_numbers(1);
     },
     "graphs[0].results and what is saved: 4294967298 of the 3 that its program gives"},
    {"no_graph", [](Frame& f) { f.mutable_graphs(0)->mutable_backward()->clear_graph(); },
     "graphs[0].backward.graph: it is missing"},
    {"input", [](Frame& f) { f.mutable_graphs(0)->mutable_forward()->set_inputs(1, 3); },
     "graphs[0].forward.inputs[1]: 3 is past the 3 arguments"},
    {"inputs", [](Frame& f) { f.mutable_graphs(0)->mutable_forward()->add_inputs(1); },
     "graphs[0].forward.inputs: 3 for the 2 inputs of the graph"},
    {"arguments", [](Frame& f) { f.mutable_graphs(0)->mutable_forward()->set_arguments(4); },
     "graphs[0].forward.arguments: 4, of inference 3"},
    {"tangent", [](Frame& f) { f.mutable_graphs(0)->set_tangents(0, 2); },
     "graphs[0].tangents[0]: 2 is past the 2 results"},
    {"alias", [](Frame& f) { f.mutable_graphs(0)->set_result_is_argument(1, 4); },
     "graphs[0].result_is_argument[1]: 4 is past the 3 arguments"},
    {"views", [](Frame& f) { f.mutable_graphs(0)->add_result_is_view(true); },
     "graphs[0].result_is_view: 1 entries for 2 results"},
    {"view",
     [](Frame& f) {
       f.mutable_graphs(0)->add_result_is_view(true);
       f.mutable_graphs(0)->add_result_is_view(false);
     },
     "graphs[0].result_is_view[0]: it is of no argument"},
    {"bases",
     [](Frame& f) {
       f.mutable_graphs(0)->add_result_is_view_of(3);
       f.mutable_graphs(0)->add_result_is_view_of(0);
     },
     "graphs[0].result_is_view_of[0]: 3 is past the 2 results"},
    {"hidden", [](Frame& f) { f.mutable_graphs(0)->set_hidden_results(3); },
     "graphs[0].hidden_results: 3 of 2 results"},
    {"aliases", [](Frame& f) { f.mutable_graphs(0)->add_result_is_argument(0); },
     "graphs[0].result_is_argument: 3 entries for 2 results"},
    {"gradients", [](Frame& f) { f.mutable_graphs(0)->add_has_gradient(true); },
     "graphs[0].has_gradient: 4 entries for 3 arguments"},
    {"grads", [](Frame& f) { f.mutable_graphs(0)->add_result_requires_grad(true); },
     "graphs[0].result_requires_grad: 3 entries for 2 results"},
    {"tangent_layouts", [](Frame& f) { f.mutable_graphs(0)->add_tangent_layouts(); },
     "graphs[0].tangent_layouts: 2 entries for 1 tangents"},
    {"result", [](Frame& f) { f.clear_result(); }, "result: it is missing"},
    {"result_code", [](Frame& f) { f.mutable_result()->clear_code(); },
     "result.code: it is missing, and there are graphs or globals for it"},
    {"bytecode", [](Frame& f) { f.mutable_result()->mutable_code()->clear_bytecode(); },
     "result.code.bytecode: it is missing"},
    {"bytecode_arguments",
     [](Frame& f) { f.mutable_result()->mutable_code()->set_keyword_only(1); },
     "result.code.variables: 2 for 3 arguments"},
    {"bytecode_constant",
     [](Frame& f) { f.mutable_result()->mutable_code()->mutable_constants()->add_items(); },
     "result.code.constants.items[0].kind: it is missing"},
    {"absent_tangents",
     [](Frame& f) {
       f.mutable_graphs(0)->add_tangent_absent(true);
       f.mutable_graphs(0)->add_tangent_absent(true);
     },
     "graphs[0].tangent_absent: 2 entries for 1 tangents"},
    {"with_all",
     [](Frame& f) {
       v1::GraphCall& call = *f.mutable_graphs(0);
       *call.mutable_backward_with_all() = call.backward();
       call.mutable_backward_with_all()->set_arguments(9);
     },
     "graphs[0].backward_with_all.arguments: 9, of backward"},
    {"global", [](Frame& f) { f.mutable_result()->mutable_globals(0)->clear_value(); },
     "result.globals[0].value: it is missing"},
    {"continuation",
     [](Frame& f) {
       f.mutable_result()->mutable_globals(1)->mutable_continuation()->mutable_of()->clear_digest();
     },
     "result.globals[1].continuation.of.digest"},
    {"split_graph",
     [](Frame& f) {
       f.mutable_result()->mutable_globals(2)->mutable_split()->mutable_calls(1)->set_graph("no");
     },
     "result.globals[2].split.calls[1].graph: no graph is called 'no'"},
    {"split_arguments",
     [](Frame& f) {
       f.mutable_result()->mutable_globals(2)->mutable_split()->mutable_calls(0)->add_arguments(1);
     },
     "split.calls[0].arguments: 4 for the 3 arguments of compiled"},
    {"split_value",
     [](Frame& f) {
       v1::SplitGraph& split = *f.mutable_result()->mutable_globals(2)->mutable_split();
       split.mutable_calls(0)->set_arguments(2, 2);  // its own result
     },
     "split.calls[0].arguments[2]: 2 is past the 2 values before it"},
    {"split_result",
     [](Frame& f) { f.mutable_result()->mutable_globals(2)->mutable_split()->set_results(0, 6); },
     "split.results[0]: 6 is past the 6 values before it"},
    {"unknown_field",
     [](Frame& f) {
       v1::FrameSource& source = *f.mutable_sources(1);
       source.GetReflection()->MutableUnknownFields(&source)->AddVarint(99, 1);
     },
     "fields that its format has not"},
};

class SpoiltFrameTest : public ::testing::TestWithParam<Case> {};

TEST_P(SpoiltFrameTest, IsRefusedByItsField) {
  Frame frame = Sound();
  GetParam().spoil(frame);
  const absl::Status status = CheckFrame(frame);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

// A constant of tuples in tuples; each is two levels of messages.
Frame Nested(int tuples) {
  Frame frame = Sound();
  v1::FrameConstant* constant = frame.add_guards()->mutable_equals();
  frame.mutable_guards(frame.guards_size() - 1)->set_source(1);
  for (int i = 0; i < tuples; ++i) constant = constant->mutable_tuple()->add_items();
  constant->set_none(true);
  return frame;
}

TEST(CheckFrame, WhatItTakesCanBeReadInAnAnswer) {
  int deepest = 0;
  for (int tuples = 1; tuples < 60; ++tuples) {
    const Frame frame = Nested(tuples);
    if (!CheckFrame(frame).ok()) continue;
    deepest = tuples;
    v1::FindFramesReply reply;
    *reply.add_frames()->mutable_frame() = frame;
    EXPECT_TRUE(v1::FindFramesReply().ParseFromString(reply.SerializeAsString())) << tuples;
  }
  EXPECT_GE(deepest, 40);
  EXPECT_THAT(std::string(CheckFrame(Nested(deepest + 1)).message()),
              HasSubstr("nested more than 90 deep"));
}

INSTANTIATE_TEST_SUITE_P(Fields, SpoiltFrameTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace check_frame_test
}  // namespace tensord::server
