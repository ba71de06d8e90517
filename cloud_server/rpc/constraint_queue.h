// Compiles the forms that streams ask for, one after another on a thread of its own: a form may
// take seconds, and neither gRPC's threads nor the device wait for it. Owners take turns: the next
// form is of the owner whose last one was compiled the longest ago.
//
// Thread rule: add() from any thread; `done` is called on the queue's. Ownership: the compiler
// outlives it; nothing waits in it when it is destroyed. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/engine/constraint/constraint_compiler.h"

namespace outrider {

class ConstraintQueue final {
 public:
  using Done = std::function<void(Result<AnswerConstraint>)>;
  static constexpr std::size_t kMaxWaiting = 64;
  static constexpr std::size_t kMaxOfOwner = 4;

  // compiler: null: this server has no forms, and add() is not called.
  explicit ConstraintQueue(ConstraintCompiler* compiler) : compiler_(compiler) {}
  ~ConstraintQueue();
  ConstraintQueue(const ConstraintQueue&) = delete;
  ConstraintQueue& operator=(const ConstraintQueue&) = delete;

  bool offers() const { return compiler_ != nullptr; }

  // Finds a form that was compiled before, at once.
  std::optional<AnswerConstraint> find(const ConstraintSpec& spec, const std::string& owner) {
    return compiler_->find(spec, owner);
  }

  // RESOURCE_EXHAUSTED where too many wait, of all or of this owner; then `done` is not called.
  Status add(ConstraintSpec spec, std::string owner, Done done);

 private:
  struct Job {
    ConstraintSpec spec;
    std::string owner;
    Done done;
  };

  void run();
  Job take_next() OUTRIDER_REQUIRES(mu_);

  ConstraintCompiler* const compiler_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Job> waiting_ OUTRIDER_GUARDED_BY(mu_);
  // By owner: the number of its last form among those compiled since nothing waited.
  std::map<std::string, std::size_t> last_ OUTRIDER_GUARDED_BY(mu_);
  std::size_t compiled_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_ OUTRIDER_GUARDED_BY(mu_);  // begins with the first job
};

}  // namespace outrider
