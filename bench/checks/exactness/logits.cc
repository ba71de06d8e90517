// logits: what a model makes of given tokens, as a file to be held against another program's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/checks/checks.h"
#include "common/model/loader/loader.h"
#ifdef OUTRIDER_BENCH_TORCH
#include "common/model/torch/torch_model.h"
#endif

namespace outrider {
namespace {

struct LogitsOptions {
  LoadOptions load;
  std::string backend = "cpu";
  std::vector<TokenId> ids;
  std::string out;
};

constexpr std::size_t kRowsPerPass = 64;

// The start of a .npy file of f32 [rows, columns], version 1.0: padded to 64 bytes.
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

#ifdef OUTRIDER_BENCH_TORCH
Result<std::unique_ptr<Model>> load_torch(const LoadOptions& load) {
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<const ModelFiles> files,
                            load_model_files(load.directory, {.check_finite = load.check_finite}));
  return make_torch_model(std::move(files), load);
}
#endif

Result<std::unique_ptr<Model>> load_backend(const LogitsOptions& options) {
#ifdef OUTRIDER_BENCH_TORCH
  if (options.backend == "torch") return load_torch(options.load);
  return load_model(options.load, make_torch_model);
#else
  if (options.backend == "torch") {
    return failed_precondition("backend torch: this program was built without libtorch");
  }
  return load_model(options.load);
#endif
}

// Prefills the ids as one chain and writes each pass's rows as they come.
Status write_logits(Model& model, std::span<const TokenId> ids, std::ostream& out) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model.new_cache(static_cast<std::int32_t>(ids.size())));
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
    const auto bytes = std::as_bytes(std::span(pass.logits));
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    ids = ids.subspan(rows.size());
  }
  return {};
}

Result<CheckOutcome> run_logits(const LogitsOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load_backend(options));
  std::ofstream out(options.out, std::ios::binary);
  if (!out) return invalid_argument(options.out + ": cannot be written");
  out << npy_header(options.ids.size(), model->info().vocab_size);
  OUTRIDER_RETURN_IF_ERROR(write_logits(*model, options.ids, out));
  out.close();
  if (!out) return resource_exhausted(options.out + ": cannot be written whole");
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"rows", options.ids.size()},
                     {"vocab_size", model->info().vocab_size},
                     {"dtype", model->info().dtype},
                     {"architecture", model->info().architecture},
                     {"fingerprint", model->info().fingerprint},
                     {"arithmetic_id", model->info().arithmetic_id},
                     {"out", options.out}};
  return outcome;
}

}  // namespace

void add_logits_check(CheckList& checks) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = checks.add("logits", "Logits of given tokens, written as a .npy file",
                                 [options] { return run_logits(*options); });
  command->add_option("--model", options->load.directory, "Model directory")->required();
  command->add_option("--dtype", options->load.dtype, "auto, f32, bf16 or int8");
  command->add_option("--device", options->load.device, "cpu or cuda");
  command->add_option("--backend", options->backend, "Our own kernels, or libtorch as the oracle")
      ->check(CLI::IsMember({"cpu", "torch"}));
  command->add_option("--threads", options->load.threads, "Compute threads; 0: one per CPU");
  command->add_flag("--check-tensors", options->load.check_finite,
                    "Refuse weights that hold NaN or infinity");
  command->add_option("--ids", options->ids, "Token ids, divided by commas")
      ->delimiter(',')
      ->required();
  command->add_option("--out", options->out, "File for the f32 array [ids, vocabulary]")
      ->required();
}

}  // namespace outrider
