// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/fibers/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define OUTRIDER_FIBERS_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define OUTRIDER_FIBERS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OUTRIDER_FIBERS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define OUTRIDER_FIBERS_TSAN 1
#endif
#endif
#if defined(OUTRIDER_FIBERS_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(OUTRIDER_FIBERS_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace outrider::fibers {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr unsigned kWarp = 32;
// Behind shared memory, to find writes beyond it.
constexpr std::size_t kGuardBytes = 64;

#if defined(__x86_64__)
// Keeps the registers that a call has to keep on the stack, and goes on with another stack.
extern "C" void outrider_switch_stack(void** from, void* to);
asm(R"(
.text
.type outrider_switch_stack, @function
outrider_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size outrider_switch_stack, .-outrider_switch_stack
)");

struct Context {
  void* stack_pointer = nullptr;

  void begin(char* stack, void (*entry)()) {
    auto* top = reinterpret_cast<void**>(stack + kStackBytes - 64);
    *--top = nullptr;  // entry() never returns; this aligns its stack as a call would
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    stack_pointer = top;
  }
  void switch_to(Context& to) { outrider_switch_stack(&stack_pointer, to.stack_pointer); }
};
#else
struct Context {
  ucontext_t context;

  void begin(char* stack, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  void switch_to(Context& to) { swapcontext(&context, &to.context); }
};
#endif

// The facts about a stack that a sanitizer needs, as it cannot see that one is left for another.
#if defined(OUTRIDER_FIBERS_ASAN)
struct SanitizedStack {
  void* fake = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;

  void begin(const char* stack) {
    bottom = stack;
    bytes = kStackBytes;
  }
  void leave_for(SanitizedStack& next) {
    __sanitizer_start_switch_fiber(&fake, next.bottom, next.bytes);
  }
  void arrive_from(SanitizedStack& last) {
    __sanitizer_finish_switch_fiber(fake, &last.bottom, &last.bytes);
  }
  void end() {}
};
#elif defined(OUTRIDER_FIBERS_TSAN)
struct SanitizedStack {
  void* fiber = nullptr;

  void begin(const char*) { fiber = __tsan_create_fiber(0); }
  void leave_for(SanitizedStack& next) {
    if (fiber == nullptr) fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(next.fiber, 0);
  }
  void arrive_from(SanitizedStack&) {}
  void end() { __tsan_destroy_fiber(fiber); }
};
#else
struct SanitizedStack {
  void begin(const char*) {}
  void leave_for(SanitizedStack&) {}
  void arrive_from(SanitizedStack&) {}
  void end() {}
};
#endif

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  unsigned group;
};

struct Fiber {
  Context context;
  char* stack = nullptr;
  void* operand = nullptr;  // of the warp operation that it waits for
  std::vector<Copy> copies;
  unsigned groups = 0;  // of copies, committed
  SanitizedStack sanitized;

  void release() {
    sanitized.end();
    munmap(stack, kStackBytes);
  }
};

struct Warp {
  unsigned waiting = 0;
  WarpOperation operation = nullptr;
};

// Shared memory that ends, with what guards it, where a page without access begins: reads far
// behind it end the process.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { release(); }

  // At a multiple of 16.
  std::byte* of(std::size_t bytes) {
    const std::size_t needed = bytes + kGuardBytes;
    if (needed > bytes_) map(needed);
    return end_ - (needed + 15) / 16 * 16;
  }

 private:
  void map(std::size_t needed) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t whole = (needed + page - 1) / page * page;
    release();
    void* const from =
        mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) throw std::bad_alloc();
    bytes_ = whole;
    page_ = page;
    end_ = static_cast<std::byte*>(from) + whole;
    mprotect(end_, page, PROT_NONE);
  }
  void release() {
    if (end_ != nullptr) munmap(end_ - bytes_, bytes_ + page_);
    end_ = nullptr;
    bytes_ = 0;
  }

  std::byte* end_ = nullptr;
  std::size_t bytes_ = 0, page_ = 0;
};

std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Runner {
 public:
  ~Runner() {
    for (Fiber& fiber : fibers_) fiber.release();
  }

  void set_seed(std::uint64_t seed) {
    is_random_ = seed != 0;
    random_ = seed;
  }
  void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
                const std::function<void()>& body);
  void meet_warp(WarpOperation operation, void* mine);
  void sync_threads() {
    ++at_barrier_;
    give_way();
  }
  void copy_async(void* to, const void* from, std::size_t bytes);
  void commit_copies() { ++fibers_[now_].groups; }
  void wait_copies(unsigned pending);

  unsigned now_ = 0;
  Size block_;
  std::byte* shared_ = nullptr;

 private:
  static void entry();
  void add_fibers(unsigned threads);
  void run_block(unsigned threads, std::size_t shared_bytes);
  unsigned choose();
  void give_way();
  void resume(unsigned fiber);
  [[noreturn]] void fail(const char* reason) {
    for (Fiber& fiber : fibers_) fiber.release();
    fibers_.clear();  // those in the middle of a body cannot go on
    throw std::logic_error(reason);
  }

  const std::function<void()>* body_ = nullptr;
  std::deque<Fiber> fibers_;  // stay where they are, as those in a body know
  std::vector<Warp> warps_;
  std::vector<unsigned> ready_;
  SharedMemory shared_memory_;
  Context main_;
  SanitizedStack main_sanitized_;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
  bool is_random_ = false;
  bool runs_far_ = false;  // the latest that became ready goes on first: warps run far ahead
  std::uint64_t random_ = 0;
};

thread_local Runner runner;

void Runner::entry() {
  runner.fibers_[runner.now_].sanitized.arrive_from(runner.main_sanitized_);
  while (true) {
    (*runner.body_)();
    ++runner.done_;
    runner.give_way();  // until the next block
  }
}

void Runner::give_way() {
  Fiber& mine = fibers_[now_];
  mine.sanitized.leave_for(main_sanitized_);
  mine.context.switch_to(main_);
  mine.sanitized.arrive_from(main_sanitized_);
}

void Runner::resume(unsigned fiber) {
  now_ = fiber;
  Fiber& next = fibers_[fiber];
  main_sanitized_.leave_for(next.sanitized);
  main_.switch_to(next.context);
  main_sanitized_.arrive_from(next.sanitized);
}

void Runner::add_fibers(unsigned threads) {
  while (fibers_.size() < threads) {
    Fiber& fiber = fibers_.emplace_back();
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    fiber.stack = static_cast<char*>(stack);
    fiber.sanitized.begin(fiber.stack);
    fiber.context.begin(fiber.stack, &Runner::entry);
  }
}

unsigned Runner::choose() {
  std::size_t at = 0;
  if (is_random_) {
    const std::size_t near = runs_far_ ? std::min<std::size_t>(ready_.size(), kWarp) : 0;
    at = near > 0 ? ready_.size() - 1 - next_random(random_) % near
                  : next_random(random_) % ready_.size();
  } else {
    at = ready_.size() - 1;
  }
  const unsigned fiber = ready_[at];
  ready_[at] = ready_.back();
  ready_.pop_back();
  return fiber;
}

void Runner::run_block(unsigned threads, std::size_t shared_bytes) {
  const std::uint64_t drawn = next_random(random_);
  const auto fill = static_cast<int>(drawn % 2 == 0 ? 0xff : drawn >> 8 | 0x40);  // NaN, or large
  std::memset(shared_, fill, shared_bytes + kGuardBytes);
  runs_far_ = next_random(random_) % 2 == 0;
  warps_.assign(threads / kWarp, {});
  done_ = at_barrier_ = 0;
  for (unsigned i = 0; i < threads; ++i) {
    fibers_[i].copies.clear();
    fibers_[i].groups = 0;
  }
  const auto all_ready = [&] {
    for (unsigned i = threads; i-- > 0;) ready_.push_back(i);
  };
  ready_.clear();
  all_ready();
  while (done_ < threads) {
    if (ready_.empty()) {
      if (at_barrier_ != threads) fail("threads of a block wait for ever");
      at_barrier_ = 0;
      all_ready();
    }
    resume(choose());
  }
  const auto guard = static_cast<std::byte>(fill);
  if (std::any_of(shared_ + shared_bytes, shared_ + shared_bytes + kGuardBytes,
                  [&](std::byte byte) { return byte != guard; })) {
    fail("a kernel wrote behind its shared memory");
  }
}

void Runner::run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
                      const std::function<void()>& body) {
  if (threads == 0 || threads % kWarp != 0) throw std::logic_error("a block is not whole warps");
  add_fibers(threads);
  body_ = &body;
  shared_ = shared_memory_.of(shared_bytes);
  for (block_.z = 0; block_.z < grid.z; ++block_.z) {
    for (block_.y = 0; block_.y < grid.y; ++block_.y) {
      for (block_.x = 0; block_.x < grid.x; ++block_.x) run_block(threads, shared_bytes);
    }
  }
  body_ = nullptr;  // fibers look at it again only in the next grid
}

void Runner::meet_warp(WarpOperation operation, void* mine) {
  Fiber& fiber = fibers_[now_];
  Warp& warp = warps_[now_ / kWarp];
  fiber.operand = mine;
  const bool agrees = warp.waiting == 0 || warp.operation == operation;
  warp.operation = operation;
  if (agrees && ++warp.waiting == kWarp) {
    void* operands[kWarp];
    const unsigned first = now_ / kWarp * kWarp;
    for (unsigned i = 0; i < kWarp; ++i) {
      operands[i] = fibers_[first + i].operand;
      ready_.push_back(first + i);
    }
    operation(operands);
    warp.waiting = 0;
  }
  give_way();
}

void Runner::copy_async(void* to, const void* from, std::size_t bytes) {
  if (!is_random_ || next_random(random_) % 2 == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memset(to, 0xa5, bytes);
  Fiber& fiber = fibers_[now_];
  fiber.copies.push_back({to, from, bytes, fiber.groups});
}

void Runner::wait_copies(unsigned pending) {
  Fiber& fiber = fibers_[now_];
  const unsigned whole = fiber.groups > pending ? fiber.groups - pending : 0;
  std::erase_if(fiber.copies, [&](const Copy& copy) {
    if (copy.group >= whole) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}

}  // namespace

void set_seed(std::uint64_t seed) {
  runner.set_seed(seed);
}
void run_grid(Size grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& body) {
  runner.run_grid(grid, threads, shared_bytes, body);
}
void start_grid(WorkQueue* queue, Size grid, unsigned threads, std::size_t shared_bytes,
                std::function<void()> body) {
  if (queue == nullptr) return run_grid(grid, threads, shared_bytes, body);
  queue->put([=, body = std::move(body)] { run_grid(grid, threads, shared_bytes, body); });
}
unsigned thread_index() {
  return runner.now_;
}
Size block_index() {
  return runner.block_;
}
std::byte* shared_memory() {
  return runner.shared_;
}
void sync_threads() {
  runner.sync_threads();
}
void meet_warp(WarpOperation operation, void* mine) {
  runner.meet_warp(operation, mine);
}
void copy_async(void* to, const void* from, std::size_t bytes) {
  runner.copy_async(to, from, bytes);
}
void commit_copies() {
  runner.commit_copies();
}
void wait_copies(unsigned pending) {
  runner.wait_copies(pending);
}

}  // namespace outrider::fibers
