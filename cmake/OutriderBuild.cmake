# Compiler flags, and the three functions with which every folder declares its targets.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache needs the first setting to reuse objects compiled with a precompiled header. The others let a
  # checkout in another folder use the same cache entries.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

find_package(Threads REQUIRED)

# -ffp-contract=off everywhere: a fused multiply-add occurs only where the source requests one, so that every
# CPU computes the same bits (docs/row-invariance.md).
# The prefix map keeps the checkout's folder out of the objects.
set(OUTRIDER_CXX_FLAGS -Wall -Wextra -Wpedantic -Werror -ffp-contract=off
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of g++ 12: maybe-uninitialized whenever a std::variant is moved, restrict for "literal" +
  # std::string (GCC bug 105651).
  list(APPEND OUTRIDER_CXX_FLAGS -Wno-maybe-uninitialized -Wno-restrict -fpch-preprocess)
else()
  # common/base/mutex.h states what each lock guards. Without its timestamp a precompiled header lets ccache
  # reuse objects compiled with it.
  list(APPEND OUTRIDER_CXX_FLAGS -Wthread-safety -Xclang -fno-pch-timestamp)
endif()
if(OUTRIDER_SANITIZE)
  list(APPEND OUTRIDER_CXX_FLAGS -fsanitize=${OUTRIDER_SANITIZE} -fno-omit-frame-pointer
       -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${OUTRIDER_SANITIZE})
  add_compile_definitions(OUTRIDER_SANITIZED)
  if(OUTRIDER_SANITIZE STREQUAL "thread")
    list(APPEND OUTRIDER_CXX_FLAGS -fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/tests/tsan_ignore.txt)
  endif()
endif()

# Unity builds: most of a file's compile time is spent on headers that its neighbours also read. The preset
# debug turns them off, so that each file compiles alone.
function(outrider_compile_as_one_unit target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${OUTRIDER_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  if(OUTRIDER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ takes an included source for a header, in which a class with internal linkage would differ in
    # each unit.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# NUMBERS: loops over weights, activations and logits. HOT: code that runs for every token or message. The rest is optimised
# least and compiles in half the time (-Og takes g++ 12 a quarter less than -O1). Under sanitizers, whose -O1 inlines
# nothing, these two are optimised as usual; what is neither is not optimised at all, which halves its time, except
# TESTED code, in which tests spend theirs.
function(outrider_optimise target)
  cmake_parse_arguments(arg "NUMBERS;HOT;TESTED" "" "" ${ARGN})
  if(OUTRIDER_SANITIZE)
    if(arg_NUMBERS OR arg_HOT)
      target_compile_options(${target} PRIVATE -O2)
    elseif(NOT arg_TESTED)
      target_compile_options(${target} PRIVATE -O0)
    endif()
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT arg_NUMBERS)
    target_compile_options(${target} PRIVATE $<IF:$<BOOL:${arg_HOT}>,-O2,-Og>)
  endif()
endfunction()

# The standard headers that most sources include, compiled once for all libraries of the same optimisation: a tenth of
# the build's time. Each library of these has the same flags, thus -pthread too. NUMBERS have none: g++ takes the
# optimisation from such a header, and one of their files has its own. <filesystem> is left out because std::quoted
# would come with it.
function(outrider_precompile_headers target)
  target_compile_options(${target} PRIVATE -pthread)
  get_target_property(options ${target} COMPILE_OPTIONS)
  string(MD5 reader "${options}")
  set(reader outrider_headers_${reader})
  if(NOT TARGET ${reader})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cc CONTENT "")
    add_library(${reader} OBJECT ${CMAKE_BINARY_DIR}/headers.cc)
    target_compile_options(${reader} PRIVATE ${options})
    target_precompile_headers(${reader} PRIVATE <algorithm> <chrono> <condition_variable> <functional>
                              <map> <memory> <mutex> <optional> <ranges> <set> <span> <sstream> <string> <thread>
                              <unordered_map> <variant> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${reader})
endfunction()

# outrider_library(NAME [NUMBERS|HOT|TESTED] [OWN_HEADERS] SOURCES a.cc.. [DEPS public..] [PRIVATE_DEPS private..])
# A folder is a library; only the libraries in DEPS can be included. OWN_HEADERS: it precompiles others, or none.
function(outrider_library name)
  cmake_parse_arguments(arg "NUMBERS;HOT;TESTED;OWN_HEADERS" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_compile_options(${name} PRIVATE ${OUTRIDER_CXX_FLAGS})
    outrider_optimise(${name} ${ARGN})
    if(OUTRIDER_UNITY AND NOT arg_OWN_HEADERS AND NOT arg_NUMBERS)
      outrider_precompile_headers(${name})
    endif()
    outrider_compile_as_one_unit(${name})
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
  endif()
endfunction()

# outrider_embed_texts(OUT NAME file.. [NAME file..]): OUT is a source made of files of this folder. It defines
# `extern const std::string_view NAME` in the namespace outrider, which holds the files behind the name.
function(outrider_embed_texts out)
  set(files ${ARGN})
  list(FILTER files EXCLUDE REGEX "^k[A-Z]")
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DTEXTS=${ARGN}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_texts.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_texts.cmake
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
    VERBATIM)
endfunction()

# outrider_program(NAME [NUMBERS|HOT] SOURCES main.cc.. DEPS libs..): built into build/<preset>/bin, by release_tests, too.
add_custom_target(release_tests)
function(outrider_program name)
  outrider_executable(${name} ${ARGN})
  add_dependencies(release_tests ${name})
endfunction()

function(outrider_executable name)
  cmake_parse_arguments(arg "NUMBERS;HOT" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${OUTRIDER_CXX_FLAGS})
  outrider_optimise(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
endfunction()

# outrider_test(NAME SOURCES x_test.cc.. DEPS libs.. [LABELS unit|sim|..] [ARGS ..])
# Target all_tests builds the tests and what they run, but no program; threaded_tests those with the label
# `threads`, whose code uses several threads. A test whose labels are in OUTRIDER_SANITIZED_LABELS runs under the
# address sanitizer only, and gets the label `sanitized`. One whose result depends on the optimised code (`numbers`),
# on programs (`programs`) or on libtorch (`torch`) runs in the release build: release_tests builds those, and all
# programs. With the label `long` too it takes minutes under a sanitizer: short_tests and lab_tests are those without, and
# only ./run sanitize runs the others there. The tests of the laboratory's folders, which no product links, have the
# label `lab`; lab_tests builds them, short_tests the others.
set(OUTRIDER_SANITIZED_LABELS unit sim threads)
set(OUTRIDER_LAB_FOLDERS "tests/unit/(adapters|bench|emulation|sim)")
add_custom_target(all_tests)
add_custom_target(short_tests)
add_custom_target(lab_tests)
add_custom_target(threaded_tests)
function(outrider_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LABELS;ARGS" ${ARGN})
  find_package(GTest REQUIRED)
  outrider_executable(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} outrider_test_paths
                      GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  outrider_compile_as_one_unit(${name})
  # The first test compiles the heavy headers for all tests, so all have the same flags: those of the users of
  # protobuf, with -pthread.
  target_compile_options(${name} PRIVATE -pthread)
  get_property(reader GLOBAL PROPERTY OUTRIDER_TEST_HEADERS)
  if(reader)
    target_precompile_headers(${name} REUSE_FROM ${reader})
  else()
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
    set_property(GLOBAL PROPERTY OUTRIDER_TEST_HEADERS ${name})
  endif()
  add_dependencies(all_tests ${name})
  set(kind short)
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "${OUTRIDER_LAB_FOLDERS}")
    set(kind lab)
  endif()
  if(NOT "long" IN_LIST arg_LABELS)
    add_dependencies(${kind}_tests ${name})
    if("threads" IN_LIST arg_LABELS)
      add_dependencies(threaded_tests ${name})
    endif()
  endif()
  set(others ${arg_LABELS})
  list(REMOVE_ITEM others ${OUTRIDER_SANITIZED_LABELS})
  if(others)
    add_dependencies(release_tests ${name})
  else()
    list(APPEND arg_LABELS sanitized)
  endif()
  if(kind STREQUAL "lab")
    list(APPEND arg_LABELS lab)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}")
  set(environment OUTRIDER_STATE_DIR=none)  # tests neither use nor change what edges learnt
  if(OUTRIDER_SANITIZE STREQUAL "thread")
    list(APPEND environment
      TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan_suppressions.txt)
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endfunction()

# Adds each folder that declares a CMakeLists.txt.
macro(outrider_add_folders)
  foreach(folder ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
  endforeach()
endmacro()
