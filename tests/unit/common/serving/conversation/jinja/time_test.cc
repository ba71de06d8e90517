// Templates that cost as much time as they can: each ends at its deadline, measured as the
// processor time of its thread, from the reading of the template to the freeing of its values.
//
//   OUTRIDER_TEMPLATES=10000 build/release/tests/unit_jinja --gtest_filter='*Generated*'
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "common/serving/conversation/jinja/steps.h"
#include "common/serving/conversation/jinja/template.h"
#include "tests/support/paths.h"

namespace outrider::jinja {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

#if defined(OUTRIDER_SANITIZED)
constexpr milliseconds kMargin{3000};
constexpr int kTemplates = 40;
#else
constexpr milliseconds kMargin{100};
constexpr int kTemplates = 150;
#endif
constexpr std::size_t kMebibyte = std::size_t{1} << 20;

struct Ended {
  nanoseconds
      used{};  // the thread's time for the parsing, or for the rendering if that took longer
  bool is_refused = false;  // with an error of jinja2's kind
  bool is_bounded = false;  // at a bound
};

// Parses, renders, and frees what both made.
Ended run(const std::string& source, const Json& context, const RenderOptions& options) {
  const nanoseconds begin = thread_time();
  nanoseconds parsing{};
  Status status;
  {
    const Result<Template> parsed = Template::parse(source, options.max_time);
    parsing = thread_time() - begin;
    status =
        parsed.ok() ? parsed->render({{"bos", "<s>"}}, context, options).status() : parsed.status();
  }
  const bool is_bounded = status.code() == StatusCode::kResourceExhausted;
  return {std::max(parsing, thread_time() - begin - parsing), !status.ok() && !is_bounded,
          is_bounded};
}

std::string repeated(std::string_view piece, std::size_t bytes) {
  std::string text;
  while (text.size() + piece.size() <= bytes) text += piece;
  return text;
}

std::string loop_of(const std::string& body) {
  return "{% for i in range(99999) %}" + body + "{% endfor %}";
}

// The first group of every match in a source file of the library: the names of its built-ins.
std::vector<std::string> names_in(const char* file, const char* pattern) {
  std::ifstream in(source_dir() + "/common/serving/conversation/jinja/" + file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::regex expression(pattern);
  std::vector<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    names.push_back((*at)[1]);
  return names;
}

// The arguments that a built-in usually takes: the kind of its value, a colon, the kinds of its
// arguments. T is a text, L a list, D a dictionary, N a number, K a key, F a filter's name and S a
// test's.
const std::map<std::string, std::string, std::less<>> kForms = {
    {"strip", "T:T"},        {"lstrip", "T:T"},
    {"rstrip", "T:T"},       {"startswith", "T:T"},
    {"endswith", "T:T"},     {"removeprefix", "T:T"},
    {"removesuffix", "T:T"}, {"split", "T:T"},
    {"rsplit", "T:T"},       {"replace", "T:TT"},
    {"find", "T:T"},         {"rfind", "T:T"},
    {"index", "T:T"},        {"rindex", "T:T"},
    {"count", "T:T"},        {"ljust", "T:N"},
    {"rjust", "T:N"},        {"center", "T:N"},
    {"zfill", "T:N"},        {"partition", "T:T"},
    {"rpartition", "T:T"},   {"format", "T:T"},
    {"indent", "T:N"},       {"truncate", "T:N"},
    {"attr", "D:K"},         {"batch", "L:N"},
    {"dictsort", "D:"},      {"first", "L:"},
    {"groupby", "M:K"},      {"items", "D:"},
    {"last", "L:"},          {"length", "L:"},
    {"list", "L:"},          {"map", "L:F"},
    {"max", "L:"},           {"min", "L:"},
    {"reject", "L:ST"},      {"rejectattr", "M:KST"},
    {"reverse", "L:"},       {"select", "L:ST"},
    {"selectattr", "M:KS"},  {"sort", "L:"},
    {"sum", "L:"},           {"unique", "L:"},
    {"default", "T:T"},      {"d", "T:T"},
    {"in", "T:T"},           {"eq", "T:T"},
    {"ne", "L:L"},           {"lt", "T:T"},
    {"gt", "L:L"},           {"le", "T:T"},
    {"ge", "T:T"},           {"equalto", "D:D"},
    {"sameas", "L:L"},       {"divisibleby", "N:N"},
    {"lessthan", "T:T"},     {"greaterthan", "T:T"},
    {"odd", "N:"},           {"even", "N:"},
    {"abs", "N:"},           {"round", "N:"},
    {"tojson", "L:"}};

// Writes templates over every built-in, with texts, lists and dictionaries of up to 1 MiB.
class Generator final {
 public:
  Generator() {
    filters_ = names_in("filters.cc", R"re(\{"(\w+)", \w+_filter\})re");
    const auto more = names_in("value_filters.cc", R"re(\{"(\w+)", \w+_filter\})re");
    filters_.insert(filters_.end(), more.begin(), more.end());
    tests_ = names_in("builtins.cc", R"re(\{"(\w+)", \w+_test\})re");
    methods_ = names_in("methods.cc", R"re(\{"(\w+)", \w+_method\})re");
    for (int i = 0; i < 32; ++i) contexts_.push_back(make_context());
  }

  void seed(std::uint64_t seed) { random_.seed(seed); }
  const std::vector<std::string>& filters() const { return filters_; }
  const std::vector<std::string>& tests() const { return tests_; }
  const std::vector<std::string>& methods() const { return methods_; }

  const Json& context() { return contexts_[below(contexts_.size())]; }

  std::string source() {
    std::string made = "{% set ns = namespace(x=" + value(1) + ", y=" + value(0) + ") %}";
    std::string body;
    for (std::size_t i = 1 + below(2); i > 0; --i) body += statement();
    static constexpr const char* kTimes[] = {"1", "2", "50", "99999"};
    made += "{% for i in range(" + std::string(kTimes[below(4)]) + ") %}" + body + "{% endfor %}";
    return made + literal();
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  template <typename List>
  std::string any(const List& list) {
    return std::string(*(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list)))));
  }

  Json make_context() {
    Json made = {{"t0", text()}, {"t1", text()}, {"c", text()}, {"n", 3}};
    const std::size_t items = size() / 20;
    const std::string item = text().substr(0, 20);
    Json::array_t texts, dictionaries;
    Json::object_t dictionary;
    for (std::size_t i = 0; i < items; ++i) {
      texts.push_back(item + std::to_string(i * 7919 % items));
      dictionaries.push_back(Json{{"k", i * 7919 % items}, {"t", item}});
      dictionary.emplace_back(item + std::to_string(i), i);
    }
    made["l0"] = std::move(texts);
    made["m0"] = std::move(dictionaries);
    made["d0"] = std::move(dictionary);
    return made;
  }

  std::size_t size() {
    static constexpr std::size_t kSizes[] = {0, 1, 30, 4096, 65536, kMebibyte, kMebibyte};
    return kSizes[below(std::size(kSizes))];
  }

  std::string text() {
    static const std::string kLong = std::string(5000, 'a') + "b";
    static const std::string_view kPieces[] = {
        "a",      "ab",     "a b ", "\n",   "\r\n", " ",   "\u00e9",  "\u03a3\u03c2",
        "&<>'\"", "{}",     "{0}",  "%s",   "%%",   "9",   "1.5",     ",",
        ".",      "\u2028", "\x01", "\"\\", "A",    kLong, "\u00e9 a"};
    return repeated(kPieces[below(std::size(kPieces))], size());
  }

  // A text that the template itself holds, sometimes long.
  std::string literal() {
    if (below(4) != 0) return "";
    return "{% set w = '" + repeated(below(2) == 0 ? "a" : "ab ", size() / 2) + "' %}";
  }

  // An expression of that kind, usually.
  std::string of_kind(char kind, int depth) {
    static constexpr const char* kTexts[] = {"t0",
                                             "t1",
                                             "c",
                                             "'a'",
                                             "'b'",
                                             "''",
                                             "(t0 ~ 'b')",
                                             "(t1 ~ t0)",
                                             "('a' * n)",
                                             "'\u00e9'",
                                             "('a' * 600000 ~ bos)",
                                             "('ab' * 300000)",
                                             "('a' * 300000 ~ 'b')"};
    static constexpr const char* kLists[] = {"l0",          "[t0, t1, t0]", "(t0, t1)",
                                             "range(5000)", "(l0 + l0)",    "(t0|list)",
                                             "t0.split()",  "[l0, l0]",     "m0"};
    static constexpr const char* kDictionaries[] = {"d0", "{t0: t1}", "m0[0]", "{1: l0, 2: d0}"};
    static constexpr const char* kNumbers[] = {"n",     "-1", "1.5",
                                               "90000", "i",  "9223372036854775807"};
    if (below(12) == 0) return value(depth);
    switch (kind) {
      case 'T':
        return any(kTexts);
      case 'L':
        return any(kLists);
      case 'D':
        return any(kDictionaries);
      case 'M':
        return "m0";
      case 'N':
        return any(kNumbers);
      case 'K':
        return below(2) == 0 ? "'k'" : "'t'";
      case 'F':
        return "'" + any(filters_) + "'";
      default:
        return "'" + any(tests_) + "'";
    }
  }

  std::string value(int depth) {
    static constexpr const char* kRare[] = {"loop", "ns", "ns.x", "none", "true", "missing"};
    static constexpr std::string_view kKinds = "TTTTLLDN";
    if (depth > 0 && below(2) == 0) return expression(depth - 1);
    return below(8) == 0 ? any(kRare) : of_kind(kKinds[below(kKinds.size())], 0);
  }

  // The value and the arguments of a built-in.
  std::pair<std::string, std::string> call_of(const std::string& name, int depth) {
    static constexpr const char* kNamed[] = {
        "attribute='k'", "reverse=true",  "case_sensitive=true", "indent=2", "sort_keys=true",
        "maxsplit=9",    "keepends=true", "first=true",          "*l0",      "**d0"};
    const auto found = kForms.find(name);
    const std::string form = found != kForms.end() ? found->second : "T:";
    std::string arguments;
    const auto add = [&](const std::string& one) {
      arguments += (arguments.empty() ? "" : ", ") + one;
    };
    for (const char kind : form.substr(2)) add(of_kind(kind, depth));
    if (below(12) == 0) add(any(kNamed));
    return {of_kind(form[0], depth), "(" + arguments + ")"};
  }

  std::string expression(int depth) {
    static constexpr const char* kSigns[] = {"+",  "-",  "*",  "/",      "//",  "%",
                                             "**", "~",  "==", "!=",     "<",   "<=",
                                             ">",  ">=", "in", "not in", "and", "or"};
    static constexpr const char* kParts[] = {"[1:]", "[:-1]", "[::-1]", "[::3]", "[0]",
                                             "[-1]", ".k",    "[t0]",   "[5:n]", ".x.y"};
    static constexpr const char* kMethods[] = {"d0.get(t0)",      "d0.items()",      "d0.keys()",
                                               "d0.values()",     "d0.copy()",       "l0.copy()",
                                               "l0.index(t0)",    "l0.count(t0)",    "m0.count(d0)",
                                               "loop.cycle(*l0)", "loop.changed(l0)"};
    switch (below(8)) {
      case 0:
      case 1: {
        const std::string name = any(filters_);
        const auto [of, arguments] = call_of(name, depth);
        return "(" + of + "|" + name + arguments + ")";
      }
      case 2: {
        const std::string name = any(tests_);
        const auto [of, arguments] = call_of(name, depth);
        return "(" + of + " is " + name + (arguments == "()" ? "" : arguments) + ")";
      }
      case 3:
      case 4: {
        const std::string name = any(methods_);
        const auto [of, arguments] = call_of(name, depth);
        return of + "." + name + (name == "join" ? "(" + of_kind('L', 0) + ")" : arguments);
      }
      case 5:
        return any(kMethods);
      case 6: {
        static constexpr std::string_view kKinds = "TTLD";
        const char kind = kKinds[below(kKinds.size())];
        return "(" + of_kind(kind, depth) + " " + any(kSigns) + " " +
               of_kind(below(4) == 0 ? 'N' : kind, depth) + ")";
      }
      default:
        return "(" + of_kind(below(2) == 0 ? 'T' : 'L', depth) + ")" + any(kParts);
    }
  }

  std::string statement() {
    const std::string made = expression(1);
    switch (below(6)) {
      case 0:
        return "{{ " + made + " }}";
      case 1:
        return "{% if " + made + " %}{% endif %}";
      case 2:
        return "{% set ns.x = " + made + " %}";
      case 3:
        return "{% for z in [" + made + "] %}{{ z }}{% endfor %}";
      case 4:
        return "{% filter upper|trim|title %}{{ " + made + " }}{% endfilter %}";
      default:
        return "{% set y = " + made + " %}";
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> filters_, tests_, methods_;
  std::vector<Json> contexts_;
};

// Its contexts hold megabytes, so the tests share it.
Generator& generator() {
  static Generator made;
  return made;
}

TEST(JinjaTimeTest, GeneratedTemplatesEndAtTheirDeadlines) {
  const char* wanted = std::getenv("OUTRIDER_TEMPLATES");
  const int count = wanted != nullptr ? std::atoi(wanted) : kTemplates;
  const RenderOptions by_time{.now = {},
                              .max_steps = Steps::kUnlimited,
                              .max_time = milliseconds(wanted != nullptr ? 20 : 5)};
  nanoseconds most_over{}, most_by_steps{};
  int refused = 0, bounded = 0;
  for (int i = 0; i < count; ++i) {
    generator().seed(static_cast<std::uint64_t>(i));
    const Json& context = generator().context();
    const std::string source = generator().source();
    SCOPED_TRACE("template " + std::to_string(i) + ": " + source.substr(0, 2000));
    const Ended by_deadline = run(source, context, by_time), by_steps = run(source, context, {});
    EXPECT_LT(by_deadline.used, by_time.max_time + kMargin);
    EXPECT_LT(by_steps.used, kMaxTime + kMargin);
    most_over = std::max(most_over, by_deadline.used - by_time.max_time);
    most_by_steps = std::max(most_by_steps, by_steps.used);
    refused += by_deadline.is_refused ? 1 : 0;
    bounded += by_deadline.is_bounded ? 1 : 0;
  }
  const auto shown = [](nanoseconds time) { return static_cast<double>(time.count()) / 1e6; };
  std::printf(
      "%d templates, %d ended by a bound, %d refused: at most %.1f ms beyond a deadline of %.0f "
      "ms; "
      "with the usual bounds at most %.1f ms\n",
      count, bounded, refused, shown(most_over), shown(by_time.max_time), shown(most_by_steps));
  EXPECT_GT(bounded, count / 20);
}

TEST(JinjaTimeTest, TheGeneratorKnowsEveryBuiltIn) {
  EXPECT_GE(generator().filters().size(), 44u);
  EXPECT_GE(generator().tests().size(), 33u);
  EXPECT_GE(generator().methods().size(), 37u);
}

// Each of these took seconds or minutes within its bound of steps.
TEST(JinjaTimeTest, WhatCostsMoreThanItsStepsEndsSoon) {
  const std::string a = "{% set a = '" + repeated("a", 900'000) + "' %}";
  const std::string half = "{% set b = '" + repeated("a", 299'999) + "b' %}";
  const std::string parameters = [] {
    std::string names;
    for (int i = 0; i < 50'000; ++i) names += (i > 0 ? ",p" : "p") + std::to_string(i);
    return names;
  }();
  const std::string sources[] = {
      a + loop_of("{% if a.isalpha() %}{% endif %}"),
      a + loop_of("{% if a.startswith('b', 5) %}{% endif %}"),
      a + loop_of("{% if a.startswith(a ~ 'b') %}{% endif %}"),
      a + loop_of("{% if a.partition('b') %}{% endif %}"),
      a + loop_of("{% if a.removeprefix(a) %}{% endif %}"),
      a + loop_of("{% if a.splitlines() %}{% endif %}"),
      a + loop_of("{% if a|int %}{% endif %}"),
      a + loop_of("{% if a is upper %}{% endif %}"),
      a + loop_of("{% if a|tojson %}{% endif %}"),
      a + loop_of("{% if a|truncate(800000) %}{% endif %}"),
      half +
          "{% set a = 'a' * 600000 %}{{ b in a }}{{ a.find(b) }}{{ a.rfind(b) }}{{ a.split(b) }}{{ "
          "a.rsplit(b) }}"
          "{{ a.replace(b, 'c') }}{{ a.count(b) }}{{ a.rpartition(b)[0] }}",
      "{% set c = '" + repeated("b", 399'999) + "a' %}{{ ('a' * 400000).strip(c) }}",
      "{% set c = '" + repeated("\u00e9", 399'998) + "a' %}{{ ('a' * 400000).strip(c) }}",
      "{{ ('<' * 500000 ~ text)|e }}",
      "{{ text|list|unique|list }}{{ (range(99999)|list + [-1])|unique|list }}",
      "{% set ns = namespace(a=[], b=[]) %}" +
          loop_of("{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}") + "{{ ns.a == ns.b }}",
      "{% raw %}" + repeated("{", 900'000) + "{% endraw %}",
      "{{ a" + repeated("+a", 900'000) + " }}",
      "{% if false %}{{ a" + repeated(".a", 900'000) + " }}{% endif %}",
      "{{ a" + repeated("|d", 900'000) + " }}",
      repeated("{{a}}", 1'000'000),
      repeated("{%set a=1%}", 1'000'000),
      "{% macro m(" + parameters + ") %}{% endmacro %}{{ m() }}",
  };
  const Json context = {{"text", std::string(500'000, '<')}};
  for (const std::string& source : sources) {
    const RenderOptions options;
    const nanoseconds used = run(source, context, options).used;
    const std::size_t end = source.size() - std::min<std::size_t>(source.size(), 60);
    EXPECT_LT(used, kMaxTime + kMargin) << source.substr(0, 60) << " .. " << source.substr(end);
  }
}

// A deadline ends what steps would allow, and says so.
TEST(JinjaTimeTest, ADeadlineIsNamed) {
  const RenderOptions options{
      .now = {}, .max_steps = Steps::kUnlimited, .max_time = milliseconds(10)};
  const Result<Template> parsed = Template::parse(loop_of(loop_of("")));
  ASSERT_TRUE(parsed.ok());
  const Status ended = parsed->render({}, Json::object(), options).status();
  EXPECT_EQ(ended.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(ended.message().find("takes too long"), std::string::npos) << ended.message();
  const Status refused = Template::parse(repeated("{{a}}", 1'000'000), milliseconds(1)).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("takes too long"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace outrider::jinja
