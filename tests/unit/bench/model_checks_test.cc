// outrider-bench's checks of one model, as a user runs them on a GGUF file.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/json.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "emulation/process/process.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/format/small_gguf.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

class ModelChecks : public testing::Test {
 protected:
  void SetUp() override {
    ModelConfig config = small_config("llama");
    config.vocab_size = 1024;
    config.max_positions = 512;
    std::ofstream(path_, std::ios::binary) << small_gguf(config, 1);
  }

  Json exits() {
    const auto done =
        run_process({bin_dir() + "/outrider-bench",
                     {"exits", "--model=" + path_, "--passes=3", "--threads=1", "--dtype=f32"},
                     {}},
                    std::chrono::minutes(1));
    EXPECT_TRUE(done.ok()) << done.status().to_string();
    said_ = done->err;
    const auto json = parse_json(done->out, "exits");
    EXPECT_TRUE(json.ok()) << done->out << said_;
    return json.ok() ? *json : Json::object();
  }

  TestDirectory directory_;
  const std::string path_ = directory_.path("model.gguf");
  std::string said_;
};

TEST_F(ModelChecks, ExitsOfAGgufFileLieBesideIt) {
  const auto files = load_model_files(path_, {});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  const auto model = make_cpu_model(*files, {.dtype = "f32", .progress = {}});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  ExitAdapters adapters = random_adapters((*model)->info(), std::vector<std::int32_t>{1}, 4, 1);
  adapters.chosen = {1};
  ASSERT_TRUE(save_adapters(directory_.path(), adapters).ok());
  const Json json = exits();
  EXPECT_EQ(json.value("exits_are", ""), "the model's") << said_;
  EXPECT_EQ(json["tokens_considered"], 1024);
}

TEST_F(ModelChecks, ExitsThatAreMissingAreSaidToBeRandom) {
  EXPECT_EQ(exits().value("exits_are", ""), "random");
  EXPECT_THAT(said_, testing::HasSubstr("has no exits; these are random ones"));
}

}  // namespace
}  // namespace outrider
