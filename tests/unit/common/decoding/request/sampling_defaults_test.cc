// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/request/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "common/decoding/request/text_options.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

GenerationDefaults read(const char* text) {
  const auto defaults = parse_generation_defaults(text, "generation_config.json");
  return defaults.ok() ? *defaults : GenerationDefaults{.left_out = defaults.status().to_string()};
}

TEST(SamplingDefaults, AreThoseOfTheFileAndWhatIsNotSupportedIsSaid) {
  const GenerationDefaults qwen = read(
      R"({"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"repetition_penalty":1.05,
          "eos_token_id":[1,2],"pad_token_id":0,"transformers_version":"4.51.0"})");
  EXPECT_EQ(qwen.sampling, (SamplingDefaults{0.7f, 20, 0.8f, std::nullopt}));
  EXPECT_EQ(qwen.left_out, "repetition_penalty 1.05");
  EXPECT_EQ(qwen.about(),
            "temperature 0.7, top_k 20, top_p 0.8 (generation_config.json; left out: "
            "repetition_penalty 1.05)");
  EXPECT_EQ(with_defaults({}, qwen.sampling), (SamplingParams{0.7f, 20, 0.8f, 0.0f}));
}

TEST(SamplingDefaults, DoSampleDecidesWhereItIsSaid) {
  EXPECT_EQ(read(R"({"do_sample":false,"temperature":0.7,"top_p":0.8})").sampling,
            (SamplingDefaults{.temperature = 0.0f}));
  EXPECT_EQ(read(R"({"do_sample":true})").sampling, (SamplingDefaults{.temperature = 1.0f}));
  EXPECT_EQ(read(R"({"temperature":0.6})").sampling, (SamplingDefaults{.temperature = 0.6f}));
  EXPECT_TRUE(read(R"({"eos_token_id":2})").sampling.empty());
  EXPECT_EQ(read(R"({"eos_token_id":2})").about(), "");
}

TEST(SamplingDefaults, WhatAsksForNothingIsNotLeftOutAndWhatCannotBeReadIs) {
  EXPECT_EQ(read(R"({"repetition_penalty":1.0,"num_beams":1,"no_repeat_ngram_size":0,
                     "bad_words_ids":null,"suppress_tokens":[],"typical_p":1})")
                .left_out,
            "");
  const GenerationDefaults odd =
      read(R"({"temperature":-1,"top_p":"all","top_k":-1,"min_p":null,"num_beams":4})");
  EXPECT_EQ(odd.sampling, (SamplingDefaults{.top_k = 0}));
  EXPECT_EQ(odd.left_out, "temperature -1, top_p \"all\", num_beams 4");
  EXPECT_FALSE(parse_generation_defaults("{", "x").ok());
  EXPECT_FALSE(parse_generation_defaults("[]", "x").ok());
}

TEST(SamplingDefaults, AreReadFromAModelsFolder) {
  const std::string folder = testing::TempDir() + "sampling-defaults";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(read_generation_defaults(folder)->about(), "");
  std::ofstream(folder + "/generation_config.json") << R"({"temperature":0.6})";
  EXPECT_EQ(read_generation_defaults(folder)->sampling.temperature, 0.6f);
  std::ofstream(folder + "/model.gguf") << "GGUF";
  EXPECT_EQ(read_generation_defaults(folder + "/model.gguf")->about(), "") << "it has none";
  std::ofstream(folder + "/generation_config.json") << "{";
  EXPECT_THAT(read_generation_defaults(folder).status().message(),
              HasSubstr("generation_config.json"));
  std::filesystem::remove_all(folder);
}

TEST(SamplingDefaults, AreWholeWhereNothingIsLeftToSay) {
  EXPECT_FALSE(SamplingDefaults().is_whole());
  EXPECT_TRUE(SamplingDefaults{.temperature = 0.0f}.is_whole());
  EXPECT_FALSE((SamplingDefaults{0.7f, 20, 0.8f, std::nullopt}.is_whole()));
  EXPECT_TRUE((SamplingDefaults{0.7f, 20, 0.8f, 0.0f}.is_whole()));
}

TEST(Seeds, OneIsDrawnOnceWhereThereIsNoiseAndNoneWasGiven) {
  std::set<std::uint64_t> seeds;
  for (int i = 0; i < 20; ++i) {
    TextOptions text{.draws_seed = true};
    text.choice.sampling.temperature = 0.5f;
    settle_seed(text);
    const std::uint64_t drawn = text.choice.seed;
    settle_seed(text);
    EXPECT_EQ(text.choice.seed, drawn) << "it is kept";
    EXPECT_LT(drawn, std::uint64_t{1} << 53);
    EXPECT_EQ(told_seed(text.choice), drawn);
    seeds.insert(drawn);
  }
  EXPECT_EQ(seeds.size(), 20u);
  TextOptions given;
  given.choice = {.sampling = {.temperature = 0.5f}, .seed = 7};
  settle_seed(given);
  EXPECT_EQ(told_seed(given.choice), 7u);
  TextOptions greedy{.draws_seed = true};
  settle_seed(greedy);
  EXPECT_EQ(greedy.choice.seed, 0u);
  EXPECT_EQ(told_seed(greedy.choice), std::nullopt);
}

}  // namespace
}  // namespace outrider
