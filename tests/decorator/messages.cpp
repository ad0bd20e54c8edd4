// What the decorator's tool refuses, one function each. `error:` and `note:` comments say which messages a line gets, whole;
// messages_check.py compares. All of them come in one run.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#define GROUP __attribute__((annotate("tileweave::fusion_group")))

int outside = 0;
const int outside_constant = outside;
float unmarked(float x) { return x; }  // note: mark it here: TILEWEAVE_FUSION_GROUP before its declaration
struct Counter {
  float value;
  float get() const { return value; }
  GROUP float twice() { return 2 * value; }  // error: 'twice' is a member function, and a fusion group is a free function // note: make it a free function with the members as parameters
};
struct Virtual {
  virtual ~Virtual() = default;
  float x;
};
struct Sum {
  float a;
  Sum operator+(Sum o) const { return {a + o.a}; }
};
struct Bits {
  unsigned low : 4;
};

// --- signatures
GROUP float pointer(const float* x) { return *x; }  // error: parameter 'x' is a pointer: a fusion group gets the values, not where they stand // note: pass the value; a kernel or a tensor expression loads and stores
GROUP float array(float x[4]) { return x[0]; }  // error: parameter 'x' is a pointer: a fusion group gets the values, not where they stand // note: pass the value; a kernel or a tensor expression loads and stores
GROUP float reference(float x, float& y) { return y = x; }  // error: parameter 'y' is a reference to write through: a fusion group changes nothing outside // note: return the result, or a struct of several
GROUP float text(const std::string& s) { return static_cast<float>(s.size()); }  // error: parameter 's' cannot be an element: 'std::string' is no plain struct of numbers // note: use float, double, bool, an integer of up to 64 bits, or a plain struct of these
GROUP float wide(long double x) { return static_cast<float>(x); }  // error: parameter 'x' cannot be an element: 'long double' is no number // note: use float, double, bool, an integer of up to 64 bits, or a plain struct of these
GROUP float polymorphic(Virtual v) { return v.x; }  // error: parameter 'v' cannot be an element: 'Virtual' is no plain struct of numbers // note: use float, double, bool, an integer of up to 64 bits, or a plain struct of these
GROUP unsigned bit_field(Bits b) { return b.low; }  // error: parameter 'b' cannot be an element: 'low' of 'Bits' is a bit-field // note: use float, double, bool, an integer of up to 64 bits, or a plain struct of these
GROUP void nothing(float x) { (void)x; }  // error: 'nothing' returns nothing: a fusion group has no effect but its result // note: return the result, or a struct of several
GROUP float* gives_pointer(float x) { return x > 0 ? nullptr : nullptr; }  // error: 'gives_pointer' returns a pointer // note: return the value
GROUP float no_parameters() { return 1; }  // error: 'no_parameters' has no parameters, so there is nothing to work on // note: make it a constexpr variable
GROUP float many(float x, ...) { return x; }  // error: 'many' takes any number of arguments (...) // note: give it a fixed list of parameters
GROUP float declared_only(float x);  // error: 'declared_only' has no body in this file // note: define it here, or move TILEWEAVE_FUSION_GROUP to the file that does
template <class T, class U>
GROUP T two_types(T x, U y) { return x + static_cast<T>(y); }  // error: 'two_types' is a template over more than one element type // note: make it a template over one typename, or call the instances from functions that are none

// --- calls
GROUP float recursive(float x) {
  if (x < 1) return x;
  return recursive(x - 1);  // error: 'recursive' calls itself: a fusion group has no recursion, for every lane would go as deep as the deepest // note: write it as a loop
}
GROUP float calls_unmarked(float x) {
  return unmarked(x);  // error: 'unmarked' is not marked TILEWEAVE_FUSION_GROUP, so a fusion group cannot call it
}
GROUP float prints(float x) {
  std::printf("%g", static_cast<double>(x));  // error: 'printf' prints: a fusion group has no side effects // note: print in a kernel, with tw::device_print
  return x;
}
GROUP float copies(float x) {
  float y = 0;
  std::memcpy(&y, &x, sizeof y);  // error: 'memcpy' works on memory, which a fusion group does not touch // note: to see a number's bits use std::bit_cast
  return y;
}
GROUP float no_counterpart(float x) {
  return std::tgamma(x);  // error: 'std::tgamma' is a library function that has no counterpart in a fusion group // note: write it with the functions of <cmath> listed in docs/fusion_groups.md
}
GROUP float member_function(Counter c) {
  return c.get();  // error: a call of the member function 'Counter::get' cannot be part of a fusion group // note: make it a free function marked TILEWEAVE_FUSION_GROUP
}
GROUP Sum operator_function(Sum a, Sum b) {
  return a + b;  // error: a call of the member function 'Sum::operator+' cannot be part of a fusion group // note: make it a free function marked TILEWEAVE_FUSION_GROUP
}
GROUP Sum choice_assigns(float x) {
  return x > 0 ? Sum{x++} : Sum{x--};  // error: a choice of 'Sum' whose sides assign cannot be part of a fusion group // note: write it as an if statement
}
GROUP float through_pointer(float x) {
  float (*f)(float) = unmarked;  // error: 'f' is a pointer, which cannot be part of a fusion group // note: use the value itself
  return f(x);  // error: a call through a pointer or object cannot be part of a fusion group // note: call the function by its name
}

// --- expressions
GROUP float address(float x) {
  return *&x;  // error: pointers cannot be part of a fusion group // note: pass the value itself
}
GROUP int reinterpreted(float x) {
  return reinterpret_cast<int&>(x);  // error: pointers cannot be part of a fusion group // note: to see a number's bits use std::bit_cast
}
GROUP int global_read(int x) {
  return x + outside;  // error: 'outside' is a variable outside of the function, which a fusion group does not read // note: pass it as a parameter
}
GROUP int global_constant(int x) {
  return x + outside_constant;  // error: 'outside_constant' is a variable outside of the function, which a fusion group does not read // note: make it constexpr
}
GROUP int global_write(int x) {
  outside = x;  // error: 'outside' is not a variable of the function: a fusion group changes nothing outside // note: return the value instead
  return x;
}
GROUP float allocates(float x) {
  return *new float(x);  // error: pointers cannot be part of a fusion group // note: pass the value itself
}
GROUP float throws(float x) {
  if (x < 0) throw 1;  // error: 'throw' cannot be part of a fusion group: lanes do not stop // note: return a value that stands for the error, such as NaN
  return x;
}
GROUP float lambda(float x) {
  const auto twice = [](float v) { return 2 * v; };  // error: a lambda cannot be part of a fusion group // note: write its body in place, or as a TILEWEAVE_FUSION_GROUP function
  return x;
}
GROUP float long_double(float x) {
  return static_cast<float>(static_cast<long double>(x) * 2);  // error: this operator cannot be part of a fusion group on 'long double' // note: use float, double, bool or an integer of up to 64 bits
}
GROUP float statement_expression(float x) {
  return ({ float y = x; y * y; });  // error: a statement expression cannot be part of a fusion group // note: write its statements before, or a function of their own
}

// --- statements and variables
GROUP float endless(float x) {
  for (;;) x += 1;  // error: this loop never ends: it has no condition, no break and no return // note: give it a condition
  return x;
}
GROUP float endless_do(float x) {
  do x += 1; while (true);  // error: this loop never ends: it has no condition, no break and no return // note: give it a condition
  return x;
}
GROUP float jumps(float x) {
  if (x < 0) goto end;  // error: 'goto' and labels cannot be part of a fusion group // note: use if, loops, break and return
  x += 1;
end:  // error: 'goto' and labels cannot be part of a fusion group // note: use if, loops, break and return
  return x;
}
GROUP float tries(float x) {
  try { x += 1; } catch (...) {}  // error: exceptions cannot be part of a fusion group: lanes do not stop // note: return a value that stands for the error, such as NaN
  return x;
}
GROUP float assembly(float x) {
  asm("");  // error: inline assembly cannot be part of a fusion group // note: write it in C++
  return x;
}
GROUP float ranges(float x) {
  constexpr float steps[] = {1, 2};
  for (const float s : steps) x += s;  // error: a range-based for cannot be part of a fusion group // note: count with an index
  return x;
}
GROUP float keeps(float x) {
  static float last = 0;  // error: 'last' is static: a fusion group keeps nothing from call to call // note: make it constexpr, or a parameter
  return x;
}
GROUP float is_volatile(float x) {
  volatile float y = x;  // error: 'y' is volatile: a fusion group has no side effects // note: drop volatile
  return x;
}
GROUP float aliases(float x) {
  float y = x;
  float& z = y;  // error: 'z' is a reference to write through // note: use the variable itself
  return y;
}
GROUP float follows(float x) {
  const float& y = x;  // error: 'y' is a reference to a variable that is assigned to // note: copy the value: drop the &
  x += 1;
  return y;
}
GROUP float local_array(float x) {
  float a[2] = {x, x};  // error: 'a' is an array, and a lane has no memory to index // note: use separate variables, or make the array constexpr
  return a[0];  // error: only constexpr arrays of numbers can be read in a fusion group // note: use separate variables, or make the array constexpr
}
GROUP float bindings(float x) {
  const auto [a, b] = std::pair(x, x);  // error: structured bindings cannot be part of a fusion group // note: name the struct, and use its members
  return x;
}
GROUP float case_range(int x) {
  switch (x) {
    case 1 ... 3:  // error: a range of cases cannot be part of a fusion group // note: use if
      return 1;
    default:
      return 0;
  }
}
GROUP float condition_variable(float x) {
  while (const bool more = x < 1) x += more;  // error: a loop that declares a variable in its condition cannot be part of a fusion group // note: declare it before the loop
  return x;
}
