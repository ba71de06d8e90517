// The rules of the demo task: what the robot's detector sees, what the instruction says, and what
// the robot should do. (After FSD section 4.4: a quadruped answers an instruction with a reasoning
// and one mid-level action.) Every right action follows from scene and instruction alone.
//
// Rules, in this order, for a target at bearing b (degrees, left negative) and distance d:
//   not in the scene    turn left (large): look around
//   d <= 0.5 m          stop
//   |b| > 10            turn to it: small up to 25, medium up to 45, large beyond
//   way blocked         turn away (small): an object with |b| <= 10, nearer than the target and
//                       within 1.0 m, blocks (the scene says "in the way"); away from its side,
//                       left if it stands at 0
//   otherwise           move forward: small up to 1.5 m, medium up to 3.0 m, large beyond
// "Turn left at the door" treats the door by the same rules until it is within 1.0 m. Then it turns
// (large) in the given direction.
//
// Thread rule: pure functions and values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adapters/data/random.h"

namespace outrider {

// Training draws from all combinations except the held-out ones, which its scenes never mention.
// The target of a held-out example is one of the held-out combinations.
enum class Split { kTrain, kHeldOut };

inline constexpr int kNumColours = 10;
inline constexpr int kNumKinds = 16;
inline constexpr int kNumLandmarks = 8;
inline constexpr int kNoColour = -1;  // a landmark

struct SceneObject {
  int colour = kNoColour;  // 0 <= colour < kNumColours, or kNoColour
  int kind = 0;            // 0 <= kind < kNumKinds; a landmark: < kNumLandmarks
  int degrees = 0;         // multiples of 5, left negative, |degrees| <= 70
  int decimetres = 0;      // 3 to 60
};

enum class Intent {
  kApproach,    // the silver bottle
  kOnSide,      // the bottle on the left: one of two of its kind
  kNearest,     // the nearest bottle: one of two of its kind
  kLandmark,    // the door
  kTurnLeftAt,  // turn left at the door
  kTurnRightAt,
};

struct Situation {
  Intent intent = Intent::kApproach;
  SceneObject target;          // what the instruction means
  bool target_visible = true;  // false: `target` is in no scene list and has no position
  std::vector<SceneObject> scene;
};

enum class Verb { kStop, kTurnLeft, kTurnRight, kForward };
enum class Extent { kNone, kSmall, kMedium, kLarge };

struct Decision {
  enum class Reason { kNotSeen, kReached, kTurnHere, kFaceFirst, kBlocked, kClear };
  Verb verb = Verb::kStop;
  Extent extent = Extent::kNone;
  Reason reason = Reason::kReached;
  std::optional<SceneObject> obstacle;  // if kBlocked
};

// True for the combinations that training never sees; the paper's silver bottle is one.
bool is_held_out(int colour, int kind);
bool is_held_out_landmark(Intent intent, int landmark);

Situation make_situation(SplitMix64& random, Split split);
Decision decide(const Situation& situation);

// 4 to 8 distinguishable things, none held out; many share a kind or a colour with another.
std::vector<SceneObject> make_survey(SplitMix64& random);

std::string name_of(const SceneObject& object);     // "silver bottle", "door"
std::string kind_of(const SceneObject& object);     // "bottle", "door"
std::string action_text(const Decision& decision);  // "turn left (small)", "stop"

}  // namespace outrider
