# Debian's libraries that programs link, found in one place and linked as archives. A program then needs the C and C++
# libraries only, so it runs on every Linux that is not older than glibc 2.34 and GCC 12. Under a sanitizer they are
# shared libraries, which are not instrumented.
include_guard()

if(OUTRIDER_SANITIZE)
  set(OUTRIDER_LIBRARY_SUFFIX .so)
else()
  set(OUTRIDER_LIBRARY_SUFFIX .a)
endif()

# outrider_debian_library(TARGET name..): an imported target of these, each after those that need it.
function(outrider_debian_library target)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  foreach(name ${ARGN})
    find_library(OUTRIDER_LIB_${name}${OUTRIDER_LIBRARY_SUFFIX} lib${name}${OUTRIDER_LIBRARY_SUFFIX})
    set(file ${OUTRIDER_LIB_${name}${OUTRIDER_LIBRARY_SUFFIX}})
    if(NOT file)
      message(FATAL_ERROR "lib${name}${OUTRIDER_LIBRARY_SUFFIX} not found. Remedy: ./run setup")
    endif()
    target_link_libraries(${target} INTERFACE ${file})
  endforeach()
endfunction()

# Makes an imported target of a package name its archive, where Debian has one beside the shared library.
function(outrider_take_archive target)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  set(properties IMPORTED_LOCATION)
  if(configurations)
    list(TRANSFORM configurations PREPEND IMPORTED_LOCATION_ OUTPUT_VARIABLE others)
    list(APPEND properties ${others})
  endif()
  foreach(property IN LISTS properties)
    get_target_property(shared ${target} ${property})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
    if(archive MATCHES "\\.a$" AND EXISTS ${archive})
      set_target_properties(${target} PROPERTIES ${property} ${archive})
    endif()
  endforeach()
endfunction()

# ICU's data has 31 MB, of which programs use what NFKC and NFKD look up; the rest of what they use is code.
# Adds the target outrider_icu_data.
function(outrider_trim_icu_data)
  find_library(OUTRIDER_ICU_DATA libicudata.a REQUIRED)
  find_program(OUTRIDER_ICUPKG icupkg PATHS /usr/sbin REQUIRED)
  execute_process(COMMAND ${CMAKE_AR} t ${OUTRIDER_ICU_DATA} OUTPUT_VARIABLE member OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "_dat\\.a?o$" "" name "${member}") # icudt72l
  string(REGEX REPLACE "l$" "_dat" symbol "${name}")
  set(folder ${CMAKE_BINARY_DIR}/icu)
  file(MAKE_DIRECTORY ${folder}/whole)
  add_custom_command(
    OUTPUT ${folder}/${name}.dat
    COMMAND ${CMAKE_AR} x ${OUTRIDER_ICU_DATA}
    COMMAND ${CMAKE_OBJCOPY} -O binary --only-section=.rodata ${member} whole/${name}.dat
    COMMAND ${OUTRIDER_ICUPKG} -x nfkc.nrm whole/${name}.dat
    COMMAND ${OUTRIDER_ICUPKG} -tl -a nfkc.nrm new ${name}.dat
    COMMAND ${CMAKE_COMMAND} -E rm ${member} whole/${name}.dat
    DEPENDS ${OUTRIDER_ICU_DATA}
    WORKING_DIRECTORY ${folder}
    VERBATIM)
  file(CONFIGURE OUTPUT ${folder}/icu_data.cc @ONLY CONTENT [[
// ICU's data as libicuuc.a looks for them.
asm(R"(
  .section .rodata
  .global @symbol@
  .balign 16
@symbol@:
  .incbin "@folder@/@name@.dat"
  .previous
)");
]])
  set_source_files_properties(${folder}/icu_data.cc PROPERTIES OBJECT_DEPENDS ${folder}/${name}.dat)
  add_library(outrider_icu_data STATIC ${folder}/icu_data.cc)
endfunction()

if(OUTRIDER_TEXT)
  outrider_debian_library(outrider_pcre2 pcre2-8)
  outrider_debian_library(outrider_icu icuuc)
  if(NOT OUTRIDER_SANITIZE)
    outrider_trim_icu_data()
    target_link_libraries(outrider_icu INTERFACE outrider_icu_data)
  endif()
  outrider_debian_library(outrider_uring uring)
  outrider_debian_library(outrider_edit edit bsd md tinfo)
endif()

if(OUTRIDER_RPC)
  find_package(OpenSSL REQUIRED)
  find_package(Protobuf REQUIRED)
  find_package(gRPC CONFIG REQUIRED)
  if(NOT OUTRIDER_SANITIZE)
    get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
    foreach(target IN LISTS imported)
      outrider_take_archive(${target})
    endforeach()
    # gRPC's package names this one as a flag.
    outrider_debian_library(outrider_re2 re2)
    set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES "outrider_re2;Threads::Threads")
  endif()
endif()
