// Opens NVRTC and merges what it makes into a kernel's PTX. See nvrtc.h.
// The interface is NVRTC's C API (NVIDIA's NVRTC documentation), unchanged since CUDA 11.
#include "tileweave/jit/codegen/nvrtc.h"

#include <dlfcn.h>

#include <llvm/IR/Metadata.h>

#include <algorithm>
#include <vector>

#include "tileweave/jit/base/error.h"

namespace tileweave::codegen {
namespace {

constexpr const char* node_name = "tw.cuda";

template <class F>
bool find(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  return f != nullptr;
}

class Nvrtc {
 public:
  // Opened at the first call and never closed.
  static const Nvrtc& get() {
    static const Nvrtc library;
    return library;
  }
  bool is_there() const { return create_ != nullptr; }

  // PTX; `log` where the source does not compile (then the PTX is empty).
  std::string compile(const std::string& source, const std::string& target, std::string& log) const {
    Program program = nullptr;
    if (create_(&program, source.c_str(), "device_function.cu", 0, nullptr, nullptr) != 0) return {};
    const std::string arch = "--gpu-architecture=compute_" + target.substr(3);
    // As everywhere: no contraction behind the user's back.
    const char* options[] = {arch.c_str(), "--relocatable-device-code=true", "--std=c++17", "--fmad=false"};
    const int result = compile_(program, 4, options);
    std::string ptx;
    std::size_t size = 0;
    if (result == 0 && ptx_size_(program, &size) == 0 && size > 0) {
      ptx.resize(size);
      ptx_(program, ptx.data());
      ptx.resize(std::min(ptx.size(), ptx.find('\0')));
    } else if (log_size_(program, &size) == 0 && size > 1) {
      log.resize(size);
      log_(program, log.data());
      log.resize(log.find_last_not_of(std::string("\0\n", 2)) + 1);
    }
    destroy_(&program);
    return ptx;
  }

 private:
  using Program = void*;

  Nvrtc() {
    void* library = nullptr;
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    const bool all = find(library, "nvrtcDestroyProgram", destroy_) && find(library, "nvrtcCompileProgram", compile_) &&
                     find(library, "nvrtcGetPTXSize", ptx_size_) && find(library, "nvrtcGetPTX", ptx_) &&
                     find(library, "nvrtcGetProgramLogSize", log_size_) && find(library, "nvrtcGetProgramLog", log_) &&
                     find(library, "nvrtcCreateProgram", create_);
    if (!all) create_ = nullptr;
  }

  int (*create_)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*ptx_size_)(Program, std::size_t*) = nullptr;
  int (*ptx_)(Program, char*) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*log_)(Program, char*) = nullptr;
};

const char* cuda_type(Dtype t) {
  switch (t) {
    case Dtype::f32:
      return "float";
    case Dtype::f64:
      return "double";
    case Dtype::i32:
      return "int";
    case Dtype::u32:
      return "unsigned";
    case Dtype::i64:
      return "long long";
    default:
      return "unsigned long long";
  }
}

// "tileweave_twin_mix_0123456789abcdef" -> "mix"
std::string users_name(const std::string& symbol) {
  const std::size_t first = std::string_view("tileweave_twin_").size(), last = symbol.rfind('_');
  return symbol.substr(first, last - first);
}

// A function of a known symbol around the user's, whose own name C++ may mangle.
std::string wrapper(const ir::Op& op) {
  const std::string& symbol = op.attrs.get_text(ir::AttrKey::name);
  std::string parameters, arguments;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    parameters += (i == 0 ? "" : ", ") + std::string(cuda_type(op.operands[i]->type.elem)) + " " + name;
    arguments += (i == 0 ? "" : ", ") + name;
  }
  return "\nextern \"C\" __device__ " + std::string(cuda_type(op.results[0]->type.elem)) + " " + symbol + "(" +
         parameters + ") { return " + users_name(symbol) + "(" + arguments + "); }\n";
}

struct CudaFunction {
  std::string symbol, source;
  Place place;
};

std::string text_of(const llvm::MDNode& n, unsigned i) {
  return llvm::cast<llvm::MDString>(n.getOperand(i))->getString().str();
}

std::vector<CudaFunction> functions_of(const llvm::Module& m) {
  std::vector<CudaFunction> list;
  const llvm::NamedMDNode* node = m.getNamedMetadata(node_name);
  if (node == nullptr) return list;
  for (const llvm::MDNode* n : node->operands()) {
    const std::string line = text_of(*n, 3);
    list.push_back({text_of(*n, 0), text_of(*n, 1),
                    Place(ir::intern_path(text_of(*n, 2)), static_cast<std::uint32_t>(std::stoul(line)))});
  }
  return list;
}

std::string compiled(const CudaFunction& f, const Target& target) {
  const Nvrtc& nvrtc = Nvrtc::get();
  if (!nvrtc.is_there()) {
    throw_compile_error(f.place,
                        "'" + users_name(f.symbol) + "' is CUDA C++, which NVRTC compiles, and there is no libnvrtc",
                        "install the CUDA toolkit's NVRTC (libnvrtc.so.12 or .13) where the loader finds it, ship the "
                        "kernel in a pack, or write the function as tw::inline_ptx");
  }
  std::string log;
  std::string ptx = nvrtc.compile(f.source, target.cpu, log);
  if (ptx.empty()) {
    throw_compile_error(f.place, "NVRTC refuses the device function '" + users_name(f.symbol) + "':\n" + log,
                        "the source is that of tw::cuda_function; line numbers count within it");
  }
  return ptx;
}

// What NVRTC gave without its header lines: .version, .target, .address_size stand once in a file.
std::string without_header(const std::string& ptx) {
  std::string out;
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size());
    const std::string_view line(ptx.data() + at, end - at);
    const bool is_header =
        line.starts_with(".version") || line.starts_with(".target") || line.starts_with(".address_size");
    if (!is_header) out += std::string(line) + "\n";
    at = end + 1;
  }
  return out;
}

// The declaration that LLVM wrote for a function without a body: from ".extern .func" to its semicolon.
void erase_declaration(std::string& ptx, const std::string& symbol) {
  for (std::size_t at = ptx.find(".extern .func"); at != std::string::npos; at = ptx.find(".extern .func", at + 1)) {
    const std::size_t end = ptx.find(';', at);
    if (end == std::string::npos) return;
    if (ptx.substr(at, end - at).find(symbol) == std::string::npos) continue;
    ptx.erase(at, end + 1 - at);
    return;
  }
}

std::string version_of(const std::string& ptx) {
  const std::size_t at = ptx.find(".version ");
  return at == std::string::npos ? "" : ptx.substr(at, ptx.find('\n', at) - at);
}

}  // namespace

void add_cuda_function(llvm::Module& m, const ir::Op& op) {
  llvm::LLVMContext& c = m.getContext();
  const std::string& symbol = op.attrs.get_text(ir::AttrKey::name);
  if (is_cuda_function(m, symbol)) return;
  const std::string source = op.attrs.get_text(ir::AttrKey::text) + wrapper(op);
  m.getOrInsertNamedMetadata(node_name)->addOperand(llvm::MDNode::get(
      c, {llvm::MDString::get(c, symbol), llvm::MDString::get(c, source), llvm::MDString::get(c, op.place.file),
          llvm::MDString::get(c, std::to_string(op.place.line))}));
}

bool is_cuda_function(const llvm::Module& m, llvm::StringRef name) {
  const llvm::NamedMDNode* node = m.getNamedMetadata(node_name);
  if (node == nullptr) return false;
  return std::any_of(node->op_begin(), node->op_end(), [&](const llvm::MDNode* n) { return text_of(*n, 0) == name; });
}

std::string with_cuda_functions(const llvm::Module& m, std::string ptx, const Target& target) {
  for (const CudaFunction& f : functions_of(m)) {
    const std::string made = compiled(f, target);
    erase_declaration(ptx, f.symbol);
    // The newer of the two versions: it knows both texts.
    const std::string ours = version_of(ptx), theirs = version_of(made);
    if (theirs.size() > ours.size() || (theirs.size() == ours.size() && theirs > ours)) {
      ptx.replace(ptx.find(ours), ours.size(), theirs);
    }
    const std::size_t header_end = ptx.find('\n', ptx.find(".address_size"));
    ptx.insert(header_end + 1, without_header(made));
  }
  return ptx;
}

}  // namespace tileweave::codegen
