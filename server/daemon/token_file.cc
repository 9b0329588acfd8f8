// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/token_file.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "base/private_file.h"
#include "server/ui/token.h"

namespace tensord::server {
namespace {

constexpr char kHowToMake[] = "openssl rand -hex 32";

absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& path) {
  TENSORD_RETURN_IF_ERROR(CheckPrivateFile(path));
  TENSORD_ASSIGN_OR_RETURN(const std::string text, store::ReadFile(path));
  std::vector<std::string> tokens;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view token = absl::StripAsciiWhitespace(line);
    if (token.empty()) continue;
    // Not the line itself, which logs would keep.
    if (token.size() < TokenFile::kLeastLength) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has a token of ", token.size(), " characters; at least ",
                       TokenFile::kLeastLength, " are needed: ", kHowToMake));
    }
    tokens.emplace_back(token);
  }
  if (tokens.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has no token: write one into it, as ", kHowToMake, " makes them"));
  }
  return tokens;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(std::string path) {
  auto file = std::unique_ptr<TokenFile>(new TokenFile(std::move(path)));
  absl::MutexLock lock(&file->mutex_);
  TENSORD_RETURN_IF_ERROR(file->Load());
  return file;
}

absl::Status TokenFile::Load() {
  // Before it is read: a change meanwhile is one to read again for.
  identity_ = store::IdentityAt(path_);
  auto tokens = ReadTokens(path_);
  state_ = tokens.status();
  tokens_ = tokens.ok() ? *std::move(tokens) : std::vector<std::string>();
  return state_;
}

absl::Status TokenFile::Check(std::string_view authorization) {
  absl::MutexLock lock(&mutex_);
  if (store::IdentityAt(path_) != identity_) Load().IgnoreError();
  if (!state_.ok()) return absl::FailedPreconditionError(state_.message());
  bool brings = false;
  for (const std::string& token : tokens_) brings |= Brings(authorization, token);
  if (brings) return absl::OkStatus();
  return absl::UnauthenticatedError(
      authorization.empty() ? "no token came (TENSORD_TOKEN_FILE)"
                            : "the token that came (TENSORD_TOKEN_FILE) is not the daemon's");
}

}  // namespace tensord::server
