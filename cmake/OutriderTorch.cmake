# libtorch from the pinned PyPI wheel, through our own imported target.
#
# The wheel's CMake package requires the CUDA toolkit; we only need two shared objects and an include path.
# Its include folder also holds other versions of protobuf and fmt, so it goes last (-idirafter), and no
# source file includes both torch and gRPC/protobuf/spdlog.
include_guard()
set(OUTRIDER_HAVE_TORCH OFF)
if(OUTRIDER_TORCH STREQUAL "OFF")
  return()
endif()

set(OUTRIDER_VENV ${CMAKE_SOURCE_DIR}/.venv CACHE PATH "Virtual environment that holds the torch wheel")
file(GLOB torch_root LIST_DIRECTORIES true ${OUTRIDER_VENV}/lib/python3*/site-packages/torch)
if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  if(OUTRIDER_TORCH STREQUAL "ON")
    message(FATAL_ERROR "libtorch not found under ${OUTRIDER_VENV}. Remedy: ./run setup")
  endif()
  message(STATUS "outrider: no libtorch in ${OUTRIDER_VENV}: outrider-train and the oracle are left out")
  return()
endif()

set(OUTRIDER_HAVE_TORCH ON)
add_library(outrider_torch INTERFACE)
add_library(outrider::torch ALIAS outrider_torch)
target_compile_options(outrider_torch INTERFACE
  "SHELL:-idirafter ${torch_root}/include"
  "SHELL:-idirafter ${torch_root}/include/torch/csrc/api/include"
  -Wno-pedantic -Wno-unused-parameter -Wno-error)
target_link_libraries(outrider_torch INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so
  Threads::Threads)
target_link_options(outrider_torch INTERFACE
  -Wl,-rpath,${torch_root}/lib -Wl,--disable-new-dtags
  # libtorch_cpu needs libraries of the nvidia wheels; its own RPATH finds them at run time.
  -Wl,--allow-shlib-undefined -Wl,--unresolved-symbols=ignore-in-shared-libs)

# g++ maps a precompiled header to the address where it was made. ATen's has 400 MB: with random addresses another
# mapping lies there now and then, and each file that reads the header fails. Where the system allows it, the
# compiler runs without them.
function(outrider_precompile_aten target)
  target_precompile_headers(${target} PRIVATE <ATen/ATen.h>)
  execute_process(COMMAND setarch -R true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND refused EQUAL 0)
    set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER setarch -R ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endfunction()

# The CUDA half of libtorch is loaded at run time by --device torch-cuda (torch_model.cc) and never linked:
# programs of this preset start without a driver and without the nvidia wheels. Its dependencies are searched
# in those wheels, then in the CUDA toolkit.
if(OUTRIDER_TORCH_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Jetson Orin, H100 and H200, Jetson Thor; later devices through PTX.
    set(CMAKE_CUDA_ARCHITECTURES 87-real 90-real 110-real 80-virtual)
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that this nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit 13 REQUIRED)
  add_library(outrider_torch_cuda INTERFACE)
  add_library(outrider::torch_cuda ALIAS outrider_torch_cuda)
  target_link_options(outrider_torch_cuda INTERFACE -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR})
endif()
