// What the headers written by `tileweave fuse` are made of: typed values of one lane, variables, branches and loops.
// Running a body makes its graph (trace_graph.h); constants fold on the way, so loops of constant count unroll.
#pragma once

#include <cstring>
#include <source_location>
#include <string_view>
#include <tuple>

#include "tileweave/dsl/trace_graph.h"

namespace tileweave::trace {

// --- untyped, in trace.cpp; all act on the graph that this thread traces
NodeId constant_node(Dtype type, std::uint64_t bits);
NodeId op_node(ir::OpId id, std::initializer_list<NodeId> operands);
NodeId convert_node(NodeId x, Dtype to);
NodeId bitcast_node(NodeId x, Dtype to);
NodeId table_node(Dtype type, std::span<const std::uint64_t> bits, NodeId index);
void place_statement(const Place& p);
void declare(NodeId* variable, bool is_counter);
void retire(NodeId* variable) noexcept;
void assign(NodeId* variable, NodeId value);
using Step = void (*)(void* callable);
using Test = NodeId (*)(void* callable);
void branch(NodeId condition, Step then, void* then_object, Step otherwise, void* otherwise_object);
void loop(Test condition, void* condition_object, Step body, void* body_object, Step increment, void* increment_object);
NodeId choose(NodeId condition, Test a, void* a_object, Test b, void* b_object);
void leave(std::span<const NodeId> values);
void block(Step body, void* body_object);
void leave_loop();
void next_iteration();
// Runs `body` as a called function; gives what it returns.
std::vector<NodeId> inlined(std::string_view name, std::span<const Dtype> results, Step body, void* object);
// Traces `body`, which gets one argument node for each parameter, into a graph of its own.
Graph trace_graph(std::string_view name, std::span<const Dtype> parameters, std::span<const Dtype> results,
                  void (*body)(const NodeId* arguments));

template <class T>
std::uint64_t bits_of(T v) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}

// --- values
template <class T>
class Value {
 public:
  using elem = T;
  Value(T constant) : id_(constant_node(dtype_of<T>, bits_of(constant))) {}
  explicit Value(NodeId id, std::nullptr_t) : id_(id) {}
  NodeId id() const { return id_; }

#define TILEWEAVE_TRACE_OPERATOR(symbol, op, R)                       \
  friend Value<R> operator symbol(const Value & a, const Value & b) { \
    return Value<R>(op_node(ir::OpId::op, {a.id_, b.id_}), nullptr);  \
  }
  TILEWEAVE_TRACE_OPERATOR(+, add, T)
  TILEWEAVE_TRACE_OPERATOR(-, sub, T)
  TILEWEAVE_TRACE_OPERATOR(*, mul, T)
  TILEWEAVE_TRACE_OPERATOR(/, div, T)
  TILEWEAVE_TRACE_OPERATOR(%, rem, T)
  TILEWEAVE_TRACE_OPERATOR(&, bit_and, T)
  TILEWEAVE_TRACE_OPERATOR(|, bit_or, T)
  TILEWEAVE_TRACE_OPERATOR(^, bit_xor, T)
  TILEWEAVE_TRACE_OPERATOR(<<, shl, T)
  TILEWEAVE_TRACE_OPERATOR(>>, shr, T)
  TILEWEAVE_TRACE_OPERATOR(==, eq, bool)
  TILEWEAVE_TRACE_OPERATOR(!=, ne, bool)
  TILEWEAVE_TRACE_OPERATOR(<, lt, bool)
  TILEWEAVE_TRACE_OPERATOR(<=, le, bool)
  TILEWEAVE_TRACE_OPERATOR(>, gt, bool)
  TILEWEAVE_TRACE_OPERATOR(>=, ge, bool)
#undef TILEWEAVE_TRACE_OPERATOR
  friend Value operator-(const Value& a) { return Value(op_node(ir::OpId::neg, {a.id_}), nullptr); }
  friend Value operator~(const Value& a) { return Value(op_node(ir::OpId::bit_not, {a.id_}), nullptr); }
  friend Value operator!(const Value& a)
    requires std::same_as<T, bool>
  {
    return Value(op_node(ir::OpId::bit_not, {a.id_}), nullptr);
  }

 protected:
  NodeId id_;
};

// A value of a statement: what was computed for it stands at the statement's place.
template <class T>
class Let : public Value<T> {
 public:
  Let(const Value<T>& v, const Place& p = std::source_location::current()) : Value<T>(v) { place_statement(p); }
  Let(T v, const Place& p = std::source_location::current()) : Value<T>(v) { place_statement(p); }
};

// A variable of the function.
template <class T>
class Local : public Value<T> {
 public:
  explicit Local(const Value<T>& v, const Place& p = std::source_location::current()) : Local(v, false) {
    place_statement(p);
  }
  explicit Local(T v) : Local(Value<T>(v), false) {}
  Local(const Local& o) : Local(o, false) {}
  ~Local() { retire(&this->id_); }
  Local& operator=(const Let<T>& v) { return set(v); }
  Local& operator=(const Local& o) {
    if (this != &o) set(o);
    return *this;
  }

#define TILEWEAVE_TRACE_ASSIGN(symbol) \
  Local& operator symbol##=(const Let<T>& v) { return set(*this symbol v); }
  TILEWEAVE_TRACE_ASSIGN(+)
  TILEWEAVE_TRACE_ASSIGN(-)
  TILEWEAVE_TRACE_ASSIGN(*)
  TILEWEAVE_TRACE_ASSIGN(/)
  TILEWEAVE_TRACE_ASSIGN(%)
  TILEWEAVE_TRACE_ASSIGN(&)
  TILEWEAVE_TRACE_ASSIGN(|)
  TILEWEAVE_TRACE_ASSIGN(^)
  TILEWEAVE_TRACE_ASSIGN(<<)
  TILEWEAVE_TRACE_ASSIGN(>>)
#undef TILEWEAVE_TRACE_ASSIGN
  // x++ and x--: the value before.
  Value<T> postfix(T step) {
    const Value<T> before = *this;
    set(*this + Value<T>(step));
    return before;
  }

 protected:
  Local(const Value<T>& v, bool is_counter) : Value<T>(v) { declare(&this->id_, is_counter); }

 private:
  Local& set(const Value<T>& v) {
    assign(&this->id_, v.id());
    return *this;
  }
};

// The variable of a for loop, which nobody reads after the loop.
template <class T>
class Counter : public Local<T> {
 public:
  explicit Counter(const Value<T>& v) : Local<T>(v, true) {}
  explicit Counter(T v) : Counter(Value<T>(v)) {}
  using Local<T>::operator=;
};

// --- operations by name
namespace op {

template <ir::OpId Id>
struct Function {
  static constexpr ir::OpTypes types = [] {
    switch (Id) {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  case ir::OpId::id:                                                                \
    return ir::OpTypes::types;
#include "tileweave/jit/ir/ops.def"
      default:
        return ir::OpTypes::structural;
    }
  }();
  // The first operand's type is that of all; a constant first is written Value<T>(constant).
  template <class T, class... A>
  auto operator()(const Value<T>& a, const A&... rest) const {
    using R = std::conditional_t<types == ir::OpTypes::Compare || types == ir::OpTypes::Test, bool, T>;
    return Value<R>(op_node(Id, {a.id(), static_cast<const Value<T>&>(rest).id()...}), nullptr);
  }
};

}  // namespace op

// where(c, a, b): a where c holds, else b.
template <class T>
Value<T> where(const Value<bool>& c, const Value<T>& a, const std::type_identity_t<Value<T>>& b) {
  return Value<T>(op_node(ir::OpId::where, {c.id(), a.id(), b.id()}), nullptr);
}

namespace op {
#define TILEWEAVE_OP(id, arity, types, algebra, meaning, llvm, gradient, ulp, text) \
  inline constexpr Function<ir::OpId::id> id{};
#include "tileweave/jit/ir/ops.def"
}  // namespace op

// A conversion as C++ does it, made total: float to integer saturates, NaN gives 0; integers wrap; to bool is x != 0.
template <class To, class From>
Value<To> to(const Value<From>& x) {
  return Value<To>(convert_node(x.id(), dtype_of<To>), nullptr);
}
template <class To, class From>
Value<To> bit_cast(const Value<From>& x) {
  static_assert(sizeof(To) == sizeof(From));
  return Value<To>(bitcast_node(x.id(), dtype_of<To>), nullptr);
}
// Element `index` of an array of constants; the first or last one beyond its ends.
template <class T, class I>
Value<T> table(std::initializer_list<T> values, const Value<I>& index) {
  std::vector<std::uint64_t> bits;
  for (const T v : values) bits.push_back(bits_of(v));
  return Value<T>(table_node(dtype_of<T>, bits, index.id()), nullptr);
}

// --- statements
namespace detail {
template <class F>
void run_step(void* f) {
  (*static_cast<F*>(f))();
}
template <class F>
NodeId run_test(void* f) {
  return (*static_cast<F*>(f))().id();
}
}  // namespace detail

// if (condition) then(); else otherwise();
template <class F>
void if_(const Value<bool>& condition, F then, const Place& p = std::source_location::current()) {
  place_statement(p);
  branch(condition.id(), detail::run_step<F>, &then, nullptr, nullptr);
}
template <class F, class G>
void if_(const Value<bool>& condition, F then, G otherwise, const Place& p = std::source_location::current()) {
  place_statement(p);
  branch(condition.id(), detail::run_step<F>, &then, detail::run_step<G>, &otherwise);
}
// condition ? a() : b(), where an arm assigns, loops or calls.
template <class A, class B>
auto choose(const Value<bool>& condition, A a, B b) {
  return decltype(a())(choose(condition.id(), detail::run_test<A>, &a, detail::run_test<B>, &b), nullptr);
}
// for (; condition(); increment()) body();
template <class C, class B, class I>
void for_(C condition, B body, I increment, const Place& p = std::source_location::current()) {
  place_statement(p);
  loop(detail::run_test<C>, &condition, detail::run_step<B>, &body, detail::run_step<I>, &increment);
}
template <class C, class B>
void while_(C condition, B body, const Place& p = std::source_location::current()) {
  for_(condition, body, [] {}, p);
}
// do body(); while (condition());
template <class B, class C>
void do_while(B body, C condition, const Place& p = std::source_location::current()) {
  Local<bool> first(true);
  for_([&] { return choose(first, [] { return Value<bool>(true); }, condition); },
       [&] {
         first = false;
         body();
       },
       [] {}, p);
}
// A statement that `break_` leaves, and `continue_` passes through: a switch.
template <class F>
void block(F body) {
  block(detail::run_step<F>, &body);
}
inline void break_() { leave_loop(); }
inline void continue_() { next_iteration(); }

// A value of any type, for return.
struct Returned {
  template <class T>
  Returned(const Value<T>& v) : id(v.id()) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Returned(T v) : id(Value<T>(v).id()) {}
  NodeId id;
};
inline void return_(const Returned& v, const Place& p = std::source_location::current()) {
  place_statement(p);
  leave({&v.id, 1});
}
inline void return_(std::initializer_list<Returned> v, const Place& p = std::source_location::current()) {
  place_statement(p);
  static_assert(sizeof(Returned) == sizeof(NodeId));
  leave({&v.begin()->id, v.size()});
}

// --- functions; a body declares `using type = R(P...)`, with R = Results<A, B, ...> for several
template <class... R>
struct Results {};

template <class F>
struct Signature;
template <class... R, class... P>
struct Signature<Results<R...>(P...)> {
  using results = std::tuple<R...>;
  using parameters = std::tuple<P...>;
  static constexpr std::array<Dtype, sizeof...(R)> result_types{dtype_of<R>...};
  static constexpr std::array<Dtype, sizeof...(P)> parameter_types{dtype_of<P>...};
  static constexpr std::size_t result_count = sizeof...(R), parameter_count = sizeof...(P);

  template <class B, std::size_t... K>
  static void trace(const NodeId* arguments, std::index_sequence<K...>) {
    B::trace(Value<P>(arguments[K], nullptr)...);
  }
  template <class B>
  static auto call(const Value<P>&... arguments) {
    const auto body = [&] { B::trace(arguments...); };
    using F = decltype(body);
    const std::vector<NodeId> r = inlined(
        B::name, result_types, [](void* f) { (*static_cast<F*>(f))(); }, const_cast<std::remove_const_t<F>*>(&body));
    return unpack(r, std::index_sequence_for<R...>{});
  }

 private:
  template <std::size_t... K>
  static auto unpack(const std::vector<NodeId>& r, std::index_sequence<K...>) {
    if constexpr (sizeof...(R) == 1) {
      return Value<std::tuple_element_t<0, results>>(r[0], nullptr);
    } else {
      return std::tuple<Value<R>...>(Value<R>(r[K], nullptr)...);
    }
  }
};
template <class R, class... P>
struct Signature<R(P...)> : Signature<Results<R>(P...)> {};

// A call of another decorated function: its body, here.
template <class B, class... A>
auto call(const A&... arguments) {
  return Signature<typename B::type>::template call<B>(arguments...);
}

// The graph of a body, made at its first use.
template <class B>
const Graph& graph_of() {
  using S = Signature<typename B::type>;
  static const Graph graph = trace_graph(B::name, S::parameter_types, S::result_types, [](const NodeId* arguments) {
    S::template trace<B>(arguments, std::make_index_sequence<S::parameter_count>{});
  });
  return graph;
}

}  // namespace tileweave::trace
