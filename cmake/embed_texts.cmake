# Writes OUT, a source in which each constant of TEXTS (NAME file.. NAME file..) holds its files, one after the other.
cmake_policy(VERSION 3.25)
string(JOIN "\n" source
  "#include <string_view>"
  ""
  "#pragma GCC diagnostic push"
  "#pragma GCC diagnostic ignored \"-Woverlength-strings\"" # clang warns beyond 65,536 characters
  "namespace outrider {")
set(end "")
foreach(word IN LISTS TEXTS)
  if(word MATCHES "^k[A-Z]")
    string(APPEND source "${end}\n\nextern const std::string_view ${word};\nconst std::string_view ${word} =")
    set(end ";")
    continue()
  endif()
  file(READ ${word} text)
  string(FIND "${text}" ")text\"" literal_end)
  if(NOT literal_end EQUAL -1)
    message(FATAL_ERROR "${word} has )text\", which ends a literal. Remedy: write it otherwise")
  endif()
  string(APPEND source "\n    R\"text(${text})text\"")
endforeach()
string(APPEND source ";\n\n}  // namespace outrider\n#pragma GCC diagnostic pop\n")
file(WRITE ${OUT} "${source}")
