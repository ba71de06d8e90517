// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/access.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "cloud_server/admission/token_file.h"
#include "common/base/address.h"
#include "common/base/posix.h"
#include "common/serving/telemetry/log.h"

namespace outrider {

Status check_access(const AccessOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(check_is_tcp(options.host));
  OUTRIDER_RETURN_IF_ERROR(check_is_tcp(options.metrics_host));
  OUTRIDER_RETURN_IF_ERROR(check_tls_files(options.tls));
  if (options.insecure) return {};
  const std::string& metrics = options.metrics_host;
  if (!metrics.empty() && !is_loopback(metrics) && options.token_file.empty()) {
    return invalid_argument("--metrics-host " + metrics +
                            " listens on a network address, but without --token-file there is no "
                            "key to require; add it, or use --metrics-host 127.0.0.1");
  }
  if (is_loopback(options.host)) return {};
  const std::string where = "--host " + options.host + " listens on a network address";
  if (!options.tls.wanted()) {
    return invalid_argument(where +
                            ", but without --tls-cert and --tls-key this server speaks "
                            "plaintext; add them, or --insecure if the network is trusted");
  }
  if (options.token_file.empty() && options.tls.client_ca.empty()) {
    return invalid_argument(where +
                            ", but no key is required; add --token-file or "
                            "--tls-client-ca, or --insecure if every client there may use it");
  }
  return {};
}

Status load_tokens(const std::string& path, Tenants& tenants) {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenFile file, read_tokens(path));
  tenants.replace(file);
  log(LogLevel::kInfo, "token file read", {{"file", path}, {"keys", file.entries.size()}});
  return {};
}

FileWatch::Identity FileWatch::look() const {
  struct stat about {};
  if (path_.empty() || stat(path_.c_str(), &about) != 0) return {};  // empty: no keys are required
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<std::int64_t>(about.st_dev), static_cast<std::int64_t>(about.st_ino),
          static_cast<std::int64_t>(about.st_size), nanoseconds(about.st_mtim),
          nanoseconds(about.st_ctim)};
}

bool FileWatch::changed() {
  const Identity now = look();
  if (now == known_ || now != std::exchange(seen_, now)) return false;
  known_ = now;
  return true;
}

Status print_new_token(const std::string& tenant, const std::string& token_file) {
  OUTRIDER_ASSIGN_OR_RETURN(const NewToken made, new_token(tenant));
  if (!token_file.empty()) OUTRIDER_RETURN_IF_ERROR(add_token(token_file, tenant, made));
  std::printf("%s\n", made.token.c_str());
  if (std::fflush(stdout) != 0) {
    const std::string why = "the key could not be shown (stdout: " + errno_message(errno) + ")";
    if (token_file.empty()) return unavailable(why);
    return unavailable(why + ", so no one knows it. Remedy: remove the first key on the line of " +
                       tenant + " in " + token_file + ", and make another key");
  }
  if (token_file.empty()) {
    std::fprintf(
        stderr, "This key is shown once. Give it to %s, and add this line to the token file:\n%s\n",
        tenant.c_str(), made.line.c_str());
  } else {
    std::fprintf(stderr,
                 "This key is shown once. Give it to %s; its line is in %s.\n"
                 "A running server reads it within seconds.\n",
                 tenant.c_str(), token_file.c_str());
  }
  return {};
}

}  // namespace outrider
