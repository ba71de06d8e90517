// outrider-server: the cloud's half. It holds the target model, and decides.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cloud_server/http/ledger.h"
#include "cloud_server/kv_memory.h"
#include "cloud_server/options.h"
#include "cloud_server/serve.h"
#include "common/base/address.h"
#include "common/cli/program.h"
#include "common/ledger/processor_energy.h"
#include "common/prices/prices.h"
#include "common/telemetry/log.h"
#include "proto/grpc_log.h"

namespace outrider {
namespace {

// Calls that ask, wait or are on their way out.
constexpr std::size_t kCallsWithoutSession = 1024;
// Longer than a person thinks about the next turn of a chat.
constexpr Duration kKeptFor = std::chrono::minutes(10);

std::string millions(std::int64_t count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f M", static_cast<double>(count) / 1e6);
  return text;
}

std::string about_access(const ServerFlags& flags) {
  const AccessOptions& access = flags.access;
  if (!access.tls.wanted()) {
    return is_loopback(flags.host) ? "" : " (plaintext, open to the network)";
  }
  return access.tls.client_ca.empty() ? " (TLS)" : " (TLS, certificates of edges asked for)";
}

void print_pages(const char* what, const Address* address) {
  if (address != nullptr) std::printf("  %-12s http://%s\n", what, address->to_string().c_str());
}

// HTTP has no TLS here: prompts and keys would cross the network in plaintext.
bool offers_completions(const ServerFlags& flags, const LoadedTarget& target) {
  return flags.http_port >= 0 && target.tokenizer &&
         (is_loopback(flags.host) || flags.access.insecure);
}

void set_completions(const LoadedTarget& target, ServeOptions& options) {
  options.tokenizer = &*target.tokenizer;
  options.completions = {.model_name = target.model->info().name,
                         .tokenizer_hash = target.tokenizer_hash,
                         .context = target.model->info().max_positions,
                         .authenticator = options.rpc.authenticator,
                         .tenants = options.rpc.tenants};
}

// A tenant that can never open a session would learn it from refusals only.
Status check_shares(const std::string& path, const Tenants& tenants, const ModelInfo& model) {
  const std::int64_t least = smallest_session_bytes(model);
  const std::vector<std::string> poor = tenants.with_less_kv_than(least);
  if (poor.empty()) return {};
  return invalid_argument(path + ": kv-memory of " + poor.front() +
                          " is less than one session of this model needs, " +
                          std::to_string(least) + " bytes; raise it, or leave it out");
}

void set_access(const ServerFlags& flags, const ModelInfo& model, Tenants& tenants,
                Authenticator& authenticator, ServeOptions& options) {
  const auto page = [](const std::string& host, int port) -> std::optional<Address> {
    if (port < 0) return std::nullopt;
    return Address{host, static_cast<std::uint16_t>(port)};
  };
  const std::string metrics_host = flags.metrics_host.empty() ? flags.host : flags.metrics_host;
  options.admin = {page(flags.host, flags.http_port), page(metrics_host, flags.metrics_port)};
  options.rpc.tls = flags.access.tls;
  const std::string& path = flags.access.token_file;
  if (!is_loopback(metrics_host) && !flags.access.insecure) {
    options.admin_questions.check_metrics_key = [&](const std::string& key,
                                                    const std::string& host) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const TenantKey> known,
                                authenticator.find(key, host, Front::kMetrics));
      if (tenants.limits_of(known->tenant).read_metrics) return {};
      return permission_denied("this key may not read the metrics of all tenants");
    };
  }
  options.rpc.tenants = &tenants;
  if (path.empty()) return;
  options.rpc.authenticator = &authenticator;
  options.on_reload = [&tenants, &model, path] {
    const Status status = load_tokens(path, tenants);
    if (!status.ok()) {
      log(LogLevel::kError, "the keys stay as they were", {{"reason", status.to_string()}});
    }
    const Status shares = check_shares(path, tenants, model);
    if (!shares.ok()) log(LogLevel::kError, shares.message());
  };
}

// The torch backend takes every row to the end of its pass.
std::string about_pruning(const ServerFlags& flags, const LoadedTarget& target) {
  if (!target.no_predictor.empty()) return "OFF because of --predictor: " + target.no_predictor;
  if (target.exits == nullptr && target.predictor == nullptr) {
    return "OFF because the target has no early exits";
  }
  if (flags.target.device != "cpu") return "OFF because --device cuda cannot end rows";
  return std::string("branches that ") +
         (target.predictor != nullptr ? "the predictor" : "an early exit") +
         " gives too little chance end in the middle of a pass";
}

// One block, for people; scripts read the line that begins with "listening".
void print_start(const ServerFlags& flags, const LoadedTarget& target, std::int64_t kv_bytes,
                 const Listening& listening, double seconds) {
  const ModelInfo& info = target.model->info();
  std::printf("outrider-server\n");
  std::printf("  model        %s (%s, %s parameters, %s on %s)\n", info.name.c_str(),
              info.architecture.c_str(), millions(info.num_parameters).c_str(), info.dtype.c_str(),
              flags.target.device.c_str());
  std::printf("  context      %lld tokens, vocabulary %d\n",
              static_cast<long long>(info.max_positions), info.vocab_size);
  std::printf("  fingerprint  %s\n", info.fingerprint.c_str());
  std::printf("  arithmetic   %s\n", info.arithmetic_id.c_str());
  std::printf("  tokenizer    %s\n", target.tokenizer_hash.c_str());
  std::printf("  exits        %s\n", target.about_exits.c_str());
  if (flags.prune_below > 0)
    std::printf("  pruning      %s\n", about_pruning(flags, target).c_str());
  std::printf("  sessions     %u at once\n", flags.max_concurrent_sessions);
  if (kv_bytes > 0) {
    std::printf("  kv memory    %lld MiB\n", static_cast<long long>(kv_bytes >> 20));
  }
  if (!flags.target.pace.empty()) {
    std::printf("  pace         emulated: %s ms a pass\n", flags.target.pace.to_string().c_str());
  }
  std::printf("  listening    %s%s\n", listening.rpc.to_string().c_str(),
              about_access(flags).c_str());
  print_pages("health", listening.admin.health_address());
  if (offers_completions(flags, target)) {
    print_pages("openai", listening.admin.health_address());
  } else if (flags.http_port >= 0 && target.tokenizer) {
    std::printf(
        "  openai       OFF beyond this machine, since HTTP has no TLS here; a proxy on this "
        "machine can add it\n");
  }
  print_pages("metrics", listening.admin.metrics_address());
  std::printf("  ready        after %.2f s\n", seconds);
  std::fflush(stdout);
}

// Read by outrider-bench.
void print_overruns(const PaceCounts& counts) {
  std::printf("  overruns     %lld of %lld passes were slower than the emulated pace\n",
              static_cast<long long>(counts.overruns), static_cast<long long>(counts.passes));
  std::fflush(stdout);
}

Status read_pace(ServerFlags& flags) {
  if (flags.pace.empty()) return {};
  Result<PaceCurve> pace = PaceCurve::parse(flags.pace);
  if (!pace.ok()) return pace.status().with_context("--pace-pass-ms");
  flags.target.pace = *std::move(pace);
  return {};
}

void set_bounds(const ServerFlags& flags, RpcServerOptions& rpc) {
  rpc.pad_frames = flags.pad_frames;
  rpc.max_calls_per_peer = flags.max_calls_per_peer;
  rpc.max_connections = flags.max_connections;
  rpc.max_connections_per_peer = flags.max_calls_per_peer;
  rpc.max_connection_age = from_ms(flags.max_connection_age * 1e3);
  rpc.max_connection_age_grace = from_ms(flags.max_connection_age_grace * 1e3);
  rpc.max_connection_idle = from_ms(flags.max_connection_idle * 1e3);
  rpc.max_calls = std::size_t{2} * flags.max_concurrent_sessions + kCallsWithoutSession;
}

void set_scheduler(const ServerFlags& flags, const LoadedTarget& target,
                   SchedulerOptions& scheduler) {
  scheduler.tokenizer_hash = target.tokenizer_hash;
  scheduler.server_version = Program::version();
  scheduler.wall_clock = [] {
    return std::chrono::duration_cast<Duration>(
        std::chrono::system_clock::now().time_since_epoch());
  };
  scheduler.max_concurrent_sessions = flags.max_concurrent_sessions;
  scheduler.max_nodes = flags.max_draft_tokens;
  scheduler.pass_limit = from_ms(flags.pass_limit * 1e3);
  scheduler.idle_timeout = from_ms(flags.session_timeout * 1e3);
  scheduler.kept_for = kKeptFor;
  scheduler.exits = target.exits.get();
  scheduler.report_queue = flags.server_queue;
  scheduler.exit_score = flags.exit_score;
  scheduler.prune_below = target.no_predictor.empty() ? flags.prune_below : 0;
  scheduler.predictor = target.predictor.get();
}

Status run_server(ServerFlags& flags) {
  flags.access.host = flags.host;
  if (flags.metrics_port >= 0) flags.access.metrics_host = flags.metrics_host;
  OUTRIDER_RETURN_IF_ERROR(check_access(flags.access));
  Tenants tenants;
  // Behind a proxy all have its address.
  Authenticator authenticator(tenants, flags.max_calls_per_peer > 0);
  if (!flags.access.token_file.empty()) {
    OUTRIDER_RETURN_IF_ERROR(load_tokens(flags.access.token_file, tenants));
  }
  OUTRIDER_RETURN_IF_ERROR(read_pace(flags));
  SystemClock clock;
  const TimePoint started = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget target, load_target(flags.target, clock));
  ServeOptions options;
  set_scheduler(flags, target, options.scheduler);
  OUTRIDER_ASSIGN_OR_RETURN(
      options.scheduler.kv_cache_bytes,
      kv_cache_bytes(flags.kv_cache_memory, target.model->info(), free_memory()));
  options.scheduler.tenant_kv_bytes = [&tenants](const std::string& tenant) {
    return tenants.limits_of(tenant).kv_bytes;
  };
  if (!flags.access.token_file.empty()) {  // asked with each pass
    options.scheduler.on_rows = [&tenants](const std::string& tenant, std::size_t rows,
                                           TimePoint now) {
      tenants.charge(tenant, static_cast<double>(rows), now);
    };
    options.scheduler.tenant_ready_at = [&tenants](const std::string& tenant) {
      return tenants.rows_ready_at(tenant);
    };
  }
  OUTRIDER_RETURN_IF_ERROR(check_shares(flags.access.token_file, tenants, target.model->info()));
  std::optional<Prices> prices;
  if (!flags.price_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(prices, read_prices(flags.price_file));
  }
  std::optional<ProcessorEnergy> energy;
  if (flags.target.device == "cpu") energy = ProcessorEnergy::open();
  if (energy) options.scheduler.joules = [&energy] { return energy->joules(); };
  ServerMetrics metrics(target.model->info().name, prices ? &*prices : nullptr);
  options.metrics = &metrics;
  options.scheduler.on_verdict_gap = [&](Duration gap) { metrics.observe_gap(gap); };
  options.scheduler.on_session_end = [&](const SessionRecord& record) {
    metrics.observe(record);
    // The audit: who used how much of the device.
    log(LogLevel::kInfo, "session ended", audit_fields(record, prices ? &*prices : nullptr));
  };
  set_access(flags, target.model->info(), tenants, authenticator, options);
  if (offers_completions(flags, target)) set_completions(target, options);
  set_bounds(flags, options.rpc);
  options.admin_questions.version = Program::version();
  options.admin_questions.model_name = target.model->info().name;
  options.rpc.listen = {flags.host, static_cast<std::uint16_t>(flags.port)};
  options.log = [](const std::string& line) { log(LogLevel::kWarning, line); };
  options.shutdown_timeout = from_ms(flags.shutdown_timeout * 1e3);
  Status served = serve(*target.model, options, [&](const Listening& listening) {
    print_start(flags, target, options.scheduler.kv_cache_bytes, listening,
                to_seconds(clock.now() - started));
  });
  if (target.paced != nullptr) print_overruns(target.paced->counts());
  return served;
}

// outrider-server token new NAME
int token_command(int argc, char** argv) {
  Program program("outrider-server", "Keys for edges.");
  std::string name, file;
  CLI::App* token = program.app().add_subcommand("token", "Keys for edges");
  CLI::App* make = token->add_subcommand("new", "Make one, and show it once");
  make->add_option("NAME", name, "The tenant's")->required();
  make->add_option("--token-file", file, "Add its line to this file, which is made if need be");
  token->require_subcommand(1);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  return program.finish(print_new_token(name, file));
}

}  // namespace
}  // namespace outrider

// CLI11 throws only where a flag is declared wrongly.
int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  outrider::block_signals();
  if (argc > 1 && std::string_view(argv[1]) == "token") return outrider::token_command(argc, argv);
  outrider::Program program("outrider-server",
                            "Holds the target model and decides what edges drafted.\n"
                            "'outrider-server token new NAME' makes a key for an edge.");
  outrider::ServerFlags flags;
  outrider::add_flags(program.app(), flags);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  outrider::take_over_grpc_log();
  outrider::raise_descriptor_limit();
  return program.finish(outrider::run_server(flags));
}
