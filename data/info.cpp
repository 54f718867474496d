#include "info.hpp"

#include <cstdio>

#include "../layers/parallel.hpp"
#include "ceiling.hpp"
#include "machine.hpp"
#include "progress.hpp"
#include "run.hpp"

// ---- the drawing -----------------------------------------------------------------------------------------

namespace {

std::string norm_name(const Config& config) { return name_of(kNormKinds, config.norm); }

// "y = rmsnorm( 1.86·x + attention(x) )"
std::string formula(const Config& config, const std::string& branch) {
  const Placement& row = placement_row(config.placement);
  const std::string norm = norm_name(config);
  std::string f = branch + "( " + (row.norm_in ? norm + "(x)" : "x") + " )";
  if (row.norm_out) f = norm + "( " + f + " )";
  const std::string skip = *config.skip_scale == 1 ? "x" : format("%.4g·x", *config.skip_scale);
  return "y = " + (row.norm_sum ? norm + "( " + skip + " + " + f + " )" : skip + " + " + f);
}

std::string attention_text(const Config& c) {
  std::string text = std::to_string(c.n_head) + " heads of " + std::to_string(c.head_dim);
  if (c.kv_heads != c.n_head) text += " on " + std::to_string(c.kv_heads) + " of keys and values";
  text += ", causal";
  if (c.window > 0) text += ", window " + std::to_string(c.window);
  if (c.window > 0 && c.window_every > 1) text += " in one layer of " + std::to_string(c.window_every);
  const bool rope = c.position == Position::rope;
  if (rope) text += ", RoPE";
  if (rope && c.rope_fraction < 1) text += " on " + std::to_string(c.rope_dims()) + " of each head";
  if (c.position == Position::alibi) text += ", ALiBi";
  if (c.attention_cap > 0) text += format(", scores capped at %g", static_cast<double>(c.attention_cap));
  return text;
}

std::string head_text(const Config& c) {
  std::string text = c.tied ? "the token embedding again" : "a matrix of its own";
  if (c.head_bias) text += ", with a bias";
  return text + (c.logit_cap > 0 ? format(", logits capped at %g", static_cast<double>(c.logit_cap)) : "");
}

std::string embedding_text(const Config& c) {
  std::string text = "of the token";
  if (c.embedding_scale != 1) text += format(" times %.4g", static_cast<double>(c.embedding_scale));
  if (c.position == Position::sinusoidal) text += " plus the sinusoids of its position";
  return text + (c.position == Position::learned ? " plus that of its position" : "");
}

std::string ffn_text(const Config& c) {
  return std::to_string(c.channels) + " → " + std::to_string(c.hidden) + " → " + std::to_string(c.channels) + ", " +
         name_of(kActivations, c.activation);
}

// One residual branch from bottom to top: the skip path on the left, the branch on the right.
std::string draw_branch(const Config& c, const std::string& branch, const std::string& about) {
  const Placement& row = placement_row(c.placement);
  const std::string norm = "[ " + norm_name(c) + " ]";
  const std::string side = "  │    │                 │\n";
  const std::string times = *c.skip_scale == 1 ? "" : format("× %.4g", *c.skip_scale);
  const std::string labelled = times.empty() ? "" : times + std::string(15 - (times.size() - 1), ' ');
  std::string s;
  if (row.norm_sum) s += "  │    " + norm + "\n  │    │\n";
  s += "  │    + ◄───────────────┐\n";
  if (row.norm_out) s += "  │    │           " + norm + "\n";
  s += labelled.empty() ? side : "  │    │ " + labelled + " │\n";
  s += "  │    │           [ " + branch + " ]   " + about + "\n";
  s += side;
  if (row.norm_in) s += "  │    │           " + norm + "\n" + side;
  return s + "  │    ├─────────────────┘\n";
}

}  // namespace

std::string draw_model(const Config& open) {
  const Config c = resolve(open);
  const std::string norm = "       [ " + norm_name(c) + " ]\n";
  std::string s = "       logits over " + std::to_string(c.vocab_size) + " tokens\n       │\n";
  s += "       [ head ]   " + head_text(c) + "\n";
  if (*c.final_norm) s += norm;
  s += "       │\n  ┌─── block, " + std::to_string(c.n_layer) + " times\n";
  s += draw_branch(c, "feed-forward", ffn_text(c)) + "  │    │\n";
  s += draw_branch(c, " attention  ", attention_text(c)) + "  └───\n       │\n";
  if (c.embedding_norm) s += norm;
  s += "       [ embedding ]   " + embedding_text(c) + "\n       │\n";
  s += "       up to " + std::to_string(c.context) + " tokens\n\n";
  s += "  attention branch      " + formula(c, "attention") + "\n";
  return s + "  feed-forward branch   " + formula(c, "ffn") + "\n";
}

// ---- numbers ---------------------------------------------------------------------------------------------

size_t count_parameters(const std::vector<TensorSpec>& table) {
  size_t n = 0;
  for (const TensorSpec& spec : table) n += spec.trained ? spec.size() : 0;
  return n;
}

std::string describe_briefly(const TrainOptions& options, size_t parameters) {
  const Config& c = options.config;
  return options.preset + " " + options.size + ": " + c.placement + ", " + norm_name(c) + ", " +
         std::to_string(c.n_layer) + " layers x " + std::to_string(c.channels) + " channels, " +
         std::to_string(c.n_head) + " heads, context " + std::to_string(c.context) + ", " +
         format_short(static_cast<double>(parameters)) + " parameters";
}

namespace {

// What a user of bf16 has to know: it may be missing, or no gain.
void print_matmul(Matmul matmul) {
  const double fp32 = measure_flops(Matmul::fp32) * 1e-9, bf16 = measure_flops(Matmul::bf16) * 1e-9;
  if (matmul == Matmul::fp32) return void(std::printf("speed    at most %.0f GFLOP/s in fp32\n", fp32));
  if (!gemm_has_bf16()) {
    std::printf("NOTE     no bf16: this processor, or what the program was built for, has no instruction for it; "
                "--matmul stays fp32\n");
    return;
  }
  std::printf("speed    at most %.0f GFLOP/s in bf16, %.0f in fp32%s\n", bf16, fp32,
              bf16 < fp32 ? ": on this processor bf16 is slower" : "");
}

}  // namespace

void print_plan(const TrainOptions& o, const Dataset& data) {
  const Machine machine = look_at_machine();
  Layout layout;
  declare_model(layout, o.config);
  const double train = static_cast<double>(data.train), val = static_cast<double>(data.tokens.size()) - train;
  std::printf("data     %s: %s, %s tokens to train on, %s to validate, vocabulary %d\n", data.name.c_str(),
              format_bytes(data.bytes).c_str(), format_short(train).c_str(), format_short(val).c_str(),
              o.config.vocab_size);
  if (!data.val.empty())
    std::printf("scale    uniform %.4f, unigram %.4f%s nats/token\n", data.uniform_nats(), data.unigram_nats(),
                data.floor > 0 ? format(", floor %.4f", data.floor).c_str() : "");
  std::printf("model    %s\n", describe_briefly(o, count_parameters(layout.table())).c_str());
  std::printf("machine  %d threads, %s, needs %s of memory\n", max_threads(), machine.simd.c_str(),
              format_bytes(memory_of_training(o.config, o.batch).total()).c_str());
  print_matmul(o.config.matmul);
  if (!machine.openmp)
    std::printf("WARNING  built without OpenMP, so only one processor works; `make` says how to get it\n");
  std::printf("steps    %s of %s tokens\n", format_count(static_cast<double>(o.steps)).c_str(),
              format_count(static_cast<double>(o.batch) * o.accumulate * o.config.context).c_str());
  std::printf("run      %s\n", o.out.c_str());
}

// ---- the sub-command -------------------------------------------------------------------------------------

namespace {

void print_row(const TensorSpec& spec) {
  std::string shape;
  for (int d : spec.shape) shape += (shape.empty() ? "(" : ", ") + std::to_string(d);
  const bool random = spec.start.deviation > 0;
  const std::string start = random ? format("normal, std %.4g", spec.start.deviation) : format("%g", spec.start.mean);
  std::printf("%-36s %-16s %13s  %-20s %s\n", spec.name.c_str(), (shape + ")").c_str(),
              format_count(static_cast<double>(spec.size())).c_str(), start.c_str(), spec.decay ? "yes" : "no");
}

TrainOptions options_of_checkpoint(const std::string& which) {
  const std::string path = find_checkpoint(which);
  const CheckpointHeader header = read_checkpoint_header(path);
  std::printf("%s, step %lld, trained for %s", path.c_str(), static_cast<long long>(header.step),
              format_seconds(header.elapsed).c_str());
  if (header.best_step > 0)
    std::printf(", best validation loss %.4f at step %lld", header.best_loss,
                static_cast<long long>(header.best_step));
  std::printf("\n");
  return header.options;
}

}  // namespace

void run_info(const Command& command) {
  TrainOptions options = command.info_needs_checkpoint ? options_of_checkpoint(command.info_checkpoint) : command.train;
  if (options.config.vocab_size == 0) options.config.vocab_size = 256;  // bytes, as `train` would have it
  options.config = resolve(options.config);
  Layout layout;
  declare_model(layout, options.config);
  const size_t parameters = count_parameters(layout.table());
  const MemoryNeed need = memory_of_training(options.config, options.batch);

  std::printf("%s\nplacement %s: %s\n\n%s\n", describe_briefly(options, parameters).c_str(),
              options.config.placement.c_str(), placement_row(options.config.placement).source,
              draw_model(options.config).c_str());
  std::printf("%-36s %-16s %13s  %-20s %s\n", "tensor", "shape", "elements", "initial value", "decay");
  for (const TensorSpec& spec : layout.table()) print_row(spec);
  std::printf("\n%s parameters in %zu tensors\n", format_count(static_cast<double>(parameters)).c_str(),
              layout.table().size());
  std::printf("to train with --batch %d: %s (weights %s, gradients %s, moments %s, activations %s)\n", options.batch,
              format_bytes(need.total()).c_str(), format_bytes(need.weights).c_str(),
              format_bytes(need.gradients).c_str(), format_bytes(need.moments).c_str(),
              format_bytes(need.activations).c_str());
}
