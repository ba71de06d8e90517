// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/unary_reactor.h"

#include <utility>

#include "common/base/address.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_order.h"
#include "proto/grpc_status.h"

namespace outrider {

UnaryReactor::UnaryReactor(grpc::CallbackServerContext& context, ShellState& shell,
                           std::size_t request_bytes, Answer answer)
    : context_(context),
      shell_(shell),
      peer_(context.peer()),
      network_(network_of(host_of(peer_))),
      caller_(identify(context, shell.authenticator)),
      answer_(std::move(answer)) {
  shell_.calls.add();
  release_to_grpc(this);
  if (const Status status = enter(request_bytes); !status.ok()) {
    refuse(status);
  } else {
    release_to_grpc(&buffer_);
    StartRead(&buffer_);
  }
  deadline_.Set(std::chrono::system_clock::now() + shell.unary_timeout, [this](bool rang) {
    acquire_from_grpc(this);
    // The peer has not sent its request, or has not read its reply.
    if (rang) canceller_.cancel(context_);
    release();
  });
}

Status UnaryReactor::enter(std::size_t request_bytes) {
  OUTRIDER_RETURN_IF_ERROR(shell_.bounds.enter(network_, "this address"));
  counted_ = true;
  OUTRIDER_RETURN_IF_ERROR(caller_.status());
  return hold(request_bytes);
}

Status UnaryReactor::hold(std::size_t bytes) {
  const std::string& tenant = caller_->tenant;
  if (held_ > 0) {
    shell_.unary_bytes.leave(network_, held_);
    if (!tenant.empty()) shell_.unary_bytes_of_tenant.leave(tenant, held_);
  }
  held_ = 0;
  OUTRIDER_RETURN_IF_ERROR(shell_.unary_bytes.enter(network_, "this address", bytes));
  if (!tenant.empty()) {
    Status status = shell_.unary_bytes_of_tenant.enter(tenant, "this key's tenant", bytes);
    if (!status.ok()) {
      shell_.unary_bytes.leave(network_, bytes);
      return status;
    }
  }
  held_ = bytes;
  return {};
}

void UnaryReactor::OnReadDone(bool ok) {
  acquire_from_grpc(&buffer_);
  const Status status = ok ? reply() : invalid_argument("the call ended before its request");
  if (!status.ok()) return refuse(status);
  shell_.mark_authenticated(peer_);
  const MutexLock lock(mu_);  // synchronises with OnDone
  release_to_grpc(&buffer_);
  StartWriteAndFinish(&buffer_, grpc::WriteOptions(), grpc::Status::OK);
}

Status UnaryReactor::reply() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string reply, answer_(to_bytes(buffer_)));
  buffer_.Clear();
  OUTRIDER_RETURN_IF_ERROR(hold(reply.size() + kFramingBytes));
  buffer_ = to_buffer(reply);
  return {};
}

void UnaryReactor::refuse(const Status& status) {
  shell_.faults.refuse(peer_, status);
  const MutexLock lock(mu_);  // as above
  Finish(to_grpc(status, shell_.delay_of(status)));
}

void UnaryReactor::OnDone() {
  acquire_from_grpc(&buffer_);
  { const MutexLock lock(mu_); }
  canceller_.finish();
  deadline_.Cancel();
  release();
}

void UnaryReactor::release() {
  if (holders_.fetch_sub(1) != 1) return;
  if (held_ > 0) {
    shell_.unary_bytes.leave(network_, held_);
    if (!caller_->tenant.empty()) shell_.unary_bytes_of_tenant.leave(caller_->tenant, held_);
  }
  if (counted_) shell_.bounds.leave(network_);
  ShellState& shell = shell_;
  delete this;
  shell.calls.remove();  // the server may be destroyed from here on
}

}  // namespace outrider
