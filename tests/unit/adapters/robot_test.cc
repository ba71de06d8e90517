// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <regex>
#include <set>

#include "adapters/data/prompt_sets.h"
#include "adapters/data/robot_text.h"

namespace outrider {
namespace {

struct SeenObject {
  std::string name;
  int degrees;  // left negative
  int decimetres;
  bool in_the_way;
};

// Reads the objects out of a prompt's scene, whatever its wording.
std::vector<SeenObject> objects_in(const std::string& scene) {
  static const std::regex kObject(
      R"(([a-z]+(?: [a-z]+)?) (straight ahead|(\d+) degrees (left|right)) at (\d)\.(\d) m( \(in the way\))?)");
  std::vector<SeenObject> objects;
  for (std::sregex_iterator it(scene.begin(), scene.end(), kObject), end; it != end; ++it) {
    const std::smatch& match = *it;
    std::string name = match[1];
    for (const std::string article : {"a ", "an ", "and ", "see ", "sees ", "is "}) {
      if (name.starts_with(article)) name = name.substr(article.size());
    }
    const int degrees = match[3].matched ? std::stoi(match[3]) : 0;
    objects.push_back({name, match[4] == "left" ? -degrees : degrees,
                       std::stoi(match[5]) * 10 + std::stoi(match[6]), match[7].matched});
  }
  return objects;
}

std::string kind_of_name(const std::string& name) {
  return name.substr(name.find(' ') + 1);
}

// The object that the instruction means, by its words and the scene alone.
std::optional<SeenObject> target_of(const std::string& instruction,
                                    const std::vector<SeenObject>& objects) {
  std::smatch match;
  std::optional<SeenObject> found;
  if (std::regex_search(instruction, match, std::regex(R"((?:nearest|closest) (\w+))"))) {
    for (const SeenObject& object : objects) {
      if (kind_of_name(object.name) != match[1]) continue;
      if (!found || object.decimetres < found->decimetres) found = object;
    }
    return found;
  }
  if (std::regex_search(instruction, match, std::regex(R"((\w+) on the (left|right))"))) {
    for (const SeenObject& object : objects) {
      const bool left = object.degrees < 0;
      if (kind_of_name(object.name) == match[1] && left == (match[2] == "left")) found = object;
    }
    return found;
  }
  for (const SeenObject& object : objects) {
    if (std::regex_search(instruction, std::regex("the " + object.name + R"(\b)"))) found = object;
  }
  return found;
}

// The rules of robot_scene.h, applied to the words of a prompt.
std::string action_from_words(const std::string& prompt) {
  const std::size_t last_line = prompt.rfind('\n');
  const std::string instruction = prompt.substr(last_line + 1);
  const std::vector<SeenObject> objects = objects_in(prompt.substr(0, last_line));
  const std::optional<SeenObject> target = target_of(instruction, objects);
  if (!target) return "turn left (large)";
  std::smatch match;
  const bool turns =
      std::regex_search(instruction, match, std::regex(R"((?:turn|take a|go) (left|right))"));
  if (turns && target->decimetres <= 10) return "turn " + std::string(match[1]) + " (large)";
  if (target->decimetres <= 5) return "stop";
  const int off = std::abs(target->degrees);
  const std::string side = target->degrees < 0 ? "left" : "right";
  if (off > 45) return "turn " + side + " (large)";
  if (off > 25) return "turn " + side + " (medium)";
  if (off > 10) return "turn " + side + " (small)";
  for (const SeenObject& object : objects) {
    if (object.in_the_way) return object.degrees < 0 ? "turn right (small)" : "turn left (small)";
  }
  if (target->decimetres > 30) return "move forward (large)";
  return target->decimetres > 15 ? "move forward (medium)" : "move forward (small)";
}

TEST(RobotData, EveryActionFollowsFromTheWordsOfThePrompt) {
  for (const Split split : {Split::kTrain, Split::kHeldOut}) {
    for (std::uint64_t i = 0; i < 1500; ++i) {
      const RobotExample example = make_robot_example(7, i, split);
      ASSERT_EQ(action_from_words(example.prompt), example.action) << example.prompt;
      ASSERT_EQ(action_in(example.answer), example.action) << example.answer;
    }
  }
}

TEST(RobotData, AnExampleDependsOnSeedIndexAndSplitAlone) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const RobotExample first = make_robot_example(3, i, Split::kTrain);
    const RobotExample second = make_robot_example(3, i, Split::kTrain);
    EXPECT_EQ(first.prompt, second.prompt);
    EXPECT_EQ(first.answer, second.answer);
    EXPECT_NE(first.prompt, make_robot_example(3, i + 1, Split::kTrain).prompt);
    EXPECT_NE(first.prompt, make_robot_example(4, i, Split::kTrain).prompt);
    EXPECT_NE(first.prompt, make_robot_example(3, i, Split::kHeldOut).prompt);
  }
}

TEST(RobotData, TrainingNeverMentionsAHeldOutThing) {
  std::set<std::string> held_out;
  for (int colour = 0; colour < kNumColours; ++colour) {
    for (int kind = 0; kind < kNumKinds; ++kind) {
      if (is_held_out(colour, kind)) held_out.insert(name_of({colour, kind, 0, 0}));
    }
  }
  EXPECT_TRUE(held_out.contains("silver bottle"));
  EXPECT_EQ(held_out.size(), 16u);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const RobotExample example = make_robot_example(1, i, Split::kTrain);
    const RobotExample report = make_robot_report(1, i);
    for (const std::string& name : held_out) {
      ASSERT_EQ((example.prompt + example.answer).find(name + " "), std::string::npos)
          << name << " in " << example.prompt;
      ASSERT_EQ((report.prompt + report.answer).find(name + " "), std::string::npos)
          << name << " in " << report.prompt;
    }
  }
}

TEST(RobotData, AReportSaysOfEachThingWhatTheSceneSays) {
  const std::regex thing(
      R"(the ([a-z ]+? (?:straight ahead|\d+ degrees (?:left|right)) at \d\.\d m))");
  std::size_t total = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const RobotExample report = make_robot_report(3, i);
    std::size_t things = 0;
    for (std::sregex_iterator it(report.answer.begin(), report.answer.end(), thing), end; it != end;
         ++it, ++things) {
      ASSERT_NE(report.prompt.find((*it)[1].str()), std::string::npos) << report.answer;
    }
    ASSERT_GE(things, 1u) << report.answer;
    total += things;
    ASSERT_EQ(action_in(report.answer), "stop");
  }
  EXPECT_GT(total, 3 * 500u);
}

TEST(RobotData, EveryHeldOutExampleIsAboutAHeldOutCombination) {
  for (std::uint64_t i = 0; i < 500; ++i) {
    SplitMix64 random(i);
    const Situation situation = make_situation(random, Split::kHeldOut);
    const bool landmark = situation.target.colour == kNoColour;
    EXPECT_TRUE(landmark ? is_held_out_landmark(situation.intent, situation.target.kind)
                         : is_held_out(situation.target.colour, situation.target.kind));
  }
}

TEST(RobotData, EveryActionOccurs) {
  std::set<std::string> actions;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    actions.insert(make_robot_example(1, i, Split::kTrain).action);
  }
  EXPECT_EQ(actions.size(), 10u);  // stop, and three sizes of three moves
}

TEST(RobotData, ActionInReadsTheLastActionLine) {
  EXPECT_EQ(action_in("I see it.\nAction: turn left (small)"), "turn left (small)");
  EXPECT_EQ(action_in("Action: stop\nAction: move forward (large)\nmore"), "move forward (large)");
  EXPECT_EQ(action_in("I see it."), "");
}

TEST(Gsm8k, CalculatorAnnotationsAreLeftOut) {
  EXPECT_EQ(without_annotations("48/2 = <<48/2=24>>24 clips, <<1+1=2>>2"), "48/2 = 24 clips, 2");
  EXPECT_EQ(without_annotations("a << b"), "a << b");
  EXPECT_EQ(without_annotations(""), "");
}

}  // namespace
}  // namespace outrider
