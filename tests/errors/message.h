// How error tests get a message: whole, with the file's path cut to its name.
// Used by record_test.cpp, lanes_test.cpp and launch_test.cpp.
#pragma once

#include <tileweave/tileweave.h>

#include <string>

// The message of the error E that f throws; "nothing thrown", or what else came, where it does not.
template <class E, class F>
std::string message_of(F f) {
  std::string text = "nothing thrown";
  try {
    f();
  } catch (const E& e) {
    text = e.what();
  } catch (const tileweave::Error& e) {
    text = std::string("another kind of error: ") + e.what();
  }
  const std::string folder = std::string(__FILE__).substr(0, std::string(__FILE__).rfind('/') + 1);
  for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) text.erase(at, folder.size());
  return text;
}

// Launches a kernel over two 8 x 8 matrices; gives what it throws while it records.
template <class K>
std::string recorded(const K& kernel) {
  static const tileweave::Device device = tileweave::Device::interpret();
  static const auto x = tileweave::Tensor<float>::zeros(device, {8, 8}),
                    y = tileweave::Tensor<float>::zeros(device, {8, 8});
  return message_of<tileweave::RecordError>([&] { kernel.launch(device.stream(), {1}, x, y); });
}

// "record_test.cpp:LINE".
#define HERE(offset) \
  (std::string(__FILE__).substr(std::string(__FILE__).rfind('/') + 1) + ":" + std::to_string(__LINE__ + (offset)))
