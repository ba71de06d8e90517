// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/offered_tls_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/files.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTlsFileBytes = 1 << 20;

// A new file replaces the copy; a reader that has the old one open reads it to its end. gRPC reads
// a file again when its modification time in seconds, or its text, has changed.
Status replace(int copy, const std::string& text) {
  const UniqueFd fresh(memfd_create("tls", MFD_CLOEXEC));
  if (fresh.valid() &&
      pwrite(fresh.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      dup3(fresh.get(), copy, O_CLOEXEC) == copy) {
    return {};
  }
  return unavailable("a copy of a TLS file in memory: " + errno_message(errno));
}

}  // namespace

Result<std::unique_ptr<OfferedTlsFiles>> OfferedTlsFiles::watch(TlsFiles files, Duration interval,
                                                                Log log) {
  std::unique_ptr<OfferedTlsFiles> watched(new OfferedTlsFiles(std::move(files), std::move(log)));
  OUTRIDER_RETURN_IF_ERROR(watched->make_copies());
  OUTRIDER_RETURN_IF_ERROR(watched->look().status());
  if (const Status seen = read_file(watched->offered_.cert, kMaxTlsFileBytes).status();
      !seen.ok()) {
    watched->offered_ = watched->files_;
    watched->log_("gRPC uses the TLS files directly, without a check that they fit each other: " +
                  seen.message());
  }
  watched->thread_ =
      std::thread([watched = watched.get(), interval] { watched->look_every(interval); });
  return watched;
}

OfferedTlsFiles::~OfferedTlsFiles() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  stop_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status OfferedTlsFiles::make_copies() {
  for (UniqueFd& copy : copies_) {
    copy = UniqueFd(memfd_create("tls", MFD_CLOEXEC));
    if (!copy.valid()) return unavailable("memfd_create: " + errno_message(errno));
  }
  const auto path = [&](std::size_t i) {
    return "/proc/self/fd/" + std::to_string(copies_.at(i).get());
  };
  offered_ = {path(0), path(1), files_.client_ca.empty() ? std::string() : path(2)};
  return {};
}

std::shared_ptr<const OfferedTlsFiles::Texts> OfferedTlsFiles::texts() const {
  const MutexLock lock(mu_);
  return texts_;
}

Result<OfferedTlsFiles::Texts> OfferedTlsFiles::read() const {
  Texts texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts.cert, read_file(files_.cert, kMaxTlsFileBytes));
  OUTRIDER_ASSIGN_OR_RETURN(texts.key, read_file(files_.key, kMaxTlsFileBytes));
  if (files_.client_ca.empty()) return texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts.client_ca, read_file(files_.client_ca, kMaxTlsFileBytes));
  return texts;
}

Result<bool> OfferedTlsFiles::look() {
  OUTRIDER_ASSIGN_OR_RETURN(const Texts before, read());
  const std::shared_ptr<const Texts> held = texts();
  if (held != nullptr && before == *held) return false;
  OUTRIDER_RETURN_IF_ERROR(check_tls_files(files_));
  OUTRIDER_ASSIGN_OR_RETURN(Texts checked, read());
  if (checked != before) return unavailable(files_.cert + ": is being written");
  OUTRIDER_RETURN_IF_ERROR(replace(copies_[0].get(), checked.cert));
  OUTRIDER_RETURN_IF_ERROR(replace(copies_[1].get(), checked.key));
  OUTRIDER_RETURN_IF_ERROR(replace(copies_[2].get(), checked.client_ca));
  auto offered = std::make_shared<const Texts>(std::move(checked));
  const MutexLock lock(mu_);
  texts_ = std::move(offered);
  return true;
}

bool OfferedTlsFiles::wait_until(TimePoint time) {
  const MutexLock lock(mu_);
  while (!stopping_ && clock_.now() < time) stop_.wait_until(mu_, time);
  return !stopping_;
}

void OfferedTlsFiles::refresh() {
  const Result<bool> changed = look();
  const std::string fault = changed.ok() ? "" : changed.status().to_string();
  if (!fault.empty() && fault != last_error_) {
    log_("TLS keeps its present certificate: " + fault);
  }
  if (changed.ok() && *changed) log_("TLS has a new certificate, from " + files_.cert);
  last_error_ = fault;
}

void OfferedTlsFiles::look_every(Duration interval) {
  while (wait_until(clock_.now() + interval)) refresh();
}

}  // namespace outrider
