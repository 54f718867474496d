#include "leader.hpp"

#include <algorithm>
#include <bit>
#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/machine.hpp"
#include "data/options/settings_file.hpp"
#include "data/strings/errors.hpp"
#include "layers/textbook/step.hpp"
#include "layers/training/exchange.hpp"
#include "step_inputs.hpp"

namespace {

struct Order {
  enum Kind : int64_t { stop, model, weights, zero_state, take_state, give_state, step, losses } kind;
  int64_t count = 0;     // bytes of the settings, micro-batches, or batches
  int64_t number = 0;    // number of the step
  int64_t observed = 0;  // 1 if rank 0 observes it
  double lr = 0;
  int64_t packed = 0;    // 1 if rows hold several examples
  int64_t length = 0;    // tokens in a row
  int64_t sources = 0;   // tokens in a row of the encoder; 0 if there is none
};

void give(Group& group, Order order) { group.broadcast(&order, sizeof order); }

Order next_order(Group& group) {
  Order order;
  group.broadcast(&order, sizeof order);
  return order;
}

// Calls f(numbers, how many there are in a row) for all that an order sends of a batch.
template <class Rows, class F>
void for_inputs(Rows& rows, const Order& order, const F& f) {
  const int64_t per_target = order.sources > 0 ? order.length : 0;
  f(rows.tokens, order.length);
  f(rows.targets, order.length);
  f(rows.begins, order.packed ? order.length : 0);
  f(rows.encoder.tokens, order.sources);
  f(rows.encoder.begins, order.sources);
  f(rows.encoder.from, per_target);
  f(rows.encoder.to, per_target);
}

void broadcast(Group& group, RowBatch& inputs, const Order& order) {
  for_inputs(inputs, order, [&](std::vector<int>& numbers, int64_t) {
    if (!numbers.empty()) group.broadcast(numbers.data(), numbers.size() * sizeof(int));
  });
}

// Returns rows for the inputs of an order, whose numbers are still to be received.
RowBatch rows_for(const Order& order, int B) {
  RowBatch rows;
  rows.B = static_cast<int>(order.count) * B;
  rows.T = static_cast<int>(order.length);
  rows.encoder.T = static_cast<int>(order.sources);
  for_inputs(rows, order, [&](std::vector<int>& numbers, int64_t length) { numbers.resize(rows.B * length); });
  return rows;
}

// Returns the same numbers in memory that broadcast() may write to.
RowBatch copied(const Batch& from, const Order& order, int B) {
  const EncoderInput& encoder = from.encoder;
  const int* numbers_from[] = {from.tokens,    from.targets, from.begins, encoder.tokens,
                               encoder.begins, encoder.from, encoder.to};
  const int** next = numbers_from;
  RowBatch rows = rows_for(order, B);
  for_inputs(rows, order, [&](std::vector<int>& numbers, int64_t) {
    std::copy_n(*next, numbers.size(), numbers.begin());
    ++next;
  });
  return rows;
}

// Returns an order with the sizes of this batch.
Order order_with(Order order, const Batch& batch) {
  order.packed = batch.begins != nullptr;
  order.length = batch.T;
  order.sources = batch.encoder.T;
  return order;
}

void broadcast_weights(TrainingState& s) {
  s.group->broadcast(s.model.weights.get(), s.model.floats * sizeof(float));
}

void set_zero_state(TrainingState& s) {
  set_zero(s.optimizer_state.get(), s.shard().state);
}

// Computes one batch of B rows on each rank.
std::vector<double> losses(Group& group, const Model& model, const Activations& activations, const RowBatch& inputs,
                           int B) {
  std::vector<double> nats(inputs.B / B);
  const int mine = group.rank;
  if (mine < inputs.B / B) nats[mine] = model_loss(model, activations, rows_of(inputs.batch(), mine * B, B));
  group.collect(nats);
  return nats;
}

// ---- a rank that follows ---------------------------------------------------------------------------------

class Follower {
 public:
  Follower(const std::shared_ptr<Group>& g, const TrainOptions& options)
      : group(*g), o(step_options(options)),
        s(model_to_train(options), options.batch, options.config.context, step_functions(options), g) {}

  void obey(const Order& order) {
    switch (order.kind) {
      case Order::stop: case Order::model: break;
      case Order::weights: return broadcast_weights(s);
      case Order::zero_state: return set_zero_state(s);
      case Order::take_state:
        return scatter_state(group, s.shards, s.model.table, s.optimizer_state.get(), nullptr);
      case Order::give_state: return gather_state(group, s.shards, s.model.table, s.optimizer_state.get(), nullptr);
      case Order::step: return take_step(order);
      case Order::losses: return measure(order);
    }
  }

 private:
  RowBatch receive(const Order& order) {
    RowBatch inputs = rows_for(order, s.B);
    broadcast(group, inputs, order);
    return inputs;
  }

  void take_step(const Order& order) {
    const RowBatch inputs = receive(order);
    StepObserver nothing;
    try {
      training_step(s, micro_batches(inputs.batch(), static_cast<int>(order.count)), o, order.number, order.lr,
                    order.observed ? &nothing : nullptr);
    } catch (const Diverged&) {  // rank 0 reports it
    }
  }

  void measure(const Order& order) { losses(group, s.model, s.activations, receive(order), s.B); }

  Group& group;
  StepOptions o;
  TrainingState s;
};

TrainOptions receive_options(Group& group, const Order& order) {
  std::string text(static_cast<size_t>(order.count), '\0');
  group.broadcast(text.data(), text.size());
  TrainOptions o = train_options_of(parse_json(text));
  o.config = resolved(o.config);
  return o;
}

}  // namespace

void follow(const std::shared_ptr<Group>& group, int threads) {
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);  // rank 0 decides
  try {
    std::unique_ptr<Follower> follower;
    for (Order order = next_order(*group); order.kind != Order::stop; order = next_order(*group)) {
      if (order.kind == Order::model) {
        const TrainOptions o = receive_options(*group, order);
        group->timeout = o.rank_timeout;
        use_threads(o.threads > 0 ? o.threads : default_threads(threads));
        follower = std::make_unique<Follower>(group, o);
      } else {
        follower->obey(order);
      }
    }
  } catch (const std::bad_alloc&) {
    end_all_ranks(*group, "out of memory");
  } catch (const std::exception& error) {
    end_all_ranks(*group, plain_text(error));
  }
}

Leading::~Leading() {
  if (group->size > 1 && group->rank == 0) give(*group, {Order::stop});
}

// ---- options ---------------------------------------------------------------------------------------------

namespace {

// Returns options such as "--batch 2 --accumulate 4" with as many tokens as `o` and a micro-batch for each lane, or "".
std::string same_tokens(const TrainOptions& o, int lanes) {
  const int64_t rows = int64_t(o.batch) * o.accumulate;
  for (int64_t accumulate = lanes; accumulate <= rows; accumulate += lanes)
    if (accumulate >= o.accumulate && rows % accumulate == 0)
      return "--batch " + std::to_string(rows / accumulate) + " --accumulate " + std::to_string(accumulate);
  return "";
}

}  // namespace

void share_steps(TrainOptions& o, bool lanes_are_given, int ranks) {
  if (ranks == 1) return;
  if (o.textbook) throw std::invalid_argument("--textbook runs in one process: leave mpirun or srun out");
  const int enough = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  if (!lanes_are_given) o.lanes = enough;
  const std::string who = std::to_string(ranks) + " ranks";
  if (o.lanes < ranks)
    throw std::invalid_argument("--lanes " + std::to_string(o.lanes) + " is too few for " + who + ": choose --lanes " +
                                std::to_string(enough) +
                                (o.accumulate % enough == 0 ? "" : " " + same_tokens(o, enough)));
  if (o.accumulate % o.lanes == 0) return;
  const std::string same = same_tokens(o, o.lanes), lanes = std::to_string(o.lanes);
  const std::string advice = same.empty() ? "--accumulate " + lanes + ", say" : same + " has the same tokens in a step";
  throw std::invalid_argument(who + " in " + lanes + " lanes need an --accumulate that " + lanes + " divides, not " +
                              std::to_string(o.accumulate) + ": " + advice);
}

StepFunctions step_functions(const TrainOptions& o) {
  StepFunctions functions = o.textbook ? kTextbookStep : kFastStep;
  functions.optimizers = o.optimizers();
  return functions;
}

// ---- orders of rank 0 ------------------------------------------------------------------------------------

void order_model(Group& group, const TrainOptions& options) {
  if (group.size == 1) return;
  std::string text = to_text(to_json(options));
  give(group, {Order::model, static_cast<int64_t>(text.size())});
  group.broadcast(text.data(), text.size());
  group.timeout = options.rank_timeout;
}

void order_state(TrainingState& s, const float* whole) {
  if (s.group->size > 1) {
    give(*s.group, {Order::weights});
    broadcast_weights(s);
    give(*s.group, {whole ? Order::take_state : Order::zero_state});
    if (whole) scatter_state(*s.group, s.shards, s.model.table, s.optimizer_state.get(), whole);
  }
  if (!whole) set_zero_state(s);
}

Buffer order_whole_state(TrainingState& s) {
  Buffer whole = allocate(state_floats(s.model.table));
  give(*s.group, {Order::give_state});
  gather_state(*s.group, s.shards, s.model.table, s.optimizer_state.get(), whole.get());
  return whole;
}

StepResult order_step(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step, double lr,
                      StepObserver* observer) {
  if (s.group->size == 1) return training_step(s, batches, o, step, lr, observer);
  const Order order = order_with({Order::step, batches.count, step, observer != nullptr, lr}, batches.all);
  give(*s.group, order);
  RowBatch inputs = copied(batches.all, order, s.B);
  broadcast(*s.group, inputs, order);
  try {
    return training_step(s, batches, o, step, lr, observer);
  } catch (const std::exception& error) {  // the other ranks wait for this rank's messages
    end_all_ranks(*s.group, plain_text(error));
  }
}

std::vector<double> order_losses(Group& group, const Model& model, const Activations& activations, RowBatch& inputs,
                                 int B) {
  if (group.size > 1) {
    const Order order = order_with({.kind = Order::losses, .count = inputs.B / B}, inputs.batch());
    give(group, order);
    broadcast(group, inputs, order);
  }
  return losses(group, model, activations, inputs, B);
}
