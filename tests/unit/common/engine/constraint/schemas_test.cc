// Schemas drawn at random, and answers drawn at random from what their grammars allow: each answer
// that ends must fit its schema by a plain validator. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "common/base/json.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr int kSchemas = 60;
constexpr int kAnswers = 20;  // of each
constexpr int kMaxTokens = 600;

// --- a plain validator of what is drawn below ---------------------------------------------------

bool fits(const Json& value, const Json& schema, const Json& root);

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
  }
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool fits_number(double value, const Json& schema) {
  return value >= schema.value("minimum", value) && value <= schema.value("maximum", value) &&
         (!schema.contains("exclusiveMaximum") || value < schema["exclusiveMaximum"].get<double>());
}

bool fits_string(const std::string& value, const Json& schema) {
  if (schema.contains("pattern") &&
      !std::regex_search(value, std::regex(schema["pattern"].get<std::string>()))) {
    return false;
  }
  return value.size() >= schema.value("minLength", std::size_t{0}) &&
         value.size() <= schema.value("maxLength", value.size());
}

bool fits_array(const Json& value, const Json& schema, const Json& root) {
  const Json prefix = schema.value("prefixItems", Json::array());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json item = i < prefix.size() ? prefix[i] : schema.value("items", Json::object());
    if (!fits(value[i], item, root)) return false;
  }
  return value.size() >= schema.value("minItems", std::size_t{0}) &&
         value.size() <= schema.value("maxItems", value.size());
}

bool fits_object(const Json& value, const Json& schema, const Json& root) {
  const Json properties = schema.value("properties", Json::object());
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, each] : value.items()) {
    const Json rest = schema.value("additionalProperties", Json(true));
    if (!fits(each, properties.contains(name) ? properties[name] : rest, root)) return false;
  }
  return true;
}

bool fits(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) return fits(value, root["$defs"]["node"], root);
  if (schema.contains("const")) return value == schema["const"];
  if (schema.contains("enum")) return std::ranges::count(schema["enum"], value) > 0;
  if (schema.contains("anyOf")) {
    return std::ranges::any_of(schema["anyOf"],
                               [&](const Json& each) { return fits(value, each, root); });
  }
  if (!schema.contains("type")) return true;
  const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  if (std::ranges::none_of(types, [&](const Json& each) { return has_type(value, each); })) {
    return false;
  }
  if (value.is_number()) return fits_number(value.get<double>(), schema);
  if (value.is_string()) return fits_string(value.get<std::string>(), schema);
  if (value.is_array()) return fits_array(value, schema, root);
  return !value.is_object() || fits_object(value, schema, root);
}

// --- what is drawn ------------------------------------------------------------------------------

class Drawn final {
 public:
  explicit Drawn(SeededRandom& random) : random_(random) {}

  nlohmann::ordered_json root() {
    nlohmann::ordered_json schema = object(0);
    schema["$defs"]["node"] = {
        {"type", "object"},
        {"properties",
         {{"a", {{"type", "boolean"}}},
          {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/node"}}}}}}}},
        {"required", {"next"}}};
    return schema;
  }

 private:
  nlohmann::ordered_json any(int depth) {
    switch (random_.below(depth > 2 ? 8 : 12)) {
      case 0:
        return bounded({{"type", "integer"}}, -30, 300);
      case 1:
        return bounded({{"type", "number"}}, -3, 7);
      case 2:
        return {{"type", "boolean"}};
      case 3:
        return {{"enum", {"ab", 7, nullptr, "b"}}, {"description", "one of these"}};
      case 4:
        return {{"const", "cab"}};
      case 5:
        return {{"type", "string"},
                {"minLength", random_.below(3)},
                {"maxLength", 3 + random_.below(9)}};
      case 6:
        return {{"type", "string"}, {"pattern", "^[ab]{2,4}c?$"}};
      case 7:
        return {{"type", {"string", "null"}}};
      case 8:
        return {{"anyOf", {any(depth + 1), any(depth + 1)}}, {"title", "either"}};
      case 9:
        return array(depth);
      case 10:
        return {{"$ref", "#/$defs/node"}};
      default:
        return object(depth + 1);
    }
  }

  nlohmann::ordered_json bounded(nlohmann::ordered_json schema, int least, int most) {
    if (random_.chance(0.5)) schema["minimum"] = random_.between(least, 0);
    if (random_.chance(0.3)) schema["maximum"] = random_.between(1, most);
    if (!schema.contains("maximum") && random_.chance(0.3)) schema["exclusiveMaximum"] = most;
    return schema;
  }

  nlohmann::ordered_json array(int depth) {
    nlohmann::ordered_json schema = {{"type", "array"}};
    if (random_.chance(0.3)) schema["prefixItems"] = {any(depth + 1), any(depth + 1)};
    if (random_.chance(0.7) || schema.contains("prefixItems")) schema["items"] = any(depth + 1);
    schema["minItems"] = random_.below(3);
    schema["maxItems"] = 2 + random_.below(3);
    return schema;
  }

  nlohmann::ordered_json object(int depth) {
    nlohmann::ordered_json schema = {{"type", "object"}};
    if (depth > 0 && random_.chance(0.2)) {
      schema["additionalProperties"] = any(depth + 1);
      return schema;
    }
    for (const char* name : {"c", "a", "b", "ab"}) {
      if (random_.chance(0.3) && schema.contains("properties")) continue;
      schema["properties"][name] = any(depth + 1);
      if (random_.chance(0.5)) schema["required"].push_back(name);
    }
    return schema;
  }

  SeededRandom& random_;
};

std::vector<std::string> json_pieces() {
  std::vector<std::string> pieces;
  for (const char c : std::string("{}[]:,\"\\-+.abcefnrstuxl 0123456789E\n"))
    pieces.emplace_back(1, c);
  for (const char* piece :
       {"{\"", "\": ", "\",\"", "true", "null", "\"}", "}}", "]}", "ab", ", "}) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

TEST(Schemas, EveryAnswerThatEndsFitsItsSchema) {
  if (!no_grammars().empty()) GTEST_SKIP() << no_grammars();
  const std::vector<std::string> pieces = json_pieces();
  ConstraintCompiler compiler([&] { return GrammarVocabulary(pieces); });
  SeededRandom random(9);
  int ended = 0;
  for (int i = 0; i < kSchemas; ++i) {
    const nlohmann::ordered_json schema = Drawn(random).root();
    const Json plain = Json::parse(schema.dump());
    const auto constraint = compiler.compile({ConstraintKind::kJsonSchema, schema.dump()});
    ASSERT_TRUE(constraint.ok()) << constraint.status().to_string() << "\n" << schema.dump();
    for (int answer = 0; answer < kAnswers; ++answer) {
      const auto state = constraint->compiled->begin();
      std::string text;
      for (int step = 0; step < kMaxTokens; ++step) {
        const auto allowed = state->allowed({});
        if (allowed->may_end) break;
        std::vector<TokenId> fitting;
        for (TokenId id = 0; id < std::ssize(pieces); ++id) {
          if (allowed->has(id)) fitting.push_back(id);
        }
        ASSERT_FALSE(fitting.empty()) << "nothing goes on behind " << text << "\n" << schema.dump();
        const TokenId next = fitting[random.below(fitting.size())];
        text += pieces[static_cast<std::size_t>(next)];
        state->append({&next, 1});
      }
      if (!state->allowed({})->may_end) continue;
      ++ended;
      // A number beyond what doubles hold is JSON, and no reader's.
      if (std::regex_search(text, std::regex("[0-9][eE][+]?[0-9]{3}"))) continue;
      const Json value = Json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      ASSERT_TRUE(fits(value, plain, plain)) << text << "\n" << schema.dump();
    }
  }
  EXPECT_GT(ended, kSchemas * kAnswers / 3) << "most answers are too long to say anything";
}

}  // namespace
}  // namespace outrider
