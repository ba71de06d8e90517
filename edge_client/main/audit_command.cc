// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json_record.h"
#include "common/base/jsonl.h"
#include "common/serving/cli/program.h"
#include "common/serving/record/record_reader.h"
#include "edge_client/audit/audit.h"
#include "edge_client/audit/sample.h"
#include "edge_client/generation/local_target.h"
#include "edge_client/main/commands.h"
#include "edge_client/main/console.h"

namespace outrider {
namespace {

// A seed that every program that reads JSON reads exactly.
constexpr std::uint64_t kMaxSeed = (std::uint64_t{1} << 53) - 1;

// The target, as records' answers would be decoded on this device.
struct Audited {
  std::unique_ptr<LocalTarget> local;
  std::optional<Tokenizer> tokenizer;
  std::optional<ConstraintCompiler> constraints;
  AuditTarget target;
};

Status load(const AuditOptions& options, Clock& clock, Audited& audited) {
  GenerationConfig config = options.generation;
  config.mode = Mode::kOffline;
  config.answer.speculation.strategy = Strategy::kAr;  // nothing drafts, no exits are loaded
  OUTRIDER_ASSIGN_OR_RETURN(audited.local, LocalTarget::load(config, clock));
  OUTRIDER_ASSIGN_OR_RETURN(audited.tokenizer, load_model_tokenizer(config.target));
  audited.constraints.emplace([&audited] { return grammar_vocabulary(*audited.tokenizer); });
  AuditTarget& target = audited.target;
  if (ElasticTarget* const elastic = audited.local->elastic(); elastic != nullptr) {
    for (std::size_t i = 0; i < elastic->levels().size(); ++i) {
      target.models.push_back(&elastic->model(i));
    }
  } else {
    target.models.push_back(&audited.local->model());
  }
  ChatSource chat = audited.local->chat();
  if (!config.chat_template.empty()) chat.chosen = config.chat_template;
  target.tokenizer_hash = audited.tokenizer->content_hash();
  target.template_hash = template_hash(chat);
  target.constraints = &*audited.constraints;
  return {};
}

Result<std::size_t> count_records(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::open(path));
  for (std::size_t count = 0;; ++count) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<RecordText> text, reader.next());
    if (!text) return count;
  }
}

// By the ids of their records; read when the first record with hashes only comes.
class Texts final {
 public:
  explicit Texts(const AuditOptions& options)
      : path_(options.texts.empty() ? options.file + ".texts" : options.texts) {}

  Status bring_to(RecordedAnswer& answer) {
    if (!std::exchange(is_read_, true)) OUTRIDER_RETURN_IF_ERROR(read());
    const auto found = texts_.find(answer.terms.id);
    if (found == texts_.end()) return data_loss("its texts are not in " + path_);
    return bring_texts(found->second, answer);
  }

 private:
  Status read() {
    return for_each_line(path_, [&](const Json& json, const std::string& where) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(RecordTexts texts, read_json<RecordTexts>(json, where));
      std::string id = texts.id;
      texts_.insert_or_assign(std::move(id), std::move(texts));
      return {};
    });
  }

  const std::string path_;
  bool is_read_ = false;
  std::map<std::string, RecordTexts> texts_;
};

struct Totals {
  std::size_t answers = 0;
  std::size_t audited = 0;
  std::size_t wrong = 0;
  std::size_t is_signed = 0;
  AuditCounts counts;
  Duration took{0};
};

void print_end(const Totals& totals, const AuditOptions& options,
               const std::optional<std::uint64_t>& seed) {
  const double seconds = to_seconds(totals.took);
  std::fprintf(stderr, "audit: %zu tokens in %.3f s, %.3g ms a token\n", totals.counts.tokens,
               seconds,
               1e3 * seconds / static_cast<double>(std::max<std::size_t>(1, totals.counts.tokens)));
  if (totals.counts.without_digests > 0) {
    std::fprintf(stderr,
                 "audit: %zu positions have no digest, because the verifier was older than "
                 "digests: of them only the token is checked\n",
                 totals.counts.without_digests);
  }
  if (options.signer.empty()) {
    std::fprintf(stderr,
                 "audit: %zu of %zu records are signed, by whomever they name. --signer KEY holds "
                 "them to one key\n",
                 totals.is_signed, totals.answers);
  }
  if (seed && totals.audited < totals.answers) {
    std::printf("drawn: %zu of %zu answers by --seed %llu; %s\n", totals.audited, totals.answers,
                static_cast<unsigned long long>(*seed),
                escape_text(totals.answers, totals.audited).c_str());
  }
  std::printf("%s: %zu answers, %zu tokens and %zu digests compared, %zu wrong\n",
              totals.wrong == 0 ? "clean" : "NOT CLEAN", totals.audited, totals.counts.tokens,
              totals.counts.digests, totals.wrong);
}

}  // namespace

Result<int> audit_command(const AuditOptions& options) {
  std::string signer;
  if (!options.signer.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(signer, read_public_key(options.signer));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::size_t count, count_records(options.file));
  if (count == 0) return invalid_argument(options.file + ": has no record");
  std::optional<std::uint64_t> seed = options.seed;
  if (options.sample < 1 && !seed) seed = std::random_device{}() & kMaxSeed;
  const std::vector<bool> drawn = draw_answers(count, options.sample, seed.value_or(0));
  SystemClock clock;
  Audited audited;
  OUTRIDER_RETURN_IF_ERROR(load(options, clock, audited));
  OUTRIDER_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::open(options.file));
  Texts texts(options);
  ReplayCheck replays;
  Totals totals;
  for (std::size_t index = 0; index < count; ++index) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<RecordText> text, reader.next());
    if (!text) return data_loss(options.file + ": became shorter while it was read");
    ++totals.answers;
    const bool reads = drawn[index];
    const auto check = [&]() -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(RecordedAnswer answer, check_record(*text, signer));
      totals.is_signed += answer.is_signed ? 1 : 0;
      OUTRIDER_RETURN_IF_ERROR(replays.add(answer));
      if (!reads) return {};
      if (answer.terms.prompt_hash) OUTRIDER_RETURN_IF_ERROR(texts.bring_to(answer));
      const TimePoint begin = clock.now();
      const Result<AuditCounts> counts = audit(answer, audited.target);
      totals.took += clock.now() - begin;
      OUTRIDER_RETURN_IF_ERROR(counts.status());
      totals.counts += *counts;
      return {};
    };
    totals.audited += reads ? 1 : 0;
    const Status status = check();
    if (status.ok()) continue;
    if (status.code() != StatusCode::kDataLoss && status.code() != StatusCode::kInvalidArgument) {
      return status.with_context(options.file + ", line " + std::to_string(text->first_line));
    }
    ++totals.wrong;
    std::printf("answer %zu, line %zu: %s\n", index + 1, text->first_line,
                without_controls(status.message()).c_str());
  }
  print_end(totals, options, seed);
  return totals.wrong == 0 ? kExitOk : kExitRuntime;
}

}  // namespace outrider
