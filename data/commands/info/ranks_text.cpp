#include "ranks_text.hpp"

#include <algorithm>
#include <bit>

#include "data/strings/format.hpp"
#include "layers/model/size.hpp"
#include "layers/training/exchange.hpp"

namespace {

// The cost of a step on R ranks. Each number is the maximum over the ranks.
struct RankCost {
  int accumulate, micro_batches = 0;  // micro-batches of the step, and of the rank
  double memory = 0, sent = 0;        // bytes

  RankCost(const TrainOptions& o, const std::vector<TensorSpec>& table, int R) {
    const int lanes = std::max(o.lanes, static_cast<int>(std::bit_ceil(static_cast<unsigned>(R))));
    accumulate = (o.accumulate + lanes - 1) / lanes * lanes;
    const MemoryNeed need = memory_of_training(o.config, o.batch, table, 0, scratch_floats(table));
    const std::vector<Shard> shards = shards_of(table, R);
    for (int r = 0; r < R; ++r) {
      const RankNeed more = need_of_rank(shards, r, lanes);
      micro_batches = std::max(micro_batches, lanes_of(r, R, lanes).count * (accumulate / lanes));
      memory = std::max(memory, static_cast<double>(need.total() + more.buffers * need.gradients +
                                                    4 * (more.state + more.received)));
      sent = std::max(sent, 4 * static_cast<double>(more.sent));
    }
  }
};

}  // namespace

std::string ranks_text(const TrainOptions& o, const std::vector<TensorSpec>& table, const RanksAsked& asked) {
  const bool timed = asked.bandwidth > 0 && asked.speed > 0;
  const double tokens = static_cast<double>(o.batch) * o.config.context;
  std::vector<std::vector<std::string>> rows = {{"ranks", "micro-batches", "of a rank", "its bytes", "it sends"}};
  if (timed) rows[0].insert(rows[0].end(), {"compute", "exchange", "tokens/s", "to", "efficiency", "to"});
  for (int R = 1; R <= asked.ranks; R = R < asked.ranks ? std::min(2 * R, asked.ranks) : R + 1) {
    const RankCost c(o, table, R);
    rows.push_back({std::to_string(R), std::to_string(c.accumulate), std::to_string(c.micro_batches),
                    format_count(c.memory), format_count(c.sent)});
    if (!timed) continue;
    const double compute = c.micro_batches * tokens / asked.speed, exchange = 8 * c.sent / asked.bandwidth;
    const double lower = c.accumulate * tokens / (compute + exchange);
    const double upper = c.accumulate * tokens / std::max(compute, exchange);
    const auto share = [&](double speed) { return format("%.0f %%", 100 * speed / (R * asked.speed)); };
    rows.back().insert(rows.back().end(), {format("%.2f s", compute), format("%.2f s", exchange), format_count(lower),
                                           format_count(upper), share(lower), share(upper)});
  }
  return aligned(rows, 1) +
         "A rank has all weights and gradients, the moments of its part, and one more buffer of gradients each time\n"
         "the lanes of a rank double. It sends gradients to the ranks that update them, and its weights to all.\n" +
         (timed ? "The ranges go from no overlap, compute + exchange, to full overlap, max(compute, exchange).\n"
                : "For times, say --bandwidth 10G and --speed TOKENS: of one process, per second.\n");
}
