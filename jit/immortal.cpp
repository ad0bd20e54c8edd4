// Nothing in libtileweave_jit is destroyed at exit: LLVM's statics must outlive compiles that run in other threads
// while the process ends, and kernels that are launched from other objects' destructors. Linked into that library
// alone, and hidden there: the compiler registers destructors of statics by this name (Itanium C++ ABI, 3.3.6.3), and
// finds this one.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
