// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace outrider {
namespace {

using testing::HasSubstr;

Result<std::vector<SyntheticAcceptance>> read(const std::string& text) {
  const std::string path = testing::TempDir() + "synthetic.toml";
  std::ofstream(path) << text;
  return read_synthetic_acceptance(path);
}

std::string why_not(const std::string& text) {
  const auto sets = read(text);
  EXPECT_EQ(sets.status().code(), StatusCode::kInvalidArgument) << text;
  return sets.status().message();
}

TEST(SyntheticFileTest, DataSetsStandInTheirOrder) {
  const auto sets = read(
      "[[data_set]]\nname = \"CNN/DM\"\ntau = 1.95\nmiss_rate = 0.294\nmean_exit = 15\n"
      "[[data_set]]\nname = \"NQ\"\ntau = 2\ngamma = 6\n");
  ASSERT_TRUE(sets.ok()) << sets.status().to_string();
  ASSERT_EQ(sets->size(), 2u);
  EXPECT_EQ((*sets)[0].name, "CNN/DM");
  EXPECT_EQ((*sets)[0].tau, 1.95);
  EXPECT_EQ((*sets)[0].gamma, 4);
  EXPECT_EQ((*sets)[0].miss_rate, 0.294);
  EXPECT_EQ((*sets)[0].mean_exit, 15);
  EXPECT_EQ((*sets)[1].gamma, 6);
  EXPECT_EQ((*sets)[1].miss_rate, std::nullopt);
}

TEST(SyntheticFileTest, WhatCannotBeMeantIsRefusedWithItsLine) {
  EXPECT_THAT(why_not("tau = 2\n"), HasSubstr("[[data_set]]"));
  EXPECT_THAT(why_not(""), HasSubstr("[[data_set]]"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\n"), HasSubstr("'tau' is missing"));
  EXPECT_THAT(why_not("[[data_set]]\ntau = 2\n"), HasSubstr("'name' is missing"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = 5.1\n"), HasSubstr("line 3: 'tau'"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = nan\n"), HasSubstr("'tau'"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = \"2\"\n"), HasSubstr("'tau'"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = 2\nmis_rate = 0.1\n"),
              HasSubstr("Did you mean 'miss_rate'?"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = 2\nmiss_rate = 0.1\n"),
              HasSubstr("go together"));
  EXPECT_THAT(why_not("[[data_set]]\nname = \"a\"\ntau = 2\n[[data_set]]\nname = \"a\"\ntau = 2\n"),
              HasSubstr("stands twice"));
  EXPECT_THAT(why_not("[[data_set]\n"), HasSubstr("line 1"));
  EXPECT_EQ(read_synthetic_acceptance("/nowhere/x.toml").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace outrider
