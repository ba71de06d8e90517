# XGrammar's C++ core, which compiles grammars (common/engine/constraint), as a static library from its source archive:
# no Python, no network at build. cmake/fetch_xgrammar.sh unpacks it.
include_guard()
if(OUTRIDER_GRAMMAR STREQUAL "OFF" OR NOT OUTRIDER_TEXT)
  return()
endif()

set(xgrammar_root ${CMAKE_SOURCE_DIR}/.cache/xgrammar)
if(NOT EXISTS ${xgrammar_root}/include/xgrammar/xgrammar.h)
  if(OUTRIDER_GRAMMAR STREQUAL "ON")
    message(FATAL_ERROR "XGrammar's source is not in ${xgrammar_root}. Remedy: ./run setup")
  endif()
  message(STATUS "outrider: no XGrammar in ${xgrammar_root}: answers cannot be held to a form")
  return()
endif()

file(GLOB_RECURSE xgrammar_sources ${xgrammar_root}/cpp/*.cc)
list(FILTER xgrammar_sources EXCLUDE REGEX "/cpp/tvm_ffi/")
add_library(outrider_xgrammar STATIC ${xgrammar_sources})
set_target_properties(outrider_xgrammar PROPERTIES CXX_STANDARD 17)
target_include_directories(outrider_xgrammar SYSTEM PUBLIC ${xgrammar_root}/include ${xgrammar_root}/3rdparty/picojson
                           ${xgrammar_root}/3rdparty/dlpack/include)
# Its log goes through functions of common/engine/constraint/grammar.cc.
target_compile_definitions(outrider_xgrammar PRIVATE XGRAMMAR_LOG_CUSTOMIZE=1
                           PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_compile_options(outrider_xgrammar PRIVATE -w -O2 -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(OUTRIDER_SANITIZE)
  # Instrumented like the rest, or containers that it shares with the rest would look broken.
  target_compile_options(outrider_xgrammar PRIVATE -fsanitize=${OUTRIDER_SANITIZE} -fno-sanitize=undefined -O1)
endif()
