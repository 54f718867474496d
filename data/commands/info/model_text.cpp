#include "model_text.hpp"

#include <vector>

#include "data/strings/format.hpp"
#include "layers/config/base_model.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/norm/norm.hpp"
#include "layers/streams/streams.hpp"

std::string norm_name(const Config& config) {
  const char* gain = config.norm_unit_offset ? "+1" : config.norm_gain ? "" : " without gain";
  return name_of(kNormKinds, config.norm) + std::string(gain);
}

std::string norm_name_at(const Config& config, const char* norm) { return norm_name(at_norm(config, norm)); }

std::string norm_names_of(const Config& config) {
  std::string own;
  for (const NormSiteRow& row : kNormSites)
    if (own_norm(config, row.name) && has_site(config, row.site))
      own += (own.empty() ? " (" : ", ") + std::string(row.name) + " " + norm_name_at(config, row.name);
  return norm_name(config) + own + (own.empty() ? "" : ")");
}

std::string describe_briefly(const TrainOptions& options, size_t parameters) {
  const Config& c = options.config;
  const std::string encoder = c.crosses() ? std::to_string(c.encoder_layers) + " + " : "";
  return options.preset + " " + options.size + ": " + c.placement + ", " + norm_names_of(c) + ", " + encoder +
         counted(c.n_layer, "layer") + " x " + counted(c.channels, "channel") + ", " +
         counted(c.n_head, "head") + ", context " + std::to_string(c.context) + ", " +
         format_short(static_cast<double>(parameters)) + " parameters";
}

namespace {

// Blocks first ... last, which share a row of the placement table.
struct Stack {
  int first, last;
  const Placement& row;
};

std::vector<Stack> stacks_of(const Config& c) {
  std::vector<Stack> stacks;
  for (int l = 0; l < c.n_layer; ++l) {
    const Placement& row = placement_at(c, l, "attention");
    if (stacks.empty() || &stacks.back().row != &row) stacks.push_back({l, l, row});
    stacks.back().last = l;
  }
  return stacks;
}

std::string name_of_stack(const Stack& stack, const Config& c) {
  if (stack.last - stack.first + 1 == c.n_layer)
    return c.n_layer == 1 ? "block" : "block, " + counted(c.n_layer, "time");
  if (stack.first == stack.last) return "block " + std::to_string(stack.first + 1);
  return "blocks " + std::to_string(stack.first + 1) + " to " + std::to_string(stack.last + 1);
}

// What a branch reads: "x", or "a·x" of mixed streams, or "x + layernorm(z)", or "Σ α·v" of earlier sums.
std::string read_text(const Config& c, const Placement& row) {
  if (is_attnres(row.streams)) return row.streams == StreamRule::attnres_normed ? "Σ α·norm(v)" : "Σ α·v";
  if (row.streams == StreamRule::siamese) return "x + " + norm_name_at(c, "second_norm") + "(z)";
  if (row.streams == StreamRule::gated) return "Σ g·" + norm_name_at(c, "stream_norm") + "(x)";
  return mixes(row.streams) ? "a·x" : "x";
}

// Returns the term that is added to the skip path: "λ·attention( layernorm(x) )".
std::string branch_formula(const Config& c, const Placement& row, const std::string& branch, const std::string& last) {
  const std::string scale = row.in_scale(1) == 1 ? "" : "s·";
  const std::string x = read_text(c, row);
  std::string f = branch + "( " + (row.norm_in ? scale + norm_name_at(c, "norm_in") + "(" + x + ")" : x) + " )";
  if (row.norm_inner) f = last + "( " + norm_name_at(c, "norm_inner") + "( " + f + " ) )";
  if (row.norm_out) f = norm_name_at(c, "norm_out") + "( " + f + " )";
  const std::string added = *c.branch_scale == 1 ? f : format("%.4g·", *c.branch_scale) + f;
  if (row.gain != LearnedGain::none) return "λ·" + added;
  return mixes(row.streams) ? "b·" + added : added;
}

// "y = rmsnorm( 1.86·x + attention(x) )". If `bypass`, the sum also has the block's input b.
std::string formula(const Config& c, const Placement& row, const std::string& added, bool bypass = false) {
  if (row.streams == StreamRule::sphere) return "y = unit( x + α·( unit( " + added + " ) − x ) )";
  const std::string x = has_carry(row.streams) ? "A·x" : row.skip_gain ? "ω·x" : "x";
  const std::string skip = (*c.skip_scale == 1 ? x : format("%.4g·", *c.skip_scale) + x) + (bypass ? " + b" : "");
  const std::string sum = skip + " + " + (row.streams == StreamRule::siamese ? "w·" : "") + added;
  const std::string scaled = row.gpas ? "γ·( " + sum + " )" : sum;
  const std::string y = "y = " + (row.norm_sum ? norm_name_at(c, "norm_sum") + "( " + sum + " )" : scaled);
  if (is_pair(row.streams)) return y + ", z = z + " + added;
  if (is_attnres(row.streams) && c.residual_block == 1) return "y = " + added;
  if (is_attnres(row.streams))
    return y + ", without x in the first of " + std::to_string(c.residual_block) + " branches";
  return bypass ? y + ", b the input of the block" : y;
}

// "2 of 8 and 1 shared: "
std::string experts_text(const Config& c) {
  if (c.experts == 0) return "";
  const std::string shared = c.shared_experts > 0 ? " and " + std::to_string(c.shared_experts) + " shared" : "";
  return std::to_string(c.experts_per_token) + " of " + std::to_string(c.experts) + shared + ": ";
}

// " in layers 5 of 6"; "" if they are all.
std::string in_layers(const std::string& set) { return set == "all" ? "" : " in layers " + set; }

std::string rope_text(const Config& c) {
  std::string text = ", RoPE";
  if (c.rope_fraction < 1) text += " on " + std::to_string(c.rope_dims()) + " of each head";
  text += in_layers(c.rope_layers);
  if (c.rope_scaling != RopeScaling::none)
    text += format(" stretched %g times by ", static_cast<double>(c.rope_factor)) +
            name_of(kRopeScalings, c.rope_scaling);
  return text;
}

std::string attention_text(const Config& c) {
  std::string text = counted(c.n_head, "head") + " of " + std::to_string(c.head_dim);
  if (c.kv_heads != c.n_head) text += " on " + std::to_string(c.kv_heads) + " of keys and values";
  constexpr const char* kNormed[] = {"", ", norm of each head's q and k", ", norm of q and of k",
                                     ", norm of each head's q, k and v",
                                     ", each head's q and k of length 1 times learned factors"};
  text += kNormed[static_cast<int>(c.qk_norm)];
  if (c.shares_values()) text += ", values mixed with the first layer's";
  text += c.causal() ? ", causal" : ", bidirectional";
  if (c.window > 0) text += ", window " + std::to_string(c.window) + in_layers(c.window_layers);
  if (c.position == Position::rope) text += rope_text(c);
  if (c.position == Position::alibi) text += ", ALiBi";
  if (c.position == Position::relative)
    text += ", relative positions in " + std::to_string(c.relative_buckets) + " buckets";
  if (c.output_gate != OutputGate::none) text += std::string(", output gated ") + name_of(kOutputGates, c.output_gate);
  if (*c.head_scale) text += ", each head times a learned factor";
  if (c.attention_sinks) text += ", a sink in each";
  if (c.attention_cap > 0) text += format(", scores capped at %g", static_cast<double>(c.attention_cap));
  return text;
}

std::string head_text(const Config& c) {
  std::string text = c.tied ? "the token embedding again" : "a matrix of its own";
  if (c.fix_norm && !c.tied) text += ", its rows of length 1";
  if (c.head_transform)
    text += std::string(", after a linear layer, ") + name_of(kActivations, c.activation) + " and " + norm_name(c);
  if (c.projects()) text += ", on " + counted(c.embedding_channels, "channel") + " projected from the stream";
  if (c.head_bias) text += ", with a bias";
  if (c.logit_gain) text += ", each logit times a learned factor";
  if (*c.logit_scale != 1) text += format(", logits times %.4g", *c.logit_scale);
  return text + (c.logit_cap > 0 ? format(", logits capped at %g", static_cast<double>(c.logit_cap)) : "");
}

std::string embedding_text(const Config& c) {
  std::string text = c.fix_norm ? "of the token, of length 1" : "of the token";
  if (*c.embedding_scale != 1) text += format(" times %.4g", *c.embedding_scale);
  if (c.projects()) text += " (" + counted(c.embedding_channels, "channel") + ", projected to the stream)";
  if (c.position == Position::sinusoidal) text += " plus the sinusoids of its position";
  if (c.position == Position::learned) text += " plus the learned embedding of its position";
  return text + (c.token_types > 0 ? " plus the first token type" : "");
}

// A box on a branch, and a note next to it. A box without text is the branch's last matrix.
struct Box {
  std::string text, about;
};

struct BranchText {
  Box function;
  std::string last;  // name of the branch's last matrix
};

Box box_of_norm(const Config& c, const char* norm) { return {"[ " + norm_name_at(c, norm) + " ]", ""}; }

// Draws a factor that the placement gives each block.
void add_factor(std::vector<Box>& boxes, const Config& c, const Stack& stack, double (*factor)(int layer)) {
  const double first = factor(base_layer(c, stack.first)), last = factor(base_layer(c, stack.last));
  if (first == last && first == 1) return;
  const std::string scale = format("[ × %.3g", first) + (first == last ? " ]" : format(" to %.3g ]", last));
  boxes.push_back({scale, first == last ? "" : "from the first block to the last"});
}

std::vector<Box> boxes_above(const Config& c, const Stack& stack) {
  const Placement& row = stack.row;
  std::vector<Box> boxes;
  if (mixes(row.streams)) boxes.push_back({"[ × b ]", "to each stream"});
  add_factor(boxes, c, stack, row.first_write);
  if (is_pair(row.streams)) boxes.push_back({"      │", "also added to the second stream, z"});
  if (*c.branch_scale != 1) boxes.push_back({format("[ × %.4g ]", *c.branch_scale), ""});
  if (row.streams == StreamRule::sphere)
    boxes.insert(boxes.end(), {{"[ α·(f − x) ]", "a learned share of the way from x to f, for each channel"},
                               {"[ unit length ]", "f"}});
  if (row.norm_out) boxes.push_back(box_of_norm(c, "norm_out"));
  if (row.gain == LearnedGain::channel) boxes.push_back({"[ × λ ]", "a gain for each channel"});
  if (row.gain == LearnedGain::block) boxes.push_back({"[ × λ ]", "one gain for all branches of a block"});
  if (row.norm_inner) boxes.insert(boxes.end(), {{"", ""}, box_of_norm(c, "norm_inner")});
  return boxes;
}

// What attention over depth reads.
std::string sums_text(const Config& c) {
  if (c.residual_block == 1) return "of the embedding and all outputs so far";
  return "of the embedding, x and all sums of " + std::to_string(c.residual_block) + " outputs so far";
}

std::vector<Box> boxes_below(const Config& c, const Stack& stack) {
  std::vector<Box> boxes;
  add_factor(boxes, c, stack, stack.row.in_scale);
  if (stack.row.norm_in) boxes.push_back(box_of_norm(c, "norm_in"));
  if (mixes(stack.row.streams)) boxes.push_back({"[ " + read_text(c, stack.row) + " ]", "a mixture of the streams"});
  if (stack.row.streams == StreamRule::siamese)
    boxes.push_back({"[ " + read_text(c, stack.row) + " ]", "z, the second stream"});
  if (is_attnres(stack.row.streams))
    boxes.push_back({"[ " + read_text(c, stack.row) + " ]", sums_text(c)});
  return boxes;
}

// The note on the skip path.
std::string skip_text(const Config& c, const Placement& row) {
  const std::string scale = *c.skip_scale == 1 ? "" : format("× %.4g", *c.skip_scale);
  if (has_carry(row.streams)) return scale.empty() ? "× A" : scale + "·A";
  if (row.skip_gain) return scale.empty() ? "× ω" : scale + "·ω";
  if (!is_attnres(row.streams)) return scale;
  return c.residual_block == 1 ? "× 0" : "in blocks";
}

// Draws the skip path on the left, with a note, and one or two branches on the right.
std::string rails(size_t branches, const std::string& skip = "") {
  return "  │    │ " + padded(skip, 15) + " │" + (branches == 2 ? std::string(20, ' ') + "│" : "");
}

std::string line_of_boxes(const std::vector<std::string>& boxes, const std::string& about) {
  std::string s = "  │    │           ";
  for (const std::string& box : boxes) s += &box == &boxes.back() ? box : padded(box, 21);
  return s + (about.empty() ? "" : "   " + about) + "\n";
}

// Draws one residual branch, or two side by side, from the sum at the top down to where they leave the stream.
std::string draw_branches(const Config& c, const Stack& stack, const std::vector<BranchText>& branches,
                          bool bypass = false) {
  size_t n = branches.size();
  const auto line = [&](const Box& box) {
    std::vector<std::string> boxes;
    for (size_t i = 0; i < n; ++i) boxes.push_back(box.text.empty() ? "[ " + branches[i].last + " ]" : box.text);
    return line_of_boxes(boxes, box.about);
  };
  std::string s = stack.row.norm_sum ? "  │    " + box_of_norm(c, "norm_sum").text + "\n  │    │\n" : "";
  if (stack.row.streams == StreamRule::sphere) s += "  │    [ unit length ]\n  │    │\n";
  if (stack.row.gpas) s += "  │    [ × γ ]   one learned factor for all branches of a block\n  │    │\n";
  s += std::string("  │    + ◄───────────────") + (n == 2 ? "┬────────────────────┐" : "┐") +
       (bypass ? "   and the input of the block" : "") + "\n";
  for (const Box& box : boxes_above(c, stack)) s += line(box);
  s += rails(n, skip_text(c, stack.row)) + "\n";
  std::vector<std::string> functions;
  for (const BranchText& branch : branches) functions.push_back(branch.function.text);
  s += line_of_boxes(functions, branches[0].function.about);
  s += rails(n) + (n == 2 ? "   " + branches[1].function.about : "") + "\n";
  if (c.block == BlockForm::parallel_shared) {
    s += "  │    │                 ├────────────────────┘\n";
    n = 1;
  }
  for (const Box& box : boxes_below(c, stack)) s += line(box) + rails(n) + "\n";
  return s + "  │    ├─────────────────" + (n == 2 ? "┴────────────────────┘\n" : "┘\n");
}

std::string cross_text(const Config& c) {
  const std::string reads = "reads the encoder";
  return reads + (c.attention_cap > 0 ? format(", scores capped at %g", static_cast<double>(c.attention_cap)) : "");
}

std::string draw_stack(const Config& c, const Stack& stack) {
  const std::string C = std::to_string(c.channels), sizes = C + " → " + std::to_string(c.hidden) + " → " + C;
  const std::string factors = c.up_gain ? ", learned factors before it" : "";
  const BranchText attention{{"[  attention   ]", attention_text(c)}, "o"};
  const BranchText ffn{{c.experts > 0 ? "[   experts    ]" : "[ feed-forward ]", experts_text(c) + sizes + ", " +
                                                                                  name_of(kActivations, c.activation) +
                                                                                  factors},
                       "down"};
  const auto part = [&](const char* branch) {
    return Stack{stack.first, stack.last, placement_at(c, stack.first, branch)};
  };
  const Stack of_ffn = part("ffn");
  const BranchText cross{{"[    cross     ]", cross_text(c)}, "o"};
  const std::string crossed = c.crosses() ? draw_branches(c, part("cross"), {cross}) + "  │    │\n" : "";
  const std::string branches = c.block == BlockForm::sequential
                                   ? draw_branches(c, of_ffn, {ffn}, of_ffn.row.bypass) + "  │    │\n" + crossed +
                                         draw_branches(c, stack, {attention})
                                   : draw_branches(c, stack, {attention, ffn});
  const std::string mix = "  │    │\n  │    [ a·x + b·x₀ ]   a and b learned, x₀ the input of the first block\n";
  return "       │\n  ┌─── " + name_of_stack(stack, c) + "\n" + branches + (c.stream_mix ? mix : "") + "  └───\n";
}

std::string formulas(const Config& c, const Stack& stack, const std::string& where) {
  const Placement& row = stack.row;
  const Placement& ffn_row = placement_at(c, stack.first, "ffn");
  const std::string attention = branch_formula(c, row, "attention", "o");
  const std::string ffn = branch_formula(c, ffn_row, "ffn", "down");
  if (c.block != BlockForm::sequential)
    return "  block" + where + "   " + formula(c, row, attention + " + " + ffn) + "\n";
  const Placement& cross_row = placement_at(c, stack.first, "cross");
  const std::string cross = formula(c, cross_row, branch_formula(c, cross_row, "cross", "o"));
  return "  attention branch" + where + "      " + formula(c, row, attention) + "\n" +
         (c.crosses() ? "  cross branch" + where + "          " + cross + "\n" : "") +
         "  feed-forward branch" + where + "   " + formula(c, ffn_row, ffn, ffn_row.bypass) + "\n";
}

std::string end_text(const Config& c) {
  switch (c.placement_row->stream_end) {
    case StreamEnd::sum: return "       [ sum ]  ";
    case StreamEnd::mean: return "       [ mean ]  ";
    case StreamEnd::read: return "       [ " + read_text(c, *c.placement_row) + " ]   a mixture";
  }
  return "";
}

// Draws everything between the tokens and what reads the end of the stream.
std::string draw_stream(const Config& c) {
  const std::vector<Stack> stacks = stacks_of(c);
  const StreamRule rule = stream_rule(c);
  const std::string copies = counted(stream_count(c), "stream") + "\n";
  std::string s;
  if (rule == StreamRule::dual) s += "       [ + z ]   the second stream, the sum of all branches" +
                                     (*c.final_norm ? ", through " + norm_name_at(c, "final_norm") : "") + "\n";
  else if (*c.final_norm) s += "       " + box_of_norm(c, "final_norm").text + "\n";
  if (rule == StreamRule::siamese)
    s += "       [ + z ]   the second stream, the sum of all branches, through " + norm_name_at(c, "second_norm") +
         "\n";
  if (mixes(rule)) s += end_text(c) + " of " + copies;
  if (is_attnres(rule))
    s += "       [ " + read_text(c, *c.placement_row) + " ]   " + sums_text(c) + "\n";
  for (auto stack = stacks.rbegin(); stack != stacks.rend(); ++stack) s += draw_stack(c, *stack);
  s += "       │\n";
  if (rule == StreamRule::siamese) s += "       " + box_of_norm(c, "first_norm").text + "   of the first stream\n";
  if (stream_count(c) > 1) s += "       [ copy ]   to " + copies;
  if (c.embedding_norm) s += "       " + box_of_norm(c, "embedding.norm").text + "\n";
  s += "       [ embedding ]   " + embedding_text(c) + "\n       │\n";
  return s + "       up to " + counted(c.context, "token");
}

std::string all_formulas(const Config& c) {
  const std::vector<Stack> stacks = stacks_of(c);
  std::string s;
  for (const Stack& stack : stacks) s += formulas(c, stack, stacks.size() == 1 ? "" : " of " + name_of_stack(stack, c));
  return s;
}

}  // namespace

std::string draw_model(const Config& open) {
  const Config c = resolved(open);
  std::string s = "       logits over " + counted(c.vocab_size, "token") + "\n       │\n";
  s += "       [ head ]   " + head_text(c) + "\n" + draw_stream(c);
  if (!c.crosses()) return s + "\n\n" + all_formulas(c);
  const Config encoder = encoder_of(c);
  return s + " of the target\n\n" + all_formulas(c) + "\n       the encoder, which cross attention reads\n       │\n" +
         draw_stream(encoder) + " of the source\n\n" + all_formulas(encoder);
}
