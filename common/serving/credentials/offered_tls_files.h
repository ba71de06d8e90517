// The certificate, key and authorities that a program uses: copies of the operator's files, taken
// when they last fitted each other. A program that renews them writes one file after the other. A
// server that read them at any time would refuse all clients in between, or for good if they never
// fit.
//
// Thread rule: watch() and the destructor from one thread, texts() from any; a thread of its own
// checks the files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "common/serving/credentials/certificates.h"

namespace outrider {

class OfferedTlsFiles final {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(10);  // between two looks at the files

  // Called on that thread.
  using Log = std::function<void(const std::string&)>;

  // The files' contents, in PEM form.
  struct Texts {
    std::string cert;
    std::string key;
    std::string client_ca;  // empty: clients need no certificate
    bool operator==(const Texts&) const = default;
  };

  // Errors: those of check_tls_files(); UNAVAILABLE if the system gives no memory for the copies.
  static Result<std::unique_ptr<OfferedTlsFiles>> watch(TlsFiles files, Duration interval, Log log);
  ~OfferedTlsFiles();
  OfferedTlsFiles(const OfferedTlsFiles&) = delete;
  OfferedTlsFiles& operator=(const OfferedTlsFiles&) = delete;

  // The texts to use now; a new object after each renewal.
  std::shared_ptr<const Texts> texts() const;

  // For libraries that read files, as gRPC does: the paths of the copies, in memory; their content
  // changes when new fitting files have come. The files themselves where /proc does not show the
  // copies: it is not mounted, or the program has capabilities.
  const TlsFiles& offered() const { return offered_; }

 private:
  static constexpr std::size_t kFiles = 3;  // certificate, key, authorities

  OfferedTlsFiles(TlsFiles files, Log log) : files_(std::move(files)), log_(std::move(log)) {}

  Status make_copies();
  // True if the copies changed.
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
  std::string last_error_;  // the last error; each is logged once
  SystemClock clock_;
  mutable Mutex mu_;
  std::shared_ptr<const Texts> texts_ OUTRIDER_GUARDED_BY(mu_);  // in the copies
  CondVar stop_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
