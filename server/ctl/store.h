// SPDX-License-Identifier: Apache-2.0
// `tensorctl verify | gc | du | rebuild-index`: work on a store's folder, with or without a daemon.
#ifndef TENSORD_SERVER_CTL_STORE_H_
#define TENSORD_SERVER_CTL_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/store/store.h"

namespace tensord::server {

// Null, and the reason on stderr, where the folder is no usable store, or none at all.
std::unique_ptr<store::Store> OpenStore(const std::string& root, uint64_t limit_bytes);
// The same of a folder that may have to be made.
std::unique_ptr<store::Store> OpenOrMakeStore(const std::string& root, uint64_t limit_bytes);

struct StoreCommand {
  std::string root;   // the store's folder
  bool json = false;  // for programs
};

// Each prints what it found and returns the exit code.

// Reads everything and removes what is damaged; 1 when something was, or could not be read.
int VerifyStore(const StoreCommand& command);
// Makes the index agree with the files, and removes blobs that nothing names.
int CollectGarbage(const StoreCommand& command);
// Bytes on disk by kind. Opens nothing.
int DiskUsage(const StoreCommand& command);
// Sets the index aside and makes it of the records.
int RebuildIndex(const StoreCommand& command);
// Makes another signing key; what is stored still counts.
int RotateKey(const StoreCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_STORE_H_
