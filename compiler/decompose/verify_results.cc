// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/verify_results.h"

#include <absl/strings/str_cat.h>

#include "compiler/graph/layout.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

bool SameSize(const Expr& lowered, const Expr& declared) {
  if (lowered == declared) return true;
  if (lowered.IsConstant() && declared.IsConstant()) return false;
  // Two symbols that the job's guards hold equal.
  return sym::MayBeEqual(lowered, declared);
}

absl::Status Invalid(const Node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": ", what));
}

}  // namespace

absl::Status VerifyResults(const Node& node, const std::vector<Tensor>& results) {
  if (results.size() != node.outputs.size()) {
    return Invalid(node, absl::StrCat("gives ", results.size(), " results, but ",
                                      node.outputs.size(), " are declared"));
  }
  for (size_t o = 0; o < results.size(); ++o) {
    const TensorType& declared = node.outputs[o];
    if (declared.dtype == v1::DTYPE_UNSPECIFIED) continue;
    const Tensor& t = results[o];
    if (!t.defined()) return Invalid(node, absl::StrCat("does not give result ", o));
    bool same = t.dtype() == declared.dtype && t.sizes().size() == declared.sizes.size();
    for (size_t d = 0; same && d < declared.sizes.size(); ++d) {
      same = SameSize(t.sizes()[d], declared.sizes[d]);
    }
    if (!same) {
      return Invalid(
          node, absl::StrCat("result ", o, " must be ", TypeText(t.dtype(), t.sizes()),
                             ", but is declared as ", TypeText(declared.dtype, declared.sizes)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler
