// SPDX-License-Identifier: Apache-2.0
// A CUDA driver for tests without a GPU: a shared object that TENSORD_CUDA_DRIVER names. It records
// what it is asked, runs kernels given as functions, and fails where it is told to.
//
// A "cubin" is text: one kernel a line, its name and the number of its arguments' 8-byte words.
#ifndef TENSORD_TESTS_UNIT_RUNTIME_FAKE_LIBCUDA_H_
#define TENSORD_TESTS_UNIT_RUNTIME_FAKE_LIBCUDA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

struct FakeLaunch {
  std::string kernel;
  unsigned grid, block, shared_bytes;
  int device;
  void* stream;
  bool programmatic = false;
  std::vector<uint64_t> words = {};
};

struct FakeCuda {
  std::mutex mutex;
  int version = 13000;
  std::map<std::string, int> failures;  // by the driver's function: its result
  std::map<std::string, std::function<void(const uint64_t* words)>> bodies;

  int calls = 0;                   // of all functions but those that describe errors
  std::vector<std::string> loads;  // the images
  std::vector<FakeLaunch> launches;
  std::map<std::string, int> shared_limits;        // by kernel, where raised
  std::vector<std::pair<uint64_t, size_t>> fills;  // address and bytes
  // Events: what was recorded in which order, by their time in microseconds, of which each record
  // and each launch takes one.
  int live_events = 0, events_made = 0;
  int64_t microseconds = 0;
  bool capturing = false;
  int contexts_set = 0;
  int asked_without_context = 0;

  void Reset() {
    version = 13000;
    failures.clear();
    bodies.clear();
    calls = contexts_set = asked_without_context = 0;
    events_made = 0;
    capturing = false;
    loads.clear();
    launches.clear();
    fills.clear();
    shared_limits.clear();
  }
};

// The library's one object, and the thread's current device in it (-1: no context).
extern "C" FakeCuda* fake_cuda();
extern "C" void fake_cuda_set_device(int device);
extern "C" int fake_cuda_get_device();

#endif  // TENSORD_TESTS_UNIT_RUNTIME_FAKE_LIBCUDA_H_
