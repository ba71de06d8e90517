// The certificate, key and authority that a server offers: the files of its operator as they last
// were when they fitted each other. One that renews them writes one after the other; gRPC, which
// reads whatever there is, would turn everybody away in between, or for ever if they never fit.
//
// Thread rule: watch() and the destructor from one thread; a thread of its own looks at the files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "common/credentials/certificates.h"

namespace outrider {

class OfferedTlsFiles final {
 public:
  // From the thread that looks.
  using Log = std::function<void(const std::string&)>;

  // Errors: check_tls_files()'; UNAVAILABLE if the system gives no memory for the copies.
  static Result<std::unique_ptr<OfferedTlsFiles>> watch(TlsFiles files, Duration interval, Log log);
  ~OfferedTlsFiles();
  OfferedTlsFiles(const OfferedTlsFiles&) = delete;
  OfferedTlsFiles& operator=(const OfferedTlsFiles&) = delete;

  // Where the copies are, in memory: they change when files that fit have come. The files
  // themselves where /proc shows no copies: it is not mounted, or the program has capabilities.
  const TlsFiles& offered() const { return offered_; }

 private:
  static constexpr std::size_t kFiles = 3;  // certificate, key, authority
  using Texts = std::array<std::string, kFiles>;

  OfferedTlsFiles(TlsFiles files, Log log) : files_(std::move(files)), log_(std::move(log)) {}

  Status make_copies();
  // True if what is offered changed.
  Result<bool> look();
  Result<Texts> read() const;
  void look_every(Duration interval);
  void refresh();
  // False when the destructor waits.
  bool wait_until(TimePoint time);

  const TlsFiles files_;
  const Log log_;
  std::array<UniqueFd, kFiles> copies_;
  TlsFiles offered_;
  Texts texts_;       // in the copies
  std::string told_;  // the last fault: it is told once
  SystemClock clock_;
  Mutex mu_;
  CondVar stop_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
