// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/outside_strategy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include "common/decoding/drafting/growth_policy.h"
#include "edge_client/speculation/speculation_options.h"
#include "edge_client/speculation/timings.h"
#include "emulation/process/process.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxLength = 64;
constexpr int kMaxFanOut = 8;
constexpr std::size_t kMaxBytes = 65536;  // of a line
constexpr std::size_t kMaxShown = 80;     // characters of a value that is refused

Status refused(const std::string& field, const Json& value, const std::string& wanted) {
  const std::string shown = value.dump(-1, ' ', true).substr(0, kMaxShown);
  return invalid_argument("'" + field + "' is " + shown + ". Remedy: " + wanted);
}

Status read_bool(const std::string& field, const Json& value, bool& into) {
  if (!value.is_boolean()) return refused(field, value, "true or false");
  into = value.get<bool>();
  return {};
}

template <typename Number>
Status read_number(const std::string& field, const Json& value, double least, double most,
                   Number& into) {
  const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
  if (!fits || value.get<double>() < least || value.get<double>() > most) {
    const auto bound = [](double number) { return Json(static_cast<std::int64_t>(number)).dump(); };
    return refused(field, value,
                   std::string(std::is_integral_v<Number> ? "a whole number" : "a number") +
                       " from " + bound(least) + " to " + bound(most));
  }
  into = value.get<Number>();
  return {};
}

Status read_field(const std::string& field, const Json& value, OutsidePlan& plan) {
  if (field == "length") return read_number(field, value, 0, kMaxLength, plan.length);
  if (field == "least_chance") return read_number(field, value, 0, 1, plan.least_chance);
  if (field == "fan_out") return read_number(field, value, 1, kMaxFanOut, plan.fan_out);
  if (field == "ahead") return read_bool(field, value, plan.ahead);
  if (field == "send") return read_bool(field, value, plan.send);
  return invalid_argument(printable(field) +
                          " is no field of a plan. Remedy: length, least_chance, ahead, fan_out, "
                          "send");
}

// The decisions of the program for one answer.
class OutsideStrategy final : public SpeculationStrategy {
 public:
  OutsideStrategy(OutsideProgram& program, std::size_t length)
      : program_(program),
        plan_(program.ask({{"event", "answer"}, {"length", length}}, {.length = length})) {}

  Policy pass_policy() const override {
    return {.pass_policy = speculates() ? PassPolicy::kOnRequest : PassPolicy::kEager};
  }
  bool speculates() const override { return plan_.length > 0; }
  RoundShape round() const override {
    return {.length = plan_.length, .least_chance = plan_.least_chance};
  }
  std::unique_ptr<GrowthPolicy> grow_round(const RoundShape& round) const override {
    return std::make_unique<RoundPolicy>(round, plan_.fan_out);
  }
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& /*timings*/) const override {
    if (!plan_.ahead || !speculates()) return nullptr;
    return std::make_unique<PredraftPolicy>(
        PredraftOptions{.gamma = static_cast<int>(plan_.length), .fan_out = plan_.fan_out});
  }

  // Rounds leave whole, or as far as they are drafted once no step of the draft is under way.
  std::optional<AheadSelection> select_ahead(const SendingView& view,
                                             const Timings& /*timings*/) const override {
    if (!plan_.send || !plan_.ahead || !speculates()) return std::nullopt;
    return AheadSelection{.limits = {.whole = plan_.length,
                                     .least = 1,
                                     .due = !view.draft_works,
                                     .room = view.room,
                                     .link_room = view.link_room},
                          .round = round().bounds()};
  }

  std::optional<PlanChange> on_verdict(const VerdictReview& review,
                                       const Timings& timings) override {
    const OutsidePlan before = std::exchange(
        plan_, program_.ask({{"event", "verdict"},
                             {"tokens", review.text},
                             {"drafted", review.depth},
                             {"accepted", review.stood},
                             {"now_ms", to_ms(review.now.time_since_epoch())},
                             {"draft_step_ms", to_ms(timings.draft_step.of(1))},
                             {"pass_ms", to_ms(timings.pass_of(plan_.length + 1, false))},
                             {"round_trip_ms", to_ms(timings.round_trip())}},
                            plan_));
    if (plan_.length == before.length && plan_.fan_out == before.fan_out) return std::nullopt;
    return PlanChange{.speculates = speculates(),
                      .gamma = static_cast<int>(plan_.length),
                      .wait_for = static_cast<int>(plan_.length),
                      .fan_out = plan_.fan_out,
                      .reason = "its program says so"};
  }

 private:
  OutsideProgram& program_;
  OutsidePlan plan_;
};

// Both ends close when a program is started.
struct Ends {
  UniqueFd ours, theirs;
};

// Sockets, because a write to a pipe whose reader has ended would end this process, too.
Result<Ends> make_ends() {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable("cannot make sockets: " + errno_message(errno));
  }
  return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Result<OutsidePlan> read_outside_plan(std::string_view line, const OutsidePlan& before) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json fields,
                            parse_json(line, "its plan", RepeatedKeys::kRefused));
  if (!fields.is_object()) {
    return invalid_argument("its plan is " + printable(line) + ". Remedy: an object of JSON");
  }
  OutsidePlan plan = before;
  for (const auto& [field, value] : fields.items()) {
    OUTRIDER_RETURN_IF_ERROR(read_field(field, value, plan));
  }
  if (plan.send && !plan.ahead) {
    return invalid_argument(
        "'send' is true where 'ahead' is false, and nothing is there to send. "
        "Remedy: \"ahead\": true");
  }
  return plan;
}

OutsideProgram::OutsideProgram(std::string name, std::string command, Duration patience)
    : name_(std::move(name)),
      command_(std::move(command)),
      patience_(patience),
      guest_{.name = name_.c_str(), .make = [this](const SpeculationOptions& options) {
               return std::make_unique<OutsideStrategy>(
                   *this, static_cast<std::size_t>(options.draft_length()));
             }} {}

OutsideProgram::~OutsideProgram() {
  if (pid_ == 0) return;
  kill(-pid_, SIGKILL);  // with all that its shell has started
  waitpid(pid_, nullptr, 0);
}

Status OutsideProgram::start() {
  OUTRIDER_ASSIGN_OR_RETURN(Ends ends, make_ends());
  OUTRIDER_ASSIGN_OR_RETURN(
      pid_, spawn_process({.program = "/usr/bin/setsid", .arguments = {"/bin/sh", "-c", command_}},
                          ends.theirs.get(), -1, ends.theirs.get()));
  from_ = UniqueFd(fcntl(ends.ours.get(), F_DUPFD_CLOEXEC, 0));
  to_ = std::move(ends.ours);
  return {};
}

// A program that has ended takes no more. Reading finds that out, after the last line that the
// program wrote, which may say more than that it has ended.
void OutsideProgram::write_line(std::string_view line) {
  while (!line.empty()) {
    const ssize_t sent = send(to_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    line.remove_prefix(static_cast<std::size_t>(sent));
  }
}

Result<std::string> OutsideProgram::read_line() {
  const SystemClock clock;
  const TimePoint last = clock.now() + patience_;
  while (true) {
    if (const std::size_t end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    if (heard_.size() > kMaxBytes) {
      return invalid_argument("its line has more than 65536 bytes. Remedy: a plan in one line");
    }
    pollfd from{.fd = from_.get(), .events = POLLIN, .revents = 0};
    const double left_ms = std::max(0.0, to_ms(last - clock.now()));
    const int ready = poll(&from, 1, static_cast<int>(left_ms) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      return deadline_exceeded("it gave no plan in " +
                               std::to_string(static_cast<int>(to_seconds(patience_))) +
                               " s. Remedy: write a line after each line that is read, and flush");
    }
    std::array<char, 4096> some;
    const ssize_t got = read(from_.get(), some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return unavailable("it has ended. Remedy: see what it wrote to stderr");
    heard_.append(some.data(), static_cast<std::size_t>(got));
  }
}

OutsidePlan OutsideProgram::ask(const Json& event, const OutsidePlan& before) {
  const auto asked = [&]() -> Result<OutsidePlan> {
    if (pid_ == 0) OUTRIDER_RETURN_IF_ERROR(start());
    write_line(event.dump() + '\n');
    OUTRIDER_ASSIGN_OR_RETURN(const std::string line, read_line());
    return read_outside_plan(line, before);
  };
  if (!status_.ok()) return before;
  const Result<OutsidePlan> plan = asked();
  if (plan.ok()) return *plan;
  status_ =
      invalid_argument("--strategy " + name_ + "=" + command_ + ": " + plan.status().message());
  return before;
}

}  // namespace outrider
