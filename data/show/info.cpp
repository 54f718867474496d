#include "info.hpp"

#include <cstdio>

#include "data/host/format.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/model/size.hpp"
#include "layers/textbook/step.hpp"
#include "data/host/peak.hpp"
#include "data/host/machine.hpp"
#include "data/run/directory.hpp"
#include "data/run/warnings.hpp"
#include "layers/model/presets.hpp"
#include "cost_text.hpp"

// ---- the drawing -----------------------------------------------------------------------------------------

namespace {

std::string norm_name(const Config& config) {
  return std::string(name_of(kNormKinds, config.norm)) + (config.norm_unit_offset ? "+1" : "");
}

// Blocks first ... last, which follow one row of the placements.
struct Stack {
  int first, last;
  const Placement& row;
};

std::vector<Stack> stacks_of(const Config& c) {
  std::vector<Stack> stacks;
  for (int l = 0; l < c.n_layer; ++l) {
    const Placement& row = placement_at(c, l);
    if (stacks.empty() || &stacks.back().row != &row) stacks.push_back({l, l, row});
    stacks.back().last = l;
  }
  return stacks;
}

std::string name_of_stack(const Stack& stack, const Config& c) {
  if (stack.last - stack.first + 1 == c.n_layer) return c.n_layer == 1 ? "block" : "block, " + counted(c.n_layer, "time");
  if (stack.first == stack.last) return "block " + std::to_string(stack.first + 1);
  return "blocks " + std::to_string(stack.first + 1) + " to " + std::to_string(stack.last + 1);
}

// What is added to the skip path: "λ·attention( layernorm(x) )"
std::string branch_formula(const Config& c, const Placement& row, const std::string& branch, const std::string& last) {
  const std::string norm = norm_name(c), scale = row.in_scale(1) == 1 ? "" : "s·";
  std::string f = branch + "( " + (row.norm_in ? scale + norm + "(x)" : "x") + " )";
  if (row.norm_inner) f = last + "( " + norm + "( " + f + " ) )";
  if (row.norm_out) f = norm + "( " + f + " )";
  return row.gain == LearnedGain::none ? f : "λ·" + f;
}

// "y = rmsnorm( 1.86·x + attention(x) )"
std::string formula(const Config& c, const Placement& row, const std::string& added) {
  const std::string skip = *c.skip_scale == 1 ? "x" : format("%.4g·x", *c.skip_scale);
  return "y = " + (row.norm_sum ? norm_name(c) + "( " + skip + " + " + added + " )" : skip + " + " + added);
}

std::string attention_text(const Config& c) {
  std::string text = counted(c.n_head, "head") + " of " + std::to_string(c.head_dim);
  if (c.kv_heads != c.n_head) text += " on " + std::to_string(c.kv_heads) + " of keys and values";
  if (c.qk_norm != QkNormKind::none)
    text += c.qk_norm == QkNormKind::head ? ", norm of each head's q and k" : ", norm of q and of k";
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
  if (*c.embedding_scale != 1) text += format(" times %.4g", *c.embedding_scale);
  if (c.position == Position::sinusoidal) text += " plus the sinusoids of its position";
  return text + (c.position == Position::learned ? " plus that of its position" : "");
}

std::string ffn_text(const Config& c) {
  return std::to_string(c.channels) + " → " + std::to_string(c.hidden) + " → " + std::to_string(c.channels) + ", " +
         name_of(kActivations, c.activation);
}

// A box of a branch and what is said beside it.
struct Box {
  std::string text, about;
};

// What stands on a branch above its function, and below it.
std::vector<Box> boxes_above(const Config& c, const Placement& row, const std::string& last) {
  std::vector<Box> boxes;
  const std::string norm = "[ " + norm_name(c) + " ]";
  if (row.norm_out) boxes.push_back({norm, ""});
  if (row.gain == LearnedGain::channel) boxes.push_back({"[ × λ ]", "a gain for each channel"});
  if (row.gain == LearnedGain::block) boxes.push_back({"[ × λ ]", "one gain for both branches of a block"});
  if (row.norm_inner) boxes.insert(boxes.end(), {{"[ " + last + " ]", ""}, {norm, ""}});
  return boxes;
}
std::vector<Box> boxes_below(const Config& c, const Stack& stack) {
  std::vector<Box> boxes;
  const double first = stack.row.in_scale(stack.first), last = stack.row.in_scale(stack.last);
  const std::string scale = format("[ × %.3g", first) + format(" to %.3g ]", last);
  if (first != last) boxes.push_back({scale, "from the first block to the last"});
  if (stack.row.norm_in) boxes.push_back({"[ " + norm_name(c) + " ]", ""});
  return boxes;
}

const std::string kRail = "  │    │                 │";  // the skip path on the left, a branch on the right

std::string beside(const Box& box) {
  return "  │    │           " + box.text + (box.about.empty() ? "" : "   " + box.about) + "\n";
}

// The skip path just below the sum, with what it is multiplied by.
std::string skip_line(const Config& c) {
  if (*c.skip_scale == 1) return kRail;
  return "  │    │ " + padded(format("× %.4g", *c.skip_scale), 15) + " │";
}

// One residual branch from bottom to top.
std::string draw_branch(const Config& c, const Stack& stack, const Box& function, const std::string& last) {
  std::string s = stack.row.norm_sum ? "  │    [ " + norm_name(c) + " ]\n  │    │\n" : "";
  s += "  │    + ◄───────────────┐\n";
  for (const Box& box : boxes_above(c, stack.row, last)) s += beside(box);
  s += skip_line(c) + "\n" + beside(function) + kRail + "\n";
  for (const Box& box : boxes_below(c, stack)) s += beside(box) + kRail + "\n";
  return s + "  │    ├─────────────────┘\n";
}

// The same of two branches side by side.
std::string beside(const Box& left, const Box& right) {
  const std::string about = left.about.empty() ? "" : "   " + left.about;
  return "  │    │           " + padded(left.text, 21) + right.text + about + "\n";
}

std::string draw_parallel(const Config& c, const Stack& stack, const Box& left, const Box& right) {
  const std::string space(20, ' '), both_rails = kRail + space + "│", both = both_rails + "\n";
  const std::vector<Box> above = boxes_above(c, stack.row, "o"), above_right = boxes_above(c, stack.row, "down");
  std::string s = "  │    + ◄───────────────┬────────────────────┐\n";
  for (size_t i = 0; i < above.size(); ++i) s += beside(above[i], {above_right[i].text, ""});
  s += skip_line(c) + space + "│\n" + beside(left, right) + both_rails + "   " + right.about + "\n";
  if (c.block == BlockForm::parallel_shared) {
    s += "  │    │                 ├────────────────────┘\n";
    for (const Box& box : boxes_below(c, stack)) s += beside(box) + kRail + "\n";
    return s + "  │    ├─────────────────┘\n";
  }
  for (const Box& box : boxes_below(c, stack)) s += beside(box, {box.text, ""}) + both;
  return s + "  │    ├─────────────────┴────────────────────┘\n";
}

std::string draw_stack(const Config& c, const Stack& stack) {
  const Box attention{"[  attention   ]", attention_text(c)}, ffn{"[ feed-forward ]", ffn_text(c)};
  std::string s = "       │\n  ┌─── " + name_of_stack(stack, c) + "\n";
  if (c.block == BlockForm::sequential)
    s += draw_branch(c, stack, ffn, "down") + "  │    │\n" + draw_branch(c, stack, attention, "o");
  else
    s += draw_parallel(c, stack, attention, ffn);
  return s + "  └───\n";
}

std::string formulas(const Config& c, const Stack& stack, const std::string& where) {
  const Placement& row = stack.row;
  const std::string attention = branch_formula(c, row, "attention", "o"), ffn = branch_formula(c, row, "ffn", "down");
  if (c.block != BlockForm::sequential) return "  block" + where + "   " + formula(c, row, attention + " + " + ffn) + "\n";
  return "  attention branch" + where + "      " + formula(c, row, attention) + "\n" +
         "  feed-forward branch" + where + "   " + formula(c, row, ffn) + "\n";
}

}  // namespace

std::string draw_model(const Config& open) {
  const Config c = resolved(open);
  const std::vector<Stack> stacks = stacks_of(c);
  const std::string norm = "       [ " + norm_name(c) + " ]\n";
  std::string s = "       logits over " + counted(c.vocab_size, "token") + "\n       │\n";
  s += "       [ head ]   " + head_text(c) + "\n";
  if (*c.final_norm) s += norm;
  for (auto stack = stacks.rbegin(); stack != stacks.rend(); ++stack) s += draw_stack(c, *stack);
  s += "       │\n";
  if (c.embedding_norm) s += norm;
  s += "       [ embedding ]   " + embedding_text(c) + "\n       │\n";
  s += "       up to " + counted(c.context, "token") + "\n\n";
  for (const Stack& stack : stacks) s += formulas(c, stack, stacks.size() == 1 ? "" : " of " + name_of_stack(stack, c));
  return s;
}

// ---- numbers ---------------------------------------------------------------------------------------------

std::string describe_briefly(const TrainOptions& options, size_t parameters) {
  const Config& c = options.config;
  return options.preset + " " + options.size + ": " + c.placement + ", " + norm_name(c) + ", " +
         counted(c.n_layer, "layer") + " x " + counted(c.channels, "channel") + ", " +
         counted(c.n_head, "head") + ", context " + std::to_string(c.context) + ", " +
         format_short(static_cast<double>(parameters)) + " parameters";
}

namespace {

// What a user of bf16 has to know: it may be missing, or no gain. Measures only what it prints.
void print_matmul(Matmul matmul, bool quiet) {
  if (matmul == Matmul::bf16 && !gemm_has_bf16()) {
    std::printf("NOTE     no bf16: this processor, or what the program was built for, has no instruction for it; "
                "--matmul stays fp32\n");
    return;
  }
  if (quiet) return;
  const double fp32 = measure_flops(Matmul::fp32) * 1e-9;
  if (matmul == Matmul::fp32) return void(std::printf("speed    at most %.0f GFLOP/s in fp32\n", fp32));
  const double bf16 = measure_flops(Matmul::bf16) * 1e-9;
  std::printf("speed    at most %.0f GFLOP/s in bf16, %.0f in fp32%s\n", bf16, fp32,
              bf16 < fp32 ? ": on this processor bf16 is slower" : "");
}

// "batch 4 x 8 accumulated x context 256"
std::string batch_text(const TrainOptions& o) {
  const std::string accumulated = o.accumulate > 1 ? " x " + std::to_string(o.accumulate) + " accumulated" : "";
  return "batch " + std::to_string(o.batch) + accumulated + " x context " + std::to_string(o.config.context);
}

// "0.003 after 100 warm-up steps, cosine to 0.0003"
std::string rate_text(const TrainOptions& o) {
  std::string text = format("%g", o.rate.lr);
  if (o.rate.warmup > 0) text += " after " + std::to_string(o.rate.warmup) + " warm-up steps";
  text += std::string(", ") + name_of(kSchedules, o.rate.schedule);
  return o.rate.schedule == Schedule::constant ? text : text + format(" to %g", o.rate.min_lr);
}

}  // namespace

void print_plan(const TrainOptions& o, const Dataset& data) {
  const Machine machine = detect_machine();
  Layout layout;
  declare_model(layout, o.config);
  const double train = static_cast<double>(data.train), val = static_cast<double>(data.tokens.size()) - train;
  std::printf("data     %s: %s, %s tokens to train on, %s to validate, vocabulary %d\n", data.name.c_str(),
              format_bytes(data.bytes).c_str(), format_short(train).c_str(), format_short(val).c_str(),
              o.config.vocab_size);
  for (const std::string& note : data.notes) std::printf("NOTE     %s\n", note.c_str());
  if (!data.val.empty())
    std::printf("scale    uniform %.4f, unigram %.4f%s nats/token\n", data.uniform_nats(), data.unigram_nats(),
                data.floor > 0 ? format(", floor %.4f", data.floor).c_str() : "");
  std::printf("model    %s\n", describe_briefly(o, count_parameters(layout.table())).c_str());
  std::printf("machine  %s, %s, needs %s of memory\n", counted(max_threads(), "thread").c_str(), machine.simd.c_str(),
              format_bytes(memory_of_training(o.config, o.batch).total() + data.memory()).c_str());
  print_matmul(o.config.matmul, o.quiet);
  if (o.textbook)
    std::printf("NOTE     the textbook takes the steps, in double and on one thread: slow, and %s of memory more\n",
                format_bytes(memory_of_textbook(o.config, o.batch)).c_str());
  if (!machine.openmp)
    std::printf("WARNING  built without OpenMP, so only one processor works; `make` says how to get it\n");
  std::printf("steps    %s of %s (%s), %.3g epochs\n", format_count(static_cast<double>(o.steps)).c_str(),
              counted(static_cast<double>(o.batch) * o.accumulate * o.config.context, "token").c_str(), batch_text(o).c_str(),
              epochs_of(data, o));
  std::printf("rate     %s\n", rate_text(o).c_str());
  for (const auto& lines : {warnings_about(o), warnings_about(data, o, count_parameters(layout.table()))})
    for (const std::string& line : lines) std::printf("WARNING  %s\n", line.c_str());
  std::printf("run      %s\n", o.out.c_str());
}

// ---- the sub-command -------------------------------------------------------------------------------------

namespace {

void print_row(const TensorSpec& spec) {
  std::string shape;
  for (int d : spec.shape) shape += (shape.empty() ? "(" : ", ") + std::to_string(d);
  const bool random = spec.start.deviation > 0;
  const std::string start = random ? format("normal, std %.4g", spec.start.deviation) : format("%g", spec.start.mean);
  std::printf("%-40s %-16s %13s  %-20s %s\n", spec.name.c_str(), (shape + ")").c_str(),
              format_count(static_cast<double>(spec.size())).c_str(), start.c_str(),
              !spec.trained ? "not trained" : spec.decay ? "yes" : "no");
}

TrainOptions options_of_checkpoint(const std::string& which) {
  const std::string path = find_checkpoint(which);
  const CheckpointHeader header = verify_checkpoint(path);
  std::printf("%s, step %lld, trained for %s", name_of_checkpoint(which, path).c_str(),
              static_cast<long long>(header.step),
              format_seconds(header.elapsed).c_str());
  if (header.best_step > 0)
    std::printf(", best validation loss %.4f at step %lld", header.best_loss,
                static_cast<long long>(header.best_step));
  std::printf("\n");
  return header.options;
}

// Where it comes from, its drawing, its tensors, and the memory it takes.
void print_model(const TrainOptions& options, const std::string& name, const std::vector<TensorSpec>& table) {
  const Config& c = options.config;
  const Preset& preset = preset_row(options.preset, options.size);
  const MemoryNeed need = memory_of_training(c, options.batch);
  std::printf("%s\npreset %s: %s\n", name.c_str(), preset.name, preset.source);
  if (*preset.missing) std::printf("not implemented of %s: %s\n", preset.name, preset.missing);
  std::printf("placement %s: %s\nnorm %s: %s\n\n%s\n", c.placement.c_str(), placement_row(c.placement).source,
              norm_name(c).c_str(), norm_row(c.norm).source, draw_model(c).c_str());
  std::printf("%-40s %-16s %13s  %-20s %s\n", "tensor", "shape", "elements", "initial value", "decay");
  for (const TensorSpec& spec : table) print_row(spec);
  std::printf("\n%s in %s\n", counted(static_cast<double>(count_parameters(table)), "parameter").c_str(),
              counted(static_cast<double>(table.size()), "tensor").c_str());
  std::printf("to train with --batch %d: %s (weights %s, gradients %s, moments %s, activations %s)\n", options.batch,
              format_bytes(need.total()).c_str(), format_bytes(need.weights).c_str(),
              format_bytes(need.gradients).c_str(), format_bytes(need.moments).c_str(),
              format_bytes(need.activations).c_str());
}

}  // namespace

void run_info(const Command& command) {
  TrainOptions options = command.info_needs_checkpoint ? options_of_checkpoint(command.info_checkpoint) : command.train;
  if (command.said("--batch")) options.batch = command.train.batch;
  options = with_vocabulary(options);
  options.config = resolved(options.config);
  Layout layout;
  declare_model(layout, options.config);
  const std::string name = describe_briefly(options, count_parameters(layout.table()));
  if (!command.info_cost) return print_model(options, name, layout.table());
  std::printf("%s\n\n%s", name.c_str(), cost_text(options.config, options.batch).c_str());
}
