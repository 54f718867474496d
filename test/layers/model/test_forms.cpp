// The forms of a block in the program: drawn, configured, trained, resumed, sampled.

#include <algorithm>
#include <map>

#include "catch.hpp"
#include "data/commands/info/model_text.hpp"
#include "small_run.hpp"

namespace {

// The drawing of a model, with N for "layernorm".
std::string drawing(const std::string& placement, BlockForm block = BlockForm::sequential,
                    QkNormKind qk_norm = QkNormKind::none) {
  Config c;
  c.placement = placement, c.block = block, c.qk_norm = qk_norm, c.vocab_size = 11;
  std::string s = draw_model(c);
  for (size_t at; (at = s.find("layernorm")) != s.npos;) s.replace(at, 9, "N");
  return s;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) n++;
  return n;
}

}  // namespace

TEST_CASE("the drawing shows the formulas of the placement", "[info]") {
  const std::map<std::string, std::string> formulas = {
      {"post", "y = N( x + attention( x ) )"},
      {"pre", "y = x + attention( N(x) )"},
      {"sandwich", "y = x + N( attention( N(x) ) )"},
      {"deepnorm", "y = N( 1.682·x + attention( x ) )"},
      {"reordered", "y = x + N( attention( x ) )"},
      {"none", "y = x + attention( x )"},
      {"glm-deepnorm", "y = N( 2.828·x + attention( x ) )"},
      {"pre-post", "y = N( x + attention( N(x) ) )"},
      {"lns", "y = x + attention( s·N(x) )"},
      {"sub-ln", "y = x + o( N( attention( N(x) ) ) )"},
      {"layerscale", "y = x + λ·attention( N(x) )"},
      {"rezero", "y = x + λ·attention( x )"},
      {"gpas", "y = γ·( x + attention( N(x) ) )"},
      {"admin", "y = N( ω·x + attention( x ) )"},
      {"keel", "y = N( 8·x + attention( N(x) ) )"},
      {"hybridnorm", "y = N( x + attention( x ) )"},
      {"b2t", "y = N( x + attention( x ) )"},
      {"normformer", "y = x + N( attention( N(x) ) )"},
      {"hyper", "y = A·x + b·attention( N(a·x) )"},
      {"hyper-static", "y = A·x + b·attention( N(a·x) )"},
      {"mhc", "y = A·x + b·attention( N(a·x) )"},
      {"mhc-read", "y = A·x + b·attention( N(a·x) )"},
      {"mhc-mean", "y = A·x + b·attention( N(a·x) )"},
      {"hyper-independent", "y = x + b·attention( N(a·x) )"},
      {"gated-residual", "y = x + b·attention( Σ g·N(x) )"},
      {"resi-dual", "y = N( x + attention( x ) ), z = z + attention( x )"},
      {"siamese", "y = N( x + w·attention( N(x + N(z)) ) ), z = z + attention( N(x + N(z)) )"},
      {"attnres", "y = attention( N(Σ α·v) )"},
      {"attnres-normed", "y = attention( N(Σ α·norm(v)) )"},
      {"ngpt", "y = unit( x + α·( unit( attention( x ) ) − x ) )"}};
  for (const Placement& row : placements()) {
    INFO(row.name);
    const auto found = formulas.find(row.name);
    REQUIRE((found != formulas.end()) == !row.early);  // placements of two kinds of blocks are below
    if (!row.early) CHECK(contains(drawing(row.name), " " + found->second + "\n"));
  }
  CHECK(contains(drawing("hybridnorm"), " y = x + ffn( x )\n"));
  CHECK(contains(drawing("b2t"), " y = N( x + b + ffn( x ) ), b the input of the block\n"));
  CHECK(contains(drawing("normformer"), " y = x + down( N( ffn( N(x) ) ) )\n"));
  const std::string star = drawing("hybridnorm-star");
  CHECK(contains(star, "feed-forward branch of block 1   y = x + ffn( N(x) )\n"));
  CHECK(contains(star, "feed-forward branch of blocks 2 to 4   y = x + ffn( x )\n"));
  const std::string mixed = drawing("mix-ln");
  CHECK(contains(mixed, "attention branch of block 1      y = N( x + attention( x ) )\n"));
  CHECK(contains(mixed, "feed-forward branch of blocks 2 to 4   y = x + ffn( N(x) )\n"));
  CHECK(mixed.find("─ blocks 2 to 4\n") < mixed.find("─ block 1\n"));  // last block first
}

TEST_CASE("the drawing of a block shows the placement's norms and gains", "[info]") {
  const auto boxes = [](const std::string& s) { return count(s, "[ N ]"); };
  CHECK(boxes(drawing("pre")) == 2 + 1);  // one for the final norm
  CHECK(boxes(drawing("sub-ln")) == 4 + 1);
  CHECK(boxes(drawing("normformer")) == 4 + 1);
  CHECK(count(drawing("b2t"), "   and the input of the block\n") == 1);
  CHECK(count(drawing("sub-ln"), "[ down ]") == 1);
  CHECK(count(drawing("lns"), "[ × 1 to 0.5 ]") == 2);
  CHECK(count(drawing("layerscale"), "[ × λ ]   a gain for each channel") == 2);
  CHECK(count(drawing("rezero"), "[ × λ ]   one gain for all branches of a block") == 2);
  CHECK(count(drawing("gpas"), "[ × γ ]   one learned factor for all branches of a block") == 2);
  CHECK(count(drawing("admin"), " × ω ") == 2);
  CHECK(contains(drawing("mhc"), "[ sum ]   of 4 streams\n"));
  CHECK(contains(drawing("mhc-mean"), "[ mean ]   of 4 streams\n"));
  CHECK(contains(drawing("mhc-read"), "[ a·x ]   a mixture of 4 streams\n"));
  CHECK(count(drawing("mhc-read"), "× A") == 2);
  CHECK(count(drawing("hyper-independent"), "× A") == 0);
  CHECK(count(drawing("hyper-independent"), "[ × b ]   to each stream") == 2);
  CHECK(count(drawing("gated-residual"), "[ Σ g·N(x) ]   a mixture of the streams") == 2);
  CHECK(contains(drawing("gated-residual"), "[ Σ g·N(x) ]   a mixture of 4 streams\n"));
  CHECK(count(drawing("ngpt"), "[ α·(f − x) ]   a learned share of the way from x to f, for each channel") == 2);
  CHECK(count(drawing("ngpt"), "[ unit length ]") == 4);
  CHECK(contains(drawing("pre", BlockForm::sequential, QkNormKind::unit), "each head's q and k of length 1"));
  CHECK(contains(drawing("pre", BlockForm::sequential, QkNormKind::head), "norm of each head's q and k"));
  CHECK(contains(drawing("pre", BlockForm::sequential, QkNormKind::full), "norm of q and of k"));
  CHECK(contains(drawing("pre", BlockForm::sequential, QkNormKind::qkv), "norm of each head's q, k and v"));

  Config c;
  c.vocab_size = 11, c.output_gate = OutputGate::headwise, c.value_residual = ValueResidual::fixed, c.stream_mix = true;
  c.head_scale = true;
  const std::string variants = draw_model(c);
  CHECK(contains(variants, "4 heads of 32, values mixed with the first layer's, causal, output gated headwise, each "
                           "head times a learned factor\n"));
  CHECK(count(variants, "[ a·x + b·x₀ ]") == 1);

  const std::string parallel = drawing("pre", BlockForm::parallel), shared = drawing("pre", BlockForm::parallel_shared);
  CHECK(boxes(parallel) == 2 + 1);
  CHECK(boxes(shared) == 1 + 1);
  CHECK(contains(parallel, "├─────────────────┴────────────────────┘"));
  CHECK(contains(shared, "├────────────────────┘"));
  CHECK(contains(parallel, "block   y = x + attention( N(x) ) + ffn( N(x) )\n"));
}

TEST_CASE("the drawing shows the norm of each site", "[info]") {
  Config c;
  c.placement = "sandwich", c.vocab_size = 11, c.embedding_norm = true;
  c.norm_sites = {NormChoice{NormKind::dyt}, {}, NormChoice{NormKind::rmsnorm, true}, NormChoice{NormKind::derf},
                  NormChoice{NormKind::scalenorm}};
  const std::string s = draw_model(c);
  CHECK(contains(s, "y = x + rmsnorm without gain( attention( dyt(x) ) )\n"));
  for (const auto& [box, times] : {std::pair{"[ dyt ]", 2}, {"[ rmsnorm without gain ]", 2}, {"[ scalenorm ]", 1},
                                   {"[ layernorm ]", 1}, {"[ derf ]", 0}})
    CHECK(count(s, box) == size_t(times));
  CHECK(norm_names_of(c) == "layernorm (norm_in dyt, norm_out rmsnorm without gain, final_norm scalenorm)");
}

TEST_CASE("every form is configured and resumed with the same bits, and sampled", "[program][slow]") {
  const Corpus f;
  const std::string words = "train --data stories.txt --layers 3 --heads 2 --channels 32 --context 32 --batch 4 "
                            "--schedule constant --warmup 0 --eval-every 3 --eval-batches 4 --diagnostics 3 --quiet ";
  std::vector<std::string> forms = {
        "--placement mix-ln --mix-fraction 0.4", "--placement rezero", "--placement gpas",
        "--placement admin --skip-scale 1.5 --dropout 0.1",
        "--placement layerscale --layer-scale-init 0.25 --block parallel-shared",
        "--placement sub-ln --block parallel --qk-norm head", "--placement hyper --streams 3",
        "--placement mhc --dropout 0.1", "--placement mhc-read", "--placement mhc-mean --streams 2",
        "--placement hyper-independent --streams 3 --dropout 0.1", "--placement resi-dual",
        "--placement gated-residual --gated-residual-rank 5 --streams 3 --dropout 0.1",
        "--placement attnres --dropout 0.1",
        "--placement attnres --residual-block 3 --norm scalenorm", "--placement attnres-normed --residual-block 2",
        "--placement b2t --stream-mix --dropout 0.1",
        "--placement normformer",
        "--output-gate headwise --value-residual learned --stream-mix --activation relu2 --zero-init",
        "--placement sandwich --norm-in batchnorm --norm-out simple-rmsnorm --norm-gain-init 0.5 --norm-decay 0.1",
        "--placement post --branch-warmup prores --branch-warmup-steps 2",
        "--placement pre --fix-norm --norm scalenorm --no-tied",
        "--preset ngpt --eigen-rate-init 0.2",
        "--placement post --qk-norm unit --up-gain --logit-gain --normed-weights --dropout 0.1",
        "--placement lns --qk-norm full"};
  for (const Placement& row : placements()) {
    const std::string form = std::string("--placement ") + row.name;
    if (std::ranges::none_of(forms, [&](const auto& other) { return contains(other + " ", form + " "); }))
      forms.push_back(form);
  }
  for (const std::string& form : forms) {
    INFO(form);
    REQUIRE(f.run(words + form + " --steps 6 --out whole --force").status == 0);
    REQUIRE(f.run(words + form + " --steps 3 --out parts --force").status == 0);
    REQUIRE(f.run("train --out parts --resume --steps 6 --quiet").status == 0);
    CHECK(losses_in(f.read("parts/metrics.csv")) == losses_in(f.read("whole/metrics.csv")));
    CHECK(f.read("parts/diagnostics.csv") == f.read("whole/diagnostics.csv"));
    REQUIRE(f.run("train --config whole/config.toml --out copy --force").status == 0);
    CHECK(f.read("copy/config.toml") == f.read("whole/config.toml"));
    CHECK(f.run("sample whole --prompt Lily --length 40").status == 0);
  }
}

TEST_CASE("init-report prints no ratio if gradients are zero", "[program][diagnostics]") {
  const Corpus f;
  const Outcome o = f.run("init-report --data stories.txt --channels 32 --heads 2 --context 32 --placement rezero "
                          "--grid layers=2,3");
  CHECK(o.status == 0);
  CHECK_FALSE(contains(o.out, "nan"));
  CHECK_FALSE(contains(o.out, "inf"));
}
