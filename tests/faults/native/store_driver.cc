// SPDX-License-Identifier: Apache-2.0
// A store that is spoken to in lines: what the campaigns of tests/faults do to one.
//
//   store_driver ROOT [LIMIT_BYTES [KERNELS]]     # different kernels, at most; 1024
//
//   publish FIRST COUNT [BYTES]   programs by number, their binaries of so many bytes; after each
//                                 "published N", or "failed N WHY"
//   lookup FIRST COUNT            "found F missing M unavailable U wrong W damaged D", D being what
//                                 the store removed so far
//   kernels FIRST COUNT           the same of the kernels of these programs
//   put FIRST COUNT               frames by number, each behind the one before; after each "put N",
//                                 or "failed N WHY"
//   frames FIRST COUNT            "found F missing M wrong W", of frames by number
//   first FIRST COUNT             the numbers of those that are missing
//   keep N PATH [frames]          copies the record of program N, or of frame N, to PATH
//   take N PATH [frames]          looks N up with the file PATH as its record: "found", "missing"
//   or
//                                 "wrong"
//   verify                        "programs P kernels K blobs B damaged D unreadable U"
//   count                         "programs P bytes B"
//   problem                       why programs are kept in memory, or nothing
//   near N                        "rows R microseconds U": what a miss of N's kind reads of the
//   index fill FIRST COUNT              programs without syncing anything, and their rows
//   reconcile, write-back         "done"
//   seal PATH, sealed PATH        seals a folder as the JIT does its own; "yes" or "no"
//
// A program's key, payload, kernel and binary follow from its number, so that whatever is served
// can be told right from wrong. The first line is "open", or "error WHY".
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "compiler/jit/seal.h"
#include "server/store/store.h"

namespace tensord::store {
namespace {

namespace fs = std::filesystem;

// Programs that share a kernel, as layers of models do, and kernels in all.
constexpr uint64_t kShared = 4;
uint64_t kernels = 1024;

std::string KeyOf(uint64_t number) { return Sha256(absl::StrCat("program ", number)); }
uint64_t KernelOf(uint64_t number) { return number / kShared % kernels; }
std::string KernelKeyOf(uint64_t number) {
  return Sha256(absl::StrCat("kernel ", KernelOf(number)));
}
std::string PayloadOf(uint64_t number) {
  std::string payload = absl::StrCat("payload ", number, ":");
  while (payload.size() < 700) payload += Sha256(payload);
  return payload;
}
std::string BinaryOf(uint64_t number, uint64_t bytes) {
  std::string binary = absl::StrCat("binary ", KernelOf(number), ":");
  while (binary.size() < bytes) {
    binary += Sha256(absl::StrCat(KernelOf(number), ":", binary.size()));
  }
  return binary;
}

// One write, so that a record of calls has it as one.
void Say(std::string line) {
  line += "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(1);
}

absl::Status Publish(Store& store, uint64_t number, uint64_t bytes) {
  const KernelRow kernel = store.PutKernel(KernelKeyOf(number), BinaryOf(number, bytes), "source");
  return store.Publish(KeyOf(number), {{kernel.sha256}, PayloadOf(number), ""}, "detail",
                       {absl::StrCat("program ", number), "cpu avx2", 3, 1, 0, 42});
}

enum class Found { kRight, kMissing, kUnavailable, kWrong };

Found Lookup(Store& store, uint64_t number) {
  const auto record = store.Lookup(KeyOf(number));
  if (absl::IsUnavailable(record.status())) return Found::kUnavailable;
  if (!record.ok()) return Found::kMissing;
  if ((*record)->payload != PayloadOf(number) || (*record)->blobs.size() != 1) {
    return Found::kWrong;
  }
  const auto blob = store.ReadBlob((*record)->blobs[0]);
  if (!blob.ok()) return absl::IsDataLoss(blob.status()) ? Found::kWrong : Found::kUnavailable;
  return *blob == BinaryOf(number, blob->size()) ? Found::kRight : Found::kWrong;
}

Found LookupKernel(Store& store, uint64_t number) {
  const auto row = store.FindKernel(KernelKeyOf(number));
  if (!row.has_value()) return Found::kMissing;
  const auto blob = store.ReadBlob(row->sha256);
  if (!blob.ok()) return absl::IsDataLoss(blob.status()) ? Found::kWrong : Found::kUnavailable;
  return *blob == BinaryOf(number, blob->size()) ? Found::kRight : Found::kWrong;
}

std::string CodeOf(uint64_t number) { return Sha256(absl::StrCat("code ", number)); }

absl::Status PutFrame(Store& store, uint64_t number) {
  FrameFacts facts;
  facts.code = CodeOf(number);
  facts.environment = Sha256("environment");
  if (number > 0) facts.behind = {CodeOf(number - 1)};
  return store.PutFrame(Sha256(PayloadOf(number)), PayloadOf(number), facts);
}

void PutFrames(Store& store, uint64_t first, uint64_t count) {
  for (uint64_t i = first; i < first + count; ++i) {
    const absl::Status status = PutFrame(store, i);
    Say(status.ok() ? absl::StrCat("put ", i) : absl::StrCat("failed ", i, " ", status.ToString()));
  }
}

Found LookupFrame(Store& store, uint64_t number) {
  const auto frames = store.FramesOf(CodeOf(number), Sha256("environment"), {});
  if (frames.empty() || frames[0].record == nullptr) return Found::kMissing;
  return frames.size() == 1 && frames[0].record->payload == PayloadOf(number) ? Found::kRight
                                                                              : Found::kWrong;
}

void LookupFrames(Store& store, uint64_t first, uint64_t count) {
  std::map<Found, uint64_t> found;
  for (uint64_t i = first; i < first + count; ++i) ++found[LookupFrame(store, i)];
  Say(absl::StrCat("found ", found[Found::kRight], " missing ", found[Found::kMissing], " wrong ",
                   found[Found::kWrong]));
}

void LookupAll(Store& store, uint64_t first, uint64_t count, Found (*look_up)(Store&, uint64_t)) {
  std::map<Found, uint64_t> found;
  for (uint64_t i = first; i < first + count; ++i) ++found[look_up(store, i)];
  Say(absl::StrCat("found ", found[Found::kRight], " missing ", found[Found::kMissing],
                   " unavailable ", found[Found::kUnavailable], " wrong ", found[Found::kWrong],
                   " damaged ", store.counters().corrupt.load()));
}

void Missing(Store& store, uint64_t first, uint64_t count) {
  std::string line;
  for (uint64_t i = first; i < first + count; ++i) {
    if (Lookup(store, i) != Found::kRight) absl::StrAppend(&line, " ", i);
  }
  Say(absl::StrCat("missing", line));
}

std::string RecordPath(const Store& store, uint64_t number, bool is_frame = false) {
  const std::string hex = ToHex(is_frame ? Sha256(PayloadOf(number)) : KeyOf(number));
  return absl::StrCat(store.root(), is_frame ? "/frames/" : "/manifests/", hex.substr(0, 2), "/",
                      hex);
}

void Take(Store& store, uint64_t number, const std::string& path, bool is_frame) {
  // Frames are looked for in the index: one that has lost its row would not be read at all.
  if (is_frame) PutFrame(store, number).IgnoreError();
  const std::string place = RecordPath(store, number, is_frame);
  MakeFolder(fs::path(place).parent_path()).IgnoreError();
  fs::rename(path, place);
  const Found found = is_frame ? LookupFrame(store, number) : Lookup(store, number);
  Say(found == Found::kRight ? "found" : found == Found::kWrong ? "wrong" : "missing");
}

// From one that no other program has to one that all have.
ProgramTraits TraitsOf(uint64_t number) {
  ProgramTraits traits;
  traits.numbers = {number, number / 64, number % 1000, number % 10, 0};
  while (traits.compared.size() < 96) traits.compared += Sha256(absl::StrCat("traits ", number));
  return traits;
}

void Near(Store& store, uint64_t number) {
  constexpr uint32_t kEach = 16;
  const ProgramTraits traits = TraitsOf(number);
  const auto start = std::chrono::steady_clock::now();
  uint64_t rows = 0;
  for (size_t place = 0; place < traits.numbers.size(); ++place) {
    const auto found = store.WithTrait(place, traits.numbers[place], kEach);
    rows += found.ok() ? found->size() : 0;
  }
  const bool unknown = store.HasWithoutTraits().value_or(false);
  const bool gone = store.WhyGone(Sha256("no program")).value_or(std::nullopt).has_value();
  const auto took = std::chrono::steady_clock::now() - start;
  Say(absl::StrCat("rows ", rows + unknown + gone, " microseconds ",
                   std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
}

// The files as the store's own code writes them, but for their syncing; one set of folders and of
// kernels is made in the usual way, and the rows by the store's reconciling.
void Fill(Store& store, uint64_t first, uint64_t count) {
  const auto signer = Signer::Open(store.root() + "/key", store.root() + "/tmp");
  if (!signer.ok()) return Say(absl::StrCat("error ", signer.status().ToString()));
  for (uint64_t i = first; i < first + count; ++i) {
    const std::string path = RecordPath(store, i);
    const std::string binary = BinaryOf(i, 4096), blob = Sha256(binary);
    if (i - first < kShared * kernels && i % kShared == 0) {
      store.PutKernel(KernelKeyOf(i), binary, "source");
    }
    const std::string facts =
        Encode({absl::StrCat("program ", i), "cpu avx2", 3, 1, 0, 42, TraitsOf(i)});
    const std::string data =
        EncodeRecord(**signer, "program", KeyOf(i), {{blob}, PayloadOf(i), facts}, "detail");
    if (!MakeFolder(fs::path(path).parent_path()).ok()) return Say("error no folder");
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0 || write(fd, data.data(), data.size()) != static_cast<ssize_t>(data.size())) {
      return Say("error cannot write");
    }
    close(fd);
  }
  Say("done");
}

uint64_t Number(const std::vector<std::string>& words, size_t at, uint64_t otherwise) {
  uint64_t value = otherwise;
  if (at < words.size() && !absl::SimpleAtoi(words[at], &value)) value = otherwise;
  return value;
}

void Obey(Store& store, const std::vector<std::string>& words) {
  const std::string& what = words[0];
  const uint64_t first = Number(words, 1, 0), count = Number(words, 2, 1);
  const bool is_frame = words.size() > 3 && words[3] == "frames";  // of keep and take
  if (what == "publish") {
    for (uint64_t i = first; i < first + count; ++i) {
      const absl::Status status = Publish(store, i, Number(words, 3, 6000));
      Say(status.ok() ? absl::StrCat("published ", i)
                      : absl::StrCat("failed ", i, " ", status.ToString()));
    }
  } else if (what == "lookup") {
    LookupAll(store, first, count, Lookup);
  } else if (what == "kernels") {
    LookupAll(store, first, count, LookupKernel);
  } else if (what == "put") {
    PutFrames(store, first, count);
  } else if (what == "frames") {
    LookupFrames(store, first, count);
  } else if (what == "first") {
    Missing(store, first, count);
  } else if (what == "keep") {
    std::error_code error;
    fs::copy_file(RecordPath(store, first, is_frame), words[2],
                  fs::copy_options::overwrite_existing, error);
    Say(error ? "error " + error.message() : "done");
  } else if (what == "take") {
    Take(store, first, words[2], is_frame);
  } else if (what == "verify") {
    const Verification found = store.Verify();
    Say(absl::StrCat("programs ", found.programs, " kernels ", found.kernels, " blobs ",
                     found.blobs, " damaged ", found.damaged, " unreadable ", found.unreadable));
  } else if (what == "count") {
    const auto totals = store.Count();
    Say(absl::StrCat("programs ", totals.ok() ? totals->programs : 0, " bytes ",
                     totals.ok() ? totals->bytes : 0));
  } else if (what == "problem") {
    Say(absl::StrCat("problem ", store.problem()));
  } else if (what == "near") {
    Near(store, first);
  } else if (what == "fill") {
    Fill(store, first, count);
  } else if (what == "reconcile") {
    store.Reconcile();
    Say("done");
  } else if (what == "write-back") {
    store.WriteBack();
    Say("done");
  } else if (what == "seal") {
    Say(jit::Seal(words[1], "key").ok() ? "done" : "error cannot seal");
  } else if (what == "sealed") {
    Say(jit::IsSealed(words[1], "key") ? "yes" : "no");
  } else {
    Say("error unknown " + what);
  }
}

int Run(const std::string& root, uint64_t limit, uint64_t most_kernels) {
  kernels = most_kernels;
  StoreOptions options;
  options.root = root;
  options.limit_bytes = limit;
  options.warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  auto store = Store::Open(std::move(options));
  if (!store.ok()) {
    Say(absl::StrCat("error ", store.status().ToString()));
    return 1;
  }
  Say("open");
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (!words.empty()) Obey(**store, words);
  }
  return 0;
}

}  // namespace
}  // namespace tensord::store

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: store_driver ROOT [LIMIT_BYTES [KERNELS]]\n");
    return 2;
  }
  const auto number = [&](int at, uint64_t otherwise) {
    return argc > at ? std::stoull(argv[at]) : otherwise;
  };
  return tensord::store::Run(argv[1], number(2, 0), number(3, tensord::store::kernels));
}
