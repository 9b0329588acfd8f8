#include "compiler/codegen/cpu_body.h"

#include <absl/strings/str_cat.h>

#include "compiler/codegen/cpp_text.h"
#include "compiler/schedule/cpu/transposed_rows.h"

namespace tensord::compiler {
std::string CpuBody::RowArray(BufferId id) {
  auto [it, is_new] = row_arrays_.try_emplace(id);
  if (!is_new) return it->second;
  it->second = absl::StrCat("row", row_arrays_.size() - 1);
  const DType dtype = program().buffers[id].dtype;
  const std::string type = ComputeTypeText(dtype);
  const Expr elements = sym::Product(nest().inner);
  const Expr bytes = elements * ItemSize(ComputeType(dtype));
  if (plan_.stack_rows.count(id) != 0) {
    absl::StrAppend(array_declarations(), "  alignas(64) ", type, " ", it->second, "[",
                    *elements.AsConstant(), "];\n");
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

std::vector<std::string> CpuBody::EndTiles() {
  tiles_ = false;
  ForgetUnit();
  return std::move(tile_lines_);
}

std::string CpuBody::SpecialLoad(const Inst& inst, const std::string& address, const Expr& stride) {
  if (!tiles_ || !IsTransposedLoad(nest(), inst)) return "";
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
