// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_log.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/files.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GrpcLog, ErrorsAreCountedAndToldOnceInTenSeconds) {
  const std::string path =
      ::testing::TempDir() + "outrider_grpc_log_test_" + std::to_string(::getpid()) + ".log";
  ASSERT_TRUE(configure_logging({.level = LogLevel::kWarning, .file = path}).ok());
  take_over_grpc_log();
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as grpc_init() does
  const std::uint64_t before = grpc_errors();
  gpr_log(GPR_INFO, "nothing of note");
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "Failed accept4: Too many open files");
  EXPECT_EQ(grpc_errors(), before + 1000);
  const std::uint64_t handshakes = failed_handshakes();
  gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: error:0A00010B");
  EXPECT_EQ(failed_handshakes(), handshakes + 1);
  EXPECT_EQ(grpc_errors(), before + 1001);
  Result<std::string> written = read_file(path, 1 << 20);
  EXPECT_TRUE(configure_logging({}).ok());
  std::remove(path.c_str());
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(std::count(written->begin(), written->end(), '\n'), 1) << *written;
  EXPECT_THAT(*written, AllOf(HasSubstr(" warning "), HasSubstr("Too many open files"),
                              HasSubstr("held_back=0")));
}

}  // namespace
}  // namespace outrider
