// SPDX-License-Identifier: Apache-2.0
#include "common/http/server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "common/http/exchange_parts.h"
#include "common/http/listener.h"

namespace outrider {
namespace {

constexpr std::size_t kHeaderBytes = std::size_t{32} << 10;
constexpr std::size_t kStreamBlock = std::size_t{16} << 10;

// What the library hands back with each of its calls about one request.
struct Call {
  HttpRequest request;
  std::shared_ptr<HttpExchange> exchange;  // null until the request is whole
  HttpExchange::Parts* parts = nullptr;    // the exchange's
  bool too_large = false;
};

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

void decorate(MHD_Response* out, const HttpResponse& response) {
  MHD_add_response_header(out, "Content-Type", response.content_type.c_str());
  MHD_add_response_header(out, "X-Content-Type-Options", "nosniff");
  for (const auto& [key, value] : response.headers) {
    MHD_add_response_header(out, key.c_str(), value.c_str());
  }
}

MHD_Result queue_whole(MHD_Connection* connection, const HttpResponse& response) {
  MHD_Response* out =
      MHD_create_response_from_buffer(response.body.size(),
                                      const_cast<char*>(response.body.data()),  // copied
                                      MHD_RESPMEM_MUST_COPY);
  if (out == nullptr) return MHD_NO;
  decorate(out, response);
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

// Whole, begun, or to be waited for.
MHD_Result answer(MHD_Connection* connection, Call& call) {
  HttpExchange::Parts& parts = *call.parts;
  const MutexLock lock(parts.mu);
  if (parts.queued) return MHD_YES;
  if (parts.state == HttpExchange::Parts::State::kWaiting) {
    if (parts.ended) return MHD_NO;  // the server ends
    parts.suspend();
    return MHD_YES;
  }
  parts.queued = true;
  if (parts.state == HttpExchange::Parts::State::kWhole) {
    return queue_whole(connection, parts.response);
  }
  MHD_Response* out = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, read_stream,
                                                        &parts, nullptr);
  if (out == nullptr) return MHD_NO;
  decorate(out, parts.response);
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(parts.response.status), out);
  MHD_destroy_response(out);
  return queued;
}

}  // namespace

struct HttpServer::Parts {
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload,
                               std::size_t* upload_size, void** call);
  static void on_done(void* self, MHD_Connection* connection, void** call,
                      MHD_RequestTerminationCode how);
  // The request is whole: the handler gets it.
  MHD_Result hand_over(MHD_Connection* connection, Call& call);
  void end_all();

  HttpServerOptions options;
  Handler handler;
  Address address;
  MHD_Daemon* daemon = nullptr;

  Mutex mu;
  bool ending OUTRIDER_GUARDED_BY(mu) = false;
  std::set<std::shared_ptr<HttpExchange>> open OUTRIDER_GUARDED_BY(mu);
};

MHD_Result HttpServer::Parts::on_request(void* self, MHD_Connection* connection, const char* url,
                                         const char* method, const char* /*version*/,
                                         const char* upload, std::size_t* upload_size,
                                         void** slot) {
  auto& server = *static_cast<Parts*>(self);
  if (*slot == nullptr) {
    auto* call = new Call;  // deleted in on_done
    call->request.method = method;
    call->request.path = url;
    call->request.peer = peer_of(connection);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &call->request.headers);
    *slot = call;
    return MHD_YES;
  }
  Call& call = *static_cast<Call*>(*slot);
  if (call.exchange != nullptr) return answer(connection, call);
  if (*upload_size > 0) {
    call.too_large =
        call.too_large || call.request.body.size() + *upload_size > server.options.max_body_bytes;
    if (!call.too_large) call.request.body.append(upload, *upload_size);
    *upload_size = 0;
    return MHD_YES;
  }
  return server.hand_over(connection, call);
}

MHD_Result HttpServer::Parts::hand_over(MHD_Connection* connection, Call& call) {
  if (call.too_large) {
    return queue_whole(connection, {.status = MHD_HTTP_CONTENT_TOO_LARGE,
                                    .body = "the body may have " +
                                            std::to_string(options.max_body_bytes) + " bytes\n"});
  }
  auto exchange_parts = std::make_unique<HttpExchange::Parts>();
  call.parts = exchange_parts.get();
  {
    const MutexLock lock(call.parts->mu);
    call.parts->connection = connection;
  }
  call.exchange = std::make_shared<HttpExchange>(std::move(exchange_parts));
  {
    const MutexLock lock(mu);
    if (ending) return MHD_NO;
    open.insert(call.exchange);
  }
  handler(call.request, call.exchange);
  return answer(connection, call);
}

void HttpServer::Parts::on_done(void* self, MHD_Connection* /*connection*/, void** slot,
                                MHD_RequestTerminationCode /*how*/) {
  auto& server = *static_cast<Parts*>(self);
  const std::unique_ptr<Call> call(static_cast<Call*>(std::exchange(*slot, nullptr)));
  if (call == nullptr || call->exchange == nullptr) return;
  {
    const MutexLock lock(call->parts->mu);
    call->parts->connection = nullptr;
    call->parts->ended = true;
    call->parts->suspended = false;
  }
  const MutexLock lock(server.mu);
  server.open.erase(call->exchange);
}

// What waits is ended: the library must have nothing suspended when it stops.
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
                                                      Handler handler) {
  OUTRIDER_ASSIGN_OR_RETURN(const int fd, listen_on(options.listen));
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  parts->handler = std::move(handler);
  parts->address = {options.listen.host, port_of(fd)};
  parts->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
      Parts::on_request, parts.get(), MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
      Parts::on_done, parts.get(), MHD_OPTION_CONNECTION_LIMIT, options.max_connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, options.max_connections_per_address,
      MHD_OPTION_CONNECTION_TIMEOUT, options.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      kHeaderBytes, MHD_OPTION_END);
  if (parts->daemon == nullptr) {
    close(fd);
    return cannot_listen(options.listen, "the HTTP library could not start");
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpServer::~HttpServer() {
  parts_->end_all();
  MHD_stop_daemon(parts_->daemon);
}

const Address& HttpServer::address() const {
  return parts_->address;
}

}  // namespace outrider
