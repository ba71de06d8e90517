// SPDX-License-Identifier: Apache-2.0
#include "proto/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

template <typename Body>
Body through_the_wire(const Body& body) {
  Result<EdgeMessage> parsed = parse_edge_message(serialize(EdgeMessage{0, 0, body}));
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return std::get<Body>(parsed->body);
}

template <typename Body>
Body through_the_wire_down(const Body& body) {
  Result<ServerMessage> parsed = parse_server_message(serialize(ServerMessage(body)));
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return std::get<Body>(*parsed);
}

Open example_open() {
  Open open;
  open.tokenizer_hash = "0123abcd";
  open.sampling = {0.7f, 40, 0.9f, 0.05f};
  open.seed = 0xfedcba9876543210u;
  open.prefix = {1, 0, 2147483647};
  open.end_position = 131;
  open.policy = {PassPolicy::kEager, 12ms, true, 17};
  open.stop_ids = {2, 7};
  open.expected_fingerprint = "f00d";
  open.expected_arithmetic_id = "beef";
  open.replaced_session = "s-9";
  open.template_hash = std::string(64, 'c');
  open.ignore_target_stops = true;
  open.accepts_server_nodes = true;
  open.set_settings({.presence_penalty = 0.5f,
                     .frequency_penalty = -2,
                     .repetition_penalty = 1.1f,
                     .logit_bias = {{0, -100}, {2147483647, 1.5f}},
                     .min_tokens = 9,
                     .bad_words = {{1, 2}, {0}},
                     .constraint = {.spec = {ConstraintKind::kRegex, "a+\xff"}}},
                    2);
  return open;
}

TEST(Codec, OpenKeepsEveryField) {
  const Open sent = example_open();
  const Open open = through_the_wire(sent);
  EXPECT_EQ(open.protocol_version, kProtocolVersion);
  EXPECT_EQ(open.noise_version, kConstrainedNoiseVersion);
  EXPECT_EQ(open.settings, sent.settings);
  EXPECT_EQ(open.answer_begin, 2);
  EXPECT_EQ(open.top_logprobs, std::nullopt);
  Open asked = sent;
  asked.top_logprobs = 0;
  EXPECT_EQ(through_the_wire(asked).top_logprobs, 0u);
  EXPECT_FALSE(through_the_wire(asked).prompt_logprobs);
  asked.prompt_logprobs = true;
  EXPECT_TRUE(through_the_wire(asked).prompt_logprobs);
  EXPECT_FALSE(through_the_wire(asked).wants_digests);
  asked.wants_digests = true;
  EXPECT_TRUE(through_the_wire(asked).wants_digests);
  asked.level = "60";
  EXPECT_EQ(through_the_wire(asked).level, "60");
  EXPECT_EQ(open.tokenizer_hash, sent.tokenizer_hash);
  EXPECT_EQ(open.sampling, sent.sampling);
  EXPECT_EQ(open.seed, sent.seed);
  EXPECT_EQ(open.prefix, sent.prefix);
  EXPECT_EQ(open.end_position, sent.end_position);
  EXPECT_EQ(open.policy, sent.policy);
  EXPECT_EQ(open.stop_ids, sent.stop_ids);
  EXPECT_EQ(open.expected_fingerprint, sent.expected_fingerprint);
  EXPECT_EQ(open.expected_arithmetic_id, sent.expected_arithmetic_id);
  EXPECT_EQ(open.replaced_session, sent.replaced_session);
  EXPECT_EQ(open.template_hash, sent.template_hash);
  EXPECT_TRUE(open.ignore_target_stops);
  EXPECT_TRUE(open.accepts_server_nodes);
}

TEST(Codec, SettingsThatChangeNothingCostNoBytes) {
  Open open = example_open();
  open.set_settings({}, 3);
  EXPECT_EQ(open.noise_version, kNoiseVersion);
  EXPECT_EQ(open.answer_begin, 0);
  const std::string without = serialize(EdgeMessage{0, 0, open});
  open.settings.presence_penalty = 1;
  EXPECT_EQ(serialize(EdgeMessage{0, 0, open}).size(), without.size() + 2 + 1 + 5);
}

// Older edges send the same bytes.
TEST(Codec, NoTemplateHashCostsNoBytes) {
  Open open = example_open();
  open.set_settings({}, 0);
  const std::string with = serialize(EdgeMessage{0, 0, open});
  open.template_hash.clear();
  // In addition to the hash: its tag and length, and a second byte of the message's length.
  EXPECT_EQ(serialize(EdgeMessage{0, 0, open}).size() + 64 + 3 + 1, with.size());
}

TargetDescription example_description() {
  return {.model_name = "demo",
          .fingerprint = "f00d",
          .tokenizer_hash = "0123abcd",
          .templates = {{"default", "{% x %}\n\xff"}, {"tool_use", ""}},
          .bos = "",
          .eos = "\xef\xbd\x9c",
          .chosen = "chatml",
          .template_hash = std::string(64, 'd'),
          .server_version = "1.2.3",
          .sampling = {.temperature = 0.7f, .top_k = 20, .min_p = 0.0f}};
}

TEST(Codec, ADescriptionKeepsEveryField) {
  const TargetDescription sent = example_description();
  const auto got = parse_target_description(serialize(sent));
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(*got, sent);
  const auto nothing = parse_target_description("");
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, TargetDescription{});
}

// Texts that exceed a bound are not sent at all, and are refused on receipt: half a template would
// be another template.
TEST(Codec, ADescriptionHasBounds) {
  TargetDescription target = example_description();
  target.templates["default"] = std::string(kMaxTemplateBytes, 'x');
  target.bos = std::string(kMaxTokenBytes + 1, 'x');
  const auto sent = parse_target_description(serialize(target));
  ASSERT_TRUE(sent.ok());
  EXPECT_TRUE(sent->templates.empty());
  EXPECT_EQ(sent->bos, std::nullopt);
  EXPECT_EQ(sent->template_hash, target.template_hash);

  const auto refused = [](const auto& spoil) {
    v1::DescribeReply wire;
    spoil(wire);
    const auto parsed = parse_target_description(wire.SerializeAsString());
    return parsed.ok() ? "taken" : parsed.status().message();
  };
  using Reply = v1::DescribeReply;
  EXPECT_THAT(refused([](Reply& reply) { reply.mutable_sampling_defaults()->set_top_p(2); }),
              HasSubstr("describe_reply.sampling_defaults"));
  EXPECT_THAT(refused([](Reply& reply) { reply.mutable_sampling_defaults()->set_top_k(1u << 31); }),
              HasSubstr("describe_reply.sampling_defaults.top_k"));
  EXPECT_THAT(refused([](Reply& reply) {
                reply.add_templates()->set_text(std::string(kMaxTemplateBytes + 1, 'x'));
              }),
              HasSubstr("templates has 262145 bytes, at most 262144"));
  EXPECT_THAT(refused([](Reply& reply) {
                for (std::size_t i = 0; i <= kMaxTemplates; ++i) {
                  reply.add_templates()->set_name(std::to_string(i));
                }
              }),
              HasSubstr("templates has 65 entries, at most 64"));
  EXPECT_THAT(refused([](Reply& reply) {
                reply.add_templates()->set_name("a");
                reply.add_templates()->set_name("a");
              }),
              HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(refused([](Reply& reply) { reply.add_templates()->set_name("a\nb"); }),
              HasSubstr("templates.name"));
  EXPECT_THAT(refused([](Reply& reply) { reply.set_bos_token(std::string(1025, 'x')); }),
              HasSubstr("bos_token"));
  EXPECT_THAT(refused([](Reply& reply) { reply.set_template_hash("ABC"); }),
              HasSubstr("64 lower-case hex digits"));
  EXPECT_THAT(refused([](Reply& reply) { reply.set_chosen_template("\x1b[2J"); }),
              HasSubstr("chosen_template"));
  EXPECT_FALSE(parse_target_description("\xff\xff").ok());
  EXPECT_TRUE(check_describe_request("").ok());
  EXPECT_FALSE(check_describe_request("\xff\xff").ok());
}

TEST(Codec, DefaultsSurviveAlthoughTheyCostNoBytes) {
  const Open open = through_the_wire(Open{});
  EXPECT_EQ(open.sampling, SamplingParams{});
  EXPECT_EQ(open.policy, Policy{});
  Open closed;
  closed.sampling.top_p = 0.0f;  // wrong, and the session refuses it: it must not become "absent"
  EXPECT_EQ(through_the_wire(closed).sampling.top_p, 0.0f);
}

TEST(Codec, GrowKeepsTokensParentsAndConfidences) {
  const Grow sent{900, 1234, {{5, 0, 255}, {100000, 1, 0}, {7, 2, 128}}};
  const Grow grow = through_the_wire(sent);
  EXPECT_EQ(grow.first_id, sent.first_id);
  EXPECT_EQ(grow.anchor_position, sent.anchor_position);
  ASSERT_EQ(grow.nodes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(grow.nodes[i].token, sent.nodes[i].token);
    EXPECT_EQ(grow.nodes[i].parent, sent.nodes[i].parent);
    EXPECT_EQ(grow.nodes[i].confidence, sent.nodes[i].confidence);
  }
}

TEST(Codec, EmptyGrowStaysAGrow) {
  const Grow grow = through_the_wire(Grow{4, 77, {}});
  EXPECT_EQ(grow.first_id, 4u);
  EXPECT_EQ(grow.anchor_position, 77);
  EXPECT_TRUE(grow.nodes.empty());
}

TEST(Codec, EveryEdgeMessageAcknowledges) {
  for (const auto& body :
       {decltype(EdgeMessage::body)(AckOnly{}), decltype(EdgeMessage::body)(Cancel{}),
        decltype(EdgeMessage::body)(Policy{}), decltype(EdgeMessage::body)(Grow{})}) {
    Result<EdgeMessage> parsed = parse_edge_message(serialize(EdgeMessage{321, 9, body}));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->acked_position, 321);
    EXPECT_EQ(parsed->acked_reports, 9u);
    EXPECT_EQ(parsed->body.index(), body.index());
  }
}

TEST(Codec, OpenedKeepsEveryField) {
  Opened sent;
  sent.session_id = "s-1";
  sent.fingerprint = "aa";
  sent.arithmetic_id = "bb";
  sent.model_name = "demo-target";
  sent.stop_ids = {2};
  sent.exits = {3, 6};
  sent.limits = {128, 65, 256, 1 << 16, 2048, 4096};
  sent.pass_costs = {{{1, std::chrono::nanoseconds(300)}, {2, from_ms(18)}, {5, from_ms(24.5)}}, 8};
  sent.server_version = "1.2";
  sent.wall_clock = std::chrono::hours(24 * 365 * 57);
  const Opened opened = through_the_wire_down(sent);
  sent.pass_costs.points[0].time =
      std::chrono::microseconds(1);  // the smallest value of the wire form
  EXPECT_EQ(opened.pass_costs, sent.pass_costs);
  EXPECT_EQ(opened.server_version, "1.2");
  EXPECT_EQ(opened.wall_clock, sent.wall_clock);
  EXPECT_EQ(opened.session_id, sent.session_id);
  EXPECT_EQ(opened.fingerprint, sent.fingerprint);
  EXPECT_EQ(opened.arithmetic_id, sent.arithmetic_id);
  EXPECT_EQ(opened.model_name, sent.model_name);
  EXPECT_EQ(opened.stop_ids, sent.stop_ids);
  EXPECT_EQ(opened.exits, sent.exits);
  EXPECT_EQ(opened.limits.max_nodes, 128u);
  EXPECT_EQ(opened.limits.max_rows, 65u);
  EXPECT_EQ(opened.limits.run_ahead, 256u);
  EXPECT_EQ(opened.limits.max_message_bytes, 1u << 16);
  EXPECT_EQ(opened.limits.max_positions, 2048);
  EXPECT_EQ(opened.limits.vocab_size, 4096);
}

TEST(Codec, ModelNamesWithStrangeBytesArriveReadable) {
  Opened sent;
  sent.model_name = "caf\xc3\xa9\n\xff";
  EXPECT_EQ(through_the_wire_down(sent).model_name, "caf????");
}

TEST(Codec, PassesKeepEveryField) {
  const Started started = through_the_wire_down(Started{3, 40, 17, {12, 13}});
  EXPECT_EQ(started.pass, 3u);
  EXPECT_EQ(started.position, 40);
  EXPECT_EQ(started.last_id, 17u);
  EXPECT_EQ(started.left_out, (std::vector<NodeId>{12, 13}));

  const std::vector<TokenLogprobs> logprobs = {
      {.chosen = -0.5f, .top = {{9, -0.5f}, {0, -3}}}, {.chosen = -7}, {.chosen = 0}};
  EXPECT_EQ(through_the_wire_down(Verdict{.tokens = {9, 8, 7}, .logprobs = logprobs}).logprobs,
            logprobs);
  const PromptLogprobs scored = through_the_wire_down(PromptLogprobs{7, logprobs});
  EXPECT_EQ(scored.position, 7);
  EXPECT_EQ(scored.logprobs, logprobs);
  EXPECT_FALSE(parse_server_message(serialize(ServerMessage(PromptLogprobs{7, {}}))).ok());
  const std::vector<std::uint64_t> digests = {0, ~std::uint64_t{0}};
  EXPECT_EQ(through_the_wire_down(Verdict{.tokens = {9, 8}, .digests = digests}).digests, digests);
  const auto more =
      parse_server_message(serialize(ServerMessage(Verdict{.tokens = {9}, .digests = digests})));
  EXPECT_THAT(more.status().message(), HasSubstr("verdict.digests has 2 entries, at most one"));
  const Verdict verdict =
      through_the_wire_down(Verdict{3, 40, {9, 8, 7}, 6, {1ms, 2ms, 3ms, Load::kBusy}, 4ms, 17, 5});
  EXPECT_EQ(verdict.pass, 3u);
  EXPECT_EQ(verdict.position, 40);
  EXPECT_EQ(verdict.tokens, (std::vector<TokenId>{9, 8, 7}));
  EXPECT_EQ(verdict.rows, 6u);
  EXPECT_EQ(verdict.timings.waited, 1ms);
  EXPECT_EQ(verdict.timings.queued, 2ms);
  EXPECT_EQ(verdict.timings.computed, 3ms);
  EXPECT_EQ(verdict.timings.load, Load::kBusy);
  EXPECT_EQ(verdict.pass_limit, 4ms);
  EXPECT_EQ(verdict.batch_rows, 17u);
  EXPECT_EQ(verdict.server_nodes, 5u);

  const ExitReport report = through_the_wire_down(ExitReport{3, 1, 15, 99, 200, 4, {7, 8}});
  EXPECT_EQ(report.path, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(report.pass, 3u);
  EXPECT_EQ(report.exit, 1);
  EXPECT_EQ(report.leaf_id, 15u);
  EXPECT_EQ(report.next_token, 99);
  EXPECT_EQ(report.confidence, 200);
  EXPECT_EQ(report.seq, 4u);
}

TEST(Codec, ProgressUsageAndNoticeKeepEveryField) {
  const Progress progress = through_the_wire_down(Progress{64, 1000});
  EXPECT_EQ(progress.done, 64);
  EXPECT_EQ(progress.total, 1000);

  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kError}) {
    const Usage usage = through_the_wire_down(Usage{reason, 1, 2, 3, 4, 5, 6, 7ms, 8});
    EXPECT_EQ(usage.reason, reason);
    EXPECT_EQ(usage.prompt_tokens, 1u);
    EXPECT_EQ(usage.cached_tokens, 2u);
    EXPECT_EQ(usage.completion_tokens, 3u);
    EXPECT_EQ(usage.passes, 4u);
    EXPECT_EQ(usage.rows, 5u);
    EXPECT_EQ(usage.dead_on_arrival, 6u);
    EXPECT_EQ(usage.compute, 7ms);
    EXPECT_EQ(usage.rows_pruned, 8u);
  }

  const Notice notice = through_the_wire_down(Notice{Notice::Kind::kOverloaded, 1500ms});
  EXPECT_EQ(notice.kind, Notice::Kind::kOverloaded);
  EXPECT_EQ(notice.retry_after, 1500ms);
  EXPECT_EQ(through_the_wire_down(Notice{}).kind, Notice::Kind::kReconnectSoon);
}

}  // namespace
}  // namespace outrider
