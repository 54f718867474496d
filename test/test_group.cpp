// Lanes of micro-batches and the ranks that share them.

#include <array>
#include <barrier>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "check.hpp"
#include "layers/config/placements.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/training/exchange.hpp"
#include "layers/training/step.hpp"

namespace {

constexpr int kB = 2, kT = 9, kMicros = 8;

// Ranks that are threads of this process.
class Threads {
 public:
  explicit Threads(int ranks) : size(ranks), barrier(ranks) {}

  struct Rank : Group {
    Threads& all;
    size_t sent = 0;  // floats
    Rank(Threads& threads, int r) : all(threads) { rank = r, size = threads.size; }

    void broadcast(void* data, size_t bytes) override {
      if (rank == 0) all.from = data;
      all.barrier.arrive_and_wait();
      if (rank > 0) std::memcpy(data, all.from, bytes);
      all.barrier.arrive_and_wait();
    }
    void collect(std::span<double> numbers) override {
      if (rank == 0) all.sums.assign(numbers.size(), 0);
      all.barrier.arrive_and_wait();
      {
        const std::lock_guard lock(all.mutex);
        for (size_t i = 0; i < numbers.size(); ++i) all.sums[i] += numbers[i];
      }
      all.barrier.arrive_and_wait();
      std::copy(all.sums.begin(), all.sums.end(), numbers.begin());
      all.barrier.arrive_and_wait();
    }
    void exchange(std::span<const Message> sends, std::span<const Message> receives) override {
      {
        const std::lock_guard lock(all.mutex);
        for (const Message& m : sends) all.mail[{rank, m.rank}].emplace_back(m.data, m.data + m.floats);
      }
      for (const Message& m : sends) sent += m.floats;
      all.barrier.arrive_and_wait();
      std::map<int, size_t> next;
      for (const Message& m : receives) {
        const std::vector<float>& letter = all.mail.at({m.rank, rank}).at(next[m.rank]++);
        if (letter.size() != m.floats) throw std::logic_error("sent and received sizes differ");
        std::copy(letter.begin(), letter.end(), m.data);
      }
      all.barrier.arrive_and_wait();
      if (rank == 0) all.mail.clear();
      all.barrier.arrive_and_wait();
    }
  };

  const int size;

 private:
  std::barrier<> barrier;
  std::mutex mutex;
  void* from = nullptr;
  std::vector<double> sums;
  std::map<std::pair<int, int>, std::vector<std::vector<float>>> mail;
};

Config tiny(const std::string& placement = "pre") {
  Config config;
  config.placement = placement;
  config.n_layer = 2, config.n_head = 2, config.channels = 16, config.context = kT, config.vocab_size = 23;
  config.dropout = .1;
  return config;
}

// What three steps leave.
struct Result {
  std::vector<double> numbers;  // loss and norm of each step
  std::vector<float> weights, state;
  size_t floats_of_state = 0;   // that the rank keeps
  size_t buffers = 0, sent = 0; // of gradients that wait; floats in the first step
  bool operator==(const Result& other) const {
    return numbers == other.numbers && weights == other.weights && state == other.state;
  }
};

// Sees the gradients of the whole model on rank 0, and those of a shard on the others.
struct Watch : StepObserver {
  const Model& model;
  std::vector<double>& numbers;
  Watch(const Model& m, std::vector<double>& n) : model(m), numbers(n) {}
  void before_update() override { numbers.push_back(gradient_norm(model.gradients.get(), model.table)); }
};

Result train(const Config& config, int lanes, std::shared_ptr<Group> group = std::make_shared<Group>()) {
  Model model(config);
  initialize(model, 3);
  TrainingState s(std::move(model), kB, kT, kFastStep, group);
  const size_t n = size_t(kB) * kT;
  std::vector<int> tokens(n * kMicros), targets(tokens.size());
  Result result;
  StepOptions options;
  options.lanes = lanes;
  Watch watch(s.model, result.numbers);
  for (int step = 0; step < 3; ++step) {
    const uint64_t key = rng::key({7, uint64_t(step)});
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = int(rng::below(23, key, i)), targets[i] = int(rng::below(23, key, i + tokens.size()));
    const StepResult r =
        training_step(s, micro_batches(tokens.data(), targets.data(), kMicros, kB, kT), options, step, 1e-2,
                      step > 0 ? &watch : nullptr);
    if (const auto* rank = dynamic_cast<const Threads::Rank*>(group.get()); rank && step == 0) result.sent = rank->sent;
    result.numbers.insert(result.numbers.end(), {r.loss, r.grad_norm});
  }
  OptimizerState whole;
  for (const Buffer& slot : s.optimizer_state) whole.push_back(allocate(slot ? s.model.gradient_floats : 0));
  gather_state(*s.group, s.shards, s.optimizer_state, whole);
  result.weights.assign(s.model.weights.get(), s.model.weights.get() + s.model.floats);
  for (const Buffer& slot : whole)
    for (const TensorSpec& spec : s.model.table)
      if (const float* x = slot.get() + spec.gradient; spec.trained)
        result.state.insert(result.state.end(), x, x + spec.size());
  result.floats_of_state = s.shard().floats;
  result.buffers = s.lane_sums.size();
  return result;
}

// The results of all ranks.
std::vector<Result> train_on_ranks(const Config& config, int lanes, int ranks) {
  Threads threads(ranks);
  std::vector<Result> results(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r)
    running.emplace_back([&, r] {
#ifdef _OPENMP
      omp_set_num_threads(1);
#endif
      results[r] = train(config, lanes, std::make_shared<Threads::Rank>(threads, r));
    });
  for (std::thread& t : running) t.join();
  return results;
}

}  // namespace

TEST_CASE("lanes of ranks are whole subtrees of one tree", "[lanes]") {
  const auto text = [](int rank, int ranks, int lanes) {
    std::string all;
    for (const Lanes& l : subtrees(lanes_of(rank, ranks, lanes)))
      all += std::to_string(l.first) + "+" + std::to_string(l.count) + " ";
    return all;
  };
  CHECK(text(0, 1, 8) == "0+8 ");
  CHECK(text(0, 2, 8) == "4+4 ");
  CHECK(text(2, 3, 4) + text(1, 3, 4) + text(0, 3, 4) == "0+1 1+1 2+2 ");
  CHECK(text(2, 3, 8) + text(1, 3, 8) + text(0, 3, 8) == "0+2 2+2 4+1 5+1 6+2 ");
  CHECK(text(4, 5, 8) + text(3, 5, 8) + text(0, 5, 8) == "0+1 1+1 2+1 6+2 ");
}

TEST_CASE("shards of all ranks are the tensors that train, each once", "[lanes]") {
  Model model(tiny());
  for (TensorSpec& spec : model.table)
    if (spec.name == "block.1.ffn.up.weight") spec.trained = false;
  allocate_gradients(model);
  for (const int ranks : {1, 2, 3, 200}) {
    std::vector<int> owners(model.floats);
    for (int r = 0; r < ranks; ++r)
      for (const TensorSpec& slice : shard_of(model.table, r, ranks).table)
        for (size_t i = 0; i < slice.size(); ++i) ++owners[slice.offset + i];
    for (const TensorSpec& spec : model.table) {
      INFO(ranks << " ranks, " << spec.name);
      CHECK(std::all_of(&owners[spec.offset], &owners[spec.offset] + spec.size(),
                        [&](int n) { return n == spec.trained; }));
    }
  }
}

TEST_CASE("a step's bits depend on the lanes, not on the ranks", "[lanes]") {
  Config wide = tiny();
  wide.vocab_size = 5000, wide.channels = 32;  // several pieces in a tensor
  Config running = tiny();
  running.norm = NormKind::batchnorm;
  for (const Config& config : {tiny("post"), wide, running}) {
    const Result one = train(config, 1);
    for (const int lanes : {2, 4, 8}) {
      const Result alone = train(config, lanes);
      CHECK(alone.weights != one.weights);
      CHECK(alone.numbers[0] == one.numbers[0]);  // losses are added in the order of the micro-batches
      for (const int ranks : {2, 3, 4}) {
        if (ranks > lanes) continue;
        const std::vector<Result> all = train_on_ranks(config, lanes, ranks);
        INFO(lanes << " lanes, " << ranks << " ranks");
        CHECK(all[0] == alone);
        for (const Result& r : all) CHECK(r.weights == alone.weights);
        for (int r = 0; r < ranks; ++r) {
          const RankNeed need = need_of_rank(shards_of(Model(config).table, ranks), r, lanes);
          CHECK(all[r].floats_of_state == need.state);
          CHECK(all[r].buffers == need.buffers);
          CHECK(all[r].sent == need.sent);
        }
      }
    }
  }
}
