// The digests of rows in verdicts: those of the rows behind which tokens were chosen, whatever is
// drafted, computed on demand or chosen by the model. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "common/decoding/verify/scheduling/pass_runner.h"
#include "common/engine/sampling/row_digest.h"
#include "tests/unit/common/decoding/verify/sessions_fixture.h"

namespace outrider {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class DigestsTest : public SessionsTest {
 protected:
  static Open digested(std::size_t prompt, Position answer) {
    Open asked = open_message(long_text(prompt));
    asked.end_position = static_cast<Position>(prompt) + answer;
    asked.wants_digests = true;
    return asked;
  }
  // By the whole text before each token.
  std::vector<std::uint64_t> right(const Open& asked) {
    std::vector<TokenId> text = asked.prefix;
    std::vector<std::uint64_t> all;
    for (const TokenId token : expected(asked)) {
      if (text.size() % 16 == 0) all.push_back(row_digest(model_.logits_after(text)));
      text.push_back(token);
    }
    return all;
  }
  std::vector<std::uint64_t> told(StreamId stream) {
    std::vector<std::uint64_t> all;
    for (const Verdict& verdict : heard<Verdict>(stream)) {
      all.insert(all.end(), verdict.digests.begin(), verdict.digests.end());
    }
    return all;
  }
};

TEST_F(DigestsTest, AreThoseOfTheChosenRows) {
  for (const bool on_demand : {false, true}) {
    scheduler_.reset();
    events_.clear();
    options_.logits_on_demand = on_demand;
    const Open asked = digested(23, 60);
    open(1, asked);
    finish_all();
    EXPECT_EQ(answer(1), expected(asked));
    EXPECT_THAT(told(1), SizeIs(4)) << "at 32, 48, 64 and 80";
    EXPECT_EQ(told(1), right(asked));
  }
}

TEST_F(DigestsTest, ComeWithSettingsOfTheRowsAsTheModelGivesThem) {
  Open asked = digested(30, 40);
  asked.sampling.temperature = 0.8f;
  asked.set_settings({.logit_bias = {{2, 50}}}, 30);
  open(1, asked);
  finish_all();
  const std::vector<TokenId> said = answer(1);
  EXPECT_THAT(said, testing::Each(2)) << "the bias decides";
  std::vector<TokenId> text = asked.prefix;
  text.insert(text.end(), said.begin(), said.begin() + 2);
  EXPECT_EQ(told(1).at(0), row_digest(model_.logits_after(text)));
}

TEST_F(DigestsTest, NobodyGetsThemUnasked) {
  Open plain = digested(16, 40);
  plain.wants_digests = false;
  open(1, plain);
  finish_all();
  EXPECT_THAT(told(1), IsEmpty());
}

// Notes which rows the pass lets the model choose from.
class ChoiceWatch final : public Model {
 public:
  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    by_model_.clear();
    for (const Row& row : rows) by_model_.push_back(row.choice != nullptr);
    return model_.forward(rows, out);
  }
  const std::vector<bool>& by_model() const { return by_model_; }

 private:
  ToyModel model_;
  std::vector<bool> by_model_;
};

TEST(DigestRows, OnlyTheyComeFromADeviceThatChoosesItself) {
  ChoiceWatch model;
  const std::unique_ptr<KvCache> cache = *model.new_cache(64);
  const TokenChoice choice;
  PassRunner runner(model);
  // Tokens of positions 14 and, by its parent, 15, 16: the last two nodes follow position 15.
  Rider rider{
      .plan = {.tokens = std::vector<TokenId>(14, 1), .nodes = {{3, -1}, {4, 0}, {5, 0}, {6, 1}}},
      .cache = cache.get(),
      .choice = &choice,
      .digests = true};
  runner.place({&rider, 1});
  runner.compute({&rider, 1});
  ASSERT_TRUE(rider.status.ok());
  const std::vector<bool>& by_model = model.by_model();
  EXPECT_EQ(std::vector<bool>(by_model.begin() + 13, by_model.end()),
            (std::vector<bool>{true, true, false, false, true}));
}

}  // namespace
}  // namespace outrider
