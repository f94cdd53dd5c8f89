# cmake -DINPUT=file -DOUTPUT=file.cc -DNAMESPACE=a::b -DNAME=symbol -P EmbedFile.cmake
# Writes the bytes of a file as a C++ array; with INPUT empty, an empty one.
set(bytes "0")
set(size 0)
if(INPUT)
  file(READ ${INPUT} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
endif()
file(WRITE ${OUTPUT} "#include <cstddef>
namespace ${NAMESPACE} {
extern const unsigned char ${NAME}[];
extern const std::size_t ${NAME}_size;
const unsigned char ${NAME}[] = {${bytes}};
const std::size_t ${NAME}_size = ${size};
}
")
