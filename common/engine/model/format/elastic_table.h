// The level table of an elastic model, elastic.json: the order of its units and its named levels
// (ElastiLM, section 3.2; docs/elastic.md).
//
// A unit is what can be left out of a layer without changing another shape: a neuron of the
// feed-forward block (a row of gate and up, a column of down), or a key/value group (a head of k
// and v with the query heads that share it, and their columns of o). The order puts a layer's
// important units first, so that a level is the first units of each layer: a prefix of rows, or of
// columns. Every width is whole groups of 32 columns (quant_format.h), so a level's products are
// those of the full model, ended early.
//
//   {"version": 1, "model": "<fingerprint>", "anchors": [0, 29],
//    "order": [{"neurons": [7, 0, ..], "kv_groups": [2, 0, 1]}, ..],   by layer; []: as stored
//    "levels": [{"name": "100", "neurons": [1536, ..], "kv_groups": [3, ..],
//                "bytes": {"int8": ..}, "divergence": 0.0, "agreement": 1.0}, ..]}
//
// Where a task was measured, the table names it ("task": "robot actions"), and each level has the
// "score" of its own answers; the full level's is above 0 (outrider-bench elastic actions).
//
// The full level is the first, and levels are nested. Where 32 neurons stay together, as stored,
// "neuron_groups" is the order of these groups in place of "neurons".
// A layer of a level that has neither neurons nor groups is skipped.
//
// Thread rule: values; pure functions except read_elastic_table(). Errors: INVALID_ARGUMENT or
// DATA_LOSS naming the field, its value and the remedy; nothing of a wrong table is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/format/config.h"

namespace outrider {

inline constexpr std::int64_t kElasticGroup = 32;  // columns; a width is whole groups
inline constexpr std::size_t kMaxElasticLevels = 32;
inline constexpr std::int64_t kMaxElasticFileBytes = 64 << 20;
inline constexpr char kElasticFile[] = "elastic.json";

// Unit i of the reordered layer is unit neurons[i] or kv_groups[i] as stored; empty: as stored.
struct LayerOrder {
  std::vector<std::int32_t> neurons = {};
  std::vector<std::int32_t> kv_groups = {};
};

// How many of a layer's first units a level has.
struct LayerWidths {
  std::int32_t neurons = 0;
  std::int32_t kv_groups = 0;

  friend bool operator==(const LayerWidths&, const LayerWidths&) = default;
};

struct ElasticLevel {
  std::string name;
  std::vector<LayerWidths> layers = {};
  // Weights that a single-row pass reads, by dtype: "f32", "bf16", "int8", "int4".
  std::map<std::string, std::int64_t> bytes = {};
  // Beside the full model, over the same texts: the mean Kullback-Leibler divergence of a token's
  // distribution in nats, and the share of positions with the same most likely token.
  double divergence = 0.0;
  double agreement = 1.0;
  double score = 0.0;  // of the table's task; more is better
};

struct ElasticTable {
  std::string model;                  // the fingerprint of the model as stored
  std::vector<std::int32_t> anchors;  // layers that every level has whole
  std::vector<LayerOrder> order;      // [layers]
  std::vector<ElasticLevel> levels;   // [1 .. kMaxElasticLevels], the full one first
  std::string task = {};              // whose answers are scored; empty: none

  const ElasticLevel& full() const { return levels.front(); }
};

// The widths of a model's whole layers.
LayerWidths full_widths(const ModelConfig& config);
// Columns of o, and rows of q, of one key/value group.
std::int64_t group_columns(const ModelConfig& config);

// UNIMPLEMENTED naming what a model has that no level can leave out: experts, or biases behind a
// block's last matrix.
Status check_elastic(const ModelConfig& config);

// The text of a table, checked against the model that it is for. what: names it in errors.
Result<ElasticTable> parse_elastic_table(std::string_view text, const ModelConfig& config,
                                         const std::string& fingerprint, const std::string& what);
Result<ElasticTable> read_elastic_table(const std::string& path, const ModelConfig& config,
                                        const std::string& fingerprint);
// The text that parse_elastic_table() reads, a layer or level a line.
std::string elastic_table_text(const ElasticTable& table);

// How good a level's answers are, the full model's being 1: its score as a share of the full
// level's, or else e to the minus its divergence.
double level_quality(const ElasticTable& table, const ElasticLevel& level);
// The least quality with which a level answers by a deadline where a request names none: 0.95 of
// the task's score, or else a divergence of 0.25 nats.
double least_quality(const ElasticTable& table);

// NOT_FOUND listing the levels that there are.
Result<const ElasticLevel*> find_level(const ElasticTable& table, std::string_view name);

// A name of the difference between the reordered model's arithmetic and the stored one's; empty if
// there is none.
std::string order_id(const ElasticTable& table);
// A name of the difference between a level and the full model; empty for the full model.
std::string level_id(const ElasticTable& table, const ElasticLevel& level);

// Weights and biases that a level leaves out.
std::int64_t left_out(const ModelConfig& config, const ElasticLevel& level);

// ElasticLevel::bytes: of the layers' matrices and the output matrix with the scales of their
// groups (int4 leaves the output matrix at int8), and of norms and biases in f32.
std::map<std::string, std::int64_t> level_bytes(const ModelConfig& config,
                                                std::span<const LayerWidths> layers);

}  // namespace outrider
