// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/fsd_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ContradictionsTest, OfTableSixAreItsInputsItsSavingsAndAnAverage) {
  const std::vector<std::string> found = contradictions_of("fsd-table6");
  EXPECT_THAT(found, Contains(HasSubstr("table 5 is an input")));
  EXPECT_THAT(found, Contains(AllOf(HasSubstr("1.13 to 1.46"), HasSubstr("1.04 to 1.11"))));
  EXPECT_THAT(found, Contains(AllOf(HasSubstr("0.94"), HasSubstr("0.81"), HasSubstr("25.6 %"))));
}

TEST(ContradictionsTest, TableEightIsTheLimitWithoutMisses) {
  EXPECT_THAT(contradictions_of("fsd-table8"),
              Contains(AllOf(HasSubstr("prints 1.34"), HasSubstr("gives 1.13"),
                             HasSubstr("1.33 is the limit at r = 0"))));
}

TEST(ContradictionsTest, TableSevenSharesNeitherThreadsNorOrderWithItsText) {
  EXPECT_THAT(contradictions_of("fsd-table7"),
              AllOf(Contains(AllOf(HasSubstr("28 %"), HasSubstr("12 %"))),
                    Contains(AllOf(HasSubstr("27.57"), HasSubstr("26.92"))),
                    Contains(AllOf(HasSubstr("13.8 ms"), HasSubstr("7.4 threads")))));
}

TEST(ContradictionsTest, EquationNineIsBelowWhatAppendixBSays) {
  EXPECT_THAT(contradictions_of("fsd-fig6"), Contains(HasSubstr("gives 4.0 with gamma = 10")));
  EXPECT_THAT(contradictions_of("fsd-table1"), IsEmpty());
}

}  // namespace
}  // namespace outrider
