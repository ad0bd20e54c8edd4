// .npy files: round trips for every type, what NumPy writes, and damaged files.
// Tests jit/runtime/npy, npy_header; compares with NumPy itself where python3 has it.
#include "tileweave/jit/runtime/npy.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/npy_header.h"
#include "tileweave/jit/runtime/random.h"

namespace tileweave::runtime {
namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("tileweave_npy_" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path / name; }
};

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
std::string npy(int version, const std::string& header, const std::string& data) {
  std::string out = "\x93NUMPY" + std::string(1, static_cast<char>(version)) + std::string(1, '\0');
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return out + header + data;
}
std::string error_of(const std::string& path) {
  try {
    load_npy(path, Device::cpu(), Memory::device, {"user.cpp", 5});
  } catch (const LaunchError& e) {
    return e.diagnostic().message;
  }
  return "no error";
}

TEST_CASE("every element type goes out and comes back, whatever the strides") {
  const Folder folder;
  const std::string path = folder.file("a.npy");
  for (int i = 0; i < dtype_count; ++i) {
    const auto t = static_cast<Dtype>(i);
    const bool is_bits = t == Dtype::bf16 || t == Dtype::f8e4m3 || t == Dtype::f8e5m2;
    const AnyTensor a = random_uniform(Device::cpu(), t, {3, 4, 5}, 9, 0, 100);
    for (const AnyTensor& view : {a, a.transpose(0, 2), a.flip(1), a.select(1, 2), a.slice(2, 0, 0)}) {
      save_npy(path, view);
      const AnyTensor back = load_npy(path, Device::cpu());
      CHECK(back.extents() == view.extents());
      CHECK(back.to_host() == view.to_host());
      CHECK(back.dtype() == (!is_bits ? t : dtype_bytes(t) == 2 ? Dtype::u16 : Dtype::u8));
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);  // no temporary is left
}

TEST_CASE("scalars and one axis are written as Python tuples") {
  CHECK(npy::make_header("<f4", {}).find("'shape': (), }") != std::string::npos);
  CHECK(npy::make_header("<f4", {7}).find("'shape': (7,), }") != std::string::npos);
  CHECK(npy::make_header("<f4", {7, 2}).find("'shape': (7, 2), }") != std::string::npos);
  CHECK(npy::make_header("<f4", {7}).size() % 64 == 0);
}

TEST_CASE("Fortran order, big-endian, all versions, and spellings of other writers") {
  const Folder folder;
  const std::string path = folder.file("b.npy");
  const std::string data("\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06", 12);
  for (const int version : {1, 2, 3}) {
    write(path, npy(version, "{\"shape\":(2L,3),'descr': '>i2','fortran_order':True}\n", data));
    const AnyTensor t = load_npy(path, Device::cpu());
    CHECK(t.extents() == Dims{2, 3});
    CHECK(t.dtype() == Dtype::i16);
    const std::vector<std::byte> bytes = t.to_host();
    const std::int16_t expected[] = {1, 3, 5, 2, 4, 6};
    CHECK(std::memcmp(bytes.data(), expected, sizeof expected) == 0);
  }
  write(path, npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\x00\x01\x07", 3)));
  CHECK(load_npy(path, Device::cpu()).to_host() == std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}});
}

TEST_CASE("damaged and foreign files are refused by name") {
  const Folder folder;
  const std::string path = folder.file("c.npy"), prefix = "load_npy '" + path + "': ";
  CHECK(error_of(path) == prefix + "No such file or directory");
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const auto message = [&](const std::string& bytes) {
    write(path, bytes);
    return error_of(path);
  };
  CHECK(message("hello") == prefix + "it is not a .npy file");
  CHECK(message(npy(4, good, "")) == prefix + "format version 4 is not known");
  CHECK(message(npy(1, good, "12345")) == prefix + "it has too few bytes for {2, 3}");
  CHECK(message(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 3), }", "")) ==
        prefix + "it has too few bytes for {99999999999, 3}");
  CHECK(message(npy(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "")) ==
        prefix + "element type '<c8' is not one of ours");
  CHECK(message(npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "")) ==
        prefix + "element type '|O' is not one of ours");
  CHECK(message(npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "")) ==
        prefix + "element type is a structure or no string: only plain arrays are read");
  CHECK(message(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1), }", "")) ==
        prefix + "a tensor has at most 6 axes");
  CHECK(message(npy(1, "{'descr': '<f4', 'shape': (1,), }", "")) == prefix + "its header is damaged: a key is missing");
  CHECK(message(npy(1, "{'descr': '<f4', 'descr': '<f4'}", "")) ==
        prefix + "its header is damaged: key 'descr' is not known or comes twice");
  CHECK(message(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")) ==
        prefix + "its header is damaged: the value of 'shape' is malformed");
  CHECK(message(npy(2, good, "").substr(0, 40)) == prefix + "the file ends in its header");
  CHECK(message(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)) ==
        prefix + "a header of 4294967295 bytes is too long");
}

TEST_CASE("any header text is read or refused") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (int k = 1 + i % 3; k > 0; --k) text[random() % text.size()] = "{}()',:<>|f4 0123456789L\0x"[random() % 26];
    refused +=
        !npy::parse_header(std::string_view(text).substr(0, random() % 4 == 0 ? random() % text.size() : text.size()))
             .wrong.empty();
  }
  CHECK(refused > 10'000);
  CHECK(refused < 20'000);
}

TEST_CASE("saving to where one cannot") {
  const AnyTensor a = AnyTensor::zeros(Device::cpu(), Dtype::f32, {2});
  CHECK_THROWS_WITH_AS(save_npy("/nowhere/a.npy", a, {"user.cpp", 8}),
                       "user.cpp:8: error: save_npy '/nowhere/a.npy': No such file or directory", LaunchError);
}

TEST_CASE("NumPy reads what we write and we read what NumPy writes") {
  if (std::system("python3 -c 'import numpy' > /dev/null 2>&1") != 0) {
    MESSAGE("skipped: python3 has no numpy");
    return;
  }
  const Folder folder;
  save_npy(folder.file("x.npy"), random_normal(Device::cpu(), Dtype::f16, {5, 7}, 1).transpose());
  const std::string script = "import numpy as np; x = np.load('" + folder.file("x.npy") +
                             "'); assert x.shape == (7, 5) and x.dtype == np.float16; np.save('" +
                             folder.file("y.npy") + "', np.asfortranarray(x.astype('>f8') * 2))";
  REQUIRE(std::system(("python3 -c \"" + script + "\"").c_str()) == 0);
  const AnyTensor x = load_npy(folder.file("x.npy"), Device::cpu()), y = load_npy(folder.file("y.npy"), Device::cpu());
  const std::vector<std::byte> xs = x.to_host(), ys = y.to_host();
  for (std::size_t i = 0; i < 35; ++i) {
    f16 a;
    double b = 0;
    std::memcpy(&a, &xs[2 * i], 2);
    std::memcpy(&b, &ys[8 * i], 8);
    CHECK(b == 2 * static_cast<double>(static_cast<float>(a)));
  }
}

}  // namespace
}  // namespace tileweave::runtime
