// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/robot_scene.h"

#include <array>
#include <cstdlib>
#include <string_view>

namespace outrider {
namespace {

constexpr std::array<std::string_view, kNumColours> kColours = {
    "red", "blue", "green", "yellow", "black", "white", "silver", "golden", "orange", "brown"};
constexpr std::array<std::string_view, kNumKinds> kKinds = {
    "chair", "bottle", "cup",  "box",   "ball",   "backpack", "lamp", "bag",
    "book",  "table",  "sofa", "plant", "bucket", "suitcase", "shoe", "bin"};
constexpr std::array<std::string_view, kNumLandmarks> kLandmarks = {
    "hallway", "door", "staircase", "kitchen", "window", "lift", "corridor", "exit"};

constexpr int kAheadDegrees = 10;
constexpr int kReachedDecimetres = 5;
constexpr int kNearDecimetres = 10;

bool is_landmark(const SceneObject& object) {
  return object.colour == kNoColour;
}

void place(SplitMix64& random, SceneObject& object) {
  object.degrees = 5 * (random.below(29) - 14);
  // Half of all things stand ahead. Otherwise nearly every answer would be a turn.
  if (random.chance(0.5)) object.degrees = 5 * (random.below(5) - 2);
  object.decimetres = random.chance(0.12) ? 3 + random.below(3) : 6 + random.below(55);
}

// A coloured thing whose combination the split allows.
SceneObject any_thing(SplitMix64& random, bool held_out) {
  SceneObject object;
  do {
    object.colour = random.below(kNumColours);
    object.kind = random.below(kNumKinds);
  } while (is_held_out(object.colour, object.kind) != held_out);
  place(random, object);
  return object;
}

// The same kind in another colour, never a held-out combination.
SceneObject look_alike(SplitMix64& random, const SceneObject& object) {
  SceneObject other = object;
  do {
    other.colour = random.below(kNumColours);
  } while (other.colour == object.colour || is_held_out(other.colour, other.kind));
  place(random, other);
  return other;
}

Intent any_intent(SplitMix64& random) {
  const double u = random.uniform();
  if (u < 0.55) return Intent::kApproach;
  if (u < 0.63) return Intent::kOnSide;
  if (u < 0.69) return Intent::kNearest;
  if (u < 0.80) return Intent::kLandmark;
  return u < 0.90 ? Intent::kTurnLeftAt : Intent::kTurnRightAt;
}

SceneObject any_landmark(SplitMix64& random, Intent intent, bool held_out) {
  SceneObject object;
  do {
    object.kind = random.below(kNumLandmarks);
  } while (is_held_out_landmark(intent, object.kind) != held_out);
  place(random, object);
  if (intent != Intent::kLandmark && random.chance(0.4)) {
    object.decimetres = 3 + random.below(8);  // often near enough to turn
  }
  return object;
}

// The second of two things of one kind, between which the instruction distinguishes.
void add_rival(SplitMix64& random, Situation& situation) {
  SceneObject& target = situation.target;
  SceneObject rival = look_alike(random, target);
  if (situation.intent == Intent::kOnSide) {
    target.degrees = (random.chance(0.5) ? 1 : -1) * 5 * (1 + random.below(14));
    rival.degrees = (target.degrees > 0 ? -1 : 1) * 5 * (1 + random.below(14));
  } else if (rival.decimetres <= target.decimetres) {
    rival.decimetres = target.decimetres + 1 + random.below(20);
  }
  situation.scene.push_back(rival);
}

bool clashes(const Situation& situation, const SceneObject& object) {
  const auto same = [&](const SceneObject& other) {
    return other.colour == object.colour && other.kind == object.kind;
  };
  if (same(situation.target)) return true;
  for (const SceneObject& other : situation.scene) {
    if (same(other)) return true;
  }
  // With a third thing of this kind "on the left" and "nearest" would be ambiguous.
  const bool told_apart =
      situation.intent == Intent::kOnSide || situation.intent == Intent::kNearest;
  return told_apart && !is_landmark(object) && object.kind == situation.target.kind;
}

void add_bystanders(SplitMix64& random, Situation& situation) {
  const int count = 1 + random.below(3);
  for (int i = 0; i < count; ++i) {
    SceneObject object;
    if (random.chance(0.15)) {
      object.kind = random.below(kNumLandmarks);
      place(random, object);
    } else {
      object = any_thing(random, false);
    }
    if (!clashes(situation, object)) situation.scene.push_back(object);
  }
}

// Something near that blocks the way to a target ahead.
void add_obstacle(SplitMix64& random, Situation& situation) {
  SceneObject obstacle = any_thing(random, false);
  obstacle.degrees = 5 * (random.below(5) - 2);
  obstacle.decimetres = 4 + random.below(7);
  if (!clashes(situation, obstacle)) situation.scene.push_back(obstacle);
}

const SceneObject* blocking(const Situation& situation) {
  const SceneObject* found = nullptr;
  for (const SceneObject& object : situation.scene) {
    const bool is_target =
        object.colour == situation.target.colour && object.kind == situation.target.kind;
    const bool blocks =
        !is_target && !is_landmark(object) && std::abs(object.degrees) <= kAheadDegrees &&
        object.decimetres < situation.target.decimetres && object.decimetres <= kNearDecimetres;
    if (blocks && (found == nullptr || object.decimetres < found->decimetres)) found = &object;
  }
  return found;
}

Extent extent_of(int value, int small, int medium) {
  if (value <= small) return Extent::kSmall;
  return value <= medium ? Extent::kMedium : Extent::kLarge;
}

Verb turn_to(int degrees) {
  return degrees < 0 ? Verb::kTurnLeft : Verb::kTurnRight;
}

}  // namespace

bool is_held_out(int colour, int kind) {
  // One combination in ten. Each kind and each colour also occurs in others. (6, 1) is the silver
  // bottle.
  return (colour + 3 * kind) % kNumColours == 9;
}

bool is_held_out_landmark(Intent intent, int landmark) {
  switch (intent) {
    case Intent::kLandmark:
      return landmark == 2;
    case Intent::kTurnLeftAt:
      return landmark == 0;  // the paper's "turn left at the hallway"
    case Intent::kTurnRightAt:
      return landmark == 5;
    default:
      return false;
  }
}

Situation make_situation(SplitMix64& random, Split split) {
  const bool held_out = split == Split::kHeldOut;
  Situation situation;
  situation.intent = any_intent(random);
  const bool landmark = situation.intent >= Intent::kLandmark;
  situation.target =
      landmark ? any_landmark(random, situation.intent, held_out) : any_thing(random, held_out);
  const bool two = situation.intent == Intent::kOnSide || situation.intent == Intent::kNearest;
  if (two) {
    add_rival(random, situation);
  } else if (!landmark && random.chance(0.6)) {
    situation.scene.push_back(look_alike(random, situation.target));
  }
  situation.target_visible = two || random.chance(0.9);
  add_bystanders(random, situation);
  const bool ahead = std::abs(situation.target.degrees) <= kAheadDegrees;
  if (situation.target_visible && ahead && random.chance(0.2)) add_obstacle(random, situation);
  if (situation.target_visible) situation.scene.push_back(situation.target);
  random.shuffle(situation.scene);
  return situation;
}

std::vector<SceneObject> make_survey(SplitMix64& random) {
  Situation survey;
  survey.target = any_thing(random, false);
  survey.scene.push_back(survey.target);
  const std::size_t count = 4 + static_cast<std::size_t>(random.below(5));
  while (survey.scene.size() < count) {
    const auto other =
        static_cast<std::size_t>(random.below(static_cast<int>(survey.scene.size())));
    SceneObject object = survey.scene[other];
    if (random.chance(0.1)) {
      object = any_landmark(random, Intent::kLandmark, false);
    } else if (!is_landmark(object) && random.chance(0.5)) {
      object = look_alike(random, object);
    } else {
      object = any_thing(random, false);
    }
    if (!clashes(survey, object)) survey.scene.push_back(object);
  }
  random.shuffle(survey.scene);
  return survey.scene;
}

Decision decide(const Situation& situation) {
  using Reason = Decision::Reason;
  const SceneObject& target = situation.target;
  if (!situation.target_visible) return {Verb::kTurnLeft, Extent::kLarge, Reason::kNotSeen, {}};
  const bool left_at = situation.intent == Intent::kTurnLeftAt;
  if ((left_at || situation.intent == Intent::kTurnRightAt) &&
      target.decimetres <= kNearDecimetres) {
    return {left_at ? Verb::kTurnLeft : Verb::kTurnRight, Extent::kLarge, Reason::kTurnHere, {}};
  }
  if (target.decimetres <= kReachedDecimetres) {
    return {Verb::kStop, Extent::kNone, Reason::kReached, {}};
  }
  if (std::abs(target.degrees) > kAheadDegrees) {
    return {turn_to(target.degrees),
            extent_of(std::abs(target.degrees), 25, 45),
            Reason::kFaceFirst,
            {}};
  }
  if (const SceneObject* obstacle = blocking(situation)) {
    return {obstacle->degrees < 0 ? Verb::kTurnRight : Verb::kTurnLeft, Extent::kSmall,
            Reason::kBlocked, *obstacle};
  }
  return {Verb::kForward, extent_of(target.decimetres, 15, 30), Reason::kClear, {}};
}

std::string kind_of(const SceneObject& object) {
  const auto kind = static_cast<std::size_t>(object.kind);
  return std::string(is_landmark(object) ? kLandmarks[kind] : kKinds[kind]);
}

std::string name_of(const SceneObject& object) {
  if (is_landmark(object)) return kind_of(object);
  return std::string(kColours[static_cast<std::size_t>(object.colour)]) + " " + kind_of(object);
}

std::string action_text(const Decision& decision) {
  constexpr std::array<std::string_view, 4> kVerbs = {"stop", "turn left", "turn right",
                                                      "move forward"};
  constexpr std::array<std::string_view, 4> kExtents = {"", " (small)", " (medium)", " (large)"};
  return std::string(kVerbs[static_cast<std::size_t>(decision.verb)]) +
         std::string(kExtents[static_cast<std::size_t>(decision.extent)]);
}

}  // namespace outrider
