// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json llama() {
  return {{"architectures", Json::array({"LlamaForCausalLM"})},
          {"model_type", "llama"},
          {"vocab_size", 320},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"eos_token_id", 2}};
}

Json of_family(const std::string& type, const std::string& causal_class) {
  Json json = llama();
  json["model_type"] = type;
  json["architectures"] = Json::array({causal_class});
  return json;
}

Json qwen2() {
  return of_family("qwen2", "Qwen2ForCausalLM");
}
Json qwen3() {
  return of_family("qwen3", "Qwen3ForCausalLM");
}
Json mistral() {
  return of_family("mistral", "MistralForCausalLM");
}

ModelConfig parsed(const Json& json) {
  const Result<ModelConfig> config = parse_config(json.dump(), "config.json");
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return config.ok() ? *config : ModelConfig();
}

Status error_of(const Json& json) {
  return parse_config(json.dump(), "config.json").status();
}

Status error_with(const char* key, const Json& value) {
  Json json = llama();
  json[key] = value;
  return error_of(json);
}

TEST(ConfigTest, ReadsTheShapeOfALlama) {
  const ModelConfig config = parsed(llama());
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.q_size(), 64);
  EXPECT_EQ(config.kv_size(), 16);
  EXPECT_FALSE(config.qkv_bias || config.o_bias || config.mlp_bias || config.qk_norm);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_THAT(config.windows, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(config.stop_ids, ElementsAre(2));
  EXPECT_EQ(config.rope.theta, 10000.0);
}

TEST(ConfigTest, BiasesFollowTheFamily) {
  Json json = llama();
  json["attention_bias"] = true;
  json["mlp_bias"] = true;
  EXPECT_TRUE(parsed(json).qkv_bias && parsed(json).o_bias && parsed(json).mlp_bias);
  EXPECT_TRUE(parsed(qwen2()).qkv_bias);
  EXPECT_FALSE(parsed(qwen2()).o_bias);
  EXPECT_FALSE(parsed(qwen3()).qkv_bias);
  EXPECT_TRUE(parsed(qwen3()).qk_norm);
  EXPECT_FALSE(parsed(mistral()).qkv_bias);
}

TEST(ConfigTest, Qwen3HasHeadsOf128UnlessItSaysOtherwise) {
  EXPECT_EQ(parsed(qwen3()).head_dim, 128);
  Json json = qwen3();
  json["head_dim"] = 16;
  EXPECT_EQ(parsed(json).head_dim, 16);
}

TEST(ConfigTest, AMistralHasItsWindowOnAllLayersAndNullMeansNone) {
  Json json = mistral();
  json["max_position_embeddings"] = 32768;
  EXPECT_THAT(parsed(json).windows, ElementsAre(4096, 4096, 4096, 4096));
  json["sliding_window"] = 100;
  EXPECT_THAT(parsed(json).windows, ElementsAre(100, 100, 100, 100));
  json["sliding_window"] = nullptr;
  EXPECT_THAT(parsed(json).windows, ElementsAre(0, 0, 0, 0));
  json["sliding_window"] = 32768;  // no text is longer
  EXPECT_THAT(parsed(json).windows, ElementsAre(0, 0, 0, 0));
}

TEST(ConfigTest, AQwenHasItsWindowOnTheLayersThatItNames) {
  Json json = qwen2();
  json["sliding_window"] = 100;
  json["max_window_layers"] = 3;
  EXPECT_THAT(parsed(json).windows, ElementsAre(0, 0, 0, 0));
  json["use_sliding_window"] = true;
  EXPECT_THAT(parsed(json).windows, ElementsAre(0, 0, 0, 100));
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                         "full_attention"};
  EXPECT_THAT(parsed(json).windows, ElementsAre(100, 0, 100, 0));
  json["layer_types"] = {"full_attention"};
  EXPECT_THAT(error_of(json).message(), HasSubstr("layer_types must list"));
  json["layer_types"] = {"full_attention", "chunked_attention", "full_attention", "x"};
  EXPECT_THAT(error_of(json).message(), HasSubstr("layer_types[1]"));
}

TEST(ConfigTest, ReadsRopeInTheOldFormAndTheNew) {
  const Json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 128}};
  Json old_form = llama();
  old_form["rope_theta"] = 500000.0;
  old_form["rope_scaling"] = llama3;
  old_form["rope_scaling"]["rope_type"] = "llama3";
  Json new_form = llama();
  new_form["rope_parameters"] = old_form["rope_scaling"];
  new_form["rope_parameters"]["rope_theta"] = 500000.0;
  for (const Json& json : {old_form, new_form}) {
    const RopeConfig rope = parsed(json).rope;
    EXPECT_EQ(rope.theta, 500000.0);
    EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.original_max_positions, 128);
  }
  Json oldest = llama();
  oldest["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  EXPECT_EQ(parsed(oldest).rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(parsed(oldest).rope.factor, 4.0);
  Json plain = llama();
  plain["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(parsed(plain).rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(parsed(plain).rope.theta, 1e6);
}

TEST(ConfigTest, DynamicRopeEndsAtTheOriginalLength) {
  Json json = llama();
  json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  EXPECT_EQ(parsed(json).max_positions, 512);
  json["rope_scaling"]["original_max_position_embeddings"] = 256;
  EXPECT_EQ(parsed(json).max_positions, 256);
}

TEST(ConfigTest, WhatIsNotComputedIsRefusedByName) {
  const auto rope_error = [](const Json& rope) { return error_with("rope_scaling", rope); };
  for (const char* type : {"mrope", "su", "ntk"}) {
    const Status status = rope_error({{"rope_type", type}, {"factor", 4.0}});
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr(type));
  }
  EXPECT_THAT(rope_error({{"type", "llama3"}, {"factor", 2.0}}).message(),
              HasSubstr("low_freq_factor is missing"));
  EXPECT_THAT(rope_error({{"type", "linear"}}).message(), HasSubstr("factor is missing"));
  EXPECT_THAT(rope_error(3).message(), HasSubstr("must be a JSON object"));
  EXPECT_THAT(rope_error({{"rope_type", "longrope"}, {"short_factor", {1, 2}}}).message(),
              HasSubstr("short_factor must list half the rotated elements (4)"));
  EXPECT_THAT(rope_error({{"rope_type", "yarn"}, {"factor", 4}, {"mscale", 1}}).message(),
              HasSubstr("mscale of yarn is not supported"));
  EXPECT_THAT(error_with("hidden_act", "quick_gelu").message(),
              HasSubstr("\"quick_gelu\" is not supported; supported are silu, gelu"));
  EXPECT_THAT(error_with("model_type", "mamba").message(),
              HasSubstr("supported are llama, mistral, qwen2, qwen3, gemma3_text, gemma2"));
  EXPECT_THAT(error_with("architectures", {"LlamaForSequenceClassification"}).message(),
              HasSubstr("LlamaForCausalLM"));
  EXPECT_THAT(error_with("quantization_config", {{"bits", 4}}).message(),
              HasSubstr("quantization_config"));
  EXPECT_THAT(error_with("partial_rotary_factor", 0.5).message(), HasSubstr("partial_rotary"));
}

TEST(ConfigTest, WhatAFamilyDoesNotHaveIsRefusedByName) {
  const auto error = [](Json json, const char* key, const Json& value) {
    json[key] = value;
    return error_of(json).message();
  };
  const Json gemma = of_family("gemma3_text", "Gemma3ForCausalLM");
  EXPECT_THAT(error(gemma, "attn_logit_softcapping", 50.0), HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(error(gemma, "use_bidirectional_attention", true),
              HasSubstr("use_bidirectional_attention true is not supported"));
  EXPECT_THAT(error(gemma, "query_pre_attn_scalar", 0), HasSubstr("query_pre_attn_scalar is 0"));
  EXPECT_THAT(error(gemma, "sliding_window_pattern", 0), HasSubstr("sliding_window_pattern is 0"));
  EXPECT_THAT(error(gemma, "rope_parameters", 3), HasSubstr("must be a JSON object"));
  const Json gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 320}, {"n_embd", 64},
                     {"n_layer", 2},         {"n_head", 8},       {"n_positions", 64}};
  EXPECT_EQ(parsed(gpt2).intermediate_size, 256);
  EXPECT_TRUE(parsed(gpt2).tied_embeddings);
  EXPECT_THAT(error(gpt2, "n_embd", 60), HasSubstr("n_embd (60) must be a multiple of n_head (8)"));
  EXPECT_THAT(error(gpt2, "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx true is not supported"));
  const Json experts = of_family("qwen3_moe", "Qwen3MoeForCausalLM");
  EXPECT_THAT(error(experts, "num_experts", 0), HasSubstr("num_experts is 0, must be from 1"));
  EXPECT_THAT(error(experts, "decoder_sparse_step", 2), HasSubstr("layers without experts"));
  EXPECT_THAT(error(experts, "mlp_only_layers", {0}), HasSubstr("layers without experts"));
  const Json smollm3 = of_family("smollm3", "SmolLM3ForCausalLM");
  EXPECT_THAT(error(smollm3, "no_rope_layers", {1, 0}), HasSubstr("no_rope_layers must list"));
  EXPECT_THAT(error(smollm3, "no_rope_layers", {1, 0, 2, 1}), HasSubstr("no_rope_layers[2]"));
  const Json phi3 = of_family("phi3", "Phi3ForCausalLM");
  EXPECT_THAT(error(phi3, "partial_rotary_factor", 0.2),
              HasSubstr("partial_rotary_factor rotates 1 of 8 elements"));
  EXPECT_THAT(error(phi3, "model_type", "gemma3"), HasSubstr("\"gemma3\" is not supported"));
}

TEST(ConfigTest, EveryNumberIsBoundedAndNamed) {
  struct Case {
    const char* key;
    Json value;
  };
  const std::vector<Case> cases = {{"num_attention_heads", 0},
                                   {"num_attention_heads", -8},
                                   {"num_hidden_layers", 1000000000},
                                   {"vocab_size", 9223372036854775807},
                                   {"vocab_size", 18446744073709551615u},
                                   {"hidden_size", 64.5},
                                   {"hidden_size", "64"},
                                   {"hidden_size", 1 << 20},
                                   {"intermediate_size", nullptr},
                                   {"num_key_value_heads", 3},
                                   {"head_dim", 7},
                                   {"head_dim", 4096},
                                   {"max_position_embeddings", 0},
                                   {"rms_norm_eps", 0.0},
                                   {"rms_norm_eps", -1e-6},
                                   {"rope_theta", 0.5},
                                   {"rope_theta", "1e4"},
                                   {"rope_theta", true},
                                   {"tie_word_embeddings", "yes"},
                                   {"eos_token_id", 320},
                                   {"eos_token_id", -1},
                                   {"eos_token_id", "2"}};
  for (const Case& bad : cases) {
    const Status status = error_with(bad.key, bad.value);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad.key << " " << bad.value;
    EXPECT_THAT(status.message(), HasSubstr(bad.key)) << bad.value;
    EXPECT_THAT(status.message(), HasSubstr("config.json"));
  }
  EXPECT_THAT(error_with("num_hidden_layers", 1000000000).message(), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(error_with("num_attention_heads", 6).message(), HasSubstr("hidden_size (64)"));
}

TEST(ConfigTest, AShortlistOfTokensIsReadWrittenAndChecked) {
  Json json = llama();
  json["head_tokens"] = {0, 2, 319};
  const Result<ModelConfig> config = parse_config(json.dump(), "config.json");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_THAT(config->head_tokens, ElementsAre(0, 2, 319));
  EXPECT_EQ(config->head_size(), 3);
  const Result<ModelConfig> again =
      parse_config(config_to_json(*config, "float32").dump(), "config.json");
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->head_tokens, config->head_tokens);
  EXPECT_EQ(parse_config(llama().dump(), "config.json")->head_size(), 320);
  for (const Json& bad :
       {Json::array(), Json({320}), Json({-1}), Json({3, 3}), Json({3, 2}), Json({"3"}),
        Json({3.5}), Json({18446744073709551615u}), Json(3), Json({{"a", 1}})}) {
    const Status status = error_with("head_tokens", bad);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("config.json: head_tokens")) << bad;
  }
}

TEST(ConfigTest, TextThatIsNoConfigIsRefused) {
  for (const std::string text :
       {"", "[]", "3", "{", "{\"rope_theta\": NaN}", "{\"a\": 1e999}", "\xff\xfe", "null"}) {
    EXPECT_FALSE(parse_config(text, "config.json").ok()) << text;
  }
  EXPECT_FALSE(parse_config(std::string(100000, '['), "config.json").ok());
}

TEST(ConfigTest, GenerationConfigDecidesWhereTextEnds) {
  TestDirectory directory;
  directory.write("config.json", llama().dump());
  EXPECT_THAT(load_config_json(directory.path())->stop_ids, ElementsAre(2));
  directory.write("generation_config.json", R"({"eos_token_id": [5, 7]})");
  EXPECT_THAT(load_config_json(directory.path())->stop_ids, ElementsAre(5, 7));
  directory.write("generation_config.json", R"({"do_sample": true})");
  EXPECT_THAT(load_config_json(directory.path())->stop_ids, ElementsAre(2));
  directory.write("generation_config.json", R"({"eos_token_id": 320})");
  EXPECT_THAT(load_config_json(directory.path()).status().message(),
              HasSubstr("generation_config.json: eos_token_id is 320"));
  EXPECT_EQ(load_config_json(directory.path("nowhere")).status().code(), StatusCode::kNotFound);
}

TEST(ConfigTest, WhatIsWrittenIsReadBack) {
  Json windowed = qwen3();
  windowed["use_sliding_window"] = true;
  windowed["sliding_window"] = 100;
  windowed["max_window_layers"] = 2;
  windowed["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  windowed["eos_token_id"] = {1, 2};
  Json biased = llama();
  biased["attention_bias"] = true;
  biased["mlp_bias"] = true;
  biased["tie_word_embeddings"] = true;
  Json window = mistral();
  window["sliding_window"] = 64;
  for (const Json& json : {llama(), biased, window, mistral(), qwen2(), windowed}) {
    const ModelConfig config = parsed(json);
    const Json written = config_to_json(config, "bfloat16");
    EXPECT_EQ(config_to_json(parsed(written), "bfloat16"), written);
    EXPECT_EQ(parsed(written).windows, config.windows);
    EXPECT_EQ(parsed(written).qkv_bias, config.qkv_bias);
    EXPECT_EQ(parsed(written).stop_ids, config.stop_ids);
  }
}

TEST(ConfigTest, KnownShapesHaveTheirPublishedSizes) {
  const auto billions = [](const char* name) {
    const Result<ModelConfig> config = known_shape(name);
    return config.ok() ? static_cast<double>(num_parameters(*config)) / 1e9 : 0;
  };
  EXPECT_NEAR(billions("tinyllama-1.1b"), 1.100048, 1e-6);
  EXPECT_NEAR(billions("llama2-7b"), 6.738415, 1e-6);
  EXPECT_NEAR(billions("llama2-13b"), 13.015864, 1e-6);
  EXPECT_NEAR(billions("llama3-8b"), 8.030261, 1e-6);
  EXPECT_NEAR(billions("mistral-7b"), 7.241732, 1e-6);
  EXPECT_NEAR(billions("qwen2.5-0.5b"), 0.494033, 1e-6);
  EXPECT_NEAR(billions("qwen2-7b"), 7.615617, 1e-6);
  EXPECT_NEAR(billions("qwen3-0.6b"), 0.596050, 1e-6);
  for (const std::string& name : known_shape_names()) {
    const Json json = config_to_json(*known_shape(name), "bfloat16");
    EXPECT_EQ(config_to_json(parsed(json), "bfloat16"), json) << name;
  }
  EXPECT_THAT(known_shape("gpt-5").status().message(), HasSubstr("tinyllama-1.1b"));
}

TEST(RopeTest, PlainFrequenciesAreThePowersOfTheta) {
  const std::vector<float> frequencies = rope_frequencies({.theta = 500000.0}, 128);
  ASSERT_EQ(frequencies.size(), 64u);
  for (int i = 0; i < 64; ++i) {
    const double exact = std::pow(500000.0, -i / 64.0);
    EXPECT_NEAR(frequencies[static_cast<std::size_t>(i)], exact, exact * 1e-7);
  }
}

TEST(RopeTest, ScalingChangesTheFrequenciesThatItShould) {
  RopeConfig rope{.theta = 500000.0, .scaling = RopeScaling::kLinear, .factor = 4.0};
  const std::vector<float> plain = rope_frequencies({.theta = 500000.0}, 128);
  const std::vector<float> linear = rope_frequencies(rope, 128);
  rope = {500000.0, RopeScaling::kLlama3, 8.0, 1.0, 4.0, 8192};
  const std::vector<float> llama3 = rope_frequencies(rope, 128);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_FLOAT_EQ(linear[i], plain[i] / 4);
    const double wavelength = 2 * M_PI / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(llama3[i], plain[i]);
    } else if (wavelength > 8192.0) {
      EXPECT_FLOAT_EQ(llama3[i], plain[i] / 8);
    } else {
      EXPECT_GT(llama3[i], plain[i] / 8);
      EXPECT_LT(llama3[i], plain[i]);
    }
  }
  EXPECT_EQ(rope_frequencies({.theta = 1.0}, 4), (std::vector<float>{1.0f, 1.0f}));
}

}  // namespace
}  // namespace outrider
