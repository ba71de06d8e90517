// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/model_goldens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "common/base/files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

constexpr std::uint64_t kSeed = 1;  // that of the script
const std::string kFolder = source_dir() + "/tests/golden/model/";
const std::string kGgufFolder = source_dir() + "/tests/golden/gguf/";

std::string contents(const std::string& path) {
  Result<std::string> text = read_file(path, 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status().to_string();
  return text.ok() ? *std::move(text) : "";
}

// The f32 values of a .npy file, version 1: 10 bytes, the last two the length of the description.
std::vector<float> read_npy(const std::string& path) {
  const std::string bytes = contents(path);
  EXPECT_TRUE(bytes.starts_with("\x93NUMPY\x01") && bytes.find("'<f4'") < 128) << path;
  const std::size_t begin =
      10 + static_cast<unsigned char>(bytes.at(8)) + 256u * static_cast<unsigned char>(bytes.at(9));
  std::vector<float> values((bytes.size() - begin) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(float));
  return values;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Moves the tensors of model.safetensors into shards, round robin.
void split_into_shards(const std::string& directory, int num_shards) {
  const std::string single = directory + "/model.safetensors";
  const Result<Weights> weights = Weights::open(directory);
  ASSERT_TRUE(weights.ok()) << weights.status().to_string();
  std::map<std::string, std::vector<TensorBytes>> shards;
  Json index;
  int number = 0;
  for (const auto& [name, tensor] : weights->tensors()) {
    const std::string shard = "model-" + std::to_string(number++ % num_shards) + ".safetensors";
    index["weight_map"][name] = shard;
    shards[shard].push_back({{name, tensor.dtype, tensor.shape}, {tensor.data, tensor.num_bytes}});
  }
  for (const auto& [file, tensors] : shards) {
    ASSERT_TRUE(write_safetensors(directory + "/" + file, tensors).ok());
  }
  write_text(directory + "/model.safetensors.index.json", index.dump());
  std::remove(single.c_str());
}

Json read_cases(const std::string& folder) {
  Json json = Json::parse(contents(folder + "cases.json"), nullptr, false);
  EXPECT_TRUE(json.is_object());
  return json;
}

// text: has the ids and the positions.
ModelGolden make_golden(const std::string& folder, const std::string& name, const Json& text) {
  ModelGolden golden;
  golden.name = name;
  golden.ids = text.at("ids").get<std::vector<TokenId>>();
  golden.positions = text.at("positions").get<std::vector<Position>>();
  golden.logits = read_npy(folder + name + ".npy");
  return golden;
}

}  // namespace

std::vector<ModelGolden> load_model_goldens() {
  const Json json = read_cases(kFolder);
  std::vector<ModelGolden> goldens;
  for (const Json& entry : json.value("cases", Json::array())) {
    ModelGolden& golden = goldens.emplace_back(make_golden(kFolder, entry.at("name"), json));
    golden.config_text = entry.at("config").dump();
    golden.storage = parse_dtype(entry.at("storage").get<std::string>()).value();
    golden.num_shards = entry.at("shards");
  }
  return goldens;
}

std::vector<ModelGolden> load_demo_goldens() {
  const Json json = read_cases(kFolder);
  std::vector<ModelGolden> goldens;
  for (const Json& entry : json.value("demo", Json::array())) {
    goldens.push_back(make_golden(kFolder, entry.at("name"), entry));
  }
  return goldens;
}

std::vector<GgufGolden> load_gguf_goldens() {
  const Json json = read_cases(kGgufFolder);
  std::vector<GgufGolden> goldens;
  for (const Json& entry : json.value("cases", Json::array())) {
    GgufGolden& golden = goldens.emplace_back();
    golden.model = make_golden(kGgufFolder, entry.at("name"), entry);
    golden.path = kGgufFolder + golden.model.name + ".gguf";
    for (const auto& [name, tensor] : entry.at("tensors").items()) {
      golden.tensors[name] = {tensor.at(0), tensor.at(1)};
    }
  }
  return goldens;
}

// The ids, positions and stride are those of reference_logits.py.
ModelGolden load_sampled_golden(const std::string& name, std::int32_t vocab_size) {
  ModelGolden golden;
  golden.name = name;
  for (std::int64_t i = 0; i < 96; ++i) {
    golden.ids.push_back(static_cast<TokenId>((i * i * 7 + i * 13 + 5) % vocab_size));
  }
  golden.positions = {0, 1, 7, 21, 33, 64, 95};
  golden.stride = 64;
  golden.logits = read_npy(kGgufFolder + name + ".npy");
  return golden;
}

void write_changed(const std::string& directory, const ModelGolden& golden,
                   const ModelConfig& config, DType storage) {
  const Status written = write_model(directory, config, storage, random_source(kSeed));
  ASSERT_TRUE(written.ok()) << golden.name << ": " << written.to_string();
}

void write_golden(const std::string& directory, const ModelGolden& golden) {
  const Result<ModelConfig> config = parse_config(golden.config_text, golden.name);
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  write_changed(directory, golden, *config, golden.storage);
  write_text(directory + "/config.json", golden.config_text);
  if (golden.num_shards > 1) split_into_shards(directory, golden.num_shards);
}

double distance(Model& model, const ModelGolden& golden) {
  const auto cache = *model.new_cache(static_cast<std::int32_t>(golden.ids.size()));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::size_t i = 0; i < golden.ids.size(); ++i) {
    slot = *cache->slots().append(slot);
    const bool wanted = std::find(golden.positions.begin(), golden.positions.end(),
                                  static_cast<Position>(i)) != golden.positions.end();
    rows.push_back({cache.get(), slot, golden.ids[i], wanted});
  }
  PassOutput out;
  const Status status = model.forward(rows, out);
  EXPECT_TRUE(status.ok()) << status.to_string();
  const std::size_t vocab = static_cast<std::size_t>(out.vocab_size);
  const std::size_t kept = (vocab + golden.stride - 1) / golden.stride;
  EXPECT_EQ(golden.positions.size() * kept, golden.logits.size());
  if (golden.positions.size() * kept != golden.logits.size()) return HUGE_VAL;
  double worst = 0;
  for (std::size_t i = 0; i < golden.logits.size(); ++i) {
    const double expected = golden.logits[i];
    const double difference = std::abs(out.row(i / kept)[i % kept * golden.stride] - expected);
    // A NaN must not pass as small.
    if (!(difference <= HUGE_VAL)) return HUGE_VAL;
    worst = std::max(worst, difference / std::max(1.0, std::abs(expected)));
  }
  return worst;
}

}  // namespace outrider
