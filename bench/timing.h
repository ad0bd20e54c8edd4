// How the benchmarks time: every contestant once per round, rounds repeated, the median of each. Ratios come from one
// run.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tileweave::bench {

struct Contestant {
  std::string name;
  std::function<void()> run;  // returns when the work is done
  std::vector<double> seconds;
};

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// In turn, so that a drifting clock or a noisy neighbour meets everybody alike. The first round is not counted.
inline void race(std::vector<Contestant>& all, int rounds) {
  for (int round = 0; round <= rounds; ++round)
    for (Contestant& c : all) {
      const auto start = std::chrono::steady_clock::now();
      c.run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round > 0) c.seconds.push_back(took.count());
    }
}

}  // namespace tileweave::bench
