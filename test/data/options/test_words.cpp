// The command line as people type it: names of other programs, misspellings, numbers, and the help.

#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "data/options/command_settings.hpp"
#include "data/options/help.hpp"
#include "markdown.hpp"
#include "parse.hpp"
#include "small_run.hpp"
#include "tree.hpp"

namespace {

struct Parsed {
  Command command;
  std::string error, text;  // the error, or the text that is printed instead of running
};

// Parses the words after train_gpt, split as in a shell.
Parsed parse(const std::string& line) {
  Parsed p;
  try {
    p.command = parse_program_words(pages::words_of("train_gpt " + line));
  } catch (const CommandLineExit& exit) {
    p.text = exit.text;
  } catch (const std::exception& error) {
    p.error = error.what();
  }
  return p;
}

std::string error_of(const std::string& line) { return parse(line).error; }

}  // namespace

// It used to be a switch, and older config files and checkpoints have it as true or false.
TEST_CASE("--recompute takes a level, and alone means full", "[words][recompute]") {
  const struct {
    const char* words;
    Recompute level;
  } cases[] = {{"a.txt", Recompute::none},
               {"a.txt --recompute", Recompute::full},
               {"--recompute a.txt", Recompute::full},
               {"--recompute --data a.txt", Recompute::full},
               {"--recompute selective a.txt", Recompute::selective},
               {"a.txt --recompute=selective", Recompute::selective},
               {"a.txt --recompute full", Recompute::full},
               {"a.txt --recompute none", Recompute::none},
               {"a.txt --recompute true", Recompute::full},
               {"a.txt --recompute=false", Recompute::none},
               {"a.txt --no-recompute", Recompute::none},
               {"a.txt --recompute selective --no-recompute", Recompute::none},
               {"a.txt --recompute-granularity selective", Recompute::selective}};
  for (const auto& [words, level] : cases) {
    INFO(words);
    const Parsed p = parse(std::string("train ") + words);
    CHECK(p.error.empty());
    CHECK(p.command.train.data == std::vector<std::string>{"a.txt"});
    CHECK(p.command.train.config.recompute == level);
  }
  CHECK(contains(error_of("train a.txt --recompute=selectiv"), "did you mean 'selective'"));
}

TEST_CASE("options with the names of other programs are accepted with a notice", "[words]") {
  const struct {
    const char *theirs, *ours;
  } cases[] = {
      {"--batch-size 7", "--batch 7"},
      {"--batch_size=7", "--batch 7"},
      {"--per_device_train_batch_size 7", "--batch 7"},
      {"--learning-rate 1e-4", "--lr 1e-4"},
      {"--n-layer 2", "--layers 2"},
      {"--n_layer 2", "--layers 2"},
      {"--num-hidden-layers 2", "--layers 2"},
      {"--n-head 2", "--heads 2"},
      {"--n_embd 64", "--channels 64"},
      {"--d-model 64", "--channels 64"},
      {"--intermediate-size 64", "--hidden 64"},
      {"--block-size 64", "--context 64"},
      {"--seq-len 64", "--context 64"},
      {"--max-iters 9", "--steps 9"},
      {"--max-steps 9", "--steps 9"},
      {"--grad-clip 0.5", "--clip 0.5"},
      {"--gradient-accumulation-steps 2", "--accumulate 2"},
      {"--eval-interval 9", "--eval-every 9"},
      {"--warmup_iters 9", "--warmup 9"},
      {"--no-tie-weights", "--no-tied"},
      {"--tie_word_embeddings false", "--no-tied"},
      {"--dataset my.txt", "--data my.txt"},
  };
  for (const auto& [theirs, ours] : cases) {
    INFO(theirs);
    const Parsed p = parse(std::string("train ") + theirs);
    CHECK(p.error == "");
    CHECK(words_of(p.command) == words_of(parse(std::string("train ") + ours).command));
    REQUIRE(p.command.notices.size() == 1);
    CHECK(contains(p.command.notices[0], " here"));
  }
  CHECK(parse("train --n-layer 2").command.notices[0] == "--n-layer is --layers here");
  CHECK(parse("train --eval_every 2").command.notices.empty());  // our own name
  CHECK(parse("train --norm-lr 0.01").command.train.lr_norm == .01);  // its name in earlier versions
  CHECK(parse("train --norm-lr 0.01").command.notices.empty());
  CHECK(parse("compare my.txt --grid norm-lr=1,2").error == "");
  CHECK(parse("train --nobias").command.notices[0] == "--nobias is --no-bias here");
  CHECK_FALSE(parse("train --nobias").command.train.config.bias);
  CHECK_FALSE(*parse("train --noqkvbias").command.train.config.qkv_bias);
  CHECK(parse("train --preset llama2 --size 7b").command.train.size == "7B");
  CHECK(parse("train --out runs --resume").command.train.out == "runs");
  CHECK(parse("sample --model runs/a --max_new_tokens 9").command.sample.checkpoint == "runs/a");
}

TEST_CASE("an option of other programs that is missing here gets a specific answer", "[words]") {
  const struct {
    const char *words, *answer;
  } cases[] = {
      {"--device cuda", "there is no --device: train_gpt runs on the CPU"},
      {"--compile", "there is no --compile: the program is compiled already"},
      {"--wandb", "metrics.csv"},
      {"--model gpt2", "--preset names a family"},
      {"--hidden-size 64", "--channels is the width of the model, --hidden that of the feed-forward layer"},
      {"--lr-decay", "--schedule cosine|linear|constant|wsd"},
      {"--dtype bfloat16", "--matmul bf16"},
      {"--adamw", "--optimizer NAME chooses the optimizer"},
      {"--warmup-ratio .1", "--warmup 10% is a tenth of the steps"},
      {"--temperature 1", "--temperature is an option of sample, not of train"},
      {"--grid lr=1,2", "--grid is an option of compare, not of train"},
      {"-b 4", "options begin with two dashes"},
      {"--seeds 3", "there is no --seeds: --seed is one number; compare --grid seed=1,2,3"},
      {"--no-norm", "there is no --no-norm: write --placement none"},
      {"--nonorm", "there is no --nonorm: write --placement none"},
      {"--rank-time-in-all 3", "train_gpt train --help-all lists all options"},  // time-in-all is not for users
      {"--vector-lr 3", "did you mean '--lr-vector'?"},
      {"--every_eval 3", "did you mean '--eval-every'?"},
      {"--out runs", "--out runs is the folder of all runs: name a folder in it, e.g. --out runs/mine"},
      {"--out ./runs/", "is the folder of all runs"},
      {"--layrs 3", "did you mean '--layers'?"},
      {"--wieght-decay 3", "did you mean '--weight-decay'?"},
      {"--accum 3", "did you mean '--accumulate'?"},
      {"--batch-sise 3", "did you mean '--batch'?"},
      {"--learning-rte 3", "did you mean '--lr'?"},
      {"--eval 3", "did you mean '--eval-every' or '--eval-batches' or '--eval-pairs'?"},
  };
  for (const auto& [words, answer] : cases) {
    INFO(words);
    CHECK(contains(error_of(std::string("train my.txt ") + words), answer));
  }
  for (const RunOptimizer& row : run_optimizers())
    CHECK(contains(error_of(std::string("train my.txt --") + row.name), "--optimizer NAME chooses the optimizer"));
  CHECK(error_of("train --flurb 3") == "unknown option '--flurb': train_gpt train --help-all lists all options");
}

TEST_CASE("values with the names of other programs are accepted", "[words]") {
  CHECK(parse("train --norm rms").command.train.config.norm == NormKind::rmsnorm);
  CHECK(parse("train --norm layer_norm").command.train.config.norm == NormKind::layernorm);
  const Config plain = parse("train --norm simple-rmsnorm").command.train.config;
  CHECK(plain.norm == NormKind::rmsnorm);
  CHECK_FALSE(plain.norm_gain);
  CHECK_FALSE(*plain.norm_bias);
  const auto decay = [](const std::string& words) {
    return parse("train " + words).command.train.optimizer_options.output_norm_decay;
  };
  CHECK(decay("--norm-decay 0.5") == .5f);
  CHECK(decay("--norm-decay 0.5 --norm-decay-out 0") == 0);
  const auto out = [](const std::string& words) { return parse("train " + words).command.train.config.norm_sites[2]; };
  CHECK(out("--norm-out non-parametric-layernorm") == NormChoice{NormKind::layernorm, true});
  CHECK(out("--norm-out RMSNorm") == NormChoice{NormKind::rmsnorm});
  CHECK_FALSE(out("--norm-out same"));
  CHECK(parse("train --norm RMSNorm").command.notices.empty());
  CHECK(parse("train --schedule cos").command.train.rate.schedule == Schedule::cosine);
  CHECK(parse("train --activation gelu_new").command.train.config.activation == Activation::gelu_tanh);
  CHECK(parse("train --position rotary").command.train.config.position == Position::rope);
  CHECK(parse("train --preset llama-2").command.train.preset == "llama2");
  CHECK(parse("train --placement Pre-LN").command.train.config.placement == "pre-ln");
  CHECK(error_of("train --tokenizer bpe") ==
        "there is no --tokenizer bpe: write bpe:4096 to train a byte-pair encoding on the text, or name a tokenizer "
        "file");
  CHECK(contains(error_of("train --norm none"), "--placement none has no norms"));
  CHECK(contains(error_of("train --norm rmsnrom"), "did you mean 'rmsnorm'?"));
  CHECK(contains(error_of("train --norm quux"), "choose one of layernorm rmsnorm"));
}

TEST_CASE("options without effect on a command line are noted", "[words]") {
  const Folder f;
  f.write("t.txt", "text");
  const auto notes = [](const std::string& line) {
    std::string text;
    for (const std::string& note : parse(line).command.notices) text += note + "\n";
    return text;
  };
  const std::string file = f.path("t.txt"), folder = f.path(".");
  CHECK(notes("sample --greedy --temperature 2 --top-k 3") ==
        "--temperature has no effect with --greedy\n--top-k has no effect with --greedy\n");
  CHECK(notes("sample --temperature 0 --seed 3") == "--seed has no effect with --temperature 0\n");
  CHECK(notes("sample --temperature 0.1 --seed 3 --top-p 0.5") == "");
  CHECK(notes("sample --greedy --repeat-penalty 2") == "");
  CHECK(notes("compare " + file + " --grid seed=1,2 --tune-runs 9") == "--tune-runs has no effect without --tune\n");
  CHECK(notes("compare " + file + " --tune lr=1,2 --tune-runs 9") == "");
  CHECK(notes("compare --out c --resume --tune-runs 9") == "");
  for (const std::string command : {"train ", "eval --data ", "tokenize --out x ", "tokenizer --out x "}) {
    CHECK(notes(command + file + " --include a*") ==
          "--include has no effect on files that are named: it chooses in folders\n");
    CHECK(notes(command + folder + " --include a*") == "");
  }
}

TEST_CASE("words without dashes are files or a run", "[words]") {
  CHECK(parse("train my.txt").command.train.data == std::vector<std::string>{"my.txt"});
  CHECK(parse("train --steps 9 a.txt b.txt --quiet c.txt").command.train.data.size() == 3);
  CHECK(parse("train --no-bias -").command.train.data == std::vector<std::string>{"-"});
  CHECK(parse("train --no-bias 1").command.train.data == std::vector<std::string>{"1"});
  CHECK(parse("train x --time 9m").command.train.time_limit == "9m");
  CHECK(parse("tokenizer x --out y --vocab-size 512").command.tokenizer.vocabulary == 512);
  CHECK(parse("sample r --weights f16").command.sample.weights == NumberType::fp16);
  CHECK(parse("export r --out x --dtype float16").command.export_model.dtype == "f16");
  CHECK(contains(error_of("export r --out x --to onnx"), "unknown format 'onnx'"));
  for (const std::string no : {"no", "off", "False"}) {
    const TrainOptions o = parse("train --bias " + no + " x").command.train;
    CHECK(o.config.bias == false);
    CHECK(o.data == std::vector<std::string>{"x"});
  }
  CHECK(parse("compare my.txt --grid lr=1,2").command.train.data.size() == 1);
  CHECK(parse("corpus x.txt").command.corpus.out == "x.txt");
  CHECK(contains(error_of("sample a b"), "'b' is one word too many"));
  CHECK(contains(error_of("--data my.txt train"), "the command comes before the options"));
  CHECK(contains(error_of("trian"), "did you mean 'train'?"));
  CHECK(contains(error_of("generate"), "write train_gpt sample"));
  CHECK(contains(error_of("Makefile"), "to train on it, write train_gpt train Makefile"));
}

TEST_CASE("numbers in usual notations, and errors that state the limits", "[words]") {
  CHECK(parse("train --steps 1e3").command.train.steps == 1000);
  CHECK(parse("train --steps 1_000").command.train.steps == 1000);
  CHECK(parse("train --seed 1000000000000000").command.train.seed == 1000000000000000);
  CHECK(parse("train --steps 10k").command.train.steps == 10000);
  CHECK(parse("train --steps 2M --batch 1K").command.train.steps == 2000000);
  CHECK(parse("train --val-fraction 10%").command.train.val_fraction == .1);
  CHECK(parse("train --dropout 12.5%").command.train.config.dropout == .125f);
  CHECK(error_of("train --lr 10%") == "--lr 10% is not a number: choose 0 to 1e6");
  CHECK(error_of("train --val-fraction 95%") == "--val-fraction 95% is outside the range: choose 0 to 0.9");
  for (const char* wrong : {"10m", "k", "1e3k", "10kk", "10%", "10 k"}) {
    const std::vector<std::string> words = {"train", std::string("--steps=") + wrong};
    CHECK(contains(message_of<std::invalid_argument>([&] { parse_words(words); }), " is not a number: choose 0 to"));
  }
  for (const auto& [text, seconds] : {std::pair{"5min", 300}, {"5 min", 300}, {"2 Hours", 7200}, {"1h", 3600},
                                      {"90", 90}, {"90sec", 90}, {"1d", 86400}})
    CHECK(parse_seconds(text) == seconds);
  CHECK(error_of("train --for 1h30m") == "--for 1h30m is not a time: write 90s, 10m or 2h");
  CHECK(parse_bytes("4MB") == 4000000);
  CHECK(parse_bytes("500 kb") == 500000);
  for (const char* wrong : {"min", "5 mi", "5ms", "1h30m", "5m m", "-5m", ""})
    CHECK_THROWS_AS(parse_seconds(wrong), std::invalid_argument);
  CHECK(contains(error_of("train --eval-every 2.5"), "--eval-every 2.5 is not a whole number"));
  CHECK(error_of("train --steps 2.5") == "--steps 2.5 is not a whole number: choose one in 0 to 1e15");
  CHECK(error_of("train --layers many") == "--layers many is not a number: choose 1 to 10000");
  CHECK(error_of("train --layers 0x10") == "--layers 0x10 is not a number: choose 1 to 10000");
  CHECK(error_of("train --lr nan") == "--lr nan is outside the range: choose 0 to 1e6");
  CHECK(error_of("train --lr -1") == "--lr -1 is outside the range: choose 0 to 1e6");
  CHECK(error_of("train --warmup 150%") == "--warmup 150% is outside the range: choose 0% to 100%");
  CHECK(error_of("train --bias=maybe") == "--bias maybe is not true or false: write --bias or --no-bias");
  CHECK(error_of("train --data") == "--data needs a value: write --data FILE...");
  CHECK(error_of("train --out=") == "--out is given an empty name: is a variable unset?");
  CHECK(error_of("train --lr --steps 3") == "--lr needs a value: write --lr X, or --lr=X if it begins with --");
  CHECK(error_of("eval") == "--data is missing: write --data FILE...");
  CHECK(contains(error_of("train --steps 3 --for 9m"), "--steps and --for both say how long to train"));
}

// The limits in a message are themselves allowed.
TEST_CASE("every option takes the ends of its range", "[words]") {
  for (const char* name : {"train", "sample", "compare", "corpus", "eval", "tokenizer"}) {
    const std::string command = name;
    const std::string more = command == "eval" ? " --data x" : command == "tokenizer" ? " x --out y" : "";
    Command c = parse(command + more).command;
    for (const CommandSetting& s : settings_of(c.kind)) {
      if (s.takes != "N" && s.takes != "X") continue;
      std::string message;
      try {
        s.set(c, "nan");
      } catch (const std::invalid_argument& error) {
        message = error.what();
      }
      INFO(message);
      const size_t begin = message.find("choose ") + 7, to = message.find(" to ", begin);
      REQUIRE(to != message.npos);
      CHECK_NOTHROW(s.set(c, message.substr(begin, to - begin)));
      CHECK_NOTHROW(s.set(c, message.substr(to + 4)));
    }
  }
  for (const char* line :
       {"--dropout 0.99", "--dropout 0", "--embedding-scale 1e-6", "--rope-fraction 1", "--mix-fraction 1"}) {
    INFO(line);
    Command c = parse(std::string("train ") + line).command;
    CHECK_NOTHROW(resolve(with_vocabulary(c.train).config));
  }
}

TEST_CASE("the last value of a repeated option counts, and only it is stored", "[words]") {
  const Command c = parse("compare x --grid lr=1,2 --steps 30 --steps 20").command;
  CHECK(c.train.steps == 20);
  CHECK(contains(said_as_toml(c), "steps = \"20\"\n"));
  CHECK(!contains(said_as_toml(c), "30"));
  CHECK(words_for_train(c) == std::vector<std::string>{"train", "--data", "x", "--steps", "20"});
}

// What is true of some options is a trait of their rows. A list of names elsewhere would miss the next option.
TEST_CASE("no list of option names stands next to the table of options", "[words]") {
  const std::set<std::string> tables = {"data/options/command_settings.cpp", "data/options/shared_settings.hpp",
                                        "data/options/train_settings.cpp",  "data/options/options.hpp",
                                        "data/options/foreign_names.cpp",   "layers/config/fields.cpp"};
  const std::regex literal("\"([^\"\\\\]*)\"");
  for (const auto& [path, text] : pages::read_tree().sources) {
    if (!(path.starts_with("data/") || path.starts_with("layers/") || path == "train_gpt.cpp")) continue;
    if (tables.contains(path)) continue;
    std::istringstream statements(text);
    for (std::string statement; std::getline(statements, statement, ';');) {
      if (contains(statement, "kRoles[]")) continue;  // parts of a model; some options have the same name
      std::set<std::string> named;  // a literal may be a list in itself
      for (std::sregex_iterator i(statement.begin(), statement.end(), literal), end; i != end; ++i) {
        std::istringstream words((*i)[1]);
        for (std::string word; words >> word;)
          if (find_setting(train_settings(), word)) named.insert(word);
          else break;
      }
      INFO(path << ": " << statement);
      CHECK(named.size() < 4);
    }
  }
}

// ---- help ------------------------------------------------------------------------------------------------

TEST_CASE("the version names commit, compiler, OpenMP and SIMD", "[words]") {
  for (const char* line : {"--version", "version", "-V"}) {
    const std::string text = parse(line).text;
    CHECK(text.starts_with("train_gpt "));
    for (const char* what : {"compiler", "OpenMP", "SIMD"}) CHECK(contains(text, what));
  }
}

TEST_CASE("all the usual ways to ask for help work", "[words]") {
  const std::string all = parse("--help").text, train = parse("train --help").text;
  for (const char* line : {"", "-h", "help"}) CHECK(parse(line).text == all);
  for (const char* line : {"train -h", "help train", "train --nonsense --help"}) CHECK(parse(line).text == train);
  for (const char* line : {"train --help all", "help train all"})
    CHECK(parse(line).text == parse("train --help-all").text);
  CHECK(contains(all, "3 if training diverged"));
  CHECK(contains(train, "--lr X"));
  CHECK(!contains(train, "--adam-eps"));
  CHECK(contains(parse("train --help-all").text, "--adam-eps"));
  for (const char* line : {"soft cap on logits (default: off)\n", "print a sample every N steps (default: never)\n",
                           "number of blocks (L; default: 4)\n", "RoPE base (default: 10000)\n"})
    CHECK(contains(parse("train --help-all").text, line));
  CHECK(contains(error_of("help trian"), "did you mean 'train'?"));
}

TEST_CASE("help is narrow, short and complete", "[words]") {
  for (const CommandRow& row : commands()) {
    INFO(row.name);
    const std::string shorter = help_of(row, false), longer = help_of(row, true);
    for (const std::string& text : {shorter, longer, help_of_program()})
      for (const std::string& line : lines_of(text)) {
        INFO(line);
        CHECK(line.size() <= 80);
        CHECK(!contains(line, "{"));
      }
    for (const Setting& s : settings_of(row.kind)) {
      INFO(s.name);
      std::istringstream words(s.help.substr(0, s.help.find(" (")));
      CHECK(std::distance(std::istream_iterator<std::string>(words), {}) <= 10);
      CHECK((s.group.empty() || contains(longer, s.positional ? s.takes : s.name)));
    }
  }
}

TEST_CASE("the examples in the help work", "[words][slow]") {
  const Corpus f;
  f.write("pairs.jsonl", "{\"sentence_good\": \"a cat sat\", \"sentence_bad\": \"a sat cat\"}\n");
  REQUIRE(f.run("train stories.txt --steps 2 --sample-every 0" + kSmall).status == 0);
  f.write("my.txt", f.read("stories.txt"));
  for (const CommandRow& row : commands())
    for (const std::string& example : lines_of(row.examples)) {
      INFO(example);
      CHECK(error_of(example) == "");
      // Run them too, unless they take long.
      std::string line = example;
      if (contains(line, "'") || contains(line, "--for") || contains(line, "--resume")) continue;
      if (row.kind == Command::Kind::train || row.kind == Command::Kind::compare) line += " --dry-run";
      if (row.kind == Command::Kind::init_report) line += " --channels 32 --context 32";
      if (row.kind == Command::Kind::corpus) line += " --force";
      const Outcome o = f.run(line);
      INFO(o.err);
      CHECK(o.status == 0);
    }
}

// ---- output ----------------------------------------------------------------------------------------------

TEST_CASE("all words after -- are files", "[words]") {
  const Corpus f;
  f.write("--steps", f.read("stories.txt"));
  CHECK(contains(f.run("train --layers 1 --dry-run -- --steps").out, "--steps: 59"));
  CHECK(contains(f.run("sample -- a b").err, "'b' is one word too many"));
}

TEST_CASE("a count of one is printed with a singular noun", "[words]") {
  const Corpus f;
  const Outcome one = f.run(
      "train stories.txt --dry-run --layers 1 --heads 1 --threads 1 --steps 1 --batch 1 --context 1 --documents file");
  for (const char* text : {"1 layer x", ", 1 head,", "1 thread,", "1 of 1 token ("}) CHECK(contains(one.out, text));
  const Outcome info = f.run("info --layers 1 --heads 1 --context 1");
  for (const char* text : {"1 layers", "1 heads", "1 tokens", "1 times"})
    CHECK(!contains(info.out, std::string(" ") + text));
  CHECK(contains(f.run("compare stories.txt --grid layers=1 --steps 1 --dry-run").out,
                 "1 cell, 1 seed: 1 run of 1 step into "));
}

TEST_CASE("a command without a run names the run it chose and says whether it has finished", "[words]") {
  const Corpus f;
  REQUIRE(f.run("train stories.txt --steps 2" + kSmall).status == 0);
  const std::string name = "runs/0001-pre-layernorm/best.safetensors (the newest run";
  CHECK(contains(f.run("sample --length 3").err, name + "), step 2"));
  CHECK(contains(f.run("eval --data stories.txt").out, name + "), step 2"));
  CHECK(contains(f.run("info").out, name + "), step 2"));
  CHECK(!contains(f.run("info runs/0001-pre-layernorm").out, "newest"));
  std::remove(f.path("runs/0001-pre-layernorm/outcome.json").c_str());
  CHECK(contains(f.run("info").out, name + ", not finished), step 2"));
}
