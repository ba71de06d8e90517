// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/html/markup.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

class PageTest : public testing::Test {
 protected:
  PageTest() {
    lte_.name = "lte, <b>\"</script><script>alert(1)</script>";
    lte_.network = "lte";
    wifi_.name = "wifi";
    for (const GridSetting* setting : {&lte_, &wifi_}) {
      for (const GridVariant* variant : {&ar_, &mirror_}) {
        CellReport cell;
        cell.setting = setting;
        cell.variant = variant;
        cell.link_kind = "modelled";
        cell.requests = 2;
        cell.rtt_p50_ms = setting == &lte_ ? 70 : 20;
        cell.e2el_samples = {100, 200};
        cell.tokens_per_s = Estimate{variant == &ar_ ? 10.0 : 16.0, Interval{9, 18}};
        cell.over_ar = Estimate{variant == &ar_ ? 1.0 : 1.6, Interval{1.5, 1.7}};
        for (std::uint64_t prompt = 0; prompt < 4; ++prompt) {
          const double ms = 1000 + 100 * static_cast<double>(prompt);
          cell.samples.push_back({prompt, 0, variant == &ar_ ? 1.6 * ms : ms, 10});
        }
        cell.sum.all_tokens = 100;
        cell.sum.wire_up = 5000;
        cell.accepted_by_position = {0.8, 0.6};
        report_.cells.push_back(cell);
      }
    }
    report_.run.command = "prompts=</script>";
    report_.setting_names = {lte_.name, wifi_.name};
    report_.variant_names = {"ar", "mirror"};
    FinishedAnswer example{.job = {0, 1, 0, 0}};
    example.answer.record.chunk_at = {from_ms(10), from_ms(900)};
    example.answer.record.chunk_tokens = {1, 4};
    report_.examples = {example};
  }

  GridSetting lte_, wifi_;
  const GridVariant ar_ = variant_of(Strategy::kAr), mirror_ = variant_of(Strategy::kMirror);
  RunReport report_;
};

TEST_F(PageTest, NeedsNothingElseAndRunsNothing) {
  const std::string page = report_page(report_);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("</script")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_LT(page.size(), 2u << 20);
}

TEST_F(PageTest, SaysWhoWinsAndMarksEveryFigure) {
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("Fastest: mirror at 2 of 2 settings."));
  EXPECT_THAT(page, HasSubstr("1.60×"));
  std::size_t figures = 0, captions = 0, marks = 0;
  for (std::size_t at = 0; (at = page.find("<figure>", at)) != std::string::npos; ++at) ++figures;
  for (std::size_t at = 0; (at = page.find("<figcaption>", at)) != std::string::npos; ++at)
    ++captions;
  for (std::size_t at = 0; (at = page.find("class=\"mark\"", at)) != std::string::npos; ++at)
    ++marks;
  EXPECT_EQ(figures, 6u);
  EXPECT_EQ(captions, figures);
  EXPECT_EQ(marks, figures);
  EXPECT_LT(page.find(">wifi<"), page.find("lte, &lt;b&gt;")) << "by round trip";
}

TEST_F(PageTest, WhatTheIntervalsCannotTellApartIsNotCalledFastest) {
  report_.cells[1].samples[0].decode_ms = 9000;  // at lte, one answer turns the tables
  report_.cells[1].samples[1].decode_ms = 100;
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("Fastest: mirror at 1 of 2 settings. Too close to call at 1 of 2 "
                              "settings, among the fastest: ar at 1, mirror at 1."));
}

TEST_F(PageTest, HowItWasMadeIsInWords) {
  report_.run.machine = {{"cpu", "a fast one"}, {"cores", 2}, {"system", "Linux 6"}};
  report_.run.models = {{"target", {{"path", "models/t"}, {"fingerprint", nullptr}}}};
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("<li>machine: a fast one, 2 cores, Linux 6</li>"));
  EXPECT_THAT(page, HasSubstr("<li>target: models/t, fingerprint –</li>"));
  EXPECT_THAT(page, Not(HasSubstr("{&quot;")));
}

TEST_F(PageTest, AWrongTextIsVisible) {
  report_.cells[1].mismatches = 1;
  report_.valid = false;
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("This run is invalid"));
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">invalid</td>"));
}

TEST_F(PageTest, ARunWithoutAnswersIsAPageToo) {
  report_.cells.clear();
  report_.examples.clear();
  EXPECT_THAT(report_page(report_), HasSubstr("No strategy answered"));
}

TEST_F(PageTest, TablesAndTextHoldTheSameCells) {
  const std::string csv = report_csv(report_);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5);
  EXPECT_THAT(csv, HasSubstr("\"lte, <b>\"\"</script>"));
  EXPECT_THAT(report_markdown(report_), HasSubstr("1.60 [1.50, 1.70]"));
  const Json json = report_json(report_);
  EXPECT_EQ(json["schema"].get<std::string>(), kReportSchema);
  EXPECT_EQ(json["cells"].size(), 4u);
}

}  // namespace
}  // namespace outrider
