// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/openapi.h"

#include <string>
#include <utility>

#include "common/serving/openai/completion_answer.h"
#include "common/serving/openai/idle_fields.h"
#include "common/serving/openai/request_fields.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The schema of a request's body.
OrderedJson body_schema(Api api) {
  OrderedJson properties = OrderedJson::object();
  for (const RequestField& field : request_fields()) {
    if (!field.is_used(api)) continue;
    OrderedJson& property = properties[std::string(field.name)] = field.schema;
    property["description"] = field.description;
  }
  for (const IdleValue& idle : idle_values()) {
    if (find_request_field(idle.field, api) != nullptr) continue;
    OrderedJson& property = properties[idle.field];
    if (property.is_null()) {
      property["description"] = "Is accepted with a value that asks for nothing, as here.";
    }
    property["enum"].push_back(OrderedJson(idle.value));
  }
  for (const std::string_view name : ignored_fields()) {
    properties[std::string(name)]["description"] = "Is ignored: it cannot change the text.";
  }
  return {{"type", "object"},
          {"required", OrderedJson::array({prompt_field(api)})},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

OrderedJson answer(const char* description, const char* type = "application/json") {
  return {{"description", description}, {"content", {{type, OrderedJson::object()}}}};
}

OrderedJson post(const char* summary, OrderedJson schema, const char* returns) {
  return {{"post",
           {{"summary", summary},
            {"requestBody",
             {{"required", true},
              {"content", {{"application/json", {{"schema", std::move(schema)}}}}}}},
            {"responses",
             {{"200", answer(returns)},
              {"400", answer("What is wrong: {\"error\": {message, type, code, param}}.")},
              {"429", answer("Too many requests wait; Retry-After says when to ask again.")},
              {"503", answer("The target is out of reach, or this program ends.")}}}}}};
}

OrderedJson get(const char* summary, const char* returns) {
  return {{"get", {{"summary", summary}, {"responses", {{"200", answer(returns)}}}}}};
}

OrderedJson text_schema() {
  const auto field = [](const char* type, const char* description) {
    return OrderedJson{{"type", type}, {"description", description}};
  };
  return {{"type", "object"},
          {"required", OrderedJson::array({"content"})},
          {"properties",
           {{"content", field("string", "The text; prompt is its other name.")},
            {"parse_special", field("boolean",
                                    "Whether special tokens that the text spells out "
                                    "become these tokens; true.")},
            {"add_special", field("boolean",
                                  "Whether the tokens that frame a text are added; "
                                  "false. add_special_tokens is its other name.")},
            {"with_pieces", field("boolean", "Whether each token comes with its text; false.")}}}};
}

OrderedJson ids_schema() {
  return {{"type", "object"},
          {"required", OrderedJson::array({"tokens"})},
          {"properties",
           {{"tokens",
             {{"type", "array"},
              {"items", {{"type", "integer"}, {"minimum", 0}}},
              {"description", "Ids of tokens."}}}}}};
}

}  // namespace

OrderedJson openapi_document() {
  return {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Outrider: OpenAI's routes"}, {"version", "1"}}},
      {"paths",
       {{"/v1/chat/completions", post("Answers a conversation.", body_schema(Api::kChat),
                                      "A chat.completion, or events of chat.completion.chunk.")},
        {"/v1/responses",
         post("Answers a conversation, in the form of OpenAI's responses.",
              body_schema(Api::kResponses), "A response, or events that build one.")},
        {"/v1/messages", post("Answers a conversation, in the form of Anthropic's messages.",
                              body_schema(Api::kMessages), "A message, or events that build one.")},
        {"/v1/completions", post("Completes a text.", body_schema(Api::kCompletions),
                                 "A text_completion, or events of it.")},
        {"/v1/models", get("Lists the model and its levels.", "{\"data\": [..]}")},
        {"/v1/models/{id}", get("Describes one of them.", "The model.")},
        {"/tokenize", post("Gives the tokens of a text.", text_schema(), "{\"tokens\": [..]}")},
        {"/detokenize", post("Gives the text of tokens.", ids_schema(), "{\"content\": TEXT}")},
        {"/openapi.json", get("Gives this document.", "An OpenAPI document.")}}}};
}

}  // namespace outrider
