// SPDX-License-Identifier: Apache-2.0
#include "bench/report/text_table.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

const TextTable kTable{.heads = {"strategy", "ms"}, .rows = {{"ar", "17.9"}, {"sd, γ=4", "–"}}};

TEST(TextTableTest, IsMarkdownAndAlignedWords) {
  EXPECT_EQ(to_markdown(kTable), "| strategy | ms |\n|---|---|\n| ar | 17.9 |\n| sd, γ=4 | – |\n");
  EXPECT_EQ(to_plain_text(kTable, 1), "strategy    ms\nar        17.9\nsd, γ=4      –\n");
}

TEST(TextTableTest, NothingIsADash) {
  EXPECT_EQ(number_or_dash(1.234, "{:.2f}"), "1.23");
  EXPECT_EQ(number_or_dash({}, "{:.2f}"), "–");
}

}  // namespace
}  // namespace outrider
