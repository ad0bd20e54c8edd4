// dot on the CPU: blocks of rows by vectors of columns in registers, one fma an element and step of k, ascending, so
// that the result is the interpreter's bit for bit.
#include <algorithm>
#include <bit>

#include "tileweave/jit/codegen/cpu_context.h"

namespace tileweave::codegen::cpu {

using ir::Op;
using llvm::Value;

namespace {

class Dot {
 public:
  Dot(Context& c, const Op& op) : c_(c), op_(op), out_(op.results[0]->type) {
    const auto r = static_cast<std::size_t>(out_.rank);
    const ir::Type& a = op.operands[0]->type;
    m_ = out_.extents[r - 2];
    n_ = out_.extents[r - 1];
    k_ = a.extents[r - 1];
    for (std::size_t i = 0; i + 2 < r; ++i) batch_ *= out_.extents[i];
    const auto fit = c.machine.vector_bits / static_cast<unsigned>(dtype_info(out_.elem).bits);
    lanes_ = static_cast<unsigned>(std::min<std::uint64_t>(fit, std::bit_ceil(static_cast<std::uint64_t>(n_))));
  }

  void emit() {
    x_ = operand_in_memory(c_, op_.operands[0]);
    w_ = operand_in_memory(c_, op_.operands[1]);
    acc_ = operand_in_memory(c_, op_.operands[2]);
    result_ = c_.new_buffer(out_);
    emit_loop(c_, c_.i64(0), c_.i64(batch_), 1, [&](Value* i) {
      batch_index_ = i;
      // 24 accumulators of AVX-512's 32 registers, 12 of 16 elsewhere.
      const std::int64_t rows = std::min<std::int64_t>(m_, 6);
      Value* m = emit_loop(c_, c_.i64(0), c_.i64(m_ - rows + 1), rows, [&](Value* at) { emit_rows(at, rows); });
      if (m_ % rows != 0) emit_loop(c_, m, c_.i64(m_), 1, [&](Value* at) { emit_rows(at, 1); });
    });
    set_result(c_, op_.results[0], result_);
  }

 private:
  void emit_rows(Value* m, std::int64_t rows) {
    const std::int64_t most = c_.machine.vector_bits >= 512 ? 4 : 2;
    const std::int64_t vectors = std::min(most, n_ / lanes_);
    Value* n = c_.i64(0);
    if (vectors > 1) n = columns(n, m, rows, vectors, lanes_);
    if (n_ % (lanes_ * std::max<std::int64_t>(vectors, 1)) != 0 || vectors <= 1) n = columns(n, m, rows, 1, lanes_);
    if (n_ % lanes_ != 0) columns(n, m, rows, 1, 0);
  }

  // All whole groups of columns from n on; gives where they end.
  Value* columns(Value* n, Value* m, std::int64_t rows, std::int64_t vectors, unsigned lanes) {
    const std::int64_t step = vectors * std::max(lanes, 1u);
    return emit_loop(c_, n, c_.i64(n_ - step + 1), step, [&](Value* at) { emit_block(m, at, rows, vectors, lanes); });
  }

  Value* element(const Buffer& buffer, Value* row, Value* column, std::int64_t row_length, std::int64_t batch_length) {
    Value* at = c_.b.CreateAdd(c_.b.CreateMul(row, c_.i64(row_length)), column);
    at = c_.b.CreateAdd(at, c_.b.CreateMul(batch_index_, c_.i64(batch_length)));
    return c_.b.CreateGEP(c_.memory_type(buffer.type), buffer.base, at);
  }

  Value* read(const Buffer& buffer, Value* address, unsigned lanes) {
    const llvm::Align align(Context::element_bytes(buffer.type));
    Value* x = c_.b.CreateAlignedLoad(c_.memory_type(buffer.type, lanes), address, align);
    x = c_.e.convert(c_.from_memory(x, buffer.type), buffer.type.elem, out_.elem);
    return op_.attrs.get_text(ir::AttrKey::precision) == "tf32" ? to_tf32(x) : x;
  }

  // Rounds to the 10 fraction bits of tf32, to nearest even; a NaN becomes quiet.
  Value* to_tf32(Value* x) {
    auto& b = c_.b;
    Value* bits = b.CreateBitCast(x, c_.e.int_like(x));
    const auto constant = [&](std::uint64_t v) { return c_.e.same_int(x, v); };
    Value* odd = b.CreateAnd(b.CreateLShr(bits, constant(13)), constant(1));
    Value* up = b.CreateAdd(bits, b.CreateAdd(odd, constant(0xfff)));
    Value* rounded = b.CreateAnd(up, constant(0xffffe000u));
    Value* special = b.CreateICmpEQ(b.CreateAnd(bits, constant(0x7f800000)), constant(0x7f800000));
    Value* quiet = b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateOr(bits, constant(0x400000)), bits);
    return b.CreateBitCast(b.CreateSelect(special, quiet, rounded), x->getType());
  }

  void emit_block(Value* m, Value* n, std::int64_t rows, std::int64_t vectors, unsigned lanes) {
    llvm::Type* type = c_.register_type(out_, lanes);
    const llvm::Align align(Context::element_bytes(out_));
    const auto column = [&](std::int64_t v) { return c_.b.CreateAdd(n, c_.i64(v * std::max(lanes, 1u))); };
    const auto row = [&](std::int64_t r) { return c_.b.CreateAdd(m, c_.i64(r)); };
    std::vector<llvm::AllocaInst*> sums;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t v = 0; v < vectors; ++v) {
        sums.push_back(c_.slot(type));
        Value* from = element(acc_, row(r), column(v), n_, m_ * n_);
        c_.b.CreateStore(c_.b.CreateAlignedLoad(type, from, align), sums.back());
      }
    }
    emit_loop(c_, c_.i64(0), c_.i64(k_), 1, [&](Value* k) {
      std::vector<Value*> w;
      for (std::int64_t v = 0; v < vectors; ++v) w.push_back(read(w_, element(w_, k, column(v), n_, k_ * n_), lanes));
      for (std::int64_t r = 0; r < rows; ++r) {
        Value* x = read(x_, element(x_, row(r), k, k_, m_ * k_), 0);
        if (lanes != 0) x = c_.b.CreateVectorSplat(lanes, x);
        for (std::int64_t v = 0; v < vectors; ++v) {
          llvm::AllocaInst* sum = sums[static_cast<std::size_t>(r * vectors + v)];
          Value* const operands[] = {x, w[static_cast<std::size_t>(v)], c_.b.CreateLoad(type, sum)};
          c_.b.CreateStore(c_.e.op(ir::OpId::fma, out_.elem, operands), sum);
        }
      }
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t v = 0; v < vectors; ++v) {
        Value* sum = c_.b.CreateLoad(type, sums[static_cast<std::size_t>(r * vectors + v)]);
        c_.b.CreateAlignedStore(sum, element(result_, row(r), column(v), n_, m_ * n_), align);
      }
    }
  }

  Context& c_;
  const Op& op_;
  const ir::Type out_;
  std::int64_t m_ = 1, n_ = 1, k_ = 1, batch_ = 1;
  unsigned lanes_ = 1;
  Buffer x_, w_, acc_, result_;
  Value* batch_index_ = nullptr;
};

}  // namespace

void lower_dot(Context& c, const Op& op) { Dot(c, op).emit(); }

}  // namespace tileweave::codegen::cpu
