// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/learnt_store.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/json_record.h"
#include "common/base/output_file.h"
#include "common/decoding/drafting/trees/tree_memory.h"
#include "common/decoding/verify/exits/branch_pruner.h"

namespace outrider {
namespace {

constexpr std::uint64_t kVersion = 3;
constexpr std::int64_t kMaxStateBytes = 1 << 20;
constexpr std::size_t kMaxDepths = 64;
constexpr double kMaxTried = 1000;
constexpr double kMaxMs = 1e6;
constexpr double kMaxLayer = 1e4;

struct StoredPair {
  std::string target;  // its fingerprint
  std::string draft;
  std::string device;
  PairProfile learnt;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("target", self.target);
    field("draft", self.draft);
    field("device", self.device);
    field("learnt", self.learnt);
  }
};

struct StoredFile {
  std::uint64_t version = kVersion;
  std::vector<StoredPair> pairs;  // the last written last

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("version", self.version);
    field("pairs", self.pairs);
  }
};

constexpr double kMaxAnswers = 1e15;

// The first field with a value that no answer can have brought, and that value; nothing if there is
// none. Somebody else may have written the file.
class SenseCheck final {
 public:
  void expect(const std::string& field, double value, double least, double most) {
    if (!wrong_.empty() || (value >= least && value <= most)) return;
    wrong_ =
        field + " is " + shown(value) + ", must be from " + shown(least) + " to " + shown(most);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  static std::string shown(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
  }

  std::string wrong_;
};

std::string senseless_field(const PairProfile& learnt) {
  SenseCheck check;
  const auto size = [](const auto& list) { return static_cast<double>(list.size()); };
  check.expect("the size of tried", size(learnt.tried), 0, kMaxDepths);
  check.expect("the size of stood", size(learnt.stood), size(learnt.tried), size(learnt.tried));
  for (std::size_t i = 0; i < std::min(learnt.tried.size(), learnt.stood.size()); ++i) {
    const std::string depth = "[" + std::to_string(i) + "]";
    check.expect("tried" + depth, learnt.tried[i], 0, kMaxTried);
    check.expect("stood" + depth, learnt.stood[i], 0, learnt.tried[i]);
  }
  check.expect("step_ms", learnt.step_ms, 0, kMaxMs);
  check.expect("rtt_ms", learnt.rtt_ms, 0, kMaxMs);
  check.expect("answers", static_cast<double>(learnt.answers), 0, kMaxAnswers);
  check.expect("the size of passes", size(learnt.passes), 0, PairProfile::kMaxPasses);
  for (std::size_t i = 0; i < learnt.passes.size(); ++i) {
    const std::string pass = "passes[" + std::to_string(i) + "].";
    check.expect(pass + "rows", learnt.passes[i].rows, 1, LatencyProfile::kMaxRows);
    check.expect(pass + "leaves", learnt.passes[i].leaves, 1, learnt.passes[i].rows);
    check.expect(pass + "ms", learnt.passes[i].ms, 0, kMaxMs);
    check.expect(pass + "weight", learnt.passes[i].weight, 0, kMaxTried);
  }
  check.expect("the size of exits", size(learnt.exits), 0, OnlineCalibration::kMaxExits);
  for (std::size_t i = 0; i < learnt.exits.size(); ++i) {
    const std::string exit = "exits[" + std::to_string(i) + "].";
    const ExitCorrection& correction = learnt.exits[i];
    check.expect(exit + "layer", correction.layer, 0, kMaxLayer);
    check.expect(exit + "offset", correction.offset, -ExitCorrection::kMaxOffset,
                 ExitCorrection::kMaxOffset);
    check.expect(exit + "slope", correction.slope, 0, ExitCorrection::kMaxSlope);
  }
  if (learnt.edge_weights) {
    const std::vector<double>& weights = *learnt.edge_weights;
    const EdgeChance::Weights &lowest = EdgeChance::kLowest, &highest = EdgeChance::kHighest;
    check.expect("the size of edge_weights", size(weights), 3, 3);
    for (std::size_t i = 0; i < std::min(weights.size(), lowest.size()); ++i) {
      check.expect("edge_weights[" + std::to_string(i) + "]", weights[i], lowest[i], highest[i]);
    }
  }
  return check.wrong();
}

struct ReadFile {
  StoredFile file = {};
  std::string ignored = {};  // as KeptLearning says
  bool is_newer = false;     // it is a later version's, which goes on with it
};

constexpr OutputKind kLearntFile{.name = "what answers have learnt",
                                 .is_earlier = [](std::string_view) { return true; },
                                 .is_state = true};

std::string version_of(const Json& json) {
  const auto found = json.is_object() ? json.find("version") : json.end();
  return found == json.end() ? "none" : found->dump().substr(0, 40);
}

// Files of version 3 that were written before pruning learnt lack the field.
void add_edge_weights(Json& file) {
  if (!file.contains("pairs") || !file["pairs"].is_array()) return;
  for (Json& pair : file["pairs"]) {
    if (!pair.is_object() || !pair.contains("learnt") || !pair["learnt"].is_object()) continue;
    pair["learnt"].emplace("edge_weights", nullptr);
  }
}

ReadFile read_stored(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxStateBytes);
  if (text.status().code() == StatusCode::kNotFound) return {};
  if (!text.ok()) return {.ignored = text.status().message()};
  Result<Json> json = parse_json(*text, path);
  if (!json.ok()) return {.ignored = json.status().message()};
  if (const std::string version = version_of(*json); version != std::to_string(kVersion)) {
    const bool is_newer = json->is_object() && json->contains("version") &&
                          (*json)["version"].is_number() &&
                          (*json)["version"].get<double>() > static_cast<double>(kVersion);
    return {.ignored = path + " is of version " + version + ", and this program writes " +
                       std::to_string(kVersion) +
                       (is_newer ? ". It stays as it is, and nothing is kept. Remedy: the later "
                                   "program, or another --state-dir"
                                 : ""),
            .is_newer = is_newer};
  }
  add_edge_weights(*json);
  Result<StoredFile> file = read_json<StoredFile>(*json, path);
  if (!file.ok()) return {.ignored = file.status().message()};
  ReadFile read{.file = *std::move(file)};
  std::string first;
  const std::size_t senseless = std::erase_if(read.file.pairs, [&first](const StoredPair& pair) {
    const std::string wrong = senseless_field(pair.learnt);
    if (first.empty()) first = wrong;
    return !wrong.empty();
  });
  if (senseless > 0) {
    read.ignored = std::to_string(senseless) + " of the entries of " + path +
                   " make no sense: " + first + ". Remedy: none is needed, they are written anew";
  }
  return read;
}

// Other settings of the same machine learn by themselves, which needs no word.
bool same_machine(const std::string& device, const std::string& other) {
  return device.substr(0, device.find(',')) == other.substr(0, other.find(','));
}

}  // namespace

std::string default_state_dir() {
  const char* xdg = std::getenv("XDG_STATE_HOME");
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/outrider";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.local/state/outrider";
  return {};
}

KeptLearning LearntStore::read(const LearningSide& side) const {
  KeptLearning kept;
  if (directory_.empty()) return kept;
  ReadFile read = read_stored(path());
  kept.ignored = std::move(read.ignored);
  std::string other;  // where this draft was, and not here
  for (StoredPair& pair : read.file.pairs) {
    if (pair.draft != side.draft) continue;
    if (pair.device != side.device) {
      if (!same_machine(pair.device, side.device)) other = std::move(pair.device);
      continue;
    }
    kept.pairs.insert_or_assign(std::move(pair.target), std::move(pair.learnt));
  }
  if (kept.pairs.empty() && kept.ignored.empty() && !other.empty()) {
    kept.ignored = path() + " is of " + printable(other) + ", and this is \"" + side.device + "\"";
  }
  return kept;
}

Status LearntStore::write(const LearningSide& side, const std::string& fingerprint,
                          const PairProfile& learnt) const {
  if (directory_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  ReadFile read = read_stored(path());
  if (read.is_newer) return {};
  StoredFile file = std::move(read.file);
  std::erase_if(file.pairs, [&](const StoredPair& pair) {
    return pair.target == fingerprint && pair.draft == side.draft && pair.device == side.device;
  });
  file.pairs.push_back({fingerprint, side.draft, side.device, learnt});
  if (file.pairs.size() > kMaxEntries) {
    file.pairs.erase(file.pairs.begin(),
                     file.pairs.end() - static_cast<std::ptrdiff_t>(kMaxEntries));
  }
  return write_output(path(), kLearntFile, write_json(file).dump() + "\n");
}

}  // namespace outrider
