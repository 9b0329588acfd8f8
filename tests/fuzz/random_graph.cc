// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/random_graph.h"

#include <random>
#include <vector>

#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace {

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32;

struct Made {
  Ref ref;
  Shape sizes;
};

// Sizes are told apart by their serialised expressions.
bool Same(const Dim& a, const Dim& b) {
  return a.expr.SerializeAsString() == b.expr.SerializeAsString();
}
bool Same(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (!Same(a[d], b[d])) return false;
  }
  return true;
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options), g_(options.device) {}

  v1::Graph Run() {
    static constexpr int kExtents[] = {1, 3, 4, 8, 17, 33, 64};
    rows_ = options_.symbolic ? g_.Symbol(11) : Dim(kExtents[Pick(7)] + Pick(3));
    middle_ = Dim(kExtents[Pick(5)]);
    columns_ = Dim(kExtents[Pick(7)] * (Pick(4) == 0 ? 5 : 1));
    const std::vector<Shape> shapes = {{rows_, columns_},   {rows_, middle_, columns_},
                                       {columns_},          {rows_, 1},
                                       {middle_, columns_}, {columns_, rows_}};
    const int inputs = 2 + Pick(3);
    for (int i = 0; i < inputs; ++i) {
      // The first input binds the symbol.
      const Shape& shape = shapes[i == 0 ? 0 : Pick(static_cast<int>(shapes.size()))];
      values_.push_back({g_.Input(shape), shape});
    }
    const int input_count = inputs;
    for (int i = 0; i < options_.nodes; ++i) AddNode();
    // Writes into inputs, now and then.
    for (int target = 0; target < input_count; ++target) {
      if (Pick(3) == 0) Overwrite(values_[target], input_count);
    }
    g_.Output(values_.back().ref);
    for (size_t i = inputs; i + 1 < values_.size(); ++i) {
      if (Pick(5) == 0) g_.Output(values_[i].ref);
    }
    return std::move(g_.graph());
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  const Made& Any() {
    // Recent values more often, so that graphs are deep.
    const int count = static_cast<int>(values_.size());
    return values_[Pick(2) == 0 ? count - 1 - Pick(std::min(count, 3)) : Pick(count)];
  }

  void Add(const std::string& op, const std::vector<Arg>& args, Shape sizes, Shape strides = {}) {
    const Ref ref = g_.Node(op, args, g_.Meta(sizes, kF32, strides));
    values_.push_back({ref, std::move(sizes)});
  }

  void AddNode() {
    const Made x = Any();
    const int rank = static_cast<int>(x.sizes.size());
    switch (Pick(14)) {
      case 0:
        return Add("aten::tanh", {x.ref}, x.sizes);
      case 1:
        return Add("aten::sigmoid", {x.ref}, x.sizes);
      case 2:
        return Add("aten::relu", {x.ref}, x.sizes);
      case 3:
      case 4:
      case 5:
        return AddBinary(x);
      case 6:
        return AddReduction(x);
      case 7:
        if (rank < 1) return;
        return Add("aten::_softmax", {x.ref, Pick(rank), false}, x.sizes);
      case 8:
        return AddTransposed(x);
      case 9:
        return AddFlattened(x);
      case 10:
        return AddConcatenation(x);
      case 11:
        return AddLayerNorm(x);
      case 12:
        return AddSlice(x);
      default:
        return AddChoice(x);
    }
  }

  // By one of the last values that fit.
  void Overwrite(const Made& target, int first) {
    int skipped = Pick(3);
    for (int i = static_cast<int>(values_.size()) - 1; i >= first; --i) {
      if (!Same(values_[i].sizes, target.sizes) || skipped-- > 0) continue;
      g_.Node("aten::copy_", {target.ref, values_[i].ref, false}, g_.Meta(target.sizes));
      return;
    }
  }

  void AddTransposed(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    if (rank < 2) return;
    Shape sizes = x.sizes;
    const int a = Pick(rank), b = Pick(rank);
    std::vector<Dim> order;
    for (int d = 0; d < rank; ++d) order.emplace_back(d == a ? b : d == b ? a : d);
    std::swap(sizes[a], sizes[b]);
    // A copy, so that the strides of the meta are plain.
    const Ref t = g_.Node("aten::permute", {x.ref, Ints(order)},
                          g_.Meta(sizes, kF32, Swapped(x.sizes, a, b)));
    return Add("aten::clone", {t, v1::MEMORY_FORMAT_CONTIGUOUS}, sizes);
  }

  void AddFlattened(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    if (rank < 2 || options_.symbolic) return;
    Shape sizes(x.sizes.begin() + 2, x.sizes.end());
    sizes.insert(sizes.begin(), x.sizes[0] * x.sizes[1]);
    return Add("aten::view", {x.ref, Ints(sizes)}, sizes);
  }

  void AddConcatenation(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    if (rank < 1) return;
    Shape sizes = x.sizes;
    const int dim = Pick(rank);
    for (const Made& y : values_) {
      if (y.ref.value == x.ref.value || !Same(y.sizes, x.sizes)) continue;
      sizes[dim] = x.sizes[dim] + y.sizes[dim];
      if (x.sizes[dim].expr.kind_case() == v1::SymExpr::kConstant) {
        sizes[dim] = Dim(2 * x.sizes[dim].expr.constant());
      }
      return Add("aten::cat", {List({x.ref, y.ref}), dim}, sizes);
    }
  }

  void AddLayerNorm(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    // Rows of one element have no variance: what is left is rounding, a thousandfold.
    if (rank < 1 || Same(x.sizes.back(), Dim(1))) return;
    const Shape last = {x.sizes.back()};
    Shape outer(x.sizes.begin(), x.sizes.end() - 1);
    outer.emplace_back(1);
    const Ref norm = g_.Node("aten::native_layer_norm", {x.ref, Ints(last), nullptr, nullptr, 1e-5},
                             {g_.Meta(x.sizes), g_.Meta(outer), g_.Meta(outer)});
    values_.push_back({norm, x.sizes});
  }

  void AddSlice(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    if (rank < 1) return;
    const int dim = Pick(rank);
    const v1::SymExpr& size = x.sizes[dim].expr;
    if (size.kind_case() != v1::SymExpr::kConstant || size.constant() < 4) return;
    Shape sizes = x.sizes;
    sizes[dim] = Dim(size.constant() - 2);
    const Ref s =
        g_.Node("aten::slice.Tensor", {x.ref, dim, 1, size.constant() - 1, 1},
                g_.Meta(sizes, kF32, GraphBuilder::RowMajor(x.sizes), 0 + Stride(x.sizes, dim)));
    return Add("aten::neg", {s}, sizes);
  }

  void AddChoice(const Made& x) {
    const Ref mask = g_.Node("aten::gt.Scalar", {x.ref, 0.0}, g_.Meta(x.sizes, v1::DTYPE_BOOL));
    return Add("aten::where.self", {mask, x.ref, x.ref}, x.sizes);
  }

  static Dim Stride(const Shape& sizes, int dim) { return GraphBuilder::RowMajor(sizes)[dim]; }
  static Shape Swapped(const Shape& sizes, int a, int b) {
    Shape strides = GraphBuilder::RowMajor(sizes);
    std::swap(strides[a], strides[b]);
    return strides;
  }

  void AddBinary(const Made& x) {
    static const char* const kOps[] = {"aten::add.Tensor", "aten::mul.Tensor", "aten::maximum"};
    const int op = Pick(3);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Made& y = Any();
      // Equal shapes, or one that broadcasts along leading dimensions or rows.
      Shape sizes;
      if (Same(x.sizes, y.sizes)) {
        sizes = x.sizes;
      } else if (y.sizes.size() < x.sizes.size() &&
                 Same(Shape(x.sizes.end() - static_cast<int>(y.sizes.size()), x.sizes.end()),
                      y.sizes)) {
        sizes = x.sizes;
      } else if (x.sizes.size() == 2 && y.sizes.size() == 2 && Same(y.sizes[1], Dim(1)) &&
                 Same(x.sizes[0], y.sizes[0])) {
        sizes = x.sizes;
      } else {
        continue;
      }
      std::vector<Arg> args = {x.ref, y.ref};
      if (op == 0) args.emplace_back(1);
      return Add(kOps[op], args, sizes);
    }
  }

  void AddReduction(const Made& x) {
    const int rank = static_cast<int>(x.sizes.size());
    if (rank == 0) return;
    const int dim = Pick(rank);
    const bool keep = Pick(2) == 0;
    Shape sizes;
    for (int d = 0; d < rank; ++d) {
      if (d != dim) {
        sizes.push_back(x.sizes[d]);
      } else if (keep) {
        sizes.emplace_back(1);
      }
    }
    switch (Pick(4)) {
      case 0:
        return Add("aten::amax", {x.ref, Ints({dim}), keep}, sizes);
      case 1:
        return Add("aten::mean.dim", {x.ref, Ints({dim}), keep, nullptr}, sizes);
      case 2:
        return Add("aten::sum", {x.ref, nullptr}, {});
      default:
        return Add("aten::sum.dim_IntList", {x.ref, Ints({dim}), keep, nullptr}, sizes);
    }
  }

  std::mt19937_64 random_;
  RandomGraphOptions options_;
  GraphBuilder g_;
  Dim rows_{1}, middle_{1}, columns_{1};
  std::vector<Made> values_;
};

}  // namespace

v1::Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Run();
}

}  // namespace tensord::testing
