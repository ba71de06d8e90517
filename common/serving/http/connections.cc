// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "common/base/address.h"

namespace outrider {

HttpConnections::Connection& HttpConnections::enter(int fd, const std::string& peer,
                                                    TimePoint now) {
  all_.push_back({.fd = fd, .peer = peer, .network = network_of(peer), .since = now});
  Connection& newcomer = all_.back();
  Sum& own = of_network_[newcomer.network];
  ++own.connections;
  ++sum_.connections;
  const auto make_room = [&](const std::string* where, std::size_t there, std::size_t bound) {
    if (there <= bound) return;
    Connection* const first = first_to_leave(where, newcomer, /*has_body=*/false);
    send_away(first != nullptr ? *first : newcomer);
  };
  make_room(&newcomer.network, own.connections, bounds_.requests_per_network + kSparePerNetwork);
  make_room(nullptr, sum_.connections, bounds_.requests + kSpare);
  return newcomer;
}

HttpConnections::Connection* HttpConnections::first_to_leave(const std::string* network,
                                                             const Connection& stays,
                                                             bool has_body) {
  const auto rank = [&](const Connection& one) {
    const Sum& own = of_network_.at(one.network);
    const std::size_t held = has_body ? own.body_bytes : own.connections;
    return std::tuple(one.stage, one.known, ~held, one.since);
  };
  Connection* first = nullptr;
  for (Connection& one : all_) {
    if (&one == &stays || one.leaving || one.stage == Stage::kAnswered) continue;
    if ((has_body && one.body_bytes == 0) || (network != nullptr && one.network != *network)) {
      continue;
    }
    if (first == nullptr || rank(one) < rank(*first)) first = &one;
  }
  return first;
}

void HttpConnections::send_away(Connection& connection) {
  if (connection.body != nullptr) *connection.body = std::string();
  release_body(connection);
  connection.leaving = true;
  --of_network_[connection.network].connections;
  --sum_.connections;
  ++sent_away_;
  shutdown(connection.fd, SHUT_RDWR);  // makes the server drop it
}

void HttpConnections::leave(Connection& connection) {
  end_request(connection, connection.since);
  const auto own = of_network_.find(connection.network);
  if (!connection.leaving) {
    --own->second.connections;
    --sum_.connections;
  }
  if (own->second.connections == 0) of_network_.erase(own);
  all_.remove_if([&](const Connection& one) { return &one == &connection; });
}

void HttpConnections::begin_body(Connection& connection, std::string* body, bool known,
                                 TimePoint now) {
  set_stage(connection, Stage::kBody, now);
  connection.body = body;
  connection.known = known;
}

Status HttpConnections::take_body(Connection& connection, std::string_view bytes) {
  if (connection.leaving) return {};
  const auto has_room = [&](const std::string* where, const Sum& sum, std::size_t bound) {
    while (sum.body_bytes + bytes.size() > bound) {
      Connection* const first = first_to_leave(where, connection, /*has_body=*/true);
      if (first == nullptr) return false;
      send_away(*first);
    }
    return true;
  };
  Sum& own = of_network_[connection.network];
  if (!has_room(&connection.network, own, bounds_.body_bytes_per_network) ||
      !has_room(nullptr, sum_, bounds_.body_bytes)) {
    return resource_exhausted("this server has no memory for the body at present; try again");
  }
  own.body_bytes += bytes.size();
  sum_.body_bytes += bytes.size();
  connection.body_bytes += bytes.size();
  connection.body->append(bytes);
  return {};
}

void HttpConnections::release_body(Connection& connection) {
  of_network_[connection.network].body_bytes -= connection.body_bytes;
  sum_.body_bytes -= connection.body_bytes;
  connection.body_bytes = 0;
  connection.body = nullptr;
}

Status HttpConnections::begin_answer(Connection& connection, TimePoint now) {
  release_body(connection);
  const Sum& own = of_network_[connection.network];
  const std::size_t free = bounds_.requests - std::min(bounds_.requests, sum_.answered);
  const bool here = own.answered >= std::min(bounds_.requests_per_network, free);
  if (here || free == 0) {
    return resource_exhausted(std::to_string(here ? own.answered : sum_.answered) + " requests " +
                              (here ? "of this address " : "") +
                              "are being answered already; try again");
  }
  set_stage(connection, Stage::kAnswered, now);
  return {};
}

void HttpConnections::end_request(Connection& connection, TimePoint now) {
  release_body(connection);
  set_stage(connection, Stage::kIdle, now);
  connection.known = false;
}

void HttpConnections::set_stage(Connection& connection, Stage stage, TimePoint now) {
  const auto answered = [](const Connection& one) {
    return one.stage == Stage::kAnswered ? 1U : 0U;
  };
  Sum& own = of_network_[connection.network];
  own.answered -= answered(connection);
  sum_.answered -= answered(connection);
  connection.stage = stage;
  connection.since = now;
  own.answered += answered(connection);
  sum_.answered += answered(connection);
}

}  // namespace outrider
