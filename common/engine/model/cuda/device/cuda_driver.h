// NVIDIA's driver. It is looked for when a program first asks for it (libcuda.so.1), so that the
// same program starts with drivers of CUDA 12 and 13, and without one.
//
// Thread rule: any thread; current_gpu() and use_gpu() are the calling thread's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

// CUDA 13 gives this one's second version, which drivers before 12.8 lack, the same parameters.
#ifdef cuEventElapsedTime
#undef cuEventElapsedTime
extern "C" decltype(cuEventElapsedTime_v2) cuEventElapsedTime;
#endif

namespace outrider::cuda {

// The functions that are called: their names here, and the driver's. All are in CUDA 11.8 already.
#define OUTRIDER_DRIVER_FUNCTIONS(DO)                 \
  DO(initialize, cuInit)                              \
  DO(error_name, cuGetErrorName)                      \
  DO(error_text, cuGetErrorString)                    \
  DO(count_devices, cuDeviceGetCount)                 \
  DO(device, cuDeviceGet)                             \
  DO(device_name, cuDeviceGetName)                    \
  DO(device_attribute, cuDeviceGetAttribute)          \
  DO(device_memory, cuDeviceTotalMem)                 \
  DO(can_access_peer, cuDeviceCanAccessPeer)          \
  DO(retain_context, cuDevicePrimaryCtxRetain)        \
  DO(set_context, cuCtxSetCurrent)                    \
  DO(enable_peer_access, cuCtxEnablePeerAccess)       \
  DO(synchronize_context, cuCtxSynchronize)           \
  DO(memory_info, cuMemGetInfo)                       \
  DO(allocate, cuMemAlloc)                            \
  DO(free, cuMemFree)                                 \
  DO(allocate_host, cuMemHostAlloc)                   \
  DO(free_host, cuMemFreeHost)                        \
  DO(pin, cuMemHostRegister)                          \
  DO(unpin, cuMemHostUnregister)                      \
  DO(copy_to_device, cuMemcpyHtoDAsync)               \
  DO(copy_to_host, cuMemcpyDtoHAsync)                 \
  DO(copy_on_device, cuMemcpyDtoDAsync)               \
  DO(copy_pieces, cuMemcpy2DAsync)                    \
  DO(fill, cuMemsetD8Async)                           \
  DO(create_stream, cuStreamCreate)                   \
  DO(destroy_stream, cuStreamDestroy)                 \
  DO(wait_for_event, cuStreamWaitEvent)               \
  DO(synchronize_stream, cuStreamSynchronize)         \
  DO(begin_capture, cuStreamBeginCapture)             \
  DO(end_capture, cuStreamEndCapture)                 \
  DO(create_event, cuEventCreate)                     \
  DO(destroy_event, cuEventDestroy)                   \
  DO(record_event, cuEventRecord)                     \
  DO(record_event_with_flags, cuEventRecordWithFlags) \
  DO(synchronize_event, cuEventSynchronize)           \
  DO(query_event, cuEventQuery)                       \
  DO(elapsed_time, cuEventElapsedTime)                \
  DO(graph_nodes, cuGraphGetNodes)                    \
  DO(instantiate_graph, cuGraphInstantiate)           \
  DO(launch_graph, cuGraphLaunch)                     \
  DO(destroy_graph, cuGraphDestroy)                   \
  DO(destroy_runnable, cuGraphExecDestroy)            \
  DO(load_module, cuModuleLoadData)                   \
  DO(find_function, cuModuleGetFunction)              \
  DO(set_function_attribute, cuFuncSetAttribute)      \
  DO(launch_kernel, cuLaunchKernelEx)

struct CudaDriver {
  int version = 0;      // CUDA's that it runs, 12060 for 12.6; 0: there is no driver
  std::string missing;  // a function that it lacks; empty: all below can be called
#define OUTRIDER_MEMBER(name, function) decltype(&::function) name = nullptr;
  OUTRIDER_DRIVER_FUNCTIONS(OUTRIDER_MEMBER)
#undef OUTRIDER_MEMBER
};

// The machine's.
const CudaDriver& cuda_driver();

// "CUDA_ERROR_OUT_OF_MEMORY, out of memory". The driver has all functions.
std::string reason(CUresult code);

// Makes this GPU the thread's current one. The driver is not called again for the same one: while a
// graph is recorded most calls end the recording.
CUresult use_gpu(int number);
// The number of the thread's current GPU; -1: it has none yet.
int current_gpu();

// The context of a GPU that the whole process shares, kept until it ends.
CUresult context_of(int gpu, CUcontext& context);
// The driver's handle of a GPU, by its number.
CUdevice device_of(int gpu);
int attribute_of(int gpu, CUdevice_attribute attribute);

}  // namespace outrider::cuda
