// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors_header.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace outrider {
namespace {

constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxDimensions = 8;

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {..}} Each
// handler returns whether the event is allowed in its place; false ends the parse.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string what) : what_(std::move(what)) {}

  Result<std::vector<SafetensorsEntry>> take() {
    if (!status_.ok()) return status_;
    return std::move(entries_);
  }

  bool null() override { return misplaced("null"); }
  bool boolean(bool /*value*/) override { return misplaced("a boolean"); }
  bool number_integer(std::int64_t value) override {
    return fail("negative number " + std::to_string(value));
  }
  bool number_float(double /*value*/, const std::string& text) override {
    return misplaced(("the number " + printable(text)).c_str());
  }
  bool binary(binary_t& /*value*/) override { return misplaced("binary data"); }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool start_object(std::size_t count) override;
  bool end_object() override;
  bool key(std::string& name) override;
  bool start_array(std::size_t count) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    return fail("broken JSON at byte " + std::to_string(position) + ": " + error.what());
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool fail(const std::string& why) {
    const std::string where = state_ >= State::kTensor && state_ < State::kEnd
                                  ? "tensor " + printable(entries_.back().name) + ": "
                                  : "";
    if (status_.ok()) status_ = data_loss(what_ + ": header: " + where + why);
    return false;
  }
  bool misplaced(const char* found) { return fail(std::string(found) + " where none is allowed"); }

  std::string what_;
  Status status_;
  State state_ = State::kStart;
  std::set<std::string, std::less<>> names_;   // of the file
  std::set<std::string, std::less<>> fields_;  // of the object being read
  std::string field_;
  std::vector<std::uint64_t> offsets_;
  std::vector<SafetensorsEntry> entries_;
};

bool HeaderHandler::start_object(std::size_t /*count*/) {
  fields_.clear();
  if (state_ == State::kStart) {
    state_ = State::kTop;
    return true;
  }
  if (state_ != State::kTop) return misplaced("an object");
  if (field_ == "__metadata__") {
    state_ = State::kMetadata;
    return true;
  }
  if (entries_.size() == kMaxSafetensorsTensors) return fail("too many tensors");
  entries_.emplace_back().name = field_;
  state_ = State::kTensor;
  field_.clear();
  return true;
}

bool HeaderHandler::key(std::string& name) {
  if (name.size() > kMaxNameBytes) return fail("a name longer than 1024 bytes");
  auto& seen = state_ == State::kTop ? names_ : fields_;
  if (!seen.insert(name).second) return fail("the name " + printable(name) + " appears twice");
  if (state_ == State::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
    return fail("unknown field " + printable(name));
  }
  field_ = name;
  return true;
}

bool HeaderHandler::string(std::string& value) {
  if (state_ == State::kMetadata) return true;
  if (state_ != State::kTensor || field_ != "dtype") return misplaced("a string");
  const std::optional<DType> dtype = parse_dtype(value);
  if (!dtype) {
    status_ = unimplemented(
        what_ + ": tensor " + printable(entries_.back().name) + " has dtype " + printable(value) +
        "; supported are F32, F16 and BF16, and F8_E4M3 and I32 in quantised models");
    return false;
  }
  entries_.back().dtype = *dtype;
  return true;
}

bool HeaderHandler::start_array(std::size_t /*count*/) {
  if (state_ != State::kTensor || field_ == "dtype") return misplaced("an array");
  state_ = field_ == "shape" ? State::kShape : State::kOffsets;
  offsets_.clear();
  return true;
}

bool HeaderHandler::number_unsigned(std::uint64_t value) {
  if (state_ == State::kShape) {
    auto& shape = entries_.back().shape;
    if (shape.size() == kMaxDimensions) return fail("more than 8 dimensions");
    if (value > INT64_MAX) return fail("dimension " + std::to_string(value) + " is too large");
    shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  if (state_ != State::kOffsets) return misplaced("a number");
  if (offsets_.size() == 2) return fail("data_offsets must hold two numbers");
  offsets_.push_back(value);
  return true;
}

bool HeaderHandler::end_array() {
  if (state_ == State::kOffsets) {
    if (offsets_.size() != 2) return fail("data_offsets must hold two numbers");
    entries_.back().begin = offsets_[0];
    entries_.back().end = offsets_[1];
  }
  state_ = State::kTensor;
  return true;
}

bool HeaderHandler::end_object() {
  if (state_ == State::kTop) {
    state_ = State::kEnd;
    return true;
  }
  if (state_ == State::kTensor && fields_.size() != 3) {
    return fail("dtype, shape and data_offsets are all required");
  }
  state_ = State::kTop;
  return true;
}

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header,
                                                               const std::string& what) {
  // The format requires it; other text is not mistaken for a header.
  if (!header.starts_with('{')) return data_loss(what + ": header does not begin with {");
  HeaderHandler handler(what);
  try {
    nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  } catch (const nlohmann::json::exception& error) {
    return data_loss(what + ": header: " + error.what());
  }
  return handler.take();
}

}  // namespace outrider
