// A file's list of merges, converted to ids one by one.
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/engine/text/pipeline/bpe.h"

namespace outrider {

class MergeList final {
 public:
  // The tokens that the list may name; they must outlive it.
  explicit MergeList(const std::vector<std::optional<std::string>>& tokens);

  // Adds the next merge. Errors: kDataLoss if one of the two or their result is no token; the
  // message begins with the list's name `where` and the position in it.
  Status add(std::string_view left, std::string_view right, std::string_view where);
  // Adds a merge written as "left right".
  Status add(std::string_view both, std::string_view where);

  std::vector<BpeMerge> take() { return std::move(merges_); }

 private:
  std::string place(std::string_view where) const;
  Result<TokenId> id_of(const std::string& token, std::string_view where) const;

  std::unordered_map<std::string_view, TokenId> ids_;
  std::vector<BpeMerge> merges_;
};

}  // namespace outrider
