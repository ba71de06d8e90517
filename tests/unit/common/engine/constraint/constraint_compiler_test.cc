// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/constraint_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace outrider {
namespace {

using testing::HasSubstr;

// All bytes, and some pieces of JSON; the last id stands for no text.
std::vector<std::string> bytes_and_more() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"{\"", "\":", "true", "\"}", "00"}) pieces.emplace_back(piece);
  pieces.emplace_back();
  return pieces;
}

// Byte by byte.
GrammarVocabulary vocabulary() {
  return GrammarVocabulary(bytes_and_more(), [](std::string_view text) {
    return std::vector<TokenId>(text.begin(), text.end());
  });
}

class ConstraintCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!no_grammars().empty()) GTEST_SKIP() << no_grammars();
  }

  // Whether an answer of these bytes has the form, from its first byte to its end.
  bool has_form(const ConstraintSpec& spec, const std::string& text) {
    const Result<AnswerConstraint> constraint = compiler_.compile(spec);
    EXPECT_TRUE(constraint.ok()) << constraint.status().to_string();
    if (!constraint.ok()) return false;
    const auto state = constraint->compiled->begin();
    for (const char c : text) {
      const auto token = static_cast<TokenId>(static_cast<unsigned char>(c));
      if (!state->allowed({})->has(token)) return false;
      state->append({&token, 1});
    }
    return state->allowed({})->may_end;
  }

  Status refusal(ConstraintKind kind, const std::string& text) {
    return compiler_.compile({kind, text}).status();
  }

  ConstraintCompiler compiler_{vocabulary};
};

TEST_F(ConstraintCompilerTest, HoldsAnswersToEachKindOfForm) {
  using enum ConstraintKind;
  EXPECT_TRUE(has_form({kJsonObject}, R"({"a": [1, {"b": null}]})"));
  EXPECT_FALSE(has_form({kJsonObject}, "[1]"));
  EXPECT_FALSE(has_form({kJsonObject}, R"({"a": 1)"));
  const ConstraintSpec schema{
      kJsonSchema,
      R"({"properties":{"x":{"type":"integer","minimum":0,"maximum":9},"to":{"enum":["base","door"]}},"required":["x","to"]})"};
  EXPECT_TRUE(has_form(schema, R"({"x": 3, "to": "door"})"));
  EXPECT_FALSE(has_form(schema, R"({"x": 30, "to": "door"})"));
  EXPECT_FALSE(has_form(schema, R"({"x": 3})"));
  EXPECT_FALSE(has_form(schema, R"({"x": 3, "to": "door", "y": 1})"));
  EXPECT_TRUE(has_form({kRegex, "[a-c]{2,3}"}, "abc"));
  EXPECT_FALSE(has_form({kRegex, "[a-c]{2,3}"}, "a"));
  EXPECT_TRUE(has_form({kGrammar, "root ::= word (\" \" word)*\nword ::= [a-z]+ # a comment\n"},
                       "go home"));
  EXPECT_FALSE(has_form({kGrammar, "root ::= [a-z]+"}, "Go"));
}

constexpr char kFrames[] =
    R"("frames":[["<call>move ",{"type":"integer","minimum":0,"maximum":9},"</call>"],)"
    R"(["<call>say ",{"type":"string"},"</call>"]])";

TEST_F(ConstraintCompilerTest, SaysWhatTextAFormForces) {
  const Result<AnswerConstraint> constraint = compiler_.compile(
      {ConstraintKind::kJsonSchema,
       R"({"properties":{"x":{"type":"boolean"},"to":{"enum":["base","barn"]}},"required":["x","to"]})"});
  ASSERT_TRUE(constraint.ok()) << constraint.status().to_string();
  const auto state = constraint->compiled->begin();
  const auto forced = [&](const std::string& path) {
    const std::vector<TokenId> tokens =
        state->forced(std::vector<TokenId>(path.begin(), path.end()));
    return std::string(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(forced(""), R"({"x": )");
  EXPECT_EQ(forced(R"({"x": )"), "") << "a choice";
  EXPECT_EQ(forced(R"({"x": t)"), R"(rue, "to": "ba)") << "up to the next choice";
  EXPECT_EQ(forced(R"({"x": 1)"), "") << "outside the form";
  state->append(std::vector<TokenId>{'{', '"', 'x', '"', ':', ' ', 'f'});
  EXPECT_EQ(forced(""), R"(alse, "to": "ba)") << "behind the committed text";
  EXPECT_EQ(forced(R"(alse, "to": "bar)"), R"(n"})");
  EXPECT_EQ(forced(R"(alse, "to": "barn"})"), "") << "the end";
  EXPECT_EQ(forced(""), R"(alse, "to": "ba)") << "asking changes nothing";
}

TEST_F(ConstraintCompilerTest, AFrameIsAWholeAnswer) {
  const ConstraintSpec one{ConstraintKind::kFramed, std::string("{") + kFrames + "}"};
  EXPECT_TRUE(has_form(one, "<call>move 3</call>"));
  EXPECT_TRUE(has_form(one, R"(<call>say "a</call>b"</call>)"));
  EXPECT_FALSE(has_form(one, "<call>move 30</call>"));
  EXPECT_FALSE(has_form(one, "<call>move 3</call><call>move 3</call>"));
  const ConstraintSpec several{ConstraintKind::kFramed,
                               std::string("{") + kFrames + R"(,"several":true})"};
  EXPECT_TRUE(has_form(several, "<call>move 3</call>"));
  EXPECT_TRUE(has_form(several, "<call>move 3</call>\n<call>say \"a\"</call><call>move 4</call>"));
  EXPECT_FALSE(has_form(several, ""));
  EXPECT_FALSE(has_form(several, "<call>move 3</call>\n<call>"));
}

TEST_F(ConstraintCompilerTest, AFormMayStandInsteadOfFrames) {
  const ConstraintSpec form{
      ConstraintKind::kFramed,
      std::string("{") + kFrames + R"(,"several":true,"instead":{"type":"object"}})"};
  EXPECT_TRUE(has_form(form, R"({"a": 1})"));
  EXPECT_TRUE(has_form(form, "<call>move 3</call>"));
  EXPECT_FALSE(has_form(form, R"({"a": 1}<call>move 3</call>)"));
  EXPECT_FALSE(has_form(form, "I go."));
}

TEST_F(ConstraintCompilerTest, TextIsFreeUntilAFrameIsTriggered) {
  const std::string trigger = std::string("{") + kFrames + R"(,"trigger":"<call>","several":)";
  const ConstraintSpec many{ConstraintKind::kFramed, trigger + "true}"};
  const ConstraintSpec once{ConstraintKind::kFramed, trigger + "false}"};
  for (const ConstraintSpec& form : {many, once}) {
    EXPECT_TRUE(has_form(form, ""));
    EXPECT_TRUE(has_form(form, "I go. <cal or <<call or </call> {\"a\": [\xc3\xa9"));
    EXPECT_TRUE(has_form(form, "I go.\n<call>move 3</call>"));
    EXPECT_FALSE(has_form(form, "I go.\n<call>move 3"));
    EXPECT_FALSE(has_form(form, "<<call>move 30</call>"));
    EXPECT_FALSE(has_form(form, "I go. <call> move"));
  }
  const std::string twice = "I <call>move 3</call> and <call>say \"a\"</call>.";
  EXPECT_TRUE(has_form(many, twice));
  EXPECT_FALSE(has_form(once, twice));
  EXPECT_FALSE(has_form(many, "<call>move 3</call><call>jump"));
}

TEST_F(ConstraintCompilerTest, FramesThatAreWrongAreRefused) {
  const auto refused = [this](const std::string& members) {
    return refusal(ConstraintKind::kFramed, "{" + members + "}").message();
  };
  EXPECT_THAT(refused(R"("frames":[])"), HasSubstr("1 to 128"));
  EXPECT_THAT(refused(R"("frames":[["a",{}]])"), HasSubstr("a schema and a text"));
  EXPECT_THAT(refused(R"("frames":[["a",{},"b"]],"trigger":"")"), HasSubstr("trigger"));
  EXPECT_THAT(refused(R"("frames":[["a",{},"b"]],"trigger":"b")"), HasSubstr("begin with"));
  EXPECT_THAT(refused(R"("frames":[["a",{},"b"]],"several":1)"), HasSubstr("several"));
  EXPECT_THAT(refused(R"("frames":[["a",{"not":{}},"b"]])"), HasSubstr("'not'"));
  EXPECT_THAT(refused(R"("frames":[["a",{},"b"]],"instead":{"not":{}})"), HasSubstr("'not'"));
}

TEST_F(ConstraintCompilerTest, RefusesWhatWouldBePassedOver) {
  using enum ConstraintKind;
  EXPECT_THAT(refusal(kJsonSchema, R"({"type":"string","pattern":"a+","maxLength":3})").message(),
              HasSubstr("minLength/maxLength"));
  EXPECT_THAT(refusal(kJsonSchema, R"({"type":"integer","minimum":0,"multipleOf":7})").message(),
              HasSubstr("multipleOf"));
  EXPECT_FALSE(refusal(kJsonSchema, R"({"type":"integer","minimum":3,"maximum":2})").ok());
  EXPECT_FALSE(refusal(kRegex, "(unclosed").ok());
  EXPECT_FALSE(refusal(kGrammar, "root ::= nowhere").ok());
  EXPECT_FALSE(refusal(kGrammar, "root ::= \"a").ok());
  EXPECT_THAT(refusal(kRegex, std::string(ConstraintSpec::kMaxBytes + 1, 'a')).message(),
              HasSubstr("at most 65536"));
}

TEST_F(ConstraintCompilerTest, KeepsWhatAnOwnerAskedFor) {
  const ConstraintSpec spec{ConstraintKind::kRegex, "a+"};
  EXPECT_FALSE(compiler_.find(spec, "ann").has_value());
  const Result<AnswerConstraint> first = compiler_.compile(spec, "ann");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(compiler_.find(spec, "ann").has_value());
  EXPECT_EQ(compiler_.find(spec, "ann")->compiled, first->compiled);
  EXPECT_FALSE(compiler_.find(spec, "bob").has_value()) << "one tenant's forms tell others nothing";
  EXPECT_TRUE(compiler_.find({}, "bob").has_value()) << "no form needs no grammar";
}

TEST_F(ConstraintCompilerTest, ForgetsWhatWasNotAskedForLongest) {
  ConstraintCompiler compiler(vocabulary, {.kept_forms = 2});
  const auto form = [](const char* text) { return ConstraintSpec{ConstraintKind::kRegex, text}; };
  for (const char* text : {"a", "b"}) ASSERT_TRUE(compiler.compile(form(text)).ok());
  EXPECT_TRUE(compiler.find(form("a")).has_value());
  ASSERT_TRUE(compiler.compile(form("c")).ok());
  EXPECT_TRUE(compiler.find(form("a")).has_value());
  EXPECT_FALSE(compiler.find(form("b")).has_value());
}

TEST_F(ConstraintCompilerTest, EndsAFormThatTakesTooLong) {
  ConstraintCompiler compiler(vocabulary, {.trial = {.time = Duration{1}}});
  EXPECT_EQ(compiler.compile({ConstraintKind::kJsonObject}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(ConstraintCompilerTest, ThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const ConstraintSpec spec{ConstraintKind::kRegex, "a{1," + std::to_string(i / 2 + 1) + "}"};
      EXPECT_TRUE(compiler_.compile(spec).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace outrider
