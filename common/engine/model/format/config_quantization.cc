// quantization_config of config.json. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <utility>

#include "common/engine/model/format/config_readers.h"

namespace outrider {
namespace {

constexpr const char* kRemedy =
    ". Remedy: a checkpoint that is stored so, a GGUF file, or the model that is not quantised, "
    "with --dtype int8 or int4";

constexpr std::array<std::pair<const char*, QuantMethod>, 3> kMethods = {
    {{"awq", QuantMethod::kAwq}, {"gptq", QuantMethod::kGptq}, {"fp8", QuantMethod::kFp8}}};

void refuse(FieldReader& fields, const std::string& key, const std::string& value,
            const std::string& supported) {
  fields.fail(unimplemented(fields.what() + ": " + key + " is " + value + "; supported " +
                            supported + kRemedy));
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Fails unless the field, of any case, is `only` or absent.
void expect_text(FieldReader& fields, const char* key, const char* only) {
  const std::string value = fields.text(key, std::string(only));
  if (fields.status().ok() && lower(value) != only) {
    refuse(fields, key, printable(value), std::string("is \"") + only + "\"");
  }
}

void expect_flag(FieldReader& fields, const char* key, bool only) {
  if (fields.flag(key, only) != only) {
    refuse(fields, key, only ? "false" : "true", only ? "is true" : "is false");
  }
}

void read_groups(FieldReader& fields, StoredQuantization& stored) {
  const std::int64_t size = fields.integer("group_size", -1, kMaxIntermediate, 128);
  if (size == 0) {
    fields.fail(invalid_argument(fields.what() +
                                 ": group_size is 0, must be -1 (all inputs) or "
                                 "from 1 to " +
                                 std::to_string(kMaxIntermediate)));
  }
  stored.group_size = size == -1 ? 0 : size;
}

void read_awq(FieldReader& fields, StoredQuantization& stored) {
  stored.bits = static_cast<int>(fields.integer("bits", 1, 64));
  if (fields.status().ok() && stored.bits != 4) {
    refuse(fields, "bits", std::to_string(stored.bits), "are 4 for awq");
  }
  read_groups(fields, stored);
  expect_text(fields, "version", "gemm");
  expect_text(fields, "checkpoint_format", "gemm");
  expect_text(fields, "format", "gemm");
  // Other backends read the same tensors.
  if (fields.text("backend", "") == "llm-awq")
    refuse(fields, "backend", "\"llm-awq\"", "is \"autoawq\"");
  expect_flag(fields, "zero_point", true);
}

void read_gptq(FieldReader& fields, StoredQuantization& stored) {
  stored.bits = static_cast<int>(fields.integer("bits", 1, 64));
  const bool known = stored.bits == 2 || stored.bits == 3 || stored.bits == 4 || stored.bits == 8;
  if (fields.status().ok() && !known) {
    refuse(fields, "bits", std::to_string(stored.bits), "are 2, 3, 4 and 8 for gptq");
  }
  read_groups(fields, stored);
  // The field's name differs between programs.
  const std::string format = lower(fields.text("checkpoint_format", fields.text("format", "gptq")));
  if (format != "gptq" && format != "gptq_v2") {
    refuse(fields, "checkpoint_format", printable(format), "are \"gptq\" and \"gptq_v2\"");
  }
  stored.zeros_less_one = format == "gptq";
  stored.needs_group_ids = fields.flag("desc_act", false);
  fields.flag("sym", true);  // the zero points are read, whatever it says
  expect_flag(fields, "is_marlin_format", false);
  expect_text(fields, "pack_dtype", "int32");
  if (fields.has("dynamic") && !fields.object()["dynamic"].empty()) {
    refuse(fields, "dynamic", "a list of modules with settings of their own",
           "is one setting for all modules");
  }
}

// A list of two sizes, or nothing.
void read_block(FieldReader& fields, const char* key, StoredQuantization& stored) {
  if (!fields.has(key)) return;
  const Json& block = fields.object()[key];
  if (!block.is_array() || block.size() != 2) {
    fields.fail(invalid_argument(fields.what() + ": " + key +
                                 " must be a list of two sizes, outputs and inputs"));
    return;
  }
  const Json sizes = {{"outputs", block[0]}, {"inputs", block[1]}};
  FieldReader size(sizes, fields.what() + ": " + key);
  stored.block_rows = size.integer("outputs", 1, kMaxIntermediate);
  stored.block_columns = size.integer("inputs", 1, kMaxIntermediate);
  fields.fail(size.status());
}

void read_fp8(FieldReader& fields, StoredQuantization& stored) {
  expect_text(fields, "fmt", "e4m3");
  read_block(fields, "weight_block_size", stored);
}

// The format float-quantized, whose tensors are those of fp8.
void read_compressed(FieldReader& fields, StoredQuantization& stored) {
  expect_text(fields, "quantization_status", "compressed");
  const std::string format = fields.text("format");
  if (fields.status().ok() && format != "float-quantized") {
    refuse(fields, "format", printable(format), "is \"float-quantized\"");
  }
  const Json none = Json::object();
  const Json& groups = fields.has("config_groups") ? fields.object()["config_groups"] : none;
  if (!groups.is_object() || groups.size() != 1) {
    refuse(fields, "config_groups", std::to_string(groups.size()) + " groups",
           "is one for all modules");
    return;
  }
  const Json& group = groups.front();
  FieldReader outer(group, fields.what() + ": config_groups");
  const Json& numbers = outer.has("weights") ? group["weights"] : none;
  FieldReader weights(numbers, outer.what() + ": weights");
  expect_text(weights, "type", "float");
  const std::int64_t bits = weights.integer("num_bits", 1, 64);
  if (weights.status().ok() && bits != 8) {
    refuse(weights, "num_bits", std::to_string(bits), "are 8");
  }
  const std::string strategy = weights.text("strategy");
  if (strategy == "block") {
    read_block(weights, "block_structure", stored);
  } else if (strategy != "tensor" && strategy != "channel") {
    refuse(weights, "strategy", printable(strategy), "are \"tensor\", \"channel\" and \"block\"");
  }
  fields.fail(outer.status());
  fields.fail(weights.status());
}

}  // namespace

std::string_view to_string(QuantMethod method) {
  for (const auto& [name, known] : kMethods) {
    if (known == method) return name;
  }
  return "";
}

Status read_quantization(FieldReader& fields, ModelConfig& config) {
  if (fields.has("compression_config")) {
    refuse(fields, "compression_config", "present", "is quantization_config");
  }
  if (!fields.has("quantization_config")) return fields.status();
  StoredQuantization& stored = config.quantization;
  FieldReader inner(fields.object()["quantization_config"],
                    fields.what() + ": quantization_config");
  const std::string method = lower(inner.text("quant_method"));
  OUTRIDER_RETURN_IF_ERROR(inner.status());
  if (method == "awq") {
    read_awq(inner, stored);
  } else if (method == "gptq") {
    read_gptq(inner, stored);
  } else if (method == "fp8") {
    read_fp8(inner, stored);
  } else if (method == "compressed-tensors") {
    read_compressed(inner, stored);
  } else {
    refuse(inner, "quant_method", printable(method), "are awq, gptq, fp8 and compressed-tensors");
  }
  OUTRIDER_RETURN_IF_ERROR(inner.status());
  for (const auto& [name, known] : kMethods) {
    if (method == name) stored.method = known;
  }
  if (method == "compressed-tensors") stored.method = QuantMethod::kFp8;
  return {};
}

}  // namespace outrider
