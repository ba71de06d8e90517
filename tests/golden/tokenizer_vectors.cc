// Holds our tokenizers against a folder of test vectors of llama.cpp.
//
//   outrider-tokenizer-vectors DIR
//
// For each DIR/NAME.gguf with a NAME.gguf.inp (texts, a line "__ggml_vocab_test__" between them)
// and a NAME.gguf.out (a line of ids for each text, which the model's own tokenizer gave) it prints
// how many texts get other ids. The vectors are not in the repository; the source archive of
// llama-cpp-python 0.3.36 holds them in vendor/llama.cpp/models. A tokenizer that we refuse by name
// is listed and does not count. Exits with 1 if any text differs, or if there are no vectors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "common/engine/text/tokenizer.h"

namespace outrider {
namespace {

struct Vectors {
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> ids;
};

std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Vectors read_vectors(const std::string& gguf) {
  static constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  Vectors vectors;
  const std::string texts = read_whole(gguf + ".inp");
  std::size_t at = 0;
  for (std::size_t end = 0; (end = texts.find(kBetween, at)) != std::string::npos;
       at = end + kBetween.size()) {
    vectors.texts.push_back(texts.substr(at, end - at));
  }
  if (at < texts.size()) vectors.texts.push_back(texts.substr(at));
  std::istringstream lines(read_whole(gguf + ".out"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    vectors.ids.emplace_back(std::istream_iterator<TokenId>(numbers),
                             std::istream_iterator<TokenId>());
  }
  return vectors;
}

// The number of texts whose ids differ; the first is printed.
std::size_t count_differing(const Tokenizer& tokenizer, const Vectors& vectors) {
  std::size_t differing = 0;
  for (std::size_t i = 0; i < vectors.texts.size(); ++i) {
    const auto ids =
        tokenizer.encode(vectors.texts[i], {.add_special_tokens = false, .parse_special = true});
    if (ids.ok() && *ids == vectors.ids[i]) continue;
    if (differing++ > 0) continue;
    std::printf("text %zu: '%s'\n  ours    ", i, vectors.texts[i].c_str());
    if (ids.ok()) {
      for (const TokenId id : *ids) std::printf(" %d", id);
    } else {
      std::printf(" %s", ids.status().to_string().c_str());
    }
    std::printf("\n  expected");
    for (const TokenId id : vectors.ids[i]) std::printf(" %d", id);
    std::printf("\n");
  }
  return differing;
}

int compare(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  std::size_t compared = 0, differing = 0, refused = 0;
  for (const std::string& file : files) {
    const std::string name = std::filesystem::path(file).stem().string();
    const auto tokenizer = Tokenizer::load(file);
    if (!tokenizer.ok()) {
      std::printf("%-28s refused: %s\n", name.c_str(), tokenizer.status().to_string().c_str());
      ++refused;
      continue;
    }
    const Vectors vectors = read_vectors(file);
    if (vectors.texts.size() != vectors.ids.size()) {
      std::printf("%-28s has %zu texts but %zu lines of ids\n", name.c_str(), vectors.texts.size(),
                  vectors.ids.size());
      ++differing;
      continue;
    }
    const std::size_t differ = count_differing(*tokenizer, vectors);
    std::printf("%-28s %zu texts, %zu differ%s%s\n", name.c_str(), vectors.texts.size(), differ,
                tokenizer->assumed().empty() ? "" : "; ", tokenizer->assumed().c_str());
    compared += vectors.texts.size();
    differing += differ;
  }
  std::printf("%zu files, %zu refused; %zu texts, %zu differ\n", files.size(), refused, compared,
              differing);
  return compared > 0 && differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr,
                 "usage: outrider-tokenizer-vectors DIR, with NAME.gguf and its .inp and .out\n");
    return 2;
  }
  return outrider::compare(argv[1]);
}
