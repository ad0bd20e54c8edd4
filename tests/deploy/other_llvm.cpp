// Another LLVM in the same process: it compiles and runs a function before, after and between our kernels.
// Usage: other_llvm LIBRARY first|second: which of the two is loaded first. Only LLVM's C interface, by dlsym.
#include <dlfcn.h>
#include <tileweave/tileweave.h>

#include <cstdio>
#include <string>

namespace tw = tileweave;

namespace {

void* library = nullptr;

template <class F>
F* find(const char* name) {
  void* f = ::dlsym(library, name);
  if (f == nullptr) std::printf("the library has no %s\n", name);
  return reinterpret_cast<F*>(f);
}

bool open_library(const char* path) {
  library = ::dlopen(path, RTLD_NOW | RTLD_GLOBAL);  // global: the worst case, its symbols are seen by all that follow
  if (library == nullptr) std::printf("%s\n", ::dlerror());
  return library != nullptr;
}

// int f(int x) { return x + 1; } by MCJIT.
bool other_works() {
  using P = void*;
  for (const char* name : {"LLVMInitializeX86TargetInfo", "LLVMInitializeX86Target", "LLVMInitializeX86TargetMC",
                           "LLVMInitializeX86AsmPrinter", "LLVMLinkInMCJIT"}) {
    find<void()>(name)();
  }
  P context = find<P()>("LLVMContextCreate")();
  P module = find<P(const char*, P)>("LLVMModuleCreateWithNameInContext")("other", context);
  P i32 = find<P(P)>("LLVMInt32TypeInContext")(context);
  P parameters[] = {i32};
  P type = find<P(P, P*, unsigned, int)>("LLVMFunctionType")(i32, parameters, 1, 0);
  P function = find<P(P, const char*, P)>("LLVMAddFunction")(module, "f", type);
  P block = find<P(P, P, const char*)>("LLVMAppendBasicBlockInContext")(context, function, "entry");
  P builder = find<P(P)>("LLVMCreateBuilderInContext")(context);
  find<void(P, P)>("LLVMPositionBuilderAtEnd")(builder, block);
  P one = find<P(P, unsigned long long, int)>("LLVMConstInt")(i32, 1, 0);
  P sum = find<P(P, P, P, const char*)>("LLVMBuildAdd")(builder, find<P(P, unsigned)>("LLVMGetParam")(function, 0), one,
                                                        "sum");
  find<P(P, P)>("LLVMBuildRet")(builder, sum);
  P engine = nullptr;
  char* problem = nullptr;
  if (find<int(P*, P, char**)>("LLVMCreateExecutionEngineForModule")(&engine, module, &problem) != 0) {
    std::printf("the other LLVM: %s\n", problem);
    return false;
  }
  const auto address = find<std::uint64_t(P, const char*)>("LLVMGetFunctionAddress")(engine, "f");
  const bool right = reinterpret_cast<int (*)(int)>(address)(41) == 42;
  find<void(P)>("LLVMDisposeBuilder")(builder);
  find<void(P)>("LLVMDisposeExecutionEngine")(engine);
  find<void(P)>("LLVMContextDispose")(context);
  return right;
}

template <int step>
bool ours_works() {
  const auto add = tw::kernel("add", [](tw::View<const float, 1> x, tw::View<float, 1> y) {
    tw::store(y, {0}, tw::exp(tw::load(x, {0}, {64})) + static_cast<float>(step));
  });
  const tw::Device device = tw::Device::cpu();
  auto x = tw::Tensor<float>::zeros(device, {64});
  auto y = tw::Tensor<float>::empty(device, {64});
  add.launch(device.stream(), {1}, x, y);
  return y.to_host()[63] == 1 + static_cast<float>(step);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const bool other_first = arguments[2] == std::string("first");
  if (other_first && !(open_library(arguments[1]) && other_works())) return 1;
  if (!ours_works<1>()) return std::puts("ours is wrong"), 1;
  if (!other_first && !open_library(arguments[1])) return 1;
  if (!other_works() || !ours_works<2>() || !other_works() || !ours_works<3>()) return std::puts("one is wrong"), 1;
  if (tw::cache_counters().compiled != 3) return std::puts("something was not compiled"), 1;
  std::puts("both work");
}
