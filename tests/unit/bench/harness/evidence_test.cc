// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EvidenceTest : public testing::Test {
 protected:
  EvidenceTest() {
    setting_.name = "wifi-roam, table9";
    setting_.link = *parse_link("wifi-roam");
    for (const char* variant : {"ar", "mirror"}) {
      GridCell cell;
      cell.setting = setting_.name;
      cell.variant = variant;
      cell.answers.resize(3);
      cell.link = LinkCounts{.up = {.sent = 9, .lost = 2, .in_black_out = 1}};
      result_.cells.push_back(cell);
    }
  }

  std::vector<std::string> missing(std::size_t least_answers) const {
    return missing_evidence(result_, {"the bar", setting_, "mirror", "ar"}, least_answers);
  }

  GridSetting setting_;
  GridResult result_;
};

TEST_F(EvidenceTest, ARunThatMetWhatItsLinkHoldsIsEnough) {
  EXPECT_THAT(missing(3), IsEmpty());
}

TEST_F(EvidenceTest, EachCellMustHaveMetEachCondition) {
  result_.cells[1].link->up.in_black_out = 0;
  EXPECT_THAT(missing(0), ElementsAre("\"the bar\": mirror met no black-out of its link"));
  result_.cells[0].link->up.lost = 1;
  EXPECT_THAT(missing(0), ElementsAre("\"the bar\": ar met no packet loss of its link",
                                      HasSubstr("mirror met no black-out")));
}

TEST_F(EvidenceTest, FewAnswersAreInconclusive) {
  EXPECT_THAT(missing(4), ElementsAre(HasSubstr("ar has 3 answers of the 4 of --least-answers"),
                                      HasSubstr("mirror has 3 answers")));
}

TEST_F(EvidenceTest, OfARealNetworkNothingIsAsked) {
  for (GridCell& cell : result_.cells) cell.link.reset();
  EXPECT_THAT(missing(3), IsEmpty());
  EXPECT_EQ(met_json(setting_, result_.cells[0].link), Json());
}

TEST_F(EvidenceTest, AReportSaysWhatWasMetAndHowFastTheLinkWas) {
  LinkCounts counts = *result_.cells[0].link;
  counts.up.in_black_out = 0;
  counts.down.bytes = 3000;
  counts.down.busy_ns = 1'000'000;
  const Json json = met_json(setting_, counts);
  EXPECT_EQ(json["met"], (Json{{"packet loss", true}, {"black-out", false}}));
  EXPECT_EQ(json["counts"]["up"]["lost"], 2);
  EXPECT_EQ(json["mbit_per_s_up"], Json());
  EXPECT_DOUBLE_EQ(json["mbit_per_s_down"].get<double>(), 24);
}

}  // namespace
}  // namespace outrider
