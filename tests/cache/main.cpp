// The process tests' main: doctest's, in a program of its own because it starts others.
// See process.h.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
