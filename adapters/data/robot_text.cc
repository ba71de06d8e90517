// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/robot_text.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace outrider {
namespace {

template <std::size_t N>
std::string pick(SplitMix64& random, const std::array<std::string_view, N>& choices) {
  return std::string(choices[static_cast<std::size_t>(random.below(static_cast<int>(N)))]);
}

std::string metres(const SceneObject& object) {
  return std::to_string(object.decimetres / 10) + "." + std::to_string(object.decimetres % 10) +
         " m";
}

std::string bearing(const SceneObject& object) {
  if (object.degrees == 0) return "straight ahead";
  return std::to_string(std::abs(object.degrees)) + " degrees " +
         (object.degrees < 0 ? "left" : "right");
}

std::string with_article(const std::string& name) {
  return (std::string_view("aeiou").find(name[0]) != std::string_view::npos ? "an " : "a ") + name;
}

// "red chair 20 degrees left at 2.4 m": the same wording in every scene and answer.
std::string placed(const SceneObject& object) {
  return name_of(object) + " " + bearing(object) + " at " + metres(object);
}

// "a, b and c", where `name` gives the words for each object.
template <typename Name>
std::string enumeration(const std::vector<SceneObject>& objects, const Name& name) {
  std::string text;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i > 0) text += i + 1 == objects.size() ? " and " : ", ";
    text += name(objects[i]);
  }
  return text;
}

// Hashed twice, so that neighbouring seeds and indices have unrelated streams.
SplitMix64 stream_of(std::uint64_t seed, std::uint64_t index) {
  SplitMix64 mix(seed);
  return SplitMix64(mix.next() ^ SplitMix64(index).next());
}

// The words for one object of the scene.
using Listing = std::vector<std::string>;

Listing listing_of(const Situation& situation) {
  const Decision decision = decide(situation);
  Listing listing;
  for (const SceneObject& object : situation.scene) {
    const bool in_the_way = decision.obstacle && name_of(*decision.obstacle) == name_of(object);
    listing.push_back(placed(object) + (in_the_way ? " (in the way)" : ""));
  }
  return listing;
}

std::string scene_as_list(const Listing& listing, SplitMix64& random) {
  std::string text = pick<3>(random, {"Scene:", "The camera shows:", "Detected objects:"});
  for (const std::string& item : listing) text += "\n- " + item;
  return text + "\n";
}

std::string scene_as_line(const Listing& listing, SplitMix64& random) {
  std::string text = pick<2>(random, {"Objects: ", "In view: "});
  std::string_view separator;
  for (const std::string& item : listing) {
    text.append(separator).append(item);
    separator = "; ";
  }
  return text + ".\n";
}

std::string scene_as_sentence(const Listing& listing, SplitMix64& random) {
  std::string text = pick<3>(random, {"I see ", "The robot sees ", "There is "});
  for (std::size_t i = 0; i < listing.size(); ++i) {
    if (i > 0) text += i + 1 == listing.size() ? " and " : ", ";
    text += with_article(listing[i]);
  }
  return text + ".\n";
}

std::string scene_text(const Listing& listing, SplitMix64& random) {
  if (listing.empty()) {
    return pick<2>(random, {"Scene: nothing detected.\n",
                            "The camera shows "  // two literals: tests/tidy/words.py
                            "nothing.\n"});
  }
  switch (random.below(4)) {
    case 0:
      return scene_as_line(listing, random);
    case 1:
      return scene_as_sentence(listing, random);
    default:
      return scene_as_list(listing, random);
  }
}

std::string side_of(const SceneObject& object) {
  return object.degrees < 0 ? "left" : "right";
}

// The instruction's words for the target: "the silver bottle", "the nearest bottle".
std::string target_phrase(const Situation& situation, SplitMix64& random) {
  switch (situation.intent) {
    case Intent::kOnSide:
      return pick<2>(random, {"the ", "that "}) + kind_of(situation.target) + " on the " +
             side_of(situation.target);
    case Intent::kNearest:
      return pick<2>(random, {"the nearest ", "the closest "}) + kind_of(situation.target);
    default:
      return "the " + name_of(situation.target);
  }
}

std::string go_phrase(const Situation& situation, SplitMix64& random) {
  const std::string verb =
      situation.intent == Intent::kLandmark
          ? pick<5>(random, {"go to ", "walk to ", "head for ", "move to ", "go over to "})
          : pick<8>(random, {"find ", "go to ", "walk to ", "head for ", "move to ", "look for ",
                             "bring me to ", "go and stand by "});
  return verb + target_phrase(situation, random);
}

std::string turn_phrase(const Situation& situation, SplitMix64& random) {
  const std::string side = situation.intent == Intent::kTurnLeftAt ? "left" : "right";
  const std::string place = "the " + name_of(situation.target);
  switch (random.below(4)) {
    case 0:
      return "take a " + side + " at " + place;
    case 1:
      return "at " + place + ", turn " + side;
    case 2:
      return "go " + side + " at " + place;
    default:
      return "turn " + side + " at " + place;
  }
}

std::string instruction_text(const Situation& situation, SplitMix64& random) {
  const bool turns =
      situation.intent == Intent::kTurnLeftAt || situation.intent == Intent::kTurnRightAt;
  const std::string phrase = turns ? turn_phrase(situation, random) : go_phrase(situation, random);
  switch (random.below(5)) {
    case 0:
      return "Task: " + phrase + ".";
    case 1:
      return "Please " + phrase + ".";
    case 2:
      return "Your instruction is to " + phrase + ".";
    default:
      return "Instruction: " + phrase + ".";
  }
}

// The things of the target's kind, in the order of the scene.
std::vector<SceneObject> candidates_of(const Situation& situation) {
  std::vector<SceneObject> candidates;
  for (const SceneObject& object : situation.scene) {
    const bool same_kind = object.kind == situation.target.kind &&
                           (object.colour == kNoColour) == (situation.target.colour == kNoColour);
    if (same_kind) candidates.push_back(object);
  }
  return candidates;
}

// Where the target is. If the instruction names no colour, all candidates are listed first.
std::string sighting_text(const Situation& situation) {
  const SceneObject& target = situation.target;
  if (!situation.target_visible) return "I do not see the " + name_of(target) + ".";
  const auto the_placed = [](const SceneObject& it) { return "the " + placed(it); };
  if (situation.intent == Intent::kOnSide) {
    return "I see " + enumeration(candidates_of(situation), the_placed) + ". The " +
           name_of(target) + " is on the " + side_of(target) + ".";
  }
  if (situation.intent == Intent::kNearest) {
    return "I see " + enumeration(candidates_of(situation), the_placed) + ". The " +
           name_of(target) + " is nearest.";
  }
  return "I see " + the_placed(target) + ".";
}

// Names what could be mistaken for the target: another thing of its kind.
std::string distractor_text(const Situation& situation) {
  if (situation.intent == Intent::kOnSide || situation.intent == Intent::kNearest) return "";
  for (const SceneObject& object : candidates_of(situation)) {
    if (object.colour != situation.target.colour) {
      return " The " + name_of(object) + " is another one.";
    }
  }
  return "";
}

std::string reason_text(const Decision& decision) {
  switch (decision.reason) {
    case Decision::Reason::kNotSeen:
      return " I look around for it.";
    case Decision::Reason::kReached:
      return " I have reached it.";
    case Decision::Reason::kTurnHere:
      return " It is near, so I turn here.";
    case Decision::Reason::kFaceFirst:
      return " I turn to face it.";
    case Decision::Reason::kBlocked:
      return " The " + placed(*decision.obstacle) + " is in the way.";
    case Decision::Reason::kClear:
      return " The way is clear.";
  }
  return "";
}

}  // namespace

std::string prompt_text(const Situation& situation, SplitMix64& random) {
  std::string scene = scene_text(listing_of(situation), random);
  return scene + instruction_text(situation, random);
}

std::string answer_text(const Situation& situation, const Decision& decision) {
  return sighting_text(situation) + distractor_text(situation) + reason_text(decision) +
         "\nAction: " + action_text(decision);
}

RobotExample make_robot_example(std::uint64_t seed, std::uint64_t index, Split split) {
  SplitMix64 random = stream_of(seed * 2 + (split == Split::kHeldOut ? 1 : 0), index);
  const Situation situation = make_situation(random, split);
  const Decision decision = decide(situation);
  return {prompt_text(situation, random), answer_text(situation, decision), action_text(decision)};
}

namespace {

// The kind to which most of the coloured things belong.
int commonest_kind(const std::vector<SceneObject>& things) {
  std::array<int, kNumKinds> counts{};
  for (const SceneObject& thing : things) {
    if (thing.colour != kNoColour) ++counts[static_cast<std::size_t>(thing.kind)];
  }
  return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

}  // namespace

RobotExample make_robot_report(std::uint64_t seed, std::uint64_t index) {
  SplitMix64 random = stream_of(~seed, index);
  std::vector<SceneObject> things = make_survey(random);
  Listing listing;
  for (const SceneObject& thing : things) listing.push_back(placed(thing));
  const std::string scene = scene_text(listing, random);
  RobotExample report;
  if (random.chance(0.5)) {
    const int kind = commonest_kind(things);
    std::erase_if(things,
                  [&](const SceneObject& it) { return it.colour == kNoColour || it.kind != kind; });
    report.prompt = scene +
                    pick<3>(random, {"Instruction: report every ", "Please find each ",
                                     "Task: locate every "}) +
                    kind_of(things.front()) + ".";
  } else {
    random.shuffle(things);
    things.resize(3 + static_cast<std::size_t>(random.below(static_cast<int>(things.size()) - 2)));
    report.prompt =
        scene + pick<2>(random, {"Instruction: report where ", "Please tell me where "}) +
        enumeration(things, [](const auto& it) { return "the " + name_of(it); }) + " are.";
  }
  report.action = action_text({});
  report.answer = "I see " +
                  enumeration(things, [](const SceneObject& it) { return "the " + placed(it); }) +
                  ".\nAction: " + report.action;
  return report;
}

std::string action_in(std::string_view answer) {
  constexpr std::string_view kMark = "Action: ";
  const std::size_t at = answer.rfind(kMark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = answer.substr(at + kMark.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace outrider
