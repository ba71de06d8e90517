// The cpu backend: decoder-only transformers on our own vector kernels, without libtorch.
//
// Logits have the same bits on every CPU (AVX2, AVX-512, NEON), for any number of threads, any slot
// order, and any other rows in the pass (docs/row-invariance.md). Only what
// ModelInfo::arithmetic_id names changes them: the weights; "exact", "bf16" (from a wider file),
// "int8", "int4" or "blocks" (a GGUF file's mixed types, unconverted); keys and values in f32 or
// bf16.
//
//   auto files = load_model_files("models/demo-target", {});
//   auto model = make_cpu_model(*files, {.dtype = "int8"});
//
// Thread rule: as model.h; forward() uses `threads` threads of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_kv_pages.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider {

struct CpuModelOptions {
  std::string dtype = "auto";    // "auto" (as stored), "f32", "bf16", "int8", "int4"
  std::string kv_dtype = "f32";  // of keys and values: "f32", "bf16"
  int threads = 0;               // 0: one per CPU
  std::string kernel = "auto";   // "auto" (the fastest), or another of vector_targets.h
  std::string cache_dir =
      {};                   // folder that keeps converted weights for the next start; empty: none
  CacheNotice notice = {};  // called with messages for the user, about conversions and the cache
  LoadProgress progress = {};  // called while weights are converted (int8, int4)
};

// f32, and bf16 or f16 as stored, load at once: weights stay mapped. Errors: INVALID_ARGUMENT
// naming the option; FAILED_PRECONDITION where this CPU lacks the kernel's instructions;
// UNIMPLEMENTED for a shape that the kernels do not support; RESOURCE_EXHAUSTED.
Result<std::unique_ptr<Model>> make_cpu_model(std::shared_ptr<const ModelFiles> files,
                                              const CpuModelOptions& options);

// A model whose layers' matrices come from `layers` (layer_store.h); those of `weights` are not
// read, unless `layers` is null. options: dtype, cache and progress are ignored, because `weights`
// determines them.
Result<std::unique_ptr<Model>> make_cpu_model(CpuWeights weights,
                                              std::unique_ptr<LayerStore> layers,
                                              const CpuModelOptions& options);

// A level of a model that was made from files with a level table (elastic_table.h): a model with
// ids, keys and values of its own over the memory and threads of `full`, which outlives it. Its
// bits are those of the full model with the other units' weights set to zero.
//
// Thread rule: one thread runs a model and its levels, one at a time: a pass of one of them also
// ends the logits that another offered on demand.
// Errors: NOT_FOUND listing the levels; FAILED_PRECONDITION for a model without levels.
Result<std::unique_ptr<Model>> make_level(Model& full, std::string_view level);
// The same for widths that the table need not have, to measure them: [layers], whole groups. level:
// outlives the model. layers: where the level's come from, if full's come from a store.
Result<std::unique_ptr<Model>> make_level(Model& full, const ElasticLevel& level,
                                          std::unique_ptr<LayerStore> layers = nullptr);
// The same level with threads and scratch memory of its own, so that another thread may run it
// beside `full` and the other levels: a draft. threads: as CpuModelOptions. Errors: as above.
Result<std::unique_ptr<Model>> make_level_beside(Model& full, const ElasticLevel& level,
                                                 int threads);

// All levels of `full` as one model: each sequence is computed by the level that its cache names
// (KvCache::level()), full's first. A pass computes level by level, and its rows have the bits that
// they have in a pass of their own level alone; one of several levels calls no tap and no pruner.
// Keys and values lie in the same pages, so what one level wrote may not be shared with another.
// full outlives it. Errors: FAILED_PRECONDITION for a model without levels.
Result<std::unique_ptr<Model>> make_leveled_model(Model& full);

// The level table that a model was loaded with; null: none, or another backend's model.
std::shared_ptr<const ElasticTable> elastic_table_of(const Model& model);

// The facts of models that compute as this one does, on whatever device, and the places of keys and
// values. device_class: "cpu" for a device with the CPU's bits. Errors of kv_layout():
// INVALID_ARGUMENT for another dtype than "f32" and "bf16", UNIMPLEMENTED for too wide heads.
ModelInfo describe_model(const CpuWeights& weights, const KvLayout& kv,
                         const std::string& device_class);
Result<KvLayout> kv_layout(const ModelConfig& config, const std::string& dtype);

// Bytes that new_cache() allocates for keys and values of so many positions.
Result<std::int64_t> cpu_kv_bytes(const ModelConfig& config, const std::string& kv_dtype,
                                  std::int32_t positions);

// The memory that one single-row pass of a model of make_cpu_model() reads, matrix by matrix, for
// measurements. Valid during the life of the model.
std::vector<std::span<const std::byte>> cpu_weight_memory(const Model& model);

// How many bytes of ModelInfo::weight_bytes hold no weight: quantised matrices are padded to whole
// groups and panels.
std::int64_t cpu_weight_padding(const Model& model);

}  // namespace outrider
