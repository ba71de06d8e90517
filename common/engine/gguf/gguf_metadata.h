// The keys and values of a GGUF file, each checked for its type when it is read.
//
// Until then values stay in the file's bytes: a reader that needs the number of layers does not pay
// for a tokenizer's 150,000 strings.
//
// Ownership: views point into the bytes that were parsed. Thread rule: immutable once filled.
// Errors: kNotFound for a missing key; kDataLoss names file and key of a value of another type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/gguf/gguf_types.h"

namespace outrider {

// A value as stored in the file. The parser has checked that `bytes` holds it.
struct GgufValue {
  GgufValueType type = GgufValueType::kUint8;  // of each element, if an array
  bool is_array = false;
  std::uint64_t count = 1;
  std::string_view bytes;  // one after another; before each string its length in 8 bytes

  // "an array of string", "uint32".
  std::string type_text() const;
};

class GgufMetadata final {
 public:
  // `what` names the file in errors.
  explicit GgufMetadata(std::string what) : what_(std::move(what)) {}

  bool has(std::string_view key) const { return values_.contains(key); }
  // UTF-8 is not checked.
  Result<std::string_view> text(std::string_view key) const;
  // A value of any integer type, up to INT64_MAX.
  Result<std::int64_t> integer(std::string_view key) const;
  // A value of any integer or floating type.
  Result<double> real(std::string_view key) const;
  Result<bool> flag(std::string_view key) const;
  Result<std::vector<std::string_view>> texts(std::string_view key) const;
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> reals(std::string_view key) const;

  const std::string& what() const { return what_; }
  const std::map<std::string_view, GgufValue>& values() const { return values_; }
  // False if the key exists already.
  bool add(std::string_view key, const GgufValue& value);

 private:
  // The value. array: whether it must be an array or must not be one.
  Result<const GgufValue*> find(std::string_view key, bool array) const;
  Status wrong_type(std::string_view key, const GgufValue& value, const char* wanted) const;

  std::string what_;
  std::map<std::string_view, GgufValue> values_;
};

// A GGUF file (version 3) of these keys and no tensors, which parse_gguf() reads back.
std::string write_gguf(const GgufMetadata& metadata);

}  // namespace outrider
