// Records as they are written and read: their form, chain and signatures, and what is wrong with
// those that were cut, changed or replayed. SPDX-License-Identifier: Apache-2.0
#include "common/serving/record/record_reader.h"
#include "common/serving/record/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "common/base/json_record.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

Open example_open() {
  Open open;
  open.tokenizer_hash = std::string(64, 'a');
  open.sampling = {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f};
  open.seed = 123456789;
  open.prefix = {5, 6, 7};
  open.end_position = 100;
  open.stop_ids = {2};
  open.template_hash = std::string(64, 'b');
  open.set_settings({.presence_penalty = 0.1f, .logit_bias = {{3, -1.5f}}, .bad_words = {{1, 2}}},
                    3);
  return open;
}

Opened example_opened(const std::string& version) {
  return {.fingerprint = "f00d",
          .arithmetic_id = "a51d",
          .model_name = "toy@60",
          .server_version = version,
          .dtype = "int8",
          .kv_dtype = "f32"};
}

// An answer of twenty tokens: fifteen by a server, five by this device.
RecordLines example(const Recorder& recorder) {
  const Open open = example_open();
  AnswerRecording recording = recorder.begin(record_terms(open, open.prefix));
  recording.on_opened(example_opened("1.0"));
  recording.on_verdict({.tokens = {1, 2}}, 2);
  recording.on_opened(example_opened("1.0"));  // nothing comes of it
  recording.on_opened(example_opened("1.0"));
  Verdict verdict{.position = 5, .tokens = std::vector<TokenId>(13, 4), .digests = {0xabc}};
  recording.on_verdict(verdict, 13);
  recording.on_opened(example_opened(""));
  recording.on_verdict({.tokens = {8, 8, 8, 8, 8, 9}}, 5);  // its last one was cut off
  return recording.finish("stop_string");
}

class RecordTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::unique_ptr<Recorder> recorder(RecordOptions options = {}) const {
    options.program = "outrider-edge 1.0";
    Result<std::unique_ptr<Recorder>> made = Recorder::open(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *std::move(made);
  }
  std::unique_ptr<Recorder> signing() const {
    if (!std::ifstream(path("key")).good()) *write_new_signing_key(path("key"));
    return recorder({.key = path("key")});
  }
  static RecordText text_of(const RecordLines& lines) { return {.lines = lines.lines}; }
  // The fault of a record that `change` was done to.
  static std::string said_of(RecordText text, const std::function<void(RecordText&)>& change,
                             const std::string& signer = "") {
    change(text);
    const Result<RecordedAnswer> answer = check_record(text, signer);
    return answer.ok() ? "" : answer.status().message();
  }

  TestDirectory directory_;
};

void replace(std::string& line, const std::string& what, const std::string& by) {
  const std::size_t at = line.find(what);
  ASSERT_NE(at, std::string::npos) << line;
  line.replace(at, what.size(), by);
}

TEST_F(RecordTest, KeepsWhatAnAnswerWasAskedWithAndWhoDecidedIt) {
  const RecordText text = text_of(example(*recorder()));
  ASSERT_THAT(text.lines, SizeIs(4));
  EXPECT_THAT(text.lines[0], StartsWith(R"({"outrider_record":1,)"));
  const Result<RecordedAnswer> answer = check_record(text, "");
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  const Open open = example_open();
  EXPECT_EQ(answer->terms.sampling(), open.sampling);
  EXPECT_EQ(answer->terms.settings(), open.settings);
  EXPECT_EQ(answer->terms.seed, 123456789u);
  EXPECT_EQ(answer->terms.template_hash, std::string(64, 'b'));
  EXPECT_EQ(answer->terms.prompt, open.prefix);
  EXPECT_EQ(answer->terms.program, "outrider-edge 1.0");
  EXPECT_FALSE(answer->is_signed);
  ASSERT_THAT(answer->stretches, SizeIs(3));
  EXPECT_EQ(answer->stretches[1].verifier, "server 1.0");
  EXPECT_EQ(answer->stretches[1].model, "toy@60");
  EXPECT_EQ(answer->stretches[1].digests, std::vector<std::string>{"0000000000000abc"});
  EXPECT_EQ(answer->stretches[2].verifier, "device");
  EXPECT_EQ(answer->stretches[2].ids, (std::vector<TokenId>(5, 8)));
  EXPECT_EQ(answer->end(), 23);
  EXPECT_EQ(answer->ending(), "stop_string");
}

// The bar of the issue: 300 tokens of a vocabulary of 150,000 take 16 bytes each.
TEST_F(RecordTest, TakesAtMostSixteenBytesAToken) {
  const std::unique_ptr<Recorder> signer = signing();
  AnswerRecording recording = signer->begin(record_terms(example_open(), example_open().prefix));
  recording.on_opened(example_opened("1.0"));
  Position end = 3;
  for (int i = 0; i < 300; ++i, ++end) {
    Verdict verdict{.tokens = {151'000 + i}};
    if (end % 16 == 0) verdict.digests = {~std::uint64_t{0}};
    recording.on_verdict(verdict, 1);
  }
  const RecordLines lines = recording.finish("length");
  ASSERT_THAT(lines.lines, SizeIs(2));
  EXPECT_LE(lines.lines[1].size(), 300u * 16);
}

TEST_F(RecordTest, ChangesOfALineAreSeenByTheNextOne) {
  const RecordText text = text_of(example(*recorder()));
  const std::string moved = "does not follow the line before";
  EXPECT_THAT(said_of(text, [](auto& t) { replace(t.lines[0], "123456789", "123456788"); }),
              HasSubstr("line 2 " + moved));
  EXPECT_THAT(said_of(text, [](auto& t) { replace(t.lines[2], "abc", "abd"); }),
              HasSubstr("line 4 " + moved));
  EXPECT_THAT(said_of(text, [](auto& t) { std::swap(t.lines[1], t.lines[2]); }), HasSubstr(moved));
  EXPECT_THAT(said_of(text, [](auto& t) { t.lines.erase(t.lines.begin() + 2); }), HasSubstr(moved));
  EXPECT_THAT(said_of(text, [](auto& t) { t.lines.push_back(t.lines.back()); }),
              HasSubstr("ends it, and more follow"));
  EXPECT_THAT(said_of(text, [](auto& t) { t.lines.pop_back(); }),
              HasSubstr("stretches are missing"));
  EXPECT_THAT(said_of(text, [](auto& t) { t.lines.resize(1); }),
              HasSubstr("stretches are missing"));
}

TEST_F(RecordTest, WhatDoesNotFitIsRefusedByName) {
  const RecordText text = text_of(example(*recorder()));
  const auto last = [&](const std::string& what, const std::string& by) {
    return said_of(text, [&](auto& t) { replace(t.lines.back(), what, by); });
  };
  EXPECT_THAT(last("[8,8,8,8,8]", "[8,8,8,8]"), HasSubstr("stretch 2 at position 18 has 5 tokens"));
  EXPECT_THAT(last(R"("position":18)", R"("position":19)"), HasSubstr("go on at position 18"));
  EXPECT_THAT(last(R"("tokens":5)", R"("tokens":-5)"), HasSubstr("does not go on"));
  EXPECT_THAT(last(R"("digests":[])", R"("digests":["0000000000000abc"])"),
              HasSubstr("has not 0 digests"));
  EXPECT_THAT(last(R"("ending":"stop_string")", R"("ending":"")"), HasSubstr("it has no end"));
  EXPECT_THAT(last(R"("ids":)", R"("idz":)"), HasSubstr(R"(lacks "ids")"));
  const auto first = [&](const std::string& what, const std::string& by) {
    return said_of(text, [&](auto& t) { replace(t.lines[0], what, by); });
  };
  EXPECT_THAT(first(R"("outrider_record":1)", R"("outrider_record":2)"), HasSubstr("version 2"));
  EXPECT_THAT(first(R"("end_position":100)", R"("end_position":3)"), HasSubstr("do not fit"));
  EXPECT_THAT(first(R"("end_position":100)", R"("end_position":9223372036854775807)"),
              HasSubstr("do not fit"));
  EXPECT_THAT(first(R"("prompt":[5,6,7])", R"("prompt":[5,6])"), HasSubstr("do not fit"));
  EXPECT_THAT(first(R"("top_k":40)", R"("top_k":-4)"), HasSubstr("top_k"));
  EXPECT_THAT(first(R"("min_p":)", R"("min_p":1e999, "x":)"), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(first("{", "["), HasSubstr("line 1"));
}

TEST_F(RecordTest, ASignatureCoversAllLinesUpToItsOwn) {
  const std::unique_ptr<Recorder> signer = signing();
  const RecordText text = text_of(example(*signer));
  const Result<RecordedAnswer> answer = check_record(text, "");
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_TRUE(answer->is_signed);
  const std::string key = answer->terms.signer;
  EXPECT_EQ(said_of(
                text, [](auto&) {}, key),
            "");
  EXPECT_THAT(said_of(
                  text, [](auto&) {}, std::string(64, '1')),
              HasSubstr("another key, " + key));
  EXPECT_THAT(said_of(
                  text_of(example(*recorder())), [](auto&) {}, key),
              "it is not signed");
  const auto changed = [&](const std::string& what, const std::string& by) {
    return said_of(
        text, [&](auto& t) { replace(t.lines.back(), what, by); }, key);
  };
  EXPECT_THAT(changed("[8,8,8,8,8]", "[8,8,7,8,8]"), HasSubstr("a signature that is wrong"));
  EXPECT_THAT(changed(R"("signature":")", R"("signatura":")"), HasSubstr("is not signed"));
  // A forger who makes the chain anew lacks the key.
  const auto rechained = [](RecordText& t) {
    replace(t.lines[1], "[1,2]", "[1,3]");
    for (std::size_t i = 2; i < t.lines.size(); ++i) {
      const std::size_t at = t.lines[i].find(R"("before":")") + 10;
      t.lines[i].replace(at, 64, line_hash(t.lines[i - 1]));
    }
  };
  EXPECT_THAT(said_of(text, rechained, key), HasSubstr("stretch 0 at position 3 has a signature"));
  // Stretches of another record by the same key do not fit either.
  const RecordText other = text_of(example(*signer));
  EXPECT_THAT(said_of(
                  text, [&](auto& t) { t.lines[3] = other.lines[3]; }, key),
              HasSubstr("does not follow"));
  EXPECT_THAT(said_of(
                  text, [&](auto& t) { t.lines[0] = other.lines[0]; }, key),
              HasSubstr("does not follow"));
}

TEST_F(RecordTest, AFileGrowsByARecordAndIsReadRecordByRecord) {
  const std::string file = path("answers.jsonl");
  for (int run = 0; run < 2; ++run) {
    const std::unique_ptr<Recorder> kept = recorder({.file = file});
    ASSERT_TRUE(kept->has_file());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(kept->append(example(*kept)).ok());
  }
  struct stat about {};
  ASSERT_EQ(stat(file.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u) << "prompts stand in it";
  RecordReader reader = *RecordReader::open(file);
  ReplayCheck replays;
  for (std::size_t i = 0; i < 4; ++i) {
    const Result<std::optional<RecordText>> text = reader.next();
    ASSERT_TRUE(text.ok() && *text);
    EXPECT_EQ((*text)->first_line, 1 + 4 * i);
    const Result<RecordedAnswer> answer = check_record(**text, "");
    ASSERT_TRUE(answer.ok()) << answer.status().to_string();
    EXPECT_TRUE(replays.add(*answer).ok());
    EXPECT_THAT(replays.add(*answer).message(), HasSubstr("replay"));
  }
  EXPECT_EQ(*reader.next(), std::nullopt);
}

TEST_F(RecordTest, AFileThatIsCutInALineIsSaidToBe) {
  const std::string file = path("answers.jsonl");
  const std::unique_ptr<Recorder> kept = recorder({.file = file});
  ASSERT_TRUE(kept->append(example(*kept)).ok());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 40);
  RecordReader reader = *RecordReader::open(file);
  const Result<std::optional<RecordText>> text = reader.next();
  ASSERT_TRUE(text.ok() && *text);
  EXPECT_THAT(check_record(**text, "").status().message(),
              AllOf(HasSubstr("line 4"), HasSubstr("the file was cut")));
}

TEST_F(RecordTest, OtherFilesAreRefusedWithoutReadingAllOfThem) {
  const auto problem = [&](const std::string& file) {
    Result<RecordReader> reader = RecordReader::open(file);
    return reader.ok() ? reader->next().status().message() : reader.status().message();
  };
  EXPECT_THAT(problem(path("none")), HasSubstr("No such file"));
  std::ofstream(path("other")) << "{\"a\": 1}\n";
  EXPECT_THAT(problem(path("other")), HasSubstr("line 1: begins no record. Remedy"));
  std::ofstream(path("large")) << R"({"outrider_record":1)";
  std::filesystem::resize_file(path("large"), std::uintmax_t{10} << 30);  // a hole
  EXPECT_THAT(problem(path("large")), HasSubstr("line 1: is longer than 32 MiB"));
}

TEST_F(RecordTest, HashesStandForTheTextsThatTheirOwnerKeeps) {
  const std::unique_ptr<Recorder> kept =
      recorder({.file = path("answers.jsonl"), .hashes_only = true});
  const RecordLines lines = example(*kept);
  ASSERT_TRUE(kept->append(lines).ok());
  Result<RecordedAnswer> answer = check_record(text_of(lines), "");
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_FALSE(answer->terms.prompt || answer->stretches[0].ids);
  std::ifstream file(path("answers.jsonl.texts"));
  std::string line;
  std::getline(file, line);
  const RecordTexts texts = *read_json<RecordTexts>(*parse_json(line, "texts"), "texts");
  for (const std::string& each : lines.lines) {
    EXPECT_THAT(each, testing::Not(HasSubstr(texts.salt))) << "else guesses could be tried";
  }
  const auto said_with = [&](const std::function<void(RecordTexts&)>& change) {
    RecordTexts changed = texts;
    change(changed);
    RecordedAnswer copy = *answer;
    return bring_texts(changed, copy).message();
  };
  EXPECT_THAT(said_with([](auto& t) { t.prompt[0] = 4; }), HasSubstr("the prompt is not the one"));
  EXPECT_THAT(said_with([](auto& t) { t.answer[3] = 5; }), HasSubstr("stretch 1 at position 5"));
  EXPECT_THAT(said_with([](auto& t) { t.answer.pop_back(); }), HasSubstr("not the one"));
  EXPECT_THAT(said_with([](auto& t) { t.id = std::string(32, '0'); }), HasSubstr("another record"));
  ASSERT_TRUE(bring_texts(texts, *answer).ok());
  EXPECT_EQ(answer->terms.prompt, example_open().prefix);
  EXPECT_EQ(answer->stretches[0].ids, (std::vector<TokenId>{1, 2}));
}

TEST_F(RecordTest, ADiskThatIsFullEndsTheRecordsAndIsSaidOnce) {
  const std::unique_ptr<Recorder> kept = recorder({.file = "/dev/full"});
  const Status status = kept->append(example(*kept));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("No space left"));
  EXPECT_TRUE(kept->append(example(*kept)).ok()) << "nothing more is written";
}

TEST_F(RecordTest, FilesThatAreSomethingElseStayAsTheyAre) {
  std::ofstream(path("thesis.txt")) << "chapter one";
  EXPECT_FALSE(Recorder::open({.file = path("thesis.txt")}).ok());
  EXPECT_THAT(Recorder::open({.hashes_only = true}).status().message(),
              HasSubstr("needs --record"));
  EXPECT_THAT(Recorder::open({.key = path("thesis.txt")}).status().message(),
              HasSubstr("--record-key"));
}

TEST_F(RecordTest, AnAnswerWithoutATokenLeavesNone) {
  const std::unique_ptr<Recorder> kept = recorder();
  AnswerRecording recording = kept->begin(record_terms(example_open(), example_open().prefix));
  recording.on_opened(example_opened("1.0"));
  EXPECT_THAT(recording.finish("cancelled").lines, testing::IsEmpty());
}

}  // namespace
}  // namespace outrider
