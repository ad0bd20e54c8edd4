// Finds races between programs. See races.h.
// A cell an address, as in FastTrack (Flanagan and Freund, PLDI 2009) with values beside the accesses; time counts
// releases, since nothing else orders programs.
#include "tileweave/jit/ir/races.h"

#include <algorithm>

namespace tileweave::ir {
namespace {

bool is_exempt(const Op& op) { return op.attrs.get_text(AttrKey::hint) == "volatile"; }

std::string shown(const Op& op, std::int64_t program) {
  return "program " + std::to_string(program) + "'s " + std::string(op_info(op.id).name) +
         (op.place.known() ? " at " + to_string(op.place) : "");
}

}  // namespace

void RaceDetector::begin_program(std::int64_t program) {
  program_ = program;
  seen_.clear();
  ++time_;
}

bool RaceDetector::is_unordered(const Access& a) const {
  if (a.op == nullptr || a.program == program_) return false;
  const auto known = seen_.find(a.program);
  return known == seen_.end() || known->second < a.time;
}

const RaceDetector::Access* RaceDetector::unordered_writer(const Cell& cell) const {
  if (cell.now == cell.initial) return nullptr;
  return is_unordered(cell.writer) ? &cell.writer : nullptr;
}

const RaceDetector::Access* RaceDetector::unordered_reader(const Cell& cell) const {
  const auto at = std::ranges::find_if(cell.readers, [&](const Access& a) { return is_unordered(a); });
  return at == cell.readers.end() ? nullptr : &*at;
}

RaceDetector::Cell& RaceDetector::written(std::uint64_t address, std::uint64_t old) {
  Cell& cell = cells_[address];
  if (cell.writer.op == nullptr && cell.atomic.op == nullptr) cell.initial = cell.now = old;
  return cell;
}

std::optional<Race> RaceDetector::load(const Op& op, std::uint64_t address) {
  if (is_exempt(op)) return std::nullopt;
  Cell& cell = cells_[address];
  Access& slot =
      cell.readers[0].op == nullptr || cell.readers[0].program == program_ ? cell.readers[0] : cell.readers[1];
  slot = here(op);
  if (const Access* w = unordered_writer(cell)) return Race{Race::Kind::read_and_write, w->op, w->program};
  if (cell.now == cell.initial || !is_unordered(cell.atomic)) return std::nullopt;
  return Race{Race::Kind::read_and_write, cell.atomic.op, cell.atomic.program};
}

std::optional<Race> RaceDetector::store(const Op& op, std::uint64_t address, std::uint64_t old, std::uint64_t bits) {
  if (is_exempt(op)) return std::nullopt;
  Cell& cell = written(address, old);
  std::optional<Race> race;
  if (bits != old) {
    const Access* reader = unordered_reader(cell);
    if (cell.writer.op == &op && cell.writer.program == program_ && cell.store == store_) {
      race = {Race::Kind::two_lanes, &op, program_};
    } else if (is_unordered(cell.writer)) {
      race = {Race::Kind::two_values, cell.writer.op, cell.writer.program};
    } else if (is_unordered(cell.atomic)) {
      race = {Race::Kind::two_values, cell.atomic.op, cell.atomic.program};
    } else if (reader != nullptr) {
      race = {Race::Kind::read_and_write, reader->op, reader->program};
    }
  }
  cell.writer = here(op);
  cell.store = store_;
  cell.now = bits;
  return race;
}

std::optional<Race> RaceDetector::atomic(const Op& op, std::uint64_t address, std::uint64_t old, std::uint64_t bits) {
  const std::string& order = op.attrs.get_text(AttrKey::order);
  if (order == "acquire" || order == "acq_rel") {
    for (const auto& [program, time] : released_[address]) seen_[program] = std::max(seen_[program], time);
  }
  Cell& cell = written(address, old);
  std::optional<Race> race;
  const Access* reader = unordered_reader(cell);
  if (const Access* w = unordered_writer(cell)) {
    race = {Race::Kind::read_and_write, w->op, w->program};
  } else if (bits != old && reader != nullptr) {
    race = {Race::Kind::read_and_write, reader->op, reader->program};
  }
  cell.atomic = here(op);
  cell.now = bits;
  if (order == "release" || order == "acq_rel") {
    Clock& clock = released_[address];
    for (const auto& [program, time] : seen_) clock[program] = std::max(clock[program], time);
    clock[program_] = time_++;
  }
  return race;
}

std::string describe(const Race& race, const Op& second, std::int64_t program) {
  if (race.kind == Race::Kind::two_lanes) {
    return "two lanes of " + shown(second, program) + " write different values to";
  }
  const std::string both = shown(*race.first, race.other) + " and " + shown(second, program);
  if (race.kind == Race::Kind::two_values) return both + " write different values, in no order, to";
  return both + " use, in no order, and one of them changes,";
}

}  // namespace tileweave::ir
