// SPDX-License-Identifier: Apache-2.0
// What the index knows of programs that are not stored: whether they were, and which are like them.
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "server/store/index.h"
#include "server/store/program_columns.h"

namespace tensord::store {

absl::Status Index::NoteGone(std::string_view key, Gone why) {
  TENSORD_RETURN_IF_ERROR(database_.Prepare("INSERT OR REPLACE INTO gone(key,why) VALUES(?,?)")
                              .BindBlob(key)
                              .Bind(static_cast<int64_t>(why))
                              .Run());
  return database_.Prepare("DELETE FROM gone WHERE number<=(SELECT max(number) FROM gone)-?")
      .Bind(kMostGone)
      .Run();
}

absl::StatusOr<std::optional<Gone>> Index::WhyGone(std::string_view key) {
  TENSORD_ASSIGN_OR_RETURN(const bool still_listed, HasProgram(key));
  if (still_listed) return Gone::kLost;  // its files went without the index
  Query query = database_.Prepare("SELECT why FROM gone WHERE key=?");
  query.BindBlob(key);
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  return there ? std::optional(static_cast<Gone>(query.Int(0))) : std::nullopt;
}

absl::StatusOr<std::vector<ProgramRow>> Index::WithTrait(size_t place, uint64_t number,
                                                         uint32_t limit) {
#define TENSORD_WITH_TRAIT(trait)                                                      \
  "SELECT " TENSORD_PROGRAM_COLUMNS " FROM programs WHERE " trait "=? ORDER BY " trait \
  " DESC, created_ms DESC LIMIT ?"
  static constexpr std::array<const char*, std::tuple_size_v<decltype(ProgramTraits::numbers)>>
      kSql = {TENSORD_WITH_TRAIT("trait0"), TENSORD_WITH_TRAIT("trait1"),
              TENSORD_WITH_TRAIT("trait2"), TENSORD_WITH_TRAIT("trait3"),
              TENSORD_WITH_TRAIT("trait4")};
#undef TENSORD_WITH_TRAIT
  Query query = database_.Prepare(kSql.at(place));
  query.Bind(static_cast<int64_t>(number)).Bind(static_cast<int64_t>(limit));
  return AllRows(query, ProgramRowOf);
}

absl::StatusOr<bool> Index::HasWithoutTraits() {
  return database_.Prepare("SELECT 1 FROM programs WHERE trait0 IS NULL LIMIT 1").Step();
}

}  // namespace tensord::store
