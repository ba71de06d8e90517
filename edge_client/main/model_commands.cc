// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/json.h"
#include "common/base/posix.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/token_ids.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/cli/program.h"
#include "common/serving/conversation/conversation.h"
#include "edge_client/flash/make_pack.h"
#include "edge_client/main/commands.h"

namespace outrider {
namespace {

// The next line of stdin, or all of it; false at its end.
class Input final {
 public:
  explicit Input(bool whole) : whole_(whole) { std::ios::sync_with_stdio(false); }

  bool next(std::string& text) {
    ++line_;
    if (!whole_) return static_cast<bool>(std::getline(std::cin, text));
    if (line_ > 1) return false;
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return true;
  }
  std::string where() const { return whole_ ? "stdin" : "stdin, line " + std::to_string(line_); }

 private:
  const bool whole_;
  int line_ = 0;
};

// The rest of stdout's buffer is written when the program ends.
Status write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
  return unavailable("stdout: " + errno_message(errno));
}

std::string to_json(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(ids[i]);
  }
  return text + "]\n";
}

Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& where) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, where));
  return token_ids_of(json, where);
}

// Drops the tokens that tokenize puts around a text (<s> .. </s>); all others stay.
void drop_frame(const std::vector<TokenId>& frame, std::vector<TokenId>& ids) {
  const auto is_frame = [&](TokenId id) { return std::ranges::find(frame, id) != frame.end(); };
  while (!ids.empty() && is_frame(ids.back())) ids.pop_back();
  ids.erase(ids.begin(), std::ranges::find_if_not(ids, is_frame));
}

}  // namespace

Result<int> tokenize_command(const TokenizeOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.tokenizer));
  Input input(options.whole);
  std::string text;
  while (input.next(text)) {
    OUTRIDER_RETURN_IF_ERROR(check_utf8(text, input.where()));
    const Result<std::vector<TokenId>> ids = encode_raw(tokenizer, text, options.raw);
    if (!ids.ok()) return ids.status().with_context(input.where());
    OUTRIDER_RETURN_IF_ERROR(write(to_json(*ids)));
  }
  return kExitOk;
}

Result<int> detokenize_command(const TokenizeOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> frame, tokenizer.encode(""));
  Input input(options.whole);
  std::string line;
  while (input.next(line)) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, parse_ids(line, input.where()));
    if (options.no_special) drop_frame(frame, ids);
    Result<std::string> text = tokenizer.decode(ids, /*skip_special=*/false);
    if (!text.ok()) return text.status().with_context(input.where());
    OUTRIDER_RETURN_IF_ERROR(write(options.whole ? *text : *text + "\n"));
  }
  return kExitOk;
}

Result<int> pack_command(const PackOptions& options) {
  PackOptions packing = options;
  bool begun = false;
  if (isatty(STDERR_FILENO) != 0) {
    packing.progress = [&begun](std::int64_t done, std::int64_t total) {
      begun = true;
      std::fprintf(stderr, "\rconverting weights: %3.0f %%",
                   100.0 * static_cast<double>(done) / static_cast<double>(total));
    };
  }
  packing.notice = [](const std::string& text) {
    std::fprintf(stderr, "weights: %s\n", text.c_str());
  };
  const Status packed = make_pack(packing);
  if (begun) std::fputc('\n', stderr);
  OUTRIDER_RETURN_IF_ERROR(packed);
  std::error_code error;
  const double size = static_cast<double>(std::filesystem::file_size(options.out, error));
  std::fprintf(stderr, "%s: %.1f MB\n", options.out.c_str(), size / 1e6);
  return kExitOk;
}

}  // namespace outrider
