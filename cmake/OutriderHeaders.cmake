# The header libraries of Debian that do not depend on the architecture.
#
# In a cross build the host's /usr/include must stay out of the search path. So only these folders of it are
# linked into the build tree.
include_guard()

# outrider_host_headers(TARGET folder..): an imported target with these folders of /usr/include.
function(outrider_host_headers target)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  if(NOT CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(view ${CMAKE_BINARY_DIR}/host_headers/${target})
  file(MAKE_DIRECTORY ${view})
  foreach(folder ${ARGN})
    if(NOT EXISTS /usr/include/${folder})
      message(FATAL_ERROR "/usr/include/${folder} not found. Remedy: ./run setup")
    endif()
    file(CREATE_LINK /usr/include/${folder} ${view}/${folder} SYMBOLIC)
  endforeach()
  target_include_directories(${target} SYSTEM INTERFACE ${view})
endfunction()

outrider_host_headers(outrider_cli11 CLI)
outrider_host_headers(outrider_json nlohmann)
# Both compile into what includes them; Debian has no archives of theirs.
outrider_host_headers(outrider_fmt fmt)
target_compile_definitions(outrider_fmt INTERFACE FMT_HEADER_ONLY)
outrider_host_headers(outrider_spdlog spdlog)
target_compile_definitions(outrider_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(outrider_spdlog INTERFACE outrider_fmt Threads::Threads)
# Highway with our own dispatch (common/base/vector_targets.h). Only its assertions, which sanitizer builds
# and the preset debug enable, need the library.
outrider_host_headers(outrider_highway hwy)
if(NOT CMAKE_CROSSCOMPILING AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  find_library(OUTRIDER_HWY_LIBRARY hwy REQUIRED)
  target_link_libraries(outrider_highway INTERFACE ${OUTRIDER_HWY_LIBRARY})
endif()
