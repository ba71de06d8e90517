// How many bytes the messages of a round take, compared with the wire's budget (docs/design.md).
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "bench/checks/checks.h"
#include "proto/codec.h"

namespace outrider {
namespace {

constexpr std::size_t kGrowBudget = 256;
constexpr std::size_t kExitReportBudget = 48;
constexpr int kNodes = 32;

struct WireOptions {
  TokenId vocab_size = 128256;      // Llama 3's, the largest that Outrider serves
  Position position = 131071;       // the last position of its context
  std::uint32_t first_id = 200000;  // of a stream that has sent many nodes
};

// A tree whose numbers are all as long as possible: tokens from the end of the vocabulary, parents
// a whole message back.
std::size_t grow_bytes(const WireOptions& options) {
  Grow grow{options.first_id, options.position, {}};
  for (int i = 0; i < kNodes; ++i) {
    grow.nodes.push_back({options.vocab_size - 1 - i, static_cast<std::uint32_t>(i),
                          static_cast<std::uint8_t>(255 - i)});
  }
  return serialize(EdgeMessage{options.position, options.first_id, grow}).size();
}

std::size_t exit_report_bytes(const WireOptions& options) {
  const ExitReport report{static_cast<std::uint32_t>(options.position),
                          31,
                          options.first_id,
                          options.vocab_size - 1,
                          255,
                          options.first_id};
  return serialize(ServerMessage(report)).size();
}

Result<CheckOutcome> run_wire(const WireOptions& options) {
  const std::size_t grow = grow_bytes(options);
  const std::size_t report = exit_report_bytes(options);
  CheckOutcome outcome;
  outcome.passed = grow <= kGrowBudget && report <= kExitReportBudget;
  outcome.figures = {{"grow32_bytes", grow},
                     {"grow32_framed_bytes", grow + kFramingBytes},
                     {"exit_report_bytes", report},
                     {"exit_report_framed_bytes", report + kFramingBytes},
                     {"vocab_size", options.vocab_size},
                     {"position", options.position}};
  return outcome;
}

}  // namespace

void add_wire_check(CheckList& checks) {
  auto options = std::make_shared<WireOptions>();
  CLI::App* command = checks.add("wire", "Bytes of a Grow of 32 nodes and of an exit report",
                                 [options] { return run_wire(*options); });
  command->add_option("--vocab-size", options->vocab_size, "Tokens of the target's vocabulary")
      ->check(CLI::Range(TokenId{kNodes}, TokenId{1 << 30}));
  command->add_option("--position", options->position, "Position of the round in the text")
      ->check(CLI::Range(Position{0}, Position{1} << 40));
  command->add_option("--first-id", options->first_id, "Nodes sent before this round");
}

}  // namespace outrider
