// Files made to be expensive: nesting, counts of 2^63, overlapping offsets, 1000:1 compression, unknown operations.
// Each is refused with a reason and a place, within 100 ms and 64 MiB (of the parser; R34 of the field's cases).
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tileweave/cache/bytes.h"
#include "tileweave/cache/entry.h"
#include "tileweave/cache/manifest.h"
#include "tileweave/cache/pack.h"
#include "tileweave/cache/pack_format.h"
#include "tileweave/jit/base/env.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/ir/function.h"

namespace tileweave {
namespace {

using Bytes = std::vector<std::byte>;

// "VmRSS" or "VmHWM", the peak since it was reset, in MiB.
double status_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}
double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// What `read` says, which must be something, and what it costs.
void refused(const char* name, const std::function<std::string()>& read, const std::string& part) {
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const double memory = status_mib("VmRSS"), start = cpu_seconds();
  const std::string why = read();
  const double seconds = cpu_seconds() - start, grown = status_mib("VmHWM") - memory;
  CHECK(why != "accepted");
  CHECK_MESSAGE(why.find(part) != std::string::npos, name, ": '", why.substr(0, 300), "' does not say '", part, "'");
#ifndef __SANITIZE_ADDRESS__
  // The rule is 100 ms. The default run asks for less, so that a loaded machine does not fail it: what grows faster
  // than its input takes far longer than either.
  CHECK_MESSAGE(seconds < (env().long_tests ? 0.1 : 1.0), name, " takes ", seconds, " s");
  CHECK_MESSAGE(grown < 64, name, " takes ", grown, " MiB");
#endif
}

std::string ir_error(const std::string& text) {
  try {
    ir::verify(ir::parse(text), ir::Stage::recorded);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}
std::string repeated(const std::string& part, std::size_t times) {
  std::string s;
  s.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) s += part;
  return s;
}
std::string body(const std::string& lines) { return "func \"k\"() {\n" + lines + "}\n"; }

std::string entry_fault(Bytes file) {
  const cache::Hash128 h = cache::hash128(std::span<const std::byte>(file).subspan(24));
  std::memcpy(file.data() + 8, &h.high, 8);
  std::memcpy(file.data() + 16, &h.low, 8);
  cache::EntryView view;
  const cache::EntryFault fault = cache::check_entry(file, view);
  if (fault != cache::EntryFault::none) return std::string(to_string(fault));
  return view.entry() ? "accepted" : "does not unpack";
}
template <class N>
Bytes with(Bytes file, std::size_t at, N number) {
  std::memcpy(file.data() + at, &number, sizeof number);
  return file;
}

std::string pack_fault(Bytes file) {
  cache::ByteReader header(std::span<const std::byte>(file).subspan(32));
  const std::uint64_t at = header.u64(), size = header.u64();
  if (at <= file.size() && size <= file.size() - at) {  // the digest put right
    Bytes covered(file.begin(), file.begin() + cache::pack_header_bytes);
    covered.insert(covered.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                   file.begin() + static_cast<std::ptrdiff_t>(at + size));
    const cache::Sha256 digest = cache::sha256_portable(covered);
    std::memcpy(file.data() + file.size() - digest.size(), digest.data(), digest.size());
  }
  const int fd = ::memfd_create("pack", MFD_CLOEXEC);
  REQUIRE(::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  std::string why;
  const bool accepted = cache::read_pack_index(fd, why).has_value();
  ::close(fd);
  return accepted ? "accepted" : why;
}

// A pack without profiles: header, entries of zeros, index, footer (its digest is put right later).
Bytes pack_of(std::uint64_t rows, const std::function<void(cache::ByteWriter&)>& index, std::uint64_t entry_bytes) {
  Bytes table, file;
  cache::ByteWriter in_table(table), out(file);
  index(in_table);
  out.text(cache::pack_magic);
  for (const std::uint32_t n : {cache::format_number, cache::pack_header_bytes}) out.u32(n);
  for (const std::uint64_t n :
       {rows, std::uint64_t{0}, cache::pack_header_bytes + entry_bytes, std::uint64_t{table.size()}}) {
    out.u64(n);
  }
  out.bytes(Bytes(entry_bytes));
  out.bytes(table);
  out.bytes(Bytes(cache::pack_footer_bytes));
  return file;
}

}  // namespace

TEST_CASE("hostile tile IR: nesting, counts and unknown operations are refused at their place, quickly") {
  const std::string flag = "  %c = constant {value = 1} : bool\n";
  refused(
      "regions", [&] { return ir_error(body(flag + repeated("if %c do {\n", 1'000'000))); },
      "error: regions are nested more than 64 deep");
  for (const char* open : {"(", "[", "{", "view<", "\"", "%"}) {
    refused(open, [&] { return ir_error(body("  %1 = constant {value = " + repeated(open, 1'000'000))); }, "tile IR:2");
  }
  for (const char* extents : {"9223372036854775808", "9223372036854775807", "4611686018427387904, 4", "1048577", "-1",
                              "18446744073709551616"}) {
    const std::string type = "f32[" + std::string(extents) + "]";
    refused(extents, [&] { return ir_error(body("  %1 = constant {value = 0} : " + type + "\n")); }, "tile IR:2");
  }
  refused(
      "long list",
      [&] { return ir_error(body("  %1 = zeros {extents = [" + repeated("1, ", 300'000) + "1]} : f32\n")); },
      "tile IR:2");
  refused("an operation", [&] { return ir_error(body("  %0 = levitate : f32\n")); }, "tile IR:2");
  refused("operations", [&] { return ir_error(body(repeated("  %0 = levitate : f32\n", 50'000))); }, "tile IR:2");
  refused("a name", [&] { return ir_error("func \"" + std::string(1'000'000, 'n')); }, "tile IR:1");
}

TEST_CASE("hostile entries: sizes of 2^63 and more than the file has, and 1000:1 compression, are refused quickly") {
  cache::KeyWriter key({"codegen", "19", "sm_90a", "cubin", "ptxas 13.0"});
  cache::Entry entry{"k", "meta", Bytes(100'000)};
  for (std::size_t i = 0; i < entry.payload.size(); ++i) entry.payload[i] = static_cast<std::byte>(random() % 23);
  const Bytes good = cache::encode_entry(key.finish("k"), entry, 0, true);
  REQUIRE(entry_fault(good) == "accepted");
  for (const std::size_t at : {48, 56, 64, 72}) {
    for (const std::uint64_t size :
         {1ULL << 63, ~0ULL, ~0ULL - 47, 1ULL << 32, static_cast<unsigned long long>(good.size())}) {
      refused("a size", [&] { return entry_fault(with(good, at, size)); }, "size");
    }
  }
  const auto stored = static_cast<std::uint32_t>(good.size());
  for (const std::uint32_t raw : {stored * 1000, 0xffffffffU, 0x80000000U, stored * 61}) {
    refused("a raw size", [&] { return entry_fault(with(good, 36, raw)); }, "size");
  }
  refused("another raw size", [&] { return entry_fault(with(good, 36, std::uint32_t{100'001})); }, "does not unpack");
}

TEST_CASE("hostile packs: counts of 2^63 and overlapping, unordered or distant entries are refused quickly") {
  const auto rows = [](std::vector<std::pair<std::uint64_t, std::uint64_t>> places) {
    return [places](cache::ByteWriter& w) {
      std::uint64_t address = 1;
      for (const auto& [offset, size] : places) {
        for (const std::uint64_t n : {std::uint64_t{0}, address++, offset, size}) w.u64(n);
        w.bytes(Bytes(32));
      }
    };
  };
  REQUIRE(pack_fault(pack_of(2, rows({{48, 100}, {148, 100}}), 200)) == "accepted");
  const std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> wrong = {
      {{48, 150}, {148, 50}},          // overlap
      {{48, 100}, {48, 100}},          // twice the same
      {{48, 100}, {149, 99}},          // a gap
      {{148, 100}, {48, 100}},         // out of order
      {{48, 1ULL << 63}, {148, 100}},  // past the end
      {{48, ~0ULL}, {47, 201}},        // around it
      {{0, 248}, {248, 0}},            // over the header
  };
  for (const auto& places : wrong) {
    refused("places", [&] { return pack_fault(pack_of(2, rows(places), 200)); }, "index");
  }
  const Bytes good = pack_of(2, rows({{48, 100}, {148, 100}}), 200);
  for (const std::size_t at : {16, 24, 32, 40}) {
    for (const std::uint64_t n : {1ULL << 63, ~0ULL, 1ULL << 40, 3ULL}) {
      refused("a count", [&] { return pack_fault(with(good, at, n)); }, "");
    }
  }
}

TEST_CASE("hostile manifests: sizes beyond the file end the list, quickly") {
  const auto frame = cache::encode_record({"k", "text"});
  Bytes good = cache::manifest_header();
  good.insert(good.end(), frame->begin(), frame->end());
  for (const std::uint32_t size : {0xffffffffU, 0x80000000U, 0x7fffffffU, 0U, 1U}) {
    for (const std::size_t at : {8, 16, 21}) {
      if (with(good, at, size) == good) continue;
      refused(
          "a frame",
          [&] {
            std::string why;
            const auto m = cache::parse_manifest(with(good, at, size), why);
            return m ? std::to_string(m->records.size()) + " records" : why;
          },
          "0 records");
    }
  }
}

}  // namespace tileweave
