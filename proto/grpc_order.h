// Declares to ThreadSanitizer the order in which gRPC runs reactions.
//
// gRPC runs the reaction to an operation after the operation was started, and OnDone after all
// other reactions. It ensures that order by locks of its own, which ThreadSanitizer cannot see
// because Debian's gRPC is compiled without it. A reactor therefore releases a buffer where it
// starts an operation on it, and acquires it in the reaction. Nothing else is ordered by this, so
// that races between reactions and other threads are still found.
//
// Thread rule: any thread. Without ThreadSanitizer both do nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_THREAD__)
#define OUTRIDER_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OUTRIDER_THREAD_SANITIZER
#endif
#endif

#if defined(OUTRIDER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace outrider {

#if defined(OUTRIDER_THREAD_SANITIZER)
inline void release_to_grpc(void* buffer) {
  __tsan_release(buffer);
}
inline void acquire_from_grpc(void* buffer) {
  __tsan_acquire(buffer);
}
#else
inline void release_to_grpc(void*) {}
inline void acquire_from_grpc(void*) {}
#endif

}  // namespace outrider
