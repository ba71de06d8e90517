// Runs a grid of threads on one thread of the CPU: every thread of a block is a fiber that gives
// way at barriers and at operations of its warp, and a seed says who goes on.
//
// So the source of a CUDA kernel is tested where there is no GPU. A barrier that is missing is
// found: in some order a thread reads what another has not written yet, and shared memory holds
// bytes that are nobody's result until then. Asynchronous copies happen at once or only when they
// are waited for, and the seed says which.
//
// Thread rule: each thread of the CPU runs grids of its own. Errors: std::logic_error if threads
// wait for ever (a barrier that not all of a block reach, a warp operation that not all lanes
// reach) or write behind shared memory; far behind it the process ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace outrider::fibers {

struct Size {
  unsigned x = 1, y = 1, z = 1;
};

// Sets the seed of the grids that this thread runs from now on. 0: fibers go on in order, copies
// happen at once.
void set_seed(std::uint64_t seed);

// body is run by `threads` fibers of each block, a multiple of 32. shared_bytes: what
// shared_memory() gives; poisoned before each block.
void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& body);

// Where grids wait until they are run (host_device.h).
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;
  virtual void put(std::function<void()> work) = 0;
};
// run_grid() at once, or put into a queue.
void start_grid(WorkQueue* queue, Size grid, unsigned threads, std::size_t shared_bytes,
                std::function<void()> body);

// Within a body.
unsigned thread_index();
Size block_index();
std::byte* shared_memory();
void sync_threads();

// An operation of a warp: called once with what its 32 lanes gave, when all have come.
using WarpOperation = void (*)(void* const* lanes);
void meet_warp(WarpOperation operation, void* mine);

// Like cp.async: a copy, the end of a group of copies, and waiting until at most `pending` groups
// of this fiber are left.
void copy_async(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_copies(unsigned pending);

}  // namespace outrider::fibers
