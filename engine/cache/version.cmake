# Writes OUT: a number that changes with any of FILES, which decide what a compiled graph is.
set(all "")
foreach(file ${FILES})
  file(SHA256 ${file} one)
  string(APPEND all ${one})
endforeach()
string(SHA256 all "${all}")
string(SUBSTRING ${all} 0 16 all)
file(WRITE ${OUT} "/* Made from the sources of builders, passes and operators. */\n#define GRAFT_COMPILE_SOURCES 0x${all}u\n")
