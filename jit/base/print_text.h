// How kernels' values are printed for people: one line for a device_print, the same on every backend.
// Used by the interpreter and by the services of compiled kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tileweave/jit/base/dtype.h"
#include "tileweave/jit/base/place.h"

namespace tileweave {

// An element by its storage bits: "true", "-7", "0.100000001" (9 digits, f64: 17: every value reads back exactly).
std::string element_text(Dtype t, std::uint64_t bits);

// "user.cpp:12: softmax[3] label:", where a device_print's line begins; the elements follow, each after a blank.
std::string print_prefix(std::string_view place, std::string_view kernel, std::int64_t program, std::string_view label);

// What a failed device_assert says; the error stands at the user's place.
std::string assert_text(std::string_view kernel, std::int64_t program, std::string_view message);

// What an access outside its view says in checked mode: `what` names the access and the view ("store_ptr: pointer
// outside view 'y' of argument 2"); index and extent are in elements.
std::string check_text(std::string_view kernel, std::int64_t program, std::string_view what, std::int64_t index,
                       std::int64_t extent);

// The place that "file:line" names, its path kept for ever; not known where the text is of another form.
Place place_from_text(std::string_view text);

}  // namespace tileweave
