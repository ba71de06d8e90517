// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <string>
#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_one_of(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

// Whether a line goes on in the next one (obs-fold).
bool has_fold(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos ||
         head.find("\r\n\t") != std::string_view::npos;
}

// uri-host [ ":" port ], which may be empty.
bool is_authority(std::string_view text) {
  const std::size_t colon = text.find(':', text.starts_with('[') ? text.find(']') : 0);
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool is_literal = host.starts_with('[') && host.ends_with(']');
  const std::string_view name = is_literal ? host.substr(1, host.size() - 2) : host;
  const std::string_view marks = is_literal ? "-._~:%" : "-._~%!$&'()*+,;=";
  return std::ranges::all_of(port, is_decimal) && std::ranges::all_of(name, [&](char c) {
           return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  is_one_of(marks, c);
         });
}

std::optional<std::string> unescaped(std::string_view path) {
  const auto value = [](char c) {
    const std::size_t at = std::string_view("0123456789abcdefABCDEF").find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at < 16 ? at : at - 6);
  };
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      out += path[i];
      continue;
    }
    const int high = i + 2 < path.size() ? value(path[i + 1]) : -1;
    const int low = high < 0 ? -1 : value(path[i + 2]);
    if (low < 0) return std::nullopt;
    out += static_cast<char>(16 * high + low);
    i += 2;
  }
  return out;
}

HttpResponse with_status(int code, std::string why) {
  HttpResponse refusal = error_response(invalid_argument(std::move(why)));
  refusal.status = code;
  return refusal;
}

// A version that is well written and not ours, in the first line of `bytes`.
bool has_other_version(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view version = line.substr(space + 1);
  return version.size() == 8 && version.starts_with("HTTP/") && is_decimal(version[5]) &&
         version[6] == '.' && is_decimal(version[7]) && version != "HTTP/1.0" &&
         version != "HTTP/1.1";
}

}  // namespace

class HttpRequestParser::Parser final : public http::basic_parser<true> {
 public:
  Parser() {
    header_limit(kMaxHeadBytes);
    body_limit((std::numeric_limits<std::uint64_t>::max)());  // the server's, which says 413
  }

  Step step(std::string_view bytes);

  HttpRequest request;
  std::optional<HttpResponse> refusal;
  int version = 11;
  bool expects_continue = false;

 private:
  void refuse(error_code& ec, int code, std::string why) {
    refusal = with_status(code, std::move(why));
    ec = http::error::bad_value;
  }
  void refuse_bytes(std::string_view bytes, error_code why);
  // Too many bytes without the end of what they belong to.
  void refuse_length();
  void check_codings(error_code& ec);
  void check_host(error_code& ec);
  void read_target(error_code& ec);
  void read_path(std::string_view target, error_code& ec);

  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int http_version, error_code&) override {
    request.method = view(method);
    target_ = view(target);
    version = http_version;
  }
  void on_field_impl(http::field field, beast::string_view name, beast::string_view value,
                     error_code& ec) override;
  void on_header_impl(error_code& ec) override;
  void on_chunk_header_impl(std::uint64_t, beast::string_view extensions, error_code& ec) override {
    if (std::ranges::any_of(extensions, is_control)) ec = http::error::bad_chunk_extension;
  }
  std::size_t on_body_impl(beast::string_view piece, error_code&) override {
    body_ = view(piece);
    return piece.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view piece, error_code&) override {
    body_ = view(piece);
    return piece.size();
  }
  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::string target_;
  std::string codings_;
  std::string_view body_;  // of the current step
  std::size_t head_bytes_ = 0;
  int hosts_ = 0;
  int lengths_ = 0;
  bool has_codings_ = false;
  bool is_in_trailer_ = false;
};

void HttpRequestParser::Parser::on_field_impl(http::field field, beast::string_view name,
                                              beast::string_view value, error_code& ec) {
  if (is_in_trailer_) return;
  if (field == http::field::host) ++hosts_;
  if (field == http::field::content_length &&
      (++lengths_ > 1 || !std::ranges::all_of(value, is_decimal))) {
    return refuse(ec, 400, "Content-Length must be one number, given once");
  }
  if (field == http::field::transfer_encoding) {
    codings_ += (has_codings_ ? "," : "") + lower_case(view(value));
    has_codings_ = true;
  }
  request.headers.emplace_back(lower_case(view(name)), view(value));
}

void HttpRequestParser::Parser::on_header_impl(error_code& ec) {
  is_in_trailer_ = true;
  check_codings(ec);
  if (!ec) check_host(ec);
  if (!ec) read_target(ec);
  const std::string& expectation = request.header("expect");
  if (ec || expectation.empty() || version == 10) return;
  expects_continue = lower_case(expectation) == "100-continue";
  if (!expects_continue) {
    refuse(ec, 417, "the expectation " + printable(expectation) + " is not known here");
  }
}

void HttpRequestParser::Parser::check_codings(error_code& ec) {
  if (!has_codings_) return;
  if (version == 10) return refuse(ec, 400, "HTTP/1.0 has no Transfer-Encoding");
  if (lengths_ > 0) {
    return refuse(ec, 400, "a request has Content-Length or Transfer-Encoding, not both");
  }
  if (codings_ == "chunked") return;
  std::erase_if(codings_, [](char c) { return c == ' ' || c == '\t'; });
  const bool is_framed =
      codings_.ends_with(",chunked") && codings_.find("chunked") + 7 == codings_.size();
  refuse(ec, is_framed ? 501 : 400,
         "the transfer coding " + printable(codings_) + " is not supported; send chunked alone");
}

void HttpRequestParser::Parser::check_host(error_code& ec) {
  if (hosts_ > 1 || (hosts_ == 0 && version > 10)) {
    return refuse(
        ec, 400,
        "a request of HTTP/1.1 has one header Host; this one has " + std::to_string(hosts_));
  }
  const std::string& host = request.header("host");
  if (!is_authority(host)) {
    refuse(ec, 400, "the header Host must be HOST or HOST:PORT, not " + printable(host));
  }
}

void HttpRequestParser::Parser::read_target(error_code& ec) {
  const std::string_view target = target_;
  if (request.method == "CONNECT") {
    return refuse(ec, 501, "this server is no proxy: it does not know CONNECT");
  }
  if (target.starts_with('/')) return read_path(target, ec);
  if (target == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return;
  }
  const std::size_t scheme = target.find("://");
  const std::string name = lower_case(target.substr(0, std::min(scheme, target.size())));
  const std::size_t begin = scheme + 3;
  const std::size_t end = std::min(target.find_first_of("/?", begin), target.size());
  if (scheme == std::string_view::npos || (name != "http" && name != "https") || begin == end ||
      !is_authority(target.substr(begin, end - begin))) {
    return refuse(ec, 400,
                  "the request's target must be a path or an http URL, not " + printable(target));
  }
  const std::string_view authority = target.substr(begin, end - begin);
  std::erase_if(request.headers, [](const auto& header) { return header.first == "host"; });
  request.headers.emplace_back("host", authority);
  const std::string_view rest = target.substr(end);
  read_path(rest.starts_with('/') ? rest : "/", ec);
}

void HttpRequestParser::Parser::read_path(std::string_view target, error_code& ec) {
  std::optional<std::string> path = unescaped(target.substr(0, target.find_first_of("?#")));
  if (!path) return refuse(ec, 400, "the path has a % without two hexadecimal digits behind it");
  request.path = *std::move(path);
}

void HttpRequestParser::Parser::refuse_bytes(std::string_view bytes, error_code why) {
  if (refusal) return;
  if (why == http::error::bad_version && has_other_version(bytes)) {
    refusal = with_status(505, "this server speaks HTTP/1.1 and HTTP/1.0 only");
  } else if (why == http::error::header_limit) {
    refuse_length();
  } else {
    refusal =
        with_status(400, "the request breaks the rules of HTTP/1.1 (RFC 9112): " + why.message());
  }
}

void HttpRequestParser::Parser::refuse_length() {
  const std::string bound = " than " + std::to_string(kMaxHeadBytes) + " bytes";
  if (request.method.empty()) {
    refusal = with_status(414, "the request's first line is longer" + bound);
  } else {
    refusal = with_status(431, "the request's head, or a line of its chunks, is longer" + bound);
  }
}

HttpRequestParser::Step HttpRequestParser::Parser::step(std::string_view bytes) {
  std::size_t blank = 0;
  // Empty lines before a request, which old clients send (RFC 9112, 2.2).
  while (!got_some() && bytes.substr(blank).starts_with("\r\n")) blank += 2;
  const std::string_view rest = bytes.substr(blank);
  head_bytes_ += blank;
  if (rest.empty() || (!got_some() && rest == "\r")) return {blank, {}};
  const bool is_head = !is_header_done();
  body_ = {};
  error_code ec;
  const std::size_t taken = put({rest.data(), rest.size()}, ec);
  if (is_head) {
    head_bytes_ += taken;
    if (has_fold(rest.substr(0, taken)) && !refusal) {
      refusal = with_status(400, "a header may not go on in the next line (RFC 9112, 5.2)");
    }
  }
  const std::size_t held = is_head ? head_bytes_ : 0;
  if (ec && ec != http::error::need_more) {
    refuse_bytes(rest, ec);
  } else if (held + (ec ? rest.size() - taken : 0) >= kMaxHeadBytes) {
    if (!refusal) refuse_length();
  }
  return {blank + taken, body_};
}

HttpRequestParser::HttpRequestParser() : parser_(std::make_unique<Parser>()) {}
HttpRequestParser::~HttpRequestParser() = default;
HttpRequestParser::HttpRequestParser(HttpRequestParser&&) noexcept = default;
HttpRequestParser& HttpRequestParser::operator=(HttpRequestParser&&) noexcept = default;

HttpRequestParser::Step HttpRequestParser::put(std::string_view bytes) {
  if (parser_->refusal || parser_->is_done() || bytes.empty()) return {};
  return parser_->step(bytes);
}

bool HttpRequestParser::has_head() const {
  return parser_->is_header_done();
}

bool HttpRequestParser::is_complete() const {
  return parser_->is_done();
}

const std::optional<HttpResponse>& HttpRequestParser::refusal() const {
  return parser_->refusal;
}

HttpRequest& HttpRequestParser::request() {
  return parser_->request;
}

std::optional<std::uint64_t> HttpRequestParser::content_length() const {
  const boost::optional<std::uint64_t> length = parser_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

bool HttpRequestParser::is_http_1_0() const {
  return parser_->version == 10;
}

bool HttpRequestParser::keeps_alive() const {
  return parser_->keep_alive();
}

bool HttpRequestParser::expects_continue() const {
  return parser_->expects_continue;
}

}  // namespace outrider
