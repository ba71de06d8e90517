// Whose chat template writes a prompt. SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/target_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/eventually.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration kLong = std::chrono::seconds(30);

ChatSource source_with(const std::string& text) {
  return {.templates = {{"default", text}}};
}

TargetDescription told_of(const ChatSource& source) {
  return {.templates = source.templates, .template_hash = template_hash(source)};
}

class TargetChatTest : public testing::Test {
 protected:
  TargetChatOptions options() {
    return {.tokenizers = source_with("the draft's"),
            .tokenizers_place = "models/draft",
            .patience = std::chrono::milliseconds(300),
            .say = [this](const std::string& line) { said_.push_back(line); }};
  }
  // A server whose answer a test may change.
  TargetChatOptions with_server(Result<TargetDescription> answer) {
    change(std::move(answer));
    TargetChatOptions with = options();
    with.describe = [this](const std::stop_token& /*stop*/) {
      ++calls_;
      const MutexLock lock(mu_);
      return answer_;
    };
    return with;
  }
  void change(Result<TargetDescription> answer) {
    const MutexLock lock(mu_);
    answer_ = std::move(answer);
  }
  // Until the server's new answer is known.
  static void await(TargetChat& chat, const ChatSource& source) {
    const TimePoint until = std::chrono::steady_clock::now() + kLong;
    Result<ChatSource> known = chat.now();
    while ((!known.ok() || *known != source) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      known = chat.now();
    }
    ASSERT_TRUE(known.ok());
    EXPECT_EQ(*known, source);
  }

  std::vector<std::string> said_;
  std::atomic<int> calls_{0};
  Mutex mu_;
  Result<TargetDescription> answer_ OUTRIDER_GUARDED_BY(mu_) = TargetDescription();
};

TEST_F(TargetChatTest, IsThatOfTheServersTargetAndNotOfTheDraft) {
  TargetChat chat(with_server(told_of(source_with("the target's"))));
  EXPECT_EQ(*chat.wait(), source_with("the target's"));
  EXPECT_THAT(said_, IsEmpty());
}

// A target that was never trained on conversations gets none, whatever the draft was trained on.
TEST_F(TargetChatTest, IsNoneWhereTheTargetHasNone) {
  TargetChat chat(with_server(TargetDescription()));
  EXPECT_EQ(*chat.wait(), ChatSource());
}

TEST_F(TargetChatTest, OfAnOlderServerIsTheDraftsWhichIsSaidOnce) {
  TargetChat chat(with_server(unimplemented("no such method")));
  EXPECT_EQ(*chat.wait(), source_with("the draft's"));
  EXPECT_EQ(*chat.now(), source_with("the draft's"));
  chat.ask_again();
  while (calls_ < 2) std::this_thread::yield();
  EXPECT_EQ(*chat.now(), source_with("the draft's"));
  EXPECT_THAT(said_, ElementsAre(AllOf(HasSubstr("models/draft"), HasSubstr("does not send"))));
}

TEST_F(TargetChatTest, OfAnOlderServerIsThatOfThisDevicesTarget) {
  TargetChatOptions options = with_server(unimplemented("no such method"));
  options.own = source_with("own");
  TargetChat chat(options);
  chat.settle(kLong);
  EXPECT_EQ(*chat.now(), source_with("own"));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("this device's target")));
}

TEST_F(TargetChatTest, OfThisDevicesTargetNeedsNoServer) {
  TargetChatOptions alone = options();
  alone.own = source_with("own");
  EXPECT_EQ(*TargetChat(alone).now(), source_with("own"));
  TargetChatOptions away = with_server(unavailable("refused"));
  away.own = source_with("own");
  TargetChat chat(away);
  EXPECT_EQ(*chat.wait(), source_with("own"));
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(TargetChatTest, OfTwoTargetsMustBeTheSame) {
  TargetChatOptions options = with_server(told_of(source_with("the server's")));
  options.own = source_with("own");
  TargetChat chat(options);
  chat.settle(kLong);
  const Status status = chat.now().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(template_hash(source_with("own"))),
                    HasSubstr(template_hash(source_with("the server's"))), HasSubstr("Remedy")));
  change(told_of(source_with("own")));  // the server was mended
  await(chat, source_with("own"));
}

TEST_F(TargetChatTest, OfAServerThatIsAwayIsWaitedForAndThenMissed) {
  TargetChat chat(with_server(unavailable("cannot reach a server at x: refused")));
  const Status status = chat.wait().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("gave up"), HasSubstr("refused")));
  EXPECT_THAT(said_, ElementsAre(AllOf(HasSubstr("link: "), HasSubstr("retrying"))));
  EXPECT_THAT(chat.now().status().message(), HasSubstr("refused"));
  change(told_of(source_with("the target's")));
  await(chat, source_with("the target's"));
}

TEST_F(TargetChatTest, WithoutPatienceAServerIsAskedOnceAndTheReasonIsSaid) {
  TargetChatOptions options = with_server(unavailable("cannot reach a server at x: refused"));
  options.patience = Duration{0};
  TargetChat chat(std::move(options));
  const Status status = chat.wait().status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("gave up"), HasSubstr("refused")));
}

TEST_F(TargetChatTest, OfAServerThatRefusesIsAskedForAnewByWhoeverNeedsIt) {
  TargetChat chat(with_server(unauthenticated("no key")));
  EXPECT_EQ(chat.wait().status().code(), StatusCode::kUnauthenticated);
  change(told_of(source_with("the target's")));
  await(chat, source_with("the target's"));
}

TEST_F(TargetChatTest, OfAnotherServerIsTakenWhenItIsAskedAgain) {
  TargetChat chat(with_server(told_of(source_with("first"))));
  EXPECT_EQ(*chat.wait(), source_with("first"));
  change(told_of(source_with("second")));
  EXPECT_EQ(*chat.now(), source_with("first"));
  chat.ask_again();
  await(chat, source_with("second"));
}

TEST_F(TargetChatTest, IsNotTheTargetsWhereTheUserNamedAForm) {
  for (const char* name : {"chatml", "none"}) {
    TargetChatOptions options = with_server(unavailable("refused"));
    options.name = name;
    EXPECT_EQ(*TargetChat(options).wait(), source_with("the draft's"));
    change(told_of(source_with("the target's")));
    TargetChat chat(options);
    chat.settle(kLong);
    EXPECT_EQ(*chat.wait(), source_with("the draft's"));
  }
  TargetChatOptions options = with_server(told_of(source_with("the target's")));
  options.name = "tool_use";  // perhaps one of the target's
  EXPECT_EQ(*TargetChat(options).wait(), source_with("the target's"));
}

// A server with another tokenizer refuses all prompts, by whatever template they are written.
TEST_F(TargetChatTest, AnotherTokenizerIsNamedUntilTheServerHasTheEdgesAgain) {
  for (const char* name : {"", "chatml"}) {
    TargetDescription other = told_of(source_with("the target's"));
    other.tokenizer_hash = "0ther";
    TargetChatOptions options = with_server(other);
    options.name = name;
    options.tokenizer_hash = "0wn";
    TargetChat chat(options);
    chat.settle(kLong);
    const Status status = chat.check_server();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("0ther"), HasSubstr("0wn"), HasSubstr("models/draft")));
    other.tokenizer_hash = "0wn";
    change(other);
    EXPECT_TRUE(eventually([&] { return chat.check_server().ok(); }));
  }
}

TEST_F(TargetChatTest, AKeyThatTheServerRefusesIsNamedUntilItTakesIt) {
  TargetChat chat(with_server(unauthenticated("no key that this server knows")));
  chat.settle(kLong);
  EXPECT_EQ(chat.check_server().code(), StatusCode::kUnauthenticated);
  change(told_of(source_with("the target's")));
  EXPECT_TRUE(eventually([&] { return chat.check_server().ok(); }));
}

TEST_F(TargetChatTest, TellsWhetherTheServerIsAway) {
  EXPECT_EQ(TargetChat(options()).away(), Status()) << "there is none";
  TargetChat chat(with_server(unavailable("refused")));
  chat.settle(kLong);
  EXPECT_THAT(chat.away().message(), HasSubstr("refused"));
  change(told_of(source_with("the target's")));
  EXPECT_TRUE(eventually([&] { return chat.away().ok(); }));
}

TEST_F(TargetChatTest, MustBeWhatItsHashSays) {
  TargetDescription forged = told_of(source_with("the target's"));
  forged.templates["default"] = "another";
  EXPECT_EQ(TargetChat(with_server(forged)).wait().status().code(), StatusCode::kInternal);
  forged.templates.clear();  // too large to be told
  const Status status = TargetChat(with_server(forged)).wait().status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("too large"), HasSubstr("--chat-template")));
}

// --- sampling ------------------------------------------------------------------------------------

TEST_F(TargetChatTest, SamplingIsTheServersTargetsWhereNoFlagSaysOtherwise) {
  TargetDescription told = told_of(source_with("the target's"));
  told.sampling = {.temperature = 0.7f, .top_k = 20};
  TargetChatOptions options = with_server(told);
  options.sampling_flags = SamplingDefaults{.top_k = 5};
  options.own_sampling = {.temperature = 0.3f};
  TargetChat chat(options);
  ASSERT_TRUE(chat.wait().ok());
  EXPECT_EQ(*chat.sampling({.top_k = 5}), (SamplingParams{.temperature = 0.7f, .top_k = 5}));
}

TEST_F(TargetChatTest, SamplingIsTheOwnTargetsWithoutAServersWord) {
  TargetChatOptions options = with_server(unimplemented("no such method"));
  options.own = source_with("own");
  options.own_sampling = {.temperature = 0.3f};
  options.sampling_flags = SamplingDefaults();
  TargetChat chat(options);
  EXPECT_EQ(chat.sampling({})->temperature, 0.3f);
  chat.settle(kLong);
  EXPECT_EQ(chat.sampling({})->temperature, 0.3f);
}

TEST_F(TargetChatTest, SamplingIsAskedForWhereTheUserNamedAFormOnly) {
  TargetDescription told = told_of(source_with("the target's"));
  told.sampling = {.temperature = 0.7f};
  TargetChatOptions options = with_server(told);
  options.name = "none";
  options.sampling_flags = SamplingDefaults();
  TargetChat chat(options);
  EXPECT_EQ(*chat.wait(), source_with("the draft's"));
  EXPECT_EQ(chat.sampling({})->temperature, 0.7f);
  EXPECT_EQ(calls_, 1);
  options.is_given = true;
  options.name = "default";
  TargetChat with_file(options);
  EXPECT_EQ(*with_file.wait(), source_with("the draft's"));
  EXPECT_EQ(with_file.sampling({})->temperature, 0.7f);
}

TEST_F(TargetChatTest, SamplingIsNotWaitedForWhereItDoesNotCountOrFlagsSayAll) {
  TargetChatOptions options = with_server(unavailable("refused"));
  options.name = "none";
  options.own_sampling = {.temperature = 0.3f};
  EXPECT_EQ(*TargetChat(options).sampling({.temperature = 0.1f}),
            (SamplingParams{.temperature = 0.1f}));
  options.sampling_flags = SamplingDefaults{.temperature = 0.0f};
  EXPECT_EQ(TargetChat(options).sampling({})->temperature, 0.0f);
}

TEST_F(TargetChatTest, SamplingOfAServerThatIsAwayIsWaitedForAndThenMissed) {
  TargetChatOptions options = with_server(unavailable("cannot reach a server at x: refused"));
  options.name = "none";
  options.sampling_flags = SamplingDefaults();
  TargetChat chat(options);
  EXPECT_THAT(chat.wait().status().message(), AllOf(HasSubstr("gave up"), HasSubstr("refused")));
  EXPECT_EQ(chat.sampling({}).status().code(), StatusCode::kUnavailable);
  TargetDescription told;
  told.sampling = {.temperature = 0.7f};
  change(told);
  const TimePoint until = std::chrono::steady_clock::now() + kLong;
  while (!chat.wait().ok() && std::chrono::steady_clock::now() < until) {
  }
  ASSERT_TRUE(chat.sampling({}).ok());
  EXPECT_EQ(chat.sampling({})->temperature, 0.7f);
}

}  // namespace
}  // namespace outrider
