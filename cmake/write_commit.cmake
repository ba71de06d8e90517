# Writes FILE with the commit of SOURCE_DIR as OUTRIDER_COMMIT if the commit has changed, so that users of
# FILE are recompiled only then.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
set(text "#define OUTRIDER_COMMIT \"${commit}\"\n")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT text STREQUAL "${before}")
  file(WRITE ${FILE} "${text}")
endif()
