// Checked access to memory, and the words for what the checks find.
// See simt_call.h.
#include "tileweave/jit/runtime/simt_call.h"

#include <algorithm>

namespace tileweave::runtime::simt {
namespace {

std::string bytes_text(std::int64_t offset, std::int64_t bytes) {
  return bytes == 1 ? "byte " + std::to_string(offset)
                    : "bytes " + std::to_string(offset) + ".." + std::to_string(offset + bytes - 1);
}

const char* verb_of(Act act) { return act == Act::read ? "reads" : act == Act::write ? "writes" : "updates"; }

const GlobalRange* find_range(const Cluster& c, std::uint64_t address, std::int64_t bytes) {
  const auto& ranges = c.grid().ranges;
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                      [](std::uint64_t a, const GlobalRange& r) { return a < r.begin; });
  if (after == ranges.begin()) return nullptr;
  const GlobalRange& r = *(after - 1);
  return address < r.end && static_cast<std::uint64_t>(bytes) <= r.end - address ? &r : nullptr;
}

// "16 bytes past the end of argument 0": the nearest memory the launch does have.
std::string nearest_text(const Cluster& c, std::uint64_t address) {
  const GlobalRange* best = nullptr;
  std::uint64_t best_distance = 0;
  for (const GlobalRange& r : c.grid().ranges) {
    const std::uint64_t distance = address < r.begin ? r.begin - address : address - r.end + 1;
    if (best != nullptr && distance >= best_distance && !(address >= r.begin && address < r.end)) continue;
    best = &r;
    best_distance = address >= r.begin && address < r.end ? 0 : distance;
  }
  if (best == nullptr) return "the launch has no memory";
  const std::string what =
      best->argument < 0 ? "an allocation" : "the view at argument slot " + std::to_string(best->argument);
  if (address < best->begin) return std::to_string(best->begin - address) + " bytes before the start of " + what;
  if (address < best->end) return "across the end of " + what;
  return std::to_string(address - best->end) + " bytes past the end of " + what;
}

void fail_conflict(Thread& t, const Conflict& conflict, const char* verb, std::int64_t offset, std::int64_t bytes) {
  Cluster& c = cluster_of(t);
  c.fail(t, word_conflict(c, conflict, c.who(t.number), verb, offset, bytes));
}

void fail_global(Thread& t, std::uint64_t address, std::int64_t bytes, std::int64_t alignment, Act act) {
  Cluster& c = cluster_of(t);
  const std::string what = std::string(verb_of(act)) + " " + std::to_string(bytes) + " bytes of global memory";
  if (address % static_cast<std::uint64_t>(alignment) != 0) {
    c.fail(t, {"misaligned access: " + c.who(t.number) + " " + what + " at an address that is " +
                   std::to_string(address % static_cast<std::uint64_t>(alignment)) + " past a multiple of " +
                   std::to_string(alignment),
               "", t.call.site, 0, 0, ""});
  } else {
    c.fail(t, {"out of bounds: " + c.who(t.number) + " " + what + " " + nearest_text(c, address), "", t.call.site, 0, 0,
               ""});
  }
}

// "byte 12 of the view at argument slot 0"
std::string global_text(const Cluster& c, std::uint64_t address) {
  const GlobalRange* r = find_range(c, address, 1);
  if (r == nullptr) return "a byte of global memory";
  return "byte " + std::to_string(address - r->begin) + " of " +
         (r->argument < 0 ? "an allocation" : "the view at argument slot " + std::to_string(r->argument));
}

void fail_global_race(Thread& t, const Conflict& conflict, std::int64_t bytes, Act act) {
  Cluster& c = cluster_of(t);
  const std::string access = c.who(t.number) + " " + verb_of(act) + " " + std::to_string(bytes) +
                             " bytes of global memory; " + c.who(conflict.other_agent) +
                             (conflict.other_wrote ? " wrote " : " read ") +
                             global_text(c, static_cast<std::uint64_t>(conflict.byte)) + c.where(conflict.other_site);
  if (conflict.kind == Conflict::Kind::stale) {
    c.fail(t, {"stale: by a read-only load " + access + " in the same launch",
               "load it as memory that the kernel may write", t.call.site, 0, 0, ""});
  } else {
    c.fail(t, {"race: " + access + " with no barrier between", "put a barrier between the two accesses", t.call.site, 0,
               0, ""});
  }
}

}  // namespace

void fail(Thread& t, const char* message, const char* help) {
  cluster_of(t).fail(t, {message, help, t.call.site, 0, 0, ""});
  cluster_of(t).leave();
}

Fault word_conflict(const Cluster& c, const Conflict& conflict, const std::string& who, const char* verb,
                    std::int64_t offset, std::int64_t bytes) {
  const std::string access = who + " " + verb + " " + bytes_text(offset, bytes) + " of shared memory";
  const std::string other = c.who(conflict.other_agent), at = c.where(conflict.other_site);
  const std::string byte = "byte " + std::to_string(conflict.byte);
  Fault f;
  switch (conflict.kind) {
    case Conflict::Kind::outside:
      f.message = "out of bounds: " + access + ", which has " + std::to_string(c.grid().smem_bytes) + " bytes";
      break;
    case Conflict::Kind::misaligned:
      f.message = "misaligned access: " + access;
      f.help = "an access must lie at a multiple of its size";
      break;
    case Conflict::Kind::uninitialised:
      f.message = "uninitialised: " + access + ", but nobody has written " + byte;
      break;
    case Conflict::Kind::in_flight:
      f.message = "asynchronous copy in flight: " + access + ", into which " + other + " is copying" + at;
      f.help = "wait for the copy (its group or mbarrier) before the bytes are used";
      break;
    case Conflict::Kind::barrier:
      f.message = "mbarrier overwritten or read: " + access + ", but " + byte + " belongs to an mbarrier";
      break;
    case Conflict::Kind::no_mbarrier:
      f.message = "no mbarrier: " + who + " uses offset " + std::to_string(offset) +
                  " as an mbarrier, but none is initialised there";
      break;
    case Conflict::Kind::race:
      f.message = "race: " + access + "; " + other + (conflict.other_wrote ? " wrote " : " read ") + byte + at +
                  " with no barrier between";
      f.help = "put a barrier between the two accesses";
      break;
    case Conflict::Kind::proxy:
      f.message = "not visible: " + access + " by the asynchronous proxy; " + other + " wrote " + byte + at +
                  " without fence_proxy_async after it";
      f.help = "the writer must execute fence_proxy_async before the barrier";
      break;
    case Conflict::Kind::stale:
    case Conflict::Kind::none:
      break;
  }
  return f;
}

void check_shared_place(Thread& t, Block& b, std::int64_t offset, std::int64_t bytes, std::int64_t alignment, Act act) {
  if (const Conflict conflict = b.shared.check_place(offset, bytes, alignment)) {
    fail_conflict(t, conflict, verb_of(act), offset, bytes);
    cluster_of(t).leave();
  }
}

std::byte* shared_access(Thread& t, Block& b, std::int64_t offset, std::int64_t bytes, std::int64_t alignment,
                         Act act) {
  SharedMemory& s = b.shared;
  const Accessor who{t.number, t.number, t.call.site, act == Act::atomic, false, 0};
  Conflict conflict = s.check_place(offset, bytes, alignment);
  if (!conflict && act != Act::write) conflict = s.read(offset, bytes, who);
  if (!conflict && act != Act::read) conflict = s.write(offset, bytes, who);
  if (conflict) {
    fail_conflict(t, conflict, verb_of(act), offset, bytes);
    cluster_of(t).leave();
  }
  return s.at(offset);
}

std::byte* global_access(Thread& t, std::uint64_t address, std::int64_t bytes, std::int64_t alignment, Act act,
                         Track track) {
  const GlobalRange* r = t.last_range;
  const bool in_last =
      r != nullptr && address >= r->begin && address < r->end && static_cast<std::uint64_t>(bytes) <= r->end - address;
  if (!in_last) r = t.last_range = find_range(cluster_of(t), address, bytes);
  if (r == nullptr || address % static_cast<std::uint64_t>(alignment) != 0) {
    fail_global(t, address, bytes, alignment, act);
    cluster_of(t).leave();
  }
  if (track == Track::nothing) return reinterpret_cast<std::byte*>(address);
  GlobalMemory& g = cluster_of(t).global();
  const Accessor who{t.number, t.number, t.call.site, act == Act::atomic, false, t.call.number};
  Conflict conflict;
  if (act != Act::write) conflict = g.read(address, bytes, who, track == Track::read_only);
  if (!conflict && act != Act::read) conflict = g.write(address, bytes, who);
  if (conflict) {
    fail_global_race(t, conflict, bytes, act);
    cluster_of(t).leave();
  }
  return reinterpret_cast<std::byte*>(address);
}

bool is_global(const Cluster& c, std::uint64_t address, std::int64_t bytes) {
  return find_range(c, address, bytes) != nullptr;
}

ClusterPlace cluster_place(Thread& t, std::uint32_t address) {
  const std::uint32_t rank = (address >> cluster_shift) - 1;
  if (rank >= static_cast<std::uint32_t>(cluster_of(t).grid().cluster)) {
    fail(t, "not a cluster address (map_cluster makes them)");
  }
  return {&cluster_of(t).blocks()[rank], static_cast<std::int64_t>(address & ((1u << cluster_shift) - 1))};
}

}  // namespace tileweave::runtime::simt
