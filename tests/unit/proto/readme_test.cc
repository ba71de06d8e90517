// proto/README.md shows one exchange in bytes: the codec emits them in the same order.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <sstream>

#include "proto/codec.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

std::string to_hex(const std::string& bytes) {
  std::ostringstream out;
  for (const char c : bytes) {
    const char* digits = "0123456789abcdef";
    out << digits[static_cast<unsigned char>(c) >> 4] << digits[static_cast<unsigned char>(c) & 15];
  }
  return out.str();
}

// The exchange of the README, message by message.
std::vector<std::string> exchange() {
  Open open;
  open.tokenizer_hash = "9f86d081";
  open.sampling.temperature = 0.0f;
  open.seed = 7;
  open.prefix = {1, 306, 4966};
  open.end_position = 19;
  open.policy = {PassPolicy::kOnRequest, 0ms, false, 0};
  open.template_hash = "e3b0";
  Opened opened;
  opened.session_id = "s1";
  opened.fingerprint = "a1b2";
  opened.arithmetic_id = "c3d4";
  opened.model_name = "demo";
  opened.stop_ids = {2};
  opened.limits.max_positions = 2048;
  opened.limits.vocab_size = 32000;
  return {
      serialize(TargetDescription{.model_name = "demo",
                                  .fingerprint = "a1b2",
                                  .tokenizer_hash = "9f86d081",
                                  .templates = {{"default", "{{}}"}},
                                  .eos = "</s>",
                                  .template_hash = "e3b0",
                                  .sampling = {.temperature = 0.75f, .top_k = 20}}),
      serialize(EdgeMessage{0, 0, open}),
      serialize(EdgeMessage{0, 0, Grow{1, 3, {{304, 0, 230}, {278, 1, 180}, {263, 2, 60}}}}),
      serialize(ServerMessage(opened)),
      serialize(ServerMessage(Started{0, 3, 3, {}})),
      serialize(ServerMessage(Verdict{0, 3, {304, 278, 3271}, 6, {0ms, 0ms, 21ms}})),
      serialize(EdgeMessage{6, 0, Grow{4, 6, {{29889, 0, 200}, {2, 1, 90}}}}),
      serialize(ServerMessage(Started{1, 6, 5, {}})),
      serialize(ServerMessage(Verdict{1, 6, {29889, 2}, 3, {9ms, 0ms, 18ms}})),
      serialize(ServerMessage(Usage{FinishReason::kStop, 3, 0, 5, 2, 9, 0, 39ms})),
  };
}

// The contents of the ```hex blocks, without comments and blanks.
std::vector<std::string> hex_blocks(std::istream& file) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```hex";
      if (inside) blocks.emplace_back();
      continue;
    }
    if (!inside) continue;
    for (const char c : line.substr(0, line.find('#'))) {
      if (std::isxdigit(static_cast<unsigned char>(c))) blocks.back().push_back(c);
    }
  }
  return blocks;
}

TEST(Readme, ShowsTheBytesThatTheCodecEmits) {
  std::ifstream file(source_dir() + "/proto/README.md");
  ASSERT_TRUE(file);
  const std::vector<std::string> shown = hex_blocks(file);
  const std::vector<std::string> emitted = exchange();
  ASSERT_EQ(shown.size(), emitted.size());
  for (std::size_t i = 0; i < emitted.size(); ++i) {
    EXPECT_EQ(shown[i], to_hex(emitted[i])) << "message " << i + 1;
  }
}

}  // namespace
}  // namespace outrider
