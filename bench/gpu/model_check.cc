// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/model_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/rows/row_scenarios.h"
#include "common/decoding/exits/adapter_heads.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider::gpu {
namespace {

using nlohmann::json;

constexpr int kPasses = 30;
constexpr std::int32_t kContext = 1000;

// Sequences behind a text, whose rows go through one pass again and again.
class PassTimer {
 public:
  // tap: null for none.
  PassTimer(Model& model, LayerTap* tap) : model_(model) { out_.tap = tap; }

  // The median milliseconds of passes of `sessions` sequences with `each` rows.
  Result<double> measure(int sessions, int each) {
    caches_.clear();
    for (int i = 0; i < sessions; ++i) OUTRIDER_RETURN_IF_ERROR(add_sequence());
    std::vector<double> times;
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<Row> rows;
      for (const auto& cache : caches_) {
        Slot slot = kRootSlot;
        for (int i = 0; i < each; ++i) {
          OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
          rows.push_back({cache.get(), slot, i % model_.info().vocab_size});
        }
      }
      const auto begin = std::chrono::steady_clock::now();
      OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out_));
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      times.push_back(took.count());
      for (const auto& cache : caches_) cache->slots().release_all_uncommitted();
    }
    std::ranges::nth_element(times, times.begin() + kPasses / 2);
    return std::round(times[kPasses / 2] * 1000) / 1000;
  }

 private:
  Status add_sequence() {
    const std::int32_t context =
        static_cast<std::int32_t>(std::min<Position>(kContext, model_.info().max_positions - 64));
    OUTRIDER_ASSIGN_OR_RETURN(auto cache, model_.new_cache(context + 64));
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (std::int32_t i = 0; i < context; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
      rows.push_back({cache.get(), slot, i % model_.info().vocab_size, false});
    }
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out_));
    cache->slots().commit(slot);
    caches_.push_back(std::move(cache));
    return {};
  }

  Model& model_;
  PassOutput out_;
  std::vector<std::unique_ptr<KvCache>> caches_;
};

Status measure_passes(Model& model, LayerTap* tap, json& passes) {
  PassTimer timer(model, tap);
  for (const auto& [sessions, each] :
       {std::pair{1, 1}, {1, 8}, {1, 33}, {16, 1}, {64, 1}, {64, 5}}) {
    OUTRIDER_ASSIGN_OR_RETURN(const double time, timer.measure(sessions, each));
    passes.push_back({{"sessions", sessions}, {"rows_each", each}, {"ms", time}});
  }
  return {};
}

// Hidden states of a chain after every layer.
class RecordingTap final : public LayerTap {
 public:
  bool wants(std::int32_t /*layer*/) const override { return true; }
  void on_layer(const HiddenRows& rows) override {
    seen.insert(seen.end(), rows.values, rows.values + rows.count * rows.width);
  }
  std::vector<float> seen;
};

Result<std::vector<float>> hidden_states(Model& model, std::int32_t length) {
  RecordingTap tap;
  OUTRIDER_ASSIGN_OR_RETURN(auto cache, model.new_cache(length));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::int32_t i = 0; i < length; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
    rows.push_back({cache.get(), slot, i % model.info().vocab_size, i % 3 == 0});
  }
  PassOutput out;
  out.tap = &tap;
  OUTRIDER_RETURN_IF_ERROR(model.forward(rows, out));
  return std::move(tap.seen);
}

// How many numbers of the hidden states differ, of so many; several lengths, one after the other.
Status compare_hidden_states(Model& cpu, Model& device, json& row) {
  std::int64_t compared = 0, different = 0;
  for (const std::int32_t length : {1, 7, 40, 40, 7}) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> expected, hidden_states(cpu, length));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> got, hidden_states(device, length));
    compared += std::ssize(expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool is_equal = i < got.size() && std::memcmp(&expected[i], &got[i], 4) == 0;
      different += is_equal ? 0 : 1;
    }
  }
  row["hidden_compared"] = compared;
  row["hidden_different"] = different;
  return {};
}

// Early exits as the device computes them beside its pass; when asked to, also on the host.
class ExitTap final : public LayerTap {
 public:
  explicit ExitTap(ExitHeads& heads, std::int32_t vocab_size)
      : heads_(heads), vocab_(static_cast<std::size_t>(vocab_size)) {}

  bool wants(std::int32_t layer) const override {
    return std::ranges::count(heads_.layers(), layer) > 0;
  }
  void on_layer(const HiddenRows& rows) override {
    compute(rows, logits_);
    if (!compares) return;
    HiddenRows on_host = rows;
    on_host.head_logits = nullptr;
    compute(on_host, expected_);
    compared += rows.head_logits != nullptr ? std::ssize(logits_) : 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      different += std::memcmp(&logits_[i], &expected_[i], sizeof(float)) != 0 ? 1 : 0;
    }
  }

  bool compares = true;
  std::int64_t compared = 0, different = 0;

 private:
  void compute(const HiddenRows& rows, std::vector<float>& logits) {
    const auto layers = heads_.layers();
    const auto exit = std::ranges::find(layers, rows.layer) - layers.begin();
    logits.resize(rows.count * vocab_);
    heads_.compute(static_cast<std::size_t>(exit), rows, logits);
  }

  ExitHeads& heads_;
  const std::size_t vocab_;
  std::vector<float> logits_, expected_;
};

// Exits with drawn adapters after a quarter, a half and three quarters of the layers: how many of
// their numbers differ from the host's, and the times of passes with them.
Status check_exits(const ModelFiles& files, Model& device, bool measures, json& row) {
  constexpr std::int32_t kInner = 64;
  std::vector<std::int32_t> layers;
  for (const std::int32_t quarter : {1, 2, 3}) {
    const std::int32_t layer = device.info().num_layers * quarter / 4;
    if (layer > 0 && (layers.empty() || layer > layers.back())) layers.push_back(layer);
  }
  if (layers.empty()) return {};
  Result<std::unique_ptr<ExitHeads>> heads =
      make_adapter_heads(random_adapters(device.info(), layers, kInner, 1), files);
  const Status offered = heads.ok() ? (*heads)->offer_to(device) : heads.status();
  if (!offered.ok()) {
    row["exits"] = offered.message();
    return {};
  }
  ExitTap tap(**heads, device.info().vocab_size);
  PassOutput out;
  out.tap = &tap;
  OUTRIDER_ASSIGN_OR_RETURN(auto cache, device.new_cache(64));
  Slot slot = kRootSlot;
  for (const std::int32_t count : {1, 7, 33}) {
    std::vector<Row> rows;
    for (std::int32_t i = 0; i < count; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
      rows.push_back({cache.get(), slot, i % device.info().vocab_size});
    }
    OUTRIDER_RETURN_IF_ERROR(device.forward(rows, out));
  }
  row["exits_compared"] = tap.compared;
  row["exits_different"] = tap.different;
  tap.compares = false;
  return measures ? measure_passes(device, &tap, row["passes_with_exits"]) : Status();
}

// The first layers of a model, whose files stay loaded.
std::shared_ptr<const ModelFiles> first_layers(std::shared_ptr<const ModelFiles> files,
                                               std::int32_t layers) {
  if (layers == 0 || layers >= files->config.num_layers) return files;
  struct Shortened {
    std::shared_ptr<const ModelFiles> whole;
    ModelFiles files;
  };
  const auto kept = std::make_shared<Shortened>(
      Shortened{files,
                {.name = files->name,
                 .config = files->config,
                 .weights = Weights::from_views(nullptr, files->weights.tensors()),
                 .fingerprint = files->fingerprint}});
  ModelConfig& config = kept->files.config;
  config.num_layers = layers;
  if (!config.layer_ropes.empty()) config.layer_ropes.resize(static_cast<std::size_t>(layers));
  if (!config.windows.empty()) config.windows.resize(static_cast<std::size_t>(layers));
  return {kept, &kept->files};
}

// Computes as an answer does: a prompt in one pass, a tree behind it, then the likeliest tokens one
// by one.
class AnswerCheck {
 public:
  AnswerCheck(Model& model, std::string label, RowBook& book)
      : model_(model), label_(std::move(label)), book_(book) {}

  Status run() {
    constexpr std::int32_t kPrompt = 128, kTree = 33, kTokens = 8;
    OUTRIDER_ASSIGN_OR_RETURN(cache_, model_.new_cache(kPrompt + kTree + kTokens));
    Slot last = kRootSlot;
    for (std::int32_t i = 0; i < kPrompt; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(last, add(last, i * 7919, i + 1 == kPrompt));
    }
    OUTRIDER_RETURN_IF_ERROR(forward("prompt"));
    cache_->slots().commit(last);
    std::int32_t next = likeliest();
    std::vector<Slot> nodes;
    for (std::int32_t i = 0; i < kTree; ++i) {
      const Slot parent = i == 0 ? kRootSlot : nodes[static_cast<std::size_t>((i - 1) / 2)];
      OUTRIDER_ASSIGN_OR_RETURN(const Slot node, add(parent, next + i * 31, true));
      nodes.push_back(node);
    }
    OUTRIDER_RETURN_IF_ERROR(forward("tree"));
    cache_->slots().release_all_uncommitted();
    for (std::int32_t i = 0; i < kTokens; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(last, add(kRootSlot, next, true));
      OUTRIDER_RETURN_IF_ERROR(forward("token " + std::to_string(i)));
      cache_->slots().commit(last);
      next = likeliest();
    }
    return {};
  }

 private:
  Result<Slot> add(Slot parent, std::int32_t number, bool wants_logits) {
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, cache_->slots().append(parent));
    rows_.push_back({cache_.get(), slot, number % model_.info().vocab_size, wants_logits});
    return slot;
  }

  Status forward(const std::string& what) {
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows_, out_));
    rows_.clear();
    const auto width = static_cast<std::size_t>(model_.info().vocab_size);
    for (std::size_t i = 0; i * width < out_.logits.size(); ++i) {
      book_.record("answer/" + what + "/" + std::to_string(i), label_,
                   hash_logits(std::span(out_.logits).subspan(i * width, width)));
    }
    return {};
  }

  // The likeliest token of the last row.
  std::int32_t likeliest() const {
    const auto first = out_.logits.end() - model_.info().vocab_size;
    return static_cast<std::int32_t>(std::max_element(first, out_.logits.end()) - first);
  }

  Model& model_;
  const std::string label_;
  RowBook& book_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Row> rows_;
  PassOutput out_;
};

Result<json> check_dtype(const std::shared_ptr<const ModelFiles>& files, const std::string& dtype,
                         const ModelCheckOptions& options, const DeviceMaker& make_device) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto cpu,
                            make_cpu_model(files, {.dtype = dtype, .progress = {}}));
  OUTRIDER_ASSIGN_OR_RETURN(auto api, make_device());
  const std::string name = api->facts().name;
  OUTRIDER_ASSIGN_OR_RETURN(
      const auto model,
      cuda::make_cuda_model(files, std::move(api),
                            {.dtype = dtype, .kv_bytes = options.kv_bytes, .progress = {}}));
  RowBook book;
  for (int number = 0; number < options.cases; ++number) {
    std::fprintf(stderr, "%s, %s: case %d of %d\n", files->name.c_str(), dtype.c_str(), number + 1,
                 options.cases);
    const RowCase row_case = make_row_case(number, model->info().vocab_size);
    OUTRIDER_RETURN_IF_ERROR(run_row_case_once(*cpu, row_case, "cpu", book));
    OUTRIDER_RETURN_IF_ERROR(run_row_case(*model, row_case, "device", book));
  }
  if (options.answers) {
    OUTRIDER_RETURN_IF_ERROR(AnswerCheck(*cpu, "cpu", book).run());
    OUTRIDER_RETURN_IF_ERROR(AnswerCheck(*model, "device", book).run());
  }
  const std::size_t shown = std::min<std::size_t>(book.mismatched().size(), 5);
  json row = {{"model", files->name},
              {"device", name},
              {"dtype", dtype},
              {"layers", files->config.num_layers},
              {"compared", book.compared()},
              {"mismatches", book.mismatches()},
              {"mismatched", std::vector<std::string>(
                                 book.mismatched().begin(),
                                 book.mismatched().begin() + static_cast<std::ptrdiff_t>(shown))},
              {"same_id", model->info().arithmetic_id == cpu->info().arithmetic_id}};
  OUTRIDER_RETURN_IF_ERROR(compare_hidden_states(*cpu, *model, row));
  if (options.measures) OUTRIDER_RETURN_IF_ERROR(measure_passes(*model, nullptr, row["passes"]));
  OUTRIDER_RETURN_IF_ERROR(check_exits(*files, *model, options.measures, row));
  return row;
}

}  // namespace

Result<ModelCheck> check_model(const ModelCheckOptions& options, const DeviceMaker& make_device) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> whole,
                            load_model_files(options.model, {}));
  const auto files = first_layers(whole, options.layers);
  ModelCheck check;
  for (const std::string& dtype : options.dtypes) {
    OUTRIDER_ASSIGN_OR_RETURN(json row, check_dtype(files, dtype, options, make_device));
    check.holds = check.holds && row["mismatches"] == 0 && row["hidden_different"] == 0 &&
                  row.value("exits_different", 0) == 0 && row["same_id"] == true;
    check.rows.push_back(std::move(row));
  }
  return check;
}

}  // namespace outrider::gpu
