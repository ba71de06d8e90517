// Row invariance on small random models: the same check as `outrider-bench rows`.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/rows/arm_rows.h"
#include "bench/rows/row_scenarios.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_writer.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

std::unique_ptr<Model> make(std::shared_ptr<const ModelFiles> files,
                            const CpuModelOptions& options) {
  auto model = make_cpu_model(std::move(files), options);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return *std::move(model);
}

TEST(RowBook, TellsEqualRowsFromDifferentOnes) {
  RowBook book;
  book.record("0/node 1", "alone", 5);
  EXPECT_EQ(book.compared(), 0);
  book.record("0/node 1", "in a tree", 5);
  EXPECT_EQ(book.compared(), 1);
  EXPECT_EQ(book.mismatches(), 0);
  book.record("0/node 1", "shuffled", 6);
  EXPECT_EQ(book.mismatches(), 1);
  ASSERT_EQ(book.mismatched().size(), 1u);
  EXPECT_EQ(book.mismatched()[0], "0/node 1, shuffled");
}

TEST(RowCases, AreChainsAndTreesOfTwoToThirtyThreeNodes) {
  std::size_t smallest = 100;
  std::size_t largest = 0;
  for (int number = 0; number < kNumRowCases; ++number) {
    const RowCase made = make_row_case(number, 50);
    smallest = std::min(smallest, made.tokens.size());
    largest = std::max(largest, made.tokens.size());
    for (std::size_t i = 0; i < made.parents.size(); ++i) {
      EXPECT_LT(made.parents[i], static_cast<int>(i));
      EXPECT_LT(made.tokens[i], 50);
    }
  }
  EXPECT_EQ(smallest, 2u);
  EXPECT_EQ(largest, 33u);
}

TEST(RowCases, ArePutBehindMoreTokens) {
  const RowCase plain = make_row_case(3, 50), behind = make_row_case(3, 50, 4096);
  EXPECT_EQ(behind.prompt.size(), plain.prompt.size() + 4096);
  EXPECT_EQ(behind.parents.size(), plain.parents.size());
}

// Past the first pages of keys and values, and split over threads.
TEST(RowInvariance, HoldsBehindALongContextAndOnArm) {
  constexpr Position kContext = 4096;
  TestDirectory directory;
  ModelConfig config = small_config("llama");
  config.max_positions = 8192;
  ASSERT_TRUE(write_model(directory.path("long"), config, DType::kBF16, random_source(7)).ok());
  const auto files = load_model_files(directory.path("long"), {});
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  RowBook book;
  for (const int threads : {1, 2}) {
    const auto model = make(*files, {.threads = threads, .progress = {}});
    const RowCase row_case = make_row_case(9, config.vocab_size, kContext);
    ASSERT_TRUE(run_row_case(*model, row_case, "threads " + std::to_string(threads), book).ok());
  }
  EXPECT_GT(book.compared(), 10 * kContext);
  EXPECT_EQ(book.mismatches(), 0) << book.mismatched().front();
  const auto model = make(*files, {.progress = {}});
  RowBook both;
  ASSERT_TRUE(
      run_row_case_once(*model, make_row_case(0, config.vocab_size, kContext), "", both).ok());
  const auto rows = run_arm_rows({.tool = source_dir() + "/build/aarch64/bin/outrider-rows",
                                  .model = directory.path("long"),
                                  .dtype = "auto",
                                  .context = kContext});
  if (rows.status().code() == StatusCode::kNotFound) GTEST_SKIP() << rows.status().message();
  ASSERT_TRUE(rows.ok()) << rows.status().to_string();
  for (const auto& [row, hash] : *rows) both.record(row, "aarch64", hash);
  EXPECT_EQ(both.compared(), static_cast<std::int64_t>(rows->size()));
  EXPECT_GT(both.compared(), kContext);
  EXPECT_EQ(both.mismatches(), 0);
}

TEST(RowInvariance, HoldsForEveryKernelAndNumberOfThreads) {
  struct Case {
    const char *architecture, *dtype, *kv_dtype;
  };
  constexpr Case kModels[] = {{"llama", "f32", "bf16"},        {"mistral", "int8", "f32"},
                              {"qwen2", "bf16", "f32"},        {"qwen3", "int4", "bf16"},
                              {"gemma3_text", "int8", "bf16"}, {"gpt2", "int4", "f32"},
                              {"qwen3_moe", "int8", "f32"},    {"mixtral", "int4", "f32"}};
  TestDirectory directory;
  for (const auto& [architecture, dtype, kv_dtype] : kModels) {
    const auto files = small_model(directory.path(), architecture, DType::kF32);
    RowBook book;
    for (const VectorTarget target : available_vector_targets()) {
      const std::string kernel(to_string(target));
      for (const int threads : {1, 2}) {
        const auto model = make(files, {.dtype = dtype,
                                        .kv_dtype = kv_dtype,
                                        .threads = threads,
                                        .kernel = kernel,
                                        .progress = {}});
        for (const int number : {1, 8, 13}) {
          const Status status = run_row_case(*model, make_row_case(number, 101), kernel, book);
          ASSERT_TRUE(status.ok()) << status.to_string();
        }
      }
    }
    EXPECT_GT(book.compared(), 1000);
    EXPECT_EQ(book.mismatches(), 0)
        << architecture << " " << dtype << ": " << book.mismatched().front();
  }
}

TEST(RowInvariance, HoldsBetweenThisCpuAndArm) {
  TestDirectory directory;
  const auto files = small_model(directory.path(), "qwen3", DType::kBF16);
  struct Case {
    const char *dtype, *kernel;
  };
  constexpr Case kCases[] = {
    {"f32", "auto"},
    {"int8", "neon"},
    {"int4", "neon"},
    {"int8", "auto"},
    {"int4", "auto"},
#if defined(__x86_64__)  // the emulator's "auto" is neoni8mm
    {"int8", "neondot"},
    {"int4", "neondot"}
#endif
  };
  for (const auto& [dtype, kernel] : kCases) {
    const auto rows = run_arm_rows({.tool = source_dir() + "/build/aarch64/bin/outrider-rows",
                                    .model = directory.path() + "/qwen3BF16",
                                    .dtype = dtype,
                                    .kernel = kernel,
                                    .cases = 4});
    if (rows.status().code() == StatusCode::kNotFound) GTEST_SKIP() << rows.status().message();
    ASSERT_TRUE(rows.ok()) << rows.status().to_string();
    RowBook book;
    for (const auto& [row, hash] : *rows) book.record(row, "aarch64", hash);
    const auto model = make(files, {.dtype = dtype, .progress = {}});
    for (int number = 0; number < 4; ++number) {
      ASSERT_TRUE(run_row_case_once(*model, make_row_case(number, 101), "here", book).ok());
    }
    EXPECT_EQ(book.compared(), static_cast<std::int64_t>(rows->size()));
    EXPECT_GT(book.compared(), 40);
    EXPECT_EQ(book.mismatches(), 0) << dtype << " " << kernel;
  }
}

}  // namespace
}  // namespace outrider
