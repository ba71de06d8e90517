// Locks whose use clang checks: a member that is OUTRIDER_GUARDED_BY(mu_) compiles only where mu_
// is held.
//
//   void add(int x) { const MutexLock lock(mu_); sum_ += x; }
//   void add_locked(int x) OUTRIDER_REQUIRES(mu_);
//   Mutex mu_;
//   int sum_ OUTRIDER_GUARDED_BY(mu_) = 0;
//
// `./run lint` and every build with clang fail where an annotation is violated; g++ ignores them. A
// lambda does not inherit the locks of the function around it, so a wait is a loop:
//
//   while (!done_) changed_.wait(mu_);
//
// The macros have our prefix because gRPC's headers define some of the plain names.
//
// Thread rule: all members may be called from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define OUTRIDER_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define OUTRIDER_THREAD_ANNOTATION(x)
#endif

#define OUTRIDER_CAPABILITY(name) OUTRIDER_THREAD_ANNOTATION(capability(name))
#define OUTRIDER_SCOPED_CAPABILITY OUTRIDER_THREAD_ANNOTATION(scoped_lockable)
#define OUTRIDER_GUARDED_BY(mutex) OUTRIDER_THREAD_ANNOTATION(guarded_by(mutex))
#define OUTRIDER_REQUIRES(...) OUTRIDER_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define OUTRIDER_ACQUIRE(...) OUTRIDER_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define OUTRIDER_RELEASE(...) OUTRIDER_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace outrider {

class OUTRIDER_CAPABILITY("mutex") Mutex final {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() OUTRIDER_ACQUIRE() { mu_.lock(); }
  void unlock() OUTRIDER_RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

// Holds a mutex during its lifetime, except between unlock() and lock().
class OUTRIDER_SCOPED_CAPABILITY MutexLock final {
 public:
  explicit MutexLock(Mutex& mu) OUTRIDER_ACQUIRE(mu) : mu_(mu) { mu.lock(); }
  ~MutexLock() OUTRIDER_RELEASE() {
    if (held_) mu_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() OUTRIDER_RELEASE() {
    held_ = false;
    mu_.unlock();
  }
  void lock() OUTRIDER_ACQUIRE() {
    mu_.lock();
    held_ = true;
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

// A wait releases the mutex while it blocks. It may end without a notification.
class CondVar final {
 public:
  void wait(Mutex& mu) OUTRIDER_REQUIRES(mu) {
    std::unique_lock native(mu.mu_, std::adopt_lock);
    changed_.wait(native);
    native.release();  // the caller's MutexLock still holds it
  }
  template <class Clock, class Span>
  std::cv_status wait_until(Mutex& mu, std::chrono::time_point<Clock, Span> until)
      OUTRIDER_REQUIRES(mu) {
    std::unique_lock native(mu.mu_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(native, until);
    native.release();
    return status;
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace outrider
