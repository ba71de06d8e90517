// Recorded files of containers and services, and a real control group where the machine lets us
// make one. SPDX-License-Identifier: Apache-2.0
#include "common/base/processors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace outrider {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

class ProcessorsTest : public testing::Test {
 protected:
  ProcessorsTest() { fs::create_directories(root_); }
  ~ProcessorsTest() override { fs::remove_all(root_); }

  std::optional<double> quota_of(const Files& files) {
    fs::remove_all(root_);
    for (const auto& [name, content] : files) {
      fs::create_directories((root_ + name).substr(0, (root_ + name).rfind('/')));
      std::ofstream(root_ + name) << content;
    }
    return processor_quota(root_);
  }

  const std::string root_ =
      fs::temp_directory_path() / ("processors_test." + std::to_string(getpid()));
};

constexpr char kMountsV2[] =
    "22 28 0:21 / /proc rw,nosuid - proc proc rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(ProcessorsTest, AServiceOfVersion2HasTheLeastQuotaOfItsGroupsAndThoseAbove) {
  Files files = {{"/proc/self/mountinfo", kMountsV2},
                 {"/proc/self/cgroup", "0::/system.slice/outrider.service\n"},
                 {"/sys/fs/cgroup/system.slice/outrider.service/cpu.max", "max 100000\n"},
                 {"/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"}};
  EXPECT_EQ(quota_of(files), std::nullopt);
  files["/sys/fs/cgroup/system.slice/outrider.service/cpu.max"] = "200000 100000\n";
  EXPECT_EQ(quota_of(files), 2);
  files["/sys/fs/cgroup/system.slice/cpu.max"] = "75000 50000\n";
  EXPECT_EQ(quota_of(files), 1.5);
  files["/sys/fs/cgroup/other.slice/cpu.max"] = "1000 100000\n";
  EXPECT_EQ(quota_of(files), 1.5) << "another's";
}

// Docker's default with version 2: the container's group is the root of its namespace.
TEST_F(ProcessorsTest, AContainersOwnNamespaceHasItsQuotaAtTheRoot) {
  EXPECT_EQ(quota_of({{"/proc/self/mountinfo",
                       "1 2 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n"},
                      {"/proc/self/cgroup", "0::/\n"},
                      {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}),
            2);
}

// Docker with version 1: /proc names the group as the machine sees it, of which only the
// container's own part is mounted.
TEST_F(ProcessorsTest, AContainerOfVersion1HasTheQuotaOfWhatIsMounted) {
  Files files = {{"/proc/self/mountinfo",
                  "7 6 0:31 /docker/ab12 /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
                  "8 6 0:32 /docker/ab12 /sys/fs/cgroup/cpu,cpuacct ro master:9 - cgroup cgroup "
                  "rw,cpu,cpuacct\n"},
                 {"/proc/self/cgroup", "5:cpuset:/docker/ab12\n4:cpu,cpuacct:/docker/ab12\n0::/\n"},
                 {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
                 {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(quota_of(files), 2);
  files["/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"] = "-1\n";
  EXPECT_EQ(quota_of(files), std::nullopt);
}

TEST_F(ProcessorsTest, AServiceOfVersion1HasTheLeastOfItsGroupsAndThoseAbove) {
  EXPECT_EQ(quota_of({{"/proc/self/mountinfo",
                       "8 6 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                       "9 6 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
                      {"/proc/self/cgroup", "1:cpu:/kubepods/pod1/c1\n0::/\n"},
                      {"/sys/fs/cgroup/cpu/kubepods/pod1/c1/cpu.cfs_quota_us", "400000\n"},
                      {"/sys/fs/cgroup/cpu/kubepods/pod1/c1/cpu.cfs_period_us", "100000\n"},
                      {"/sys/fs/cgroup/cpu/kubepods/pod1/cpu.cfs_quota_us", "300000\n"},
                      {"/sys/fs/cgroup/cpu/kubepods/pod1/cpu.cfs_period_us", "100000\n"}}),
            3);
}

TEST_F(ProcessorsTest, FilesThatMakeNoSenseBoundNothing) {
  EXPECT_EQ(quota_of({}), std::nullopt);
  EXPECT_EQ(quota_of({{"/proc/self/mountinfo", "cgroup2 - cgroup2\n- \n - \n"},
                      {"/proc/self/cgroup", ":::\n0:\n\n"},
                      {"/cpu.max", "0 0\n"}}),
            std::nullopt);
  EXPECT_EQ(quota_of({{"/proc/self/mountinfo", kMountsV2},
                      {"/proc/self/cgroup", "0::/../elsewhere\n"},
                      {"/sys/fs/cgroup/cpu.max", "-5 100000\n"}}),
            std::nullopt);
}

// The group of this machine's cpu controller, of either version; empty: none may be made.
std::string make_group(bool& is_v2) {
  const std::string name = "/outrider-test-" + std::to_string(getpid());
  for (const std::string top :
       {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}) {
    std::error_code ignored;
    if (!fs::exists(top) || !fs::create_directory(top + name, ignored)) continue;
    is_v2 = fs::exists(top + name + "/cpu.max");
    if (is_v2 || fs::exists(top + name + "/cpu.cfs_quota_us")) return top + name;
    fs::remove(top + name, ignored);
  }
  return {};
}

TEST(RealGroup, AProcessInAGroupOfOneProcessorUsesOne) {
  bool is_v2 = false;
  const std::string group = make_group(is_v2);
  if (group.empty()) GTEST_SKIP() << "no control group for processors may be made here";
  if (is_v2) {
    std::ofstream(group + "/cpu.max") << "100000 100000";
  } else {
    std::ofstream(group + "/cpu.cfs_period_us") << "100000";
    std::ofstream(group + "/cpu.cfs_quota_us") << "100000";
  }
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(group + "/cgroup.procs") << getpid() << std::flush;
    _exit(processor_quota() == 1.0 ? usable_processors() : 99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::error_code ignored;
  fs::remove(group, ignored);
}

}  // namespace
}  // namespace outrider
