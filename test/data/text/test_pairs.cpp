// Pairs of sources and targets: how they are read, which tokens they are, and how they fill rows.

#include <algorithm>
#include <numeric>
#include <sstream>

#include "catch.hpp"
#include "data/corpus/translation.hpp"
#include "data/files/json.hpp"
#include "data/run/evaluate.hpp"
#include "data/run/generate_text.hpp"
#include "data/run/step_inputs.hpp"
#include "data/text/readers/pairs.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "message.hpp"
#include "numbered_lines.hpp"
#include "small_run.hpp"

namespace {

using Ints = std::vector<int>;
using Texts = std::vector<std::string>;

// What a file holds: source, target, source, ...
Texts texts_in(const std::string& file, const std::string& name = "p.txt", const JsonFields& fields = {}) {
  std::string text = "before";
  Texts found;
  for (const TextSpan& span : append_pairs(text, file, name, fields)) {
    CHECK((span.is_first && span.counts));
    found.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return found;
}

std::string refusal(const std::string& file, const std::string& name = "p.tsv") {
  return message_of<std::runtime_error>([&] { texts_in(file, name); });
}

Dataset load(const Folder& f, const std::string& file, int context, Packing packing = Packing::documents,
             double val_fraction = 0, const std::string& tokenizer = "byte") {
  TextOptions options;
  options.reads_pairs = true;
  options.packing = packing;
  options.data = {f.path(file)};
  options.tokenizer = tokenizer;
  options.val_fraction = val_fraction;
  return load_dataset(options, nullptr, context);
}

// Lines of pairs whose texts have lengths that vary.
std::string lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += std::string(1 + i * i % 7, 'a' + i % 26) + "\t" + std::string(1 + i * 3 % 5, 'A' + i % 26) + "\n";
  return text;
}

// What row b of a batch holds: each source that a target sees, and the target's text, up to the filler.
std::vector<std::pair<std::string, std::string>> pairs_in(const Dataset& data, const RowBatch& rows, int b) {
  const EncoderRows& encoder = rows.encoder;
  const int *targets = &rows.targets[b * rows.T], *from = &encoder.from[b * rows.T], *to = &encoder.to[b * rows.T];
  const auto text = [&](const int* tokens, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += data.tokenizer.decode(tokens[i]);
    return all;
  };
  std::vector<std::pair<std::string, std::string>> found;
  for (int t = 0; t < rows.T && targets[t] != kIgnore;) {
    int end = t;
    while (end < rows.T && targets[end] != kIgnore && from[end] == from[t]) ++end;
    for (int i = t; i < end; ++i) CHECK(to[i] == to[t]);
    const int* source = &encoder.tokens[b * encoder.T];
    found.emplace_back(text(source + from[t], to[t] - from[t]), text(targets + t, end - t));
    t = end;
  }
  return found;
}

}  // namespace

// ---- files -----------------------------------------------------------------------------------------------

TEST_CASE("pairs are JSON lines, or two columns with a tab between them", "[pairs]") {
  const Texts two = {"a b", "c", "d", "e f"};
  CHECK(texts_in("a b\tc\n\n  \nd\te f\n") == two);
  CHECK(texts_in("a b\tc\nd\te f") == two);
  CHECK(texts_in("{\"source\": \"a b\", \"target\": \"c\"}\n\n"
                 "{\"target\": \"e f\", \"source\": \"d\", \"n\": 1}\n") == two);
  CHECK(texts_in("{\"x\": \"a b\", \"y\": \"c\"}\n{\"x\": \"d\", \"y\": \"e f\"}", "p.jsonl",
                 {.source_field = "x", .target_field = "y"}) == two);
  CHECK(texts_in("{\tc\n") == Texts{"{", "c"});  // no JSON
  CHECK(texts_in("füße\t狐🦊\n") == Texts{"füße", "狐🦊"});
  CHECK(texts_in("{\"source\": \"a\\tb\\n\", \"target\": \"\\\"c\"}") == Texts{"a\tb\n", "\"c"});
  CHECK(texts_in("\n \n").empty());
}

TEST_CASE("a line that is no pair is named", "[pairs]") {
  CHECK(refusal("a\tb\nc d\n") == "p.tsv, line 2: there is no tab: a line is a source, a tab and a target, or "
                                  "{\"source\": ..., \"target\": ...}");
  CHECK(refusal("a\tb\n\nc\td\te\n").starts_with("p.tsv, line 3: there are 2 tabs: a line is a source"));
  CHECK(refusal("\tb\n") == "p.tsv, line 1: the source is empty: leave the line out");
  CHECK(refusal("a\t\n") == "p.tsv, line 1: the target is empty: leave the line out");
  CHECK(refusal("\t\n").starts_with("p.tsv, line 1: the source is empty"));
  CHECK(refusal("{\"source\": \"a\", \"target\": \"\"}", "p.jsonl") ==
        "p.jsonl, line 1: the target is empty: leave the line out");
  CHECK(refusal("{\"source\": \"a\", \"target\": \"b\"}\n{\"source\": \"a\"}", "p") ==
        "p, line 2: there is no \"target\": name the field with --target-field");
  CHECK(refusal("{\"prompt\": \"a\", \"completion\": \"b\"}", "p.jsonl") ==
        "p.jsonl, line 1: there is no \"source\": name the field with --source-field");
  CHECK(refusal("{\"source\": 3, \"target\": \"b\"}", "p.jsonl") == "p.jsonl, line 1: \"source\" is not a text");
  CHECK(refusal("a\tb\n", "p.jsonl").starts_with("p.jsonl, line 1: "));
}

// ---- tokens and rows -------------------------------------------------------------------------------------

TEST_CASE("a source ends with a token, and a target begins with one that is read only", "[pairs]") {
  const Folder f;
  f.write("p.tsv", "ab\tc\r\nd\tefg\r\n");
  const Dataset data = load(f, "p.tsv", 12);
  REQUIRE(data.rows.size() == 1);
  CHECK(data.rows.targets() == 2 + 4);
  CHECK(data.train == 3 + 5);  // targets, and the token that begins each
  CHECK(contains(data.notes.at(0), "CRLF"));
  const int E = data.around.last, I = kIgnore;
  const RowBatch row = fill_rows(data, data.rows, 0, 2, 12);
  // The longer pair comes first. The rest repeats the last one, and is an example of its own that sees its source.
  CHECK(Ints(row.tokens.begin(), row.tokens.begin() + 12) == Ints{E, 'e', 'f', 'g', E, 'c', E, 'c', E, 'c', E, 'c'});
  CHECK(Ints(row.targets.begin(), row.targets.begin() + 12) == Ints{'e', 'f', 'g', E, 'c', E, I, I, I, I, I, I});
  CHECK(Ints(row.begins.begin(), row.begins.begin() + 12) == Ints{0, 0, 0, 0, 4, 4, 6, 6, 6, 6, 6, 6});
  const EncoderRows& encoder = row.encoder;
  CHECK(encoder.T == 12);
  CHECK(Ints(encoder.tokens.begin(), encoder.tokens.begin() + 12) ==
        Ints{'d', E, 'a', 'b', E, 'a', 'b', E, 'a', 'b', E, 'a'});
  CHECK(Ints(encoder.begins.begin(), encoder.begins.begin() + 12) == Ints{0, 0, 2, 2, 2, 5, 5, 5, 5, 5, 5, 5});
  CHECK(Ints(encoder.from.begin(), encoder.from.begin() + 12) == Ints{0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(Ints(encoder.to.begin(), encoder.to.begin() + 12) == Ints{2, 2, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5});
  // There is no second row: nothing counts, and every place sees something.
  CHECK(std::count(row.targets.end() - 12, row.targets.end(), kIgnore) == 12);
  CHECK(std::count(encoder.from.end() - 12, encoder.from.end(), 0) == 12);
  CHECK(std::count(encoder.to.end() - 12, encoder.to.end(), 12) == 12);
}

TEST_CASE("a padded row holds one pair", "[pairs]") {
  const Folder f;
  f.write("p.tsv", "ab\tc\nd\tefg\n");
  const Dataset data = load(f, "p.tsv", 6, Packing::padded);
  REQUIRE(data.rows.size() == 2);
  const int E = data.around.last, I = kIgnore;
  const RowBatch rows = fill_rows(data, data.rows, 0, 2, 6);
  CHECK(rows.begins == Ints{0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 4, 4});
  CHECK(rows.tokens == Ints{E, 'c', E, 'c', E, 'c', E, 'e', 'f', 'g', E, 'e'});
  CHECK(rows.targets == Ints{'c', E, I, I, I, I, 'e', 'f', 'g', E, I, I});
  CHECK(rows.encoder.tokens == Ints{'a', 'b', E, 'a', 'b', E, 'd', E, 'd', E, 'd', E});
  CHECK(rows.encoder.begins == Ints{0, 0, 0, 3, 3, 3, 0, 0, 2, 2, 2, 2});
  CHECK(rows.encoder.from == Ints(12, 0));
  CHECK(rows.encoder.to == Ints{3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2});
}

TEST_CASE("with two tokens around documents, one begins targets and the other ends both", "[pairs]") {
  const Folder f;
  f.write("p.tsv", "ab\tcd\nef\tgh\n");
  const Dataset data = load(f, "p.tsv", 16, Packing::padded, 0, "test/reference/pieces/llama2.model");
  REQUIRE(data.around.first != data.around.last);
  const RowBatch row = fill_rows(data, data.rows, 0, 1, 16);
  const auto encoded = [&](const std::string& text) {
    const auto tokens = data.tokenizer.encode(text);
    return Ints(tokens.begin(), tokens.end());
  };
  Ints source = encoded("ab"), target = encoded("cd");
  source.push_back(data.around.last);
  CHECK(Ints(row.encoder.tokens.begin(), row.encoder.tokens.begin() + source.size()) == source);
  CHECK(row.encoder.to[0] == static_cast<int>(source.size()));
  CHECK(row.tokens[0] == data.around.first);
  CHECK(Ints(row.tokens.begin() + 1, row.tokens.begin() + 1 + target.size()) == target);
  target.push_back(data.around.last);
  CHECK(Ints(row.targets.begin(), row.targets.begin() + target.size()) == target);
  CHECK(row.targets[target.size()] == kIgnore);
}

// BART's tokenizer makes "<s> ... </s>" of a text, and its decoder begins with </s>.
TEST_CASE("if a tokenizer begins texts with a token that does not begin targets, sources and targets have it",
          "[pairs]") {
  const Folder f;
  f.write("p.tsv", "ab\tcd\n");
  const Dataset other = load(f, "p.tsv", 16, Packing::padded, 0, "test/reference/pieces/llama2.model");
  const Tokenizer& bart = other.tokenizer;  // its <s> and </s> are 1 and 2
  const DocumentTokens around = tokens_around_pairs(bart, "</s>");
  CHECK(around.start() == Ints{2, 1});
  CHECK(around.last == 2);
  CHECK(tokens_around_pairs(bart, "<s>").start() == Ints{1});
  TextOptions options;
  options.reads_pairs = true;
  options.packing = Packing::padded;
  options.data = {f.path("p.tsv")};
  options.separator = "</s>";
  options.val_fraction = 0;
  const Dataset data = load_dataset(options, &bart, 16);
  const RowBatch row = fill_rows(data, data.rows, 0, 1, 16);
  const auto around_text = [&](Ints before, const std::string& text, Ints after) {
    for (const uint32_t token : bart.encode(text)) before.push_back(static_cast<int>(token));
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  const Ints source = around_text({1}, "ab", {2}), read = around_text({2, 1}, "cd", {}),
             target = around_text({1}, "cd", {2});
  CHECK(Ints(row.encoder.tokens.begin(), row.encoder.tokens.begin() + source.size()) == source);
  CHECK(row.encoder.to[0] == static_cast<int>(source.size()));
  CHECK(Ints(row.tokens.begin(), row.tokens.begin() + read.size()) == read);
  CHECK(Ints(row.targets.begin(), row.targets.begin() + target.size()) == target);
  CHECK(row.targets[target.size()] == kIgnore);
  CHECK(source_tokens(bart, "ab", around, 16, {}) == source);
}

TEST_CASE("a row has room for the sources and for the targets of its pairs", "[pairs]") {
  std::vector<TokenWindow> windows;
  size_t targets = 0, sources = 0;
  for (int i = 0; i < 1000; ++i) {
    const int length = 1 + i * i % 97, source = std::min(100, 1 + length * (50 + i % 101) / 100);
    windows.push_back({.start = 1000u * i, .length = length, .targets = length, .source = 7u * i,
                       .source_length = source});
    targets += length;
    sources += source;
  }
  const int T = 100;
  const Rows rows = packed_rows(windows, T);
  CHECK(rows.windows().size() == windows.size());
  CHECK(rows.longest() <= T);
  CHECK(packed_rows({{.start = 9, .length = 2, .targets = 2, .source = 0, .source_length = 8}}, T).longest() == 8);
  for (size_t r = 0; r < rows.size(); ++r) {
    int length = 0, source = 0;
    for (const TokenWindow& window : rows[r]) {
      CHECK(window.source == 7 * window.start / 1000);
      length += window.length;
      source += window.source_length;
    }
    CHECK((length <= T && source <= T));
  }
  CHECK(rows.size() <= 1.12 * static_cast<double>(std::max(targets, sources)) / T);
}

TEST_CASE("each epoch reads every pair once, with its own source", "[pairs]") {
  const Folder f;
  f.write("p.tsv", lines(60));
  std::vector<std::pair<std::string, std::string>> want;
  std::istringstream text(lines(60));
  const std::string end = "<|endoftext|>";
  for (std::string line; std::getline(text, line);)
    want.emplace_back(line.substr(0, line.find('\t')) + end, line.substr(line.find('\t') + 1) + end);
  std::ranges::sort(want);
  for (const Packing packing : {Packing::documents, Packing::padded}) {
    const Dataset data = load(f, "p.tsv", 16, packing);
    const auto rows = static_cast<int>(data.rows.size());
    for (const uint64_t epoch : {0, 3}) {
      const StepRows step = {1, epoch, static_cast<uint64_t>(rows)};
      const RowBatch batch = draw_batch(data, rows, 16, step, 0);
      std::vector<std::pair<std::string, std::string>> got;
      for (int b = 0; b < rows; ++b)
        for (const auto& pair : pairs_in(data, batch, b)) got.push_back(pair);
      std::ranges::sort(got);
      CHECK(got == want);
      // A resumed run, or another division into micro-batches, reads the same rows.
      const RowBatch again = draw_batch(data, 2, 16, step, 3);
      CHECK(std::ranges::equal(again.encoder.tokens, std::span(batch.encoder.tokens).subspan(48, 32)));
      CHECK(std::ranges::equal(again.encoder.from, std::span(batch.encoder.from).subspan(48, 32)));
      CHECK(tokens_of_step(data, 16, step, 5) == 5);  // targets alone count as tokens of a step
      CHECK(tokens_before(data, 16, {1, epoch + 1, step.rows}) - tokens_before(data, 16, step) ==
            static_cast<int64_t>(data.rows.targets()));
    }
  }
}

TEST_CASE("no place sees the padding of sources, or another pair's source", "[pairs]") {
  const Folder f;
  f.write("p.tsv", lines(60));
  const Dataset data = load(f, "p.tsv", 16);
  const RowBatch rows = fill_rows(data, data.rows, 0, static_cast<int>(data.rows.size()), 16);
  for (size_t i = 0; i < rows.tokens.size(); ++i) {
    const int from = rows.encoder.from[i], to = rows.encoder.to[i];
    const size_t row = i - i % 16;
    REQUIRE((from < to && to <= 16));
    for (int s = from; s < to; ++s) CHECK(rows.encoder.begins[row + s] == from);
    CHECK(rows.encoder.tokens[row + to - 1] == data.around.last);
    CHECK((to == 16 || rows.encoder.begins[row + to] == to));
    if (i % 16 > 0 && rows.begins[i] == rows.begins[i - 1]) CHECK(from == rows.encoder.from[i - 1]);
  }
}

TEST_CASE("the micro-batches of a step carry their sources", "[pairs]") {
  const Folder f;
  f.write("p.tsv", lines(60));
  TrainOptions o;
  o.config.context = 16, o.batch = 2, o.accumulate = 3;
  const Dataset data = load(f, "p.tsv", 16);
  const MicroBatches batches = micro_batches(data, o, 2);
  for (int micro = 0; micro < 3; ++micro) {
    const RowBatch want = draw_batch(data, 2, 16, step_rows(o, 2), 2 * micro);
    const EncoderInput got = batches.batch(micro).encoder;
    REQUIRE(got.T == 16);
    const std::pair<const int*, const Ints*> parts[] = {{got.tokens, &want.encoder.tokens},
                                                        {got.begins, &want.encoder.begins},
                                                        {got.from, &want.encoder.from},
                                                        {got.to, &want.encoder.to}};
    for (const auto& [numbers, wanted] : parts) CHECK(std::ranges::equal(std::span(numbers, 32), *wanted));
  }
  CHECK(RowBatch{1, 1, {0}, {0}}.batch().encoder.tokens == nullptr);
}

// ---- datasets --------------------------------------------------------------------------------------------

TEST_CASE("pairs that are longer than the context are left out, and counted", "[pairs]") {
  const Folder f;
  f.write("p.tsv", "abcd\te\nabc\tabc\na\tbcde\nab\tabcd\n");
  const Dataset data = load(f, "p.tsv", 4);
  CHECK(data.rows.windows().size() == 1);  // three tokens and the end of each
  CHECK(data.notes.at(0) == "left out 3 pairs whose source or target is longer than the context of 4");
  CHECK(message_of<std::runtime_error>([&] { load(f, "p.tsv", 2); }) ==
        "there is no pair that fits the context to train on in " + f.path("p.tsv"));
  f.write("one.tsv", "a\tb\n");
  CHECK(load(f, "one.tsv", 4).rows.windows().size() == 1);
  CHECK(contains(message_of<std::runtime_error>([&] { load(f, "one.tsv", 4, Packing::documents, .1); }),
                 "there is no pair that fits the context for validation"));
}

TEST_CASE("both columns make the tokenizer, and bytes are those of targets", "[pairs]") {
  const Folder f;
  f.write("p.tsv", "ab\txyz\nc\tw\n");
  const Dataset data = load(f, "p.tsv", 8, Packing::documents, .3, "char");
  CHECK(data.tokenizer.alphabet() == std::vector<uint32_t>{'a', 'b', 'c', 'w', 'x', 'y', 'z'});
  CHECK(data.val_targets() == 2);
  CHECK(data.val_bytes == 1);
  CHECK(data.words == 4);
  std::string many;
  for (int i = 0; i < 50; ++i) many += "sausage\tWurst\n";
  f.write("many.tsv", many);
  const Tokenizer bpe = load(f, "many.tsv", 8, Packing::documents, 0, "bpe:280").tokenizer;
  CHECK(bpe.encode("sausage").size() == 1);
  CHECK(bpe.encode("Wurst").size() == 1);
}

TEST_CASE("the floor of a translation corpus is that of targets given their sources", "[pairs][translation][program]") {
  const Folder f;
  for (const std::string name : {"p.jsonl", "p.tsv"}) {
    f.must("corpus " + name + " --pairs-of translation --count 60");
    const int T = 256;
    const Dataset data = load(f, name, T, Packing::documents, .2);
    std::istringstream text(f.read(name));
    std::vector<SentencePair> pairs;
    for (std::string line; std::getline(text, line);) pairs.push_back(read_pair(line));
    const size_t n = data.val.windows().size();
    double nats = 0, tokens = 0;
    for (size_t i = pairs.size() - n; i < pairs.size(); ++i) {
      nats += *translation_nats(pair_grammar(), pairs[i].source, pairs[i].target);
      tokens += static_cast<double>(pairs[i].target.size() + 1);  // and the end, which is certain
    }
    CHECK(n > 5);
    CHECK(tokens == static_cast<double>(data.val_targets()));
    CHECK(data.floor == Approx(nats / tokens).epsilon(1e-6));
    // Pairs that are left out do not count in the floor.
    const Dataset shorter = load(f, name, 80, Packing::documents, .2);
    REQUIRE(shorter.val.windows().size() < n);
    nats = tokens = 0;
    for (size_t i = pairs.size() - n; i < pairs.size(); ++i) {
      if (pairs[i].source.size() >= 80 || pairs[i].target.size() >= 80) continue;
      nats += *translation_nats(pair_grammar(), pairs[i].source, pairs[i].target);
      tokens += static_cast<double>(pairs[i].target.size() + 1);
    }
    CHECK(shorter.floor == Approx(nats / tokens).epsilon(1e-6));
    // A decoder alone that learns both columns as one text has another floor.
    CHECK_FALSE(contains(f.run("train " + name + " --dry-run --quiet --context 64 " +
                               (name == "p.tsv" ? "" : "--text-field target")).out, "floor"));
  }
}

TEST_CASE("a text of the wrong kind is refused, and the other objective named", "[pairs][program]") {
  const Folder f;
  f.write("p.jsonl", "{\"source\": \"a\", \"target\": \"b\"}\n");
  check_refused(f, "train p.jsonl --dry-run",
                "p.jsonl, line 1: it is a pair of \"source\" and \"target\": learn it with --objective pairs, or with "
                "--prompt-field source --completion-field target");
  f.write("p.tsv", lines(40));
  CHECK(contains(f.run("train p.tsv --dry-run --quiet --context 8").out,
                 "NOTE     columns are learned as text: p.tsv; --objective pairs learns the second from the first"));
  const std::string pairs = "--dry-run --objective pairs --encoder-layers 1 ";
  f.write("notes.txt", "no pairs\n");
  check_refused(f, "train notes.txt " + pairs, "notes.txt, line 1: there is no tab");
  check_refused(f, "train p.tsv --packing stream " + pairs, "--packing stream reads no pairs");
  check_refused(f, "train p.tsv --chat-template plain " + pairs, "leave it out with --objective pairs");
  f.write("text.txt", std::string(3000, 'x') + "\n");
  f.must("tokenize text.txt --tokenizer bpe:300 --out tokens");
  check_refused(f, "train tokens " + pairs, "holds tokens, and --objective pairs reads text");
  CHECK(contains(f.run("train text.txt --dry-run --source-field x --context 8").out,
                 "--source-field has no effect with --objective lm"));
}

// ---- runs ------------------------------------------------------------------------------------------------

TEST_CASE("a run of pairs resumes with the same bits, and its loss does not depend on packing", "[pairs][program]") {
  const Folder f;
  f.write("p.tsv", lines(400));
  const std::string words = "train p.tsv --objective pairs --encoder-layers 1 --layers 1 --heads 2 --channels 16 "
                            "--context 24 --batch 2 --schedule constant --dropout .1 ";
  f.must(words + "--steps 40 --quiet --out whole");
  f.must(words + "--steps 25 --quiet --out parts");
  f.must("train --out parts --resume --steps 40 --quiet");
  CHECK(last_weights(f, "parts") == last_weights(f, "whole"));
  const TrainedModel trained = load_trained_model(f.path("whole/checkpoint.safetensors"));
  const Activations activations = allocate_activations(trained.model.config, 3, 24, false);
  const auto loss = [&](Packing packing) {
    return evaluate(trained.model, activations, load(f, "p.tsv", 24, packing, .2), 3, 0);
  };
  CHECK(loss(Packing::padded) == Approx(loss(Packing::documents)).epsilon(1e-6));
  const Outcome measured = f.run("eval whole --data p.tsv --json");
  const nlohmann::json result = parse_json(measured.out);
  CHECK(result["answers"] == 400);
  CHECK(result["loss"].get<double>() < std::log(257.));
  CHECK(result["tokens"] == 400 * 3 + 400);  // of one to five letters, and the end of each
}

TEST_CASE("sample writes the target of a source", "[pairs][spans][program]") {
  const Folder f;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "ab\tcde\n";
  f.write("p.tsv", text);
  f.must("train p.tsv --objective pairs --encoder-layers 1 --layers 1 --heads 2 --channels 32 --context 12 --steps 60 "
         "--quiet --out r");
  CHECK(f.run("sample r --prompt ab --greedy").out == "cde\n");
  CHECK(f.run("sample r --greedy", "ab").out == "cde\n");
  CHECK(f.run("sample r --interactive --greedy", "ab\nab\n").out == "cde\ncde\n");
  const nlohmann::json sample = parse_json(f.run("sample r --prompt ab --greedy --json").out);
  CHECK((sample["text"] == "cde" && sample["end"] == "document" && sample["tokens"].size() == 3));
  CHECK(parse_json(f.run("sample r --prompt ab --greedy --length 2 --json").out)["end"] == "length");
  CHECK(count_lines(f.run("sample r --prompt ab --count 3").out) >= 3);
  CHECK(contains(f.run("sample r --prompt abcdefghijkl").err, "the source text has 13 tokens, and the model reads"));
  CHECK(contains(f.run("sample r").err, "there is no source text to read"));
  const Tokenizer tokenizer = Tokenizer::bytes().with_special({"<e>", "<extra_id_1>", "<extra_id_0>"});
  CHECK(source_tokens(tokenizer, "a<extra_id_0>b<extra_id_1>", {256, 256}, 9, spans_with(tokenizer)) ==
        Ints{'a', 258, 'b', 257, 256});
  CHECK(source_tokens(tokenizer, "<extra_id_0>", {256, 256}, 16).size() == 13);
  f.write("t.txt", numbered_lines(60));
  f.must("train t.txt --objective span --tokenizer char --encoder-layers 1 --layers 1 --heads 1 --channels 8 "
         "--context 32 --steps 1 --warmup 0 --quiet --out s");
  const std::string unknown = "sample s --prompt li<extra_id_0>\xe2\x82\xac --length 2 ";
  CHECK(contains(f.run(unknown).err, "byte 15 of the prompt: character"));
  f.must(unknown + "--unknown skip");
}

TEST_CASE("a run shows what it writes for sources", "[pairs][spans][program]") {
  const Folder f;
  f.write("p.tsv", lines(40));
  const std::string small = " --encoder-layers 1 --layers 1 --heads 1 --channels 8 --context 24 --batch 2 --steps 2 ";
  const auto sample = [&](const std::string& words) {
    const std::string out = f.run("train " + words + small).out;
    const size_t begin = out.find("---- sample ----\n"), end = out.find("\n----------------", begin + 17);
    REQUIRE(end != out.npos);
    return out.substr(begin + 17, end - begin - 17);
  };
  const std::string shown = sample("p.tsv --objective pairs --out a") + "\n";
  CHECK(count_lines(shown) == 6);
  CHECK(contains("\n" + lines(40), "\n" + shown.substr(0, shown.find('\n')) + "\t"));  // a source
  CHECK(contains(sample("p.tsv --objective span --out c"), "<extra_id_0>"));
}

TEST_CASE("relative positions: a run of pairs resumes to the bit, and its translations are parsed",
          "[pairs][translation][program][long]") {
  // What the model learns to write is right, right in another way, right for another sentence, and no sentence.
  const std::vector<std::vector<std::string>> rows = {
      {"By the river, the baker slept before the cat sang.", "kantisa le miava pos dormiso le pano sur rivu."},
      {"On the hill, Ben drew one frog when Sam ran.", "ve kuriso Samo tem un ribo skiziso Beno sur montu."},
      {"At the market, the dog ran because the cat slept.", "kuriso le vufo zar dormisa le miava sur bazu."},
      {"In the school, Mia danced and Leo sang.", "kantisa Leo i salsisa Mia sur skulu."}};
  const Folder f;
  std::string learned, wanted;
  for (const std::vector<std::string>& row : rows) {
    learned += row[0] + "\t" + row[1] + "\n";
    const SynchronousGrammar& literal = pair_grammar("literal");
    const SynchronousGrammar target = literal.given(row[0]);
    REQUIRE_FALSE(target.rules.empty());
    wanted += row[0] + "\t" + target.tell([] { return 0.; }).source + "\n";
  }
  f.write("learned.tsv", learned);
  f.write("wanted.tsv", wanted);
  const std::string words = "train learned.tsv --val-data wanted.tsv --objective pairs --position relative "
                            "--encoder-layers 1 --layers 1 --heads 2 --channels 32 --context 64 --batch 2 --lr 5e-3 "
                            "--tokenizer bpe:300 --schedule constant --warmup 10 --quiet ";
  f.must(words + "--steps 200 --out whole");
  f.must(words + "--steps 60 --out parts");
  f.must("train --out parts --resume --steps 200 --quiet");
  CHECK(last_weights(f, "parts") == last_weights(f, "whole"));
  const std::string last = "whole/checkpoint.safetensors", eval = "eval " + last + " --data wanted.tsv ";
  for (const std::vector<std::string>& row : rows) {
    CHECK(f.run("sample " + last, row[0]).out == row[1] + "\n");
    CHECK(f.run("sample --beams 2 " + last, row[0]).out == row[1] + "\n");
  }
  const nlohmann::json result = parse_json(f.run(eval + "--pairs-of translation --json").out);
  CHECK((result["answers"] == 4 && result["exact"] == 1));
  CHECK((result["sources"] == 4 && result["translated"] == 2 && result["sentences"] == 3));
  CHECK(contains(f.run(eval + "--pairs-of literal").out,
                 "1 of 4 sources translated (25.0 %); the model writes 2 sentences of the target language (50.0 %)"));
  CHECK_FALSE(contains(f.run(eval).out, "translated"));
  f.write("other.tsv", "By the moon.\tle miava.\n");
  check_refused(f, "eval whole --data other.tsv --pairs-of translation",
                "--pairs-of translation has no sentence 'By the moon.': name the grammar of this text");
  f.must("train learned.tsv --steps 1 --out text" + kTiny);
  check_refused(f, "eval text --data learned.tsv --pairs-of translation", "was not trained with --objective pairs");
  check_refused(f, "eval whole --pairs q.jsonl --pairs-of translation", "reads questions only: leave out --data");
}
