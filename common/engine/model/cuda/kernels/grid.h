// How a kernel is launched: so many blocks of so many threads, on a device of these limits.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider::cuda {

// A stream of the device: a CUstream, or a queue of fibers' work. Null: the default one, or at
// once.
using Stream = void*;

struct DeviceLimits {
  int multiprocessors;
  int block_shared;  // bytes of shared memory that a block may have
  int shared;        // and a multiprocessor has
  bool overlaps;     // kernels of a stream may, see allow_next() in device.h
};

// Whether a kernel may begin while the one before it in its stream ends, if the device can. It pays
// where a kernel has weights to read and little to compute: its blocks are spread among what the
// other leaves free, not evenly.
enum class Start : std::uint8_t { kBehindPrevious, kBesidePrevious };

struct Grid {
  unsigned x, y, z;
  unsigned threads;
  std::size_t shared_bytes;  // at most what the device has for a block
  Start start = Start::kBehindPrevious;
};

}  // namespace outrider::cuda
