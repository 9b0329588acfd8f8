// SPDX-License-Identifier: Apache-2.0
// The store's frames: found by code and environment, through the index; what is served is what a
// signed record says.
#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "server/store/store.h"

namespace tensord::store {
namespace {

// Adds those of `more` that `behind` lacks, up to kMaxBehind; true: there were some.
bool AddBehind(std::vector<std::string>& behind, const std::vector<std::string>& more) {
  bool added = false;
  for (const std::string& code : more) {
    if (behind.size() >= kMaxBehind) break;
    if (std::find(behind.begin(), behind.end(), code) != behind.end()) continue;
    behind.push_back(code);
    added = true;
  }
  return added;
}

bool IsOf(const FrameFacts& facts, std::string_view code, std::string_view environment) {
  return facts.code == code && facts.environment == environment;
}

}  // namespace

absl::Status Store::PutFrame(std::string_view key, std::string_view frame, FrameFacts facts) {
  const int64_t now = options_.now_ms();
  // Two may say of the same frame whom it is behind.
  absl::MutexLock lock(&put_mutex_);
  if (const auto stored = PeekFrame(key); stored.ok()) {
    auto known = DecodeFrameFacts((*stored)->facts);
    if (known.ok()) {
      const bool is_kept = IsFrameFound(key, facts);
      if (is_kept) NoteFrameUse(key, 0);
      if (!AddBehind(known->behind, facts.behind) && is_kept) return absl::OkStatus();
      facts.behind = std::move(known->behind);
    }
  }
  const Record record{{}, std::string(frame), Encode(facts)};
  const absl::Status written = WriteFrame({std::string(key), facts, 0, 0, now, now}, record);
  if (written.ok()) {
    memory_.RemoveFrame(std::string(key));
    return written;
  }
  SetProblem(written);
  memory_.PutFrame(key, {record, std::move(facts), now});
  return absl::OkStatus();
}

absl::Status Store::WriteFrame(FrameRow row, const Record& record) {
  TENSORD_RETURN_IF_ERROR(MakeRoom(record.payload.size() + record.facts.size() + kFileOverhead));
  {
    absl::MutexLock lock(&files_mutex_);
    RefreshKey();
  }
  TENSORD_RETURN_IF_ERROR(frames_.Put(row.key, record, ""));
  row.bytes = BytesOnDisk(frames_.PathOf(row.key));
  // Which of a code's frames go is decided by their uses.
  FlushUses(/*all=*/true);
  // A frame is found by the index: one that it does not take now stays in memory, too, until it
  // does.
  return index_.With([&](Index& index) { return index.AddFrames({row}, Dropping()); });
}

std::vector<FoundFrame> Store::FramesInMemory(const std::function<bool(const FrameRow&)>& wants,
                                              std::set<std::string>* taken) {
  std::vector<FoundFrame> found;
  for (const auto& [key, frame] : memory_.Frames()) {
    const uint64_t bytes = frame->record.payload.size();
    const FrameRow row{key, frame->facts, bytes, 0, frame->created_ms, frame->created_ms};
    if (!wants(row) || !taken->insert(key).second) continue;
    found.push_back({row, std::shared_ptr<const Record>(frame, &frame->record)});
  }
  return found;
}

std::vector<FoundFrame> Store::FramesOf(std::string_view code, std::string_view environment,
                                        const std::set<std::string>& known, uint64_t most_bytes) {
  std::set<std::string> taken;
  std::vector<FoundFrame> listed = FramesInMemory(
      [&](const FrameRow& row) {
        return IsOf(row.facts, code, environment) && !known.contains(row.key);
      },
      &taken);
  auto rows = index_.With([&](Index& index) { return index.FramesOf(code, environment); });
  // That the index is in trouble is no reason to fail.
  if (rows.ok()) {
    for (FrameRow& row : *rows) {
      if (known.contains(row.key) || !taken.insert(row.key).second) continue;
      listed.push_back({std::move(row), nullptr});
    }
  }
  SortByUse(listed);
  std::vector<FoundFrame> found;
  uint64_t bytes = 0;
  for (FoundFrame& frame : listed) {
    if (bytes > most_bytes) break;
    if (frame.record == nullptr) {
      auto record = FindSound(frames_, frame.row.key);
      if (!record.ok()) continue;
      auto facts = DecodeFrameFacts((*record)->facts);
      if (!facts.ok() || !IsOf(*facts, code, environment)) continue;  // the index errs
      frame.row.facts = *std::move(facts);
      frame.record = *std::move(record);
    }
    bytes += frame.record->payload.size();
    found.push_back(std::move(frame));
  }
  return found;
}

// The index learns of a use only after a while.
void Store::SortByUse(std::vector<FoundFrame>& frames) {
  {
    absl::MutexLock lock(&uses_mutex_);
    for (FoundFrame& frame : frames) {
      const auto use = frame_uses_.find(frame.row.key);
      if (use == frame_uses_.end()) continue;
      frame.row.hits += use->second.hits;
      frame.row.used_ms = std::max(frame.row.used_ms, use->second.used_ms);
    }
  }
  std::stable_sort(frames.begin(), frames.end(), [](const FoundFrame& a, const FoundFrame& b) {
    return a.row.used_ms > b.row.used_ms;
  });
}

std::vector<std::string> Store::CodesBehind(std::string_view code, std::string_view environment,
                                            size_t limit) {
  std::vector<std::string> codes;
  std::set<std::string> reached{std::string(code)};
  std::deque<std::string> open{std::string(code)};
  const auto kept = memory_.Frames();
  while (!open.empty() && codes.size() < limit) {
    const std::string from = std::move(open.front());
    open.pop_front();
    std::vector<std::string> next =
        index_
            .With([&](Index& index) {
              return index.CodesBehind(from, environment, static_cast<uint32_t>(limit));
            })
            .value_or(std::vector<std::string>());
    for (const auto& [key, frame] : kept) {
      const std::vector<std::string>& behind = frame->facts.behind;
      if (frame->facts.environment == environment &&
          std::find(behind.begin(), behind.end(), from) != behind.end()) {
        next.push_back(frame->facts.code);
      }
    }
    for (const std::string& to : next) {
      if (codes.size() >= limit) break;
      if (!reached.insert(to).second) continue;
      codes.push_back(to);
      open.push_back(to);
    }
  }
  return codes;
}

absl::StatusOr<std::vector<FrameRow>> Store::ListFrames(uint32_t limit) {
  FlushUses(/*all=*/true);
  std::set<std::string> taken;
  std::vector<FoundFrame> frames =
      FramesInMemory([](const FrameRow& /*row*/) { return true; }, &taken);
  TENSORD_ASSIGN_OR_RETURN(std::vector<FrameRow> rows,
                           index_.With([&](Index& index) { return index.ListFrames(limit); }));
  for (FrameRow& row : rows) {
    if (taken.insert(row.key).second) frames.push_back({std::move(row), nullptr});
  }
  SortByUse(frames);
  if (limit != 0 && frames.size() > limit) frames.resize(limit);
  std::vector<FrameRow> list;
  for (FoundFrame& frame : frames) list.push_back(std::move(frame.row));
  return list;
}

absl::StatusOr<FrameRow> Store::FindFrame(std::string_view prefix) {
  FlushUses(/*all=*/true);
  std::set<std::string> taken;
  std::vector<FoundFrame> frames =
      FramesInMemory([&](const FrameRow& row) { return row.key.starts_with(prefix); }, &taken);
  TENSORD_ASSIGN_OR_RETURN(std::vector<FrameRow> rows,
                           index_.With([&](Index& index) { return index.FindFrames(prefix, 2); }));
  for (FrameRow& row : rows) {
    if (taken.insert(row.key).second) frames.push_back({std::move(row), nullptr});
  }
  if (frames.empty()) return absl::NotFoundError("no frame has that key");
  if (frames.size() > 1) {
    return absl::FailedPreconditionError("several frames begin with that key: give more of it");
  }
  SortByUse(frames);
  return std::move(frames.front().row);
}

absl::StatusOr<std::shared_ptr<const Record>> Store::PeekFrame(std::string_view key) {
  auto found = FindSound(frames_, key);
  if (found.ok()) return found;
  if (const auto frame = memory_.FindFrame(key)) {
    return std::shared_ptr<const Record>(frame, &frame->record);
  }
  return found.status();
}

bool Store::IsFrameFound(std::string_view key, const FrameFacts& facts) {
  if (memory_.FindFrame(key) != nullptr) return true;
  const auto rows =
      index_.With([&](Index& index) { return index.FramesOf(facts.code, facts.environment); });
  if (!rows.ok()) return true;
  return std::any_of(rows->begin(), rows->end(),
                     [&](const FrameRow& row) { return row.key == key; });
}

bool Store::CountFrameUse(std::string_view key, uint64_t hits) {
  if (memory_.FindFrame(key) == nullptr) {
    const auto has_row = index_.With([&](Index& index) { return index.HasFrame(key); });
    if (!has_row.value_or(true)) return false;
  }
  NoteFrameUse(key, hits);
  return true;
}

void Store::NoteFrameUse(std::string_view key, uint64_t hits) {
  const int64_t now = options_.now_ms();
  absl::MutexLock lock(&uses_mutex_);
  Use& use = frame_uses_[std::string(key)];
  use.hits += hits;
  use.used_ms = now;
}

}  // namespace tensord::store
