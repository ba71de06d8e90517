// The checks of outrider-bench: each is a subcommand that measures something and holds it against
// a bar.
//
// A check is one file, bench/checks/<name>.cc, with one function that adds it:
//
//   void add_wire_check(CheckList& checks) {
//     auto options = std::make_shared<WireOptions>();
//     CLI::App* command = checks.add("wire", "Sizes of messages on the wire",
//                                    [options] { return run_wire(*options); });
//     command->add_option("--nodes", options->nodes, "Nodes of the Grow");
//   }
//
// declared in bench/checks/checks.h and called by main.cc. The last line on stdout is one JSON
// object: {"check": "wire", "passed": true, <figures>}. Exit code 0 if it passed, 1 if its bar or
// the run failed, 2 for wrong usage. What is for people goes to stderr.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

struct CheckOutcome {
  bool passed = false;
  Json figures = Json::object();
};

class CheckList final {
 public:
  using Body = std::function<Result<CheckOutcome>()>;

  // app must outlive this.
  explicit CheckList(CLI::App& app) : app_(app) {}

  // A subcommand that runs `body`; its flags are added to the returned app. A kInvalidArgument of
  // body counts as wrong usage.
  CLI::App* add(const std::string& name, const std::string& description, Body body);

  // Runs the check that the command line named and prints its JSON line. Returns the failure of a
  // check that could not be carried out, else whether it passed.
  Result<bool> run_chosen() const;

 private:
  CLI::App& app_;
  std::vector<std::pair<CLI::App*, Body>> checks_;
};

}  // namespace outrider
