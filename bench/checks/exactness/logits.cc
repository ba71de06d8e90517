// logits: writes a model's logits for given tokens to a file, or compares them with another
// program's. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <sstream>

#include "bench/checks/checks.h"
#include "common/base/files.h"
#include "common/base/output_file.h"
#include "common/engine/model/loader/loader.h"
#include "common/serving/cli/program.h"

namespace outrider {
namespace {

struct LogitsOptions {
  LoadOptions load;
  std::vector<TokenId> ids;
  std::string out;
  std::string against;
  double most = 2e-4;
};

constexpr std::size_t kRowsPerPass = 64;
constexpr std::int64_t kDefaultIds = 96;
constexpr std::int64_t kMaxReferenceBytes = std::int64_t{1} << 32;

// The same default ids as in tests/golden/reference_logits.py.
std::vector<TokenId> default_ids(std::int32_t vocab_size) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < kDefaultIds; ++i) {
    ids.push_back(static_cast<TokenId>((i * i * 7 + i * 13 + 5) % vocab_size));
  }
  return ids;
}

// The header of a .npy file of f32 [rows, columns], version 1.0, padded to 64 bytes.
std::string npy_header(std::size_t rows, std::int32_t columns) {
  constexpr std::size_t kFixedBytes = 10;
  std::ostringstream description;
  description << "{'descr': '<f4', 'fortran_order': False, 'shape': (" << rows << ", " << columns
              << "), }";
  std::string text = description.str();
  text.append(63 - (kFixedBytes + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// The values of a .npy file whose header is npy_header() of the same shape.
Result<std::vector<float>> read_npy(const std::string& path, std::size_t rows,
                                    std::int32_t columns) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kMaxReferenceBytes));
  const std::size_t size = rows * static_cast<std::size_t>(columns);
  const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
  const std::string start = bytes.substr(0, 128);
  const bool ours = start.starts_with("\x93NUMPY") && bytes.size() >= size * sizeof(float) &&
                    start.find("'<f4'") != std::string::npos &&
                    start.find("'fortran_order': False") != std::string::npos &&
                    start.find(shape) != std::string::npos;
  if (!ours) {
    return invalid_argument(path + ": must be a .npy file of little-endian f32 of shape " + shape);
  }
  std::vector<float> values(size);
  std::memcpy(values.data(), bytes.data() + bytes.size() - size * sizeof(float),
              size * sizeof(float));
  return values;
}

// Prefills the ids as one chain. Returns [ids, vocabulary].
Result<std::vector<float>> compute(Model& model, std::span<const TokenId> ids) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model.new_cache(static_cast<std::int32_t>(ids.size())));
  std::vector<float> logits;
  PassOutput pass;
  while (!ids.empty()) {
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId id : ids.first(std::min(ids.size(), kRowsPerPass))) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
      rows.push_back({cache.get(), slot, id});
    }
    OUTRIDER_RETURN_IF_ERROR(model.forward(rows, pass));
    cache->slots().commit(slot);
    logits.insert(logits.end(), pass.logits.begin(), pass.logits.end());
    ids = ids.subspan(rows.size());
  }
  return logits;
}

constexpr OutputKind kArrayFile{.name = "a .npy file", .is_earlier = [](std::string_view content) {
                                  return content.starts_with("\x93NUMPY");
                                }};

Status write_npy(const std::string& path, std::size_t rows, std::int32_t columns,
                 const std::vector<float>& logits) {
  OUTRIDER_ASSIGN_OR_RETURN(OutputFile out, OutputFile::create(path, kArrayFile));
  OUTRIDER_RETURN_IF_ERROR(out.write(npy_header(rows, columns)));
  OUTRIDER_RETURN_IF_ERROR(out.write(std::as_bytes(std::span(logits))));
  return out.commit();
}

// The largest |difference| / max(1, |reference|); infinite if there is a NaN.
double largest_difference(const std::vector<float>& logits, const std::vector<float>& reference) {
  double worst = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected = reference[i];
    const double difference =
        std::abs(static_cast<double>(logits[i]) - expected) / std::max(1.0, std::abs(expected));
    worst = difference <= HUGE_VAL ? std::max(worst, difference) : HUGE_VAL;
  }
  return worst;
}

Result<CheckOutcome> run_logits(const LogitsOptions& options) {
  if (options.out.empty() && options.against.empty()) {
    return invalid_argument("nothing to do. Remedy: --out, --against, or both");
  }
  if (!options.out.empty()) OUTRIDER_RETURN_IF_ERROR(OutputFile::check(options.out, kArrayFile));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_model(options.load));
  const std::int32_t vocab = model->info().vocab_size;
  const std::vector<TokenId> ids = options.ids.empty() ? default_ids(vocab) : options.ids;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> logits, compute(*model, ids));
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"rows", ids.size()},
                     {"vocab_size", vocab},
                     {"dtype", model->info().dtype},
                     {"architecture", model->info().architecture},
                     {"fingerprint", model->info().fingerprint},
                     {"arithmetic_id", model->info().arithmetic_id}};
  if (!options.against.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> reference,
                              read_npy(options.against, ids.size(), vocab));
    const double worst = largest_difference(logits, reference);
    outcome.figures["distance"] = worst;
    outcome.figures["most"] = options.most;
    outcome.passed = worst <= options.most;
  }
  if (!options.out.empty()) {  // after what is read, so that it is not written over
    OUTRIDER_RETURN_IF_ERROR(write_npy(options.out, ids.size(), vocab, logits));
    outcome.figures["out"] = options.out;
  }
  return outcome;
}

}  // namespace

void add_logits_check(CheckList& checks) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = checks.add("logits", "Logits of given tokens, as a .npy file or against one",
                                 [options] { return run_logits(*options); });
  command->add_option("--model", options->load.directory, "Model directory or GGUF file")
      ->required();
  command->add_option("--dtype", options->load.dtype, "auto, f32, bf16, int8 or int4");
  command->add_option("--device", options->load.device, "cpu or cuda");
  command->add_option("--threads", options->load.threads, "Compute threads; 0: one per CPU");
  command->add_flag("--check-tensors", options->load.check_finite,
                    "Refuse weights that hold NaN or infinity");
  command
      ->add_option("--ids", options->ids,
                   "Token ids separated by commas [96 spread over the vocabulary]")
      ->delimiter(',');
  command->add_option("--out", options->out, "File for the f32 array [ids, vocabulary]");
  add_force_flag(*command);
  command->add_option(
      "--against", options->against,
      "Compare with this file of another program (tests/golden/reference_logits.py)");
  command->add_option("--most", options->most,
                      "The bar with --against: largest |difference| / max(1, |logit|)");
}

}  // namespace outrider
