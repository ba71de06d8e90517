// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/merge_list.h"

namespace outrider {

MergeList::MergeList(const std::vector<std::optional<std::string>>& tokens) {
  ids_.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id]) ids_.emplace(*tokens[id], static_cast<TokenId>(id));
  }
}

std::string MergeList::place(std::string_view where) const {
  return std::string(where) + "[" + std::to_string(merges_.size()) + "]";
}

Result<TokenId> MergeList::id_of(const std::string& token, std::string_view where) const {
  const auto found = ids_.find(token);
  if (found != ids_.end()) return found->second;
  return data_loss(place(where) + ": the token '" + token.substr(0, 80) +
                   "' is not in the vocabulary");
}

Status MergeList::add(std::string_view left, std::string_view right, std::string_view where) {
  BpeMerge merge;
  OUTRIDER_ASSIGN_OR_RETURN(merge.left, id_of(std::string(left), where));
  OUTRIDER_ASSIGN_OR_RETURN(merge.right, id_of(std::string(right), where));
  OUTRIDER_ASSIGN_OR_RETURN(merge.merged, id_of(std::string(left) + std::string(right), where));
  merges_.push_back(merge);
  return {};
}

Status MergeList::add(std::string_view both, std::string_view where) {
  const std::size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
    return data_loss(place(where) + ": two tokens with one space between expected, found '" +
                     std::string(both.substr(0, 80)) + "'");
  }
  return add(both.substr(0, space), both.substr(space + 1), where);
}

}  // namespace outrider
