// SPDX-License-Identifier: Apache-2.0
// The view operations of Builder: strides where the tensor is realized, another index where it is
// not.
#include <utility>

#include "compiler/loop_ir/builder.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Row-major position of an index.
Expr Flatten(const Sizes& sizes, Index index) {
  const Sizes strides = ContiguousStrides(sizes);
  Expr position(0);
  for (size_t d = 0; d < sizes.size(); ++d) position += index[d] * strides[d];
  return position;
}

std::vector<Expr> Unflatten(const Expr& position, const Sizes& sizes) {
  const Sizes strides = ContiguousStrides(sizes);
  std::vector<Expr> index;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].Is(1)) {
      index.push_back(Expr(0));
    } else {
      index.push_back(sym::Mod(sym::FloorDiv(position, strides[d]), sizes[d]));
    }
  }
  return index;
}

// Pairs the dimensions of two shapes of one element count into groups of equal products.
struct DimGroup {
  std::vector<int> from, to;
};

std::optional<std::vector<DimGroup>> GroupDims(const Sizes& from, const Sizes& to) {
  std::vector<DimGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    DimGroup group;
    Expr a(1), b(1);
    if (i < from.size()) {
      a = from[i];
      group.from.push_back(static_cast<int>(i++));
    }
    if (j < to.size()) {
      b = to[j];
      group.to.push_back(static_cast<int>(j++));
    }
    while (!(a == b)) {
      // The smaller product takes the next dimension; for symbols the one that divides the other.
      const bool grow_a = sym::ExactDiv(b, a).has_value() && !(a.Is(0)) ? true
                          : sym::ExactDiv(a, b).has_value()             ? false
                                                            : sym::Hint(a) < sym::Hint(b);
      if (grow_a && i < from.size()) {
        a *= from[i];
        group.from.push_back(static_cast<int>(i++));
      } else if (j < to.size()) {
        b *= to[j];
        group.to.push_back(static_cast<int>(j++));
      } else if (i < from.size()) {
        a *= from[i];
        group.from.push_back(static_cast<int>(i++));
      } else {
        return std::nullopt;
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// Strides of `to` over the same memory, when a reshape needs no copy.
std::optional<Sizes> ReshapeStrides(const BufferView& view, const Sizes& to,
                                    const std::vector<DimGroup>& groups) {
  Sizes strides(to.size(), Expr(1));
  for (const DimGroup& group : groups) {
    Expr stride(1);
    // The source dimensions of a group must be mergeable: stride[d] == stride[d+1] * size[d+1].
    std::vector<int> wide;
    for (int d : group.from) {
      if (!view.sizes[d].Is(1)) wide.push_back(d);
    }
    for (size_t k = 0; k + 1 < wide.size(); ++k) {
      if (!(view.strides[wide[k]] == view.strides[wide[k + 1]] * view.sizes[wide[k + 1]])) {
        return std::nullopt;
      }
    }
    if (!wide.empty()) stride = view.strides[wide.back()];
    for (auto it = group.to.rbegin(); it != group.to.rend(); ++it) {
      strides[*it] = stride;
      stride *= to[*it];
    }
  }
  return strides;
}

}  // namespace

Tensor Builder::Reindex(const Tensor& t, Sizes sizes, std::function<std::vector<Expr>(Index)> map) {
  if (IsComplex(t.dtype())) {
    return Complex(Reindex(t.part(0), sizes, map), Reindex(t.part(1), sizes, map), {t}, 0);
  }
  Tensor::Impl impl{.dtype = t.dtype(), .sizes = std::move(sizes)};
  impl.body = [t, map = std::move(map)](Recorder& ops, Index index) {
    const std::vector<Expr> source = map(index);
    return t.Load(ops, source);
  };
  impl.cost = t.cost();
  impl.reads = t.reads();
  impl.device = t.device();
  return Make(std::move(impl));
}

Tensor Builder::Permute(const Tensor& t, const std::vector<int>& order) {
  Sizes sizes;
  for (int d : order) sizes.push_back(t.sizes()[d]);
  if (t.view()) {
    BufferView view = *t.view();
    view.sizes = sizes;
    for (size_t i = 0; i < order.size(); ++i) view.strides[i] = t.view()->strides[order[i]];
    return FromView(std::move(view), t.dtype());
  }
  return Reindex(t, std::move(sizes), [order](Index index) {
    std::vector<Expr> source(order.size());
    for (size_t i = 0; i < order.size(); ++i) source[order[i]] = index[i];
    return source;
  });
}

Tensor Builder::Expand(const Tensor& t, const Sizes& sizes) {
  if (SameSizes(t.sizes(), sizes)) return t;
  const size_t skip = sizes.size() - t.sizes().size();
  if (t.view()) {
    BufferView view = *t.view();
    view.sizes = sizes;
    view.strides.assign(sizes.size(), Expr(0));
    for (size_t d = skip; d < sizes.size(); ++d) {
      const Expr& from = t.sizes()[d - skip];
      const bool widened = !(from == sizes[d]) && sym::IsOne(from) && !sizes[d].Is(1);
      view.strides[d] = widened ? Expr(0) : t.view()->strides[d - skip];
    }
    return FromView(std::move(view), t.dtype());
  }
  return Reindex(t, sizes, [skip, sizes, from = t.sizes()](Index index) {
    std::vector<Expr> source;
    for (size_t d = 0; d < from.size(); ++d) {
      const bool widened = !(from[d] == sizes[d + skip]) && sym::IsOne(from[d]);
      source.push_back(widened || from[d].Is(1) ? Expr(0) : index[d + skip]);
    }
    return source;
  });
}

Tensor Builder::Reshape(const Tensor& t, const Sizes& sizes) {
  if (SameSizes(t.sizes(), sizes)) return t;
  const auto groups = GroupDims(t.sizes(), sizes);
  if (t.view() && groups) {
    if (auto strides = ReshapeStrides(*t.view(), sizes, *groups)) {
      BufferView view = *t.view();
      view.sizes = sizes;
      view.strides = *strides;
      return FromView(std::move(view), t.dtype());
    }
  }
  return Reindex(t, sizes, [groups, from = t.sizes(), to = sizes](Index index) {
    if (!groups) return Unflatten(Flatten(to, index), from);
    // Group by group, so that untouched dimensions keep their plain index.
    std::vector<Expr> source(from.size());
    for (const DimGroup& group : *groups) {
      Sizes group_from, group_to;
      std::vector<Expr> part;
      for (int d : group.from) group_from.push_back(from[d]);
      for (int d : group.to) {
        group_to.push_back(to[d]);
        part.push_back(index[d]);
      }
      const std::vector<Expr> mapped = Unflatten(Flatten(group_to, part), group_from);
      for (size_t k = 0; k < group.from.size(); ++k) source[group.from[k]] = mapped[k];
    }
    return source;
  });
}

Tensor Builder::Slice(const Tensor& t, int dim, const Expr& start, const Expr& length,
                      const Expr& step) {
  Sizes sizes = t.sizes();
  sizes[dim] = length;
  if (t.view()) {
    BufferView view = *t.view();
    view.sizes = sizes;
    view.offset += start * view.strides[dim];
    view.strides[dim] *= step;
    return FromView(std::move(view), t.dtype());
  }
  return Reindex(t, std::move(sizes), [dim, start, step](Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    source[dim] = start + source[dim] * step;
    return source;
  });
}

Tensor Builder::Select(const Tensor& t, int dim, const Expr& index) {
  return Squeeze(Slice(t, dim, index, Expr(1), 1), dim);
}

Tensor Builder::Squeeze(const Tensor& t, int dim) {
  Sizes sizes = t.sizes();
  sizes.erase(sizes.begin() + dim);
  if (t.view()) {
    BufferView view = *t.view();
    view.sizes = sizes;
    view.strides.erase(view.strides.begin() + dim);
    return FromView(std::move(view), t.dtype());
  }
  return Reindex(t, std::move(sizes), [dim](Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    source.insert(source.begin() + dim, Expr(0));
    return source;
  });
}

Tensor Builder::Unsqueeze(const Tensor& t, int dim) {
  Sizes sizes = t.sizes();
  sizes.insert(sizes.begin() + dim, Expr(1));
  if (t.view()) {
    BufferView view = *t.view();
    const Expr stride = dim < t.rank() ? view.sizes[dim] * view.strides[dim] : Expr(1);
    view.sizes = sizes;
    view.strides.insert(view.strides.begin() + dim, stride);
    return FromView(std::move(view), t.dtype());
  }
  return Reindex(t, std::move(sizes), [dim](Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    source.erase(source.begin() + dim);
    return source;
  });
}

Tensor Builder::AsStrided(const Tensor& t, Sizes sizes, Sizes strides, const Expr& offset) {
  const Tensor realized = Realize(t);
  return FromView({realized.view()->buffer, std::move(sizes), std::move(strides), offset},
                  t.dtype());
}

// ---- Complex tensors

Tensor Builder::ViewAsReal(const Tensor& t) {
  if (t.view()) return FromView(ViewOfParts(*t.view()), PartType(t.dtype()));
  Sizes sizes = t.sizes();
  sizes.push_back(Expr(2));
  return Pointwise(PartType(t.dtype()), sizes, {t}, 0, [t](Recorder& ops, Index index) {
    const Expr& part = index.back();
    const Index element = index.first(index.size() - 1);
    if (const auto known = part.AsConstant()) {
      return t.part(static_cast<int>(*known)).Load(ops, element);
    }
    const Value is_real = ops.Compute(Op::k_eq, {ops.Index(part), ops.ConstantInt(0, kInt64)});
    return ops.Where(is_real, t.part(0).Load(ops, element), t.part(1).Load(ops, element));
  });
}

Tensor Builder::ViewAsComplex(const Tensor& t) {
  const int last = t.rank() - 1;
  const Tensor real = Select(t, last, Expr(0)), imaginary = Select(t, last, Expr(1));
  if (!t.view() || !t.view()->strides[last].Is(1)) return Complex(real, imaginary, {t}, 0);
  BufferView view = *t.view();
  view.sizes.pop_back();
  view.strides.pop_back();
  std::vector<Expr*> counts{&view.offset};
  for (Expr& stride : view.strides) counts.push_back(&stride);
  for (Expr* count : counts) {
    const auto half = sym::ExactDiv(*count, Expr(2));
    if (!half) return Complex(real, imaginary, {t}, 0);
    *count = *half;
  }
  return FromView(std::move(view), ComplexType(t.dtype()));
}

}  // namespace tensord::compiler
