// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/form_fields.h"

#include <algorithm>
#include <array>

#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/idle_fields.h"

namespace outrider {
namespace {

using Value = nlohmann::ordered_json;

constexpr std::size_t kMaxTexts = 1000;  // of guided_choice

constexpr std::array<FormField, 9> kFields = {{
    {"response_format", "object",
     "The form of the answer: {\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": "
     "\"json_schema\", \"json_schema\": {\"name\", \"schema\"}} (docs/constraints.md)."},
    {"structured_outputs", "object",
     "vLLM's form of the same: one of json, json_object, regex, choice, grammar."},
    {"json_schema", "object", "llama.cpp's name of a schema that the answer fits."},
    {"grammar", "string", "Rules in llama.cpp's GBNF, of which root is the answer's."},
    {"regex", "string", "A regular expression that the whole answer matches."},
    {"guided_json", "", "vLLM's older name of a schema, an object or a text."},
    {"guided_regex", "string", "vLLM's older name of regex."},
    {"guided_grammar", "string", "vLLM's older name of grammar."},
    {"guided_choice", "array", "vLLM's older name of a list of texts, one of which the answer is."},
}};

Result<std::string> text_in(const Value& value, const std::string& field) {
  if (value.is_string()) return value.get<std::string>();
  return wrong(field, "a text");
}

// A schema, as an object or as its text.
Result<ConstraintSpec> schema_in(const Value& value, const std::string& field) {
  if (value.is_object() || value.is_boolean())
    return ConstraintSpec{ConstraintKind::kJsonSchema, value.dump()};
  if (value.is_string())
    return ConstraintSpec{ConstraintKind::kJsonSchema, value.get<std::string>()};
  return wrong(field, "a JSON schema, which is an object");
}

std::string quoted(const std::string& text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') literal += '\\';
    literal += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return literal + "\"";
}

Result<ConstraintSpec> choice_in(const Value& value, const std::string& field) {
  const std::string expected = "a list of 1 to " + std::to_string(kMaxTexts) + " texts";
  if (!value.is_array() || value.empty() || value.size() > kMaxTexts) {
    return wrong(field, expected);
  }
  std::string rule;
  for (const Value& each : value) {
    if (!each.is_string() || each == "") return wrong(field, expected);
    rule += (rule.empty() ? "root ::= " : " | ") + quoted(each.get<std::string>());
  }
  return ConstraintSpec{ConstraintKind::kGrammar, rule + "\n"};
}

// A schema with its name: {"name", "schema", "strict", "description"}, and what `also` names.
Result<ConstraintSpec> named_schema_in(const Value& named, const std::string& field,
                                       std::string_view also = "") {
  if (!named.is_object() || !named.contains("schema")) return missing(field + ".schema");
  for (const auto& [key, each] : named.items()) {
    const bool known =
        key == "name" || key == "schema" || key == "strict" || key == "description" || key == also;
    if (!known && !each.is_null()) return unsupported(field + "." + key);
  }
  return schema_in(named["schema"], field + ".schema");
}

Result<ConstraintSpec> response_format_in(const Value& value) {
  const std::string field = "response_format";
  const Value type = value.is_object() ? value.value("type", Value()) : Value();
  if (type == "text") return ConstraintSpec();
  // llama.cpp takes a schema here, too.
  if (type == "json_object" && value.contains("schema")) {
    return schema_in(value["schema"], field + ".schema");
  }
  if (type == "json_object") return ConstraintSpec{ConstraintKind::kJsonObject, ""};
  if (type != "json_schema") {
    return wrong(field, "an object with the type text, json_object or json_schema");
  }
  return named_schema_in(value.value("json_schema", Value()), field + ".json_schema");
}

// By vLLM's words: json, regex, choice, grammar, json_object.
Result<ConstraintSpec> worded(const std::string& word, const Value& value,
                              const std::string& field) {
  if (word == "json") return schema_in(value, field);
  if (word == "choice") return choice_in(value, field);
  if (word == "json_object") {
    if (value != true) return wrong(field, "true, or left out");
    return ConstraintSpec{ConstraintKind::kJsonObject, ""};
  }
  if (word != "regex" && word != "grammar") return unsupported(field);
  OUTRIDER_ASSIGN_OR_RETURN(std::string text, text_in(value, field));
  return ConstraintSpec{word == "regex" ? ConstraintKind::kRegex : ConstraintKind::kGrammar,
                        std::move(text)};
}

Result<ConstraintSpec> structured_in(const Value& value) {
  const std::string field = "structured_outputs";
  if (!value.is_object()) return wrong(field, "an object with json, regex, choice or grammar");
  ConstraintSpec spec;
  for (const auto& [key, each] : value.items()) {
    if (each.is_null() || (each.is_boolean() && each == false)) continue;
    if (spec.kind != ConstraintKind::kNone) return wrong(field, "one form only");
    OUTRIDER_ASSIGN_OR_RETURN(spec, worded(key, each, field + "." + key));
  }
  return spec;
}

Result<ConstraintSpec> form_in(const std::string& field, const Value& value) {
  if (field == "response_format") return response_format_in(value);
  if (field == "structured_outputs") return structured_in(value);
  if (field == "json_schema") return schema_in(value, field);
  constexpr std::string_view kGuided = "guided_";
  const bool guided = field.starts_with(kGuided);
  return worded(guided ? field.substr(kGuided.size()) : field, value, field);
}

}  // namespace

std::span<const FormField> form_fields() {
  return kFields;
}

Result<AskedForm> read_form(const Value& body) {
  AskedForm form;
  for (const FormField& each : kFields) {
    const std::string name(each.name);
    const Value value = body.value(name, Value());
    // llama.cpp's clients send an empty grammar where they ask for none.
    if (value.is_null() || (name == "grammar" && value == "")) continue;
    OUTRIDER_ASSIGN_OR_RETURN(ConstraintSpec spec, form_in(name, value));
    if (spec.kind == ConstraintKind::kNone) {
      form.is_text_asked = form.is_text_asked || name == "response_format";
      continue;
    }
    if (form.spec.kind != ConstraintKind::kNone) {
      return wrong(name, "alone, as '" + form.field + "' asks for a form, too");
    }
    form.spec = std::move(spec);
    form.field = name;
  }
  return form;
}

Result<AskedForm> read_text_form(const Value& text, const std::string& of) {
  AskedForm form{.field = of + ".format"};
  if (text.is_null()) return AskedForm();
  if (!text.is_object()) return wrong(of, "an object with format");
  for (const auto& [key, each] : text.items()) {
    if (key != "format" && !each.is_null() && !asks_for_nothing(key, each)) {
      return unsupported(of + "." + key);
    }
  }
  const Value format = text.value("format", Value());
  if (format.is_null()) return AskedForm();
  const Value type = format.is_object() ? format.value("type", Value()) : Value();
  if (type == "json_schema") {
    OUTRIDER_ASSIGN_OR_RETURN(form.spec, named_schema_in(format, form.field, "type"));
  } else if (type == "json_object") {
    form.spec = {ConstraintKind::kJsonObject, ""};
  } else if (type == "text") {
    form.is_text_asked = true;
  } else {
    return wrong(form.field, "an object with the type text, json_object or json_schema");
  }
  return form;
}

}  // namespace outrider
