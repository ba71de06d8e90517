// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/edge_setup.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <future>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/cli/private_file.h"
#include "edge_client/flash/memory_limit.h"
#include "edge_client/flash/memory_plan.h"

namespace outrider {
namespace {

// The server compares our tokenizer with the target's; whether the draft speaks it, only we know.
Status check_draft_tokenizer(const GenerationConfig& config, const Tokenizer& tokenizer) {
  if (config.tokenizer.empty()) return {};
  const Result<Tokenizer> drafts = Tokenizer::load(config.model);
  // A directory without a tokenizer of its own leaves nothing to compare.
  if (drafts.status().code() == StatusCode::kNotFound) return {};
  if (!drafts.ok()) return drafts.status();
  if (drafts->content_hash() == tokenizer.content_hash()) return {};
  return failed_precondition("the draft " + config.model + " has another tokenizer (" +
                             drafts->content_hash() + ") than --tokenizer " + config.tokenizer +
                             " (" + tokenizer.content_hash() + "); use a draft of the same family");
}

// Why a link with this limit may not be used any more.
std::optional<std::string> spent(const LinkBytes& bytes, std::uint64_t limit) {
  const std::uint64_t used = bytes.framed_up() + bytes.framed_down();
  if (used < limit) return std::nullopt;
  return "the link has carried " + std::to_string(used) + " bytes, and --metered-limit allows " +
         std::to_string(limit);
}

// The processor's name, as the system tells it.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(line.find_first_not_of(' ', colon + 1));
    }
  }
  return "unknown processor";
}

// How this device runs the target: what its passes take hangs on it.
std::string target_here(const GenerationConfig& config) {
  return "target here in " + config.dtype + ", budget " + std::to_string(config.memory_budget) +
         ", flash " + std::to_string(static_cast<std::uint64_t>(config.flash_bandwidth));
}

// Whether nothing decides without this device's target.
bool needs_own_target(const GenerationConfig& config) {
  return mode_of(config) == Mode::kOffline ||
         (mode_of(config) == Mode::kAuto && config.failover.metered_limit > 0);
}

// Said before anything is loaded: the system may end the program on the way.
void warn_of_memory_limit(std::uint64_t budget) {
  const std::optional<std::uint64_t> limit = memory_limit();
  if (!limit || *limit >= budget) return;
  std::fprintf(stderr,
               "target: the memory cgroup of this program holds %s, less than --memory-budget %s: "
               "the system may end it. Remedy: a smaller budget, or a larger limit\n",
               mib_text(*limit).c_str(), mib_text(budget).c_str());
}

std::optional<Learning> learning_of(const GenerationConfig& config, const LocalDraft& draft) {
  const std::string directory = config.state_dir == "auto" ? default_state_dir() : config.state_dir;
  if (directory == "none" || directory.empty()) return std::nullopt;
  const std::string device =
      processor_name() + ", " + std::to_string(config.threads) + " threads" +
      (config.draft_pace.empty() ? "" : ", pace " + config.draft_pace.to_string()) +
      (mode_of(config) == Mode::kOffline ? ", " + target_here(config) : "");
  return Learning{LearntStore(directory), {draft.info().arithmetic_id, device}};
}

}  // namespace

Result<std::unique_ptr<EdgeSetup>> EdgeSetup::load(const GenerationConfig& config) {
  std::unique_ptr<EdgeSetup> self(new EdgeSetup);
  self->failover_ = config.failover;
  if (!config.price_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(self->prices_, read_prices(config.price_file));
  }
  if (config.memory_budget > 0) warn_of_memory_limit(config.memory_budget);
  if (needs_own_target(config)) OUTRIDER_RETURN_IF_ERROR(LocalTarget::check_budget(config));
  std::future<Result<std::unique_ptr<LocalDraft>>> draft;
  if (wants_draft(config)) {
    draft = std::async(std::launch::async, [&config, &clock = self->clock_, &gate = self->gate_] {
      return LocalDraft::load(config, clock, &gate);
    });
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string directory, tokenizer_directory(config));
  OUTRIDER_ASSIGN_OR_RETURN(self->tokenizer_, load_model_tokenizer(directory));
  if (mode_of(config) != Mode::kOnline) OUTRIDER_RETURN_IF_ERROR(self->load_target(config));
  if (mode_of(config) != Mode::kOffline) OUTRIDER_RETURN_IF_ERROR(self->connect(config));
  if (draft.valid()) {
    OUTRIDER_RETURN_IF_ERROR(check_draft_tokenizer(config, self->tokenizer()));
    OUTRIDER_ASSIGN_OR_RETURN(self->draft_, draft.get());
    self->learning_ = learning_of(config, *self->draft_);
  }
  return self;
}

Result<RemoteOptions> remote_options(const GenerationConfig& config) {
  OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(server_of(config)));
  RemoteOptions options{.server = server,
                        .tls_ca = config.tls_ca,
                        .tls_cert = config.tls_cert,
                        .tls_key = config.tls_key,
                        .pad_frames = config.pad_frames};
  if (!config.token_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(options.token, read_secret(config.token_file));
  }
  OUTRIDER_RETURN_IF_ERROR(RemoteVerifier::check_files(options));
  return options;
}

Status EdgeSetup::connect(const GenerationConfig& config) {
  OUTRIDER_ASSIGN_OR_RETURN(RemoteOptions options, remote_options(config));
  if (target_ != nullptr) probe_ = std::make_unique<RemoteProbe>(options);
  remote_ = std::make_unique<RemoteVerifier>(std::move(options));
  return {};
}

Status EdgeSetup::load_target(const GenerationConfig& config) {
  Result<std::unique_ptr<LocalTarget>> target = LocalTarget::load(config, clock_, &gate_);
  if (target.ok()) {
    target_ = *std::move(target);
  } else if (!needs_own_target(config)) {
    std::fprintf(stderr, "failover: OFF because %s\n", target.status().message().c_str());
  } else {
    return target.status();
  }
  return {};
}

GeneratorParts EdgeSetup::parts(SessionObserver* observer) {
  GeneratorParts parts{.tokenizer = *tokenizer_,
                       .draft = draft_.get(),
                       .verifiers = remote_ == nullptr ? target_->verifier() : *remote_,
                       .mode = remote_ == nullptr ? Mode::kOffline : Mode::kOnline,
                       .failover = {},
                       .link = remote_.get(),
                       .flash = flash(),
                       .clock = clock_,
                       .observer = observer,
                       .learning = learning_ ? &*learning_ : nullptr,
                       .energy = energy_ ? &*energy_ : nullptr,
                       .prices = prices_ ? &*prices_ : nullptr};
  if (probe_ == nullptr) return parts;
  parts.mode = Mode::kAuto;
  parts.verifiers = VerifierRoutes(*remote_, target_->verifier(), *probe_);
  if (failover_.metered_limit > 0) {
    parts.verifiers.forbidden = [remote = remote_.get(), limit = failover_.metered_limit] {
      return spent(remote->link_bytes(), limit);
    };
  }
  parts.failover = {.fingerprint = target_->info().fingerprint,
                    .arithmetic_id = target_->info().arithmetic_id,
                    .other_model = !failover_.offline_target.empty(),
                    .strict_target = failover_.strict_target,
                    .standby_lag = failover_.standby_lag,
                    .failover_after = failover_.failover_after,
                    .handback_after = failover_.handback_after,
                    .min_rate = failover_.min_rate,
                    .max_round_trip = failover_.max_round_trip,
                    .replaced = {}};
  return parts;
}

}  // namespace outrider
