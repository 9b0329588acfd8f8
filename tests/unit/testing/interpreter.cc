// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/interpreter.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/check.h"
#include "tests/unit/testing/scalar_ops.h"

namespace tensord::testing {
namespace {

using compiler::BufferId;
using compiler::BufferKind;
using compiler::Inst;
using compiler::InstKind;
using compiler::LoopOp;
using compiler::Program;
using compiler::ReduceKind;
using sym::Expr;

struct FloatFormat {
  int mantissa_bits;
  int min_exponent;
  double max;
  bool has_infinity;
};

const FloatFormat* FormatOf(DType dtype) {
  static const std::map<DType, FloatFormat> formats = {
      {v1::DTYPE_FLOAT16, {10, -14, 65504, true}},
      {v1::DTYPE_BFLOAT16, {7, -126, 0x1.FEp127, true}},
      {v1::DTYPE_FLOAT8_E4M3FN, {3, -6, 448, false}},
      {v1::DTYPE_FLOAT8_E5M2, {2, -14, 57344, true}},
  };
  const auto it = formats.find(dtype);
  return it == formats.end() ? nullptr : &it->second;
}

// Calls `f` for every index of a box, in row-major order.
void ForEachIndex(const std::vector<int64_t>& sizes,
                  const std::function<void(const std::vector<int64_t>&)>& f) {
  for (int64_t size : sizes) {
    if (size <= 0) return;
  }
  std::vector<int64_t> index(sizes.size(), 0);
  while (true) {
    f(index);
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

int64_t Dot(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<int64_t> RowMajor(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
  return strides;
}

Cell FromBytes(const char* bytes, DType dtype) {
  const auto read = [bytes](auto value) {
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  };
  switch (dtype) {
    case v1::DTYPE_FLOAT32:
      return {.real = read(float{})};
    case v1::DTYPE_FLOAT64:
      return {.real = read(double{})};
    case v1::DTYPE_BFLOAT16:
      return {.real = std::bit_cast<float>(static_cast<uint32_t>(read(uint16_t{})) << 16)};
    case v1::DTYPE_BOOL:
    case v1::DTYPE_UINT8:
      return {.integer = read(uint8_t{})};
    case v1::DTYPE_INT8:
      return {.integer = read(int8_t{})};
    case v1::DTYPE_INT16:
      return {.integer = read(int16_t{})};
    case v1::DTYPE_INT32:
      return {.integer = read(int32_t{})};
    case v1::DTYPE_INT64:
      return {.integer = read(int64_t{})};
    default:
      CheckFailed(__FILE__, __LINE__, "dtype", "no constants of this type");
  }
}

// The running result of one reduction at one output element.
struct Accumulator {
  ReduceKind kind;
  bool is_real;
  int64_t count = 0;
  Cell total;
  double mean = 0, squares = 0;  // of kOnlineSoftmax: the maximum and the sum
  int64_t position = 0;

  void Add(Cell v, int64_t at) {
    const bool first = count++ == 0;
    switch (kind) {
      case ReduceKind::kSum:
        total.real += v.real;
        total.integer += v.integer;
        break;
      case ReduceKind::kProd:
        if (first) total = {1, 1};
        total.real *= v.real;
        total.integer *= v.integer;
        break;
      case ReduceKind::kAny:
        total.integer |= v.integer != 0;
        break;
      case ReduceKind::kAll:
        total.integer = first ? v.integer != 0 : total.integer && v.integer;
        break;
      case ReduceKind::kMin:
      case ReduceKind::kMax:
      case ReduceKind::kArgMin:
      case ReduceKind::kArgMax:
        if (first || Beats(v)) {
          total = v;
          position = at;
        }
        break;
      case ReduceKind::kOnlineSoftmax: {
        const double top = first || v.real > mean || std::isnan(v.real) ? v.real : mean;
        const auto scale = [top](double x) { return x == top ? 1.0 : std::exp(x - top); };
        squares = (first ? 0 : squares * scale(mean)) + scale(v.real);
        mean = top;
        break;
      }
      case ReduceKind::kWelford: {
        const double delta = v.real - mean;
        mean += delta / static_cast<double>(count);
        squares += delta * (v.real - mean);
        break;
      }
    }
  }

  // NaN beats all but a NaN before it.
  bool Beats(Cell v) const {
    const bool smaller = kind == ReduceKind::kMin || kind == ReduceKind::kArgMin;
    if (!is_real) return smaller ? v.integer < total.integer : v.integer > total.integer;
    if (std::isnan(total.real)) return false;
    return std::isnan(v.real) || (smaller ? v.real < total.real : v.real > total.real);
  }

  // The value of result `i`, as (value, is it real).
  std::pair<Cell, bool> Result(size_t i) const {
    const double infinity = std::numeric_limits<double>::infinity();
    switch (kind) {
      case ReduceKind::kWelford:
      case ReduceKind::kOnlineSoftmax:
        return {{.real = i == 0 ? mean : squares}, true};
      case ReduceKind::kArgMin:
      case ReduceKind::kArgMax:
        return {{.integer = position}, false};
      case ReduceKind::kAny:
        return {total, false};
      case ReduceKind::kAll:
        return {count == 0 ? Cell{.integer = 1} : total, false};
      case ReduceKind::kProd:
        return {count == 0 ? Cell{1, 1} : total, is_real};
      case ReduceKind::kMin:
        return {count == 0 ? Cell{infinity, std::numeric_limits<int64_t>::max()} : total, is_real};
      case ReduceKind::kMax:
        return {count == 0 ? Cell{-infinity, std::numeric_limits<int64_t>::min()} : total, is_real};
      default:
        return {total, is_real};
    }
  }
};

class Machine {
 public:
  Machine(const Program& program, std::vector<HostTensor>& inputs,
          const InterpreterOptions& options)
      : program_(program), options_(options), inputs_(inputs) {
    for (const compiler::BufferInfo& buffer : program.buffers) Prepare(buffer);
  }

  std::vector<HostTensor> Run() {
    for (const compiler::Operation& operation : program_.operations) {
      if (const auto* loop = std::get_if<LoopOp>(&operation)) {
        RunLoop(*loop);
      } else {
        RunExtern(std::get<compiler::ExternOp>(operation));
      }
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const compiler::BufferInfo& buffer = program_.buffers[i];
      if (buffer.kind != BufferKind::kInput) continue;
      HostTensor& input = inputs_[buffer.number];
      std::copy(storages_[i].begin(), storages_[i].end(), input.storage.begin() + input.offset);
    }
    std::vector<HostTensor> outputs;
    for (const compiler::ProgramOutput& output : program_.outputs) {
      if (output.kind == compiler::ProgramOutput::kTensor) {
        TENSORD_CHECK(output.dtype == v1::DTYPE_UNSPECIFIED, "cells have no bits");
        outputs.push_back(ViewOf(compiler::ViewOfParts(output.view)));
      } else if (output.kind == compiler::ProgramOutput::kInteger) {
        outputs.push_back(
            {.dtype = compiler::kInt64, .storage = {{.integer = Eval(output.integer)}}});
      } else {
        outputs.emplace_back();
      }
    }
    return outputs;
  }

 private:
  void Prepare(const compiler::BufferInfo& buffer) {
    const int64_t elements = Eval(compiler::StorageElements(buffer.sizes, buffer.strides));
    if (buffer.kind == BufferKind::kInput) {
      TENSORD_CHECK(buffer.number < static_cast<int>(inputs_.size()), "a missing input");
      const HostTensor& input = inputs_[buffer.number];
      TENSORD_CHECK(input.dtype == buffer.dtype && input.sizes == EvalAll(buffer.sizes),
                    "an input of another type or shape: " + buffer.name);
      storages_.emplace_back(input.storage.begin() + input.offset, input.storage.end());
    } else if (buffer.kind == BufferKind::kConstant) {
      const std::string& bytes = options_.constants.at(buffer.number);
      const int64_t item = compiler::ItemSize(buffer.dtype);
      std::vector<Cell> cells;
      for (int64_t i = 0; i < elements; ++i) {
        cells.push_back(FromBytes(bytes.data() + i * item, buffer.dtype));
      }
      storages_.push_back(std::move(cells));
    } else {
      // Values that nobody stored must not look right by chance.
      const Cell garbage{std::numeric_limits<double>::quiet_NaN(), int64_t{-77777}};
      storages_.emplace_back(std::max<int64_t>(elements, 0), garbage);
    }
  }

  int64_t Eval(const Expr& e) const {
    return sym::Evaluate(e, [this](const sym::Atom& atom) -> int64_t {
      switch (atom.kind) {
        case sym::AtomKind::kLoop:
          return loops_.at(atom.id);
        case sym::AtomKind::kIndirect:
          return indirects_.at(atom.id);
        default:
          break;
      }
      const auto it = options_.symbols.find(atom.id);
      return it == options_.symbols.end() ? atom.hint : it->second;
    });
  }

  std::vector<int64_t> EvalAll(const std::vector<Expr>& es) const {
    std::vector<int64_t> values;
    for (const Expr& e : es) values.push_back(Eval(e));
    return values;
  }

  Cell& At(BufferId buffer, const Expr& index) {
    const int64_t i = Eval(index);
    std::vector<Cell>& storage = storages_[buffer];
    TENSORD_CHECK(i >= 0 && i < static_cast<int64_t>(storage.size()),
                  "element " + std::to_string(i) + " of buffer b" + std::to_string(buffer) +
                      " which has " + std::to_string(storage.size()));
    return storage[i];
  }

  // Instruction number values.size().
  Cell RunInst(const compiler::Block& block, const Inst& inst, const std::vector<Cell>& values) {
    switch (inst.kind) {
      case InstKind::kScan: {
        const Cell value = values[inst.args[0]];
        const auto [prefix, is_first] = prefixes_.try_emplace(values.size(), value);
        if (!is_first) {
          prefix->second = EvaluateOp(inst.op, inst.dtype, {prefix->second, value});
        }
        return prefix->second;
      }
      case InstKind::kConstant:
        return {inst.number, inst.integer};
      case InstKind::kIndex:
        return {.integer = Eval(inst.index)};
      case InstKind::kLoad:
        if (inst.guard >= 0 && values[inst.guard].integer == 0) return {};
        return At(inst.buffer, inst.index);
      case InstKind::kCompute: {
        std::vector<Cell> args;
        for (int id : inst.args) args.push_back(values[id]);
        const int typed = inst.op == compiler::Op::k_where ? 1 : 0;
        return EvaluateOp(inst.op, block.insts[inst.args[typed]].dtype, args);
      }
      case InstKind::kCast:
        return CastUnrounded(values[inst.args[0]], block.insts[inst.args[0]].dtype, inst.dtype);
      case InstKind::kCheck:
        return values[inst.args[0]];
      case InstKind::kRound:
        return {.real = RoundTo(values[inst.args[0]].real, inst.storage)};
      case InstKind::kIndirect: {
        const int64_t value = values[inst.args[0]].integer;
        indirects_[inst.symbol] = value;
        return {.integer = value};
      }
      case InstKind::kBitcast: {
        const Cell v = values[inst.args[0]];
        const bool from_real = compiler::IsFloating(block.insts[inst.args[0]].dtype);
        if (from_real == compiler::IsFloating(inst.dtype)) return v;
        if (inst.dtype == compiler::kFloat32) {
          return {.real = std::bit_cast<float>(static_cast<int32_t>(v.integer))};
        }
        if (inst.dtype == compiler::kFloat64) return {.real = std::bit_cast<double>(v.integer)};
        if (inst.dtype == compiler::kInt64) return {.integer = std::bit_cast<int64_t>(v.real)};
        return {.integer = std::bit_cast<int32_t>(static_cast<float>(v.real))};
      }
    }
    return {};
  }

  // float32 stays in double inside a body.
  static Cell CastUnrounded(Cell v, DType from, DType to) {
    if (compiler::IsFloating(from) && compiler::IsFloating(to)) return v;
    return CastCell(v, from, to);
  }

  std::vector<Cell> RunBlock(const compiler::Block& block) {
    std::vector<Cell> values;
    values.reserve(block.insts.size());
    for (const Inst& inst : block.insts) values.push_back(RunInst(block, inst, values));
    return values;
  }

  void Write(Cell& to, DType dtype, Cell value, bool value_is_real, compiler::StoreMode mode) {
    const DType from = value_is_real ? compiler::kFloat64 : compiler::kInt64;
    if (mode == compiler::StoreMode::kAssign) {
      to = CastCell(value, from, dtype);
      return;
    }
    using compiler::Op;
    static const std::map<compiler::StoreMode, Op> combined = {
        {compiler::StoreMode::kAtomicAdd, Op::k_add},
        {compiler::StoreMode::kAtomicMul, Op::k_mul},
        {compiler::StoreMode::kAtomicMin, Op::k_minimum},
        {compiler::StoreMode::kAtomicMax, Op::k_maximum},
    };
    const DType wide = compiler::IsFloating(dtype) ? compiler::kFloat64 : compiler::kInt64;
    to = CastCell(EvaluateOp(combined.at(mode), wide, {to, CastCell(value, from, dtype)}), wide,
                  dtype);
  }

  void RunLoop(const LoopOp& op) {
    ForEachIndex(EvalAll(op.sizes), [&](const std::vector<int64_t>& outer) {
      loops_ = outer;
      prefixes_.clear();
      std::vector<Accumulator> accumulators;
      for (const compiler::Reduction& r : op.reductions) {
        accumulators.push_back(
            {.kind = r.kind, .is_real = compiler::IsFloating(op.block.insts[r.value].dtype)});
      }
      int64_t position = 0;
      ForEachIndex(EvalAll(op.reduce_sizes), [&](const std::vector<int64_t>& inner) {
        loops_.resize(outer.size());
        loops_.insert(loops_.end(), inner.begin(), inner.end());
        const std::vector<Cell> values = RunBlock(op.block);
        for (const compiler::Store& store : op.stores) {
          if (store.guard >= 0 && values[store.guard].integer == 0) continue;
          Write(At(store.buffer, store.index), program_.buffers[store.buffer].dtype,
                values[store.value], compiler::IsFloating(op.block.insts[store.value].dtype),
                store.mode);
        }
        for (size_t r = 0; r < accumulators.size(); ++r) {
          accumulators[r].Add(values[op.reductions[r].value], position);
        }
        ++position;
      });
      loops_ = outer;
      for (size_t r = 0; r < accumulators.size(); ++r) {
        const compiler::Reduction& reduction = op.reductions[r];
        for (size_t i = 0; i < reduction.results.size(); ++i) {
          if (reduction.results[i] < 0) continue;
          const auto [value, is_real] = accumulators[r].Result(i);
          Write(At(reduction.results[i], reduction.indices[i]),
                program_.buffers[reduction.results[i]].dtype, value, is_real,
                compiler::StoreMode::kAssign);
        }
      }
    });
    loops_.clear();
    indirects_.clear();
  }

  HostTensor ViewOf(const compiler::BufferView& view) const {
    return {.dtype = program_.buffers[view.buffer].dtype,
            .sizes = EvalAll(view.sizes),
            .strides = EvalAll(view.strides),
            .offset = Eval(view.offset),
            .storage = storages_[view.buffer]};
  }

  void CollectTensors(const compiler::ExternArgList& args, std::vector<HostTensor>* tensors) const {
    for (const compiler::ExternArg& arg : args) {
      if (const auto* view = std::get_if<compiler::BufferView>(&arg.value)) {
        tensors->push_back(ViewOf(*view));
      } else if (const auto* list = std::get_if<compiler::ExternArgList>(&arg.value)) {
        CollectTensors(*list, tensors);
      }
    }
  }

  void RunExtern(const compiler::ExternOp& op) {
    TENSORD_CHECK(options_.external != nullptr, "a library call: " + op.op);
    std::vector<HostTensor> tensors;
    CollectTensors(op.args, &tensors);
    const std::vector<HostTensor> results = options_.external(op, std::move(tensors));
    std::vector<compiler::BufferView> views = op.outs;
    if (views.empty()) {
      for (BufferId id : op.results) {
        if (id < 0) continue;
        const compiler::BufferInfo& buffer = program_.buffers[id];
        views.push_back({id, buffer.sizes, buffer.strides, sym::Expr(0)});
      }
    }
    for (size_t i = 0; i < views.size(); ++i) {
      const HostTensor& result = results.at(i);
      TENSORD_CHECK(result.sizes == EvalAll(views[i].sizes), "a result of another shape: " + op.op);
      const std::vector<int64_t> strides = EvalAll(views[i].strides);
      const int64_t offset = Eval(views[i].offset);
      ForEachIndex(result.sizes, [&](const std::vector<int64_t>& index) {
        storages_[views[i].buffer][offset + Dot(index, strides)] =
            result.storage[result.offset + Dot(index, result.strides)];
      });
    }
  }

  const Program& program_;
  const InterpreterOptions& options_;
  std::vector<HostTensor>& inputs_;
  std::vector<std::vector<Cell>> storages_;
  std::vector<int64_t> loops_;
  std::map<int, int64_t> indirects_;
  std::map<size_t, Cell> prefixes_;  // of the present row, by instruction
};

}  // namespace

double RoundTo(double value, DType dtype) {
  if (dtype == v1::DTYPE_FLOAT32) return static_cast<float>(value);
  const FloatFormat* format = FormatOf(dtype);
  if (format == nullptr || value == 0 || !std::isfinite(value)) return value;
  const int ulp = std::max(std::ilogb(value), format->min_exponent) - format->mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -ulp)), ulp);
  if (std::abs(rounded) <= format->max) return rounded;
  return format->has_infinity ? std::copysign(INFINITY, value) : NAN;
}

int64_t HostTensor::NumElements() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

std::vector<double> HostTensor::Values() const {
  std::vector<double> values;
  const bool is_real = compiler::IsFloating(dtype);
  ForEachIndex(sizes, [&](const std::vector<int64_t>& index) {
    const Cell& cell = storage.at(offset + Dot(index, strides));
    values.push_back(is_real ? cell.real : static_cast<double>(cell.integer));
  });
  return values;
}

HostTensor MakeTensor(const std::vector<int64_t>& sizes, const std::vector<double>& values,
                      DType dtype) {
  HostTensor t{.dtype = dtype, .sizes = sizes, .strides = RowMajor(sizes)};
  TENSORD_CHECK(t.NumElements() == static_cast<int64_t>(values.size()),
                "as many values as elements");
  for (double value : values)
    t.storage.push_back(CastCell({.real = value}, compiler::kFloat64, dtype));
  return t;
}

HostTensor WithStrides(const HostTensor& t, const std::vector<int64_t>& strides) {
  HostTensor result{.dtype = t.dtype, .sizes = t.sizes, .strides = strides};
  int64_t elements = 1;
  for (size_t d = 0; d < strides.size(); ++d) elements += (t.sizes[d] - 1) * strides[d];
  result.storage.resize(t.NumElements() == 0 ? 0 : elements);
  ForEachIndex(t.sizes, [&](const std::vector<int64_t>& index) {
    result.storage[Dot(index, strides)] = t.storage[t.offset + Dot(index, t.strides)];
  });
  return result;
}

std::vector<HostTensor> Interpret(const Program& program, std::vector<HostTensor>& inputs,
                                  const InterpreterOptions& options) {
  return Machine(program, inputs, options).Run();
}

}  // namespace tensord::testing
