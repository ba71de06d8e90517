// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/sha256.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInfo target() {
  ModelInfo info;
  info.name = "target";
  info.fingerprint = std::string(64, 'a');
  info.hidden_size = 24;
  info.num_layers = 6;
  info.vocab_size = 50;
  return info;
}

ExitAdapters some_adapters() {
  const std::int32_t layers[] = {2, 4, 5};
  ExitAdapters adapters = random_adapters(target(), layers, 3, 1);
  adapters.chosen = {2, 5};
  adapters.shortlist = {1, 7, 49};
  ExitAdapter& exit = adapters.exits[1];
  exit.cost = 0.02;
  exit.calibration.resize(2);
  exit.calibration[0].prior = {0.75, -0.5};
  exit.calibration[0].rows[1] = {0.5, -0.25, 0.125, -2};
  exit.calibration[0].outcome = {{0, 0.1}, {0.5, 0.1}, {1, 0.9}};
  exit.calibration[1].temperature = 1;
  exit.measured = {{.text = "robot",
                    .temperature = 1,
                    .passes = 100,
                    .named = 0.5,
                    .mean_confidence = 0.51,
                    .error_uncalibrated = 0.2,
                    .error = 0.03}};
  return adapters;
}

class AdapterFileTest : public ::testing::Test {
 protected:
  void save(const ExitAdapters& adapters) {
    for (const char* file : {kAdapterIndexFile, kAdapterWeightsFile}) {
      std::filesystem::remove(path(file));  // it may have been read since
    }
    const Status status = save_adapters(directory_.path(), adapters);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  std::string path(const char* file) const { return directory_.path() + "/" + file; }
  Json index() const { return *parse_json(*read_file(path(kAdapterIndexFile), 1 << 20), "index"); }
  void write_index(const Json& json) {
    std::ofstream(path(kAdapterIndexFile), std::ios::binary) << json.dump();
  }
  // Writes other weights, with the digest that fits them.
  void write_weights(const std::vector<TensorHeader>& headers, float fill = 0.5f) {
    std::vector<std::vector<float>> values;
    std::vector<TensorBytes> tensors;
    for (const TensorHeader& header : headers) {
      auto bytes = static_cast<std::size_t>(block_bytes(header.dtype));
      for (const std::int64_t size : header.shape) bytes *= static_cast<std::size_t>(size);
      values.emplace_back((bytes + 3) / 4, fill);
      tensors.push_back({header, std::as_bytes(std::span(values.back())).first(bytes)});
    }
    ASSERT_TRUE(write_safetensors(path(kAdapterWeightsFile), std::move(tensors)).ok());
    Sha256 hash;
    hash.update(*read_file(path(kAdapterWeightsFile), 1 << 20));
    Json json = index();
    json["weights_sha256"] = hash.finish_hex();
    write_index(json);
  }
  Status load_error() {
    const auto loaded = load_adapters(directory_.path());
    return loaded.ok() ? Status() : loaded.status();
  }

  TestDirectory directory_;
};

TEST_F(AdapterFileTest, WhatIsSavedComesBack) {
  const ExitAdapters saved = some_adapters();
  save(saved);
  const auto loaded = load_adapters(directory_.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->fingerprint, saved.fingerprint);
  EXPECT_EQ(loaded->shortlist, saved.shortlist);
  EXPECT_EQ(loaded->chosen, saved.chosen);
  ASSERT_EQ(loaded->exits.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loaded->exits[i].layer, saved.exits[i].layer);
    EXPECT_EQ(loaded->exits[i].norm, saved.exits[i].norm);
    EXPECT_EQ(loaded->exits[i].down, saved.exits[i].down);
    EXPECT_EQ(loaded->exits[i].up, saved.exits[i].up);
    EXPECT_EQ(loaded->exits[i].calibration, saved.exits[i].calibration);
  }
  EXPECT_DOUBLE_EQ(loaded->exits[1].cost, 0.02);
  EXPECT_EQ(loaded->exits[1].measured.at(0).text, "robot");
  EXPECT_DOUBLE_EQ(loaded->exits[1].measured.at(0).error, 0.03);
  EXPECT_TRUE(check_target(*loaded, target()).ok());
}

TEST_F(AdapterFileTest, AdaptersOfAnotherTargetAreRefusedWithBothFingerprints) {
  ModelInfo other = target();
  other.fingerprint = std::string(64, 'b');
  const Status status = check_target(some_adapters(), other);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(other.fingerprint));
  EXPECT_THAT(status.message(), HasSubstr(target().fingerprint));
  other = target();
  other.vocab_size = 51;
  EXPECT_THAT(check_target(some_adapters(), other).message(), HasSubstr("vocab_size 50"));
}

TEST_F(AdapterFileTest, NoIndexIsAbsenceAndHalfASetIsDamage) {
  EXPECT_EQ(load_error().code(), StatusCode::kNotFound);
  save(some_adapters());
  std::filesystem::remove(path(kAdapterWeightsFile));
  EXPECT_EQ(load_error().code(), StatusCode::kDataLoss);
}

TEST_F(AdapterFileTest, WeightsOfAnotherIndexAreRefused) {
  save(some_adapters());
  const Json json = index();
  const std::int32_t layers[] = {2, 4, 5};
  save(random_adapters(target(), layers, 3, 2));
  write_index(json);
  EXPECT_THAT(load_error().message(), HasSubstr("SHA-256"));
}

TEST_F(AdapterFileTest, WrongTensorsAreRefusedByName) {
  const std::int32_t one[] = {2};
  save(random_adapters(target(), one, 3, 1));
  const TensorHeader norm{"exits.2.norm.weight", DType::kF32, {24}};
  const TensorHeader down{"exits.2.down.weight", DType::kBF16, {3, 24}};
  const TensorHeader up{"exits.2.up.weight", DType::kBF16, {24, 3}};
  write_weights({norm, down, up});
  EXPECT_TRUE(load_error().ok()) << load_error().to_string();
  write_weights({norm, down});
  EXPECT_THAT(load_error().message(), HasSubstr("exits.2.up.weight is missing"));
  write_weights({norm, down, {up.name, DType::kBF16, {3, 24}}});
  EXPECT_THAT(load_error().message(), HasSubstr("is BF16 [3, 24], must be BF16 [24, 3]"));
  write_weights({norm, {down.name, DType::kF32, {3, 24}}, up});
  EXPECT_THAT(load_error().message(), HasSubstr("is F32 [3, 24], must be BF16 [3, 24]"));
  write_weights({norm, down, up, {"exits.3.norm.weight", DType::kF32, {24}}});
  EXPECT_THAT(load_error().message(), HasSubstr("exits.3.norm.weight"));
  write_weights({norm, down, up}, NAN);
  EXPECT_THAT(load_error().message(), HasSubstr("holds NaN or infinity at element 0"));
}

ExitAdapters linear_predictor() {
  const std::int32_t one[] = {3};
  ExitAdapters predictor = random_adapters(target(), one, 1, 1);
  predictor.shortlist = {1, 7, 49};
  predictor.exits[0] = {.layer = 3, .head = std::vector<std::uint16_t>(3 * 24, to_bf16(0.25f))};
  return predictor;
}

TEST_F(AdapterFileTest, AHeadOfAnExitsOwnComesBack) {
  save(linear_predictor());
  const auto loaded = load_adapters(directory_.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->exits[0].bottleneck, 0);
  EXPECT_EQ(loaded->exits[0].head, linear_predictor().exits[0].head);
  const TensorHeader head{"exits.3.head.weight", DType::kBF16, {3, 24}};
  write_weights({{head.name, DType::kBF16, {50, 24}}});
  EXPECT_THAT(load_error().message(), HasSubstr("is BF16 [50, 24], must be BF16 [3, 24]"));
  write_weights({head}, NAN);
  EXPECT_THAT(load_error().message(), HasSubstr("holds NaN or infinity"));
  save(linear_predictor());
  Json json = index();
  json["exits"][0]["bottleneck"] = 3;
  write_index(json);
  EXPECT_THAT(load_error().message(), HasSubstr("bottleneck"));
}

TEST_F(AdapterFileTest, BadFieldsAreRefusedByName) {
  save(some_adapters());
  const Json good = index();
  using Edit = std::function<void(Json&)>;
  const std::vector<std::pair<Edit, std::string>> cases = {
      {[](Json& j) { j["format"] = "outrider exit adapters 9"; }, "format"},
      {[](Json& j) { j["more"] = 1; }, "unknown field \"more\""},
      {[](Json& j) { j.erase("target"); }, "target"},
      {[](Json& j) { j["target"]["fingerprint"] = "xyz"; }, "fingerprint"},
      {[](Json& j) { j["target"]["hidden_size"] = -1; }, "hidden_size"},
      {[](Json& j) { j["weights_sha256"] = 7; }, "weights_sha256"},
      {[](Json& j) {
         j["shortlist"] = {3, 2};
       },
       "shortlist[1]"},
      {[](Json& j) { j["shortlist"] = {50}; }, "shortlist[0]"},
      {[](Json& j) { j["chosen"] = {3}; }, "chosen: no exit after layer 3"},
      {[](Json& j) { j["exits"] = Json::array(); }, "exits is empty"},
      {[](Json& j) { j["exits"][0]["layer"] = 6; }, "layer 6"},
      {[](Json& j) { j["exits"][1]["layer"] = 2; }, "layer 2"},
      {[](Json& j) { j["exits"][0]["bottleneck"] = 0; }, "bottleneck"},
      {[](Json& j) {
         j["exits"][1]["calibration"][0]["outcome"][1] = {0.0, 1.0};
       },
       "outcome[1]"},
      {[](Json& j) {
         j["exits"][1]["calibration"][0]["outcome"][2] = {0.9, 0.0};
       },
       "outcome[2]"},
      {[](Json& j) {
         j["exits"][1]["calibration"][0]["drafted"] = {-1, 0, 0, 0};
       },
       "drafted"},
      {[](Json& j) { j["exits"][1]["calibration"][0]["prior"] = 0.5; }, "prior"},
      {[](Json& j) {
         j["exits"][1]["calibration"][0]["prior"] = {0, 31};
       },
       "prior"},
      {[](Json& j) { j["exits"][1]["calibration"][0]["drafted"] = "x"; }, "drafted"},
      {[](Json& j) { j["exits"][1]["calibration"][0]["temperature"] = 1; }, "temperature 0"},
      {[](Json& j) { j["exits"][1]["measured"][0]["named"] = 1.5; }, "named"},
      {[](Json& j) { j = Json::array(); }, "must be a JSON object"},
  };
  for (const auto& [edit, expected] : cases) {
    Json bad = good;
    edit(bad);
    write_index(bad);
    EXPECT_FALSE(load_error().ok()) << expected;
    EXPECT_THAT(load_error().message(), HasSubstr(expected));
    EXPECT_THAT(load_error().message(), HasSubstr(kAdapterIndexFile));
  }
}

TEST_F(AdapterFileTest, SelectionTakesTheChosenAllOrThoseNamed) {
  const auto layers = [](std::string_view wanted) {
    std::vector<std::int32_t> found;
    const auto selected = select_exits(some_adapters(), wanted);
    EXPECT_TRUE(selected.ok()) << selected.status().to_string();
    for (const ExitAdapter& exit : selected->exits) found.push_back(exit.layer);
    return found;
  };
  EXPECT_THAT(layers("auto"), ElementsAre(2, 5));
  EXPECT_THAT(layers("all"), ElementsAre(2, 4, 5));
  EXPECT_THAT(layers("4"), ElementsAre(4));
  EXPECT_THAT(layers("2,4"), ElementsAre(2, 4));
  const auto missing = select_exits(some_adapters(), "2,3");
  EXPECT_THAT(missing.status().message(), HasSubstr("layer 3; these have one: 2,4,5"));
  for (const char* bad : {"", "x", "2,", ",2", "4,2", "2,2", "2 4", "-1", "99999999999"}) {
    EXPECT_EQ(select_exits(some_adapters(), bad).status().code(), StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace outrider
