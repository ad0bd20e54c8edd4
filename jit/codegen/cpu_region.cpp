// Regions and control flow on the CPU: the steps of a plan in order; loops carry tiles in scratch buffers and scalars
// in slots that become registers.
#include <span>

#include "tileweave/jit/codegen/cpu_context.h"
#include "tileweave/jit/codegen/cpu_debug.h"

namespace tileweave::codegen::cpu {

using ir::Op, ir::OpId, ir::Region;
using llvm::Value;

namespace {

// What a control op carries or gives: a slot for a single element, a buffer for a tile.
struct Carried {
  llvm::AllocaInst* slot = nullptr;
  Buffer buffer;
};

Carried make_carried(Context& c, const ir::Value* like) {
  Carried x;
  if (is_unit(like)) {
    x.slot = c.slot(c.register_type(like->type));
  } else {
    x.buffer = c.new_buffer(like->type);
  }
  return x;
}

std::vector<Carried> make_all(Context& c, std::span<ir::Value* const> like) {
  std::vector<Carried> list;
  for (const ir::Value* v : like) list.push_back(make_carried(c, v));
  return list;
}

// Puts a value of the current region there.
void put(Context& c, const ir::Value* v, const Carried& to) {
  if (to.slot != nullptr) {
    c.b.CreateStore(c.unit(v), to.slot);
    return;
  }
  Task copy;
  copy.value = v;
  copy.yield = 0;
  copy.space = v->type;
  lower_nest(c, {copy}, {to.buffer});
}

// Makes `v` (an argument or a result) stand for what is carried.
void take(Context& c, const ir::Value* v, const Carried& from) {
  if (from.slot != nullptr) {
    c.units[v] = c.b.CreateLoad(from.slot->getAllocatedType(), from.slot);
  } else {
    c.buffers[v] = from.buffer;
  }
}

void copy_buffer(Context& c, const Buffer& from, const Buffer& to) {
  const std::int64_t bytes = from.type.elements() * Context::element_bytes(from.type);
  c.b.CreateMemCpy(to.base, llvm::Align(64), from.base, llvm::Align(64), static_cast<std::uint64_t>(bytes));
}

// A loop's body whose terminator replaces what is carried. A tile that other values still read while it is made goes
// through a buffer of its own, unless the body's argument stands elsewhere than what is carried (`apart`).
void lower_body(Context& c, const Region& r, std::size_t skip_args, const std::vector<Carried>& carried,
                const std::vector<bool>& apart) {
  const RegionPlan plan = c.planner.plan(r);
  const auto& given = r.ops.back()->operands;
  std::vector<Buffer> targets(given.size());
  std::vector<std::size_t> indirect;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (carried[i].slot != nullptr || (!apart[i] && given[i] == r.args[i + skip_args])) continue;
    if (apart[i] || plan.in_place[i]) {
      targets[i] = carried[i].buffer;
    } else {
      targets[i] = c.new_buffer(given[i]->type);
      indirect.push_back(i);
    }
  }
  const RegionEnd end = lower_region(c, r, plan, targets);
  for (const std::size_t i : indirect) copy_buffer(c, targets[i], carried[i].buffer);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (carried[i].slot != nullptr) c.b.CreateStore(end.scalars[i], carried[i].slot);
  }
}

// How often a loop from lo to hi runs, without overflow: (distance - 1) / |step| + 1, and never for a step of 0.
Value* trip_count(Context& c, Value* lo, Value* hi, Value* step) {
  auto& b = c.b;
  Value* zero = c.i64(0);
  Value *up = b.CreateICmpSGT(step, zero), *down = b.CreateICmpSLT(step, zero);
  Value* distance = b.CreateSelect(up, b.CreateSub(hi, lo), b.CreateSub(lo, hi));
  Value* size = b.CreateSelect(up, step, b.CreateNeg(step));
  size = b.CreateSelect(b.CreateICmpEQ(size, zero), c.i64(1), size);
  Value* trips = b.CreateAdd(b.CreateUDiv(b.CreateSub(distance, c.i64(1)), size), c.i64(1));
  Value* runs = b.CreateOr(b.CreateAnd(up, b.CreateICmpSLT(lo, hi)), b.CreateAnd(down, b.CreateICmpSGT(lo, hi)));
  return b.CreateSelect(runs, trips, zero);
}

void lower_for(Context& c, const Op& op) {
  const Region& r = *op.regions[0];
  const auto inits = std::span(op.operands).subspan(3);
  const std::vector<Carried> carried = make_all(c, inits);
  for (std::size_t i = 0; i < inits.size(); ++i) put(c, inits[i], carried[i]);
  Value *lo = c.unit(op.operands[0]), *step = c.unit(op.operands[2]);
  Value* trips = trip_count(c, lo, c.unit(op.operands[1]), step);
  llvm::BasicBlock *before = c.b.GetInsertBlock(), *head = c.new_block("for"), *after = c.new_block("for.end");
  c.b.CreateCondBr(c.b.CreateICmpEQ(trips, c.i64(0)), after, head);
  c.b.SetInsertPoint(head);
  llvm::PHINode* k = c.b.CreatePHI(c.b.getInt64Ty(), 2);
  k->addIncoming(c.i64(0), before);
  c.units[r.args[0]] = c.b.CreateAdd(lo, c.b.CreateMul(k, step));
  for (std::size_t i = 0; i < carried.size(); ++i) take(c, r.args[1 + i], carried[i]);
  lower_body(c, r, 1, carried, std::vector<bool>(carried.size(), false));
  Value* next = c.b.CreateAdd(k, c.i64(1));
  k->addIncoming(next, c.b.GetInsertBlock());
  c.b.CreateCondBr(c.b.CreateICmpEQ(next, trips), after, head);
  c.b.SetInsertPoint(after);
  for (std::size_t i = 0; i < carried.size(); ++i) take(c, op.results[i], carried[i]);
}

void lower_if(Context& c, const Op& op) {
  const std::vector<Carried> given = make_all(c, op.results);
  llvm::BasicBlock* branches[] = {c.new_block("then"), c.new_block("else")};
  llvm::BasicBlock* after = c.new_block("if.end");
  c.b.CreateCondBr(c.unit(op.operands[0]), branches[0], branches[1]);
  for (std::size_t side = 0; side < 2; ++side) {
    c.b.SetInsertPoint(branches[side]);
    const Region& r = *op.regions[side];
    std::vector<Buffer> targets;
    for (const Carried& x : given) targets.push_back(x.buffer);
    const RegionEnd end = lower_region(c, r, c.planner.plan(r), targets);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].slot != nullptr) c.b.CreateStore(end.scalars[i], given[i].slot);
    }
    c.b.CreateBr(after);
  }
  c.b.SetInsertPoint(after);
  for (std::size_t i = 0; i < given.size(); ++i) take(c, op.results[i], given[i]);
}

// The first region's terminator hands values on, to the body and to the results: an argument handed on as it is keeps
// its place, anything else gets one.
void lower_while(Context& c, const Op& op) {
  const Region &test = *op.regions[0], &body = *op.regions[1];
  const std::vector<Carried> carried = make_all(c, op.operands);
  for (std::size_t i = 0; i < carried.size(); ++i) put(c, op.operands[i], carried[i]);
  const auto& handed = test.ops.back()->operands;
  std::vector<Carried> passed;
  std::vector<bool> apart;
  std::vector<Buffer> targets(handed.size());
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const bool same = handed[1 + i] == test.args[i];
    apart.push_back(!same);
    passed.push_back(same ? carried[i] : make_carried(c, handed[1 + i]));
    if (!same) targets[1 + i] = passed[i].buffer;
  }
  llvm::BasicBlock *head = c.new_block("while"), *inside = c.new_block("do"), *after = c.new_block("while.end");
  c.b.CreateBr(head);
  c.b.SetInsertPoint(head);
  for (std::size_t i = 0; i < carried.size(); ++i) take(c, test.args[i], carried[i]);
  const RegionEnd end = lower_region(c, test, c.planner.plan(test), targets);
  for (std::size_t i = 0; i < passed.size(); ++i) {
    if (passed[i].slot != nullptr) c.b.CreateStore(end.scalars[1 + i], passed[i].slot);
  }
  c.b.CreateCondBr(end.scalars[0], inside, after);
  c.b.SetInsertPoint(inside);
  for (std::size_t i = 0; i < passed.size(); ++i) take(c, body.args[i], passed[i]);
  lower_body(c, body, 0, carried, apart);
  c.b.CreateBr(head);
  c.b.SetInsertPoint(after);
  for (std::size_t i = 0; i < passed.size(); ++i) take(c, op.results[i], passed[i]);
}

const Place& place_of(const Step& step) {
  if (step.op != nullptr) return step.op->place;
  const Task& t = step.tasks[0];
  static const Place unknown;
  if (t.op != nullptr) return t.op->place;
  return t.value->def != nullptr ? t.value->def->place : unknown;
}

RegionEnd lower_steps(Context& c, const Region& r, const RegionPlan& plan, const std::vector<Buffer>& targets) {
  for (const Step& step : plan.steps) {
    if (c.debug != nullptr) c.debug->set_line(place_of(step));
    if (step.op != nullptr) {
      switch (step.op->id) {
        case OpId::debug_value:
          c.debug->show(*step.op);
          break;
        case OpId::external:
          lower_external(c, *step.op);
          break;
        case OpId::atomic_rmw:
        case OpId::atomic_cas:
          lower_atomic(c, *step.op);
          break;
        case OpId::print:
        case OpId::assert_:
          lower_host_op(c, *step.op);
          break;
        case OpId::for_:
          lower_for(c, *step.op);
          break;
        case OpId::if_:
          lower_if(c, *step.op);
          break;
        case OpId::while_:
          lower_while(c, *step.op);
          break;
        default:
          lower_unit_op(c, *step.op);
      }
      continue;
    }
    if (step.tasks[0].kind == Task::Kind::whole) {
      lower_whole(c, *step.tasks[0].op);
      continue;
    }
    // A tile that stays where it is needs no copy.
    std::vector<Task> tasks;
    for (const Task& t : step.tasks) {
      if (t.yield < 0 || targets[static_cast<std::size_t>(t.yield)].base != nullptr) tasks.push_back(t);
    }
    if (!tasks.empty()) lower_nest(c, tasks, targets, step.fetches);
  }
  RegionEnd end;
  if (r.ops.empty()) return end;
  const Op& last = *r.ops.back();
  if (last.id != OpId::yield && last.id != OpId::condition) return end;
  for (const ir::Value* v : last.operands) end.scalars.push_back(is_unit(v) ? c.unit(v) : nullptr);
  return end;
}

}  // namespace

RegionEnd lower_region(Context& c, const Region& r, const RegionPlan& plan, const std::vector<Buffer>& targets) {
  if (c.debug == nullptr || r.parent == nullptr) return lower_steps(c, r, plan, targets);
  c.debug->open_scope(r.parent->place);
  RegionEnd end = lower_steps(c, r, plan, targets);
  c.debug->close_scope();
  c.debug->set_line(r.parent->place);
  return end;
}

}  // namespace tileweave::codegen::cpu
