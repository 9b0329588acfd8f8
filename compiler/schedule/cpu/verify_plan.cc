// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/verify_plan.h"

#include <algorithm>

namespace tensord::compiler {

namespace {

bool IsPartOf(const Nest& nest, const CpuPlan& plan, const CpuChains::Part& part) {
  const int loops = static_cast<int>(nest.inner.size());
  if (part.loop < 0 || part.loop >= loops || part.iterations <= 0) return false;
  return part.loop + 1 < loops || part.iterations % plan.lanes == 0;
}

}  // namespace

absl::Status VerifyCpuPlan(const Nest& nest, const CpuPlan& plan) {
  if (plan.lanes <= 0) return absl::InternalError("a plan without lanes");
  const auto* flat = plan.As<CpuFlat>();
  const auto* blocks = plan.As<CpuColumnBlocks>();
  const auto is_cut = [&](int64_t elements) { return elements <= 0 || elements % plan.lanes != 0; };
  const Expr extent = nest.inner.empty() ? Expr(plan.lanes) : nest.inner.back();
  const bool is_whole = sym::ExactDiv(extent, Expr(plan.lanes)).has_value();
  const auto& copies = plan.accumulator_copies;
  const auto& rows = plan.stack_rows;
  const auto& parts = plan.chains.passes;
  const struct {
    bool is_broken;
    const char* how;
  } rules[] = {
      {plan.cost < 1, "a plan without work"},
      {flat != nullptr && is_cut(flat->chunk), "chunks are not whole vectors"},
      {blocks != nullptr && is_cut(blocks->columns), "blocks of columns are not whole vectors"},
      {!plan.has_tail && plan.lanes > 1 && !is_whole, "whole vectors leave elements of the loop"},
      {plan.has_tail && plan.lanes == 1, "single elements leave a tail"},
      {std::any_of(
           copies.begin(), copies.end(),
           [](const auto& of_pass) { return of_pass.first % 2 == 0 || of_pass.second < 2; }),
       "what is no pass has copies of accumulators, or one copy"},
      {std::any_of(parts.begin(), parts.end(),
                   [&](const auto& of_pass) { return !IsPartOf(nest, plan, of_pass.second); }),
       "parts of a chain are not of whole steps of an inner loop"},
      {plan.chains.units < 0, "parts without units"},
      {std::any_of(rows.begin(), rows.end(),
                   [&](BufferId id) { return nest.local.count(id) == 0; }),
       "a row on the stack is in memory"},
      {!rows.empty() && !sym::Product(nest.inner).AsConstant(),
       "rows on the stack are of unknown size"},
  };
  for (const auto& rule : rules) {
    if (rule.is_broken) return absl::InternalError(rule.how);
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler
