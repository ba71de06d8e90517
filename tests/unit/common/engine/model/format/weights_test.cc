// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "common/engine/model/format/fingerprint.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

ModelConfig tiny_llama() {
  ModelConfig config;
  config.architecture = "llama";
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.intermediate_size = 6;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 4;
  config.max_positions = 64;
  config.windows = {0, 0};
  config.stop_ids = {2};
  return config;
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  widen(tensor, 0, values);
  return values;
}

// Writes the tensors of `weights` into the shards that `choose` names, and the index.
void write_shards(const TestDirectory& directory, const Weights& weights,
                  const std::function<std::string(std::size_t)>& choose) {
  std::map<std::string, std::vector<TensorBytes>> shards;
  Json index;
  std::size_t number = 0;
  for (const auto& [name, tensor] : weights.tensors()) {
    const std::string shard = choose(number++);
    index["weight_map"][name] = shard;
    shards[shard].push_back({{name, tensor.dtype, tensor.shape}, {tensor.data, tensor.num_bytes}});
  }
  for (auto& [file, tensors] : shards) {
    ASSERT_TRUE(write_safetensors(directory.path(file), tensors).ok());
  }
  directory.write("model.safetensors.index.json", index.dump());
}

std::string two_shards(std::size_t number) {
  return number % 2 == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
}

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_model(directory_.path(), config_, DType::kF32, random_source(1)).ok());
  }
  Status load_error() const { return load_model_files(directory_.path(), {}).status(); }

  ModelConfig config_ = tiny_llama();
  TestDirectory directory_;
};

TEST_F(WeightsTest, AWrittenModelIsReadBackAsItWas) {
  const auto files = load_model_files(directory_.path() + "/", {.check_finite = true});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  EXPECT_EQ((*files)->name, std::filesystem::path(directory_.path()).filename());
  EXPECT_EQ((*files)->config.stop_ids, config_.stop_ids);
  for (const TensorSpec& spec : expected_tensors(config_)) {
    const TensorView& tensor = (*files)->weights.at(spec.name);
    std::vector<float> expected(static_cast<std::size_t>(tensor.num_elements()));
    random_tensor(1, spec, 0, expected);
    EXPECT_EQ(values_of(tensor), expected) << spec.name;
  }
  EXPECT_EQ((*files)->weights.num_bytes(), 4 * num_parameters(config_));
  EXPECT_TRUE((*files)->weights.check_unchanged().ok());
}

TEST_F(WeightsTest, TheFingerprintDependsOnTheContentAndNotOnTheFiles) {
  const auto whole = load_model_files(directory_.path(), {});
  ASSERT_TRUE(whole.ok());
  TestDirectory sharded;
  sharded.write("config.json", directory_.read("config.json"));
  write_shards(sharded, (*whole)->weights, two_shards);
  const auto parts = load_model_files(sharded.path(), {});
  ASSERT_TRUE(parts.ok()) << parts.status().to_string();
  EXPECT_EQ((*parts)->fingerprint, (*whole)->fingerprint);
  EXPECT_EQ((*whole)->fingerprint.size(), 64u);

  TestDirectory other;
  ASSERT_TRUE(write_model(other.path(), config_, DType::kF32, random_source(2)).ok());
  EXPECT_NE((*load_model_files(other.path(), {}))->fingerprint, (*whole)->fingerprint);
  config_.rms_norm_eps = 1e-5;
  ASSERT_TRUE(write_model(other.path(), config_, DType::kF32, random_source(1)).ok());
  EXPECT_NE((*load_model_files(other.path(), {}))->fingerprint, (*whole)->fingerprint);
}

TEST(FingerprintTest, SamplesTheEndsOfALargeTensor) {
  ModelConfig config = tiny_llama();
  config.vocab_size = 20000;
  std::vector<std::string> prints;
  for (const std::int64_t changed : {-1, 0, 20000 * 8 - 1}) {
    TestDirectory directory;
    const TensorSource source = [changed](const TensorSpec& spec, std::int64_t begin,
                                          std::span<float> out) {
      random_tensor(1, spec, begin, out);
      const std::int64_t at = changed - begin;
      if (spec.name != "lm_head.weight" || changed < 0 || at < 0) return;
      if (at < static_cast<std::int64_t>(out.size())) out[static_cast<std::size_t>(at)] = 7;
    };
    ASSERT_TRUE(write_model(directory.path(), config, DType::kF32, source).ok());
    prints.push_back((*load_model_files(directory.path(), {}))->fingerprint);
  }
  EXPECT_NE(prints[0], prints[1]);
  EXPECT_NE(prints[0], prints[2]);
  EXPECT_NE(prints[1], prints[2]);
}

TEST(FingerprintTest, TheArithmeticIdTellsEachOfItsPartsApart) {
  const std::string base = arithmetic_id({"f", "f32", "1", "cpu"});
  EXPECT_EQ(base, arithmetic_id({"f", "f32", "1", "cpu"}));
  EXPECT_NE(base, arithmetic_id({"g", "f32", "1", "cpu"}));
  EXPECT_NE(base, arithmetic_id({"f", "int8", "1", "cpu"}));
  EXPECT_NE(base, arithmetic_id({"f", "f32", "2", "cpu"}));
  EXPECT_NE(base, arithmetic_id({"f", "f32", "1", "cuda"}));
  EXPECT_NE(base, arithmetic_id({"ff", "32", "1", "cpu"}));
}

TEST_F(WeightsTest, HalfPrecisionFilesWidenToTheNearestValues) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    TestDirectory directory;
    ASSERT_TRUE(write_model(directory.path(), config_, dtype, random_source(1)).ok());
    const auto files = load_model_files(directory.path(), {});
    ASSERT_TRUE(files.ok());
    const TensorSpec spec{"lm_head.weight", {11, 8}};
    std::vector<float> expected(88);
    random_tensor(1, spec, 0, expected);
    const std::vector<float> read = values_of((*files)->weights.at(spec.name));
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_NEAR(read[i], expected[i], dtype == DType::kF16 ? 0x1p-11 : 0x1p-8);
    }
  }
}

TEST_F(WeightsTest, ATiedModelNeedsNoOutputMatrixButMayRepeatTheEmbedding) {
  config_.tied_embeddings = true;
  ASSERT_TRUE(write_model(directory_.path(), config_, DType::kF32, random_source(1)).ok());
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  const Weights& weights = (*files)->weights;
  for (const bool same : {true, false}) {
    std::vector<TensorBytes> tensors;
    for (const auto& [name, tensor] : weights.tensors()) {
      tensors.push_back({{name, tensor.dtype, tensor.shape}, {tensor.data, tensor.num_bytes}});
    }
    const TensorView& embedding = weights.at("model.embed_tokens.weight");
    std::vector<std::byte> head(embedding.data, embedding.data + embedding.num_bytes);
    if (!same) head[5] ^= std::byte{1};
    tensors.push_back({{"lm_head.weight", embedding.dtype, embedding.shape}, head});
    TestDirectory copy;
    copy.write("config.json", directory_.read("config.json"));
    ASSERT_TRUE(write_safetensors(copy.path("model.safetensors"), tensors).ok());
    const auto loaded = load_model_files(copy.path(), {});
    EXPECT_EQ(loaded.ok(), same);
    if (same) {
      EXPECT_EQ((*loaded)->fingerprint, (*files)->fingerprint);
    } else {
      EXPECT_THAT(loaded.status().message(), HasSubstr("tie_word_embeddings"));
    }
  }
}

TEST_F(WeightsTest, ConfigsThatAskForOtherTensorsAreRefusedByName) {
  const auto with = [&](const char* key, const Json& value) {
    Json json = Json::parse(directory_.read("config.json"));
    json[key] = value;
    TestDirectory copy;
    std::filesystem::copy(directory_.path("model.safetensors"), copy.path("model.safetensors"));
    copy.write("config.json", json.dump());
    return load_model_files(copy.path(), {}).status().message();
  };
  EXPECT_THAT(with("vocab_size", 12), HasSubstr("model.embed_tokens.weight has shape [11, 8]"));
  EXPECT_THAT(with("num_hidden_layers", 3), HasSubstr("model.layers.2"));
  EXPECT_THAT(with("num_hidden_layers", 1), HasSubstr("\"model.layers.1"));
  EXPECT_THAT(with("attention_bias", true), HasSubstr("q_proj.bias is missing"));
  EXPECT_THAT(with("tie_word_embeddings", true), HasSubstr("lm_head.weight differs"));
}

TEST_F(WeightsTest, NotANumberAndInfinityAreFoundOnRequest) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const TensorSource source = [bad](const TensorSpec& spec, std::int64_t begin,
                                      std::span<float> out) {
      random_tensor(1, spec, begin, out);
      if (spec.name == "model.layers.1.mlp.up_proj.weight") out[13] = bad;
    };
    ASSERT_TRUE(write_model(directory_.path(), config_, DType::kBF16, source).ok());
    EXPECT_TRUE(load_model_files(directory_.path(), {}).ok());
    const Status found = load_model_files(directory_.path(), {.check_finite = true}).status();
    EXPECT_EQ(found.code(), StatusCode::kDataLoss);
    EXPECT_THAT(found.message(), HasSubstr("model.layers.1.mlp.up_proj.weight, element 13"));
  }
}

TEST_F(WeightsTest, AFileCutWhileMappedIsNoticedBeforeThePass) {
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok());
  std::filesystem::resize_file(directory_.path("model.safetensors"), 100);
  const Status found = (*files)->weights.check_unchanged();
  EXPECT_EQ(found.code(), StatusCode::kDataLoss);
  EXPECT_THAT(found.message(), HasSubstr("model.safetensors"));
}

TEST_F(WeightsTest, ARowOfAFileThatIsCutWhileItIsReadIsAnError) {
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok());
  const Weights& weights = (*files)->weights;
  const TensorView& embedding = weights.at("model.embed_tokens.weight");
  const std::int64_t hidden = embedding.shape[1];
  std::vector<float> read(static_cast<std::size_t>(hidden));
  std::vector<float> wanted(read.size());
  for (const std::int64_t row : {std::int64_t{0}, embedding.shape[0] - 1}) {
    ASSERT_TRUE(weights.read_row(embedding, row, read).ok());
    widen(embedding, row * hidden, wanted);
    EXPECT_EQ(read, wanted) << row;
  }
  std::filesystem::resize_file(directory_.path("model.safetensors"), 100);
  const Status found = weights.read_row(embedding, 0, read);
  EXPECT_EQ(found.code(), StatusCode::kDataLoss);
  EXPECT_THAT(found.message(), HasSubstr("was cut short while it was in use"));
}

TEST_F(WeightsTest, AFileReplacedWhileMappedDoesNotMatter) {
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok());
  const std::vector<float> before = values_of((*files)->weights.at("lm_head.weight"));
  ASSERT_TRUE(write_model(directory_.path(), config_, DType::kBF16, random_source(2)).ok());
  EXPECT_TRUE((*files)->weights.check_unchanged().ok());
  EXPECT_EQ(values_of((*files)->weights.at("lm_head.weight")), before);
}

TEST_F(WeightsTest, WhatIsNoRegularFileIsRefused) {
  const std::string path = directory_.path("model.safetensors");
  std::filesystem::remove(path);
  EXPECT_EQ(load_error().code(), StatusCode::kNotFound);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(load_error().message(), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(load_error().message(), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_THAT(load_error().message(), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("model.safetensors", path);
  EXPECT_EQ(load_error().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(path);
  directory_.write("model.safetensors", "");
  EXPECT_THAT(load_error().message(), HasSubstr("empty file"));
  std::filesystem::remove(path);
  directory_.write("pytorch_model.bin", "x");
  EXPECT_THAT(load_error().message(), HasSubstr("pickle"));
}

TEST_F(WeightsTest, AnIndexLeadsNowhereOutsideAndToNothingMissing) {
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok());
  TestDirectory sharded;
  sharded.write("config.json", directory_.read("config.json"));
  write_shards(sharded, (*files)->weights, two_shards);
  const std::string index = sharded.read("model.safetensors.index.json");
  const auto with_file = [&](const Json& file) {
    Json json = Json::parse(index);
    json["weight_map"]["model.norm.weight"] = file;
    sharded.write("model.safetensors.index.json", json.dump());
    return load_model_files(sharded.path(), {}).status().message();
  };
  for (const Json& file : {Json("../model.safetensors"), Json("/etc/model.safetensors"), Json(1),
                           Json("https://host/model.safetensors"), Json("..\\x.safetensors"),
                           Json("model.bin"), Json(""), Json(".safetensors")}) {
    EXPECT_THAT(with_file(file), HasSubstr("must be a plain name")) << file;
  }
  EXPECT_THAT(with_file("other.safetensors"), HasSubstr("other.safetensors: no such file"));
  Json extra = Json::parse(index);
  extra["weight_map"]["model.extra"] = two_shards(0);
  sharded.write("model.safetensors.index.json", extra.dump());
  EXPECT_THAT(load_model_files(sharded.path(), {}).status().message(),
              HasSubstr("\"model.extra\" is not in"));
  sharded.write("model.safetensors.index.json", index);
  std::filesystem::resize_file(sharded.path(two_shards(1)), 900);
  EXPECT_THAT(load_model_files(sharded.path(), {}).status().message(),
              HasSubstr("model-00002-of-00002.safetensors"));
  for (const char* broken : {"", "{", "[]", "{}", "{\"weight_map\": {}}", "{\"weight_map\": 3}"}) {
    sharded.write("model.safetensors.index.json", broken);
    EXPECT_EQ(load_model_files(sharded.path(), {}).status().code(), StatusCode::kDataLoss);
  }
}

TEST_F(WeightsTest, ATensorInTwoShardsIsRefused) {
  const auto files = load_model_files(directory_.path(), {});
  ASSERT_TRUE(files.ok());
  TestDirectory sharded;
  sharded.write("config.json", directory_.read("config.json"));
  write_shards(sharded, (*files)->weights, two_shards);
  std::filesystem::copy(sharded.path(two_shards(0)), sharded.path("model-3.safetensors"));
  Json json = Json::parse(sharded.read("model.safetensors.index.json"));
  json["weight_map"]["model.norm.weight"] = "model-3.safetensors";
  sharded.write("model.safetensors.index.json", json.dump());
  EXPECT_THAT(load_model_files(sharded.path(), {}).status().message(),
              HasSubstr("is in another shard"));
}

}  // namespace
}  // namespace outrider
