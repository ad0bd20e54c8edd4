// The main of the error tests.
// One executable: record_test.cpp and launch_test.cpp.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
