// Lanes of micro-batches and the ranks that share them.

#include <array>
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "check.hpp"
#include "layers/config/placements.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/initialize.hpp"
#include "layers/training/exchange.hpp"
#include "layers/training/run_optimizer.hpp"
#include "layers/training/step.hpp"
#include "sources.hpp"

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
    // Copies what is sent, so that the sender need not wait.
    std::unique_ptr<Transfer> start(std::span<const Message> sends, std::span<const Message> receives) override {
      const std::lock_guard lock(all.mutex);
      for (const Message& m : sends) {
        all.mail[{rank, m.rank}].emplace_back(m.data, m.data + m.floats);
        sent += m.floats;
      }
      all.posted.notify_all();
      auto transfer = std::make_unique<Letters>(all);
      for (const Message& m : receives) transfer->expected.push_back({m, {m.rank, rank}, expected[m.rank]++});
      return transfer;
    }

    std::map<int, size_t> expected;  // letters from each rank
  };

  struct Letters : Group::Transfer {
    struct Expected {
      Group::Message message;
      std::pair<int, int> from_to;
      size_t number;
    };
    Threads& all;
    std::vector<Expected> expected;
    explicit Letters(Threads& threads) : all(threads) {}

    bool has_arrived() override {
      const std::lock_guard lock(all.mutex);
      for (const Expected& e : expected)
        if (all.mail[e.from_to].size() <= e.number) return false;
      open();
      return true;
    }
    void wait() override {
      std::unique_lock lock(all.mutex);
      for (const Expected& e : expected)
        all.posted.wait(lock, [&] { return all.mail[e.from_to].size() > e.number; });
      open();
    }

   private:
    void open() {
      for (const auto& [message, from_to, number] : expected) {
        const std::vector<float>& letter = all.mail[from_to][number];
        if (letter.size() != message.floats) throw std::logic_error("sent and received sizes differ");
        std::copy(letter.begin(), letter.end(), message.data);
      }
      expected.clear();
    }
  };

  const int size;

 private:
  std::barrier<> barrier;
  std::mutex mutex;
  void* from = nullptr;
  std::vector<double> sums;
  std::map<std::pair<int, int>, std::vector<std::vector<float>>> mail;  // by sender and receiver
  std::condition_variable posted;
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
  size_t floats_of_state = 0;   // floats that the rank keeps
  size_t buffers = 0, sent = 0; // buffers for waiting gradients; floats sent in step 1
  bool operator==(const Result& other) const {
    return numbers == other.numbers && weights == other.weights && state == other.state;
  }
};

// Sees the whole model's gradients on rank 0, and a shard's on the other ranks.
struct Watch : StepObserver {
  const Model& model;
  std::vector<double>& numbers;
  Watch(const Model& m, std::vector<double>& n) : model(m), numbers(n) {}
  void before_update() override { numbers.push_back(gradient_norm(model.gradients.get(), model.table)); }
};

Result train(const Config& config, int lanes, Optimizers optimizers = kAdamWAlone,
             std::shared_ptr<Group> group = std::make_shared<Group>(), bool packed = false) {
  Model model(config);
  initialize(model, 3);
  StepFunctions functions = kFastStep;
  functions.optimizers = optimizers;
  TrainingState s(std::move(model), kB, kT, functions, group);
  const size_t n = size_t(kB) * kT;
  std::vector<int> tokens(n * kMicros), targets(tokens.size());
  std::vector<int> begins(packed ? tokens.size() : 0);  // in row r, examples of r % 4 + 1 tokens
  for (size_t i = 0; i < begins.size(); ++i) {
    const int row = int(i) / kT, t = int(i) % kT;
    begins[i] = t - t % (row % 4 + 1);
  }
  const Sources sources = random_sources(kMicros * kB, kT, kT, 23);
  Result result;
  StepOptions options;
  options.lanes = lanes;
  Watch watch(s.model, result.numbers);
  for (int step = 0; step < 3; ++step) {
    const uint64_t key = rng::key({7, uint64_t(step)});
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = int(rng::below(23, key, i)), targets[i] = int(rng::below(23, key, i + tokens.size()));
    Batch all{tokens.data(), targets.data(), kMicros * kB, kT, packed ? begins.data() : nullptr};
    if (config.crosses()) all.encoder = sources.input();
    const MicroBatches batches = micro_batches(all, kMicros);
    const StepResult r = training_step(s, batches, options, step, 1e-2, step > 0 ? &watch : nullptr);
    if (const auto* rank = dynamic_cast<const Threads::Rank*>(group.get()); rank && step == 0) result.sent = rank->sent;
    result.numbers.insert(result.numbers.end(), {r.loss, r.grad_norm});
  }
  const Buffer whole = allocate(state_floats(s.model.table));
  gather_state(*s.group, s.shards, s.model.table, s.optimizer_state.get(), whole.get());
  result.weights.assign(s.model.weights.get(), s.model.weights.get() + s.model.floats);
  result.state.assign(whole.get(), whole.get() + state_floats(s.model.table));
  result.floats_of_state = s.shard().state;
  result.buffers = s.lane_sums.size();
  return result;
}

// The tensors of a model, with their optimizers.
std::vector<TensorSpec> table_of(const Config& config) {
  std::vector<TensorSpec> table = Model(config).table;
  assign_optimizers(table, kAdamWAlone);
  return table;
}

// The results of all ranks.
std::vector<Result> train_on_ranks(const Config& config, int lanes, int ranks,
                                   Optimizers optimizers = kAdamWAlone, bool packed = false) {
  Threads threads(ranks);
  std::vector<Result> results(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r)
    running.emplace_back([&, r] {
#ifdef _OPENMP
      omp_set_num_threads(1);
#endif
      results[r] = train(config, lanes, optimizers, std::make_shared<Threads::Rank>(threads, r), packed);
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
    for (const Shard& shard : shards_of(model.table, ranks))
      for (const ShardPart& part : shard.parts)
        for (const TensorSpec& slice : part.table)
          for (size_t i = 0; i < slice.size(); ++i) ++owners[slice.offset + i];
    for (const TensorSpec& spec : model.table) {
      INFO(ranks << " ranks, " << spec.name);
      CHECK(std::all_of(&owners[spec.offset], &owners[spec.offset] + spec.size(),
                        [&](int n) { return n == spec.trained; }));
    }
  }
}

TEST_CASE("an observer sees the last micro-batch of a step, for any number of lanes", "[lanes]") {
  struct Seen : StepObserver {
    int blocks = 0;
    std::vector<float> x;  // of the first token in block 0
    void block(int layer, const float* in, const BlockSaved&, const float*, const Batch&) override {
      ++blocks;
      if (layer == 0) x.assign(in, in + 8);
    }
  };
  std::vector<float> with_one_lane;
  for (const int lanes : {1, 2, 4}) {
    Model model(tiny());
    initialize(model, 3);
    TrainingState s(std::move(model), kB, kT, kGradientsOnly);
    std::vector<int> tokens(kMicros * kB * kT), targets(tokens.size(), 1);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = int(i / (kB * kT));
    StepOptions options;
    options.lanes = lanes;
    Seen seen;
    training_step(s, micro_batches({tokens.data(), targets.data(), kMicros * kB, kT}, kMicros), options, 0, 0, &seen);
    CHECK(seen.blocks == s.model.config.n_layer);
    if (lanes == 1) with_one_lane = seen.x;
    CHECK(seen.x == with_one_lane);
  }
}

TEST_CASE("ranks add gradients of more chunks than they have room for", "[lanes]") {
  constexpr int kLanes = 4, kRanks = 3;
  Layout layout;
  layout.take("early", Role::embedding, {3, int(kChunk)});
  layout.enter_layer(0);
  layout.take("late", Role::ffn_in, {7, int(kChunk) / 2});
  const std::vector<Shard> shards = shards_of(layout.table(), kRanks);
  const size_t n = layout.size();
  const auto number = [](int lane, size_t i) { return std::ldexp(float(i % 8191 + 1), lane); };
  Threads threads(kRanks);
  std::vector<size_t> wrong(kRanks);
  std::vector<std::thread> running;
  for (int r = 0; r < kRanks; ++r)
    running.emplace_back([&, r] {
      Threads::Rank group(threads, r);
      std::vector<std::vector<float>> sums;  // one for each of the rank's subtrees
      for (const Lanes& subtree : subtrees(lanes_of(r, kRanks, kLanes))) {
        sums.emplace_back(n);
        for (int lane = subtree.first; lane < subtree.end(); ++lane)
          for (size_t i = 0; i < n; ++i) sums.back()[i] += number(lane, i);
      }
      std::vector<float*> roots;
      for (std::vector<float>& sum : sums) roots.push_back(sum.data());
      GradientExchange exchange(group, shards, kLanes, roots, 1);
      exchange.send(1), exchange.advance();
      exchange.send(0), exchange.finish();
      for (const ShardPart& part : shards[r].parts)
        for (size_t i = part.begin; i < part.begin + part.floats; ++i)
          wrong[r] += roots.back()[i] != 15 * number(0, i);  // 1 + 2 + 4 + 8
    });
  for (std::thread& t : running) t.join();
  CHECK(wrong == std::vector<size_t>(kRanks));
  CHECK(shards[0].floats + shards[1].floats + shards[2].floats == n);
}

TEST_CASE("a step's bits depend on the lanes, not on the ranks", "[lanes]") {
  Config wide = tiny();
  wide.vocab_size = 5000, wide.channels = 32;  // several pieces in a tensor
  Config running = tiny();
  running.norm = NormKind::batchnorm;
  Config normed = tiny("ngpt");
  normed.normed_weights = true;
  for (const Config& config : {tiny("post"), wide, running, normed}) {
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
          const RankNeed need = need_of_rank(shards_of(table_of(config), ranks), r, lanes);
          CHECK(all[r].floats_of_state == need.state);
          CHECK(all[r].buffers == need.buffers);
          CHECK(all[r].sent == need.sent);
        }
      }
    }
  }
}

TEST_CASE("a step of several ranks has the bits of one process with every optimizer", "[lanes][long]") {
  Config wide = tiny();
  wide.vocab_size = 5000, wide.channels = 32;
  for (const Config& config : {tiny(), wide})
    for (const RunOptimizer& optimizer : run_optimizers()) {
      const Result alone = train(config, 4, optimizer.rows);
      for (const int ranks : {2, 3}) {
        INFO(optimizer.name << ", " << ranks << " ranks");
        const std::vector<Result> all = train_on_ranks(config, 4, ranks, optimizer.rows);
        CHECK(all[0] == alone);
        for (const Result& r : all) CHECK(r.weights == alone.weights);
      }
    }
}

TEST_CASE("a rank has the whole matrix that an optimizer needs", "[lanes]") {
  Config config = tiny();
  config.channels = 256;
  std::vector<TensorSpec> table = Model(config).table;
  assign_optimizers(table, run_optimizer("muon").rows);
  std::vector<size_t> state(2);
  const std::vector<Shard> shards = shards_of(table, 2);  // the half of a block is in the middle of ffn.up
  for (size_t rank = 0; rank < 2; ++rank)
    for (const ShardPart& part : shards[rank].parts)
      for (const TensorSpec& slice : part.table) {
        if (slice.optimizer->whole) CHECK(slice.shape.size() == 2);
        state[rank] += slice.optimizer->slots.size() * slice.size();
      }
  CHECK(*std::min_element(state.begin(), state.end()) > 0);
}

TEST_CASE("a step of several ranks has the bits of one process with experts, and moves the same bias", "[lanes][moe]") {
  Config config = tiny();
  config.experts = 4;
  for (const auto kind : {"adamw", "muon"}) {
    const Optimizers rows = run_optimizer(kind).rows;
    config.router_bias = .01f;
    const Result alone = train(config, 4, rows);
    const std::vector<Result> all = train_on_ranks(config, 4, 3, rows);
    CHECK(all[0] == alone);
    for (const Result& r : all) CHECK(r.weights == alone.weights);
    config.router_bias = .02f;
    CHECK(train(config, 4, rows).weights != alone.weights);
  }
}

TEST_CASE("a step of several ranks has the bits of one process with moments in bf16", "[lanes][moments]") {
  Config config = tiny();
  config.channels = 128;  // the half of a block is in the middle of ffn.up
  const Optimizers rows = run_optimizer("adamw").rows_with(NumberType::bf16);
  const Result alone = train(config, 4, rows);
  const std::vector<Result> all = train_on_ranks(config, 4, 2, rows);
  CHECK(all[0] == alone);
  for (const Result& r : all) CHECK(r.floats_of_state < alone.floats_of_state * 3 / 4);
  CHECK(train(config, 4).weights != alone.weights);
}

TEST_CASE("a step of several ranks on packed rows has the bits of one process", "[lanes][packed]") {
  const Result alone = train(tiny(), 4, kAdamWAlone, std::make_shared<Group>(), true);
  CHECK(train_on_ranks(tiny(), 4, 3, kAdamWAlone, true)[0] == alone);
  CHECK(train(tiny(), 4).weights != alone.weights);
}

TEST_CASE("a step of several ranks has the bits of one process with an encoder", "[lanes][cross]") {
  for (const bool final_norm : {false, true}) {
    Config config = tiny();
    config.objective = Objective::pairs, config.encoder_layers = 3, config.encoder_placement = "post";
    config.final_norm = final_norm, config.embedding_norm = true;
    CHECK(train_on_ranks(config, 4, 3)[0] == train(config, 4));
  }
  Config streams = tiny("mhc-read");
  streams.objective = Objective::pairs, streams.encoder_layers = 3;
  CHECK(train_on_ranks(streams, 4, 3)[0] == train(streams, 4));
}

TEST_CASE("tensors between two stacks are complete with the encoder's last layer", "[lanes][cross]") {
  Config config = tiny();
  config.objective = Objective::pairs, config.encoder_layers = 3, config.embedding_norm = true;
  int before = kOutside;
  for (const Bucket& bucket : buckets_of(table_of(config))) {
    CHECK(bucket.layer >= before);
    before = bucket.layer;
    for (const TensorSpec& spec : bucket.table)
      if (spec.name.starts_with("encoder.final_norm") || spec.name.starts_with("embedding.norm"))
        CHECK(bucket.layer == 2);
  }
  CHECK(before == kAfterLayers);
}

TEST_CASE("a step of several ranks has the bits of one process under every placement", "[lanes]") {
  for (const Placement& row : placements()) {
    INFO(row.name);
    CHECK(train_on_ranks(tiny(row.name), 4, 3)[0] == train(tiny(row.name), 4));
  }
}
