// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/server_main.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cloud_server/access.h"
#include "cloud_server/admission/token_file.h"
#include "cloud_server/kv_memory.h"
#include "cloud_server/options.h"
#include "cloud_server/server.h"
#include "common/base/address.h"
#include "common/base/free_memory.h"
#include "common/base/processors.h"
#include "common/serving/cli/program.h"
#include "common/serving/cli/resources.h"
#include "common/serving/credentials/signing_key.h"
#include "common/serving/http/listener.h"
#include "common/serving/telemetry/log.h"
#include "proto/codec.h"
#include "proto/grpc_log.h"
#include "proto/otlp/otlp_sender.h"

namespace outrider {
namespace {

// Calls that are opening, waiting or closing.
constexpr std::size_t kCallsWithoutSession = 1024;
// Longer than a person takes for the next turn of a chat.
constexpr Duration kKeptFor = std::chrono::minutes(10);

std::string millions(std::int64_t count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f M", static_cast<double>(count) / 1e6);
  return text;
}

std::string about_access(const ServerFlags& flags) {
  const RpcServerOptions& rpc = flags.server.rpc;
  if (!rpc.tls.wanted()) {
    return is_loopback(rpc.listen.host) ? "" : " (plaintext, open to the network)";
  }
  return rpc.tls.client_ca.empty() ? " (TLS)" : " (TLS, certificates of edges asked for)";
}

void print_pages(const char* what, const char* scheme, const Address* address) {
  if (address == nullptr) return;
  std::printf("  %-12s %s://%s\n", what, scheme, address->to_string().c_str());
}

// Devices compute every row to the end of its pass.
std::string about_pruning(const ServerFlags& flags, const LoadedTarget& target) {
  if (!target.no_predictor.empty()) return "OFF because of --predictor: " + target.no_predictor;
  if (target.exits == nullptr && target.predictor == nullptr) {
    return "OFF because the target has no early exits";
  }
  const std::string& device = flags.target.loading.device;
  if (device != "cpu") return "OFF because --device " + device + " cannot end rows";
  return std::string("branches that ") +
         (target.predictor != nullptr ? "the predictor" : "an early exit") +
         " considers unlikely end in the middle of a pass";
}

std::string about_drafts(const LoadedTarget& target, const SchedulerOptions& scheduler) {
  std::string model = target.draft == nullptr ? "" : target.draft->info().name;
  if (scheduler.drafts_in_passes) model += " on threads of its own";
  const std::string look_up = scheduler.kv.share_prefixes
                                  ? "by look-up in the texts of the same tenant"
                                  : "by look-up in a session's own text";
  switch (scheduler.draft_source) {
    case DraftSource::kNone:
      return "none of its own";
    case DraftSource::kLookup:
      return look_up;
    case DraftSource::kModel:
      return "by " + model;
    case DraftSource::kBoth:
      return "by " + model + " and " + look_up;
  }
  return {};
}

// One block, for people; scripts read the line that begins with "listening".
void print_start(const ServerFlags& flags, const LoadedTarget& target,
                 const SchedulerOptions& scheduler, const Server& server, double seconds) {
  const ModelInfo& info = target.model->info();
  std::printf("outrider-server\n");
  std::printf("  model        %s (%s, %s parameters, %s on %s)\n", info.name.c_str(),
              info.architecture.c_str(), millions(info.num_parameters).c_str(), info.dtype.c_str(),
              flags.target.loading.device.c_str());
  if (flags.target.loading.device == "host-cuda") {
    std::printf(
        "  device       the GPU's kernels by fibers on this CPU: exact and slow, for tests only\n");
  }
  std::printf("  context      %lld tokens, vocabulary %d\n",
              static_cast<long long>(info.max_positions), info.vocab_size);
  std::printf("  fingerprint  %s\n", info.fingerprint.c_str());
  std::printf("  arithmetic   %s\n", info.arithmetic_id.c_str());
  std::printf("  tokenizer    %s\n", target.tokenizer_hash.c_str());
  if (target.tokenizer && !target.tokenizer->assumed().empty()) {
    std::printf("               %s\n", target.tokenizer->assumed().c_str());
  }
  if (!target.about_template.empty()) {
    std::printf("  template     %s\n", target.about_template.c_str());
  }
  if (const std::string about = target.generation.about(); !about.empty()) {
    std::printf("  sampling     %s\n", about.c_str());
  }
  if (target.levels != nullptr) {
    std::printf("  levels       %s\n", target.levels->about().c_str());
  }
  std::printf("  exits        %s\n", target.about_exits.c_str());
  std::printf("  drafts       %s\n", about_drafts(target, scheduler).c_str());
  if (flags.server.scheduler.prune_below > 0)
    std::printf("  pruning      %s\n", about_pruning(flags, target).c_str());
  std::printf("  sessions     %u at once\n", flags.server.scheduler.max_concurrent_sessions);
  if (const std::int64_t bytes = scheduler.kv.max_bytes; bytes > 0) {
    std::printf("  kv memory    %lld MiB\n", static_cast<long long>(bytes >> 20));
  }
  if (flags.target.pacer != nullptr) {
    std::printf("  pace         emulated: %s\n", flags.target.pacer->about().c_str());
  }
  std::printf("  listening    %s%s\n", server.rpc_address().to_string().c_str(),
              about_access(flags).c_str());
  const char* const scheme = flags.server.rpc.tls.wanted() ? "https" : "http";
  print_pages("health", scheme, server.http_address());
  if (server.offers_completions()) print_pages("openai", scheme, server.http_address());
  print_pages("metrics", "http", server.metrics_address());  // TLS or not, as clients choose
  std::printf("  ready        after %.2f s\n", seconds);
  std::fflush(stdout);
}

// outrider-bench reads this line.
void print_overruns(const PaceCounts& counts) {
  std::printf("  overruns     %lld of %lld passes were slower than the emulated pace\n",
              static_cast<long long>(counts.overruns), static_cast<long long>(counts.passes));
  std::fflush(stdout);
}

// The description that edges get before they write a prompt; empty if there is none.
std::string description_of(const LoadedTarget& target, const std::string& served_name) {
  if (!target.tokenizer) return {};
  const std::string& own_name = target.model->info().name;
  return serialize(TargetDescription{.model_name = served_name.empty() ? own_name : served_name,
                                     .fingerprint = target.model->info().fingerprint,
                                     .tokenizer_hash = target.tokenizer_hash,
                                     .templates = target.chat.templates,
                                     .bos = target.chat.bos,
                                     .eos = target.chat.eos,
                                     .chosen = target.chat.chosen,
                                     .template_hash = template_hash(target.chat),
                                     .server_version = Program::version(),
                                     .sampling = target.generation.sampling});
}

void fill_rpc(const ServerFlags& flags, const LoadedTarget& target, RpcServerOptions& rpc) {
  const std::size_t sessions = flags.server.scheduler.max_concurrent_sessions;
  rpc.max_connections_per_peer = rpc.max_calls_per_peer;
  rpc.max_calls = 2 * sessions + kCallsWithoutSession;
  rpc.description = description_of(target, flags.server.served_model_name);
}

// The source by which it drafts. INVALID_ARGUMENT if the flags contradict each other.
Result<DraftSource> draft_source(const ServerFlags& flags) {
  const bool has_model = !flags.target.draft_model.empty();
  const DraftSource source =
      flags.draft_source.value_or(has_model ? DraftSource::kBoth : DraftSource::kLookup);
  if (uses_model(source) && !has_model) {
    return invalid_argument(std::string("--draft-source ") + name_of(source) +
                            " needs a draft: name it with --draft-model. Remedy without one: "
                            "--draft-source lookup");
  }
  if (has_model && !uses_model(source)) {
    return invalid_argument(std::string("--draft-model names a draft, and --draft-source ") +
                            name_of(source) + " does not use it. Remedy: leave one of them out");
  }
  if (!has_model && flags.target.draft_threads > 0) {
    return invalid_argument("--draft-threads " + std::to_string(flags.target.draft_threads) +
                            ": there is no draft to run on them. Remedy: name one with "
                            "--draft-model");
  }
  return source;
}

Status fill_scheduler(const ServerFlags& flags, const LoadedTarget& target,
                      SchedulerOptions& scheduler) {
  scheduler.draft_model = target.draft.get();
  scheduler.drafts_in_passes = flags.target.draft_threads > 0;
  scheduler.tokenizer_hash = target.tokenizer_hash;
  scheduler.template_hash = template_hash(target.chat);
  scheduler.server_version = Program::version();
  scheduler.model_name = flags.server.served_model_name;
  scheduler.kv.kept_for = kKeptFor;
  scheduler.levels = target.level_models;
  scheduler.exits = target.exits.get();
  if (!target.no_predictor.empty()) scheduler.prune_below = 0;
  scheduler.predictor = target.predictor.get();
  const Result<std::int64_t> kv_bytes =
      kv_cache_bytes(flags.kv_cache_memory, with_draft(target), free_memory());
  if (!kv_bytes.ok() && target.draft != nullptr) {
    return kv_bytes.status().with_context("with --draft-model, whose keys and values count too");
  }
  OUTRIDER_RETURN_IF_ERROR(kv_bytes.status());
  scheduler.kv.max_bytes = *kv_bytes;
  return target.draft == nullptr ? check_kv_memory(*target.model, *kv_bytes) : Status();
}

// The flags', with what the target decides.
Result<ServerOptions> server_options(const ServerFlags& flags, const LoadedTarget& target) {
  const auto page = [](const std::string& host,
                       std::optional<std::uint16_t> port) -> std::optional<Address> {
    if (!port) return std::nullopt;
    return Address{host, *port};
  };
  ServerOptions options = flags.server;
  const std::string& host = options.rpc.listen.host;
  const std::string metrics_host = flags.metrics_host.empty() ? host : flags.metrics_host;
  options.http = page(host, flags.http_port);
  options.metrics = page(metrics_host, flags.metrics_port);
  options.throttle_wrong_keys = options.rpc.max_calls_per_peer > 0;  // behind a proxy all have one
  options.metrics_need_key = !is_loopback(metrics_host) && !flags.insecure;
  options.measure_energy = flags.target.loading.device == "cpu";
  const int threads = flags.target.loading.threads;
  options.threads = threads > 0 ? threads : usable_processors();
  fill_rpc(flags, target, options.rpc);
  OUTRIDER_RETURN_IF_ERROR(fill_scheduler(flags, target, options.scheduler));
  return options;
}

Status check_resources(const TargetOptions& target) {
  const int own = target.loading.threads > 0 ? target.loading.threads : usable_processors();
  OUTRIDER_RETURN_IF_ERROR(check_threads(own + target.draft_threads + kThreadsBesideCompute));
  // gRPC 1.51 never accepts another connection after it has run out of descriptors (CVE-2023-4785).
  log(LogLevel::kDebug, "file descriptors", {{"limit", raise_descriptor_limit()}});
  return check_descriptors(kDescriptors);
}

Status run_server(const ServerFlags& flags, std::optional<StartSignals>& signals) {
  OUTRIDER_RETURN_IF_ERROR(check_resources(flags.target));
  const std::string& token_file = flags.server.token_file;
  OUTRIDER_RETURN_IF_ERROR(
      check_access({.host = flags.server.rpc.listen.host,
                    .metrics_host = flags.metrics_port ? flags.metrics_host : std::string(),
                    .tls = flags.server.rpc.tls,
                    .token_file = token_file,
                    .insecure = flags.insecure}));
  if (!token_file.empty()) {  // before weights are read, which takes long
    OUTRIDER_RETURN_IF_ERROR(read_tokens(token_file).status());
  }
  OUTRIDER_ASSIGN_OR_RETURN(const DraftSource drafts_by, draft_source(flags));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Tracer> tracer,
      start_tracing(flags.otlp_traces_endpoint, "outrider-server", Program::version(),
                    [](const std::string& line) { log(LogLevel::kWarning, line); }));
  SystemClock clock;
  const TimePoint started = clock.now();
  TargetOptions wanted = flags.target;
  wanted.exits.prunes = flags.server.scheduler.prune_below > 0;
  OUTRIDER_ASSIGN_OR_RETURN(const LoadedTarget target, load_target(wanted, clock));
  OUTRIDER_ASSIGN_OR_RETURN(ServerOptions options, server_options(flags, target));
  options.scheduler.draft_source = drafts_by;
  options.scheduler.drafts_forms = drafts_by != DraftSource::kNone;
  options.tracer = tracer.get();
  options.record.program = "outrider-server " + Program::version();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(target, options));
  signals.reset();  // a supervisor may end it once it is ready
  print_start(flags, target, options.scheduler, *server, to_seconds(clock.now() - started));
  const Status served = server->run();
  if (flags.target.pacer != nullptr) print_overruns(flags.target.pacer->counts());
  return served;
}

// outrider-server token new NAME
void add_token_command(CLI::App& app, std::string& name, std::string& file) {
  CLI::App* token = app.add_subcommand("token", "Keys for edges");
  CLI::App* make = token->add_subcommand("new", "Make one, and show it once");
  make->add_option("NAME", name, "The tenant's")->required();
  make->add_option("--token-file", file, "Add its line to this file, which is made if need be");
  token->require_subcommand(1);
}

// outrider-server record-key new FILE
void add_record_key_command(CLI::App& app, std::string& file) {
  CLI::App* key = app.add_subcommand("record-key", "Keys that sign records of answers");
  CLI::App* make = key->add_subcommand(
      "new", "Make one, into a new file for its owner only, and print the public key");
  make->add_option("FILE", file, "The private key's, for --record-key")->required();
  key->require_subcommand(1);
}

int record_key_command(int argc, char** argv) {
  Program program("outrider-server", "Keys that sign records of answers.");
  std::string file;
  add_record_key_command(program.app(), file);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  const Result<std::string> public_key = write_new_signing_key(file);
  if (public_key.ok()) std::printf("%s\n", public_key->c_str());
  return program.finish(public_key.status());
}

int token_command(int argc, char** argv) {
  Program program("outrider-server", "Keys for edges.");
  std::string name, file;
  add_token_command(program.app(), name, file);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  return program.finish(print_new_token(name, file));
}

}  // namespace

// CLI11 throws only if a flag is declared wrongly.
int server_main(int argc, char** argv, const ServerParts& parts) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "token") return token_command(argc, argv);
  if (command == "record-key") return record_key_command(argc, argv);
  Program program(parts.program,
                  "Holds the target model and decides what edges drafted.\n"
                  "'outrider-server token new NAME' makes a key for an edge, 'outrider-server\n"
                  "record-key new FILE' one that signs records of answers.");
  block_signals();
  std::optional<StartSignals> signals(std::in_place);
  ServerFlags flags;
  add_flags(program.app(), flags, parts);
  std::string name, file, key_file;
  if (Program::asks_for_reference(argc, argv)) {
    add_token_command(program.app(), name, file);
    add_record_key_command(program.app(), key_file);
  }
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  take_over_grpc_log();
  const Status served = run_server(flags, signals);
  // stdout is not checked for the start block: its reader may have closed it since.
  return served.ok() ? kExitOk : program.finish(served);
}

int server_main(int argc, char** argv) {
  return server_main(argc, argv, {});
}

}  // namespace outrider
