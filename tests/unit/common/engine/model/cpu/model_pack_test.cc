// An untrusted pack: every field of its index is checked, against the file and against the config
// in the pack. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/model_pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>

#include <algorithm>

#include "common/base/json_record.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/cpu/pack/pack_checksum.h"
#include "common/engine/model/format/model_writer.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ModelPackTest : public testing::Test {
 protected:
  static constexpr std::int32_t kLayers = 2;

  // qwen2 has biases, and an output matrix of its own.
  void write_pack(const std::string& dtype, const std::string& family = "qwen2") {
    files_ = small_model(directory_.path(), family, DType::kF32, kLayers);
    write_pack_of(files_, dtype);
  }

  void write_pack_of(const std::shared_ptr<const ModelFiles>& files, const std::string& dtype) {
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files, *parse_compute_type(dtype));
    ASSERT_TRUE(weights.ok());
    const std::vector<PackText> texts = {{"a.txt", "some text"}, {"empty.txt", ""}};
    std::filesystem::remove(path_);  // it may have been read since
    const Status written = write_model_pack(path_, *weights, {.texts = texts, .for_exits = true});
    ASSERT_TRUE(written.ok()) << written.to_string();
    bytes_ = directory_.read("p.pack");
    const auto index = parse_pack_index(std::as_bytes(std::span(bytes_)), "pack");
    ASSERT_TRUE(index.ok()) << index.status().to_string();
    index_ = write_json(*index);
    index_at_ = bytes_.size() - index_.dump().size();
  }

  // The pack with that index and all checksums right.
  void save(Json index) {
    if (fixes_checksums_) {
      for (Json& extent : index["extents"]) {
        const auto offset = extent["offset"].get<std::size_t>();
        const auto count = extent["bytes"].get<std::size_t>();
        if (offset > bytes_.size() || count > bytes_.size() - offset) continue;
        extent["checksum"] = pack_checksum(std::as_bytes(std::span(bytes_).subspan(offset, count)));
      }
    }
    const std::string text = index.dump();
    std::string file = write_pack_header(index_at_, std::as_bytes(std::span(text)));
    file += bytes_.substr(kPackPage, index_at_ - kPackPage) + text;
    directory_.write("p.pack", file);
  }

  Status open(const Json& index) {
    save(index);
    return ModelPack::open(path_).status();
  }

  Status open_with(const std::string& pointer, const Json& value) {
    Json index = index_;
    index[Json::json_pointer(pointer)] = value;
    return open(index);
  }

  void replace_config(const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    const auto at = bytes_.find(from, index_["files"][0]["offset"].get<std::size_t>());
    ASSERT_NE(at, std::string::npos);
    bytes_.replace(at, from.size(), to);
    fixes_checksums_ = true;
  }

  // The path of a tensor in the index's list.
  std::string place(const std::string& name) {
    for (std::size_t i = 0; i < index_["tensors"].size(); ++i) {
      if (index_["tensors"][i]["name"] == name) return "/tensors/" + std::to_string(i);
    }
    ADD_FAILURE() << name;
    return {};
  }

  TestDirectory directory_;
  const std::string path_ = directory_.path("p.pack");
  std::shared_ptr<const ModelFiles> files_;
  std::string bytes_;  // of the file as written
  Json index_;
  std::size_t index_at_ = 0;
  bool fixes_checksums_ = false;
};

TEST_F(ModelPackTest, WhatWasWrittenIsOpened) {
  for (const std::string& family : kSmallModels) {
    for (const char* dtype : {"auto", "bf16", "int8", "int4"}) {
      write_pack(dtype, family);
      EXPECT_TRUE(open(index_).ok()) << open(index_).to_string();
      const auto pack = ModelPack::open(path_);
      ASSERT_TRUE(pack.ok());
      EXPECT_EQ(pack->text("a.txt"), "some text");
      EXPECT_EQ(pack->text("empty.txt"), "");
      EXPECT_TRUE(pack->check_tensors().ok());
      EXPECT_TRUE(pack->weights().ok());
    }
  }
}

// A division by zero in TensorView::row(), or rows that lie beyond the tensor.
TEST_F(ModelPackTest, InterleavedIsTheModelsOrNothing) {
  write_pack("int8");
  for (const std::string name : {"model.norm.weight", "model.embed_tokens.weight", "lm_head.weight",
                                 "model.layers.0.self_attn.q_proj.bias"}) {
    for (const std::int64_t value : {std::int64_t{1}, std::int64_t{-1}, std::int64_t{7},
                                     std::int64_t{12}, std::int64_t{1} << 40}) {
      const Status status = open_with(place(name) + "/interleaved", value);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << name;
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("tensor \"" + name + "\": interleaved is " +
                                  std::to_string(value) + ", must be 0"),
                        HasSubstr("Remedy: pack the model again (outrider-edge pack)")));
    }
  }
}

// In GGUF files of this family query and key rows, and their biases, are interleaved by heads.
TEST_F(ModelPackTest, InterleavedOfAFamilyThatDoesIsAHead) {
  ModelConfig config = small_config("llama");
  config.qkv_bias = true;
  config.o_bias = true;
  const std::string model = directory_.path("llama-bias");
  ASSERT_TRUE(write_model(model, config, DType::kF32, random_source(7)).ok());
  write_pack_of(*load_model_files(model, {}), "int8");
  const std::string bias = "model.layers.1.self_attn.k_proj.bias";
  EXPECT_TRUE(open_with(place(bias) + "/interleaved", config.head_dim).ok());
  for (const int value : {1, 6, 24, -12}) {
    EXPECT_THAT(open_with(place(bias) + "/interleaved", value).message(),
                HasSubstr("interleaved is " + std::to_string(value) + ", must be 0 or 12"));
  }
  const std::string other = "model.layers.1.self_attn.v_proj.bias";
  EXPECT_THAT(open_with(place(other) + "/interleaved", config.head_dim).message(),
              HasSubstr("interleaved is 12, must be 0"));
}

// If any one number, word or truth value of the index changes, the pack is refused. Exceptions:
// names and checksums, which only the content can contradict, and the end of a text in its padding.
TEST_F(ModelPackTest, EveryFieldIsChecked) {
  const auto is_free = [](const std::string& pointer) {
    return pointer == "/name" || pointer == "/fingerprint" || pointer.ends_with("/checksum") ||
           pointer == "/files/1/name" || pointer == "/files/2/name" ||
           (pointer.starts_with("/files/") && pointer.ends_with("/bytes"));
  };
  write_pack("int4");
  const Json fields = index_.flatten();
  int tried = 0;
  for (const auto& [pointer, value] : fields.items()) {
    if (is_free(pointer)) continue;
    std::vector<Json> others = {nullptr};
    if (value.is_string()) {
      others.emplace_back(value.get<std::string>() + "x");
    } else if (value.is_boolean()) {
      others.emplace_back(!value.get<bool>());
    } else if (value.is_number()) {
      const auto number = value.get<std::uint64_t>();
      for (const std::uint64_t other : {number + 1, number - 1, number * 2 + 64}) {
        others.emplace_back(other);
      }
    }
    for (const Json& other : others) {
      const Status status = open_with(pointer, other);
      EXPECT_TRUE(status.code() == StatusCode::kDataLoss ||
                  status.code() == StatusCode::kFailedPrecondition)
          << pointer << " = " << other << ": " << status.to_string();
      EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr("Remedy: pack")));
      ++tried;
    }
  }
  EXPECT_GT(tried, 500);
}

// The message names field and value.
TEST_F(ModelPackTest, ErrorsNameFieldAndValue) {
  write_pack("int8");
  const std::string bias = place("model.layers.0.self_attn.q_proj.bias");
  const std::string embedding = place("model.embed_tokens.weight");
  const struct {
    std::string pointer;
    Json value;
    std::string told;
  } cases[] = {
      {"/arithmetic", "int4, int4, kernels " + std::string(kKernelVersion),
       "arithmetic is \"int4, int4, kernels 4\""},
      {"/arithmetic", "int8, exact, kernels " + std::string(kKernelVersion), "arithmetic is"},
      {"/arithmetic", "int8, int8, blocks, kernels " + std::string(kKernelVersion), "packed for"},
      {"/arithmetic", "int8, int8, kernels 3", "packed for \"int8, int8, kernels 3\""},
      {"/fingerprint", "f00d", "fingerprint is \"f00d\", must be 64 hex digits"},
      {"/name", "", "name is \"\""},
      {"/name", "a\nb", "name is \"a?b\""},
      {"/extents/0/offset", 8192, "extents[0].offset is 8192, must be 4096"},
      {"/extents/1/bytes", 1 << 30, "extents[1].bytes is 1073741824, beyond the index"},
      {"/matrices/1/extent", 1, "must be"},
      {"/matrices/0/name", "x", "matrix \"x\" is in the place of"},
      {"/matrices/0/name", index_["matrices"][1]["name"], "appears twice"},
      {"/matrices/0/type", 7, "no kernel knows type 7"},
      {"/matrices/0/bits", 5, "bits 5"},
      {"/matrices/0/scale_group", 8, "scale_group 8"},
      {"/matrices/0/outputs", 0, "outputs 0"},
      {"/files/0/name", "a.json", "holds no config.json"},
      {"/files/1/name", "config.json", "appears twice"},
      {bias + "/dtype", "I8", "dtype is \"I8\""},
      {bias + "/dtype", "Q4_K", "dtype is Q4_K, must be one whose blocks fill [72]"},
      {bias + "/dtype", "BF16", "bytes is 288, must be 144"},
      {bias + "/shape", {36, 2}, "shape is [36, 2], must be [72]"},
      {bias + "/shape", Json::array(), "shape is [], must be [72]"},
      {bias + "/offset", 4096, "offset is 4096, must be"},
      {bias + "/extent", 99, "must be"},
      {embedding + "/name", "x", "is in the place of model.embed_tokens.weight"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(open_with(each.pointer, each.value).message(), HasSubstr(each.told))
        << each.pointer << " = " << each.value;
  }
}

TEST_F(ModelPackTest, NothingIsLeftOutAndNothingIsAdded) {
  write_pack("int8");
  for (const char* list : {"extents", "matrices", "tensors"}) {
    for (const bool adds : {true, false}) {
      Json index = index_;
      Json entry = index[list].back();
      if (entry.contains("name")) entry["name"] = "another";
      adds ? index[list].push_back(entry) : index[list].erase(index[list].size() - 1);
      EXPECT_EQ(open(index).code(), StatusCode::kDataLoss) << list << " " << adds;
    }
  }
}

// They are in the order of a pass, and each layer's are in its own extent.
TEST_F(ModelPackTest, LayersAreInTheirPlaces) {
  write_pack("int8");
  Json index = index_;
  for (std::size_t i = 0; i < 7; ++i) {
    std::swap(index["matrices"][i]["name"], index["matrices"][i + 7]["name"]);
  }
  EXPECT_THAT(open(index).message(), HasSubstr("is in the place of"));
  index = index_;
  std::swap(index["matrices"][0],
            index["matrices"][1]);  // both are 72 x 72, so that a swap would be harmless
  EXPECT_THAT(open(index).message(), HasSubstr("is in the place of"));
  index = index_;
  std::swap(index["tensors"][0], index["tensors"][1]);
  EXPECT_THAT(open(index).message(), HasSubstr("is in the place of"));
}

TEST_F(ModelPackTest, OverlapIsRefused) {
  write_pack("int8");
  const auto& matrices = index_["matrices"];
  EXPECT_THAT(open_with("/matrices/1/offset", matrices[0]["offset"]).message(),
              HasSubstr("matrices[1]"));
  // The second extent begins within the first.
  EXPECT_THAT(open_with("/extents/1/offset", index_["extents"][0]["offset"]).message(),
              HasSubstr("extents[1].offset is"));
}

// The config is in the pack too, and not trusted.
TEST_F(ModelPackTest, TheConfigMustFitTheIndex) {
  const struct {
    const char* from;
    const char* to;
    const char* told;
  } cases[] = {
      {"\"num_hidden_layers\":2", "\"num_hidden_layers\":3", "extents are 5, must be 6"},
      {"\"num_hidden_layers\":2", "\"num_hidden_layers\":1", "extents are 5, must be 4"},
      {"\"vocab_size\":101", "\"vocab_size\":999", "must be [999, 72]"},
      {"\"hidden_size\":72", "\"hidden_size\":64", "must be [72, 64]"},
      {"\"head_dim\":12", "\"head_dim\":24", "must be [144, 72]"},
      {"\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "must be [36, 72]"},
      {"\"tie_word_embeddings\":false", "\"tie_word_embeddings\": true",
       "is in the place of model.embed_tokens.weight"},
      {"\"num_attention_heads\":6", "\"num_attention_heads\":0", "num_attention_heads"},
      {"\"model_type\":\"qwen2\"", "\"model_type\":\"qwen9\"", "qwen9"},
  };
  for (const auto& each : cases) {
    write_pack("int8");
    replace_config(each.from, each.to);
    EXPECT_THAT(open(index_).message(), HasSubstr(each.told)) << each.to;
  }
}

TEST_F(ModelPackTest, ADamagedTextIsFound) {
  write_pack("int8");
  bytes_[bytes_.find("some text")] = 'S';
  EXPECT_THAT(open(index_).message(), HasSubstr("checksum is wrong"));
}

// A draft's shortlist: its output matrix has only the rows of these tokens.
TEST_F(ModelPackTest, AShortlistIsTheHeightOfTheOutputMatrix) {
  ModelConfig config = small_config("llama");
  config.head_tokens = {3, 5, 8, 13, 21};
  const std::string model = directory_.path("shortlist");
  ASSERT_TRUE(write_model(model, config, DType::kF32, random_source(7)).ok());
  write_pack_of(*load_model_files(model, {}), "int8");
  const Status opened = open(index_);
  EXPECT_TRUE(opened.ok()) << opened.to_string();
  replace_config("[3,5,8,13,21]", "[3,5,8,13   ]");
  EXPECT_THAT(open(index_).message(), HasSubstr("outputs and inputs are [5, 72], must be [4, 72]"));
}

TEST_F(ModelPackTest, AFifoIsNoPackAndIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(directory_.path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ModelPack::is_pack(directory_.path("fifo")));
}

}  // namespace
}  // namespace outrider
