// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/form_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

std::string narrowed(const std::string& schema) {
  const Result<std::string> checked = checked_schema(schema);
  EXPECT_TRUE(checked.ok()) << checked.status().to_string();
  return checked.ok() ? *checked : "";
}

void expect_refused(const std::string& schema, const std::string& named) {
  const Status status = checked_schema(schema).status();
  EXPECT_FALSE(status.ok()) << schema;
  EXPECT_THAT(status.message(), HasSubstr(named)) << schema;
}

TEST(FormChecks, SchemasAreNarrowedToWhatCannotBeWrong) {
  EXPECT_EQ(narrowed(R"({"properties":{"b":{"type":"integer"},"a":true}})"),
            R"({"properties":{"b":{"type":"integer"},"a":true},"additionalProperties":false})")
      << "the order stays";
  EXPECT_EQ(narrowed(R"({"type":"object"})"), R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(narrowed(R"({"type":"array"})"), R"({"type":"array","items":{}})");
  EXPECT_EQ(narrowed("true"), "{}");
}

TEST(FormChecks, KeywordsThatAreNotEnforcedAreNamedWithTheirPlace) {
  expect_refused(R"({"type":"array","uniqueItems":true})", "'uniqueItems' at #");
  expect_refused(R"({"type":"array","contains":{}})", "'contains'");
  expect_refused(R"({"properties":{"a":{"not":{}}}})", "'not' at #/properties/a");
  expect_refused(R"({"if":{},"then":{}})", "'if' at #");
  expect_refused(R"({"minimum":3})", "'minimum' at # is not enforced where there is no 'type'");
  expect_refused(R"({"type":"string","minimum":3})", "'minimum'");
  expect_refused(R"({"type":"number","multipleOf":0.5})", "'multipleOf'");
  expect_refused(R"({"anyOf":[{}],"properties":{}})",
                 "'properties' at # is not enforced beside 'anyOf'");
  expect_refused(R"({"allOf":[{},{}]})", "'allOf' at # has 2 schemas");
  expect_refused(R"({"type":"string","format":"iban"})", "'format' at # is ");
  expect_refused(R"({"type":"object","dependentRequired":{"a":["b"]}})", "'dependentRequired'");
  expect_refused(R"({"properties":{"a":{}},"patternProperties":{"b":{}}})", "'patternProperties'");
  expect_refused(R"({"nullable":true})", "'nullable'");
  for (const char* passed :
       {R"({"type":"array","uniqueItems":false})", R"({"allOf":[{"type":"null"}]})",
        R"({"title":"T","$comment":"c","default":3,"type":"integer"})"}) {
    EXPECT_TRUE(checked_schema(passed).ok()) << passed;
  }
}

TEST(FormChecks, WrongSchemasAreRefused) {
  expect_refused("", "JSON schema");
  expect_refused("{", "JSON schema");
  expect_refused("[]", "must be an object or true");
  expect_refused("false", "no value fits");
  expect_refused(R"({"type":"text"})", "must be object, array, string");
  expect_refused(R"({"required":["a"]})", "'properties' does not have");
  expect_refused(R"({"enum":[]})", "not empty");
  expect_refused(R"({"type":"integer","enum":["a"]})", "has a value that is no");
  expect_refused(R"({"type":"string","minLength":-1})", "#/minLength must be 0 to");
  expect_refused(R"({"type":"integer","minimum":"3"})", "#/minimum must be a number");
  expect_refused(R"({"$ref":"#/nowhere"})", "must be # or #/");
  expect_refused(R"({"$ref":"https://example.org/schema"})", "must be # or #/");
}

TEST(FormChecks, ASchemaThatLeadsToItselfHasNoValue) {
  expect_refused(R"({"$ref":"#"})", "leads to itself");
  expect_refused(
      R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})",
      "leads to itself");
  EXPECT_TRUE(checked_schema(R"({"properties":{"next":{"$ref":"#"}}})").ok());
}

TEST(FormChecks, SizesAreBounded) {
  std::string deep = "true";
  for (int i = 0; i < FormBounds::kMaxDepth + 2; ++i) deep = R"({"items":)" + deep + "}";
  expect_refused(deep, "nested deeper");
  std::string values = "0";
  for (std::size_t i = 1; i <= FormBounds::kMaxValues; ++i) values += "," + std::to_string(i);
  expect_refused(R"({"enum":[)" + values + "]}", "more than 4000 values");
  std::string names = R"("a":true)";
  for (std::size_t i = 0; i < FormBounds::kMaxProperties; ++i)
    names += ",\"p" + std::to_string(i) + "\":true";
  expect_refused(R"({"properties":{)" + names + "}}", "more than 512 entries");
  expect_refused(R"({"type":"array","maxItems":1000000})", "must be 0 to 65536");
  expect_refused(R"({"type":"string","pattern":"(a{1000}){1000}"})", "repeats make more than");
}

TEST(FormChecks, NestedRepeatsMultiply) {
  for (const char* passed :
       {"[a-z]+", "(ab|c){2,40}", "a{3}", "\\{9999999\\}", "[{9999999}]", "x{,5}"}) {
    EXPECT_TRUE(check_regex(passed).ok()) << passed;
  }
  for (const char* refused : {"a{99999999999999999999}", "((a{100}){100}){100}",
                              "((((a{1,40}){1,40}){1,40}){1,40})", ""}) {
    EXPECT_FALSE(check_regex(refused).ok()) << refused;
  }
  EXPECT_FALSE(check_regex(std::string(100, '(')).ok());
  EXPECT_FALSE(check_regex(std::string(FormBounds::kMaxPattern + 1, 'a')).ok());
}

TEST(FormChecks, GrammarsNeedARoot) {
  EXPECT_TRUE(check_grammar("root ::= \"a{99999999}\" # ((((\n").ok());
  EXPECT_FALSE(check_grammar("start ::= \"a\"").ok());
  EXPECT_FALSE(check_grammar("root ::= \"abc\"{60000}").ok());
}

}  // namespace
}  // namespace outrider
