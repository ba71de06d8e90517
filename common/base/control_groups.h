// The control groups that bound this process: its own group and the groups above it, each of which
// may be the tightest.
//
// Thread rule: a free function that reads the system's files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace outrider {

// Calls visit() with the folder of each group of the hierarchies that have this controller ("cpu",
// "memory"), as far as they are mounted; is_v2: the group's files have the names of version 2.
// root: the folder in which /proc and the groups' folders are read; empty: the system's.
void visit_control_groups(std::string_view controller, const std::string& root,
                          const std::function<void(const std::string& folder, bool is_v2)>& visit);

}  // namespace outrider
