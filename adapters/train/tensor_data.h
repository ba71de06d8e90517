// The elements of a contiguous tensor.
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

namespace outrider {

// T: the tensor's element type.
template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

}  // namespace outrider
