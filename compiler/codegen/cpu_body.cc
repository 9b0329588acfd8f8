#include "compiler/codegen/cpu_body.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/codegen/cpp_text.h"

namespace tensord::compiler {
namespace {

// Row arrays up to this many bytes live on the stack.
constexpr int64_t kMostStackBytes = 64 << 10;

}  // namespace

std::string CpuBody::RowArray(BufferId id) {
  auto [it, is_new] = row_arrays_.try_emplace(id);
  if (!is_new) return it->second;
  it->second = absl::StrCat("row", row_arrays_.size() - 1);
  const DType dtype = program().buffers[id].dtype;
  const std::string type = ComputeTypeText(dtype);
  const Expr elements = sym::Product(nest().inner);
  const Expr bytes = elements * ItemSize(ComputeType(dtype));
  if (auto count = elements.AsConstant();
      count && *bytes.AsConstant() <= kMostStackBytes / std::max<int64_t>(1, row_arrays_.size())) {
    absl::StrAppend(array_declarations(), "  alignas(64) ", type, " ", it->second, "[", *count,
                    "];\n");
  } else {
    absl::StrAppend(array_declarations(), "  ", type, "* const ", it->second,
                    " = reinterpret_cast<", type, "*>(scratch + ", interface()->Scratch(bytes),
                    ");\n");
  }
  return it->second;
}

std::string CpuBody::ReadLocal(BufferId buffer) {
  const std::string type = ComputeTypeText(program().buffers[buffer].dtype);
  const std::string at = absl::StrCat(RowArray(buffer), " + ", InnerPosition());
  return tail() ? absl::StrCat("tk::load_tail<", type, ", W>(", at, ", left)")
                : absl::StrCat("tk::load<", type, ", W>(", at, ")");
}

std::string CpuBody::WriteLocal(BufferId buffer, const std::string& value) {
  const std::string type = ComputeTypeText(program().buffers[buffer].dtype);
  const std::string at = absl::StrCat(RowArray(buffer), " + ", InnerPosition());
  return tail() ? absl::StrCat("tk::store_tail<", type, ", W>(", at, ", ", value, ", left);")
                : absl::StrCat("tk::store<", type, ", W>(", at, ", ", value, ");");
}

// ---- Tiles

bool CpuBody::IsTransposed(const Inst& inst) const {
  if (inst.kind != InstKind::kLoad || inst.guard >= 0 || nest().outer.empty() ||
      nest().inner.empty() || nest().local.count(inst.buffer) != 0 ||
      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect)) {
    return false;
  }
  const int row = static_cast<int>(nest().outer.size()) - 1;
  const auto along_row =
      sym::LinearCoefficient(inst.index, {sym::AtomKind::kLoop, row + vector_level()});
  const auto across = sym::LinearCoefficient(inst.index, {sym::AtomKind::kLoop, row});
  return across && across->Is(1) && along_row && !along_row->Is(0) && !along_row->Is(1);
}

std::vector<std::string> CpuBody::EndTiles() {
  tiles_ = false;
  ForgetUnit();
  return std::move(tile_lines_);
}

std::string CpuBody::SpecialLoad(const Inst& inst, const std::string& address, const Expr& stride) {
  if (!tiles_ || !IsTransposed(inst)) return "";
  const std::string storage = StorageType(inst.storage);
  auto [it, is_new] = tile_of_.try_emplace(address, absl::StrCat("tile", tile_of_.size()));
  if (is_new) {
    absl::StrAppend(array_declarations(), "  alignas(64) ", storage, " ", it->second, "[W * W];\n");
    tile_lines_.push_back(absl::StrCat("tk::transpose<", storage, ", W>(", address, ", ",
                                       ScalarText(stride), ", ", it->second, ", W);"));
  }
  return absl::StrCat("tk::load<", storage, ", W>(", it->second, " + (i", nest().outer.size() - 1,
                      " - first_row) * W)");
}

}  // namespace tensord::compiler
