// SPDX-License-Identifier: Apache-2.0
// Attention of tiles and its gradients, run on the host, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>
// After all others.
#include "tests/unit/testing/warpgroup_on_host.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [batch, heads, rows, width], in memory by batch, row, head and column.
template <class T>
struct Tensor {
  Tensor(int batch, int heads, int rows, int width, T x = T())
      : batch(batch),
        heads(heads),
        rows(rows),
        width(width),
        all(batch * heads * rows * width, x) {}

  T* row(int b, int h, int r) { return &all[((b * rows + r) * heads + h) * width]; }
  const T* row(int b, int h, int r) const { return &all[((b * rows + r) * heads + h) * width]; }
  tk::Rows<const T> view() const {
    return tk::rows(all.data(), rows * heads * width, width, heads * width);
  }
  tk::Rows<T> result_view() {
    return tk::result_rows(all.data(), rows * heads * width, width, heads * width);
  }

  int batch, heads, rows, width;
  std::vector<T> all;
};
typedef Tensor<double> Numbers;

template <class S>
S Rounded(double x) {
  if constexpr (tk::kSame<S, tk::half>) {
    return {tk::ptx::float_to_half(float(x))};
  } else {
    return {tk::ptx::float_to_bfloat16(float(x))};
  }
}
template <class S>
double ValueOf(S x) {
  return cuda_on_host::ValueOf<S>(x.bits);
}
double ValueOf(float x) { return x; }

// Normal numbers that S has, and the same as S.
template <class S>
struct Operand {
  Operand(int seed, int batch, int heads, int rows, int width)
      : numbers(batch, heads, rows, width), stored(batch, heads, rows, width) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < numbers.all.size(); ++i) {
      stored.all[i] = Rounded<S>(normal(random));
      numbers.all[i] = ValueOf(stored.all[i]);
    }
  }
  Numbers numbers;
  Tensor<S> stored;
};

struct Shape {
  int batch, heads, groups, queries, keys, width, value_width;
  int block = 0;  // queries and keys of a block of the lists; 0: without lists, and all is seen
};

// Some heads see all keys up to some distance behind the query, in others most queries see none.
bool Sees(const Shape& shape, int b, int h, int query, int key) {
  return shape.block == 0 || key <= query + ((b + h) % 2 == 0 ? 60 : -66);
}
// Of a query and a key that it sees.
template <class T>
T Score(T product, int h, int query, int key) {
  return product * T(0.125) + T(h + 1) * T((query + 3 * key) % 16) / T(16) + T(h);
}

// --- the reference

double Dot(const double* a, const double* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
void Add(double* sums, double factor, const double* x, int n) {
  for (int i = 0; i < n; ++i) sums[i] += factor * x[i];
}

// What attention gives, and the gradients of its operands. `grad` is that of the result.
class Reference {
 public:
  Reference(const Shape& s, const Numbers& q, const Numbers& k, const Numbers& v,
            const Numbers& grad)
      : result(s.batch, s.heads, s.queries, s.value_width),
        sums(s.batch, s.heads, s.queries, 1, -kInfinity),
        largest(s.batch, s.heads, s.queries, 1, -kInfinity),
        delta(s.batch, s.heads, s.queries, 1),
        grad_q(s.batch, s.heads, s.queries, s.width),
        grad_k(s.batch, s.groups, s.keys, s.width),
        grad_v(s.batch, s.groups, s.keys, s.value_width),
        shape_(s) {
    for (int b = 0; b < s.batch; ++b) {
      for (int h = 0; h < s.heads; ++h) {
        for (int i = 0; i < s.queries; ++i) {
          const std::vector<double> weights = Forward(b, h, i, q, k, v);
          Backward(b, h, i, weights, q, k, v, grad);
        }
      }
    }
  }

  Numbers result, sums, largest;
  Numbers delta;  // the result's gradient times the result
  Numbers grad_q, grad_k, grad_v;

 private:
  int GroupOf(int h) const { return h / (shape_.heads / shape_.groups); }

  // Of each key the weight.
  std::vector<double> Forward(int b, int h, int i, const Numbers& q, const Numbers& k,
                              const Numbers& v) {
    const int g = GroupOf(h);
    std::vector<double> weights(shape_.keys, -kInfinity);
    double& most = *largest.row(b, h, i);
    for (int j = 0; j < shape_.keys; ++j) {
      if (!Sees(shape_, b, h, i, j)) continue;
      const double product = Dot(q.row(b, h, i), k.row(b, g, j), shape_.width);
      weights[j] = Score(product, h, i, j);
      most = std::max(most, weights[j]);
    }
    double sum = 0;
    for (double& x : weights) sum += x = x == -kInfinity ? 0 : std::exp(x - most);
    if (sum > 0) *sums.row(b, h, i) = most + std::log(sum);
    for (int j = 0; j < shape_.keys; ++j) {
      if (sum > 0) weights[j] /= sum;
      Add(result.row(b, h, i), weights[j], v.row(b, g, j), shape_.value_width);
    }
    return weights;
  }

  void Backward(int b, int h, int i, const std::vector<double>& weights, const Numbers& q,
                const Numbers& k, const Numbers& v, const Numbers& grad) {
    const int g = GroupOf(h);
    const double* const of_result = grad.row(b, h, i);
    const double mean = Dot(of_result, result.row(b, h, i), shape_.value_width);
    *delta.row(b, h, i) = mean;
    for (int j = 0; j < shape_.keys; ++j) {
      if (weights[j] == 0) continue;
      const double of_weight = Dot(of_result, v.row(b, g, j), shape_.value_width);
      const double of_product = weights[j] * (of_weight - mean) * 0.125;
      Add(grad_q.row(b, h, i), of_product, k.row(b, g, j), shape_.width);
      Add(grad_k.row(b, g, j), of_product, q.row(b, h, i), shape_.width);
      Add(grad_v.row(b, g, j), weights[j], of_result, shape_.value_width);
    }
  }

  const Shape shape_;
};

// --- lists of blocks

enum class Seen { kPartial, kWhole };
enum class Listed { kKeys, kQueries };

// By batch, head and block of queries the blocks of keys that they see in part, or wholly; or by
// blocks of keys those of queries.
class Lists {
 public:
  Lists(const Shape& shape, Seen seen, Listed listed) : shape_(shape) {
    if (shape.block == 0) return;
    const int queries = BlocksOf(shape.queries), keys = BlocksOf(shape.keys);
    rows_ = listed == Listed::kKeys ? queries : keys;
    columns_ = listed == Listed::kKeys ? keys : queries;
    for (int b = 0; b < shape.batch; ++b) {
      for (int h = 0; h < shape.heads; ++h) {
        for (int row = 0; row < rows_; ++row) {
          AddRow([&](int column) {
            return listed == Listed::kKeys ? Is(seen, b, h, row, column)
                                           : Is(seen, b, h, column, row);
          });
        }
      }
    }
  }
  tk::Blocks view() const {
    if (counts_.empty()) return tk::all_blocks();
    return tk::blocks(counts_.data(), blocks_.data(), shape_.batch, shape_.heads, rows_, columns_);
  }

 private:
  int BlocksOf(int n) const { return (n + shape_.block - 1) / shape_.block; }
  bool Is(Seen seen, int b, int h, int query_block, int key_block) const {
    int visible = 0, hidden = 0;
    for (int i = query_block * shape_.block; i < (query_block + 1) * shape_.block; ++i) {
      for (int j = key_block * shape_.block; j < (key_block + 1) * shape_.block; ++j) {
        if (i < shape_.queries && j < shape_.keys) ++(Sees(shape_, b, h, i, j) ? visible : hidden);
      }
    }
    return visible > 0 && (hidden > 0) == (seen == Seen::kPartial);
  }
  template <class F>
  void AddRow(const F& is_listed) {
    int count = 0;
    for (int column = 0; column < columns_; ++column) {
      if (!is_listed(column)) continue;
      blocks_.push_back(column);
      ++count;
    }
    counts_.push_back(count);
    blocks_.resize(counts_.size() * columns_, -1);
  }

  const Shape& shape_;
  int rows_ = 1, columns_ = 1;
  std::vector<int> counts_, blocks_;
};

// --- comparison

template <class S>
constexpr double kTolerance = tk::kSame<S, tk::half> ? 2e-3 : 1e-2;

// Relative to the largest number; infinities are equal.
template <class T>
void ExpectNear(const Tensor<T>& got, const Numbers& want, double tolerance,
                const std::string& name) {
  double largest = 0;
  for (double x : want.all) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  for (size_t i = 0; i < want.all.size(); ++i) {
    const double x = ValueOf(got.all[i]), y = want.all[i];
    if (x == y || std::fabs(x - y) <= tolerance * largest) continue;
    ADD_FAILURE() << name << ": element " << i << " is " << x << ", not " << y
                  << "; the largest is " << largest;
    return;
  }
}

// --- what is tested

// Attention of one shape in tiles of Q queries or keys, D columns of keys and V of values.
template <class S, int D, int V, int Q>
class AttentionCase {
 public:
  explicit AttentionCase(const Shape& s)
      : s_(s),
        q_(1, s.batch, s.heads, s.queries, s.width),
        k_(2, s.batch, s.groups, s.keys, s.width),
        v_(3, s.batch, s.groups, s.keys, s.value_width),
        grad_(4, s.batch, s.heads, s.queries, s.value_width),
        want_(s, q_.numbers, k_.numbers, v_.numbers, grad_.numbers),
        sums_(want_.sums.all.begin(), want_.sums.all.end()),
        delta_(want_.delta.all.begin(), want_.delta.all.end()) {}

  void Check() {
    CheckForward();
    CheckQueryGradient();
    CheckKeyGradients();
  }

 private:
  enum : int { kTile = 64, kColumnBytes = 2, kAlignment = 1024 };
  static constexpr float kFactor = 0.5;  // what forward multiplies by
  // What the values of two tiles of queries take, in elements.
  enum : int { kValues = 2 * kTile * int(sizeof(tk::Vec<float, 2>)) / kColumnBytes };

  void CheckForward() {
    const Lists partial(s_, Seen::kPartial, Listed::kKeys), whole(s_, Seen::kWhole, Listed::kKeys);
    Tensor<S> result(s_.batch, s_.heads, s_.queries, s_.value_width, Unwritten());
    // By batch, head and query.
    std::vector<float> sums(sums_.size(), NAN), largest(sums_.size(), NAN);
    const auto unmasked = [](float product, NoValues, int, int h, int query, int key) {
      return Score(product, h, query, key) / kFactor;
    };
    const auto masked = [this, unmasked](float product, NoValues of, int b, int h, int query,
                                         int key) {
      return Sees(s_, b, h, query, key) ? unmasked(product, of, b, h, query, key)
                                        : -float(kInfinity);
    };
    RunGrid(TilesOf(s_.queries) * s_.batch * s_.heads, Q * D + 3 * kTile * (D + V),
            [&](int number, char* shared) {
              tk::attention_forward<S, D, V, Q>(number, shared, q_.stored.view(), k_.stored.view(),
                                                v_.stored.view(), result.result_view(), sums.data(),
                                                largest.data(), Sizes(), partial.view(),
                                                whole.view(), kFactor, OfNoQuery, masked, unmasked);
            });
    ExpectNear(result, want_.result, kTolerance<S>, "result");
    ExpectNear(ByQuery(sums), want_.sums, 1e-5, "sums");
    ExpectNear(ByQuery(largest), want_.largest, 1e-5, "largest");
  }

  void CheckQueryGradient() {
    const Lists partial(s_, Seen::kPartial, Listed::kKeys), whole(s_, Seen::kWhole, Listed::kKeys);
    Tensor<S> result(s_.batch, s_.heads, s_.queries, s_.width, Unwritten());
    RunGrid(TilesOf(s_.queries) * s_.batch * s_.heads, (Q + 3 * kTile) * (D + V),
            [&](int number, char* shared) {
              tk::attention_query_gradient<S, D, V, Q>(
                  number, shared, q_.stored.view(), k_.stored.view(), v_.stored.view(),
                  grad_.stored.view(), result.result_view(), Sizes(), partial.view(), whole.view(),
                  OfQuery(), Masked(Gradient), Gradient);
            });
    ExpectNear(result, want_.grad_q, kTolerance<S>, "queries' gradient");
  }

  void CheckKeyGradients() {
    const Lists partial(s_, Seen::kPartial, Listed::kQueries);
    const Lists whole(s_, Seen::kWhole, Listed::kQueries);
    Tensor<S> of_keys(s_.batch, s_.groups, s_.keys, s_.width, Unwritten());
    Tensor<S> of_values(s_.batch, s_.groups, s_.keys, s_.value_width, Unwritten());
    RunGrid(TilesOf(s_.keys) * s_.batch * s_.groups, (Q + 2 * kTile) * (D + V) + kValues,
            [&](int number, char* shared) {
              tk::attention_key_gradients<S, D, V, Q>(
                  number, shared, q_.stored.view(), k_.stored.view(), v_.stored.view(),
                  grad_.stored.view(), of_keys.result_view(), of_values.result_view(), Sizes(),
                  partial.view(), whole.view(), OfQuery(), Masked(Gradient), Masked(Weight),
                  Gradient, Weight);
            });
    ExpectNear(of_keys, want_.grad_k, kTolerance<S>, "keys' gradient");
    ExpectNear(of_values, want_.grad_v, kTolerance<S>, "values' gradient");
  }

  // What functions read of a query: its sum, and its result's gradient times its result.
  typedef tk::Vec<float, 2> Values;
  auto OfQuery() const {
    return [this](int b, int h, int query) {
      const size_t place = PlaceOf(b, h, query);
      return Values{{sums_[place], delta_[place]}};
    };
  }
  typedef tk::Vec<float, 1> NoValues;
  static constexpr auto OfNoQuery = [](int, int, int) { return NoValues{{0}}; };

  // Functions of a query and a key that it sees. Products are 0 of rows that do not exist, for
  // which functions may overflow.
  static float Weight(float product, float, Values of, int, int h, int query, int key) {
    if (product == 0) return float(kInfinity);
    return std::exp(Score(product, h, query, key) - of.at[0]);
  }
  static float Gradient(float product, float of_weight, Values of, int b, int h, int query,
                        int key) {
    const float weight = Weight(product, of_weight, of, b, h, query, key);
    return weight * (of_weight - of.at[1]) * 0.125f;
  }
  // The same of any; 0 of a key that is not seen.
  template <class F>
  auto Masked(F f) const {
    return [this, f](float product, float of_weight, Values of, int b, int h, int query, int key) {
      return Sees(s_, b, h, query, key) ? f(product, of_weight, of, b, h, query, key) : 0.0f;
    };
  }

  template <class F>
  static void RunGrid(int blocks, int elements, const F& f) {
    for (int number = 0; number < blocks; ++number) {
      cuda_on_host::RunWarpgroups(2 * Q, elements * kColumnBytes + kAlignment,
                                  [&](char* shared) { f(number, shared); });
    }
  }
  static int TilesOf(int rows) { return (rows + Q - 1) / Q; }
  static S Unwritten() { return {0xffff}; }  // NaN

  tk::AttentionSizes Sizes() const {
    const int block = s_.block == 0 ? Q : s_.block;
    return tk::attention_sizes(s_.heads, s_.groups, s_.queries, s_.keys, s_.width, s_.value_width,
                               block, block);
  }
  // In the reference's numbers of queries.
  size_t PlaceOf(int b, int h, int query) const {
    return size_t((b * s_.queries + query) * s_.heads + h);
  }
  // Numbers by batch, head and query in the reference's order.
  Tensor<float> ByQuery(const std::vector<float>& numbers) const {
    Tensor<float> r(s_.batch, s_.heads, s_.queries, 1);
    size_t at = 0;
    for (int b = 0; b < s_.batch; ++b) {
      for (int h = 0; h < s_.heads; ++h) {
        for (int i = 0; i < s_.queries; ++i) *r.row(b, h, i) = numbers[at++];
      }
    }
    return r;
  }

  const Shape s_;
  const Operand<S> q_, k_, v_, grad_;
  const Reference want_;
  const std::vector<float> sums_, delta_;
};

TEST(CudaAttentionFunctions, ShortExponentialsAreGoodForSixteenBits) {
  for (float x = -87; x < 88; x += 0.37f) {
    const double want = std::exp(double(x));
    const double got = tk::exp_approx(tk::broadcast<1>(x)).at[0];
    EXPECT_NEAR(got, want, want * (std::ldexp(1, -22) + 1.25 * std::fabs(x) * std::ldexp(1, -24)))
        << x;
  }
  EXPECT_EQ(tk::exp_approx(tk::broadcast<1>(-float(kInfinity))).at[0], 0);
  EXPECT_EQ(tk::exp_approx(tk::broadcast<1>(200.0f)).at[0], float(kInfinity));
}

template <class S>
class CudaAttentionTest : public testing::Test {
 protected:
  // One warpgroup, and two.
  static void CheckNarrow(const Shape& shape) { AttentionCase<S, 64, 128, 64>(shape).Check(); }
  static void CheckWide(const Shape& shape) { AttentionCase<S, 128, 64, 128>(shape).Check(); }
};
using Types = testing::Types<tk::half, tk::bfloat16>;
TYPED_TEST_SUITE(CudaAttentionTest, Types);

// Batch, heads, groups; queries, keys; widths; block.
TYPED_TEST(CudaAttentionTest, SeesAllKeys) {
  this->CheckNarrow({2, 2, 1, 70, 130, 64, 128});
  this->CheckWide({1, 2, 2, 70, 130, 128, 40});
}

TYPED_TEST(CudaAttentionTest, SeesBlocksOfLists) {
  this->CheckNarrow({1, 4, 2, 70, 130, 40, 72, 64});
  this->CheckNarrow({2, 2, 1, 130, 70, 64, 128, 128});
  this->CheckWide({1, 2, 2, 140, 130, 128, 64, 128});
}

}  // namespace
