// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/offered_tls_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/files.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxBytes = 1 << 20;

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
  if (const Status seen = read_file(watched->offered_.cert, kMaxBytes).status(); !seen.ok()) {
    watched->offered_ = watched->files_;
    watched->log_("TLS files are used directly, without a check that they fit each other: " +
                  seen.message());
    return watched;
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

Result<OfferedTlsFiles::Texts> OfferedTlsFiles::read() const {
  Texts texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts[0], read_file(files_.cert, kMaxBytes));
  OUTRIDER_ASSIGN_OR_RETURN(texts[1], read_file(files_.key, kMaxBytes));
  if (files_.client_ca.empty()) return texts;
  OUTRIDER_ASSIGN_OR_RETURN(texts[2], read_file(files_.client_ca, kMaxBytes));
  return texts;
}

Result<bool> OfferedTlsFiles::look() {
  OUTRIDER_ASSIGN_OR_RETURN(const Texts before, read());
  if (before == texts_) return false;
  OUTRIDER_RETURN_IF_ERROR(check_tls_files(files_));
  OUTRIDER_ASSIGN_OR_RETURN(Texts checked, read());
  if (checked != before) return unavailable(files_.cert + ": is being written");
  for (std::size_t i = 0; i < kFiles; ++i) {
    OUTRIDER_RETURN_IF_ERROR(replace(copies_.at(i).get(), checked.at(i)));
  }
  texts_ = std::move(checked);
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
