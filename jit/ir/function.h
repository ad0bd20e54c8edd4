// Tile IR: functions of ops in SSA form with regions. Recorded by dsl, rewritten by passes, lowered by codegen.
// A Function owns everything in it; ops and values are named by plain pointers that live as long as it does.
#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tileweave/jit/base/place.h"
#include "tileweave/jit/ir/ops.h"
#include "tileweave/jit/ir/type.h"

namespace tileweave::ir {

struct Op;
struct Region;

struct Value {
  Type type;
  Op* def = nullptr;         // the op that makes it; null for region arguments and parameters
  Region* region = nullptr;  // the region whose argument it is
  int index = 0;             // which result or argument
  std::string name;          // as in the user's source where known; never part of a key
};

// Attribute names. One list, so that the printer, the parser and the key agree.
enum class AttrKey : std::uint8_t {
  axis,
  extents,
  perm,
  value,
  start,
  pad,
  masked,
  inbounds,
  combine,
  saturate,
  precision,
  starts,
  reverse,
  descending,
  hint,
  text,         // what the user wrote: a label, a message, source
  place,        // "file:line", where it is part of what the kernel does
  name,         // of a function
  constraints,  // of inline PTX
  order,        // of an atomic: relaxed acquire release acq_rel
  scope         // of an atomic: block device system
};
std::string_view attr_name(AttrKey k);
std::optional<AttrKey> attr_from_name(std::string_view name);

using AttrValue = std::variant<std::int64_t, std::string, std::vector<std::int64_t>>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<AttrKey, AttrValue>> list);
  void set(AttrKey k, AttrValue v);  // kept sorted by key
  void erase(AttrKey k);
  const AttrValue* find(AttrKey k) const;
  std::int64_t get_int(AttrKey k, std::int64_t otherwise = 0) const;
  const std::string& get_text(AttrKey k) const;                // "" where absent
  const std::vector<std::int64_t>& get_list(AttrKey k) const;  // empty where absent
  const std::vector<std::pair<AttrKey, AttrValue>>& items() const { return items_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::vector<std::pair<AttrKey, AttrValue>> items_;
};

struct Region {
  Op* parent = nullptr;  // null for a function's body
  std::vector<Value*> args;
  std::vector<std::unique_ptr<Op>> ops;
};

struct Op {
  OpId id;
  std::vector<Value*> operands;
  std::vector<Value*> results;
  Attrs attrs;
  std::vector<std::unique_ptr<Region>> regions;
  Place place;
  Region* parent = nullptr;
  Value* result() const { return results.empty() ? nullptr : results[0]; }
};

// What a launch knows about a view beyond its type. Part of the cache key; all-default is the generic variant.
struct ViewFacts {
  std::uint8_t unit_stride = 0;     // bit i: stride i is 1
  std::uint8_t zero_stride = 0;     // bit i: stride i is 0
  std::uint8_t aligned_stride = 0;  // bit i: stride i is a multiple of 16 bytes
  bool aligned_base = false;        // base pointer is a multiple of 16 bytes
  bool offsets_fit_32 = false;      // every element offset (and extent) fits a signed 32-bit integer
  bool may_alias = false;           // overlaps another view of the launch, at least one of them written
  friend bool operator==(const ViewFacts&, const ViewFacts&) = default;
};

struct Param {
  Value* value = nullptr;
  ViewFacts facts;                        // views only
  std::optional<std::uint64_t> constant;  // tw::Specialized<T>: the element's bits
};

// Options of a launch that change code. Part of the cache key.
struct Options {
  int warps = 0;   // 0: chosen by the compiler
  int stages = 0;  // 0: chosen by the compiler
  bool fast_math = false;
  bool contract = true;   // a * b + c within one expression becomes fma, by one pass of ours
  bool checked = false;   // bounds-checked accesses
  bool overflow = false;  // additions, subtractions and products of signed integers that overflow fail the launch
  int debug = 0;          // 0, 1 lines, 2 full
  friend bool operator==(const Options&, const Options&) = default;
};

class Function {
 public:
  explicit Function(std::string name);
  Function(Function&&) noexcept = default;
  Function& operator=(Function&&) noexcept = default;

  std::string name;
  Place place;
  std::vector<Param> params;
  Options options;
  // The functions that a kernel calls and those that they call, each before its callers; empty in the callees
  // themselves. A callee's parameters are of any type, and its body ends in a yield of its results.
  std::vector<Function> callees;
  // The callee of this name; null where there is none.
  const Function* find_callee(std::string_view callee) const;
  Region& body() { return *body_; }
  const Region& body() const { return *body_; }

  Value* add_param(Type t, std::string name);
  Value* new_value(Type t);
  // A deep copy; places and names included.
  Function clone() const;
  // Frees nothing by itself; values of erased ops stay allocated until the function goes.

 private:
  std::unique_ptr<Region> body_;
  std::deque<std::unique_ptr<Value>> values_;
};

// Canonical text: values numbered in order, no places, no names: equal text means equal code. This is what is hashed.
std::string to_text(const Function& f);
// The same with user names and `; file:line` comments.
std::string to_readable(const Function& f);
std::ostream& operator<<(std::ostream& out, const Function& f);
// Reads what to_text or to_readable wrote. Throws CompileError with the line on malformed text; the result is verified.
Function parse(std::string_view text);

// A path with static storage, for Place::file of functions that were read from text.
const char* intern_path(std::string_view path);

enum class Stage : std::uint8_t { recorded, promoted, expanded, lowered };
// Throws InternalError (or RecordError with the user's place for limits a user can meet) naming the op and the rule
// broken.
void verify(const Function& f, Stage stage);

}  // namespace tileweave::ir
