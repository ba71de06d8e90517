// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/lookup_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/base/files.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

// The most bytes of all texts, and of one file. What is remembered is bounded by tokens, too.
constexpr std::uintmax_t kMaxBytes = 8 << 20;

Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return not_found("--lookup-corpus " + path +
                     " does not exist. Remedy: name a file or a folder of UTF-8 text");
  }
  if (!fs::is_directory(status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path().string());
  }
  if (error) return not_found("--lookup-corpus " + path + ": " + error.message());
  if (files.empty()) {
    return not_found("--lookup-corpus " + path +
                     " has no files. Remedy: put texts there, or leave the flag out");
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Status remember_corpus(const std::string& path, const Tokenizer& tokenizer, LookupModel& lookup) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(path));
  std::uintmax_t bytes = 0;
  std::size_t read = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error && bytes + size > kMaxBytes) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(file, kMaxBytes));
    if (text.find('\0') != std::string::npos) {
      return invalid_argument("--lookup-corpus " + file +
                              " is not text: it has zero bytes. Remedy: take it out of the folder, "
                              "or save it as UTF-8");
    }
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.encode(text));
    lookup.remember(ids);
    bytes += text.size();
    ++read;
  }
  if (read < files.size()) {
    std::fprintf(stderr, "%s\n",
                 fmt::format("look-up: {} of {} files of {} are left out, as texts of more than {} "
                             "MiB together are not remembered",
                             files.size() - read, files.size(), path, kMaxBytes >> 20)
                     .c_str());
  }
  return {};
}

}  // namespace outrider
