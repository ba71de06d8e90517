// SPDX-License-Identifier: Apache-2.0
#include "common/engine/constraint/form_checks.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/json.h"

namespace outrider {
namespace {

using Schema = nlohmann::ordered_json;  // properties come in the schema's order
using Bounds = FormBounds;

Status wrong(const std::string& where, const std::string& what) {
  return invalid_argument("JSON schema: " + where + " " + what);
}

// Untrusted text without the quotation marks that printable() puts around it.
std::string shown(std::string_view text) {
  const std::string quoted = printable(text);
  return quoted.size() < 2 ? quoted : quoted.substr(1, quoted.size() - 2);
}

// --- which keywords count --------------------------------------------------------------------

// A discriminator says which case of a oneOf a value is, and narrows none.
constexpr std::array kNotes = {"discriminator", "title",     "description", "default",  "examples",
                               "readOnly",      "writeOnly", "deprecated",  "$comment", "$schema",
                               "$id",           "$defs",     "definitions"};
// Where one of these stands, the grammar has nothing of what stands beside it.
constexpr std::array kHeads = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};

struct TypeKeywords {
  const char* type;
  std::span<const char* const> keywords;
};
constexpr std::array kOfInteger = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                   "multipleOf"};
constexpr std::array kOfNumber = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::array kOfString = {"minLength", "maxLength", "pattern", "format"};
constexpr std::array kOfArray = {"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array kOfObject = {"properties",        "required",      "additionalProperties",
                                  "patternProperties", "minProperties", "maxProperties"};
const std::array<TypeKeywords, 7> kTypes = {{{"integer", kOfInteger},
                                             {"number", kOfNumber},
                                             {"string", kOfString},
                                             {"array", kOfArray},
                                             {"object", kOfObject},
                                             {"boolean", {}},
                                             {"null", {}}}};
// Those that the grammar has; others would be passed over.
constexpr std::array kFormats = {"date", "time", "date-time", "duration", "email",       "hostname",
                                 "ipv4", "ipv6", "uuid",      "uri",      "json-pointer"};

template <typename List>
bool lists(const List& list, std::string_view name) {
  return std::ranges::any_of(list, [&](const char* each) { return name == each; });
}

const char* type_of(const Schema& value) {
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

// --- a walk over all schemas within one --------------------------------------------------------

class SchemaCheck final {
 public:
  explicit SchemaCheck(Schema& root) : root_(root) {}

  // References are followed before anything is narrowed, which moves schemas in memory.
  Status run() {
    OUTRIDER_RETURN_IF_ERROR(check_references(root_, "#"));
    return check(root_, "#", 0);
  }

 private:
  Status check(Schema& schema, const std::string& where, int depth);
  Status check_head(Schema& schema, const std::string& head, const std::string& where, int depth);
  Status check_values(const Schema& values, const Schema& schema, const std::string& where);
  Status check_typed(Schema& schema, const std::string& where, int depth);
  Status check_type(Schema& schema, const char* type, const std::string& where, int depth);
  Status check_object(Schema& schema, const std::string& where, int depth);
  Status check_array(Schema& schema, const std::string& where, int depth);
  static Status check_string(const Schema& schema, const std::string& where);
  Status check_each(Schema& schemas, const std::string& where, int depth);
  Result<const Schema*> resolve(const Schema& ref, const std::string& where) const;
  Status check_references(const Schema& value, const std::string& where);
  Status check_loop(const Schema& schema, const std::string& where);

  Schema& root_;
  std::size_t schemas_ = 0;
  std::size_t values_ = 0;
  std::vector<const Schema*> open_;  // through which check_loop() has come
  std::set<const Schema*> ended_;    // that lead to no loop
};

Status only(const Schema& schema, const std::vector<const char*>& known, const std::string& where,
            const std::string& reason) {
  for (const auto& [key, value] : schema.items()) {
    if (lists(kNotes, key) || lists(known, key)) continue;
    return unimplemented("JSON schema: keyword '" + shown(key) + "' at " + where +
                         " is not enforced" + reason + ". Remedy: leave it out, or say it in " +
                         "another way");
  }
  return {};
}

Status check_count(const Schema& schema, const char* key, std::size_t most,
                   const std::string& where) {
  if (!schema.contains(key)) return {};
  const Schema& value = schema[key];
  const bool counts = value.is_number_unsigned() && value.get<std::uint64_t>() <= most;
  return counts ? Status() : wrong(where + "/" + key, "must be 0 to " + std::to_string(most));
}

Status SchemaCheck::check(Schema& schema, const std::string& where, int depth) {
  if (depth > Bounds::kMaxDepth) {
    return wrong(where, "is nested deeper than " + std::to_string(Bounds::kMaxDepth));
  }
  if (++schemas_ > Bounds::kMaxSchemas) {
    return wrong(where, "comes after " + std::to_string(Bounds::kMaxSchemas) +
                            " schemas within this one, the most that are taken");
  }
  if (schema.is_boolean()) {
    return schema.get<bool>() ? Status() : wrong(where, "is false, so no value fits");
  }
  if (!schema.is_object()) return wrong(where, "must be an object or true");
  for (const char* key : {"$defs", "definitions"}) {
    if (!schema.contains(key)) continue;
    OUTRIDER_RETURN_IF_ERROR(check_each(schema[key], where + "/" + key, depth));
  }
  for (const char* head : kHeads) {
    if (schema.contains(head)) return check_head(schema, head, where, depth);
  }
  return check_typed(schema, where, depth);
}

Status SchemaCheck::check_each(Schema& schemas, const std::string& where, int depth) {
  if (!schemas.is_structured()) return wrong(where, "must hold schemas");
  std::size_t at = 0;
  for (auto each = schemas.begin(); each != schemas.end(); ++each, ++at) {
    const std::string name = schemas.is_array() ? std::to_string(at) : shown(each.key());
    OUTRIDER_RETURN_IF_ERROR(check(*each, where + "/" + name, depth + 1));
  }
  return {};
}

Status SchemaCheck::check_head(Schema& schema, const std::string& head, const std::string& where,
                               int depth) {
  const bool of_values = head == "const" || head == "enum";
  std::vector<const char*> known = {head.c_str()};
  if (of_values) known.push_back("type");
  OUTRIDER_RETURN_IF_ERROR(only(schema, known, where, " beside '" + head + "'"));
  const std::string at = where + "/" + head;
  Schema& value = schema[head];
  if (head == "$ref") return {};
  if (head == "const") return check_values(Schema::array({value}), schema, at);
  if (!value.is_array() || value.empty()) return wrong(at, "must be a list that is not empty");
  if (head == "enum") return check_values(value, schema, at);
  if (head == "allOf" && value.size() > 1) {
    return unimplemented("JSON schema: keyword 'allOf' at " + where + " has " +
                         std::to_string(value.size()) +
                         " schemas, and only one is enforced. Remedy: write them as one");
  }
  values_ += value.size();
  return check_each(value, at, depth);
}

// The grammar takes them as they are, whatever `type` says.
Status SchemaCheck::check_values(const Schema& values, const Schema& schema,
                                 const std::string& where) {
  values_ += values.size();
  if (values_ > Bounds::kMaxValues) {
    return wrong(where, "makes more than " + std::to_string(Bounds::kMaxValues) +
                            " values and alternatives, the most that are taken");
  }
  if (!schema.contains("type")) return {};
  const Schema types = schema["type"].is_array() ? schema["type"] : Schema::array({schema["type"]});
  for (const Schema& value : values) {
    const std::string type = type_of(value);
    const bool fits = std::ranges::any_of(types, [&](const Schema& each) {
      return each == type || (each == "number" && type == "integer");
    });
    if (!fits) return wrong(where, "has a value that is no " + types.dump());
  }
  return {};
}

Status SchemaCheck::check_typed(Schema& schema, const std::string& where, int depth) {
  std::vector<std::string> types;
  if (schema.contains("type")) {
    const Schema& type = schema["type"];
    for (const Schema& each : type.is_array() ? type : Schema::array({type})) {
      if (!each.is_string()) return wrong(where + "/type", "must be a text or a list of texts");
      types.push_back(each.get<std::string>());
    }
  }
  // A schema that speaks of one type's parts means that type.
  for (const TypeKeywords& each : kTypes) {
    const bool is_parted =
        each.type == std::string_view("object") || each.type == std::string_view("array");
    if (!types.empty() || !is_parted) continue;
    const bool speaks = std::ranges::any_of(
        each.keywords, [&](const char* keyword) { return schema.contains(keyword); });
    if (speaks) types.emplace_back(each.type);
  }
  std::vector<const char*> known = {"type"};
  for (const std::string& type : types) {
    const auto* const found =
        std::ranges::find_if(kTypes, [&](const TypeKeywords& each) { return type == each.type; });
    if (found == kTypes.end()) {
      return wrong(where + "/type", "is " + printable(type) +
                                        ", and must be object, array, string, integer, number, "
                                        "boolean or null");
    }
    known.insert(known.end(), found->keywords.begin(), found->keywords.end());
  }
  if (schema.contains("uniqueItems") && schema["uniqueItems"] == false) {
    known.push_back("uniqueItems");
  }
  const std::string reason = types.empty() ? " where there is no 'type'" : "";
  OUTRIDER_RETURN_IF_ERROR(only(schema, known, where, reason));
  for (const std::string& type : types) {
    OUTRIDER_RETURN_IF_ERROR(check_type(schema, type.c_str(), where, depth));
  }
  return {};
}

Status SchemaCheck::check_type(Schema& schema, const char* type, const std::string& where,
                               int depth) {
  const std::string_view name = type;
  if (name == "object") return check_object(schema, where, depth);
  if (name == "array") return check_array(schema, where, depth);
  if (name == "string") return check_string(schema, where);
  for (const char* bound : kOfInteger) {
    if (schema.contains(bound) && !schema[bound].is_number()) {
      return wrong(where + "/" + bound, "must be a number");
    }
  }
  return {};
}

Status SchemaCheck::check_object(Schema& schema, const std::string& where, int depth) {
  for (const char* key : {"properties", "patternProperties"}) {
    if (!schema.contains(key)) continue;
    const std::string at = where + "/" + key;
    if (!schema[key].is_object()) return wrong(at, "must be an object");
    if (schema[key].size() > Bounds::kMaxProperties) {
      return wrong(at, "has more than " + std::to_string(Bounds::kMaxProperties) + " entries");
    }
    OUTRIDER_RETURN_IF_ERROR(check_each(schema[key], at, depth));
  }
  for (const char* count : {"minProperties", "maxProperties"}) {
    OUTRIDER_RETURN_IF_ERROR(check_count(schema, count, Bounds::kMaxProperties, where));
  }
  const bool has_names = schema.contains("properties") && !schema["properties"].empty();
  const Schema names = has_names ? schema["properties"] : Schema::object();
  if (schema.contains("required")) {
    const Schema& required = schema["required"];
    if (!required.is_array()) return wrong(where + "/required", "must be a list");
    for (const Schema& name : required) {
      if (name.is_string() && names.contains(name.get<std::string>())) continue;
      return wrong(where + "/required",
                   "names " + printable(name.dump()) + ", which 'properties' does not have");
    }
  }
  if (schema.contains("patternProperties")) {
    const Schema& patterns = schema["patternProperties"];
    if (has_names || patterns.size() != 1) {
      return unimplemented("JSON schema: keyword 'patternProperties' at " + where +
                           " is enforced only alone and with one pattern. Remedy: name the "
                           "properties");
    }
    OUTRIDER_RETURN_IF_ERROR(check_regex(patterns.begin().key()));
    schema["additionalProperties"] = false;
    return {};
  }
  // A further property might have a named one's name once more.
  if (has_names) {
    schema["additionalProperties"] = false;
    return {};
  }
  if (!schema.contains("additionalProperties")) schema["additionalProperties"] = true;
  // Keys of open objects may come twice, so they cannot be counted.
  if (schema["additionalProperties"] != false && schema.contains("minProperties") &&
      schema["minProperties"] > 1) {
    return unimplemented("JSON schema: keyword 'minProperties' at " + where +
                         " is not enforced where properties have no names. Remedy: name them");
  }
  Schema& rest = schema["additionalProperties"];
  return rest == false ? Status() : check(rest, where + "/additionalProperties", depth + 1);
}

Status SchemaCheck::check_array(Schema& schema, const std::string& where, int depth) {
  for (const char* count : {"minItems", "maxItems"}) {
    OUTRIDER_RETURN_IF_ERROR(check_count(schema, count, Bounds::kMaxRepeats, where));
  }
  if (schema.contains("prefixItems")) {
    if (!schema["prefixItems"].is_array()) return wrong(where + "/prefixItems", "must be a list");
    OUTRIDER_RETURN_IF_ERROR(check_each(schema["prefixItems"], where + "/prefixItems", depth));
  } else if (!schema.contains("items")) {
    schema["items"] = Schema::object();
  }
  if (!schema.contains("items") || schema["items"] == false) return {};
  return check(schema["items"], where + "/items", depth + 1);
}

Status SchemaCheck::check_string(const Schema& schema, const std::string& where) {
  for (const char* count : {"minLength", "maxLength"}) {
    OUTRIDER_RETURN_IF_ERROR(check_count(schema, count, Bounds::kMaxRepeats, where));
  }
  if (schema.contains("pattern")) {
    if (!schema["pattern"].is_string()) return wrong(where + "/pattern", "must be a text");
    const Status regex = check_regex(schema["pattern"].get<std::string>());
    if (!regex.ok()) return regex.with_context(where + "/pattern");
  }
  if (!schema.contains("format")) return {};
  if (!schema["format"].is_string() || !lists(kFormats, schema["format"].get<std::string>())) {
    std::string known;
    for (const char* format : kFormats) known += (known.empty() ? "" : ", ") + std::string(format);
    return unimplemented("JSON schema: 'format' at " + where + " is " +
                         printable(schema["format"].dump()) + ", and enforced are " + known +
                         ". Remedy: one of these, or a pattern");
  }
  return {};
}

Result<const Schema*> SchemaCheck::resolve(const Schema& ref, const std::string& where) const {
  const std::string uri = ref.is_string() ? ref.get<std::string>() : "";
  const bool is_plain = uri.find_first_of("~%") == std::string::npos;
  if (uri == "#") return static_cast<const Schema*>(&root_);
  const Schema* at = uri.starts_with("#/") && is_plain ? &root_ : nullptr;
  for (std::size_t begin = 2; at != nullptr && begin <= uri.size();) {
    const std::size_t end = std::min(uri.find('/', begin), uri.size());
    const std::string part = uri.substr(begin, end - begin);
    at = at->is_object() && at->contains(part) ? &(*at)[part] : nullptr;
    begin = end + 1;
  }
  if (at != nullptr) return at;
  return wrong(where + "/$ref", "is " + printable(ref.dump()) +
                                    ", and must be # or #/ and the names of a place in this "
                                    "schema");
}

// Checks all schemas in a value; other values may look like some.
Status SchemaCheck::check_references(const Schema& value, const std::string& where) {
  constexpr std::array kNoSchemas = {"const", "enum", "default", "examples"};
  if (value.is_object()) OUTRIDER_RETURN_IF_ERROR(check_loop(value, where));
  if (!value.is_structured()) return {};
  std::size_t at = 0;
  for (auto each = value.begin(); each != value.end(); ++each, ++at) {
    if (value.is_object() && lists(kNoSchemas, each.key())) continue;
    const std::string name = value.is_array() ? std::to_string(at) : shown(each.key());
    OUTRIDER_RETURN_IF_ERROR(check_references(*each, where + "/" + name));
  }
  return {};
}

// A schema that leads to itself with nothing written between has no value.
Status SchemaCheck::check_loop(const Schema& schema, const std::string& where) {
  if (!schema.is_object() || ended_.contains(&schema)) return {};
  if (std::ranges::find(open_, &schema) != open_.end()) {
    return wrong(where, "leads to itself by $ref, so no value fits");
  }
  if (open_.size() > Bounds::kMaxSchemas) return wrong(where, "has too long a chain of $ref");
  open_.push_back(&schema);
  Status status;
  if (schema.contains("$ref")) {
    const Result<const Schema*> target = resolve(schema["$ref"], where);
    status = target.ok() ? check_loop(**target, where) : target.status();
  }
  for (const char* head : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(head) || !schema[head].is_array()) continue;
    for (const Schema& each : schema[head]) {
      if (status.ok()) status = check_loop(each, where);
    }
  }
  open_.pop_back();
  ended_.insert(&schema);
  return status;
}

}  // namespace

Result<std::string> checked_schema(std::string_view text) {
  const Result<Json> parsed = parse_json(text, "JSON schema");
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  Schema schema = Schema::parse(text);
  OUTRIDER_RETURN_IF_ERROR(SchemaCheck(schema).run());
  if (schema.is_boolean()) schema = Schema::object();
  return schema.dump();
}

Result<std::string> checked_frames(std::string_view text) {
  const Result<Json> parsed = parse_json(text, "frames");
  if (!parsed.ok()) return invalid_argument(parsed.status().message());
  Schema form = Schema::parse(text);
  const Status expected =
      invalid_argument("frames: they must be 1 to " + std::to_string(Bounds::kMaxFrames) +
                       " lists of a text, a schema and a text, in an object");
  if (!form.is_object() || !form.contains("frames")) return expected;
  Schema& frames = form["frames"];
  if (!frames.is_array() || frames.empty() || frames.size() > Bounds::kMaxFrames) return expected;
  const Schema trigger = form.value("trigger", Schema());
  if (!trigger.is_null() && (!trigger.is_string() || trigger == "")) {
    return invalid_argument("frames: the trigger must be a text that is not empty");
  }
  if (form.contains("several") && !form["several"].is_boolean()) {
    return invalid_argument("frames: several must be true or false");
  }
  for (Schema& frame : frames) {
    if (!frame.is_array() || frame.size() != 3 || !frame[0].is_string() || !frame[2].is_string()) {
      return expected;
    }
    const bool begins = trigger.is_null() || frame[0].get_ref<const std::string&>().starts_with(
                                                 trigger.get_ref<const std::string&>());
    if (!begins) return invalid_argument("frames: each must begin with the trigger");
    OUTRIDER_RETURN_IF_ERROR(SchemaCheck(frame[1]).run());
  }
  if (form.contains("instead")) OUTRIDER_RETURN_IF_ERROR(SchemaCheck(form["instead"]).run());
  return form.dump();
}

}  // namespace outrider
