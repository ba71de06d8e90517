// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/edge_setup.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/base/processors.h"
#include "common/decoding/drafting/lookup/lookup_model.h"
#include "common/decoding/drafting/vocabulary/byte_vocabulary.h"
#include "common/engine/model/format/model_files.h"
#include "common/serving/credentials/private_file.h"
#include "edge_client/flash/memory_plan.h"
#include "edge_client/generation/lookup_corpus.h"

namespace outrider {
namespace {

// A draft step may take this part of a pass where both have the same cores. At a half, rounds by
// the model gained a tenth where look-up alone gained a half; between a half and this nothing was
// measured.
constexpr double kMaxStepOfPass = 0.25;
constexpr std::int32_t kTimedRows = 4;

// How long the server may take to send its template where this device's target could begin.
constexpr Duration kServersTurn = std::chrono::seconds(1);

// The draft's tokenizer where its ids are not the target's: then it drafts by text. own: NOT_FOUND
// of a draft that has the target's. The server compares the target's with ours.
Result<std::optional<ForeignVocabulary>> foreign_vocabulary(const std::string& draft,
                                                            Result<Tokenizer> own,
                                                            const ModelInfo& info,
                                                            const Tokenizer& target) {
  const bool has_targets = own.status().code() == StatusCode::kNotFound ||
                           (own.ok() && own->content_hash() == target.content_hash());
  if (has_targets) {
    OUTRIDER_RETURN_IF_ERROR(check_vocabulary(draft, target.vocab_size(), info.vocab_size));
    return std::optional<ForeignVocabulary>();
  }
  if (!own.ok()) return own.status();
  OUTRIDER_RETURN_IF_ERROR(check_vocabulary(draft, own->vocab_size(), info.vocab_size));
  if (target.vocab_size() <= info.vocab_size && have_same_ids(*own, target)) {
    std::fprintf(stderr,
                 "draft: the tokenizer of %s differs from the target's, but not in the ids that "
                 "both have, so it drafts by ids\n",
                 info.name.c_str());
    return std::optional<ForeignVocabulary>();
  }
  std::fprintf(stderr, "draft: %s has another tokenizer than the target, so it drafts by text\n",
               info.name.c_str());
  return std::optional<ForeignVocabulary>({*std::move(own), target});
}

std::uint64_t both_ways(const LinkBytes& bytes) {
  return bytes.framed_up() + bytes.framed_down();
}

// Why a link with this limit may not be used any more.
std::optional<std::string> spent(std::uint64_t used, std::uint64_t limit) {
  if (used < limit) return std::nullopt;
  return "the link has carried " + std::to_string(used) + " bytes, and --metered-limit allows " +
         std::to_string(limit);
}

// The processor's name, as the system reports it.
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
  return "target here on " + config.loading.device + " " +
         std::to_string(config.loading.gpus.size()) + " in " + config.loading.dtype + ", budget " +
         std::to_string(config.flash.memory_budget) + ", flash " +
         std::to_string(static_cast<std::uint64_t>(config.flash.bandwidth));
}

// Whether nothing decides without this device's target.
bool needs_own_target(const GenerationConfig& config) {
  return mode_of(config) == Mode::kOffline ||
         (mode_of(config) == Mode::kAuto && config.metered_limit > 0);
}

// Whether a draft and a target that waits for no disk have more threads than there are cores.
// Look-up has one.
bool shares_cores(const GenerationConfig& config, const FlashModel* flash, bool by_model) {
  const std::string& device = config.loading.device;
  const std::string& own = config.draft_device;
  const bool on_cpu = device == "cpu" && (!by_model || own.empty() || own == "cpu");
  const bool streams = flash != nullptr && flash->plan().streamed_bytes > 0;
  const int cores = usable_processors();
  const int threads = config.loading.threads > 0 ? config.loading.threads : cores;
  return config.draft_pacer == nullptr && on_cpu && !streams &&
         threads + (by_model ? threads : 1) > cores;
}

// Whether no flag asks for a draft model's rounds, and no server for its guesses.
bool leaves_open_what_drafts(const GenerationConfig& config) {
  const SpeculationOptions& speculation = config.answer.speculation;
  return mode_of(config) == Mode::kOffline && !config.draft_source && config.draft_level.empty() &&
         !speculation.strategy && speculation.tree.kind == TreeKind::kChain;
}

// The least of each model's passes of one row, before the first answer. They take turns, so that
// what else the cores do slows both.
Result<std::array<Duration, 2>> times_of_row(const std::array<Model*, 2>& models,
                                             const Clock& clock) {
  std::array<Duration, 2> least{Duration::max(), Duration::max()};
  std::array<std::unique_ptr<KvCache>, 2> caches;
  std::array<Slot, 2> slots{kRootSlot, kRootSlot};
  for (int row = 0; row < kTimedRows; ++row) {
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (row == 0) {
        OUTRIDER_ASSIGN_OR_RETURN(caches[i], models[i]->new_cache(kTimedRows));
      }
      OUTRIDER_ASSIGN_OR_RETURN(slots[i], caches[i]->slots().append(slots[i]));
      const Row timed{caches[i].get(), slots[i], 0, true};
      PassOutput out;
      const TimePoint begin = clock.now();
      OUTRIDER_RETURN_IF_ERROR(models[i]->forward({&timed, 1}, out));
      least[i] = std::min(least[i], clock.now() - begin);
    }
  }
  return least;
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

Result<StockOptions> stock_options(const GenerationConfig& config) {
  OUTRIDER_ASSIGN_OR_RETURN(RemoteOptions remote, remote_options(config));
  return StockOptions{
      .api = config.server_api, .model = config.server_model, .remote = std::move(remote)};
}

std::optional<Learning> learning_of(const GenerationConfig& config, const LocalDraft& draft) {
  const std::string directory = config.state_dir == "auto" ? default_state_dir() : config.state_dir;
  if (directory == "none" || directory.empty()) return std::nullopt;
  const std::string& own = config.draft_device;
  const std::string device =
      processor_name() + ", " + std::to_string(config.loading.threads) + " threads, draft on " +
      (own.empty() ? config.loading.device : own) +
      (config.draft_pacer == nullptr ? "" : ", pace " + config.draft_pacer->about()) +
      (mode_of(config) == Mode::kOffline ? ", " + target_here(config) : "");
  return Learning{LearntStore(directory), {draft.info().arithmetic_id, device}};
}

int threads_of(const GenerationConfig& config) {
  return config.loading.threads > 0 ? config.loading.threads : usable_processors();
}

}  // namespace

Status EdgeSetup::read_files() {
  if (!config_.price_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(prices_, read_prices(config_.price_file));
  }
  if (!config_.device_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(power_, read_device_power(config_.device_file));
  }
  OUTRIDER_ASSIGN_OR_RETURN(recorder_, Recorder::open(config_.record));
  return {};
}

Result<std::unique_ptr<EdgeSetup>> EdgeSetup::load(const GenerationConfig& config) {
  std::unique_ptr<EdgeSetup> self(new EdgeSetup(config));
  OUTRIDER_RETURN_IF_ERROR(self->read_files());
  if (config.flash.memory_budget > 0) warn_of_memory_limit(config.flash.memory_budget);
  if (needs_own_target(config)) OUTRIDER_RETURN_IF_ERROR(LocalTarget::check_budget(config));
  std::future<Result<std::unique_ptr<Model>>> draft;
  if (drafts_by_model(config) && config.draft_level.empty()) {
    draft = std::async(std::launch::async, load_draft_model, std::cref(config));
  }
  const bool uses_server = mode_of(config) != Mode::kOffline;
  if (uses_server && config.server_api == ServerApi::kOutrider) {
    OUTRIDER_ASSIGN_OR_RETURN(const RemoteOptions remote, remote_options(config));
    self->remote_ = std::make_unique<RemoteVerifier>(remote);
    if (config.chat_template.empty() || config.generation_config == GenerationConfigUse::kAuto) {
      self->ask_for_template();
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string directory, tokenizer_directory(config));
  std::future<Result<Tokenizer>> drafts_tokenizer;
  if (draft.valid() && directory != config.model) {
    drafts_tokenizer =
        std::async(std::launch::async, [&config] { return Tokenizer::load(config.model); });
  }
  OUTRIDER_ASSIGN_OR_RETURN(self->tokenizer_, load_model_tokenizer(directory));
  self->constraints_.emplace(
      [setup = self.get()] { return grammar_vocabulary(*setup->tokenizer_); });
  if (uses_server && self->remote_ == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const StockOptions stock, stock_options(config));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<StockServer> server,
                              make_stock_server(stock, self->tokenizer()));
    self->stock_ = std::make_unique<StockVerifier>(std::move(server), stock.api, self->tokenizer());
  }
  if (mode_of(config) != Mode::kOnline) OUTRIDER_RETURN_IF_ERROR(self->load_target());
  if (uses_server && self->target_ != nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(self->probe_, server_probe(config));
  }
  OUTRIDER_RETURN_IF_ERROR(self->find_template(directory));
  if (draft.valid()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, draft.get());
    Result<Tokenizer> own =
        drafts_tokenizer.valid() ? drafts_tokenizer.get() : not_found("it is read as the target's");
    OUTRIDER_ASSIGN_OR_RETURN(auto foreign, foreign_vocabulary(config.model, std::move(own),
                                                               model->info(), self->tokenizer()));
    OUTRIDER_ASSIGN_OR_RETURN(self->draft_, LocalDraft::of(std::move(model), config, self->clock_,
                                                           &self->gate_, std::move(foreign)));
  }
  if (drafts_by_model(config) && !config.draft_level.empty()) {
    OUTRIDER_RETURN_IF_ERROR(self->draft_by_level());
  }
  if (self->target_ != nullptr && wants_draft(config)) {
    self->shares_cores_ = shares_cores(config, self->flash(), self->draft_ != nullptr);
  }
  // Where a draft step takes the target's time, what look-up guesses for nothing goes along.
  const bool lookup_too =
      self->shares_cores_ && self->draft_ != nullptr && leaves_open_what_drafts(config);
  if (lookup_too) OUTRIDER_RETURN_IF_ERROR(self->rest_slow_draft());
  if (lookup_too || drafts_by_lookup(config)) OUTRIDER_RETURN_IF_ERROR(self->add_lookup());
  if (self->draft_ != nullptr) self->learning_ = learning_of(config, *self->draft_);
  if (self->learning_ && config.prune_below > 0) self->remember_pruning();
  if (self->target_ != nullptr) {
    // Two targets with two templates are refused before anything is asked; but a server that is
    // away is no reason to wait.
    self->chat_->settle(kServersTurn);
    const Result<ChatSource> chat = self->chat_->now();
    if (!chat.ok() && chat.status().code() == StatusCode::kFailedPrecondition) return chat.status();
  }
  return self;
}

Result<RemoteOptions> remote_options(const GenerationConfig& config) {
  RemoteOptions options = config.remote;
  OUTRIDER_ASSIGN_OR_RETURN(options.server, parse_address(server_of(config)));
  if (!config.token_file.empty()) {
    Result<std::string> token = read_secret(config.token_file);
    if (!token.ok()) return token.status().with_context("--token-file");
    options.token = *std::move(token);
  }
  OUTRIDER_RETURN_IF_ERROR(RemoteVerifier::check_files(options));
  return options;
}

Result<std::unique_ptr<RemoteProbe>> server_probe(const GenerationConfig& config) {
  if (config.server_api == ServerApi::kOutrider) {
    OUTRIDER_ASSIGN_OR_RETURN(const RemoteOptions remote, remote_options(config));
    return std::make_unique<RemoteProbe>(remote);
  }
  OUTRIDER_ASSIGN_OR_RETURN(StockOptions stock, stock_options(config));
  return std::make_unique<RemoteProbe>(
      [stock = std::move(stock)](Duration patience) { return answers(stock, patience); });
}

// Null: none decides.
Verifier* EdgeSetup::server() {
  if (stock_ != nullptr) return stock_.get();
  return remote_.get();
}

// A file that cannot be used is reported with the first answer.
void EdgeSetup::remember_pruning() {
  if (target_ == nullptr || target_->engine() == nullptr) return;
  const KeptLearning kept = learning_->store.read(learning_->side);
  const auto pair = kept.pairs.find(target_->info().fingerprint);
  if (pair == kept.pairs.end() || !pair->second.edge_weights) return;
  EdgeChance::Weights weights;
  std::ranges::copy(*pair->second.edge_weights, weights.begin());
  target_->engine()->begin_pruning_with(weights);
}

// While tokenizer and models load: connecting takes as long as either.
void EdgeSetup::ask_for_template() {
  told_ = std::async(std::launch::async,
                     [this] { return remote_->describe(stop_asking_.get_token()); });
}

Status EdgeSetup::find_template(const std::string& tokenizer) {
  TargetChatOptions options{
      .name = config_.chat_template,
      .tokenizers = chat_source(*tokenizer_),
      .tokenizers_place = tokenizer,
      .patience = config_.answer.reconnect.timeout,
      .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
  if (target_ != nullptr) {
    options.own = target_->chat();
    options.own_name = target_->info().name;
    options.own_sampling = target_->sampling();
  }
  if (config_.generation_config == GenerationConfigUse::kAuto) {
    options.sampling_flags = config_.sampling;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<ChatSource> file,
                            source_of_file(options.tokenizers, config_.chat_template));
  if (file) {
    // Named by the user: servers are not asked for theirs, and do not compare it.
    options.name = "default";
    options.is_given = true;
    options.tokenizers = *file;
    if (options.own) options.own = *file;
  }
  if (remote_ != nullptr) {
    options.tokenizer_hash = tokenizer_->content_hash();
    options.describe = [this](const std::stop_token& stop) {
      if (!told_.valid()) return remote_->describe(stop);
      const std::stop_callback forward(stop, [this] { stop_asking_.request_stop(); });
      return told_.get();
    };
  }
  chat_ = std::make_unique<TargetChat>(std::move(options));
  return {};
}

Result<AnswerConfig> EdgeSetup::answer_config() {
  AnswerConfig config = config_.answer;
  SamplingParams& sampling = config.text.choice.sampling;
  OUTRIDER_ASSIGN_OR_RETURN(const SamplingParams settled, chat_->sampling(sampling));
  if (settled != sampling && settled.temperature > 0) {
    std::fprintf(stderr,
                 "sampling: %s, as the target's generation_config.json says; flags and "
                 "--generation-config none overrule it\n",
                 to_text(all_of(settled)).c_str());
  }
  sampling = settled;
  return config;
}

Status EdgeSetup::load_target() {
  Result<std::unique_ptr<LocalTarget>> target = LocalTarget::load(config_, clock_, &gate_);
  if (target.ok()) {
    target_ = *std::move(target);
  } else if (!needs_own_target(config_)) {
    std::fprintf(stderr, "failover: OFF because %s\n", target.status().message().c_str());
  } else {
    return target.status();
  }
  return {};
}

Status EdgeSetup::draft_by_level() {
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Model> level,
      target_->elastic()->make_draft(config_.draft_level, config_.loading.threads));
  OUTRIDER_ASSIGN_OR_RETURN(draft_, LocalDraft::of(std::move(level), config_, clock_, &gate_));
  return {};
}

// It comes back where the user asks for it: --draft-source model or both.
Status EdgeSetup::rest_slow_draft() {
  const std::array<Model*, 2> models = {&draft_->model(), &target_->model()};
  for (const Model* model : models) {
    if (model->info().max_positions < kTimedRows) return {};
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto times, times_of_row(models, clock_));
  const auto [step, pass] = times;
  if (step <= kMaxStepOfPass * pass) return {};
  std::fprintf(
      stderr,
      "draft: %s rests and look-up drafts, because a step of it takes %.3g ms of the cores "
      "on which a pass of the target takes %.3g ms. --draft-source model or both overrules "
      "this\n",
      draft_->info().name.c_str(), to_ms(step), to_ms(pass));
  draft_.reset();
  shares_cores_ = shares_cores(config_, flash(), false);
  return {};
}

// Alone, or beside the draft model.
Status EdgeSetup::add_lookup() {
  LookupOptions options{.vocab_size = tokenizer_->vocab_size()};
  if (config_.answer.context > 0) options.max_positions = config_.answer.context;
  if (draft_ != nullptr) {
    options.vocab_size = std::max(options.vocab_size, draft_->info().vocab_size);
    options.max_positions = draft_->info().max_positions;
  }
  auto lookup = std::make_unique<LookupModel>(options);
  if (!config_.lookup_corpus.empty()) {
    OUTRIDER_RETURN_IF_ERROR(remember_corpus(config_.lookup_corpus, *tokenizer_, *lookup));
  }
  if (draft_ != nullptr) return draft_->guess_beside(std::move(lookup));
  DrafterOptions drafting = config_.drafter;
  drafting.max_positions = config_.answer.context;
  OUTRIDER_ASSIGN_OR_RETURN(draft_, LocalDraft::create(std::move(lookup), drafting, clock_));
  return {};
}

GeneratorParts EdgeSetup::parts(SessionObserver* observer) {
  GeneratorParts parts{.tokenizer = *tokenizer_,
                       .draft = draft_.get(),
                       .verifiers = server() == nullptr ? target_->verifier() : *server(),
                       .accepts_server_nodes = config_.draft_at != DraftSide::kEdge,
                       .shares_cores = shares_cores_,
                       .mode = server() == nullptr ? Mode::kOffline : Mode::kOnline,
                       .failover = {},
                       .link = remote_.get(),
                       .elastic = target_ != nullptr ? target_->elastic() : nullptr,
                       .engine = target_ != nullptr ? target_->engine() : nullptr,
                       .flash = flash(),
                       .clock = clock_,
                       .observer = observer,
                       .learning = learning_ ? &*learning_ : nullptr,
                       .energy = energy_ ? &*energy_ : nullptr,
                       .prices = prices_ ? &*prices_ : nullptr,
                       .power = power_ ? &*power_ : nullptr,
                       .threads = threads_of(config_),
                       .constraints = &*constraints_,
                       .recorder = recorder_.get()};
  if (parts.elastic != nullptr) {
    parts.verifiers.use_level = [target = parts.elastic](std::size_t level) { target->use(level); };
  }
  if (probe_ == nullptr) return parts;
  parts.mode = Mode::kAuto;
  parts.verifiers = VerifierRoutes(*server(), target_->verifier(), *probe_);
  if (config_.metered_limit > 0) {
    parts.verifiers.forbidden = [this] {
      return spent(both_ways(remote_->link_bytes()) + both_ways(remote_->described_bytes()),
                   config_.metered_limit);
    };
  }
  parts.failover = {.options = config_.failover,
                    .fingerprint = target_->info().fingerprint,
                    .arithmetic_id = target_->info().arithmetic_id,
                    .other_model = !config_.offline_target.empty(),
                    .replaced = {}};
  return parts;
}

}  // namespace outrider
