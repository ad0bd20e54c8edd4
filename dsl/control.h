// Control flow that is recorded: range, if_ and while_. C++ control flow over C++ values unrolls or selects.
// Values are carried through loops and branches by tw::Var.
#pragma once

#include <exception>

#include "tileweave/dsl/index_list.h"

namespace tileweave {

// What `for (auto i : tw::range(lo, hi, step))` runs over: its body is recorded once.
class Range {
 public:
  Range(const Offset& lo, const Offset& hi, const Offset& step, const Place& p)
      : lo_(lo.raw()), hi_(hi.raw()), step_(step.raw()), place_(p) {}

  struct End {};
  class Iterator {
   public:
    Iterator(const Range& r)
        : index_(record::begin_for(r.lo_, r.hi_, r.step_, r.place_)),
          place_(r.place_),
          unwinding_(std::uncaught_exceptions()) {}
    Iterator(const Iterator&) = delete;
    Iterator& operator=(const Iterator&) = delete;
    // The body was left by break or return: noted here, reported by the next operation.
    ~Iterator() {
      if (!ended_ && std::uncaught_exceptions() == unwinding_) record::left_early(place_);
    }
    bool operator!=(End) const { return !ended_; }
    Scalar<index_t> operator*() const { return Scalar<index_t>(index_); }
    Iterator& operator++() {
      record::end_for();
      ended_ = true;
      return *this;
    }

   private:
    record::Raw index_;
    Place place_;
    int unwinding_;
    bool ended_ = false;
  };
  Iterator begin() const { return Iterator(*this); }
  End end() const { return {}; }

 private:
  record::Raw lo_, hi_, step_;
  Place place_;
};

// lo, lo + step, ... before hi; step may be negative and is 1 where left out.
template <OffsetLike A, OffsetLike B, OffsetLike C>
Range range(const A& lo, const B& hi, const C& step, const Place& p = std::source_location::current()) {
  return Range(Offset(lo, p), Offset(hi, p), Offset(step, p), p);
}
template <OffsetLike A, OffsetLike B>
Range range(const A& lo, const B& hi, const Place& p = std::source_location::current()) {
  return Range(Offset(lo, p), Offset(hi, p), Offset(1, p), p);
}
template <OffsetLike B>
Range range(const B& hi, const Place& p = std::source_location::current()) {
  return Range(Offset(0, p), Offset(hi, p), Offset(1, p), p);
}

// The rest of an if_: .else_(body).
class Branch {
 public:
  template <class F>
  void else_(F&& body, const Place& p = std::source_location::current()) const {
    record::begin_else(p);
    body();
    record::end_if();
  }
};

// Runs `body` where the scalar condition holds.
template <Node C, class F>
  requires(rank_v<C> == 0 && std::same_as<elem_t<C>, bool>)
Branch if_(const C& condition, F&& body, const Place& p = std::source_location::current()) {
  record::begin_if(record_node(condition, p), p);
  body();
  record::end_branch();
  return {};
}
template <Node C, class F>
  requires(rank_v<C> != 0 || !std::same_as<elem_t<C>, bool>)
TILEWEAVE_REFUSED("if_: the condition is a scalar bool: use tw::where for each lane, or reduce it with tw::any")
Branch if_(const C&, F&&);

// Runs `body` as long as `condition`, a lambda that gives a scalar bool, holds.
template <class C, class F>
void while_(C&& condition, F&& body, const Place& p = std::source_location::current()) {
  record::begin_while(p);
  const auto flag = condition();
  static_assert(Node<decltype(flag)>, "while_: the first lambda returns the condition, a scalar bool of the kernel");
  record::while_condition(Scalar<bool>(flag, p).raw(), p);
  body();
  record::end_while();
}

}  // namespace tileweave
