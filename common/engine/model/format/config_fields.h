// Reads the fields of a JSON object, each with its bounds; keeps the first error.
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

// null counts as absent. An absent field without a default is an error. After an error every call
// returns its lower bound (or nothing), so that a caller can check status() once at the end.
class FieldReader final {
 public:
  // `object` must outlive this. `what` precedes each message.
  FieldReader(const Json& object, std::string what);

  bool has(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> absent = {});
  double real(const char* key, double low, double high, std::optional<double> absent = {});
  bool flag(const char* key, bool absent);
  std::string text(const char* key, const std::optional<std::string>& absent = {});

  // Keeps the first error.
  void fail(Status status);
  const Status& status() const { return status_; }
  const Json& object() const { return object_; }
  const std::string& what() const { return what_; }

 private:
  const Json* find(const char* key) const;
  void fail_type(const char* key, const Json& value, const char* wanted);

  const Json& object_;
  std::string what_;
  Status status_;
};

}  // namespace outrider
