// SHA-256 by libcrypto, opened once there is enough to hash to be worth it; before, and without it, by FIPS 180-4.
// The one file that knows libcrypto: EVP_Digest has had this signature since OpenSSL 1.1.
#include "tileweave/cache/sha256.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tileweave::cache {
namespace {

struct Libcrypto {
  using Digest = int (*)(const void* data, std::size_t size, unsigned char* out, unsigned* out_size, const void* type,
                         void* engine);
  using Type = const void* (*)();
  Digest digest = nullptr;
  const void* type = nullptr;
  const char* name = "portable";

  Libcrypto() {
    for (const char* candidate : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
      void* library = ::dlopen(candidate, RTLD_LAZY | RTLD_LOCAL);
      if (library == nullptr) continue;
      const auto make_type = reinterpret_cast<Type>(::dlsym(library, "EVP_sha256"));
      digest = reinterpret_cast<Digest>(::dlsym(library, "EVP_Digest"));
      if (make_type != nullptr && digest != nullptr) {
        type = make_type();
        name = candidate;
        return;
      }
      digest = nullptr;
      ::dlclose(library);
    }
  }
};

// Opening libcrypto costs some two milliseconds, as much as our own computation takes for this many bytes. A process
// that reads a few kernels from a pack never opens it.
constexpr std::size_t bytes_before_libcrypto = std::size_t{256} << 10;
std::atomic<std::size_t> bytes_hashed{0};

const Libcrypto& libcrypto() {
  static const Libcrypto& instance = *new Libcrypto;
  return instance;
}

// The first 32 bits of the fractional parts of the square and cube roots of the first primes, as the standard defines
// its constants; long double is exact enough for them, which the tests' known digests prove.
struct Constants {
  std::array<std::uint32_t, 8> start;
  std::array<std::uint32_t, 64> rounds;

  Constants() {
    std::size_t found = 0;
    for (unsigned n = 2; found < rounds.size(); ++n) {
      if (!is_prime(n)) continue;
      if (found < start.size()) start[found] = fraction(std::sqrt(static_cast<long double>(n)));
      rounds[found++] = fraction(std::cbrt(static_cast<long double>(n)));
    }
  }
  static bool is_prime(unsigned n) {
    for (unsigned d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
  static std::uint32_t fraction(long double x) {
    return static_cast<std::uint32_t>((x - std::floor(x)) * 4294967296.0L);
  }
};

using State = std::array<std::uint32_t, 8>;

void add_block(State& state, const std::byte* block, const Constants& constants) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (std::size_t k = 0; k < 4; ++k) w[i] = w[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + k]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  State s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const std::uint32_t t =
        s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) + choose + constants.rounds[i] + w[i];
    const std::uint32_t u = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) + majority;
    s = {t + u, s[0], s[1], s[2], s[3] + t, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

Sha256 sha256(std::span<const std::byte> bytes) {
  if (bytes_hashed.fetch_add(bytes.size(), std::memory_order_relaxed) + bytes.size() < bytes_before_libcrypto) {
    return sha256_portable(bytes);
  }
  Sha256 out;
  const Libcrypto& library = libcrypto();
  unsigned size = 0;
  if (library.digest != nullptr &&
      library.digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &size, library.type,
                     nullptr) == 1 &&
      size == out.size()) {
    return out;
  }
  return sha256_portable(bytes);
}

Sha256 sha256_portable(std::span<const std::byte> bytes) {
  static const Constants& constants = *new Constants;
  State state = constants.start;
  std::size_t at = 0;
  for (; at + 64 <= bytes.size(); at += 64) add_block(state, bytes.data() + at, constants);
  // The rest, a one bit, zeros, and the length in bits, in one or two blocks.
  std::array<std::byte, 128> tail{};
  const std::size_t left = bytes.size() - at;
  std::copy_n(bytes.data() + at, left, tail.begin());
  tail[left] = std::byte{0x80};
  const std::size_t tail_size = left < 56 ? 64 : 128;
  const std::uint64_t bits = static_cast<std::uint64_t>(bytes.size()) * 8;
  for (std::size_t i = 0; i < 8; ++i) tail[tail_size - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  for (std::size_t i = 0; i < tail_size; i += 64) add_block(state, tail.data() + i, constants);
  Sha256 out;
  for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<std::byte>(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string sha256_provider() { return libcrypto().name; }

}  // namespace tileweave::cache
