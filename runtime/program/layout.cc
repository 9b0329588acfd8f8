// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

std::string Join(const int64_t* values, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return text;
}

TensordError CheckWorkspace(const TensordProgram& program, const int64_t* values, uint32_t number,
                            const Place& place) {
  const int64_t start = values[program.buffers[number].source];
  const int64_t common = values[program.workspace_bytes];
  const bool standalone = program.buffers[number].standalone;
  const int64_t begin = standalone ? common : 0;
  const int64_t most = standalone ? common + values[program.standalone_bytes] : common;
  int64_t end = 0;
  if (start < begin || start % kWorkspaceAlignment != 0 ||
      __builtin_add_overflow(start, place.offset_bytes + place.extent_bytes, &end) || end > most) {
    return Fail(TENSORD_CORRUPT,
                "buffer " + std::to_string(number) + " lies outside the workspace or unaligned");
  }
  return TENSORD_OK;
}

TensordError CheckView(const TensordProgram& program, uint32_t number, const Place* places) {
  const BufferPlan& buffer = program.buffers[number];
  const Storage storage = program.buffers[buffer.root].storage;
  const Place& place = places[number];
  const Place& root = places[buffer.root];
  if (place.numel == 0) return TENSORD_OK;
  // What the runtime allocates starts at the storage's start; of an operator's result only the
  // result itself is known to exist.
  const bool whole = storage == Storage::kOwned || storage == Storage::kWorkspace;
  const int64_t begin = whole || storage == Storage::kInput ? 0 : root.offset_bytes;
  const int64_t end =
      storage == Storage::kInput ? INT64_MAX : root.offset_bytes + root.extent_bytes;
  if (place.offset_bytes < begin || place.offset_bytes + place.extent_bytes > end) {
    return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(number) + " lies outside buffer " +
                                     std::to_string(buffer.root) + ", which it views");
  }
  return TENSORD_OK;
}

}  // namespace

TensordError ComputePlace(const Layout& layout, const int64_t* values, Place* place) {
  *place = {};
  if (!layout.defined) return TENSORD_OK;
  int64_t numel = 1, last = 0;
  bool bad = values[layout.offset] < 0;
  bool empty = false;
  for (int32_t i = 0; i < layout.ndim; ++i) {
    const int64_t size = values[layout.sizes + i], stride = values[layout.strides + i];
    bad |= size < 0 || stride < 0;
    if (size == 0) empty = true;
    // An empty tensor's other sizes may be large, but their product is never needed.
    if (bad || empty) continue;
    int64_t reach = 0;
    bad |= __builtin_mul_overflow(numel, size, &numel) ||
           __builtin_mul_overflow(size - 1, stride, &reach) ||
           __builtin_add_overflow(last, reach, &last);
  }
  int64_t end = 0;
  bad = bad || __builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, layout.itemsize, &place->extent_bytes) ||
        __builtin_mul_overflow(values[layout.offset], layout.itemsize, &place->offset_bytes) ||
        __builtin_add_overflow(place->offset_bytes, place->extent_bytes, &end);
  if (bad) return Fail(TENSORD_CORRUPT, "a size, stride or offset is negative or overflows");
  place->numel = empty ? 0 : numel;
  if (empty) place->extent_bytes = 0;
  return TENSORD_OK;
}

TensordError ComputePlaces(const TensordProgram& program, const int64_t* values, Place* places) {
  const int64_t workspace = values[program.workspace_bytes],
                standalone = values[program.standalone_bytes];
  int64_t all = 0;
  if (workspace < 0 || standalone < 0 || __builtin_add_overflow(workspace, standalone, &all)) {
    return Fail(TENSORD_CORRUPT, "the workspace has a negative size, or is too large");
  }
  const auto count = static_cast<uint32_t>(program.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (ComputePlace(program.buffers[i].layout, values, &places[i]) != TENSORD_OK) {
      return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(i) + ": " + LastError());
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const BufferPlan& buffer = program.buffers[i];
    switch (buffer.storage) {
      case Storage::kWorkspace:
        TENSORD_TRY(CheckWorkspace(program, values, i, places[i]));
        break;
      case Storage::kView:
        TENSORD_TRY(CheckView(program, i, places));
        break;
      case Storage::kInput:
      case Storage::kConstant: {
        const Layout& mine = buffer.layout;
        const Layout& theirs = buffer.storage == Storage::kInput
                                   ? program.inputs[buffer.source].layout
                                   : program.constant_layouts[buffer.source];
        if (!SameLayout(mine.ndim, values + theirs.sizes, values + theirs.strides,
                        values + mine.sizes, values + mine.strides)) {
          return Fail(TENSORD_CORRUPT, "buffer " + std::to_string(i) +
                                           " is not laid out as the input or constant that it is");
        }
        break;
      }
      default:
        break;
    }
  }
  return TENSORD_OK;
}

bool SameLayout(int32_t ndim, const int64_t* sizes, const int64_t* strides,
                const int64_t* other_sizes, const int64_t* other_strides) {
  bool empty = false, strides_differ = false;
  for (int32_t i = 0; i < ndim; ++i) {
    if (sizes[i] != other_sizes[i]) return false;
    empty |= sizes[i] == 0;
    strides_differ |= sizes[i] != 1 && strides[i] != other_strides[i];
  }
  return empty || !strides_differ;
}

bool MayBeElsewhere(const Layout& layout, const int64_t* sizes, bool in_launch) {
  constexpr int64_t kMostNumbers = 2;
  return !in_launch && (layout.dtype == kTorchInt64 || layout.dtype == kTorchUInt64) &&
         (layout.ndim == 0 || (layout.ndim == 1 && sizes[0] <= kMostNumbers));
}

std::string DescribeLayout(int32_t dtype, int64_t ndim, const int64_t* sizes,
                           const int64_t* strides) {
  return DTypeName(dtype) + "[" + Join(sizes, ndim) + "] strides [" + Join(strides, ndim) + "]";
}

}  // namespace tensord::runtime
