// Records of a toy model, audited on it: honest ones are clean, and each forgery is found or cannot
// change anything. SPDX-License-Identifier: Apache-2.0
#include "edge_client/audit/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/engine/sampling/row_digest.h"
#include "common/serving/record/recorder.h"
#include "emulation/random/random.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Ids = std::vector<TokenId>;

// The same toy under another name and arithmetic id: a level, or another dtype.
class OtherToy final : public Model {
 public:
  OtherToy() {
    info_ = toy_.info();
    info_.name = "toy@60";
    info_.arithmetic_id = "0e0e";
    info_.fingerprint = "beef";
  }
  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return toy_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(toy_.forward(rows, out));
    for (float& logit : out.logits) logit = -logit;
    return {};
  }
  ToyModel& toy() { return toy_; }

 private:
  ToyModel toy_{13};
  ModelInfo info_;
};

class AuditTest : public testing::Test {
 protected:
  AuditTest() {
    open_.tokenizer_hash = "toy";
    open_.template_hash = "template";
    open_.sampling = {.temperature = 0.8f};
    open_.seed = 77;
    open_.prefix = Ids(50, 3);
    open_.end_position = 200;
  }

  // The answer as the toy decides it, cut into verdicts of one to five tokens, and into stretches.
  RecordedAnswer record(int stretches = 1, std::uint64_t cuts = 1) {
    const Ids text = model_.decode(open_.prefix, open_.end_position, open_.sampling, open_.seed,
                                   open_.stop_ids, open_.settings);
    AnswerRecording recording(record_terms(open_, open_.prefix), nullptr, false);
    SeededRandom random(cuts);
    auto at = open_.prefix.size();
    const std::size_t each = (text.size() - at) / static_cast<std::size_t>(stretches) + 1;
    for (std::size_t next = at; at < text.size();) {
      if (at >= next) {
        recording.on_opened({.fingerprint = "f00d",
                             .arithmetic_id = "a51d",
                             .model_name = "toy",
                             .server_version = next == open_.prefix.size() ? "1" : "",
                             .dtype = "f32",
                             .kv_dtype = "f32"});
        next += each;
      }
      const std::size_t end = std::min(text.size(), at + 1 + random.below(5));
      Verdict verdict;
      for (; at < end; ++at) {
        const auto before = std::span(text).first(at);
        if (at % 16 == 0) verdict.digests.push_back(row_digest(model_.logits_after(before)));
        verdict.tokens.push_back(text[at]);
      }
      recording.on_verdict(verdict, verdict.tokens.size());
    }
    const bool whole = std::ssize(text) == open_.end_position;
    const RecordLines lines = recording.finish(whole ? "length" : "stop_token");
    const Result<RecordedAnswer> answer = check_record({.lines = lines.lines}, "");
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    return *answer;
  }
  AuditTarget target() {
    return {.models = {&model_, &other_}, .tokenizer_hash = "toy", .template_hash = "template"};
  }
  std::string said_of(const RecordedAnswer& answer) {
    const Result<AuditCounts> counts = audit(answer, target());
    return counts.ok() ? "" : counts.status().message();
  }

  ToyModel model_{13};
  OtherToy other_;
  Open open_;
};

TEST_F(AuditTest, HonestAnswersAreClean) {
  SeededRandom random(3);
  for (int run = 0; run < 60; ++run) {
    open_.seed = random.below(1000);
    open_.sampling.temperature = run % 3 == 0 ? 0.0f : 0.9f;
    open_.prefix = Ids(static_cast<std::size_t>(random.between(1, 90)), 5);
    open_.end_position = std::ssize(open_.prefix) + random.between(1, 100);
    open_.stop_ids = run % 4 == 0 ? Ids{0} : Ids{};
    open_.settings = {};
    if (run % 2 == 0) {
      open_.settings = {.presence_penalty = 0.5f, .repetition_penalty = 1.2f, .min_tokens = 5};
    }
    open_.set_settings(open_.settings, std::ssize(open_.prefix));
    const RecordedAnswer answer =
        record(static_cast<int>(random.between(1, 4)), static_cast<std::uint64_t>(run));
    const Result<AuditCounts> counts = audit(answer, target());
    ASSERT_TRUE(counts.ok()) << run << ": " << counts.status().to_string();
    EXPECT_EQ(static_cast<Position>(counts->tokens), answer.end() - std::ssize(open_.prefix));
    EXPECT_EQ(static_cast<Position>(counts->digests),
              digests_between(std::ssize(open_.prefix), answer.end()));
    EXPECT_EQ(counts->without_digests, 0u);
  }
}

// The toy's choices of one token hang on all that came before, so any change is seen at its place.
TEST_F(AuditTest, AChangedTokenIsNamedByItsPosition) {
  const RecordedAnswer answer = record(2);
  for (const std::size_t at : {0u, 17u, 70u}) {
    RecordedAnswer forged = answer;
    Ids& ids = *forged.stretches[0].ids;
    ids[at] = (ids[at] + 1) % 13;
    EXPECT_THAT(said_of(forged), HasSubstr("position " + std::to_string(50 + at) +
                                           ": the target "
                                           "chooses token"));
  }
}

TEST_F(AuditTest, EveryForgeryThatChangesAChoiceIsFound) {
  const RecordedAnswer answer = record(2);
  const auto forged = [&](const std::function<void(RecordedAnswer&)>& change) {
    RecordedAnswer copy = answer;
    change(copy);
    return said_of(copy);
  };
  EXPECT_EQ(forged([](auto&) {}), "");
  EXPECT_THAT(forged([](auto& a) { a.terms.seed = 78; }), HasSubstr("the target chooses"));
  EXPECT_THAT(forged([](auto& a) { a.terms.temperature = 0.1f; }), HasSubstr("the target chooses"));
  EXPECT_THAT(forged([](auto& a) { a.terms.top_k = 1; }), HasSubstr("the target chooses"));
  EXPECT_THAT(forged([](auto& a) { a.terms.noise_version = 3; }), HasSubstr("noise_version is 3"));
  EXPECT_THAT(forged([](auto& a) {
                a.terms.repetition_penalty = 2;
                a.terms.noise_version = 3;
              }),
              HasSubstr("the target chooses"));
  EXPECT_THAT(forged([](auto& a) { (*a.terms.prompt)[7] = 4; }), HasSubstr("position"));
  EXPECT_THAT(forged([](auto& a) { a.terms.tokenizer_hash = "x"; }), HasSubstr("its tokenizer is"));
  EXPECT_THAT(forged([](auto& a) { a.terms.template_hash = "x"; }),
              HasSubstr("chat template is x"));
  EXPECT_THAT(
      forged([](auto& a) { std::swap((*a.stretches[0].ids)[3], (*a.stretches[0].ids)[9]); }),
      HasSubstr("position 53"));
  EXPECT_THAT(forged([](auto& a) { a.stretches[1].digests[1].back() ^= 1; }),
              HasSubstr("the row's digest is"));
  EXPECT_THAT(forged([](auto& a) { a.stretches[1].arithmetic_id = "0e0e"; }),
              HasSubstr("its fingerprint is not"));
  EXPECT_THAT(forged([](auto& a) {
                a.stretches[1].arithmetic_id = "0e0e";
                a.stretches[1].fingerprint = "beef";
                a.stretches[1].model = "toy@60";
              }),
              HasSubstr("the target chooses token"))
      << "another level's row";
  EXPECT_THAT(forged([](auto& a) { a.stretches[0].arithmetic_id = "dead"; }),
              AllOf(HasSubstr("with arithmetic id dead, and this target is toy, f32"),
                    HasSubstr("Remedy")));
  EXPECT_THAT(forged([](auto& a) {
                a.stretches[0].arithmetic_id = "dead";
                a.stretches[0].model = "toy@30";
              }),
              HasSubstr("no such level 30"));
  EXPECT_THAT(forged([](auto& a) { a.stretches[0].dtype = "int8"; }),
              HasSubstr("its dtype is not"));
  EXPECT_THAT(forged([](auto& a) { a.stretches[0].kv_dtype = "bf16"; }), HasSubstr("its kv_dtype"));
  EXPECT_THAT(forged([](auto& a) { a.stretches[0].model = "toy@9"; }),
              HasSubstr("its level is not"));
  EXPECT_THAT(forged([](auto& a) { a.terms.stop_ids = {a.stretches[0].ids->at(20)}; }),
              HasSubstr("goes on behind stop token"));
  EXPECT_THAT(forged([](auto& a) {
                a.stretches.pop_back();
                a.stretches.back().ending = "length";
              }),
              HasSubstr("ends with length, and the answer does not"));
  EXPECT_THAT(forged([](auto& a) { a.stretches.back().ending = "stop_token"; }),
              HasSubstr("ends with stop_token"));
}

TEST_F(AuditTest, WithoutDigestsTheTokensAreStillChecked) {
  RecordedAnswer answer = record();
  answer.stretches[0].digests.clear();
  const Result<AuditCounts> counts = audit(answer, target());
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  EXPECT_EQ(counts->digests, 0u);
  EXPECT_EQ(counts->without_digests, 9u) << "64 to 192";
  answer.terms.seed = 1;
  EXPECT_THAT(said_of(answer), HasSubstr("the target chooses"));
}

// A change of neither a choice nor a digest: only a signature finds it.
TEST_F(AuditTest, ASeedThatDecidesNothingIsNotProven) {
  open_.sampling.temperature = 0;
  RecordedAnswer answer = record();
  answer.terms.seed = 1;
  answer.terms.id = std::string(32, '0');
  answer.stretches[0].verifier = "another";
  EXPECT_EQ(said_of(answer), "");
}

TEST_F(AuditTest, TokensAndLengthsThatNoTargetHasAreRefused) {
  RecordedAnswer answer = record();
  RecordedAnswer wrong = answer;
  (*wrong.terms.prompt)[0] = 13;
  EXPECT_THAT(said_of(wrong), HasSubstr("position 0: token 13 is outside"));
  wrong = answer;
  (*wrong.stretches[0].ids)[0] = -1;
  EXPECT_THAT(said_of(wrong), HasSubstr("position 50: token -1 is outside"));
  wrong = answer;
  wrong.terms.prompt->resize(200, 1);
  EXPECT_THAT(said_of(wrong), HasSubstr("350 positions, and this target holds 256"));
  wrong = answer;
  wrong.terms.logit_bias = {{99, 1}};
  wrong.terms.noise_version = 3;
  EXPECT_THAT(said_of(wrong), HasSubstr("logit_bias"));
}

TEST_F(AuditTest, ATargetThatFailsProvesNothing) {
  const RecordedAnswer answer = record();
  model_.fail_next_passes(1);
  EXPECT_EQ(audit(answer, target()).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
