// The table of primitives against its machine: every row has a function of the same signature, and nothing else is
// there. Names parse back to what they were made of.
#include <doctest/doctest.h>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <map>
#include <sstream>
#include <string>

#include "tileweave/jit/codegen/primitives.h"
#include "tileweave/jit/runtime/simt_machine.h"

using namespace tileweave;
using namespace tileweave::codegen;

namespace {

// The signature that simt_symbols() must have: small integers are all 'i', accumulators a pointer and a count.
std::string host_letters(const PrimitiveUse& use) {
  const PrimitiveInfo& info = primitive_info(use.id);
  std::string out;
  for (const char letter : std::string(info.result) + std::string(info.arguments)) {
    const bool is_result = out.empty();
    switch (letter) {
      case 'A':
        out += is_result ? "v" : "pi";
        break;
      case 'T':
        switch (use.element) {
          case Element::i64:
          case Element::u64:
            out += 'l';
            break;
          case Element::f32:
            out += 'f';
            break;
          case Element::f64:
            out += 'd';
            break;
          case Element::v2i32:
            out += '2';
            break;
          case Element::v4i32:
            out += '4';
            break;
          default:
            out += 'i';
        }
        break;
      case 'b':
      case 'c':
      case 'h':
        out += 'i';
        break;
      default:
        out += letter;
    }
  }
  return out;
}

template <class F>
void for_each_use(F&& f) {
  for (int i = 0; i < primitive_count; ++i) {
    const auto id = static_cast<PrimitiveId>(i);
    if (primitive_info(id).elements.empty()) f(PrimitiveUse{id, Element::none, 0});
    for (int e = 1; e <= static_cast<int>(Element::e5m2_e5m2); ++e) {
      if (has_element(id, static_cast<Element>(e))) f(PrimitiveUse{id, static_cast<Element>(e), 0});
    }
  }
}

}  // namespace

TEST_CASE("every primitive has a function of its signature in the machine, and only those are there") {
  std::map<std::string, std::string> functions;
  for (const auto& s : runtime::simt::simt_signatures()) {
    CHECK_MESSAGE(functions.emplace(s.name, s.letters).second, "twice: " << s.name);
  }
  std::size_t uses = 0;
  for_each_use([&](const PrimitiveUse& use) {
    ++uses;
    const std::string name = primitive_name(use);
    CAPTURE(name);
    REQUIRE(functions.count(name) == 1);
    CHECK(functions[name] == host_letters(use));
  });
  CHECK(uses == functions.size());
}

TEST_CASE("elements of the table are known by name") {
  for (int i = 0; i < primitive_count; ++i) {
    const auto id = static_cast<PrimitiveId>(i);
    std::istringstream words{std::string(primitive_info(id).elements)};
    int listed = 0, known = 0;
    for (std::string w; words >> w;) ++listed;
    for (int e = 1; e <= static_cast<int>(Element::e5m2_e5m2); ++e) known += has_element(id, static_cast<Element>(e));
    CHECK_MESSAGE(listed == known, primitive_info(id).name);
  }
}

TEST_CASE("names read back") {
  for_each_use([](PrimitiveUse use) {
    if (primitive_info(use.id).arguments.find('A') != std::string_view::npos) use.accumulators = 128;
    const auto back = primitive_from_name(primitive_name(use));
    REQUIRE(back.has_value());
    CHECK(*back == use);
  });
  for (const char* wrong :
       {"tw.", "tw.shuffle", "tw.shared_load", "tw.shared_load.f16", "tw.thread_id.i32", "tw.wgmma_ss.f16",
        "tw.wgmma_ss.f16.n", "tw.wgmma_ss.f16.n0", "llvm.fma.f32", "thread_id"}) {
    CHECK_MESSAGE(!primitive_from_name(wrong).has_value(), wrong);
  }
}

TEST_CASE("every site is the last argument, and is taken by all that can fail or wait") {
  for_each_use([](const PrimitiveUse& use) {
    const PrimitiveInfo& info = primitive_info(use.id);
    const bool has_site =
        info.effect != PrimitiveEffect::pure && use.id != PrimitiveId::nanosleep && use.id != PrimitiveId::clock;
    if (has_site) CHECK_MESSAGE(info.arguments.ends_with('i'), info.name);
  });
}

TEST_CASE("declarations carry what the optimiser may do with them") {
  llvm::LLVMContext context;
  llvm::Module m("m", context);
  llvm::Function* shuffle = declare_primitive(m, PrimitiveId::shuffle_bfly);
  CHECK(shuffle->isConvergent());
  CHECK(declare_primitive(m, PrimitiveId::shuffle_bfly) == shuffle);
  CHECK(declare_primitive(m, PrimitiveId::block_barrier)->isConvergent());
  CHECK_FALSE(declare_primitive(m, PrimitiveId::block_barrier)->doesNotAccessMemory());
  CHECK(declare_primitive(m, PrimitiveId::thread_id)->doesNotAccessMemory());
  CHECK(declare_primitive(m, PrimitiveId::global_load, Element::i32)->onlyReadsMemory());
  CHECK_FALSE(declare_primitive(m, PrimitiveId::global_store, Element::i32)->onlyReadsMemory());
}
