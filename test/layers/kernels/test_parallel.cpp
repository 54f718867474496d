// The loops of layers/kernels/parallel.hpp: each item is done once, by any number of threads.

#include "layers/kernels/parallel.hpp"

#include <vector>

#include "check.hpp"

namespace {

constexpr size_t kMuch = kWorthSharing;  // work of one item

// counts[i] += 1 for all i, in a loop that is worth sharing or not.
void count_all(std::vector<int>& counts, int grain, size_t work) {
  parallel_for(static_cast<int>(counts.size()), grain, work, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) ++counts[i];
  });
}

}  // namespace

TEST_CASE("a loop does each item once", "[parallel]") {
  for (const int threads : {1, 2, 3, 5}) {
    set_threads(threads);
    for (const int n : {0, 1, 2, 7, 100})
      for (const int grain : {1, 3, 200})
        for (const size_t work : {size_t{1}, kMuch}) {
          std::vector<int> counts(n);
          count_all(counts, grain, work);
          CHECK(counts == std::vector<int>(n, 1));
        }
  }
  set_threads(1);
}

TEST_CASE("loops together do each item once, and loops after them as well", "[parallel]") {
  for (const int threads : {1, 2, 3, 5}) {
    INFO(threads << " threads");
    set_threads(threads);
    for (const size_t work : {size_t{1}, kMuch}) {
      std::vector<int> shared(100), short_one(3), after(100);
      parallel_together(work, [&] {
        count_all(shared, 1, kMuch);
        count_all(short_one, 1, 1);  // not worth sharing: by one thread
      });
      count_all(after, 1, kMuch);
      CHECK(shared == std::vector<int>(100, 1));
      CHECK(short_one == std::vector<int>(3, 1));
      CHECK(after == std::vector<int>(100, 1));
    }
  }
  set_threads(1);
}
