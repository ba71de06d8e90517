// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/server.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/serving/http/connection.h"
#include "common/serving/http/error_response.h"
#include "common/serving/http/exchange.h"
#include "common/serving/http/host_rules.h"
#include "common/serving/http/listener.h"
#include "common/serving/http/socket.h"
#include "common/serving/http/tls.h"

namespace outrider {
namespace {

namespace asio = boost::asio;

// How long answers that are cut may take to leave.
constexpr Duration kLastWords = std::chrono::seconds(1);
// Until connections are accepted again when there was no descriptor or memory for one.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

int family_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family;
}

std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  auto* const peer = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(fd, peer, &size) != 0) return "unknown";
  if (address.ss_family == AF_UNIX) return "unix";
  const int error = getnameinfo(peer, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? host.data() : "unknown";
}

// Lowers the bounds to what this process's descriptors allow: an HTTP server without free
// descriptors answers nobody.
ConnectionBounds within_descriptors(ConnectionBounds bounds) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const std::size_t half = limit.rlim_cur / 2;
    bounds.requests = std::min(bounds.requests, half - std::min(half - 1, HttpConnections::kSpare));
  }
  return bounds;
}

}  // namespace

struct HttpServer::Parts final : HttpService {
  Parts(const HttpServerOptions& given, std::vector<HttpRoute> table, int listening)
      : options(given),
        host_rules{.allowed = given.allowed_hosts,
                   .any_name_without_origin = !is_loopback(given.listen.host),
                   .allowed_origins = given.allowed_origins},
        routes(std::move(table)),
        address{given.listen.host, port_of(listening)},
        bounded(given.bounds),
        acceptor(loop, HttpSocket::Plain::protocol_type(family_of(listening), 0), listening),
        pause(loop) {
    host_rules.allowed.push_back(given.listen.host);
    if (given.tls != nullptr) secure.emplace(given.tls);
    if (std::ranges::any_of(routes, &HttpRoute::is_slow)) {
      work = std::make_unique<WorkQueue>(given.work);
    }
  }

  Finding look_at(HttpRequest& head) override;
  void answer(HttpRequest request, const HttpRoute& route,
              const std::shared_ptr<HttpExchange>& exchange, const std::string& network) override;
  // On a thread of the work queue.
  void answer_slowly(HttpRequest request, const HttpRoute& route,
                     const std::shared_ptr<HttpExchange>& exchange, const std::string& network)
      OUTRIDER_REQUIRES(mu);
  void answered(const std::shared_ptr<HttpExchange>& exchange) override;
  void closed(const std::shared_ptr<HttpConnection>& connection) override {
    clients.erase(connection);
  }
  std::shared_ptr<asio::ssl::context> tls() override;
  void refused(const std::string& peer, const Status& why) override {
    if (options.on_refused) options.on_refused(peer, why);
  }
  HttpConnections& connections() override { return bounded; }
  Duration patience() const override { return std::chrono::seconds(options.idle_seconds); }
  std::size_t max_body_bytes() const override { return options.max_body_bytes; }

  // Whether a request came in the way that its route needs.
  Status check_security(const HttpRequest& head) const;
  void accept();
  void admit(HttpSocket::Plain socket);
  bool wait_until_answered(Duration at_most);
  void end();

  const HttpServerOptions options;
  HostRules host_rules;
  const std::vector<HttpRoute> routes;
  const Address address;
  const SystemClock clock;
  HttpConnections bounded;
  std::optional<HttpTls> secure;  // of the loop's thread; nothing: plaintext only

  Mutex mu;
  bool ending OUTRIDER_GUARDED_BY(mu) = false;
  std::set<std::shared_ptr<HttpExchange>> open OUTRIDER_GUARDED_BY(mu);
  CondVar all_answered;
  std::unique_ptr<WorkQueue> work;  // null: no route is slow

  asio::io_context loop{1};
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor;
  asio::steady_timer pause;
  std::set<std::shared_ptr<HttpConnection>> clients;  // of the loop's thread
  std::thread thread;
};

void HttpServer::Parts::accept() {
  acceptor.async_accept([this](const boost::system::error_code& error, HttpSocket::Plain socket) {
    if (!acceptor.is_open()) return;
    if (error) {
      pause.expires_after(kAcceptPause);
      return pause.async_wait([this](const auto& called_off) {
        if (!called_off) accept();
      });
    }
    admit(std::move(socket));
    accept();
  });
}

void HttpServer::Parts::admit(HttpSocket::Plain socket) {
  const int fd = socket.native_handle();
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const auto client = std::make_shared<HttpConnection>(std::move(socket), peer_of(fd), *this);
  clients.insert(client);
  client->start();
}

std::shared_ptr<asio::ssl::context> HttpServer::Parts::tls() {
  return secure ? secure->context() : nullptr;
}

Status HttpServer::Parts::check_security(const HttpRequest& head) const {
  if (!secure || !options.requires_tls) return {};
  if (!head.is_secure) {
    return failed_precondition(
        "this port speaks TLS, so that prompts and keys cross the network in secret; in plaintext "
        "it answers for its health only. Remedy: https:// in place of http://");
  }
  if (!secure->asks_clients() || head.certificate_name) return {};
  return permission_denied(
      "a certificate of the authorities that this program trusts is needed. Remedy: show the one "
      "that its operator has given to you");
}

HttpService::Finding HttpServer::Parts::look_at(HttpRequest& head) {
  FoundRoute found = find_route(routes, head.method, head.path);
  const HttpHeaders& of_refusal = found.refusal.headers;  // Allow, if the path is known
  Finding finding{.route = found.route,
                  .headers = origin_headers(head, host_rules,
                                            of_refusal.empty() ? "" : of_refusal.front().second)};
  if (found.route != nullptr && found.route->is_health) return finding;
  Status status = check_security(head);
  if (status.ok()) status = check_host(head, host_rules);
  if (status.ok() && found.route == nullptr) {
    finding.refusal = std::move(found.refusal);
    return finding;
  }
  if (status.ok() && found.route->check) status = found.route->check(head);
  if (!status.ok()) {
    const ErrorForm form = found.route != nullptr ? found.route->error_form : ErrorForm::kOpenai;
    finding.refusal = error_response(status, std::nullopt, form);
  }
  return finding;
}

void HttpServer::Parts::answer(HttpRequest request, const HttpRoute& route,
                               const std::shared_ptr<HttpExchange>& exchange,
                               const std::string& network) {
  {
    const MutexLock lock(mu);
    open.insert(exchange);
    if (ending) return exchange->cut_by_server();
    if (route.is_slow) return answer_slowly(std::move(request), route, exchange, network);
  }
  route.handler(request, exchange);
}

void HttpServer::Parts::answer_slowly(HttpRequest request, const HttpRoute& route,
                                      const std::shared_ptr<HttpExchange>& exchange,
                                      const std::string& network) {
  const auto held = std::make_shared<const HttpRequest>(std::move(request));
  const auto run = [held, &route, exchange] {
    if (!exchange->client_is_gone()) route.handler(*held, exchange);
  };
  const auto refuse = [exchange, form = route.error_form](const Status& why) {
    exchange->respond(error_response(why, std::nullopt, form));
  };
  const Status status =
      work->push(network, {.bytes = held->body.capacity(), .run = run, .refuse = refuse});
  if (!status.ok()) refuse(status);
}

void HttpServer::Parts::answered(const std::shared_ptr<HttpExchange>& exchange) {
  const MutexLock lock(mu);
  open.erase(exchange);
  if (open.empty()) all_answered.notify_all();
}

bool HttpServer::Parts::wait_until_answered(Duration at_most) {
  const TimePoint until = clock.now() + at_most;
  const MutexLock lock(mu);
  while (!open.empty()) {
    if (all_answered.wait_until(mu, until) == std::cv_status::timeout) break;
  }
  return open.empty();
}

// Requests that are being answered get an error, and the loop ends when no connection is left.
void HttpServer::Parts::end() {
  {
    const MutexLock lock(mu);
    ending = true;
    for (const auto& exchange : open) exchange->cut_by_server();
  }
  work.reset();  // nothing is pushed any more
  wait_until_answered(kLastWords);
  asio::post(loop, [this] {
    acceptor.close();
    pause.cancel();
    for (const auto& client : std::set(clients)) client->finish();
  });
  thread.join();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      std::vector<HttpRoute> routes) {
  OUTRIDER_RETURN_IF_ERROR(check_origins(options.allowed_origins));
  OUTRIDER_ASSIGN_OR_RETURN(const int fd, listen_on(options.listen));
  HttpServerOptions held = options;
  held.bounds = within_descriptors(options.bounds);
  auto parts = std::make_unique<Parts>(held, std::move(routes), fd);
  if (parts->secure && parts->tls() == nullptr) {
    return internal_error("OpenSSL does not take the TLS files");
  }
  parts->accept();
  parts->thread = std::thread([&loop = parts->loop] { loop.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpServer::~HttpServer() {
  parts_->end();
}

const Address& HttpServer::address() const {
  return parts_->address;
}

bool HttpServer::wait_until_answered(Duration at_most) {
  return parts_->wait_until_answered(at_most);
}

}  // namespace outrider
