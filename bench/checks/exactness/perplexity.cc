// perplexity: the loss of quality by a cheaper arithmetic, on the answers of a prompt file or on a
// text. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "common/base/files.h"
#include "common/base/output_file.h"
#include "common/serving/cli/program.h"

namespace outrider {
namespace {

struct PerplexityOptions {
  std::string model;
  std::string prompts;
  std::string text;
  std::size_t tokens = 20000;
  std::size_t window = 512;
  std::string dtype = "int8";
  std::string reference = "f32";
  std::size_t num_prompts = 0;
  int threads = 2;
  double max_loss = 0.005;
  std::string windows_out = {};
};

constexpr std::size_t kRowsPerPass = 64;
constexpr std::int64_t kMaxTextBytes = 64 << 20;

// Negative log-likelihood of tokens, in nats.
struct Likelihood {
  double sum = 0;
  std::uint64_t tokens = 0;
  double perplexity() const { return std::exp(sum / static_cast<double>(tokens)); }
};

Likelihood sum_of(const std::vector<Likelihood>& parts) {
  Likelihood sum;
  for (const Likelihood& part : parts) {
    sum.sum += part.sum;
    sum.tokens += part.tokens;
  }
  return sum;
}

// The relative rise of perplexity, with each prompt compared with itself.
std::optional<Estimate> loss_of(const std::vector<Likelihood>& reference,
                                const std::vector<Likelihood>& measured) {
  return bootstrap(measured.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     double more = 0, tokens = 0;
                     for (const std::size_t prompt : indices) {
                       more += measured[prompt].sum - reference[prompt].sum;
                       tokens += static_cast<double>(measured[prompt].tokens);
                     }
                     return tokens > 0 ? std::optional(std::exp(more / tokens) - 1) : std::nullopt;
                   });
}

double negative_log_likelihood(std::span<const float> logits, TokenId token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

// Adds the answer's tokens, each given all tokens before it. text: prompt and answer.
Status add_text(Model& model, std::span<const TokenId> text, std::size_t prompt_length,
                Likelihood& likelihood) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model.new_cache(static_cast<std::int32_t>(text.size())));
  PassOutput pass;
  const std::size_t last = text.size() - 1;  // the last token predicts nothing
  for (std::size_t begin = 0; begin < last; begin += kRowsPerPass) {
    const std::size_t end = std::min(begin + kRowsPerPass, last);
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (std::size_t i = begin; i < end; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
      rows.push_back({cache.get(), slot, text[i], i + 1 >= prompt_length});
    }
    OUTRIDER_RETURN_IF_ERROR(model.forward(rows, pass));
    cache->slots().commit(slot);
    std::size_t row = 0;
    for (std::size_t i = std::max(begin + 1, prompt_length); i <= end; ++i, ++row) {
      likelihood.sum += negative_log_likelihood(pass.row(row), text[i]);
      ++likelihood.tokens;
    }
  }
  return {};
}

// [prompt]
Result<std::vector<Likelihood>> measure(const PerplexityOptions& options, const std::string& dtype,
                                        const std::vector<BenchPrompt>& prompts) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            load_bench_model(options.model, dtype, options.threads));
  std::vector<Likelihood> likelihoods;
  for (const BenchPrompt& prompt : prompts) {
    std::vector<TokenId> text = prompt.ids;
    text.insert(text.end(), prompt.answer.begin(), prompt.answer.end());
    const auto longest = static_cast<std::size_t>(model->info().max_positions);
    text.resize(std::min(text.size(), longest));
    if (prompt.ids.empty() || text.size() <= prompt.ids.size()) continue;
    OUTRIDER_RETURN_IF_ERROR(add_text(*model, text, prompt.ids.size(), likelihoods.emplace_back()));
  }
  const Likelihood all = sum_of(likelihoods);
  if (all.tokens == 0) {
    return invalid_argument(options.prompts + options.text +
                            ": no text to measure; a prompt file's lines need an \"answer\"");
  }
  std::fprintf(stderr, "perplexity: %s %.4f over %llu tokens\n", dtype.c_str(), all.perplexity(),
               static_cast<unsigned long long>(all.tokens));
  return likelihoods;
}

// The beginning of a text in windows that are computed apart, so that they are independent. A
// window's first token is a prompt; the others are measured.
Result<std::vector<BenchPrompt>> read_windows(const PerplexityOptions& options,
                                              const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(options.text, kMaxTextBytes));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.encode(text));
  if (ids.size() > options.tokens) ids.resize(options.tokens);
  std::vector<BenchPrompt> windows;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += options.window) {
    const std::span<const TokenId> window =
        std::span<const TokenId>(ids).subspan(begin, std::min(options.window, ids.size() - begin));
    if (window.size() < 2) break;
    BenchPrompt& prompt = windows.emplace_back();
    prompt.ids = {window[0]};
    prompt.answer.assign(window.begin() + 1, window.end());
  }
  return windows;
}

constexpr OutputKind kWindowsFile{
    .name = "a list of token ids", .is_earlier = [](std::string_view content) {
      return content.starts_with("[") &&
             content.find_first_not_of("[0123456789,]\n") == std::string_view::npos;
    }};

// Writes one JSON array of token ids per line, so that another program can measure the same
// (bench/peers).
Status write_windows(const std::string& path, const std::vector<BenchPrompt>& windows) {
  std::string text;
  for (const BenchPrompt& window : windows) {
    std::vector<TokenId> ids = window.ids;
    ids.insert(ids.end(), window.answer.begin(), window.answer.end());
    text += Json(ids).dump() + "\n";
  }
  return write_output(path, kWindowsFile, text).with_context("--write-windows");
}

Result<std::vector<BenchPrompt>> read_texts(const PerplexityOptions& options,
                                            const Tokenizer& tokenizer) {
  if (options.text.empty() == options.prompts.empty()) {
    return invalid_argument("give --prompts or --text");
  }
  if (!options.text.empty()) return read_windows(options, tokenizer);
  return read_prompts(options.prompts, tokenizer, options.num_prompts);
}

Result<CheckOutcome> run_perplexity(const PerplexityOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.model));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts, read_texts(options, tokenizer));
  if (!options.windows_out.empty()) {
    OUTRIDER_RETURN_IF_ERROR(write_windows(options.windows_out, prompts));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Likelihood> reference,
                            measure(options, options.reference, prompts));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Likelihood> measured,
                            measure(options, options.dtype, prompts));
  const auto loss = loss_of(reference, measured);
  if (!loss) return internal_error("no prompt was measured");
  const Bar bar{"relative rise of perplexity", *loss, options.max_loss, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"perplexity", sum_of(measured).perplexity()},
                     {"reference_perplexity", sum_of(reference).perplexity()},
                     {"relative_loss", loss->value},
                     {"tokens", sum_of(measured).tokens},
                     {"dtype", options.dtype},
                     {"reference", options.reference}};
  outcome.hold({&bar, 1});
  return outcome;
}

}  // namespace

void add_perplexity_check(CheckList& checks) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = checks.add(
      "perplexity", "Perplexity of answers or a text in one dtype against that in another",
      [options] { return run_perplexity(*options); });
  command->add_option("--model", options->model, "Model directory or GGUF file")->required();
  command->add_option("--prompts", options->prompts, "JSONL file with \"prompt\" and \"answer\"");
  command->add_option("--text", options->text, "Plain text, in place of prompts");
  command->add_option("--tokens", options->tokens, "With --text: only the first N tokens");
  command->add_option("--window", options->window, "With --text: tokens of one window")
      ->check(CLI::Range(2, 1 << 20));
  command->add_option("--write-windows", options->windows_out,
                      "File for the measured token ids, one JSON array per line");
  add_force_flag(*command);
  command->add_option("--dtype", options->dtype,
                      "Measured arithmetic: auto, f32, bf16, int8 or int4");
  command->add_option("--reference", options->reference, "Arithmetic to compare with");
  command->add_option("--num-prompts", options->num_prompts, "Only the first N prompts; 0: all");
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
  command->add_option("--most-loss", options->max_loss, "The bar: relative rise of perplexity");
}

}  // namespace outrider
