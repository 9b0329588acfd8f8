// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/pad_products.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "compiler/graph/editor.h"
#include "compiler/graph/layout.h"
#include "compiler/ops/product_by_rows.h"
#include "compiler/rewrite/matrix_nodes.h"
#include "compiler/rewrite/product_facts.h"

namespace tensord::compiler {
namespace {

// ---- The pass

// An operand as it lies in memory: row-major matrices, which the product reads as they are or
// transposed.
struct Matrix {
  ValueId value;
  // The value itself is column-major; its transpose is what lies there by rows.
  bool by_columns = false;
  // The product reads the transpose of what lies there.
  bool transposed = false;
};

// Padding at the ends of rows (more columns) and below the last row.
struct Pads {
  int64_t rows = 0, columns = 0;
  bool any() const { return rows > 0 || columns > 0; }
};

struct Plan {
  const ProductOperator* form;
  Matrix a, b;
  int64_t aligned = 1;          // what rows must be multiples of
  int64_t m = 0, k = 0, n = 0;  // padding of each dimension
  bool any() const { return m + k + n > 0; }
  Pads PadsOfA() const { return a.transposed ? Pads{k, m} : Pads{m, k}; }
  Pads PadsOfB() const { return b.transposed ? Pads{n, k} : Pads{k, n}; }
};

class Padder {
 public:
  Padder(const PaddingCosts& costs, Graph* graph)
      : costs_(costs), device_(DeviceOf(*graph)), editor_(graph), nodes_(&editor_) {}

  int Run() {
    int count = 0;
    for (int i = 0; i < static_cast<int>(editor_.graph().nodes.size()); ++i) {
      const std::optional<Plan> plan = PlanFor(i);
      if (!plan || (plan->any() ? !Pays(i, *plan) : !ComesInParts(i, *plan))) continue;
      Apply(i, *plan);
      ++count;
    }
    editor_.Finish();
    return count;
  }

 private:
  // ---- Analysis

  Matrix InMemory(const ArgumentValue& arg) const {
    Matrix matrix{.value = ValueOf(arg)};
    while (const Node* node = editor_.Producer(matrix.value.first)) {
      if (!SwapsLastTwo(*node)) break;
      const auto swapped = ValueOf(Argument(*node, "self"));
      // A graph from outside may declare results that cannot be; lowering refuses it.
      if (editor_.TypeOf(swapped).strides.size() != editor_.TypeOf(matrix.value).strides.size()) {
        break;
      }
      matrix.value = swapped;
      matrix.transposed = !matrix.transposed;
    }
    const std::vector<Expr>& strides = editor_.TypeOf(matrix.value).strides;
    const size_t rank = strides.size();
    matrix.by_columns = strides[rank - 2].Is(1) && !strides[rank - 1].Is(1);
    if (matrix.by_columns) matrix.transposed = !matrix.transposed;
    return matrix;
  }

  static bool SwapsLastTwo(const Node& node) {
    const int rank = node.outputs.empty() ? 0 : static_cast<int>(node.outputs[0].sizes.size());
    if (rank < 2) return false;
    if (node.op == "aten::t") return true;
    const auto is_dim = [rank](const ArgumentValue& arg, int dim) {
      return arg.integer.Is(dim) || arg.integer.Is(dim - rank);
    };
    if (node.op == "aten::transpose.int") {
      const ArgumentValue &dim0 = Argument(node, "dim0"), &dim1 = Argument(node, "dim1");
      return (is_dim(dim0, rank - 2) && is_dim(dim1, rank - 1)) ||
             (is_dim(dim0, rank - 1) && is_dim(dim1, rank - 2));
    }
    if (node.op != "aten::permute") return false;
    const std::vector<ArgumentValue>& dims = Argument(node, "dims").items;
    if (static_cast<int>(dims.size()) != rank) return false;
    for (int d = 0; d < rank; ++d) {
      if (!is_dim(dims[d], d < rank - 2 ? d : 2 * rank - 3 - d)) return false;
    }
    return true;
  }

  // What to pad so that the rows of all three matrices are aligned; nothing when they cannot be.
  std::optional<Plan> PlanFor(int index) const {
    const Node& node = editor_.node(index);
    const auto form = std::find_if(std::begin(kProducts), std::end(kProducts),
                                   [&](const ProductOperator& row) { return row.op == node.op; });
    if (form == std::end(kProducts) || node.outputs.size() != 1 || !editor_.MayRewrite(index))
      return std::nullopt;
    const TensorType& result = node.outputs[0];
    const auto alignment =
        std::find_if(std::begin(kAlignments), std::end(kAlignments),
                     [&](const Alignment& row) { return row.dtype == result.dtype; });
    if (alignment == std::end(kAlignments)) return std::nullopt;
    Plan plan{.form = &*form, .aligned = alignment->elements};
    const int m = form->batch, n = m + 1, rank = m + 2;
    for (const std::string_view operand : {form->a, form->b, form->added}) {
      if (operand.empty()) continue;
      const TensorType& type = editor_.TypeOf(ValueOf(Argument(node, operand)));
      if (type.dtype != result.dtype || type.device != device_ ||
          (operand != form->added && static_cast<int>(type.sizes.size()) != rank)) {
        return std::nullopt;
      }
    }
    if (result.device != device_ || !(result.strides == ContiguousStrides(result.sizes))) {
      return std::nullopt;
    }
    plan.a = InMemory(Argument(node, form->a));
    plan.b = InMemory(Argument(node, form->b));
    const Expr& inner = SizesOf(node, form->a)[n];
    const auto pad = [&](bool is_row, const Expr& size, int64_t* by) {
      if (!is_row || sym::Mod(size, Expr(alignment->elements)).Is(0)) return true;
      if (!size.IsConstant()) return false;
      *by = PaddedSize(sym::Hint(size), alignment->elements) - sym::Hint(size);
      return true;
    };
    if (!pad(plan.a.transposed, result.sizes[m], &plan.m) ||
        !pad(!plan.a.transposed || plan.b.transposed, inner, &plan.k) ||
        !pad(true, result.sizes[n], &plan.n)) {
      return std::nullopt;
    }
    const auto is_short = [&](const Expr& size) { return sym::Hint(size) < alignment->least_size; };
    if (is_short(result.sizes[m]) || is_short(inner) || is_short(result.sizes[n]) ||
        Work(node, *form) < costs_.least_work * alignment->work_factor) {
      return std::nullopt;
    }
    return plan;
  }

  const std::vector<Expr>& SizesOf(const Node& node, std::string_view operand) const {
    return editor_.TypeOf(ValueOf(Argument(node, operand))).sizes;
  }

  // Multiply-adds.
  double Work(const Node& node, const ProductOperator& form) const {
    return static_cast<double>(ElementsHint(node.outputs[0])) *
           static_cast<double>(sym::Hint(SizesOf(node, form.a)[form.batch + 1]));
  }

  static double BytesOf(const TensorType& type) { return static_cast<double>(BytesHint(type)); }

  // One matrix stands for all of the batch: it is padded once.
  static bool IsBroadcast(const TensorType& type) {
    return type.sizes.size() == 3 && type.strides[0].Is(0) && !type.sizes[0].Is(1);
  }

  static double BytesInMemory(const TensorType& type) {
    const auto batch = IsBroadcast(type) ? sym::Hint(type.sizes[0]) : 1;
    return BytesOf(type) / static_cast<double>(batch);
  }

  // Whether the library's gain exceeds what the copies cost.
  bool Pays(int index, const Plan& plan) const {
    const Node& node = editor_.node(index);
    double bytes =
        CopiedBytes(index, plan.a, plan.PadsOfA()) + CopiedBytes(index, plan.b, plan.PadsOfB());
    if (!plan.form->added.empty() && plan.m + plan.n > 0) {
      bytes += 2 * BytesOf(editor_.TypeOf(ValueOf(Argument(node, plan.form->added))));
    }
    // A padded result is copied to where eager's layout is wanted.
    const ValueId result(editor_.ValueOfNode(index), 0);
    if (!KeepsStrides(result, {plan.m, plan.n}) && editor_.uses().NeedsEagerLayout(result)) {
      bytes += 2 * BytesOf(node.outputs[0]);
    }
    const int m = plan.form->batch;
    bool odd = false;
    const auto look = [&](int64_t pad, const Expr& size) {
      odd = odd || (pad > 0 && sym::Hint(size) % 2 != 0);
    };
    look(plan.m, node.outputs[0].sizes[m]);
    look(plan.k, SizesOf(node, plan.form->a)[m + 1]);
    look(plan.n, node.outputs[0].sizes[m + 1]);
    const double slow = odd ? kSlowWithSingles : kSlowWithPairs;
    return 2 * Work(node, *plan.form) * (slow - 1) > bytes * costs_.flops_per_byte;
  }

  // Whether the value, or what it is a view of, is the result of a kernel of ours, in memory of its
  // own: a copy's is that of an input.
  bool IsMadeByKernel(ValueId value) const {
    const Node* root = editor_.Producer(editor_.uses().Root(value).first);
    return root != nullptr && IsGenerated(*root) && WrittenBy(*root).empty();
  }

  // What the padded operand costs beyond writing the operand at all.
  double CopiedBytes(int product, const Matrix& matrix, const Pads& pads) const {
    if (!pads.any() || FindPadded(product, matrix, pads) != nullptr) return 0;
    const double bytes = BytesInMemory(editor_.TypeOf(matrix.value));
    if (!IsMadeByKernel(matrix.value)) return 2 * bytes;
    return editor_.uses().IsRootShared(matrix.value) || !TakesOver(matrix, pads) ? bytes : 0;
  }

  // A part of the padded matrix has the strides that it has alone: only rows were added behind it.
  bool KeepsStrides(ValueId value, const Pads& pads) const {
    return pads.columns == 0 && editor_.TypeOf(value).sizes.size() == 2;
  }

  // The padded matrix is computed in the value's stead: our own kernel stores its rows farther
  // apart, and the other readers read a slice of that.
  bool TakesOver(const Matrix& matrix, const Pads& pads) const {
    return IsMadeByKernel(matrix.value) &&
           (KeepsStrides(matrix.value, pads) || !editor_.uses().NeedsEagerLayout(matrix.value));
  }

  // ---- Rewriting

  using Key = std::tuple<ValueId, bool, int64_t, int64_t>;
  static Key KeyOf(const Matrix& matrix, const Pads& pads) {
    return {matrix.value, matrix.by_columns, pads.rows, pads.columns};
  }

  // An operand, padded in front of the product that was the first to read it.
  struct PaddedOperand {
    ValueId value;
    int product;
  };
  // Null where there is none yet, or the operand was written since.
  const PaddedOperand* FindPadded(int product, const Matrix& matrix, const Pads& pads) const {
    const auto it = padded_.find(KeyOf(matrix, pads));
    if (it == padded_.end()) return nullptr;
    const bool stale = editor_.uses().IsWrittenBetween(matrix.value, it->second.product, product);
    return stale ? nullptr : &it->second;
  }

  // What stands for an old value by now. Added nodes must name it themselves.
  ValueId Current(ValueId value) const {
    const auto it = current_.find(value);
    return it == current_.end() ? value : it->second;
  }
  void Replace(ValueId old, ValueId with) {
    editor_.Replace(Current(old), with);
    current_[old] = with;
  }

  // The part of a padded matrix that is `type`.
  ValueId Unpadded(int before, const std::string& name, ValueId value, const Pads& pads,
                   const TensorType& type) {
    const int row = static_cast<int>(type.sizes.size()) - 2;
    if (pads.rows > 0 && pads.columns > 0) {
      TensorType rows = editor_.TypeOf(value);
      rows.sizes[row] = type.sizes[row];
      value = nodes_.FirstOf(before, name, value, row, rows);
    }
    const int dim = pads.columns > 0 ? row + 1 : row;
    return nodes_.FirstOf(before, name, value, dim, type);
  }

  // The operand, padded; made once for all products that read the same.
  ValueId Padded(int product, const Matrix& matrix, const Pads& pads) {
    if (const PaddedOperand* found = FindPadded(product, matrix, pads)) return found->value;
    const TensorType type = editor_.TypeOf(matrix.value);
    const ValueId source = Current(matrix.value);
    const int producer = matrix.value.first - editor_.graph().FirstNodeValue();
    const bool takes_over = TakesOver(matrix, pads);
    const int before = takes_over ? producer + 1 : product;
    const std::string name = editor_.node(takes_over ? producer : product).name;
    const int row = static_cast<int>(type.sizes.size()) - 2;
    ValueId value = source;
    if (IsBroadcast(type)) {
      TensorType first = editor_.TypeOf(value);
      first.sizes[0] = Expr(1);
      value = nodes_.FirstOf(before, name, value, 0, std::move(first));
    }
    if (matrix.by_columns) value = nodes_.Transposed(before, name, value);
    std::vector<Expr> sizes = editor_.TypeOf(value).sizes;
    sizes[row] += Expr(pads.rows);
    sizes[row + 1] += Expr(pads.columns);
    value = nodes_.ZeroPadded(before, name, value, sizes);
    if (IsBroadcast(type)) value = nodes_.Broadcast(before, name, value, type.sizes[0]);
    padded_[KeyOf(matrix, pads)] = {value, product};
    if (takes_over) {
      ValueId part = value;
      const Pads swapped = matrix.by_columns ? Pads{pads.columns, pads.rows} : pads;
      if (matrix.by_columns) part = nodes_.Transposed(before, name, part);
      Replace(matrix.value, Unpadded(before, name, part, swapped, type));
    }
    return value;
  }

  ValueId Operand(int product, const ArgumentValue& arg, const Matrix& matrix, const Pads& pads) {
    if (!pads.any()) return Current(ValueOf(arg));
    const ValueId padded = Padded(product, matrix, pads);
    if (!matrix.transposed) return padded;
    return nodes_.Transposed(product, editor_.node(product).name, padded);
  }

  // What is added to a padded product: padded where it is not broadcast.
  ValueId Added(int product, const ArgumentValue& arg, const Plan& plan) {
    const ValueId value = Current(ValueOf(arg));
    std::vector<Expr> sizes = editor_.TypeOf(value).sizes;
    for (const auto& [from_last, pad] : {std::pair(2, plan.m), std::pair(1, plan.n)}) {
      const int dim = static_cast<int>(sizes.size()) - from_last;
      if (dim >= 0 && !sizes[dim].Is(1)) sizes[dim] += Expr(pad);
    }
    return nodes_.ZeroPadded(product, editor_.node(product).name, value, sizes);
  }

  // Rows of `a` times rows of the weight, and a bias for each column or nothing: what
  // tensord::product_by_rows computes.
  bool IsOfRows(int index, const Plan& plan) const {
    const Node& node = editor_.node(index);
    if (plan.form->batch != 0 || plan.m + plan.k > 0 || plan.a.transposed || !plan.b.transposed ||
        plan.b.by_columns || plan.form->op == "aten::_addmm_activation") {
      return false;
    }
    if (plan.form->added.empty()) return true;
    const auto& sizes = SizesOf(node, plan.form->added);
    return sizes.size() == 1 && sizes[0] == node.outputs[0].sizes[1] &&
           IsOne(Argument(node, "beta")) && IsOne(Argument(node, "alpha"));
  }

  int64_t PeriodOf(int index, const Plan& plan) const {
    return PeriodOfRows(sym::Hint(editor_.node(index).outputs[0].sizes[1]), plan.aligned);
  }

  // Whether a result, instead of being padded and copied, is written where it is wanted: by rows
  // that are equally aligned, which must be many enough to fill the device.
  bool GoesByRows(int index, const Plan& plan) const {
    if (!IsOfRows(index, plan) ||
        !editor_.uses().NeedsEagerLayout({editor_.ValueOfNode(index), 0})) {
      return false;
    }
    const TensorType& result = editor_.node(index).outputs[0];
    const int64_t columns = sym::Hint(result.sizes[1]);
    const int64_t rows = sym::Hint(result.sizes[0]) / PeriodOf(index, plan);
    return rows >= costs_.least_equally_aligned_rows &&
           rows * columns >= costs_.least_equally_aligned_elements;
  }

  // Whether there is nothing to pad, but a large weight that is computed for this product alone.
  bool ComesInParts(int index, const Plan& plan) const {
    if (!IsOfRows(index, plan) || !editor_.node(index).outputs[0].sizes[1].IsConstant()) {
      return false;
    }
    return IsMadeByKernel(plan.b.value) && PartsOfWeight(index, plan) > 1;
  }

  // A weight with other readers (backward) stays whole: 1. A part that needs a product per period
  // is twice as large, so there are half as many.
  int64_t PartsOfWeight(int index, const Plan& plan) const {
    const ValueId weight = ValueOf(Argument(editor_.node(index), plan.form->b));
    const Uses& uses = editor_.uses();
    const ValueId root = uses.Root(weight);
    if (uses.IsRootShared(weight) || uses.Readers(weight).size() > 1) return 1;
    const int64_t most = costs_.most_weight_bytes * (PeriodOf(index, plan) > 1 ? 2 : 1);
    return sym::CeilDiv(BytesHint(editor_.TypeOf(root)), most);
  }

  void ComputeByRows(int index, const Plan& plan) {
    const ProductOperator& form = *plan.form;
    const Node& old = editor_.node(index);
    const auto current = [&](std::string_view operand) {
      return ValueArg(Current(ValueOf(Argument(old, operand))));
    };
    Node node = MakeNode("tensord::product_by_rows", old.name,
                         {{"a", current(form.a)},
                          {"weight", ValueArg(Current(plan.b.value))},
                          {"bias", form.added.empty() ? NoneArgument() : current(form.added)},
                          {"aligned", IntegerArg(Expr(plan.aligned))},
                          {"parts", IntegerArg(Expr(PartsOfWeight(index, plan)))}},
                         old.outputs[0]);
    Replace({editor_.ValueOfNode(index), 0}, editor_.Insert(index, std::move(node)));
  }

  void Apply(int index, const Plan& plan) {
    if (!plan.any() || GoesByRows(index, plan)) {
      ComputeByRows(index, plan);
      return;
    }
    const ProductOperator& form = *plan.form;
    Node node = editor_.node(index);
    const TensorType eager = node.outputs[0];
    ArgumentValue &a = Argument(&node, form.a), &b = Argument(&node, form.b);
    a = ValueArg(Operand(index, a, plan.a, plan.PadsOfA()));
    b = ValueArg(Operand(index, b, plan.b, plan.PadsOfB()));
    if (!form.added.empty()) {
      ArgumentValue& added = Argument(&node, form.added);
      added = ValueArg(Added(index, added, plan));
    }
    TensorType& type = node.outputs[0];
    type.sizes[form.batch] += Expr(plan.m);
    type.sizes[form.batch + 1] += Expr(plan.n);
    type.strides = ContiguousStrides(type.sizes);
    const std::string name = node.name;
    const ValueId product = editor_.Insert(index, std::move(node));
    const Pads pads{plan.m, plan.n};
    const ValueId old(editor_.ValueOfNode(index), 0);
    SavePadded(index, product, pads);
    Replace(old, pads.any() ? Unpadded(index, name, product, pads, eager) : product);
  }

  // What is wanted by padded rows is the product as it is computed, whatever is behind each row.
  void SavePadded(int index, ValueId product, const Pads& pads) {
    const ValueId old(editor_.ValueOfNode(index), 0);
    const int end = static_cast<int>(editor_.graph().nodes.size());
    for (const int reader : editor_.uses().Readers(old)) {
      if (reader == end) continue;
      const Node& node = editor_.node(reader);
      const TensorType& wanted = node.outputs[0];
      if (node.op != "tensord::padded_rows" ||
          !(wanted.sizes.back() == editor_.TypeOf(product).sizes.back())) {
        continue;
      }
      const ValueId part =
          pads.rows == 0 ? product : nodes_.FirstOf(index, node.name, product, 0, wanted);
      Replace({editor_.ValueOfNode(reader), 0}, part);
    }
  }

  const PaddingCosts costs_;
  const v1::DeviceType device_;
  GraphEditor editor_;
  MatrixNodes nodes_;
  std::map<Key, PaddedOperand> padded_;
  std::map<ValueId, ValueId> current_;
};

}  // namespace

int PadProducts(const PaddingCosts& costs, Graph* graph) { return Padder(costs, graph).Run(); }
int PadProducts(const v1::Target&, Graph* graph) { return PadProducts(PaddingCosts{}, graph); }

}  // namespace tensord::compiler
