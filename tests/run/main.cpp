// The main of the run tests: everything here runs on Device::best(), which TILEWEAVE_DEVICE names.
// One executable: kernels, variants, tensor expressions, ops, fusion groups.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
