// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_target.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "bench/load/load_clients.h"
#include "cloud_server/admission/token_file.h"
#include "common/base/posix.h"
#include "common/serving/cli/quantities.h"
#include "common/serving/credentials/private_file.h"

namespace outrider {
namespace {

Status check_addresses(const TargetFlags& flags, const LoadShape& shape) {
  if (flags.starts_server()) return {};
  if (shape.edges + shape.greedy_sessions > 0 && !flags.server) {
    return invalid_argument(
        "edges go over gRPC, but only --url is there. Remedy: --server HOST:PORT");
  }
  if (shape.openai_clients > 0 && !flags.openai) {
    return invalid_argument(
        "OpenAI clients go over HTTP, but only --server is there. Remedy: --url http://HOST:PORT");
  }
  if (shape.greedy_sessions > 0 && flags.key_file.empty()) {
    return invalid_argument(
        "--greedy-sessions are a tenant of their own, which a server knows by its key. Remedy: "
        "--keys FILE, whose last line is theirs");
  }
  for (const std::optional<Address>& at : {flags.server, flags.openai}) {
    if (flags.key_file.empty() || !at || is_loopback(at->host)) continue;
    return invalid_argument(
        "--keys: the keys would cross the network to " + at->to_string() +
        " in plaintext. Remedy: a tunnel, such as ssh -L, to a port of this machine");
  }
  return {};
}

}  // namespace

Result<Address> parse_http_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = text;
  if (!rest.starts_with(kScheme)) {
    return invalid_argument(printable(text) +
                            ": expected http://HOST:PORT; TLS is not spoken here, so measure where "
                            "the server's plain port can be reached");
  }
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return parse_address(rest);
}

void add_target_flags(CLI::App& command, TargetFlags& target) {
  command.add_option("--model", target.model,
                     "Target of the server that is started, and whose tokenizer edges have");
  command.add_option("--dtype", target.dtype,
                     "How the target computes: auto, f32, bf16, int8, int4");
  command
      .add_option("--threads", target.threads,
                  "Threads of the server that is started; 0: all cores")
      ->check(CLI::Range(0, 1024));
  command
      .add_option(
          "--tenants", target.tenants,
          "Of the server that is started; clients are theirs in turn; 0: it asks for no keys")
      ->check(CLI::Range(0, 1024));
  command.add_option("--server-draft-model", target.draft_model,
                     "Draft model beside the target of the server that is started");
  command.add_option("--server-draft-source", target.draft_source,
                     "What that server drafts by: its own default, model, lookup, both, none");
  add_parsed(
      command, "--server", "HOST:PORT of a running outrider-server, for edges",
      [](const std::string& text) { return parse_address(text); },
      [&target](const Address& address) { target.server = address; });
  add_parsed(command, "--url", "http://HOST:PORT of a running server with OpenAI's routes",
             parse_http_url, [&target](const Address& address) { target.openai = address; });
  add_parsed(command, "--metrics-url", "http://HOST:PORT of the running outrider-server's /metrics",
             parse_http_url, [&target](const Address& address) { target.metrics = address; });
  command.add_option(
      "--keys", target.key_file,
      "File of the running server's keys, a tenant's name and its key a line; clients "
      "take them in turn");
}

Result<TenantKeys> parse_keys(const std::string& text, const std::string& file) {
  TenantKeys keys;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string tenant, key, more;
    words >> tenant >> key >> more;
    if (tenant.empty() || tenant.starts_with('#')) continue;
    if (key.empty() || !more.empty() || !is_header_value(key)) {
      return invalid_argument(file + ", line " + std::to_string(number) +
                              ": expected a tenant's name and its key");
    }
    keys.emplace_back(std::move(tenant), std::move(key));
  }
  if (keys.empty()) return invalid_argument(file + ": holds no key");
  return keys;
}

Result<std::unique_ptr<LoadTarget>> LoadTarget::open(const TargetFlags& flags,
                                                     const LoadShape& shape) {
  OUTRIDER_RETURN_IF_ERROR(check_addresses(flags, shape));
  std::unique_ptr<LoadTarget> target(new LoadTarget);
  target->has_greedy_ = shape.greedy_sessions > 0;
  if (flags.starts_server()) {
    OUTRIDER_RETURN_IF_ERROR(target->start(flags, shape));
    return target;
  }
  target->rpc_ = flags.server;
  target->openai_ = flags.openai;
  target->metrics_ = flags.metrics;
  if (flags.key_file.empty()) return target;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(flags.key_file));
  OUTRIDER_ASSIGN_OR_RETURN(target->keys_, parse_keys(text, flags.key_file));
  if (target->has_greedy_ && target->keys_.size() < 2) {
    return invalid_argument(flags.key_file +
                            ": holds one key, but --greedy-sessions need one of their own");
  }
  return target;
}

LoadTarget::~LoadTarget() {
  if (!token_file_.empty()) unlink(token_file_.c_str());
}

Status LoadTarget::make_keys(std::size_t tenants) {
  std::string path = "/tmp/outrider-load-XXXXXX";
  const UniqueFd file(mkstemp(path.data()));  // for its owner only
  if (!file.valid()) return unavailable(path + ": " + errno_message(errno));
  token_file_ = path;
  for (std::size_t i = 1; i <= tenants; ++i) {
    const std::string tenant = "tenant-" + std::to_string(i);
    OUTRIDER_ASSIGN_OR_RETURN(const NewToken made, new_token(tenant));
    OUTRIDER_RETURN_IF_ERROR(add_token(path, tenant, made));
    keys_.emplace_back(tenant, made.token);
  }
  return {};
}

Status LoadTarget::start(const TargetFlags& flags, const LoadShape& shape) {
  const std::size_t sessions = shape.clients() + shape.greedy_sessions;
  std::vector<std::string> arguments = {"--model",
                                        flags.model,
                                        "--dtype",
                                        flags.dtype,
                                        "--threads",
                                        std::to_string(flags.threads),
                                        "--http-port",
                                        "0",
                                        "--metrics-port",
                                        "0",
                                        "--max-concurrent-sessions",
                                        std::to_string(std::min<std::size_t>(sessions, 1024)),
                                        "--max-calls-per-peer",
                                        "0",
                                        "--log-level",
                                        "warning"};
  for (const auto& [flag, value] : {std::pair("--draft-model", &flags.draft_model),
                                    std::pair("--draft-source", &flags.draft_source)}) {
    if (!value->empty()) arguments.insert(arguments.end(), {flag, *value});
  }
  if (!flags.shares_prefixes) arguments.emplace_back("--no-enable-prefix-caching");
  std::size_t tenants = flags.tenants;
  if (has_greedy_) tenants = (tenants > 0 ? tenants : shape.clients()) + 1;
  if (tenants > 0) {
    OUTRIDER_RETURN_IF_ERROR(make_keys(tenants));
    arguments.insert(arguments.end(), {"--token-file", token_file_});
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-server"));
  OUTRIDER_ASSIGN_OR_RETURN(process_,
                            ServerProcess::start_program(program, arguments, std::nullopt, {}));
  rpc_ = process_->address();
  const auto page = [&](const char* name, std::optional<Address>& address) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(address, parse_http_url(process_->start_value(name)));
    return {};
  };
  if (shape.openai_clients > 0) OUTRIDER_RETURN_IF_ERROR(page("openai", openai_));
  return page("metrics", metrics_);
}

std::string LoadTarget::key_of(ClientKind kind, std::size_t number) const {
  if (keys_.empty()) return "";
  if (kind == ClientKind::kGreedy) return keys_.back().second;
  return keys_[number % (keys_.size() - (has_greedy_ ? 1 : 0))].second;
}

Result<std::optional<ServerCounters>> LoadTarget::counters() const {
  if (!metrics_) return std::optional<ServerCounters>();
  OUTRIDER_ASSIGN_OR_RETURN(const std::string page, http_body(*metrics_, {.path = "/metrics"}, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const ServerCounters counters, parse_counters(page));
  return std::optional(counters);
}

}  // namespace outrider
