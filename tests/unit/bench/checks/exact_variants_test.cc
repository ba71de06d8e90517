// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/exactness/exact_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

ExactWish trees_alone() {
  ExactWish wish;
  wish.remote = false;
  wish.resident = true;
  wish.branches = 1;
  wish.trees = {TreeKind::kLever};
  wish.prune_below = 0.05;
  return wish;
}

std::vector<ExactVariant> variants_of(const ExactWish& wish) {
  return exact_variants(wish, "models/t", "auto");
}

std::vector<std::string> names_of(const std::vector<ExactVariant>& variants) {
  std::vector<std::string> names;
  for (const ExactVariant& variant : variants) names.push_back(variant.grid.name);
  return names;
}

// For each variant an answer in which every possible event occurred.
std::vector<FinishedAnswer> rich_answers(const std::vector<ExactVariant>& variants) {
  std::vector<FinishedAnswer> answers;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    FinishedAnswer answer{.job = {.variant = i}};
    answer.answer.record.streamed = StreamedRecord{.passes = 1, .bytes_read = 1};
    answer.answer.record.stats.predraft.hits = 1;
    answer.answer.record.stats.rows_pruned = 1;
    answer.answer.record.stats.accepted_per_branch = {{5, 1}};
    answers.push_back(std::move(answer));
  }
  return answers;
}

TEST(ExactVariants, ServersThatDraftAreVariantsOfTheirOwn) {
  ExactWish wish;
  wish.strategies = {Strategy::kSd};
  wish.branches = 1;
  EXPECT_EQ(variants_of(wish).size(), 1u);
  wish.server_draft = "models/d";
  const std::vector<ExactVariant> variants = variants_of(wish);
  EXPECT_THAT(names_of(variants),
              ElementsAre("sd", "ar server look-up", "ar server drafts", "sd server look-up",
                          "sd server drafts", "sd look-up on both sides", "mirror server look-up",
                          "mirror server drafts", "mirror look-up on both sides"));
  EXPECT_THAT(variants[2].grid.server_flags,
              ElementsAre("--draft-source=both", "--draft-model=models/d"));
  EXPECT_THAT(variants[5].grid.edge_flags, ElementsAre("--draft-source=both"));
  EXPECT_THAT(missing_features(variants, rich_answers(variants)),
              ElementsAre("the server's draft stood (remote)",
                          "the server's draft stood beside the edge's look-up (remote)",
                          "the server's look-up stood (remote)"));
}

TEST(ExactVariants, PrunesTreesThatWaitAndThoseThatDoNot) {
  const std::vector<ExactVariant> variants = variants_of(trees_alone());
  EXPECT_THAT(names_of(variants),
              ElementsAre("resident ar", "resident sd", "resident mirror", "resident sd tree lever",
                          "resident sd tree lever pruned", "resident sd tree lever provisional",
                          "resident sd tree lever provisional pruned"));
  for (const ExactVariant& variant : variants) {
    EXPECT_THAT(variant.grid.edge_flags, Contains("--target=models/t"));
    EXPECT_THAT(variant.grid.edge_flags, Contains("--mode=offline"));
  }
}

TEST(ExactVariants, WhereAServerDecidesItPrunes) {
  ExactWish wish = trees_alone();
  wish.remote = true;
  wish.resident = false;
  wish.strategies = {};
  for (const ExactVariant& variant : variants_of(wish)) {
    EXPECT_THAT(variant.grid.edge_flags, Not(Contains(HasSubstr("--prune"))));
    EXPECT_EQ(!variant.grid.server_flags.empty(),
              variant.grid.name.find("pruned") != std::string::npos);
  }
}

TEST(ExactVariants, NothingIsMissingWhereAllHappened) {
  const std::vector<ExactVariant> variants = variants_of(trees_alone());
  EXPECT_THAT(missing_features(variants, rich_answers(variants)), IsEmpty());
}

TEST(ExactVariants, EachFeatureMustHaveHappened) {
  ExactWish wish = trees_alone();
  wish.pack = "p";
  const std::vector<ExactVariant> variants = variants_of(wish);
  EXPECT_THAT(missing_features(variants, {}), SizeIs(2 * 4 + 7))
      << "of both: provisional, second branch, pruned in either way; and each flash variant "
         "streams";
  std::vector<FinishedAnswer> answers = rich_answers(variants);
  for (FinishedAnswer& answer : answers) answer.answer.record.stats.rows_pruned = 0;
  EXPECT_THAT(
      missing_features(variants, answers),
      ElementsAre("provisional trees were pruned (flash)",
                  "provisional trees were pruned (resident)", "trees that wait were pruned (flash)",
                  "trees that wait were pruned (resident)"));
}

TEST(ExactVariants, OnlyBranchesBesideTheFirstCount) {
  const std::vector<ExactVariant> variants = variants_of(trees_alone());
  std::vector<FinishedAnswer> answers = rich_answers(variants);
  for (FinishedAnswer& answer : answers)
    answer.answer.record.stats.accepted_per_branch = {{5, 0}, {3}};
  EXPECT_THAT(missing_features(variants, answers),
              ElementsAre("a tree's second branch stood (resident)"));
}

TEST(ExactVariants, EachStreamedVariantMustStream) {
  ExactWish wish = trees_alone();
  wish.resident = false;
  wish.pack = "p";
  const std::vector<ExactVariant> variants = variants_of(wish);
  std::vector<FinishedAnswer> answers = rich_answers(variants);
  const auto chain =
      std::ranges::find(variants, "flash sd", [](const auto& v) { return v.grid.name; });
  answers[static_cast<std::size_t>(chain - variants.begin())].answer.record.streamed.reset();
  EXPECT_THAT(missing_features(variants, answers), ElementsAre("streamed by \"flash sd\""));
}

TEST(ExactVariants, WhatLoadsNoDraftHasABudgetOfItsOwn) {
  ExactWish wish = trees_alone();
  wish.pack = "p";
  wish.memory_budget = "9MiB";
  wish.plain_memory_budget = "5MiB";
  const std::vector<ExactVariant> variants = variants_of(wish);
  EXPECT_THAT(names_of(variants), IsSupersetOf({"flash ar", "flash sd", "flash mirror"}));
  for (const ExactVariant& variant : variants) {
    const std::string& name = variant.grid.name;
    if (!name.starts_with("flash")) continue;
    EXPECT_THAT(variant.grid.edge_flags,
                Contains(name == "flash ar" ? "--memory-budget=5MiB" : "--memory-budget=9MiB"));
  }
}

}  // namespace
}  // namespace outrider
