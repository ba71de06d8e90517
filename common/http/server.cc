// SPDX-License-Identifier: Apache-2.0
#include "common/http/server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "common/base/clock.h"
#include "common/base/random_id.h"
#include "common/base/request_headers.h"
#include "common/http/error_response.h"
#include "common/http/exchange.h"
#include "common/http/host_rules.h"
#include "common/http/listener.h"

namespace outrider {
namespace {

constexpr std::size_t kHeaderBytes = std::size_t{32} << 10;
constexpr std::size_t kStreamBlock = std::size_t{16} << 10;

// Bytes that are read of a refused request's body, so that its client gets to reading the answer.
constexpr std::size_t kMaxDropped = std::size_t{8} << 20;

// State of one request: the library passes it to each callback.
struct Call {
  HttpConnections::Connection* client = nullptr;
  HttpRequest request;  // emptied when it is complete and answered by another thread
  std::string id;       // the request's
  const HttpRoute* route = nullptr;
  bool is_http_1_0 = false;
  std::size_t dropped = 0;              // of the body
  std::optional<HttpResponse> refusal;  // sent instead of the route's answer; the body is dropped
  std::shared_ptr<HttpExchange> exchange;  // null until the request is complete
  HttpExchange::Parts* parts = nullptr;    // the exchange's
};

HttpConnections::Connection* client_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return static_cast<HttpConnections::Connection*>(info->socket_context);
}

MHD_Result add_header(void* to, MHD_ValueKind /*kind*/, const char* key, const char* value) {
  std::string name(key);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  static_cast<HttpHeaders*>(to)->emplace_back(std::move(name), value == nullptr ? "" : value);
  return MHD_YES;
}

std::string peer_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return "unknown";
  char host[NI_MAXHOST];
  const sockaddr* address = info->client_addr;
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return host;
}

// Nobody else's name, and no secret: it finds a request in logs.
std::string request_id_of(const HttpRequest& request) {
  static const std::string process = "req-" + random_id().substr(0, 16) + "-";
  static std::atomic<std::uint64_t> number{0};
  const std::string& given = request.header(kRequestIdHeader);
  if (is_request_id(given)) return given;
  return process + std::to_string(number.fetch_add(1, std::memory_order_relaxed));
}

void decorate(MHD_Response* out, const HttpResponse& response, const std::string& request_id) {
  MHD_add_response_header(out, "Content-Type", response.content_type.c_str());
  MHD_add_response_header(out, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(out, "X-Request-Id", request_id.c_str());
  for (const auto& [key, value] : response.headers) {
    MHD_add_response_header(out, key.c_str(), value.c_str());
  }
}

// The response stays where it is until on_done(): it belongs to the call, or to its exchange.
MHD_Result queue_whole(MHD_Connection* connection, const HttpResponse& response,
                       const std::string& request_id) {
  MHD_Response* out =
      MHD_create_response_from_buffer(response.body.size(),
                                      const_cast<char*>(response.body.data()),  // read only
                                      MHD_RESPMEM_PERSISTENT);
  if (out == nullptr) return MHD_NO;
  decorate(out, response, request_id);
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), out);
  MHD_destroy_response(out);
  return queued;
}

ssize_t read_stream(void* context, std::uint64_t /*position*/, char* to, std::size_t most) {
  auto& parts = *static_cast<HttpExchange::Parts*>(context);
  const MutexLock lock(parts.mu);
  if (!parts.unsent.empty()) {
    const std::size_t count = std::min(most, parts.unsent.size());
    std::memcpy(to, parts.unsent.data(), count);
    parts.unsent.erase(0, count);
    return static_cast<ssize_t>(count);
  }
  if (parts.ended) return MHD_CONTENT_READER_END_OF_STREAM;
  parts.suspend();
  return 0;
}

HttpResponse too_large(std::size_t bound) {
  HttpResponse refusal =
      error_response(invalid_argument("the body exceeds " + std::to_string(bound) + " bytes"));
  refusal.status = MHD_HTTP_CONTENT_TOO_LARGE;
  return refusal;
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

// Sends the answer if it is complete or has begun, else suspends.
MHD_Result answer(MHD_Connection* connection, Call& call) {
  HttpExchange::Parts& parts = *call.parts;
  const MutexLock lock(parts.mu);
  if (parts.queued) return MHD_YES;
  if (parts.state == HttpExchange::Parts::State::kWaiting) {
    if (parts.ended) return MHD_NO;  // end the connection
    parts.suspend();
    return MHD_YES;
  }
  parts.queued = true;
  if (parts.state == HttpExchange::Parts::State::kWhole) {
    return queue_whole(connection, parts.response, call.id);
  }
  MHD_Response* out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, read_stream,
                                                        &parts, nullptr);
  if (out == nullptr) return MHD_NO;
  decorate(out, parts.response, call.id);
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(parts.response.status), out);
  MHD_destroy_response(out);
  return queued;
}

}  // namespace

struct HttpServer::Parts {
  explicit Parts(const HttpServerOptions& given)
      : options(given), connections(given.bounds), work(std::make_unique<WorkQueue>(given.work)) {}

  // Callbacks of the library, on its thread.
  static void on_connection(void* self, MHD_Connection* connection, void** client,
                            MHD_ConnectionNotificationCode what);
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload,
                               std::size_t* upload_size, void** call);
  static void on_done(void* self, MHD_Connection* connection, void** call,
                      MHD_RequestTerminationCode how);

  // The head has arrived: finds the route, or refuses.
  MHD_Result take_head(MHD_Connection* connection, Call& call);
  void look_at_head(Call& call) const;
  MHD_Result take_body(Call& call, std::string_view bytes);
  // The request is complete: calls the handler.
  MHD_Result hand_over(MHD_Connection* connection, Call& call);
  void handle(Call& call);
  void end_all();

  const HttpServerOptions options;
  HostRules host_rules;
  std::vector<HttpRoute> routes;
  Address address;
  MHD_Daemon* daemon = nullptr;
  SystemClock clock;
  HttpConnections connections;

  Mutex mu;
  bool ending OUTRIDER_GUARDED_BY(mu) = false;
  std::set<std::shared_ptr<HttpExchange>> open OUTRIDER_GUARDED_BY(mu);
  CondVar closed;  // the last of them
  std::unique_ptr<WorkQueue> work;
};

void HttpServer::Parts::on_connection(void* self, MHD_Connection* connection, void** client,
                                      MHD_ConnectionNotificationCode what) {
  auto& server = *static_cast<Parts*>(self);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *client = &server.connections.enter(info->connect_fd, peer_of(connection), server.clock.now());
  } else {
    server.connections.leave(*static_cast<HttpConnections::Connection*>(*client));
  }
}

MHD_Result HttpServer::Parts::on_request(void* self, MHD_Connection* connection, const char* url,
                                         const char* method, const char* version,
                                         const char* upload, std::size_t* upload_size,
                                         void** slot) {
  auto& server = *static_cast<Parts*>(self);
  if (*slot == nullptr) {
    auto* call = new Call;  // deleted in on_done
    *slot = call;
    call->client = client_of(connection);
    call->is_http_1_0 = std::strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    call->request.method = method;
    call->request.path = url;
    call->request.peer = call->client->peer;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &call->request.headers);
    call->request.id = call->id = request_id_of(call->request);
    return server.take_head(connection, *call);
  }
  Call& call = *static_cast<Call*>(*slot);
  if (call.exchange != nullptr) return answer(connection, call);
  if (*upload_size == 0) return server.hand_over(connection, call);
  const std::string_view bytes(upload, *upload_size);
  *upload_size = 0;
  return server.take_body(call, bytes);
}

MHD_Result HttpServer::Parts::take_head(MHD_Connection* connection, Call& call) {
  look_at_head(call);
  const std::uint64_t length =
      std::strtoull(call.request.header("content-length").c_str(), nullptr, 10);
  if (!call.refusal && length > options.max_body_bytes) {
    call.refusal = too_large(options.max_body_bytes);
  }
  if (!call.refusal) {
    connections.begin_body(*call.client, &call.request.body, call.request.caller != nullptr,
                           clock.now());
    return MHD_YES;
  }
  // A client that sends Expect is answered before it sends the body.
  const bool at_once = !call.request.header("expect").empty() || length > kMaxDropped;
  return at_once ? queue_whole(connection, *call.refusal, call.id) : MHD_YES;
}

void HttpServer::Parts::look_at_head(Call& call) const {
  FoundRoute found = find_route(routes, call.request.method, call.request.path);
  call.route = found.route;
  if (call.route != nullptr && call.route->is_health) return;
  Status status = check_host(call.request, host_rules);
  if (status.ok() && call.route == nullptr) {
    call.refusal = std::move(found.refusal);
    return;
  }
  if (status.ok() && call.route->check) status = call.route->check(call.request);
  if (!status.ok()) call.refusal = error_response(status);
}

// MHD_NO ends the connection.
MHD_Result HttpServer::Parts::take_body(Call& call, std::string_view bytes) {
  if (!call.refusal) {
    const bool fits = call.request.body.size() + bytes.size() <= options.max_body_bytes;
    const Status taken = fits ? connections.take_body(*call.client, bytes) : Status();
    if (fits && taken.ok()) return MHD_YES;
    call.refusal = fits ? error_response(taken) : too_large(options.max_body_bytes);
    connections.end_request(*call.client, clock.now());
    call.request.body = std::string();
  }
  call.dropped += bytes.size();
  return call.dropped > kMaxDropped ? MHD_NO : MHD_YES;
}

MHD_Result HttpServer::Parts::hand_over(MHD_Connection* connection, Call& call) {
  if (!call.refusal && !call.route->is_health) {
    const Status taken = connections.begin_answer(*call.client, clock.now());
    if (!taken.ok()) call.refusal = error_response(taken);
  }
  if (call.refusal) return queue_whole(connection, *call.refusal, call.id);
  auto exchange_parts = std::make_unique<HttpExchange::Parts>();
  call.parts = exchange_parts.get();
  {
    const MutexLock lock(call.parts->mu);
    call.parts->connection = connection;
    call.parts->reads_interim = !call.is_http_1_0;
  }
  call.exchange = std::make_shared<HttpExchange>(std::move(exchange_parts));
  {
    const MutexLock lock(mu);
    if (ending) return MHD_NO;
    open.insert(call.exchange);
  }
  handle(call);
  return answer(connection, call);
}

void HttpServer::Parts::handle(Call& call) {
  const auto request = std::make_shared<const HttpRequest>(std::move(call.request));
  if (!call.route->is_slow) return call.route->handler(*request, call.exchange);
  const auto run = [request, route = call.route, exchange = call.exchange] {
    if (!exchange->client_is_gone()) route->handler(*request, exchange);
  };
  const Status status =
      work->push(call.client->network, {.bytes = request->body.capacity(), .run = run});
  if (!status.ok()) call.exchange->respond(error_response(status));
}

void HttpServer::Parts::on_done(void* self, MHD_Connection* /*connection*/, void** slot,
                                MHD_RequestTerminationCode /*how*/) {
  auto& server = *static_cast<Parts*>(self);
  const std::unique_ptr<Call> call(static_cast<Call*>(std::exchange(*slot, nullptr)));
  if (call == nullptr) return;
  server.connections.end_request(*call->client, server.clock.now());
  if (call->exchange == nullptr) return;
  {
    const MutexLock lock(call->parts->mu);
    call->parts->connection = nullptr;
    call->parts->ended = true;
    call->parts->suspended = false;
  }
  const MutexLock lock(server.mu);
  server.open.erase(call->exchange);
  if (server.open.empty()) server.closed.notify_all();
}

// Ends pending exchanges: the library must have no suspended connection when it stops.
void HttpServer::Parts::end_all() {
  std::set<std::shared_ptr<HttpExchange>> left;
  {
    const MutexLock lock(mu);
    ending = true;
    left = open;
  }
  for (const auto& exchange : left) exchange->end();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      std::vector<HttpRoute> routes) {
  OUTRIDER_ASSIGN_OR_RETURN(const int fd, listen_on(options.listen));
  HttpServerOptions held = options;
  held.bounds = within_descriptors(options.bounds);
  auto parts = std::make_unique<Parts>(held);
  parts->host_rules = {.allowed = options.allowed_hosts,
                       .any_name_without_origin = !is_loopback(options.listen.host)};
  parts->host_rules.allowed.push_back(options.listen.host);
  parts->routes = std::move(routes);
  parts->address = {options.listen.host, port_of(fd)};
  // We bound connections ourselves; the library's bound only leaves room for those being closed.
  const auto most = static_cast<unsigned>(held.bounds.requests + 4 * HttpConnections::kSpare);
  parts->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
      Parts::on_request, parts.get(), MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_CONNECTION,
      Parts::on_connection, parts.get(), MHD_OPTION_NOTIFY_COMPLETED, Parts::on_done, parts.get(),
      MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_TIMEOUT, options.idle_seconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kHeaderBytes, MHD_OPTION_END);
  if (parts->daemon == nullptr) {
    close(fd);
    return cannot_listen(options.listen, "the HTTP library did not start");
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpServer::~HttpServer() {
  parts_->end_all();
  parts_->work.reset();
  MHD_stop_daemon(parts_->daemon);
}

const Address& HttpServer::address() const {
  return parts_->address;
}

bool HttpServer::wait_until_answered(Duration at_most) {
  const TimePoint until = parts_->clock.now() + at_most;
  const MutexLock lock(parts_->mu);
  while (!parts_->open.empty()) {
    if (parts_->closed.wait_until(parts_->mu, until) == std::cv_status::timeout) break;
  }
  return parts_->open.empty();
}

}  // namespace outrider
