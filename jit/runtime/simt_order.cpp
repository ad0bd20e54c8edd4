// Vector clocks with the two shortcuts that make them cheap: full barriers leave one number a thread, and rows of
// knowledge are shared until somebody learns more. See simt_order.h.
#include "tileweave/jit/runtime/simt_order.h"

#include <algorithm>

namespace tileweave::runtime::simt {

Order::Order(int threads_per_block, int blocks)
    : threads_per_block_(threads_per_block),
      thread_count_(threads_per_block * blocks),
      clocks_(static_cast<std::size_t>(thread_count_), 1),
      met_(static_cast<std::size_t>(thread_count_), 0),
      proxy_fences_(static_cast<std::size_t>(thread_count_), 0),
      rows_(static_cast<std::size_t>(thread_count_)) {}

int Order::new_agent() {
  clocks_.push_back(1);
  return static_cast<int>(clocks_.size()) - 1;
}

bool Order::is_before(int agent, Clock when, int thread) const {
  if (agent == thread) return true;
  const auto a = static_cast<std::size_t>(agent);
  const bool same_block = agent < thread_count_ && agent / threads_per_block_ == thread / threads_per_block_;
  if (same_block && when <= met_[a]) return true;
  const auto& row = rows_[static_cast<std::size_t>(thread)];
  return row != nullptr && a < row->size() && when <= (*row)[a];
}

void Order::join_rows(Row& into, const Row& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void Order::raise(Row& row, int agent, Clock when) {
  const auto a = static_cast<std::size_t>(agent);
  if (row.size() <= a) row.resize(clocks_.size(), 0);
  row[a] = std::max(row[a], when);
}

Order::Row& Order::own_row(int thread) {
  std::shared_ptr<Row>& row = rows_[static_cast<std::size_t>(thread)];
  if (row == nullptr) {
    row = std::make_shared<Row>(clocks_.size(), 0);
  } else if (row.use_count() > 1) {
    row = std::make_shared<Row>(*row);
  }
  return *row;
}

void Order::meet_block(int block) {
  const int begin = block * threads_per_block_, end = begin + threads_per_block_;
  // Only knowledge of other blocks and of asynchronous agents outlives a full barrier in rows.
  const bool keeps_rows = clocks_.size() > static_cast<std::size_t>(threads_per_block_);
  std::shared_ptr<Row> joined;
  const Row* last = nullptr;
  for (int t = begin; t < end; ++t) {
    const auto i = static_cast<std::size_t>(t);
    if (keeps_rows && rows_[i] != nullptr && rows_[i].get() != last) {
      last = rows_[i].get();
      if (joined == nullptr) joined = std::make_shared<Row>();
      join_rows(*joined, *last);
    }
    met_[i] = clocks_[i]++;
  }
  for (int t = begin; t < end; ++t) rows_[static_cast<std::size_t>(t)] = joined;
}

void Order::meet(std::span<const int> threads) {
  auto joined = std::make_shared<Row>(clocks_.size(), 0);
  const Row* last = nullptr;
  for (const int t : threads) {
    const Row* row = rows_[static_cast<std::size_t>(t)].get();
    if (row != nullptr && row != last) join_rows(*joined, *row);
    last = row;
    raise(*joined, t, clocks_[static_cast<std::size_t>(t)]);
  }
  for (const int t : threads) {
    rows_[static_cast<std::size_t>(t)] = joined;
    tick(t);
  }
}

void Order::release(SyncPoint& point, int thread) {
  const auto t = static_cast<std::size_t>(thread);
  if (point.row == nullptr) {
    point.row = std::make_shared<Row>(clocks_.size(), 0);
  } else if (point.row.use_count() > 1) {
    point.row = std::make_shared<Row>(*point.row);
  }
  if (rows_[t] != nullptr) join_rows(*point.row, *rows_[t]);
  const int begin = thread / threads_per_block_ * threads_per_block_;
  for (int u = begin; u < begin + threads_per_block_; ++u) raise(*point.row, u, met_[static_cast<std::size_t>(u)]);
  raise(*point.row, thread, clocks_[t]);
  tick(thread);
}

void Order::acquire(const SyncPoint& point, int thread) {
  if (point.row != nullptr) join_rows(own_row(thread), *point.row);
}

void Order::release_agent(SyncPoint& point, int agent, Clock when) {
  if (point.row == nullptr) {
    point.row = std::make_shared<Row>(clocks_.size(), 0);
  } else if (point.row.use_count() > 1) {
    point.row = std::make_shared<Row>(*point.row);
  }
  raise(*point.row, agent, when);
}

void Order::learn(int thread, int agent, Clock when) { raise(own_row(thread), agent, when); }

void Order::join(SyncPoint& into, const SyncPoint& from) {
  if (from.row == nullptr) return;
  if (into.row == nullptr) {
    into.row = from.row;
    return;
  }
  if (into.row.use_count() > 1) into.row = std::make_shared<Row>(*into.row);
  join_rows(*into.row, *from.row);
}

}  // namespace tileweave::runtime::simt
