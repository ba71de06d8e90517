// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bench/report/cost_report.h"
#include "bench/report/html/charts.h"
#include "bench/report/html/markup.h"

namespace outrider {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPageTrace = R"({"traceEvents":[
  {"ph":"M","name":"thread_name","tid":1,"args":{"name":"draft model"}},
  {"ph":"M","name":"thread_name","tid":2,"args":{"name":"sent"}},
  {"ph":"M","name":"thread_name","tid":3,"args":{"name":"heard"}},
  {"ph":"M","name":"thread_name","tid":4,"args":{"name":"target passes"}},
  {"ph":"X","name":"draft 1 rows","ts":0,"dur":800,"tid":1},
  {"ph":"i","name":"Grow of 4 nodes","ts":900,"tid":2},
  {"ph":"X","name":"pass 0, 5 rows","ts":1500,"dur":2000,"tid":4},
  {"ph":"i","name":"verdict of pass 0: 5 tokens","ts":4000,"tid":3}]})";

// The text between `from` and the next `to`; the search continues after it.
std::string between(const std::string& page, const std::string& from, const std::string& to,
                    std::size_t& at) {
  const std::size_t begin = page.find(from, at);
  if (begin == std::string::npos) return "";
  const std::size_t end = page.find(to, begin);
  at = end;
  return page.substr(begin, end - begin);
}

std::size_t count_of(const std::string& page, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = page.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

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
        const double passes = variant == &ar_ ? 100 : 40, rtt = *cell.rtt_p50_ms;
        cell.use = {.input_tokens = 50,
                    .output_tokens = 100,
                    .passes = passes,
                    .rounds = variant == &ar_ ? 0 : passes,
                    .drafted = variant == &ar_ ? 0 : 4 * passes,
                    .decode_ms = variant == &ar_ ? 2000 : passes * (20 + rtt / 2),
                    .target_ms = 20 * passes,
                    .bytes = 50 * passes};
        report_.cells.push_back(cell);
      }
    }
    report_.run.command = "prompts=</script>";
    report_.setting_names = {lte_.name, wifi_.name};
    report_.variant_names = {"ar", "mirror"};
    FinishedAnswer example{.job = {0, 1, 0, 0}};
    example.answer.record.stats.chunk_at = {from_ms(10), from_ms(900)};
    example.answer.record.stats.chunk_tokens = {1, 4};
    example.answer.trace = kPageTrace;
    report_.examples = {example};
  }

  // As `run --price-file` does.
  void give_prices() {
    Prices prices;
    prices.date = "2025-05, a test's";
    prices.api = {.input = 1, .output = 2, .cached_input = 0.1};
    prices.gpu_dollars_per_hour = 2;
    report_.prices = prices;
    price_cells(prices, report_.cells);
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

TEST_F(PageTest, ARunThatGoesOnHasAPageThatFills) {
  EXPECT_THAT(report_page(report_), Not(AnyOf(HasSubstr("refresh"), HasSubstr("<progress"))));
  report_.so_far = AnswersSoFar{3, 12};
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("<meta http-equiv=\"refresh\" content=\"20\">"));
  EXPECT_THAT(page, HasSubstr("<progress value=\"3\" max=\"12\""));
  EXPECT_THAT(page, HasSubstr("25 %: 3 of 12 answers."));
  EXPECT_THAT(page, HasSubstr("mirror"));
}

TEST_F(PageTest, EachStrategyHasALookOfItsOwn) {
  std::set<std::pair<std::size_t, std::size_t>> looks;
  for (std::size_t place = 0; place < 32; ++place) {
    const CurveStyle style = curve_style(place);
    EXPECT_TRUE(looks.insert({style.colour, style.pattern}).second) << place;
    EXPECT_NE(style.pattern, curve_style(place + 1).pattern) << "of neighbours, " << place;
  }
}

TEST_F(PageTest, SaysWhoWinsAndMarksEveryFigure) {
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("Fastest: mirror at 2 of 2 settings."));
  EXPECT_THAT(page, HasSubstr("1.60×"));
  const std::size_t figures = count_of(page, "<figure>");
  EXPECT_EQ(figures, 7u);
  EXPECT_EQ(count_of(page, "class=\"mark\""), figures);
  EXPECT_EQ(count_of(page, "<figcaption>"), figures + count_of(page, "<figure class=\"chart\">"));
  EXPECT_LT(page.find(">wifi<"), page.find("lte, &lt;b&gt;")) << "by round trip";
}

TEST_F(PageTest, AnInconclusiveRunNamesNoFastest) {
  report_.inconclusive = "one prompt gives no interval";
  for (const std::string& text : {report_page(report_), report_markdown(report_)}) {
    EXPECT_THAT(text, HasSubstr("This run is inconclusive: one prompt gives no interval."));
    EXPECT_THAT(text, Not(HasSubstr("Fastest:")));
  }
  EXPECT_EQ(report_json(report_)["inconclusive"], "one prompt gives no interval");
}

TEST_F(PageTest, OverlappingIntervalsShowNoStrategyToBeFaster) {
  for (CellReport& cell : report_.cells) cell.samples.clear();
  EXPECT_THAT(report_page(report_),
              HasSubstr("No strategy is shown to be faster than plain decoding: the intervals "
                        "cannot tell them apart at 2 of 2 settings."));
}

TEST_F(PageTest, SaysWhatExitsCostAndWhoSaysSo) {
  EXPECT_THAT(report_page(report_), Not(HasSubstr("pass with exits")));
  report_.run.exit_cost = 1.125;
  EXPECT_THAT(report_page(report_), HasSubstr("takes 1.12 times as long (by --exit-cost)"));
  report_.run.exit_cost_measured = true;
  EXPECT_THAT(report_markdown(report_), HasSubstr("(measured on this machine)"));
}

// Each chart is in its own figure with a title, names both axes with their units, and has a
// caption.
TEST_F(PageTest, EveryChartHasTitleUnitsAndCaption) {
  give_prices();
  const std::string page = report_page(report_);
  const std::vector<std::string> units = {"seconds", "ms",          "share",   "times",
                                          "bytes",   "dollars per", "position"};
  std::size_t charts = 0;
  for (std::size_t at = 0;;) {
    const std::string chart = between(page, "<figure class=\"chart\">", "</figure>", at);
    if (chart.empty()) break;
    ++charts;
    EXPECT_EQ(count_of(chart, "<svg"), 1u) << chart;
    std::size_t in = 0;
    const std::string label = between(chart, "aria-label=\"", "\" ", in);
    EXPECT_GT(label.size(), std::string("aria-label=\"").size() + 1) << "a title: " << chart;
    std::size_t with_unit = 0;
    for (std::size_t word = 0;;) {
      const std::string text = between(chart, "<text", "</text>", word);
      if (text.empty()) break;
      const bool is_axis = std::ranges::any_of(
          units, [&](const std::string& unit) { return text.find(unit) != std::string::npos; });
      with_unit += is_axis ? 1 : 0;
    }
    const bool lanes = label.find("mirror: ") != std::string::npos ||
                       chart.find("Arrivals of tokens") != std::string::npos;
    EXPECT_GE(with_unit, lanes ? 1u : 2u) << "units: " << chart;
    std::size_t below = 0;
    const std::string caption = between(chart, "<figcaption>", "</figcaption>", below);
    EXPECT_GT(caption.size(), std::string("<figcaption>").size() + 20) << chart;
  }
  // Two latencies, arrivals, both sides, acceptance, speed-up, bytes, and four bills.
  EXPECT_EQ(charts, 11u);
  EXPECT_EQ(count_of(page, "<svg"), charts) << "no chart stands outside a figure";
}

TEST_F(PageTest, CostsStandInEveryFormOrItIsSaidThatThereAreNone) {
  const char* const said = "No prices were given";
  EXPECT_THAT(report_page(report_), HasSubstr(said));
  EXPECT_THAT(report_markdown(report_), HasSubstr(said));
  EXPECT_TRUE(report_json(report_)["prices_of"].is_null());
  give_prices();
  const std::string page = report_page(report_);
  EXPECT_THAT(page, Not(HasSubstr(said)));
  EXPECT_THAT(page, HasSubstr("Cost over the round trip"));
  EXPECT_THAT(page, HasSubstr("prices of 2025-05, a test&#39;s"));
  EXPECT_THAT(page, HasSubstr("Where drafting on the edge stops paying"));
  // 40 passes of 20 ms at 2 dollars an hour, for 100 tokens.
  const double shared = 40 * 20 / 100.0 * 1e6 / 3.6e6 * 2;
  const Json json = report_json(report_);
  EXPECT_NEAR(json["cells"][1]["cost"]["gpu_shared"].get<double>(), shared, 1e-9);
  ASSERT_EQ(json["break_even"].size(), 1u) << "mirror on one device";
  EXPECT_EQ(json["break_even"][0]["time"]["round_trips"]["pays"].get<int>(), 1);
  EXPECT_THAT(report_csv(report_), HasSubstr("cost_api_stateless"));
  EXPECT_THAT(report_csv(report_), HasSubstr(json["cells"][1]["cost"]["gpu_shared"].dump()));
  EXPECT_THAT(report_markdown(report_), HasSubstr("| own GPU, shared |"));
}

TEST_F(PageTest, OneAnswerShowsBothSides) {
  const std::string page = report_page(report_);
  EXPECT_THAT(page, HasSubstr("One answer on both sides"));
  EXPECT_THAT(page, HasSubstr("<title>pass 0, 5 rows</title>"));
  EXPECT_THAT(page, HasSubstr("<title>draft 1 rows</title>"));
  EXPECT_THAT(page, HasSubstr("<title>Grow of 4 nodes</title>"));
  EXPECT_THAT(page, HasSubstr("<title>verdict of pass 0: 5 tokens</title>"));
  report_.examples[0].answer.trace.clear();
  EXPECT_THAT(report_page(report_), Not(HasSubstr("One answer on both sides"))) << "not recorded";
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
