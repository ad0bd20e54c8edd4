// The GPU primitives as an enum with their facts, and their declarations in an LLVM module: expanded from
// primitives.def. The GPU lowering declares and calls them; nvptx.cpp gives them bodies, simt.cpp leaves them to the
// machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tileweave/jit/base/place.h"

namespace llvm {
class Function;
class FunctionType;
class LLVMContext;
class Module;
}  // namespace llvm

namespace tileweave::codegen {

enum class PrimitiveId : std::uint8_t {
#define TILEWEAVE_PRIMITIVE(id, elements, result, arguments, effect, text) id,
#include "tileweave/jit/codegen/primitives.def"
};

inline constexpr int primitive_count = 0
#define TILEWEAVE_PRIMITIVE(id, elements, result, arguments, effect, text) +1
#include "tileweave/jit/codegen/primitives.def"
    ;

enum class PrimitiveEffect : std::uint8_t { pure, warp, reads, writes, sync };

// What a primitive works on; the enumerator's name is the suffix of the function's name.
enum class Element : std::uint8_t {
  none,
  i8,
  i16,
  i32,
  i64,
  u32,
  u64,
  f32,
  f64,
  v2i32,
  v4i32,
  f16x2,
  bf16x2,
  f16,
  bf16,
  tf32,
  s8,
  e4m3,
  e5m2,
  e4m3_e4m3,
  e4m3_e5m2,
  e5m2_e4m3,
  e5m2_e5m2
};

// The constant `hint` of global_load and global_store.
enum class CacheHint : std::uint8_t {
  none = 0,
  read_only = 1,    // loads: nobody writes it while the kernel runs (ld.global.nc)
  no_allocate = 2,  // L1::no_allocate
  streaming = 3,    // used once: evict first (ld.cs, st.cs)
  keep = 4,         // used again: evict last
  volatile_ = 5     // performed as it stands: not merged, left out or repeated
};

struct PrimitiveInfo {
  std::string_view name;
  std::string_view elements;   // "" or names with blanks between
  std::string_view result;     // one type letter, see primitives.def
  std::string_view arguments;  // type letters
  PrimitiveEffect effect;
  std::string_view text;
};
const PrimitiveInfo& primitive_info(PrimitiveId id);
std::string_view element_name(Element e);
bool has_element(PrimitiveId id, Element e);

// One function of a row: its element, and for the letter A the number of accumulators (0 elsewhere).
struct PrimitiveUse {
  PrimitiveId id = PrimitiveId::thread_id;
  Element element = Element::none;
  int accumulators = 0;
  friend bool operator==(const PrimitiveUse&, const PrimitiveUse&) = default;
};
// "tw.shared_load.v4i32", "tw.wgmma_ss.bf16.n128".
std::string primitive_name(const PrimitiveUse& use);
// What the function with this name is; nothing for other functions.
std::optional<PrimitiveUse> primitive_from_name(std::string_view name);

llvm::FunctionType* primitive_type(llvm::LLVMContext& context, const PrimitiveUse& use);
// The function of this module, declared at the first call with the attributes of its effect. An element that the row
// lacks is an InternalError.
llvm::Function* declare_primitive(llvm::Module& module, const PrimitiveUse& use);
llvm::Function* declare_primitive(llvm::Module& module, PrimitiveId id, Element element = Element::none,
                                  int accumulators = 0);

// What a module says about itself to the machine, as named metadata; NVPTX ignores it.

// The user's places behind the `site` constants: !tw.sites. Number 0 is "not known".
class SiteTable {
 public:
  int add(const Place& place);  // equal places have one number
  void attach(llvm::Module& module) const;
  const std::vector<Place>& places() const { return places_; }

 private:
  std::vector<Place> places_{Place{}};
  std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, int> numbers_;
};

// The texts behind the `text` constants of assert_true and print_value: !tw.texts.
class TextTable {
 public:
  int add(const std::string& text);
  void attach(llvm::Module& module) const;

 private:
  std::vector<std::string> texts_;
};

// A view among the kernel's slots (abi.h): the machine allows global accesses to the bytes it covers. !tw.views.
struct ViewParam {
  int slot = 0;
  int rank = 0;
  int element_bytes = 1;  // 0: a pointer, which may reach anything
};
void attach_views(llvm::Module& module, const std::vector<ViewParam>& views);

}  // namespace tileweave::codegen
