# One folder = one target. lockstep_library(NAME SOURCES... [DEPS...]) makes the static library lockstep_NAME of this
# folder; lockstep_tests(NAME SOURCES... [DEPS...] [LABELS...] [SEPARATE]) its test program NAME_tests.

function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(lockstep_${name} STATIC ${arg_SOURCES})
  target_include_directories(lockstep_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                     $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(lockstep_${name} PUBLIC ${arg_DEPS} PRIVATE lockstep_flags ${arg_PRIVATE_DEPS})
endfunction()

# ARGS are passed to the program; LABELS are CTest's (slow suites carry `slow`).
function(lockstep_tests name)
  if(NOT LOCKSTEP_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LABELS;ARGS;ENVIRONMENT" ${ARGN})
  add_executable(${name}_tests ${arg_SOURCES})
  set_target_properties(${name}_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests
                                                 BUILD_RPATH ${PROJECT_BINARY_DIR}/lib)
  target_link_libraries(${name}_tests PRIVATE ${arg_DEPS} lockstep_flags GTest::gtest_main Threads::Threads)
  add_test(NAME ${name} COMMAND ${name}_tests ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
